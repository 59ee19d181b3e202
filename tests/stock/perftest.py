#!/usr/bin/env python3
"""perftest: ib_{write,read,send,atomic}_{bw,lat} in their modes.

Over the connection manager (-R), and at the end by ibv_modify_qp in persona ib.

The latency test of Writes waits for the data's last octet to change; the others count completions:
whether all octets arrive whole is shown by rping -V. What this tool cannot do on an iWARP device:

--use-srq -q 2  (or more) Here the receiver tells each QP of the sender, by an RDMA Write, how many
                receives it has used (every rx_depth/3 of them), and takes the QP's number from the
                receive's wr_id. With a shared queue that is the QP it was posted for, not the one
                it served. A QP that is behind the others is told of more than it has posted; its
                window is unsigned and wraps; it sends no more, and both ends poll for ever. With
                the default -n and -q 2 all depends on a QP being 127 ahead of what has arrived,
                of the 128 it may be (-t).
-e with Writes  Refused by the tool.
ibv_wr_start    Used by the tool only on devices of two vendors; here it calls ibv_post_send.
IPv6            This version resolves IPv4 names only.
--write_with_imm  Not in this version; qperf.py has Writes with immediate data.
"""
import re

from stock import PATIENCE, Failure, case, expect, free_port, stop, variants

KINDS = ("write", "read", "send")
BANDWIDTH = {kind: f"ib_{kind}_bw" for kind in KINDS}
LATENCY = {kind: f"ib_{kind}_lat" for kind in KINDS}
ALL = {**{f"{kind}_bw": f"ib_{kind}_bw" for kind in KINDS},
       **{f"{kind}_lat": f"ib_{kind}_lat" for kind in KINDS}}
READ_AND_SEND = {name: program for name, program in ALL.items() if not name.startswith("write")}
ATOMIC_BANDWIDTH = {kind.lower(): ("ib_atomic_bw", "-A", kind)
                    for kind in ("FETCH_AND_ADD", "CMP_AND_SWAP")}
ATOMIC = {**ATOMIC_BANDWIDTH, **{f"{name}_lat": ("ib_atomic_lat", *words[1:])
                                 for name, words in ATOMIC_BANDWIDTH.items()}}


def rows(output):
    """The result lines: lists of numbers that start with the size and the iterations. Of a few
    latencies with one very long among them the tool makes a deviation that is no number."""
    found = []
    for line in output.splitlines():
        if re.fullmatch(r"\s*\d+\s+\d+(\s+-?([\d.]+|nan))+\s*", line):
            found.append([float(number) for number in line.split()])
    return found


def measure(bench, *words, **keywords):
    """As measure_once(), again where an end could not measure the processor's clock: on a machine
    that is disturbed the tool then prints infinite times, or no report."""
    for tries_left in reversed(range(3)):
        before = len(bench.programs)
        try:
            return measure_once(bench, *words, **keywords)
        except Failure:
            ends = bench.programs[before:]
            if not tries_left or not any("Correlation coefficient" in end.text() for end in ends):
                raise
            for end in ends:
                end.end()


def measure_once(bench, program, *words, sizes=(65536,), count=200, options=(),
                 both_report=False, managed=True, **keywords):
    """Runs both ends; the client has to print a row with a plausible number for each size.
    Not managed: connected by ibv_modify_qp, with the addresses exchanged over a socket."""
    port = free_port()
    words = ["-F", "-p", port, *words]
    if managed:
        words.append("-R")
    else:
        words += ["-d", "weft_lo"]
        options = ("--persona", "ib", *options)
    if count:
        words += ["-n", count]
    keywords = {"server_options": options, "client_options": options, **keywords}
    server, client = bench.pair([program, *words], [program, *words, "127.0.0.1"], port, **keywords)
    for output in (server, client) if both_report else (client,):
        found = rows(output)
        expect([row[0] for row in found] == list(sizes),
               f"rows for the sizes {[int(row[0]) for row in found]}, wanted {list(sizes)}")
        for row in found:
            expect(row[1] >= (count or 1), f"{row[1]:g} iterations, wanted {count}")
            # Bandwidth: the average, column 3; latency: the typical value, column 4.
            value = row[4] if program.endswith("lat") and len(row) > 5 else row[3]
            expect(value > 0 or row[0] < 64, f"a result of {value} for {row[0]:g} octets")


@variants(**ALL)
def plain(bench, program):
    measure(bench, program, "-s", 65536)


