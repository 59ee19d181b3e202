#!/usr/bin/env python3
"""qperf: Sends, Reads, Writes with immediate data and atomics, over the connection manager (-cm 1).

What its tests are made of, where the names do not tell:

rc_rdma_write_bw, rc_rdma_write_lat  Writes with immediate data; the receiver counts completions.
rc_rdma_write_poll_lat  Writes; each end looks at its memory for the last octet to change.
ver_rc_*                Atomics on a row of numbers, every value that comes back compared.
rc_bw, rc_bi_bw         1024 messages open in a queue of 1024: what was polled is posted at once.

With the connection manager it always asks for read depths of 1. The end that only serves Reads and
atomics sleeps in pause(), so it needs a thread. Tests run for a time; -n is for some of them only.
"""
import re

from stock import case, expect, free_port, stop, variants

SENDS = ("rc_bw", "rc_lat", "rc_bi_bw")
IMMEDIATES = ("rc_rdma_write_bw", "rc_rdma_write_lat")
WRITES = ("rc_rdma_write_poll_lat",)
READS = ("rc_rdma_read_bw", "rc_rdma_read_lat")
ATOMICS = ("rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add")
ALL = SENDS + IMMEDIATES + WRITES + READS + ATOMICS
PATIENCE = 60  # of each end with the other; 5 s by itself


def serve(bench, options=()):
    port = free_port()
    server = bench.run("qperf", "-lp", port, "-lto", PATIENCE, options=options)
    return server.listens(port), port


def ask(bench, port, *words, options=()):
    return bench.run("qperf", "127.0.0.1", "-lp", port, "-to", PATIENCE, "-cm", 1, "-t", 1, "-uu",
                     *words, options=options)


def quit_server(bench, server, port):
    bench.plain("qperf", "127.0.0.1", "-lp", port, "quit").succeed()
    server.succeed()
    expect(not server.errors(), f"the server complains: {server.errors()}")


def measure(bench, names, *words, server_options=(), options=()):
    """One client runs all the tests; each has to give a result."""
    server, port = serve(bench, server_options or options)
    client = ask(bench, port, *words, *names, options=options).succeed()
    found = dict(re.findall(r"^(\w+):\n +\w+ += +([\d.]+) ", client.output(), re.M))
    expect(list(found) == list(names), f"results of {list(found)}, wanted {list(names)}")
    for name, value in found.items():
        expect(float(value) > 0, f"{name}: a result of {value}")
    expect(not client.errors(), f"the client complains: {client.errors()}")
    quit_server(bench, server, port)


@case
def events(bench):
    """Both ends sleep on the completion channel."""
    measure(bench, ALL)


@case
def polling(bench):
    measure(bench, ALL, "-cp", 1)


@case
def inline(bench):
    """No thread at either end."""
    measure(bench, SENDS + IMMEDIATES, options=("--engine", "inline"))


@case
def inline_client(bench):
    measure(bench, READS + ATOMICS, options=("--engine", "inline"),
            server_options=("--engine", "thread"))


@case
def persona_ib(bench):
    """By ibv_modify_qp: -cm 0, which the words before the tests' names take back from ask()."""
    measure(bench, ALL, "-cm", 0, options=("--persona", "ib"))


@case
def persona_ib_by_cm(bench):
    measure(bench, SENDS + ATOMICS, options=("--persona", "ib"))


@variants(one_octet="1", a_page="4K", a_megabyte="1M")
def sizes(bench, size):
    measure(bench, ("rc_bw", "rc_bi_bw", "rc_rdma_write_bw", "rc_rdma_write_lat",
                    "rc_rdma_read_bw"), "-m", size)


@case
def one_number(bench):
    """Every atomic goes to one place."""
    measure(bench, ("ver_rc_compare_swap", "ver_rc_fetch_add"), "-m", 8)


@variants(crc_off=("--crc", "off"), markers=("--markers", "on"), revision_1=("--mpa-revision", "1"))
def framing(bench, options):
    measure(bench, ("rc_rdma_write_bw", "ver_rc_compare_swap", "ver_rc_fetch_add"), options=options)


@case
def refused(bench):
    """Transports that there are not: said so, and the server serves on."""
    server, port = serve(bench)
    for name in ("ud_lat", "uc_lat"):
        client = ask(bench, port, name)
        expect(client.wait() != 0, f"{name} succeeded")
    measured = ask(bench, port, "rc_lat").succeed()
    expect("latency" in measured.output(), "no result of rc_lat")
    bench.plain("qperf", "127.0.0.1", "-lp", port, "quit").succeed()
    server.succeed()
    said = "".join(program.text() for program in bench.programs)
    expect("failed to create QP: Operation not supported" in said, "nobody says why")
    bench.limit("qperf, tests of UD and UC", "iwarp", "iWARP has reliable connections only")


stop()
