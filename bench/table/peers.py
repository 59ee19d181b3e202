"""The peers, from Debian's packages, in rounds with weft and raw TCP: the same minute, cores and
loopback. None of them checks what it carries.

Each program runs as its manual wants it to be fast: pinned as our ends are, polling where it can.
What is missing, or prints what is not understood, is a row that says so.
"""
import json
import os
import re
import statistics
import subprocess
import time
from dataclasses import dataclass
from typing import Callable

import shared  # finds medium, networks and rounds
import works
from groups import Failed
from medium import Failed as NotMeasured, clean_environment, own_loopback
from networks import LOOPBACK, Impossible
from rounds import turns

GB, MIB, MB = 1e9, 1 << 20, 1e6
PROGRAM_SECONDS_MAX = 30
GOODBYE_SECONDS = 0.1  # of a server whose client has its figures
LISTEN_SECONDS = 10
PORT = 15000  # in a namespace of the run's own nobody else has it


class Absent(Exception):
    """No figure from this program; the text says why."""


# ---- what the programs print ---------------------------------------------------------------------

def parse_ucx(output, column, scale):
    """ucx_perftest -v: a line of names, then one of numbers."""
    lines = [line for line in output.splitlines() if "," in line]
    for names, values in zip(lines, lines[1:]):
        if names.startswith("iterations,"):
            return float(dict(zip(names.split(","), values.split(",")))[column]) * scale
    raise Absent("ucx_perftest printed no figures")


def parse_pingpong(output, column):
    """fi_pingpong: a line of names, then one of numbers."""
    lines = [line.split() for line in output.splitlines() if line.strip()]
    for names, values in zip(lines, lines[1:]):
        if names[0] == "bytes" and column in names:
            # "MB/sec" counts octets that went both ways.
            return float(values[names.index(column)])
    raise Absent("fi_pingpong printed no figures")


def parse_iperf(output):
    """GB/s at the receiver."""
    try:
        return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8 / GB
    except (ValueError, KeyError, TypeError):
        raise Absent("iperf3 printed no figures") from None


def parse_sockperf(output):
    """Microseconds of half a round trip, the median."""
    found = re.search(r"percentile 50\.0+ =\s*([\d.]+)", output)
    if not found:
        raise Absent("sockperf printed no figures")
    return float(found.group(1))