@variants(write_bw="ib_write_bw", **READ_AND_SEND)
def inline(bench, program):
    """No thread. (ib_write_lat waits by looking at memory, so nothing would ever move there.)"""
    measure(bench, program, "-s", 65536, options=("--engine", "inline"))


@variants(**READ_AND_SEND)
def events(bench, program):
    """-e: sleep on the completion channel instead of polling. With the default -n of 1000 a sender
    has to be woken for the receiver's credits, which are RDMA Writes."""
    measure(bench, program, "-s", 4096, "-e", sizes=[4096], count=None)


@variants(**READ_AND_SEND)
def events_inline(bench, program):
    measure(bench, program, "-s", 4096, "-e", sizes=[4096], count=None,
            options=("--engine", "inline"))


@variants(read="ib_read_bw", send="ib_send_bw")
def both_directions_events(bench, program):
    measure(bench, program, "-s", 65536, "-b", "-e", count=None, both_report=True)


@variants(**ALL)
def all_sizes(bench, program):
    """-a: 2 octets to 8 MiB. Most of the time the tool measures the clock, once for each row."""
    measure(bench, program, "-a", sizes=[2 ** power for power in range(1, 24)], count=5,
            seconds=5 * PATIENCE)


@variants(**ALL)
def old_post_send(bench, program):
    measure(bench, program, "-s", 8192, "--use_old_post_send", sizes=[8192])


@variants(**BANDWIDTH)
def four_qps(bench, program):
    measure(bench, program, "-s", 65536, "-q", 4, count=100)


@variants(read="ib_read_bw", send="ib_send_bw")
def four_qps_events(bench, program):
    """The ends pair their QPs by the order of connecting; a credit names the QP by its place."""
    measure(bench, program, "-s", 65536, "-q", 4, "-e", count=None)


@variants(read="ib_read_bw", send="ib_send_bw")
def four_qps_events_inline(bench, program):
    measure(bench, program, "-s", 65536, "-q", 4, "-e", count=None, options=("--engine", "inline"))


@variants(**BANDWIDTH)
def both_directions(bench, program):
    measure(bench, program, "-s", 65536, "-b", both_report=True)


@variants(**BANDWIDTH)
def both_directions_four_qps(bench, program):
    measure(bench, program, "-s", 32768, "-b", "-q", 4, sizes=[32768], count=100, both_report=True)


@variants(**BANDWIDTH)
def post_list(bench, program):
    """-l: lists of 16 work requests to one call."""
    measure(bench, program, "-s", 16384, "-l", 16, sizes=[16384], count=320)


@variants(**BANDWIDTH)
def old_post_list(bench, program):
    measure(bench, program, "-s", 16384, "-l", 16, "--use_old_post_send", sizes=[16384], count=320)


@variants(**BANDWIDTH)
def small_messages(bench, program):
    """-s 8, more of them than any queue holds."""
    measure(bench, program, "-s", 8, sizes=[8], count=5000)


@variants(write="ib_write_bw", send="ib_send_bw", write_lat="ib_write_lat", send_lat="ib_send_lat")
def inline_data(bench, program):
    """-I: the data travels in the work request."""
    measure(bench, program, "-s", 64, "-I", 64, sizes=[64], count=1000)


@variants(**BANDWIDTH)
def for_a_second(bench, program):
    """-D: by time, not by count."""
    measure(bench, program, "-s", 65536, "-D", 1, count=None)


@variants(bw="ib_send_bw", lat="ib_send_lat")
def shared_receive_queue(bench, program):
    measure(bench, program, "-s", 16384, "--use-srq", sizes=[16384])


@variants(crc_off=("--crc", "off"), markers=("--markers", "on"))
def framing(bench, options):
    for program in BANDWIDTH.values():
        measure(bench, program, "-s", 262144, sizes=[262144], options=options)


@variants(**BANDWIDTH)
def revision_1(bench, program):
    """Without the negotiation of read depths each end uses its own."""
    measure(bench, program, "-s", 65536, options=("--mpa-revision", "1"))


def measure_atomic(bench, atomic, *words, **keywords):
    measure(bench, *atomic, *words, sizes=[8], **keywords)


@variants(**ATOMIC)
def atomic(bench, words):
    measure_atomic(bench, words, count=2000)


@variants(**ATOMIC)
def atomic_inline(bench, words):
    measure_atomic(bench, words, options=("--engine", "inline"))


