"""Programs on weft meet programs on the Linux kernel's siw: what every file of cases here uses.

A file holds cases and ends in stop(NETWORK). All cases of a file share one guest (guest.py), and
each gets a Rig, which starts the two ends of a meeting, waits for both, and has tshark judge what
passed between them. Where siw is to be blamed for a fault, the case says so.

usage of each file: FILE --weft PATH/bin/weft --image DIR --talk PATH [--network link|user]
                    [--keep DIR] [--list] [CASE...]
Without --network it is a link of its own where that can be had, and user networking elsewhere.
exit status: 0 all passed, 1 a case failed, 77 no case could run here (each says why)
"""
import argparse
import contextlib
import os
import re
import shlex
import shutil
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "stock"))

from stock import (Bench, CASES, Failure, PATIENCE, Skip, case, command,  # noqa: E402
                   expect, free_port)
from guest import Guest, LinkNetwork, Unavailable, UserNetwork  # noqa: E402
from wire import Wire  # noqa: E402

WEFT, SIW = "weft", "siw"
# siw's own, as its source has them; rtr_type as octets in memory order: the Write and the Read.
SIW_DEFAULTS = {"mpa_crc_required": "N", "mpa_version": 2, "peer_to_peer": "N", "rtr_type": 0x00c0}
RTR_TYPES = {"write": 0x0080, "read": 0x0040, "any": 0x00c0}


def both_ways(**named):
    """Marks a case that runs with weft and with siw as the initiator, for each of the keywords:
    function.weft_initiates.keyword, given the initiator and the keyword's value."""
    def mark(function):
        for initiator in (WEFT, SIW):
            for name, value in (named or {"": None}).items():
                def run(rig, initiator=initiator, value=value):
                    return function(rig, initiator, *([value] if named else []))
                full = f"{function.__name__}.{initiator}_initiates" + (f".{name}" if name else "")
                CASES.append((full, run))
        return function
    return mark


class Meeting:
    """A server and a client, the one on weft and the other on siw, and what passed on the wire."""

    def __init__(self, server, client, wire):
        self.server, self.client, self.wire = server, client, wire


class Rig(Bench):
    """What one case works with."""

    def __init__(self, weft, guest):
        super().__init__(weft)
        self.guest, self.network = guest, guest.network
        self.parameters = {}
        self.captures = 0
        self.capturing = None
        self.siw_is = None  # of the newest meeting

    def siw(self, **parameters):
        """Sets siw's module parameters until the end of the case."""
        self.guest.set_siw(**parameters)
        self.parameters.update(parameters)

    def start(self, stack, line, options=(), **values):
        """Starts `line`, with {port}, {address} and {talk} filled in, on weft or on siw."""
        words = shlex.split(line.format(talk=TALK[stack], **values))
        if stack == WEFT:
            return self.plain(*self.network.enter([self.weft, "run", *options, "--", *words]))
        program = self.guest.program(*words)
        self.programs.append(program)
        return program

    def put_with_libraries(self, path, to):
        """Brings a program or a library of weft's build into the guest, once, with the libraries
        that it wants and the guest has not got; without what only a debugger reads."""
        had = self.guest.__dict__.setdefault("has_files", set())
        if to in had:
            return
        needed = re.findall(r"(\S+) => (/\S+)", command("ldd", path))
        files = {to: path, **{f"{GUEST_LIBRARIES}/{name}": library for name, library in needed
                              if not name.startswith(OF_THE_GUEST)}}
        small = os.path.join(self.folder, "small")
        for target in files.keys() - had:
            command("strip", "-o", small, files[target])
            self.guest.run(f"mkdir -p {os.path.dirname(target)}")
            self.guest.put(small, target)
            had.add(target)

    def capture(self):
        self.captures += 1
        self.capturing = os.path.join(self.folder, f"{self.captures}.pcap")
        self.guest.capture(self.capturing)

    def capture_end(self):
        path, self.capturing = self.capturing, None
        self.guest.capture_end()
        return Wire(path, self.network.keeps_segments)

    def listen(self, initiator, line, options=(), family=4):
        """Starts the server: (its program, its port, the address that leads there)."""
        stack = SIW if initiator == WEFT else WEFT
        port = free_port("127.0.0.1")
        if stack == SIW:
            self.network.forward(self.guest, port)
            own, seen = self.network.guest_addresses, self.network.seen_by_host
        else:
            own, seen = self.network.host, self.network.seen_by_guest
        if family not in seen:
            raise Skip(f"IPv{family} does not lead there by {self.network.name}")
        server = self.start(stack, line, options, port=port, address=own[family]).listens(port)
        return server, port, seen[family]

    def connect(self, initiator, server, client, until, options=(), family=4, seconds=PATIENCE,
                capture=True):
        """Starts server and client and waits until `until(server, client)`."""
        self.siw_is = "responder" if initiator == WEFT else "initiator"
        if capture:
            self.capture()
        s, port, address = self.listen(initiator, server, options, family)
        c = self.start(initiator, client, options, port=port, address=address)
        self._wait((c, s), lambda: until(s, c), seconds)
        return s, c

    @staticmethod
    def _wait(ends, condition, seconds):
        began = time.monotonic()
        failed = None  # when one end was first seen to have failed
        while not condition():
            now = time.monotonic()
            if failed is None and any(not end.running() and not end.status().endswith("status 0")
                                      for end in ends):
                failed = now
            expect(now - began < seconds and (failed is None or now - failed < NOTICE_SECONDS),
                   f"after {now - began:.0f} s: " +
                   "; ".join(f"{end.replay()}: {end.status()}" for end in ends))
            time.sleep(0.01)

    def meet(self, initiator, server, client, succeed=True, **how):
        """Runs server and client until both have ended; both have to succeed unless told not to."""
        s, c = self.connect(initiator, server, client,
                            lambda s, c: not s.running() and not c.running(), **how)
        for program in (c, s):
            program.succeed() if succeed else program.wait()
        return Meeting(s, c, self.capture_end() if self.capturing else None)

    def settle(self):
        super().settle()
        if self.guest.dead:
            return  # the next case gets another
        if self.capturing:
            self.guest.capture_end()
        if self.parameters:
            self.guest.set_siw(**{name: SIW_DEFAULTS[name] for name in self.parameters})


