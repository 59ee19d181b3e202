#!/usr/bin/env python3
"""The connection manager's own programs: ucmatose, rdma_client, cmtime, rdma_xclient."""
import re

from stock import case, expect, free_port, need_ipv6_loopback, stop, variants

ENGINES = {"thread": "thread", "inline": "inline"}


def ucmatose_pair(bench, address="127.0.0.1", count=10, size=100, connections=1, options=()):
    port = free_port(address)
    words = ["-p", port, "-c", connections, "-C", count, "-S", size]
    server, client = bench.pair(["ucmatose", "-b", address, *words],
                                ["ucmatose", "-s", address, *words], port,
                                server_options=options, client_options=options)
    for output, who in ((server, "server"), (client, "client")):
        expect("data transfers complete" in output, f"the {who} transferred nothing")
        expect("return status 0" in output, f"the {who} does not say 'return status 0'")


@variants(**ENGINES)
def ucmatose(bench, engine):
    ucmatose_pair(bench, options=("--engine", engine))


@variants(**ENGINES)
def ucmatose_many(bench, engine):
    """Thirty connections in one process, both directions."""
    ucmatose_pair(bench, connections=30, count=20, size=4000, options=("--engine", engine))


@case
def ucmatose_persona_ib(bench):
    ucmatose_pair(bench, connections=3, options=("--persona", "ib"))


@case
def ucmatose_ipv6(bench):
    need_ipv6_loopback()
    ucmatose_pair(bench, address="::1")


@case
def ucmatose_connections_only(bench):
    ucmatose_pair_without_data(bench, connections=10)


def ucmatose_pair_without_data(bench, connections):
    port = free_port()
    words = ["-p", port, "-c", connections, "-C", 0]
    outputs = bench.pair(["ucmatose", "-b", "127.0.0.1", *words],
                         ["ucmatose", "-s", "127.0.0.1", *words], port)
    for output in outputs:
        expect("return status 0" in output, "no 'return status 0'")


@variants(**ENGINES)
def rdma_client(bench, engine):
    """The synchronous API: rdma_create_ep and the calls that wait."""
    port = free_port()
    options = ("--engine", engine)
    server, client = bench.pair(["rdma_server", "-p", port],
                                ["rdma_client", "-s", "127.0.0.1", "-p", port], port,
                                server_options=options, client_options=options)
    expect("end 0" in server and "end 0" in client, "no 'end 0'")


@variants(**ENGINES)
def cmtime(bench, engine):
    """Two hundred connections made and unmade, each step of each timed by the program."""
    port = free_port()
    options = ("--engine", engine)
    words = ["-p", port, "-c", 200]
    server = bench.run("cmtime", "-b", "127.0.0.1", *words, options=options).listens(port)
    client = bench.run("cmtime", "-s", "127.0.0.1", *words, options=options).succeed()
    expect(server.running(), f"the server ended: {server.status()}")  # it serves for ever
    for step in ("create id", "resolve addr", "resolve route", "create qp", "connect",
                 "disconnect", "destroy"):
        expect(re.search(rf"^{step}\s*:\s+\d", client.output(), re.M), f"no row '{step}'")
    for program in (server, client):
        expect("error" not in program.text(), "an error in the output")


@variants(**ENGINES)
def rdma_xclient(bench, engine):
    """An endpoint with a shared receive queue."""
    port = free_port()
    options = ("--engine", engine)
    server, client = bench.pair(["rdma_xserver", "-p", port],
                                ["rdma_xclient", "-s", "127.0.0.1", "-p", port], port,
                                server_options=options, client_options=options)
    expect("end 0" in server and "end 0" in client, "no 'end 0'")


@case
def xrc_is_refused(bench):
    """iWARP has no XRC: the program has to be told so at once."""
    port = free_port()
    bench.run("rdma_xserver", "-p", port, "-c", "x").listens(port)
    client = bench.run("rdma_xclient", "-s", "127.0.0.1", "-p", port, "-c", "x")
    expect(client.wait() != 0, "rdma_xclient -c x succeeded")
    expect(re.search(r"rdma_create_ep: .*not supported", client.text()),
           "no 'rdma_create_ep: ... not supported'")
    bench.limit("rdma_xclient -c x", "iwarp", "XRC, which is InfiniBand's alone")


stop()