@variants(**ATOMIC)
def atomic_events(bench, words):
    measure_atomic(bench, words, "-e", count=None)


@variants(**ATOMIC)
def atomic_old_post_send(bench, words):
    measure_atomic(bench, words, "--use_old_post_send")


@variants(**ATOMIC_BANDWIDTH)
def atomic_one_at_a_time(bench, words):
    """-o: so many of a QP's are open."""
    measure_atomic(bench, words, "-o", 1)


@variants(**ATOMIC_BANDWIDTH)
def atomic_four_qps(bench, words):
    measure_atomic(bench, words, "-q", 4, count=500)


@variants(**ATOMIC_BANDWIDTH)
def atomic_four_qps_events(bench, words):
    measure_atomic(bench, words, "-q", 4, "-e", count=None)


@variants(**ATOMIC_BANDWIDTH)
def atomic_both_directions(bench, words):
    measure_atomic(bench, words, "-b", "-q", 2, count=500, both_report=True)


@variants(**ATOMIC_BANDWIDTH)
def atomic_post_list(bench, words):
    measure_atomic(bench, words, "-l", 16, count=320)


@variants(**ATOMIC_BANDWIDTH)
def atomic_for_a_second(bench, words):
    measure_atomic(bench, words, "-D", 1, count=None)


@variants(crc_off=("--crc", "off"), markers=("--markers", "on"), revision_1=("--mpa-revision", "1"))
def atomic_framing(bench, options):
    for words in ATOMIC_BANDWIDTH.values():
        measure_atomic(bench, words, options=options)


# Persona ib. The credits of the head of this file are for iWARP devices only.

@variants(**ALL)
def by_modify_qp(bench, program):
    measure(bench, program, "-s", 65536, managed=False)


@variants(bw="ib_send_bw", lat="ib_send_lat")
def by_modify_qp_inline(bench, program):
    """Of Reads and Writes the passive end waits at its socket: without a thread nothing moves."""
    measure(bench, program, "-s", 65536, options=("--engine", "inline"), managed=False)


@variants(**BANDWIDTH)
def by_modify_qp_four_qps(bench, program):
    measure(bench, program, "-s", 65536, "-q", 4, "-b", count=100, both_report=True, managed=False)


@variants(**READ_AND_SEND)
def by_modify_qp_events(bench, program):
    measure(bench, program, "-s", 4096, "-e", sizes=[4096], managed=False)


@variants(**ATOMIC)
def by_modify_qp_atomic(bench, words):
    measure(bench, *words, sizes=[8], managed=False)


@case
def write_with_imm_is_not_there(bench):
    program = bench.plain("ib_write_bw", "--write_with_imm")
    expect(program.wait() != 0 and "unrecognized option" in program.text(),
           "this perftest has --write_with_imm: measure it")
    for persona in ("iwarp", "ib"):
        bench.limit("ib_write_bw --write_with_imm", persona,
                    "not in perftest 4.5; qperf writes with immediate data")


@variants(**ALL, **{name: words[0] for name, words in ATOMIC.items() if "FETCH" in words[-1]})
def by_modify_qp_refused_by_iwarp(bench, program):
    port = free_port()
    words = [program, "-F", "-p", port, "-d", "weft_lo", "-n", 5]
    server = bench.run(*words).listens(port)
    client = bench.run(*words, "127.0.0.1")
    for end in (client, server):
        expect(end.wait() != 0, f"{program} without -R works on an iWARP device")
        expect("Failed to modify QP" in end.text(), "no word of why")
    bench.facts.clear()
    bench.limit(program, "iwarp", "connects by ibv_modify_qp, from GID and QPN")


@case
def by_modify_qp_shared_receive_queue(bench):
    """With several QPs, which only works where the tool does not count credits."""
    measure(bench, "ib_send_bw", "-s", 4096, "-q", 4, "--use-srq", sizes=[4096], managed=False)


@variants(**ALL)
def by_modify_qp_placed(bench, program):
    """With completions that wait for the peer."""
    measure(bench, program, "-s", 65536, options=("--complete", "placed"), managed=False)


@variants(**BANDWIDTH)
def placed(bench, program):
    measure(bench, program, "-s", 65536, options=("--complete", "placed"))


@variants(**BANDWIDTH)
def persona_ib_by_cm(bench, program):
    measure(bench, program, "-s", 65536, options=("--persona", "ib"))


stop()