# build-image has put these there.
OF_THE_GUEST = ("libibverbs.so", "librdmacm.so", "libc.so", "libm.so", "libstdc++.so",
                "libgcc_s.so")
GUEST_LIBRARIES = "/usr/lib/x86_64-linux-gnu"
# siw's line when its thread meets EFAULT; guest-init switches it on.
SIW_FAULT = re.compile(r"siw_sq_resume: SQ task failed: err -14$")
# The program talk, by stack.
TALK = {}
# Within this an end has to know that the other is gone. Closing a dead program's sockets is the
# kernel's work, and takes no time to speak of; the rest is for a busy machine.
NOTICE_SECONDS = 15.0


class Guests:
    """The guest of this run, booted when the first case wants it, and again if it has died."""

    def __init__(self, folder, network):
        self.folder, self.network, self.guest = folder, network, None

    def get(self):
        if self.guest is not None and self.guest.dead:
            self.end()
        if self.guest is None:
            reason = os.path.join(self.folder, "unavailable")
            if os.path.exists(reason):
                with open(reason, encoding="utf-8") as text:
                    raise Unavailable(text.read().strip())
            if not os.path.exists(os.path.join(self.folder, "guest.img")):
                raise Unavailable("no guest has been built: ctest -R interop_image does it")
            began = time.monotonic()
            self.guest = Guest(self.folder, self.network())
            self.guest.put(TALK[WEFT], TALK[SIW])
            print(f"booted a guest ({time.monotonic() - began:.1f} s, "
                  f"{self.guest.network.name}): {self.version()}", flush=True)
        return self.guest

    def version(self):
        with open(os.path.join(self.folder, "version"), encoding="utf-8") as text:
            return text.read().strip()

    def end(self):
        if self.guest is not None:
            self.guest.end()
        self.guest = None


def unaccepted(listeners):
    """How many connections wait at the kernel's own listeners, which are siw's, by what `ss -Htlnp`
    prints. siw takes one as soon as it is there, and a failure comes seconds later."""
    return sum(int(line.split()[1]) for line in listeners.splitlines() if "users:(" not in line)


