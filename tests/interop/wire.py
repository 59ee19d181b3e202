"""What tshark, an independent dissector, finds in the capture of a case.

What tshark 4.0 does not know is left out of account: it warns of revision 2 and of the flag of
enhanced startup, and it guesses upper protocols from a Send's first octets (switched off here).
"""
import collections
import os
import re
import shutil
import subprocess

from stock import Failure, Skip, expect

GUESSES = ("rpcordma", "smb_direct", "iscsi")
KNOWN_WARNINGS = ("Res field is NOT set to zero", "Rev field is NOT set to one")
MARKERS, CRC, REJECTED, ENHANCED = 0x80, 0x40, 0x20, 0x10


class Frame:
    """An MPA Request or Reply (RFC 5044 section 7.1, RFC 6581 section 9)."""

    def __init__(self, kind):
        self.kind, self.flags, self.revision = kind, 0, None
        self.private_octets, self.private = 0, b""  # tshark shows no more than the first

    def words(self):
        """The two words of enhanced startup; the private data of the program follows them."""
        expect(self.flags & ENHANCED and len(self.private) >= 4, f"{self.kind} is not enhanced")
        return int.from_bytes(self.private[:2], "big"), int.from_bytes(self.private[2:4], "big")

    ird = property(lambda self: self.words()[0] & 0x3fff)
    ord = property(lambda self: self.words()[1] & 0x3fff)
    peer_to_peer = property(lambda self: bool(self.words()[0] & 0x8000))

    @property
    def rtr(self):
        """Kinds of ready-to-receive messages: a set of "send", "write", "read"."""
        first, second = self.words()
        bits = {"send": first & 0x4000, "write": second & 0x8000, "read": second & 0x4000}
        return {name for name, bit in bits.items() if bit} if self.peer_to_peer else set()

    def __str__(self):
        return (f"{self.kind} flags=0x{self.flags:02x} revision={self.revision} "
                f"private={self.private_octets}:{self.private.hex()}")


class Wire:
    """A finished capture. Octets are counted by sender: "initiator" or "responder"."""

    def __init__(self, path, keeps_segments=True):
        self.path, self.keeps_segments = path, keeps_segments
        self.frames, self.complaints, self.opcodes = [], set(), []
        self.good, self.bad_from = 0, collections.Counter()
        self.ulpdu_max, self.segment_max = collections.Counter(), collections.Counter()
        self.fpdus = collections.Counter()
        self._read()

    def _read(self):
        if shutil.which("tshark") is None:
            raise Skip("there is no program tshark on this machine")
        words = ["tshark", "-n", "-r", self.path, "-V", "-Y", "tcp",
                 "-o", "tcp.reassemble_out_of_order:TRUE",
                 # The port is any; tshark may know another protocol by it.
                 "-o", "tcp.try_heuristic_first:TRUE",
                 *(f"--disable-protocol={name}" for name in GUESSES)]
        # Settings of whoever runs this would change what is read.
        own = dict(os.environ, HOME=os.path.dirname(self.path),
                   WIRESHARK_CONFIG_DIR=os.path.dirname(self.path))
        with subprocess.Popen(words, env=own, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, errors="replace") as tshark:
            self._scan(tshark.stdout)
        expect(tshark.returncode == 0, f"tshark: exit status {tshark.returncode}")
        expect(self.frames, "tshark sees no MPA startup frame in the capture")

    def _scan(self, lines):
        ports, sender, startup = set(), None, None  # the ports of responders
        for line in lines:
            text = line.strip()
            found = re.match(r"Transmission Control Protocol, Src Port: (\d+), Dst Port: (\d+)"
                             r".*Len: (\d+)", text)
            if found:
                source, target, length = map(int, found.groups())
                if not ports & {source, target}:
                    ports.add(target)  # the first packet of a connection is the initiator's SYN
                sender = "responder" if source in ports else "initiator"
                self.segment_max[sender] = max(self.segment_max[sender], length)
                startup = None
                continue
            self._complaint(text)
            if text in ("Request frame header", "Reply frame header"):
                startup = Frame(text.split()[0])
                self.frames.append(startup)
            elif startup:
                self._startup(startup, text)
            if text.startswith("ULPDU length: "):
                self.fpdus[sender] += 1
                self.ulpdu_max[sender] = max(self.ulpdu_max[sender], int(text.split()[2]))
            elif text.startswith("CRC check: "):
                self.good += "(Good CRC32)" in text
                self.bad_from[sender] += "(Bad CRC32" in text
            elif found := re.search(r"OpCode: (.*) \(0x", text):
                self.opcodes.append((sender, found[1]))

    def _complaint(self, text):
        # Complaints of TCP itself (group Sequence) are of the load, not of what a program sends.
        warned = re.search(r"\[Expert Info \((Error|Warning)/(?!Sequence)", text)
        if (warned and not any(known in text for known in KNOWN_WARNINGS)) or \
                any(words in text for words in ("Malformed Packet", "Bad length", "Dissector bug")):
            self.complaints.add(text)

    @staticmethod
    def _startup(frame, text):
        for name, flag in (("Marker flag: True", MARKERS), ("CRC flag: True", CRC),
                           ("Connection rejected flag: True", REJECTED)):
            if text.endswith(name):
                frame.flags |= flag
        if found := re.search(r"Reserved: 0x([0-9a-f]+)", text):
            frame.flags |= int(found[1], 16)
        elif found := re.match(r"Revision: (\d+)", text):
            frame.revision = int(found[1])
        elif found := re.match(r"Private data length: (\d+)", text):
            frame.private_octets = int(found[1])
        elif found := re.match(r"Private data: ([0-9a-f]+)", text):
            frame.private = bytes.fromhex(found[1])

    def first(self, kind):
        for frame in self.frames:
            if frame.kind == kind:
                return frame
        raise Failure(f"no MPA {kind} in the capture")

    bad = property(lambda self: self.bad_from.total())
    request = property(lambda self: self.first("Request"))
    reply = property(lambda self: self.first("Reply"))

    def judge(self, crc=None, fpdus_min=1):
        """No complaint, and CRCs in use as the Reply has agreed, or as `crc` says."""
        agreed = bool(self.reply.flags & CRC)
        expect(crc is None or crc == agreed, f"CRC {agreed}, wanted {crc}: {self.reply}")
        if not self.keeps_segments:
            # The stream has been cut anew; where a segment ends an octet behind an FPDU's
            # beginning, tshark loses its way. Programs and siw still check what arrives.
            return self
        expect(not self.complaints, "tshark complains: " + "; ".join(sorted(self.complaints)))
        expect(self.bad == 0, f"{self.bad} bad CRCs ({self.good} good)")
        count = sum(self.fpdus.values())
        expect(count >= fpdus_min, f"{count} FPDUs in the capture, wanted at least {fpdus_min}")
        expect(self.good == (count if agreed else 0), f"{self.good} good CRCs of {count} FPDUs")
        return self
