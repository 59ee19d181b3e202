"""What is measured, group by group: how weft_bench is called, and what it printed.

Each group yields measurements: {"on/write-bw:64K": row of weft_bench}. A group that cannot run
yields its names with {"missing": why}. Failing is another thing: Failed ends the run.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import rows
import shared  # finds networks
from networks import Impossible, Link, Network, run

HERE = Path(__file__).resolve().parent
GROUP_SECONDS_MAX = 600


class Failed(Exception):
    """Something that has to work did not; the text says what."""


class Plan:
    """How much of everything: rounds, and the length of each leg."""

    def __init__(self, quick=False, moment=False):
        self.rounds = 1 if moment else 3 if quick else 7
        self.seconds = 0.002 if moment else 0.05 if quick else 0.25
        # Peers and stock programs take a second or so to start each.
        self.program_rounds = 1 if quick or moment else 7
        self.program_seconds = 0.02 if moment else 0.3 if quick else 1.0
        self.moment = moment
        self.quick = quick

    def point(self, point):
        """A moment does not connect thousands, nor walk over 256 MiB; the row keeps its name."""
        if not self.moment:
            return point
        return {"requests:4Kx1000": "requests:4Kx50", "requests:4Kx9900": "requests:4Kx100",
                "idle-memory:1000": "idle-memory:50"}.get(point, point)


class Bench:
    """Runs weft_bench; knows where it is and how people are told what is under way."""

    def __init__(self, build, plan, tell):
        self.program = str(Path(build) / "bin" / "weft_bench")
        self.weft = str(Path(build) / "bin" / "weft")
        self.busy_poll = str(Path(build) / "lib" / "libbusy_poll.so")
        self.plan, self.tell = plan, tell
        self.setups = {}

    def find(self, program):
        """Where a program is, one of the build before one of the system; None: nowhere."""
        built = Path(self.program).with_name(program)
        return str(built) if built.exists() else shutil.which(program)

    def words(self, points, crc="on", rounds=None, seconds=None, options=()):
        plan = self.plan
        return [self.program, "--lines", "--crc", crc, "--rounds", str(rounds or plan.rounds),
                "--seconds", str(seconds or plan.seconds), "--points", ",".join(points), *options]

    def measure(self, group, points, crc="on", prefix=(), options=(), **lengths):
        """{"GROUP/POINT": row} of all `points`."""
        real = {self.plan.point(point): point for point in points}
        found = {}
        words = [*prefix, *self.words(real, crc, options=options, **lengths)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=clean_environment())
        with process:
            try:
                for line in process.stdout:
                    message = json.loads(line)
                    if "setup" in message:
                        self.setups[group] = message["setup"]
                        continue
                    point = real[point_of(message)]
                    found[f"{group}/{point}"] = message
                    self.tell(f"{group}/{point}")
                errors = process.stderr.read()
            finally:
                if process.poll() is None:
                    process.terminate()
        if process.returncode != 0:
            reason = errors.strip() or f"weft_bench ended with {process.returncode}"
            raise Failed(f"{group}: {reason}")
        absent = [point for point in points if f"{group}/{point}" not in found]
        if absent:
            raise Failed(f"{group}: weft_bench printed nothing for {', '.join(absent)}")
        return found


def clean_environment():
    """Without settings of weft's: those of the caller's shell would change what is measured."""
    return {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}


def size_text(octets):
    for shift, suffix in ((20, "M"), (10, "K")):
        if octets >> shift and octets % (1 << shift) == 0:
            return f"{octets >> shift}{suffix}"
    return str(octets)


def point_of(row):
    """"write-rate:8x64" of a row of weft_bench."""
    many = row["work"] in ("write-rate", "requests")
    size = row["octets"] if row["work"] == "idle-memory" else size_text(row["octets"])
    return f"{row['work']}:{size}" + (f"x{row['batch']}" if many else "")


def missing(group, points, reason):
    return {f"{group}/{point}": {"missing": reason} for point in points}


# A failure in one of these is a row that says so, and the rest of the table is made all the same:
# thousands of connections, and what a system may forbid.
FRAGILE = ("requests", "idle-memory", "connect")


def on_loopback(bench, congestion):
    """Groups "on" and "off": the loopback of a namespace with the congestion control asked for."""
    found = {}
    with Network() as network:
        network.use_congestion(congestion)
        for crc in ("on", "off"):
            points = rows.points_of(crc)
            sturdy = [point for point in points if not point.startswith(FRAGILE)]
            found.update(bench.measure(crc, sturdy, crc, network.prefix))
            for point in points:
                if point in sturdy:
                    continue
                try:
                    found.update(bench.measure(crc, [point], crc, network.prefix))
                except Failed as reason:
                    found.update(missing(crc, [point], str(reason)))
    return found


def by_default(bench, _congestion):
    """Group "default": as the machine is, no namespace. The raw row stays comparable to the other
    run's: it asks for reno, which anybody may, and which without loss does what cubic does."""
    return bench.measure("default", rows.points_of("default"),
                         options=("--raw-congestion", "reno"))


def over_veth(bench, congestion):
    """Groups "veth-1500" and "veth-9000"."""
    found = {}
    for mtu in (1500, 9000):
        group = f"veth-{mtu}"
        try:
            with Link(mtu, congestion) as link:
                options = ("--address", link.ADDRESSES[1], "--follower-network", link.far.file)
                points = [point for point in rows.points_of(group) if point != "segments"]
                found.update(bench.measure(group, points, "on", link.near.prefix, options))
                found[f"{group}/segments"] = capture(bench, link, options)
                bench.tell(f"{group}/segments")
        except Impossible as reason:
            found.update(missing(group, rows.points_of(group), str(reason)))
    return found


def capture(bench, link, options):
    """A short run beside a packet socket."""
    words = bench.words(["write-bw:64K"], rounds=1, seconds=0.001, options=options)
    text = run([*link.near.prefix, sys.executable, "-B", str(HERE / "fpdus.py"), "veth0", *words],
               seconds=90)
    return json.loads(text)