def siw_fault(rig, seconds):
    """What shows that siw is to blame for a failure in that time (docs/INTEROP.md, notes 9, 10
    and 15), or None: it left connections lying at a listener, it dropped the connection because its
    thread read memory of a program that it does not have, or it sent an FPDU whose CRC is wrong, by
    tshark's count."""
    if rig.guest.dead:
        return None
    with contextlib.suppress(Failure):
        lying = unaccepted(rig.guest.run("ss -Htlnp"))
        if lying:
            return f"{lying} connections that siw's listener never took"
    said = next((line for line in rig.guest.kernel_log(seconds) if SIW_FAULT.search(line)), None)
    if said or not rig.captures or rig.siw_is is None:
        return said
    path = os.path.join(rig.folder, f"{rig.captures}.pcap")
    if rig.capturing:
        rig.guest.capture_end()
        rig.capturing = None
    with contextlib.suppress(Failure, Skip):
        bad = Wire(path, rig.network.keeps_segments).bad_from[rig.siw_is]
        return f"{bad} wrong CRCs of siw's" if bad else None
    return None


def run_once(name, function, weft, guests, keep):
    """("passed", "FAILED" or "skipped", what there is to say, siw's own fault if it was that)."""
    began, fault, rig = time.monotonic(), None, None
    try:
        rig = Rig(weft, guests.get())
        function(rig)
        return "passed", "", None
    except Unavailable:
        raise
    except Skip as reason:
        return "skipped", f": {reason}", None
    except Failure as reason:
        text = f": {reason}\n{rig.report() if rig else ''}"
        if rig:
            fault = siw_fault(rig, time.monotonic() - began)
        return "FAILED", text, fault
    finally:
        if rig:
            rig.settle()
            if keep:
                shutil.copytree(rig.folder, os.path.join(keep, name), dirs_exist_ok=True)
            shutil.rmtree(rig.folder, ignore_errors=True)


def run_case(name, function, weft, guests, keep):
    """One of "passed", "FAILED", "skipped"; prints it. A connection that siw is known to have
    dropped, or left lying, by its own fault has a second try, and no third."""
    began = time.monotonic()
    result, text, fault = run_once(name, function, weft, guests, keep)
    if fault:
        result, text, _ = run_once(name, function, weft, guests, keep)
        text = f", the second time; the first time: {fault}{text}"
    print(f"{result} {name} ({time.monotonic() - began:.1f} s){text}", flush=True)
    return result


def any_network():
    try:
        return LinkNetwork()
    except Skip as reason:
        print(f"user networking, because {reason}")
        return UserNetwork()


NETWORKS = {"link": LinkNetwork, "user": UserNetwork, "any": any_network}


def main(networks):
    parser = argparse.ArgumentParser(description="cases of weft with the Linux kernel's siw")
    parser.add_argument("--weft", help="the weft program of a build")
    parser.add_argument("--image", help="the folder that build-image has filled")
    parser.add_argument("--talk", help="the program of that name, of the same build")
    parser.add_argument("--network", choices=networks, default=networks[0])
    parser.add_argument("--keep", help="a folder that gets each case's captures and outputs")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("cases", nargs="*", help="only these; a name or its first parts")
    arguments = parser.parse_args()
    chosen = [(name, function) for name, function in CASES if not arguments.cases or
              any(name == wanted or name.startswith(wanted + ".") for wanted in arguments.cases)]
    if arguments.list:
        print("\n".join(name for name, _ in chosen))
        return 0
    if not chosen or not (arguments.weft and arguments.image and arguments.talk):
        parser.error("--weft, --image and --talk are needed" if chosen else "no such case")
    TALK.update({WEFT: os.path.abspath(arguments.talk), SIW: "/tmp/talk"})
    guests = Guests(os.path.abspath(arguments.image), NETWORKS[arguments.network])
    results = {"passed": 0, "FAILED": 0, "skipped": 0}
    try:
        for name, function in chosen:
            results[run_case(name, function, os.path.abspath(arguments.weft), guests,
                             arguments.keep)] += 1
    except Unavailable as reason:
        print(reason)
        return 77
    finally:
        guests.end()
    print(", ".join(f"{count} {result.lower()}" for result, count in results.items()))
    if results["FAILED"]:
        return 1
    return 0 if results["passed"] else 77


def stop(networks=("any", "link", "user")):
    sys.exit(main(networks))


__all__ = ["both_ways", "case", "expect", "stop", "GUEST_LIBRARIES", "NOTICE_SECONDS", "RTR_TYPES",
           "SIW", "Skip", "WEFT"]
