"""What is measured, group by group, each point in rounds of plain TCP and weft.

Each group yields measurements: {"on/write-bw:64K": figures}. A group that cannot run yields its
names with {"missing": why}. Failing is another thing: Failed ends the run.
"""
import copy
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import rows
import shared  # finds medium, networks and rounds
import works
from medium import (Failed as NotMeasured, clean_environment, cpus_for_sides, machines_loopback,
                    own_loopback, veth)
from networks import Impossible, run
from rounds import compared, in_rounds

HERE = Path(__file__).resolve().parent
PROGRAM_PATIENCE = 300
VERIFY_SECONDS = 0.01
MANY_CONNECTIONS = 1000


class Failed(Exception):
    """Something that has to work did not; the text says what."""


class Plan:
    """How much of everything: rounds, and the length of each measurement."""

    def __init__(self, quick=False, moment=False):
        self.rounds = 1 if moment else 3 if quick else 7
        self.seconds = 0.002 if moment else 0.05 if quick else 0.25
        self.warm_up = 0 if moment else works.SHORT_WARM_UP if quick else works.WARM_UP
        # How often each size of socket buffers is tried, so that a stall does not decide.
        self.tries = 0 if moment else 1 if quick else 2
        # Peers and stock programs take a second or so to start each; so sizes between those of the
        # table have fewer rounds.
        self.program_rounds = 1 if quick or moment else 7
        self.between_rounds = 1 if moment else 0 if quick else 3
        self.program_seconds = 0.02 if moment else 0.3 if quick else 1.0
        self.moment = moment
        self.quick = quick

    def rounds_of(self, point):
        """To make thousands of connections takes two seconds, for each side of each round."""
        return 1 if self.quick and point.many > MANY_CONNECTIONS else self.rounds

    def point(self, point):
        """A moment does not connect thousands, nor walk over 256 MiB; the row keeps its name."""
        if not self.moment:
            return point
        return {"requests:4Kx1000": "requests:4Kx50", "requests:4Kx9900": "requests:4Kx100",
                "idle-memory:1000": "idle-memory:50"}.get(point, point)


