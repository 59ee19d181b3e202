"""The points of the table: what weft does, what plain sockets do in its place, what is compared.

A point is called WORK:SIZE or WORK:SIZExN: write-bw:64K, write-rate:8x64, requests:4Kx1000. Most
are what `weft blast` and `weft ping` measure over both; the others are weft_bench's.
"""
import re
from dataclasses import dataclass
from typing import Callable, Optional

import shared  # finds work
from work import KIB, MIB, Work

GB = 1e9
DEPTH, SMALL_DEPTH = 128, 512
INLINE_OCTETS = 64
WALKED = 256 * MIB      # more than any cache holds
CHUNK = 64 * KIB        # what a receiver of many small messages asks for at a time
# What plain streams may have as socket buffers; 0 leaves it to the system.
SOCKET_BUFFERS = (0, 512 * KIB, MIB, 2 * MIB, 4 * MIB)

# A new connection of weft's reaches its speed after some 0.1 s of a stream; programs keep theirs.
WARM_UP, SHORT_WARM_UP = 0.15, 0.1

# One buffer again and again, and a target whose program polls its empty CQ, as perftest's does.
STREAM = {"outstanding": DEPTH, "buffers": 1, "signal": "periodic"}


@dataclass(frozen=True)
class Program:
    """What weft_bench measures, over one medium."""
    word: str
    over: str = "rdma"
    crc: str = "on"


@dataclass(frozen=True)
class Kind:
    """A work: (octets, many) -> what is measured, and how its figure is read from a report."""
    unit: str
    rdma: Callable
    tcp: Optional[Callable]
    value: Callable
    stream: bool = False  # its octets mean something, so CPU for each of them does


def blast(octets, op="write", **more):
    return Work("blast", op, size=octets, **{**STREAM, **more})


def ping(octets, op="write", **more):
    return Work("ping", op, size=octets, signal="none",
                **{"inline": octets <= INLINE_OCTETS, **more})


def plain(octets, tool="blast", **more):
    return Work(tool, over="tcp", size=octets,
                **({"buffers": 1, **more} if tool == "blast" else more))


def moved(row):
    return row["messages"] * row["octets"] / GB


def used(row, *sides):
    """CPU seconds per GB, of these sides' processes with all their threads."""
    counted = [row[side]["counted"] for side in sides]
    return sum(one["user_s"] + one["system_s"] for one in counted) / moved(row)


def bandwidth(rdma, tcp):
    return Kind("GB/s", rdma, tcp, lambda row: row["gbps"] / 8, stream=True)


def latency(rdma, tcp):
    return Kind("us", rdma, tcp, lambda row: row["one_way_us"]["p50"])


def by_weft_bench(unit, word, tcp=True):
    return Kind(unit, lambda octets, many: Program(word.format(octets=octets, many=many)),
                (lambda octets, many: Program(word.format(octets=octets, many=many), "tcp"))
                if tcp else None, lambda found: found["value"])


KINDS = {
    "write-bw": bandwidth(lambda octets, _: blast(octets, passive="poll"),
                          lambda octets, _: plain(octets)),
    "read-bw": bandwidth(lambda octets, _: blast(octets, "read", passive="poll"),
                         lambda octets, _: plain(octets, op="read")),
    "send-bw": bandwidth(lambda octets, _: blast(octets, "send"),
                         lambda octets, _: plain(octets)),
    "write-cold": bandwidth(
        lambda octets, _: blast(octets, passive="poll", buffers=WALKED // octets),
        lambda octets, _: plain(octets, buffers=WALKED // octets)),
    "write-passive": Kind("CPU s/GB", lambda octets, _: blast(octets),
                          lambda octets, _: plain(octets, wait="block"),
                          lambda row: used(row, "server"), stream=True),
    "write-lat": latency(lambda octets, _: ping(octets),
                         lambda octets, _: plain(octets, "ping")),
    "send-lat": latency(lambda octets, _: ping(octets, "send"),
                        lambda octets, _: plain(octets, "ping")),
    "read-lat": latency(lambda octets, _: Work("ping", "read", size=octets, passive="poll"),
                        lambda octets, _: plain(octets, "ping")),
    # Of a program that makes no call.
    "read-asleep": latency(lambda octets, _: Work("ping", "read", size=octets),
                           lambda octets, _: plain(octets, "ping")),
    "write-event": latency(lambda octets, _: ping(octets, "write-imm", wait="block"),
                           lambda octets, _: plain(octets, "ping", wait="block")),
    "write-told": latency(lambda octets, _: ping(octets, "write-imm", wait="event"),
                          lambda octets, _: plain(octets, "ping", wait="event")),
    "write-rate": Kind(
        "M/s",
        lambda octets, many: blast(octets, passive="poll", inline=octets <= INLINE_OCTETS,
                                   outstanding=SMALL_DEPTH, buffers=many, post=listed(many)),
        lambda octets, many: plain(octets, outstanding=many, buffers=many, post=listed(many),
                                   chunk=CHUNK),
        lambda row: row["messages_per_s"] / 1e6),
    # For two ends on one core, where plain sockets had better sleep.
    "shared-lat": latency(lambda octets, _: ping(octets),
                          lambda octets, _: plain(octets, "ping", wait="block")),
    "shared-bw": bandwidth(lambda octets, _: blast(octets, passive="poll"),
                           lambda octets, _: plain(octets, wait="block")),
    "requests": by_weft_bench("thousand/s", "requests:{many}"),
    "connect": by_weft_bench("thousand/s", "connect"),
    "idle-memory": by_weft_bench("octets", "idle-memory:{octets}", tcp=False),
    "write-beside": by_weft_bench("us", "write-beside"),
    "mixed": by_weft_bench("us", "mixed"),
}

# The units of figures that are the better the smaller they are.
LESS_IS_BETTER = ("us", "CPU s/GB", "octets")


def verified(work):
    """The same with every octet looked at. Then each message that is on its way has a buffer of its
    own, and a Read is looked at when it completes."""
    if work.tool == "ping":
        return work.at(verify=True)
    return work.at(verify=True, signal="full",
                   buffers=work.buffers if work.buffers >= work.outstanding > 0 else 0)


def listed(many):
    return f"list:{many}" if many > 1 else "single"


@dataclass(frozen=True)
class Point:
    """Both sides of one row."""
    name: str
    kind: Kind
    work: str
    octets: int
    many: int
    rdma: object
    tcp: object

    def of(self, crc):
        return self.rdma.at(crc=crc) if isinstance(self.rdma, Work) else \
            Program(self.rdma.word, "rdma", crc)


def parse(text):
    """A Point; ValueError if there is none of that name."""
    found = re.fullmatch(r"([a-z-]+):(\d+)([KM]?)(?:x(\d+))?", text)
    kind = KINDS.get(found.group(1)) if found else None
    if kind is None:
        raise ValueError(f"{text} is no point (write-bw:64K is one)")
    octets = int(found.group(2)) * {"": 1, "K": KIB, "M": MIB}[found.group(3)]
    many = int(found.group(4) or 1)
    return Point(text, kind, found.group(1), octets, many, kind.rdma(octets, many),
                 kind.tcp and kind.tcp(octets, many))
