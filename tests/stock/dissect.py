#!/usr/bin/env python3
"""tshark, an independent dissector, reads live runs: nothing malformed, no bad CRC, enough good.

What tshark 4.0 does not know is left out of account: it warns of revision 2 and of the flag of
enhanced startup, and it guesses upper protocols from a Send's first octets (switched off here).
With markers it needs one FPDU per TCP segment, which request-and-answer traffic gives.
"""
import os
import re
import shutil
import signal
import subprocess

from stock import PATIENCE, Failure, Skip, case, expect, free_port, stop, variants, wait_until

GUESSES = ("rpcordma", "smb_direct", "iscsi")


class Capture:
    """Records what passes on the loopback interface to and from one port."""

    def __init__(self, bench, port):
        self.path = os.path.join(bench.folder, "live.pcapng")
        self.program = bench.plain("dumpcap", "-q", "-i", "lo", "-B", 64, "-f", f"tcp port {port}",
                                   "-w", self.path)
        self.bench = bench

        def started():
            text = self.program.errors()
            if not self.program.running():
                raise Skip(f"dumpcap cannot capture here: {text.strip()}")
            return "File: " in text
        wait_until(started, "dumpcap capturing")

    def read(self, *words):
        """What tshark says of the packets so far. Its status is not looked at: while the capture
        is written, the last packet may be half there."""
        if shutil.which("tshark") is None:
            raise Skip("there is no program tshark on this machine")
        # The port is any; tshark may know another protocol by it.
        return subprocess.run(["tshark", "-r", self.path, *words,
                               "-o", "tcp.try_heuristic_first:TRUE",
                               # One end's octets may leave from both processors, and are seen in
                               # the order in which these came to it.
                               "-o", "tcp.reassemble_out_of_order:TRUE",
                               *(f"--disable-protocol={name}" for name in GUESSES)],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              errors="replace", timeout=PATIENCE).stdout

    def ended(self):
        """How many connections are over: a FIN of either end, or one and an RST. A responder that
        says nothing is nudged (adr/0005), and whose process is gone answers that with an RST."""
        ends = {}
        for row in self.read("-Y", "tcp.flags.fin == 1 or tcp.flags.reset == 1", "-T", "fields",
                             "-e", "tcp.stream", "-e", "tcp.srcport", "-e", "tcp.flags.fin",
                             ).splitlines():
            stream, port, fin = row.split("\t")
            ends.setdefault(stream, set()).add(port if fin in ("1", "True") else "reset")
        return sum(len(of_one) >= 2 for of_one in ends.values())

    def finish(self, connections):
        """Stops once the end of each connection is in the file."""
        try:
            wait_until(lambda: self.ended() >= connections,
                       "the end of the connections in the capture", step=0.2)
        except Failure as failure:
            begins_and_ends = " or ".join(f"tcp.flags.{flag} == 1" for flag in
                                          ("syn", "fin", "reset"))
            raise Failure(f"{failure}; it holds\n{self.read('-Y', begins_and_ends)}") from None
        self.program.process.send_signal(signal.SIGINT)
        self.program.wait()
        lost = re.search(r"dropped on interface '[^']*': \d+/(\d+)", self.program.errors())
        expect(lost, "dumpcap does not say how many packets it lost")
        expect(lost[1] == "0", f"the capture lost {lost[1]} packets")

    def judge(self, good_min, markers_min=0):
        text = self.read("-V")
        good = len(re.findall(r"\(Good CRC32\)", text))
        bad = len(re.findall(r"\(Bad CRC32", text))
        expect(bad == 0, f"{bad} bad CRCs ({good} good)")
        expect(good >= good_min, f"{good} good CRCs, wanted at least {good_min}")
        for complaint in ("Malformed Packet", "Bad length", "Dissector bug"):
            expect(complaint not in text, f"tshark says '{complaint}'")
        # Complaints of TCP itself (group Sequence) are of the load, not of what weft sends.
        warned = {line.strip() for line in text.splitlines()
                  if re.search(r"\[Expert Info \((Error|Warning)/(?!Sequence)", line)}
        known = ("Res field is NOT set to zero", "Rev field is NOT set to one")
        unknown = [line for line in warned if not any(words in line for words in known)]
        expect(not unknown, "tshark complains: " + "; ".join(unknown))
        markers = len(re.findall(r"^\s*FPDU back pointer", text, re.M))
        expect(markers >= markers_min, f"{markers} markers, wanted at least {markers_min}")
        listing = self.read()
        for name in ("MPA Request Frame", "MPA Reply Frame"):
            expect(name in listing, f"no {name}")
        return text


def rping(bench, size, count, options, good_min, markers_min=0):
    port = free_port()
    capture = Capture(bench, port)
    words = ["-a", "127.0.0.1", "-p", port, "-C", count, "-S", size, "-V"]
    bench.pair(["rping", "-s", *words], ["rping", "-c", *words], port,
               server_options=options, client_options=options)
    capture.finish(1)
    return capture.judge(good_min, markers_min)


@variants(revision_2=(), revision_1=("--mpa-revision", "1"), inline=("--engine", "inline"))
def crc_on(bench, options):
    """A ping is six FPDUs: two Sends of either end, Read Request, Read Response, Write."""
    text = rping(bench, 3000, 20, options, good_min=6 * 20)
    for name in ("Send", "Read Request", "Read Response", "Write"):
        expect(re.search(rf"OpCode: {name}", text), f"no {name} in the capture")


@case
def crc_off(bench):
    text = rping(bench, 3000, 20, ("--crc", "off"), good_min=0)
    expect("Good CRC32" not in text, "CRCs are used although both ends are without")
    expect(len(re.findall(r"^\s*FPDU$", text, re.M)) >= 6 * 20, "too few FPDUs")


@variants(small=300, large=20000)
def markers(bench, size):
    """Markers both ways; the larger FPDUs hold forty each."""
    # Two FPDUs that leave in one call share a segment, of which tshark then reads only the first:
    # of the six of a round three always go alone. Not so a ready-to-receive message and the first
    # Send: sharing a segment, they cost tshark the rest of that direction.
    rping(bench, size, 20, ("--markers", "on", "--peer-to-peer", "off"), good_min=3 * 20,
          markers_min=20 if size < 512 else 20 * 2 * (size // 512))


@variants(write="ib_write_bw", read="ib_read_bw", send="ib_send_bw")
def many_fpdus_per_call(bench, program):
    """Bandwidth tests: FPDUs of every length, many to a segment."""
    port = free_port()
    capture = Capture(bench, port)
    words = ["-R", "-F", "-p", port, "-s", 40000, "-n", 30]
    bench.pair([program, *words], [program, *words, "127.0.0.1"], port)
    capture.finish(2)
    capture.judge(good_min=30)


@variants(fetch_and_add="FETCH_AND_ADD", cmp_and_swap="CMP_AND_SWAP")
def atomics(bench, operation):
    port = free_port()
    capture = Capture(bench, port)
    words = ["-R", "-F", "-p", port, "-A", operation, "-n", 30]
    bench.pair(["ib_atomic_lat", *words], ["ib_atomic_lat", *words, "127.0.0.1"], port)
    capture.finish(2)
    text = capture.judge(good_min=2 * 30)
    for name in ("Atomic Request", "Atomic Response"):
        count = len(re.findall(rf"OpCode: {name}", text))
        expect(count == 30, f"{count} times {name} in the capture, wanted 30")


stop()