class Bench:
    """Measures points; knows where the programs are and how people are told what is under way."""

    def __init__(self, build, plan, tell):
        self.program = str(Path(build) / "bin" / "weft_bench")
        self.weft = str(Path(build) / "bin" / "weft")
        self.busy_poll = str(Path(build) / "lib" / "libbusy_poll.so")
        self.plan, self.tell = plan, tell
        self.cpus = cpus_for_sides()
        self.socket_buffers = {}  # of (network, MTU, plain work): those that served it best
        self.verified = set()  # (network, MTU, work)

    def find(self, program):
        """Where a program is, one of the build before one of the system; None: nowhere."""
        built = Path(self.program).with_name(program)
        return str(built) if built.exists() else shutil.which(program)

    def measure(self, group, place, points, crc="on"):
        """{"GROUP/POINT": figures} of all `points`."""
        found = {}
        for name in points:
            self.tell(f"{group}/{name}")
            try:
                found[f"{group}/{name}"] = self.figures(place, works.parse(self.plan.point(name)),
                                                        crc)
            except NotMeasured as reason:
                if not name.startswith(FRAGILE):
                    raise Failed(f"{group}/{name}: {reason}") from None
                found[f"{group}/{name}"] = {"missing": str(reason)}
        return found

    def figures(self, place, point, crc):
        made = {"work": point.work, "octets": point.octets, "batch": point.many,
                "unit": point.kind.unit}
        if point.tcp is None:
            # Of weft alone; rounds are the program's own.
            values = self.once(place, point.of(crc))["values"]
            return {**made, **compared([1] * len(values), values)}
        tcp = self.plain(place, point)
        reports = self.side_by_side({"tcp": (place, tcp), "rdma": (place, point.of(crc))},
                                    self.plan.rounds_of(point))
        made |= self.figure(point, reports)
        made["tcp_buffer"] = getattr(tcp, "socket_buffers", 0)
        if point.kind.stream:
            made["cpu"] = compared(*([works.used(report, "client", "server")
                                      for report in found] for found in reports.values()))
        if "bulk" in reports["tcp"][0]:
            for name, found in reports.items():
                made[f"{name}_bulk"] = statistics.median(report["bulk"] for report in found)
        if "one_way_us" in reports["tcp"][0]:
            for name, found in reports.items():
                made[f"{name}_p99"] = statistics.median(report["one_way_us"]["p99"]
                                                        for report in found)
        return made

    def side_by_side(self, sides, rounds=None):
        """{name: reports, a round each} of {name: (place, subject)}, in turns."""
        for place, subject in sides.values():
            if not isinstance(subject, works.Program):
                self.verify(place, works.verified(subject))
        return in_rounds(sides, rounds or self.plan.rounds, lambda name: self.once(*sides[name]))

    def verify(self, place, work):
        """Every octet is looked at, once for each work and place."""
        key = place.network, place.mtu, work
        if key in self.verified:
            return
        place.measure(self.weft, work, VERIFY_SECONDS, self.cpus)
        self.verified.add(key)

    def figure(self, point, reports):
        return compared(*([point.kind.value(report) for report in found]
                          for found in reports.values()))

    def once(self, place, subject, seconds=None):
        """One measurement: a row of `weft blast` or `ping`, or what weft_bench printed."""
        seconds = seconds or self.plan.seconds
        if not isinstance(subject, works.Program):
            work = subject.at(warm_up=self.plan.warm_up)
            return place.measure(self.weft, work, seconds, self.cpus)[0]
        words = [*place.prefixes["client"], self.program, subject.word, "--over", subject.over,
                 "--seconds", str(seconds)]
        try:
            done = subprocess.run(words, env={**clean_environment(), "WEFT_CRC": subject.crc},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=PROGRAM_PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise NotMeasured(f"it took more than {PROGRAM_PATIENCE} s") from None
        if done.returncode != 0:
            raise NotMeasured(done.stderr.strip() or f"it ended with {done.returncode}")
        return json.loads(done.stdout)

    def plain(self, place, point):
        """The plain side of a point; a stream has the socket buffers that serve it best. (The
        buffers of a ping-pong are nearly empty, so it has nothing to choose.)"""
        work = point.tcp
        if isinstance(work, works.Program) or work.tool == "ping" or not self.plan.tries:
            return work
        key = place.network, place.mtu, work.name()
        if key not in self.socket_buffers:
            choices = [work.at(socket_buffers=octets) for octets in works.SOCKET_BUFFERS]
            tried = in_rounds(choices, self.plan.tries,
                              lambda choice: self.once(place, choice, self.plan.seconds / 2))
            best = max(choices, key=lambda choice: max(row["gbps"] for row in tried[choice]))
            self.socket_buffers[key] = best.socket_buffers
        return work.at(socket_buffers=self.socket_buffers[key])


def missing(group, points, reason):
    return {f"{group}/{point}": {"missing": reason} for point in points}


# A failure in one of these is a row that says so, and the rest of the table is made all the same:
# thousands of connections, and what a system may forbid.
FRAGILE = ("requests", "idle-memory", "connect")


def place_of(congestion):
    """The loopback of a namespace with that congestion control; "system": the machine as it is."""
    return machines_loopback() if congestion == "system" else own_loopback(congestion)


def on_loopback(bench, congestion):
    """Groups "on" and "off"."""
    found = {}
    with place_of(congestion) as place:
        for crc in ("on", "off"):
            found.update(bench.measure(crc, place, rows.points_of(crc), crc))
    return found


def on_one_core(bench, congestion):
    """Group "one-core": both ends share a processor."""
    sharing = copy.copy(bench)
    sharing.cpus = (bench.cpus[0], bench.cpus[0])
    with place_of(congestion) as place:
        return sharing.measure("one-core", place, rows.points_of("one-core"))


def by_default(bench, congestion):
    """Group "default": weft on the machine as it is, no namespace, beside weft in the place of the
    other groups."""
    found = {}
    with machines_loopback() as as_it_is, place_of(congestion) as chosen:
        for name in rows.points_of("default"):
            bench.tell(f"default/{name}")
            point = works.parse(name)
            weft = point.of("on")
            try:
                reports = bench.side_by_side({"tcp": (chosen, weft), "rdma": (as_it_is, weft)})
            except NotMeasured as reason:
                raise Failed(f"default/{name}: {reason}") from None
            found[f"default/{name}"] = {"work": point.work, "octets": point.octets,
                                        "batch": point.many, "unit": point.kind.unit,
                                        **bench.figure(point, reports)}
    return found


def over_veth(bench, congestion):
    """Groups "veth-1500" and "veth-9000"."""
    found = {}
    for mtu in (1500, 9000):
        group = f"veth-{mtu}"
        try:
            with veth(mtu, congestion) as place:
                points = [point for point in rows.points_of(group) if point != "segments"]
                found.update(bench.measure(group, place, points))
                found[f"{group}/segments"] = capture(bench, place)
                bench.tell(f"{group}/segments")
        except Impossible as reason:
            found.update(missing(group, rows.points_of(group), str(reason)))
    return found


def capture(bench, place):
    """A short run beside a packet socket."""
    words = place.client(bench.weft, works.parse("write-bw:64K").rdma, 0.001, bench.cpus)
    text = run([*place.prefixes["client"], sys.executable, "-B", str(HERE / "fpdus.py"), "veth0",
                *words], seconds=90)
    return json.loads(text)
