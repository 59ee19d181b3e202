"""One connection of the scripted peer: octets out, octets in, and the rules on what comes in."""
import contextlib
import copy
import socket
import struct
import time

import mpa
import rdmap
from failure import PATIENCE, Failure

ADVMSS_OFFSET = 84  # of tcpi_advmss in struct tcp_info, whose first octet is the state
TCP_CLOSE = 7


# An initiator may send Writes of nothing while its peer is silent: they touch nothing, count
# nowhere, and a peer that was not ready for the first FPDU looks again
# (docs/adr/0005-a-silent-responder-is-nudged.md). Only "< nudge" hears them.
NUDGE = rdmap.ulpdu_octets({**rdmap.defaults("write"), "stag": 1, "to": 0})
NUDGE_FPDU_OCTETS_MAX = 24  # with a marker


class Short(Exception):
    """More octets are wanted than have arrived."""


class Taken:
    """Reads from octets that are there."""

    def __init__(self, octets):
        self.octets = octets

    def __call__(self, count):
        if count > len(self.octets):
            raise Short
        taken, self.octets = self.octets[:count], self.octets[count:]
        return taken


class Ended(Exception):
    """The stream ended where octets were wanted; `how` is fin or rst."""

    def __init__(self, how):
        super().__init__(how)
        self.how = how


