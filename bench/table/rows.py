"""The table: every row, how its figure is made from what was measured, and what it has to reach.

A measurement is the figures of a point (works.py) under the name GROUP/POINT, such as
"on/write-bw:64K"; see groups.py. A row that cannot be made here says why.
"""
from dataclasses import dataclass, field
from typing import Callable, Optional

AT_LEAST, AT_MOST = "at least", "at most"


class Missing(Exception):
    """The row cannot be made; the text says why, in words for the table."""


@dataclass
class Figure:
    """What a row shows: the figure, its extremes over the rounds, and both sides of it."""
    value: float
    low: Optional[float] = None
    high: Optional[float] = None
    weft: Optional[float] = None
    raw: Optional[float] = None
    unit: str = ""
    note: str = ""


@dataclass
class Row:
    name: str
    title: str
    make: Callable[[dict], Figure]
    direction: str = AT_LEAST
    least: Optional[float] = None
    aim: Optional[float] = None
    needs: list = field(default_factory=list)  # names of measurements

    def judge(self, value):
        """(met the limit, met the aim); None where the row has none."""
        def met(limit):
            if limit is None:
                return None
            return value >= limit if self.direction == AT_LEAST else value <= limit
        return met(self.least), met(self.aim)


def find(measured, name):
    row = measured.get(name)
    if row is None:
        raise Missing("not measured")
    if "missing" in row:
        raise Missing(row["missing"])
    return row


def note_of(row):
    """What the raw side chose."""
    octets = row.get("tcp_buffer", 0)
    return f"raw socket buffers of {octets >> 10} KiB" if octets else ""


def ratio(name):
    """weft to raw."""
    def make(measured):
        row = find(measured, name)
        return Figure(row["ratio"], row["ratio_low"], row["ratio_high"], row["rdma"], row["tcp"],
                      row["unit"], note_of(row))
    return make


def cpu(name):
    """CPU of both ends per octet, weft to raw."""
    def make(measured):
        row = find(measured, name)["cpu"]
        return Figure(row["ratio"], row["ratio_low"], row["ratio_high"], row["rdma"], row["tcp"],
                      "CPU s/GB")
    return make


def absolute(name, scale=1.0, unit=None):
    """weft's own figure, with raw's beside it."""
    def make(measured):
        row = find(measured, name)
        return Figure(row["rdma"] * scale, None, None, row["rdma"] * scale, row["tcp"] * scale,
                      unit or row["unit"])
    return make


def memory(name):
    def make(measured):
        row = find(measured, name)
        return Figure(row["rdma"] / 1024, row["ratio_low"] / 1024, row["ratio_high"] / 1024,
                      row["rdma"] / 1024, None, "KiB")
    return make


def share(name, less_better=False):
    """How much of its own figure weft reaches elsewhere in the same rounds."""
    def make(measured):
        row = find(measured, name)
        value, low, high = row["ratio"], row["ratio_low"], row["ratio_high"]
        if less_better:
            value, low, high = 1 / value, 1 / high, 1 / low
        return Figure(value, low, high, row["rdma"], row["tcp"], row["unit"])
    return make


def beside_bulk(name):
    """weft to raw, with what the streams had."""
    def make(measured):
        row = find(measured, name)
        return Figure(row["ratio"], row["ratio_low"], row["ratio_high"], row["rdma"], row["tcp"],
                      "us", f"bulk {row['rdma_bulk']:.1f} GB/s beside raw's {row['tcp_bulk']:.1f}")
    return make


def segments(name):
    """The longest FPDU to the MSS."""
    def make(measured):
        row = find(measured, name)
        return Figure(row["longest"] / row["mss"], None, None, row["longest"], row["mss"], "octets",
                      f"{row['count']} FPDUs captured")
    return make


def row(name, title, make, needs, least=None, aim=None, direction=AT_LEAST):
    return Row(name, title, make, direction, least, aim, needs)


ON, OFF, DEFAULT = "on", "off", "default"

