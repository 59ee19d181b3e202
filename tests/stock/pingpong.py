#!/usr/bin/env python3
"""libibverbs' own examples, which connect by ibv_modify_qp from GID and QPN (persona ib)."""
import re
import signal

from stock import (PATIENCE, TCP_ESTABLISHED, case, expect, free_port, linked_namespaces,
                   need_ipv6_loopback, octets_moved, stop, variants, wait_until)

IB = ("--persona", "ib")
PROGRAMS = {"rc": "ibv_rc_pingpong", "srq": "ibv_srq_pingpong"}
# The table of weft_lo: 127.0.0.1, then ::1.
MODES = {"gid": ("-g", 0), "no_gid": (), "events": ("-g", 0, "-e"), "short": ("-g", 0, "-s", 16),
         "large": ("-g", 0, "-s", 1000000, "-n", 50),
         "deep": ("-g", 0, "-r", 50, "-n", 3000)}


def check(output, count):
    expect(re.search(rf"^{count} iters in ", output, re.M), "no line of the result")


def exchange(bench, program, *words, options=(), count=1000, address="127.0.0.1", **keywords):
    port = free_port()
    words = [program, "-p", port, *words]
    if "-n" not in words:
        words += ["-n", count]
    else:
        count = words[words.index("-n") + 1]
    server, client = bench.pair(words, [*words, address], port, server_options=(*IB, *options),
                                client_options=(*IB, *options), **keywords)
    # The SRQ example counts what all its QPs did, and each does one more or less.
    if program == PROGRAMS["rc"]:
        check(server, count)
        check(client, count)


@variants(**MODES)
def rc(bench, words):
    exchange(bench, PROGRAMS["rc"], "-d", "weft_lo", *words)


@variants(**MODES)
def srq(bench, words):
    """The end that has counted enough leaves while the other may still be sending on one of the 16
    QPs: that waits as long as InfiniBand would retry, and the other end is done before."""
    exchange(bench, PROGRAMS["srq"], "-d", "weft_lo", *words)


@variants(rc="ibv_rc_pingpong", srq="ibv_srq_pingpong")
def placed(bench, program):
    """With completions that wait for the peer."""
    exchange(bench, program, "-d", "weft_lo", "-g", 0, options=("--complete", "placed"))


@variants(rc="ibv_rc_pingpong")
def inline(bench, program):
    exchange(bench, program, "-d", "weft_lo", "-g", 0, options=("--engine", "inline"))


@variants(rc="ibv_rc_pingpong")
def ipv6(bench, program):
    need_ipv6_loopback()
    exchange(bench, program, "-d", "weft_lo", "-g", 1)


@variants(checked=("-c",))
def contents(bench, words):
    """The example compares what it received."""
    exchange(bench, PROGRAMS["rc"], "-d", "weft_lo", "-g", 0, *words)


@variants(small=1500, jumbo=9000)
def across_a_link(bench, mtu):
    names, addresses, _ = linked_namespaces(bench, mtu)
    exchange(bench, PROGRAMS["rc"], "-d", "weft_veth0", "-g", 0, "-s", 100000,
             namespaces=(names[1], names[0]), address=addresses[1])


@case
def refused_by_iwarp(bench):
    """An iWARP device is not connected in this way: the example says what it could not do."""
    port = free_port()
    words = [PROGRAMS["rc"], "-p", port, "-d", "weft_lo", "-g", 0]
    server = bench.run(*words).listens(port)
    client = bench.run(*words, "127.0.0.1")
    client.wait(PATIENCE)
    server.wait(PATIENCE)
    expect("Failed to modify QP to RTR" in server.errors(), "no word of why")
    bench.limit(PROGRAMS["rc"], "iwarp", "connects by ibv_modify_qp, from GID and QPN")


@case
def a_peer_that_is_killed(bench):
    """What the survivor sends next fails as on InfiniBand: the retries are exceeded. By a program
    that sends without end: the examples may be waiting for an answer, there too for ever."""
    port = free_port()
    words = ["ib_write_bw", "-F", "-p", port, "-d", "weft_lo", "-D", 50]
    server = bench.run(*words, options=IB).listens(port)
    client = bench.run(*words, "127.0.0.1", options=IB)

    def under_way():
        """The connection meant is not the one over which the ends tell each other who they are;
        that one is in use until the first Write."""
        expect(server.running() and client.running(), "an end left before it was to be killed")
        return any(state == TCP_ESTABLISHED and local != port and octets_moved(local) > 10_000_000
                   for local, state, _ in server.sockets())
    wait_until(under_way, "ten million octets moved", step=0.1)
    server.process.send_signal(signal.SIGKILL)
    server.wait()
    client.wait(PATIENCE)
    expect("Failed status 12" in client.text(), "the client did not exceed its retries")


stop()