def parse_perftest(output, column):
    """ib_*_bw and ib_*_lat: the row of numbers; its columns counted from 0."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > column and all(re.fullmatch(r"-?[\d.]+", word) for word in words):
            return float(words[column])
    raise Absent("perftest printed no figures")


# ---- which programs, with which settings ---------------------------------------------------------

UCX = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo", "UCX_TCP_TX_SEG_SIZE": "256k",
       "UCX_TCP_RX_SEG_SIZE": "256k", "UCX_TCP_SNDBUF": "1m", "UCX_TCP_RCVBUF": "1m",
       "UCX_RNDV_THRESH": "inf", "UCX_TCP_PUT_ENABLE": "y", "UCX_TCP_NODELAY": "y"}
UCX_WORDS = "ucx_perftest, target kept progressing, " + " ".join(f"{k}={v}" for k, v in UCX.items())


@dataclass
class Peer:
    """One program for one work."""
    work: str          # the point it competes with
    subject: str
    program: str
    server: Callable   # seconds -> words
    client: Callable
    parse: Callable
    unit: str
    settings: str
    variables: tuple = ()
    port: int = PORT
    polls_for_weft: bool = False


def iterations(seconds, per_second):
    return str(max(int(seconds * per_second), 50))


def ucx(work, test, octets, column, scale, unit, per_second, outstanding=None):
    words = ["ucx_perftest", "-p", str(PORT), "-t", test, "-s", str(octets), "-f", "-v"]
    if outstanding:  # by itself ucp_get has one Get open
        words += ["-O", str(outstanding)]
    return Peer(work, f"UCX {test}", "ucx_perftest", lambda _: ["ucx_perftest", "-p", str(PORT)],
                lambda seconds: [*words, "-n", iterations(seconds, per_second), "-w",
                                 iterations(seconds / 10, per_second), LOOPBACK],
                lambda output: parse_ucx(output, column, scale), unit, UCX_WORDS,
                tuple(UCX.items()))


def fabric(work, kind, octets, per_second):
    words = ["fi_pingpong", "-p", "tcp", "-e", kind, "-S", str(octets)]

    def both(seconds):
        return [*words, "-I", iterations(seconds, per_second)]
    return Peer(work, f"libfabric tcp send ({kind})", "fi_pingpong",
                lambda seconds: [*both(seconds), "-B", str(PORT)],
                lambda seconds: [*both(seconds), "-P", str(PORT), LOOPBACK],
                lambda output: parse_pingpong(output, "usec/xfer"), "us",
                "fi_pingpong -p tcp, the mean")


def parse_rma(output):
    """fabric_rma: one figure and its unit."""
    words = output.split()
    if len(words) != 2 or words[1] not in ("GB/s", "us"):
        raise Absent("fabric_rma printed no figure")
    return float(words[0])


def fabric_rma(work, kind, octets, unit, per_second):
    scale = GB / MB / octets if unit == "M/s" else 1
    words = ["fabric_rma", str(PORT)]
    return Peer(work, f"libfabric tcp {kind}", "fabric_rma", lambda _: words,
                lambda seconds: [*words, LOOPBACK, kind, str(octets),
                                 iterations(seconds, per_second)],
                lambda output: parse_rma(output) * scale, unit,
                "bench/fabric_rma.c: FI_EP_MSG of provider tcp, 128 in flight, target progressing")


def iperf(work, size):
    return Peer(work, "iperf3", "iperf3", lambda _: ["iperf3", "-s", "-1", "-p", str(PORT)],
                lambda seconds: ["iperf3", "-c", LOOPBACK, "-p", str(PORT), "-t",
                                 str(max(round(seconds), 1)), "-l", size, "-N", "-J"],
                parse_iperf, "GB/s", "iperf3 -l SIZE -N, socket buffers left to the system")


def sockperf(work, octets):
    # It cannot listen where another server has just been.
    port = PORT + 1
    words = ["--tcp", "--nonblocked", "-i", LOOPBACK, "-p", str(port)]
    return Peer(work, "sockperf", "sockperf", lambda _: ["sockperf", "sr", *words],
                lambda seconds: ["sockperf", "pp", *words, "-m", str(octets), "-t",
                                 str(max(round(seconds), 1))],
                parse_sockperf, "us", "sockperf pp --tcp --nonblocked (14 octets at least)",
                port=port)


def perftest(work, program, octets, column, scale, unit, per_second):
    """Stock perftest on weft itself: not a peer, but a check of our own figures."""
    words = [program, "-R", "-F", "-p", str(PORT), "-s", str(octets)]

    def both(seconds):
        return [*words, "-n", iterations(seconds, per_second)]
    return Peer(work, f"weft by {program}", program, both,
                lambda seconds: [*both(seconds), LOOPBACK],
                lambda output: parse_perftest(output, column) * scale, unit,
                f"{program} -R under weft run, CRC on", polls_for_weft=True)


PEERS = [
    ucx("write-bw:64K", "ucp_put_bw", 65536, "overall_bw", MIB / GB, "GB/s", 60000),
    ucx("write-bw:1M", "ucp_put_bw", 1 << 20, "overall_bw", MIB / GB, "GB/s", 8000),
    ucx("read-bw:64K", "ucp_get", 65536, "overall_bw", MIB / GB, "GB/s", 20000, 32),
    ucx("read-bw:1M", "ucp_get", 1 << 20, "overall_bw", MIB / GB, "GB/s", 5000, 32),
    ucx("send-bw:64K", "ucp_am_bw", 65536, "overall_bw", MIB / GB, "GB/s", 60000),
    ucx("send-bw:1M", "ucp_am_bw", 1 << 20, "overall_bw", MIB / GB, "GB/s", 8000),
    ucx("write-lat:8", "ucp_put_lat", 8, "50.0_percentile_lat", 1, "us", 50000),
    ucx("write-lat:4K", "ucp_put_lat", 4096, "50.0_percentile_lat", 1, "us", 30000),
    ucx("write-lat:64K", "ucp_put_lat", 65536, "50.0_percentile_lat", 1, "us", 20000),
    ucx("send-lat:8", "ucp_am_lat", 8, "50.0_percentile_lat", 1, "us", 50000),
    ucx("send-lat:4K", "ucp_am_lat", 4096, "50.0_percentile_lat", 1, "us", 30000),
    ucx("send-lat:64K", "ucp_am_lat", 65536, "50.0_percentile_lat", 1, "us", 20000),
    ucx("read-lat:8", "ucp_get", 8, "50.0_percentile_lat", 1, "us", 50000),
    ucx("write-rate:8x1", "ucp_put_bw", 8, "overall_mr", 1e-6, "M/s", 200000),
    fabric("send-lat:8", "msg", 8, 30000),
    fabric("send-lat:4K", "msg", 4096, 20000),
    fabric("send-lat:64K", "msg", 65536, 10000),
    fabric_rma("write-bw:64K", "write", 65536, "GB/s", 60000),
    fabric_rma("write-bw:1M", "write", 1 << 20, "GB/s", 8000),
    fabric_rma("read-bw:64K", "read", 65536, "GB/s", 60000),
    fabric_rma("read-bw:1M", "read", 1 << 20, "GB/s", 8000),
    fabric_rma("read-lat:8", "read-lat", 8, "us", 50000),
    fabric_rma("write-rate:8x1", "write", 8, "M/s", 200000),
    iperf("send-bw:64K", "64K"),
    iperf("send-bw:1M", "1M"),
    sockperf("send-lat:8", 14),
    perftest("write-bw:64K", "ib_write_bw", 65536, 3, MIB / GB, "GB/s", 60000),
    perftest("write-lat:8", "ib_write_lat", 8, 4, 1, "us", 20000),
    # Sizes between those of the table, in fewer rounds.
    ucx("write-bw:256K", "ucp_put_bw", 262144, "overall_bw", MIB / GB, "GB/s", 20000),
    ucx("read-bw:256K", "ucp_get", 262144, "overall_bw", MIB / GB, "GB/s", 12000, 32),
    ucx("send-bw:256K", "ucp_am_bw", 262144, "overall_bw", MIB / GB, "GB/s", 20000),
    ucx("write-lat:16K", "ucp_put_lat", 16384, "50.0_percentile_lat", 1, "us", 25000),
    ucx("send-lat:16K", "ucp_am_lat", 16384, "50.0_percentile_lat", 1, "us", 25000),
    ucx("read-lat:16K", "ucp_get", 16384, "50.0_percentile_lat", 1, "us", 25000),
    fabric("send-lat:16K", "msg", 16384, 15000),
    fabric_rma("write-bw:256K", "write", 262144, "GB/s", 20000),
    fabric_rma("read-bw:256K", "read", 262144, "GB/s", 20000),
    fabric_rma("read-lat:16K", "read-lat", 16384, "us", 25000),
    iperf("send-bw:256K", "256K"),
]
POINTS = list(dict.fromkeys(peer.work for peer in PEERS))
BETWEEN = ("256K", "16K")
# Up to here weft has to be ahead with its CRC, beyond it without.
CRC_OCTETS_MAX = 64 * works.KIB


# ---- rounds --------------------------------------------------------------------------------------

def pinned(end, words):
    """As our ends: a core each, when there are two."""
    cores = sorted(os.sched_getaffinity(0))
    return words if len(cores) < 2 else ["taskset", "-c", str(cores[end]), *words]


def listens(network, port, process):
    deadline = time.monotonic() + LISTEN_SECONDS
    wanted = f":{port:04X}"
    while time.monotonic() < deadline and process.poll() is None:
        for family in ("tcp", "tcp6"):
            try:
                with open(f"/proc/{network.pid}/net/{family}", encoding="ascii") as table:
                    rows = [line.split() for line in table.readlines()[1:]]
            except OSError:
                continue
            if any(row[1].endswith(wanted) and row[3] == "0A" for row in rows):
                return
        time.sleep(0.02)
    raise Absent("its server does not listen")


def run_pair(network, peer, bench):
    """One figure."""
    program = bench.find(peer.program)
    if program is None:
        raise Absent(f"{peer.program} is not installed")
    variables = {**clean_environment(), **dict(peer.variables), "LC_ALL": "C"}
    if peer.variables:
        variables["LD_PRELOAD"] = bench.busy_poll
    on_weft = [bench.weft, "run", "--"] if peer.polls_for_weft else []
    seconds = bench.plan.program_seconds

    def start(end, words):
        words = pinned(end, [*on_weft, program, *words[1:]])
        return subprocess.Popen([*network.prefix, *words], env=variables,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace")
    server = start(1, peer.server(seconds))
    client = None
    try:
        listens(network, peer.port, server)
        client = start(0, peer.client(seconds))
        output, _ = client.communicate(timeout=PROGRAM_SECONDS_MAX)
        return peer.parse(output)
    except subprocess.TimeoutExpired:
        raise Absent(f"no end within {PROGRAM_SECONDS_MAX} s") from None
    except (ValueError, KeyError, IndexError):
        raise Absent("its figures were not understood") from None
    finally:
        for process in (client, server):
            if process is not None:
                end(process)


def end(process):
    if process.poll() is None:
        try:
            process.wait(GOODBYE_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
    try:
        process.communicate(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


class Collected:
    """The figures of all rounds: subject of a work -> list, one entry for each round."""

    def __init__(self):
        self.figures, self.reasons, self.units = {}, {}, {}

    def add(self, work, subject, unit, value):
        self.figures.setdefault((work, subject), []).append(value)
        self.units[work] = unit

    def ratios(self, work, one, other):
        """Within each round."""
        pairs = zip(self.figures.get((work, one), []), self.figures.get((work, other), []))
        return [a / b for a, b in pairs if a and b]

    def ratio(self, work, one, other):
        ratios = self.ratios(work, one, other)
        return statistics.median(ratios) if ratios else None


RAW, WEFT_ON, WEFT_OFF = "raw TCP", "weft, CRC on", "weft, CRC off"


def measure(bench, congestion):
    """The rows of the peers' table."""
    collected = Collected()
    try:
        with own_loopback(congestion) as place:
            for number in range(1, bench.plan.program_rounds + 1):
                for work in points_of(bench.plan, number):
                    subjects = [RAW, WEFT_ON, WEFT_OFF, *(p for p in PEERS if p.work == work)]
                    for subject in turns(subjects, number):
                        if isinstance(subject, Peer):
                            one_peer(bench, place.owner, subject, collected)
                        else:
                            one_of_ours(bench, place, work, subject, collected)
    except Impossible as reason:
        return [{"work": work, "subject": "all", "missing": str(reason)} for work in POINTS]
    return list(make_rows(collected, points_of(bench.plan, 1)))