ROWS = [
    row("write-64K", "RDMA Write 64 KiB, many outstanding", ratio("on/write-bw:64K"),
        ["on/write-bw:64K"], 1.15, 1.40),
    row("write-1M", "RDMA Write 1 MiB", ratio("on/write-bw:1M"), ["on/write-bw:1M"], 0.74, 0.82),
    row("write-1M-off", "RDMA Write 1 MiB, CRC off", ratio("off/write-bw:1M"),
        ["off/write-bw:1M"], 0.90, 0.94),
    row("read-64K", "RDMA Read 64 KiB", ratio("on/read-bw:64K"), ["on/read-bw:64K"], 1.05, 1.30),
    row("read-1M", "RDMA Read 1 MiB", ratio("on/read-bw:1M"), ["on/read-bw:1M"], 0.70, 0.80),
    row("read-1M-off", "RDMA Read 1 MiB, CRC off", ratio("off/read-bw:1M"), ["off/read-bw:1M"],
        0.90, 0.95),
    row("send-64K", "Send/Receive 64 KiB", ratio("on/send-bw:64K"), ["on/send-bw:64K"], 1.10, 1.35),
    row("send-1M", "Send/Receive 1 MiB", ratio("on/send-bw:1M"), ["on/send-bw:1M"], 0.72, 0.80),
    row("cold-1M", "RDMA Write 1 MiB, buffers walked over 256 MiB", ratio("on/write-cold:1M"),
        ["on/write-cold:1M"], 0.92, 1.00),
    row("veth-1500", "veth MTU 1500, RDMA Write 64 KiB", ratio("veth-1500/write-bw:64K"),
        ["veth-1500/write-bw:64K"], 1.00, 1.20),
    row("veth-9000", "veth MTU 9000, RDMA Write 64 KiB", ratio("veth-9000/write-bw:64K"),
        ["veth-9000/write-bw:64K"], 1.00, 1.20),
    row("segments-1500", "veth MTU 1500: the longest FPDU, to the MSS",
        segments("veth-1500/segments"), ["veth-1500/segments"], 1.00, 1.00, AT_MOST),
    row("segments-9000", "veth MTU 9000: the longest FPDU, to the MSS",
        segments("veth-9000/segments"), ["veth-9000/segments"], 1.00, 1.00, AT_MOST),
    row("write-lat-8", "8-octet RDMA Write, half a round trip", ratio("on/write-lat:8"),
        ["on/write-lat:8"], 1.10, 1.03, AT_MOST),
    row("read-lat-8", "8-octet RDMA Read, whole, to half a round trip of raw",
        ratio("on/read-lat:8"), ["on/read-lat:8"], 2.25, 2.05, AT_MOST),
    row("read-asleep-8",
        "8-octet RDMA Read of a program that sleeps, whole, to half a round trip of raw",
        ratio("on/read-asleep:8"), ["on/read-asleep:8"], direction=AT_MOST),
    row("write-lat-4K", "4 KiB RDMA Write, half a round trip", ratio("on/write-lat:4K"),
        ["on/write-lat:4K"], 1.12, 1.05, AT_MOST),
    row("write-lat-64K", "64 KiB RDMA Write, half a round trip", ratio("on/write-lat:64K"),
        ["on/write-lat:64K"], 1.28, 1.15, AT_MOST),
    row("event-lat-8", "8-octet RDMA Write between programs that sleep, to blocking raw TCP",
        ratio("on/write-event:8"), ["on/write-event:8"], 1.25, 1.05, AT_MOST),
    row("told-lat-8",
        "8-octet RDMA Write between programs that wait with poll(), to raw TCP's that do",
        ratio("on/write-told:8"), ["on/write-told:8"], direction=AT_MOST),
    row("rate-64", "8-octet RDMA Writes in lists of 64, million per second",
        absolute("on/write-rate:8x64"), ["on/write-rate:8x64"], 5, 10),
    row("rate-1", "8-octet RDMA Writes posted singly, million per second",
        absolute("on/write-rate:8x1"), ["on/write-rate:8x1"], 1.5, 4),
    row("cpu-64K", "CPU s/GB of both ends, RDMA Write 64 KiB", cpu("on/write-bw:64K"),
        ["on/write-bw:64K"], 0.9, 0.75, AT_MOST),
    row("cpu-1M", "CPU s/GB of both ends, RDMA Write 1 MiB", cpu("on/write-bw:1M"),
        ["on/write-bw:1M"], 1.4, 1.2, AT_MOST),
    row("passive-1M", "CPU of the passive side of RDMA Write 1 MiB, to that of a raw receiver",
        ratio("on/write-passive:1M"), ["on/write-passive:1M"], 1.15, 1.05, AT_MOST),
    row("requests-1000", "4 KiB request, 16-octet answer, 1,000 QPs, to raw epoll",
        ratio("on/requests:4Kx1000"), ["on/requests:4Kx1000"], 0.80, 0.95),
    row("requests-9900", "4 KiB request, 16-octet answer, 9,900 QPs, to raw epoll",
        ratio("on/requests:4Kx9900"), ["on/requests:4Kx9900"], 0.75, 0.95),
    row("idle-memory", "user memory of an idle connected QP, KiB",
        memory("on/idle-memory:1000"), ["on/idle-memory:1000"], 8, 2, AT_MOST),
    row("connect", "connections per second, to raw connect and one exchange",
        ratio("on/connect:1"), ["on/connect:1"], 0.5, 0.8),
    row("beside", "rise of the small-message p99 beside a bulk stream, to raw's",
        beside_bulk("on/write-beside:8"), ["on/write-beside:8"], 1.00, None, AT_MOST),
    row("mixed-lat-8",
        "8 octets between threads that sleep, half a round trip, beside threads that stream",
        beside_bulk("on/mixed:8"), ["on/mixed:8"], direction=AT_MOST),
    row("one-core-lat-8",
        "polling on one core: 8-octet RDMA Write, half a round trip, to raw TCP that sleeps",
        ratio("one-core/shared-lat:8"), ["one-core/shared-lat:8"], direction=AT_MOST),
    row("one-core-64K", "polling on one core: RDMA Write 64 KiB, to raw TCP that sleeps",
        ratio("one-core/shared-bw:64K"), ["one-core/shared-bw:64K"]),
    *[row(f"default-{name}", f"under the system's own congestion control, of cubic: {title}",
          share(f"default/{point}", less), [f"default/{point}"], 0.9, 1.0)
      for name, title, point, less in (
          ("write-64K", "RDMA Write 64 KiB", "write-bw:64K", False),
          ("write-1M", "RDMA Write 1 MiB", "write-bw:1M", False),
          ("read-1M", "RDMA Read 1 MiB", "read-bw:1M", False),
          ("send-1M", "Send/Receive 1 MiB", "send-bw:1M", False),
          ("write-lat-8", "8-octet RDMA Write latency", "write-lat:8", True),
          ("rate-64", "8-octet RDMA Writes in lists of 64", "write-rate:8x64", False))],
]


def points_of(group):
    """The points of `group` that the rows need, in the order of the table."""
    found = {}
    for one in ROWS:
        for name in one.needs:
            where, point = name.split("/", 1)
            if where == group:
                found[point] = True
    return list(found)


def make_all(measured, rows=None):
    """The rows as they are printed and stored."""
    made = []
    for one in ROWS if rows is None else rows:
        entry = {"name": one.name, "title": one.title, "direction": one.direction,
                 "least": one.least, "aim": one.aim}
        try:
            figure = one.make(measured)
        except Missing as reason:
            entry["missing"] = str(reason)
        else:
            entry.update({key: value for key, value in vars(figure).items() if value is not None})
            entry["met"], entry["aim_met"] = one.judge(figure.value)
        made.append(entry)
    return made