class Peer:
    def __init__(self, connection, transcript):
        self.socket = connection
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.log = transcript
        self.arrived = bytearray()
        self.heard = 0           # FPDUs
        self.nudges_over = False
        self.mss = 0             # instead of what TCP says
        self.ended = None        # fin or rst, once seen
        self.ours = self.theirs = None  # startup frames
        self.sender = self.receiver = None
        self.ahead = None        # what read_ulpdu gives next
        self.queued = b""        # what a line with + holds back for the next
        self.send_msn = {}
        self.receive_msn = {}

    # Octets.

    def more(self, deadline):
        """Waits for octets. Ended: there will be none."""
        if self.ended:
            raise Ended(self.ended)
        self.socket.settimeout(max(deadline - time.monotonic(), 0.001))
        try:
            octets = self.socket.recv(1 << 20)
        except ConnectionResetError:
            self.ended = "rst"
            raise Ended("rst") from None
        if not octets:
            self.ended = "fin"
            raise Ended("fin")
        self.arrived += octets

    def read(self, count):
        deadline = time.monotonic() + PATIENCE
        while len(self.arrived) < count:
            try:
                self.more(deadline)
            except socket.timeout:
                raise Failure(f"expected {count} octets, got {self.so_far()} in "
                              f"{PATIENCE:g} s") from None
            except Ended as end:
                raise Failure(f"expected {count} octets, got {self.so_far()} and then "
                              f"{end.how}") from None
        octets = bytes(self.arrived[:count])
        del self.arrived[:count]
        return octets

    def so_far(self):
        return f"{len(self.arrived)} ({self.arrived[:200].hex()})"

    def send(self, octets, held=False, pieces=0):
        self.log(">", octets)
        self.queued += octets
        if held:
            return
        octets, self.queued = self.queued, b""
        self.socket.settimeout(PATIENCE)
        try:
            for first in range(0, len(octets), pieces or len(octets) or 1):
                self.socket.sendall(octets[first:first + (pieces or len(octets))])
        except OSError as error:
            raise Failure(f"sending failed: {error}") from None

    def end(self, how):
        """Sends FIN, or RST."""
        self.log(">", how.encode())
        if how == "fin":
            self.socket.shutdown(socket.SHUT_WR)
        else:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.socket.close()
            self.ended = "rst"

    def expect_end(self, how):
        """The other end sends FIN ("fin"), RST ("rst"), or any of them ("end"); nothing else."""
        deadline = time.monotonic() + PATIENCE
        if self.ended == "fin" and how == "rst":
            return self.expect_reset(deadline)
        try:
            self.wait_for_octets(deadline)
        except Ended as end:
            self.log("<", end.how.encode())
            if self.arrived:
                raise Failure(f"expected {how}, got {self.surplus()}") from None
            if how not in (end.how, "end"):
                raise Failure(f"expected {how}, got {end.how}") from None
            return
        except socket.timeout:
            raise Failure(f"expected {how}, got nothing in {PATIENCE:g} s") from None
        raise Failure(f"expected {how}, got {self.surplus()}")

    def wait_for_octets(self, deadline):
        """Returns when there are octets that are not those of nudges."""
        while not self.past_nudges():
            self.more(deadline)

    def past_nudges(self):
        """Takes nudges off what arrived. True: what is left is, or begins, something else."""
        while self.arrived and self.may_be_nudged():
            trial = copy.copy(self.receiver)
            trial.read = Taken(bytes(self.arrived[:NUDGE_FPDU_OCTETS_MAX]))
            try:
                ulpdu, octets = trial.fpdu()
            except mpa.Breach:
                return True
            except Short:
                return len(self.arrived) > NUDGE_FPDU_OCTETS_MAX
            if ulpdu != NUDGE:
                return True
            self.log("<", octets)
            self.receiver.position = trial.position
            del self.arrived[:len(octets)]
        return bool(self.arrived)

    def may_be_nudged(self):
        initiator = self.theirs["key"] == mpa.REQUEST_KEY
        return self.heard and initiator and not self.nudges_over

    def expect_reset(self, deadline):
        """A RST behind a FIN: no read shows it any more, but the socket's state does."""
        while self.info()[0] != TCP_CLOSE:
            if time.monotonic() > deadline:
                raise Failure(f"expected rst behind the fin, got nothing in {PATIENCE:g} s")
            time.sleep(0.001)
        self.log("<", b"rst")
        self.ended = "rst"

    def surplus(self):
        """What arrived and nobody expected, in words."""
        text = f"{len(self.arrived)} octets: {self.arrived[:200].hex()}"
        with contextlib.suppress(Exception):
            if self.receiver:
                ulpdu, _ = self.receiver.fpdu()
                kind, fields = rdmap.parse(ulpdu)
                text += f" ({kind} {fields})"
        return text

    def silent(self, milliseconds):
        """Nothing comes for so long. Used where no later event could show the same."""
        deadline = time.monotonic() + milliseconds / 1000
        with contextlib.suppress(socket.timeout):
            self.wait_for_octets(deadline)
            raise Failure(f"expected nothing, got {self.surplus()}")

    def drain(self):
        """After the subject's end: whatever it sent and nobody expected."""
        if self.ended == "rst" and not self.arrived:
            return
        with contextlib.suppress(Ended, socket.timeout):
            self.wait_for_octets(time.monotonic() + PATIENCE)
        if self.arrived:
            raise Failure(f"expected nothing more, got {self.surplus()}")

    def close(self):
        self.socket.close()

    # Startup frames.

    def send_startup(self, frame, held, pieces):
        self.ours = frame
        self.send(mpa.startup_octets(frame), held, pieces)

    def read_startup(self):
        frame, octets = mpa.read_startup(self.read)
        self.theirs = frame
        self.log("<", octets)
        return frame

    # FPDUs.

    def full_operation(self):
        """Both directions, by what the two startup frames said."""
        if self.sender:
            return
        ours, theirs = (frame or {"m": 0, "c": 1} for frame in (self.ours, self.theirs))
        crc = bool(ours["c"] or theirs["c"])
        self.sender = mpa.Sender(bool(theirs["m"]), crc)
        self.receiver = mpa.Receiver(self.read, bool(ours["m"]), crc)

    def send_ulpdu(self, ulpdu, knobs, held, pieces):
        self.full_operation()
        octets = self.sender.fpdu(ulpdu, knobs)
        if "cut" in knobs:
            octets = octets[:knobs["cut"]]
        self.send(octets, held, pieces)

    def read_ulpdu(self, skips_nudges=True):
        """The next FPDU's ULPDU, kind and fields, all rules of framing kept."""
        if self.ahead:
            found, self.ahead = self.ahead, None
            return found
        self.full_operation()
        try:
            ulpdu = None
            while ulpdu is None or (ulpdu == NUDGE and nudged):
                nudged = skips_nudges and self.may_be_nudged()
                ulpdu, octets = self.receiver.fpdu()
                self.log("<", octets)
                self.judge_size(ulpdu, octets)
                self.heard += 1
            return (ulpdu, *rdmap.parse(ulpdu))
        except mpa.Breach as breach:
            raise Failure(str(breach)) from None

    def next_kind(self):
        """What the next FPDU is, without taking it."""
        self.ahead = self.ahead or self.read_ulpdu()
        return self.ahead[1]

    def take(self, beliefs):
        """Makes the peer believe what is not so (wrong.dialogue): that markers were asked for,
        that the MSS is another, or that CRCs begin otherwise."""
        self.full_operation()
        self.receiver.markers = "markers" in beliefs
        self.mss = int(beliefs.get("mss", 0))
        if "crc" in beliefs:
            self.receiver.crc_of = lambda covered: mpa.crc32c(b"\0" + covered)

    def judge_size(self, ulpdu, octets):
        if len(ulpdu) > mpa.MULPDU_MAX:
            raise Failure(f"a ULPDU of {len(ulpdu)} octets is above {mpa.MULPDU_MAX}")
        if len(ulpdu) <= mpa.MULPDU_MIN:
            return
        emss = self.emss()
        if len(octets) > emss:
            raise Failure(f"an FPDU of {len(octets)} octets is above the MSS of {emss}")

    def emss(self):
        """The most the other end may put into one segment."""
        return self.mss or struct.unpack_from("I", self.info(), ADVMSS_OFFSET)[0]

    def info(self):
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