def points_of(plan, number):
    """What is measured in this round, counted from 1."""
    return [work for work in POINTS
            if number <= plan.between_rounds or not work.endswith(BETWEEN)]


def one_of_ours(bench, place, work, subject, collected):
    """weft, or plain sockets with the system's own buffers."""
    bench.tell(f"{work}: {subject}")
    point = works.parse(work)
    what = point.tcp if subject == RAW else point.of("on" if subject == WEFT_ON else "off")
    try:
        report = bench.once(place, what, bench.plan.seconds / 2)
    except NotMeasured as reason:
        raise Failed(f"peers, {work}, {subject}: {reason}") from None
    collected.add(work, subject, point.kind.unit, point.kind.value(report))


def one_peer(bench, network, peer, collected):
    bench.tell(f"{peer.work}: {peer.subject}")
    if (peer.work, peer.subject) in collected.reasons:
        return  # it failed in an earlier round, and would again
    try:
        collected.add(peer.work, peer.subject, peer.unit, run_pair(network, peer, bench))
    except Absent as reason:
        collected.reasons[peer.work, peer.subject] = str(reason)


def competes(work, subject):
    """Whether weft with its CRC has to be ahead; without it, it has to be everywhere."""
    return works.parse(work).octets <= CRC_OCTETS_MAX and not subject.startswith("weft")


