#!/usr/bin/env python3
"""rping: each ping is a Send, an RDMA Read, a Send, an RDMA Write and a Send, data validated."""
import re

from stock import (TCP_ESTABLISHED, case, expect, free_port, linked_namespaces,
                   need_ipv6_loopback, stop, variants, wait_until)

BOTH = {"crc_off": ("--crc", "off"), "markers": ("--markers", "on"),
        "markers_without_crc": ("--markers", "on", "--crc", "off"),
        "revision_1": ("--mpa-revision", "1"), "one_sided_start": ("--peer-to-peer", "off"),
        "rtr_read": ("--rtr", "read"), "rtr_write": ("--rtr", "write"),
        "inline": ("--engine", "inline"),
        "inline_markers": ("--engine", "inline", "--markers", "on"),
        "persona_ib": ("--persona", "ib")}


def check(server, client, count, size):
    """Every ping has to have arrived at both ends, whole. rping ends each text with a 0 octet."""
    for output, start in ((server, "server ping data: "), (client, "ping data: ")):
        lines = re.findall(rf"^{start}(rdma-ping-(\d+): .*)$", output, re.M)
        expect([int(number) for _, number in lines] == list(range(count)),
               f"wanted lines '{start}rdma-ping-0' to {count - 1}, got {len(lines)}")
        for text, _ in lines:
            expect(len(text) == size - 1, f"a text of {len(text)} octets, wanted {size - 1}")


def pings(bench, count=10, size=64, address="127.0.0.1", options=(), **keywords):
    port = free_port(address) if "namespaces" not in keywords else free_port()
    words = ["-a", address, "-p", port, "-C", count, "-S", size, "-v", "-V"]
    keywords = {"server_options": options, "client_options": options, **keywords}
    server, client = bench.pair(["rping", "-s", *words], ["rping", "-c", *words], port, **keywords)
    check(server, client, count, size)


@case
def hundred(bench):
    """The README's own lines: no -S, no -V."""
    port = free_port()
    words = ["-a", "127.0.0.1", "-p", port, "-C", 100, "-v"]
    server, client = bench.pair(["rping", "-s", *words], ["rping", "-c", *words], port)
    check(server, client, 100, 64)


@case
def large(bench):
    pings(bench, size=65000)


@case
def ipv6(bench):
    need_ipv6_loopback()
    pings(bench, address="::1", size=3000)


@variants(**BOTH)
def both_ends(bench, options):
    pings(bench, size=20000, options=options)


@variants(**BOTH)
def server_only(bench, options):
    """Each end decides for itself; what one asks the other has to give."""
    pings(bench, size=20000, server_options=options)


@variants(**BOTH)
def client_only(bench, options):
    pings(bench, size=20000, client_options=options)


@variants(thread="thread", inline="inline")
def twenty_pairs(bench, engine):
    """Forty processes at once."""
    pairs = []
    for index in range(20):
        port = free_port()
        words = ["-a", "127.0.0.1", "-p", port, "-C", 20, "-S", 1000 + index, "-v", "-V"]
        server = bench.run("rping", "-s", *words, options=("--engine", engine))
        pairs.append((server, words, port, 1000 + index))
    clients = [bench.run("rping", "-c", *words, options=("--engine", engine))
               for server, words, port, _ in pairs if server.listens(port)]
    for (server, _, _, size), client in zip(pairs, clients):
        client.succeed()
        server.succeed()
        check(server.output(), client.output(), 20, size)


@case
def no_common_start(bench):
    """One end can start by a Send only, the other by a Write or a Read: refused, and said so.

    (With Send at both ends rping cannot work: that empty Send takes a receive that rping posted.)
    """
    port = free_port()
    words = ["-a", "127.0.0.1", "-p", port, "-C", 10]
    bench.run("rping", "-s", *words, options=("--rtr", "send")).listens(port)
    client = bench.run("rping", "-c", *words, options=("--rtr", "write"))
    expect(client.wait() != 0, "the client succeeded")
    expect("RDMA_CM_EVENT_CONNECT_ERROR" in client.text(), "no RDMA_CM_EVENT_CONNECT_ERROR")


@variants(thread="thread", inline="inline")
def persistent_server(bench, engine):
    """One server, clients one by one (-P; two at once would meet a race inside rping).

    The server may not hold more descriptors after the last than after the second.
    """
    port = free_port()
    words = ["-a", "127.0.0.1", "-p", port, "-C", 5, "-S", 5000, "-v", "-V"]
    server = bench.run("rping", "-s", "-P", *words, options=("--engine", engine)).listens(port)
    held = None
    for number in range(20):
        bench.run("rping", "-c", *words).succeed()
        if number == 1:
            held = settled_descriptors(server)
    wait_until(lambda: server.descriptors() <= held,
               f"the server back at {held} descriptors (it has {server.descriptors()})")
    expect(server.running(), f"the server ended: {server.status()}")


def settled_descriptors(server):
    """The descriptors of a server whose last client has gone: when only one port is open there."""
    wait_until(lambda: all(row[1] != TCP_ESTABLISHED for row in server.sockets()),
               "the server's last connection closed")
    return server.descriptors()


@variants(mtu_1500=1500, mtu_9000=9000)
def across_a_link(bench, mtu):
    """Two network namespaces joined by a veth pair, IPv4 and IPv6, CRC on, off, markers."""
    namespaces, addresses4, addresses6 = linked_namespaces(bench, mtu)
    for address in (addresses4[0], addresses6[0]):
        for options in ((), ("--crc", "off"), ("--markers", "on"), ("--engine", "inline")):
            pings(bench, size=65000, address=address, options=options, namespaces=namespaces)


stop()