def make_rows(collected, points):
    settings = {peer.subject: peer.settings for peer in PEERS}
    for work in points:
        subjects = [RAW, WEFT_ON, WEFT_OFF, *(p.subject for p in PEERS if p.work == work)]
        for subject in subjects:
            reason = collected.reasons.get((work, subject))
            figures = collected.figures.get((work, subject))
            if reason or not figures:
                yield {"work": work, "subject": subject, "missing": reason or "not measured"}
                continue
            row = {"work": work, "subject": subject, "value": statistics.median(figures),
                   "unit": collected.units[work], "to_raw": collected.ratio(work, subject, RAW)}
            if subject in settings:
                row["settings"] = settings[subject]
            if not subject.startswith("weft") and subject != RAW:
                row.update(ahead_of(collected, work, subject))
            yield row


def ahead_of(collected, work, subject):
    """The subject beside weft: with CRC where that has to be ahead, else without."""
    ours = WEFT_ON if competes(work, subject) else WEFT_OFF
    ratios = collected.ratios(work, ours, subject)
    if not ratios:
        return {}
    # Of latencies too: above 1 weft is the better one.
    if collected.units[work] in works.LESS_IS_BETTER:
        ratios = [1 / ratio for ratio in ratios]
    median = statistics.median(ratios)
    return {"weft_to_it": median, "weft_to_it_low": min(ratios), "weft_to_it_high": max(ratios),
            "ahead": median >= 1, "against": ours}
