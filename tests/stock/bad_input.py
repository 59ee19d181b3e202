#!/usr/bin/env python3
"""Bad input, tried as a new user would: a clear error within a stated time, and nothing hangs."""
import contextlib
import http.client
import os
import re
import socket
import struct

from stock import (PATIENCE, Failure, case, expect, free_port, linked_namespaces, octets_moved,
                   stop, variants, wait_until)

SOON = 20.0  # for what should be answered at once, on a busy machine
SHORT = ("--startup-timeout-ms", "1500")
WITHIN_SHORT = 1.5 + SOON


def rping_client(bench, port, *words, options=SHORT, **keywords):
    return bench.run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 3, "-V", *words,
                     options=options, **keywords)


def refused(program, text, seconds=SOON):
    """The program fails within `seconds`, not of a signal, and says `text`."""
    code = program.wait(seconds)
    expect(code != 0, f"{program.replay()}: succeeded")
    expect(re.search(text, program.text()), f"{program.replay()}: does not say '{text}'")


def still_serves(bench, server, port):
    expect(server.running(), f"the server ended: {server.status()}")
    rping_client(bench, port).succeed()


def persistent_rping(bench, options=SHORT):
    port = free_port()
    words = ["-a", "127.0.0.1", "-p", port, "-S", 60000]
    server = bench.run("rping", "-s", "-P", *words, options=options)
    return server.listens(port), port


def listener(bench, port=0):
    """A plain TCP listener of this test's own on 127.0.0.1."""
    plain = socket.create_server(("127.0.0.1", port))
    bench.at_end.callback(plain.close)
    plain.settimeout(PATIENCE)
    return plain, plain.getsockname()[1]


def connection(bench, port):
    plain = socket.create_connection(("127.0.0.1", port), timeout=WITHIN_SHORT)
    bench.at_end.callback(plain.close)
    return plain


def closed_by_peer(plain):
    """Whether the peer closes or resets; what it sends before is read and dropped."""
    try:
        while plain.recv(4096):
            pass
        return True
    except ConnectionError:
        return True
    except socket.timeout:
        return False


# Addresses and ports.

@case
def unknown_name(bench):
    program = bench.run("rping", "-c", "-a", "no-such-host.invalid", "-p", free_port())
    refused(program, "getaddrinfo|Name or service|name resolution", PATIENCE)


@case
def address_of_another_machine(bench):
    program = bench.run("rping", "-s", "-a", "192.0.2.1", "-p", free_port())
    refused(program, "rdma_bind_addr: Cannot assign requested address")


@case
def no_way_to_the_address(bench):
    """A network without a route, and one where nobody answers for the address."""
    names, _, _ = linked_namespaces(bench, 1500)
    for address, text in (("192.0.2.1", "unreachable|UNREACHABLE|ADDR_ERROR|ROUTE_ERROR"),
                          ("10.91.7.99", "UNREACHABLE|CONNECT_ERROR|ADDR_ERROR|unreachable")):
        program = bench.run("rping", "-c", "-a", address, "-p", 7174, options=SHORT,
                            namespace=names[0])
        refused(program, text, WITHIN_SHORT)


@variants(thread="thread", inline="inline")
def nobody_listens(bench, engine):
    port = free_port()
    refused(rping_client(bench, port, options=("--engine", engine)), "RDMA_CM_EVENT_REJECTED")
    program = bench.run("rdma_client", "-s", "127.0.0.1", "-p", port, options=("--engine", engine))
    refused(program, "rdma_connect: Connection refused")
    program = bench.run("ib_write_bw", "-R", "-F", "-p", port, "127.0.0.1",
                        options=("--engine", engine))
    refused(program, "(?i)rdma_cm|connect|reject")


@case
def port_taken_by_plain_tcp(bench):
    _, port = listener(bench)
    refused(bench.run("rping", "-s", "-a", "127.0.0.1", "-p", port), "Address already in use")


@case
def port_taken_by_weft(bench):
    server, port = persistent_rping(bench)
    refused(bench.run("rping", "-s", "-a", "127.0.0.1", "-p", port), "Address already in use")
    still_serves(bench, server, port)


@case
def port_is_free_again(bench):
    """However a listener ends, and although its connections were open, the port is free at once."""
    server, port = persistent_rping(bench)
    rping_client(bench, port).succeed()
    server.end()
    again = bench.run("rping", "-s", "-P", "-a", "127.0.0.1", "-p", port).listens(port)
    still_serves(bench, again, port)


# Peers that speak something else, or nothing.

@variants(thread="thread", inline="inline")
def http_server(bench, engine):
    """It waits for the end of a line that never comes, so weft's own time-out has to end this."""
    port = free_port()
    bench.plain("python3", "-m", "http.server", "--bind", "127.0.0.1", port).listens(port)
    program = rping_client(bench, port, options=(*SHORT, "--engine", engine))
    refused(program, "RDMA_CM_EVENT_(UNREACHABLE|CONNECT_ERROR)", WITHIN_SHORT)


@variants(http=b"HTTP/1.0 400 Bad Request\r\nContent-Length: 0\r\n\r\n", ssh=b"SSH-2.0-x\r\n",
          zeros=bytes(20), almost=b"MPA ID Rep Frame\x40\x02\xff\xff")
def server_that_answers(bench, answer):
    plain, port = listener(bench)
    program = rping_client(bench, port)
    peer, _ = plain.accept()
    with peer:
        peer.sendall(answer)
        refused(program, "RDMA_CM_EVENT_(CONNECT_ERROR|REJECTED|UNREACHABLE)", WITHIN_SHORT)


@case
def server_that_hangs_up(bench):
    """Twice: after the first time the client tries once more, with the older revision."""
    plain, port = listener(bench)
    program = rping_client(bench, port, options=("--startup-timeout-ms", "60000"))
    plain.accept()[0].close()
    plain.accept()[0].close()
    refused(program, "RDMA_CM_EVENT_(CONNECT_ERROR|REJECTED|UNREACHABLE)", WITHIN_SHORT)


@variants(thread="thread", inline="inline")
def silent_server(bench, engine):
    plain, port = listener(bench)
    program = rping_client(bench, port, options=(*SHORT, "--engine", engine))
    peer, _ = plain.accept()
    with peer:
        refused(program, "RDMA_CM_EVENT_UNREACHABLE", WITHIN_SHORT)


@variants(thread="thread", inline="inline")
def http_client(bench, engine):
    server, port = persistent_rping(bench, (*SHORT, "--engine", engine))
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_SHORT)
    try:
        client.request("GET", "/")
        answer = client.getresponse()
        raise Failure(f"the RDMA server answered HTTP: {answer.status}")
    except (ConnectionError, http.client.HTTPException):
        pass  # closed without an answer, as it should be
    except socket.timeout:
        raise Failure("the RDMA server did not close the HTTP connection") from None
    finally:
        client.close()
    still_serves(bench, server, port)


@variants(thread="thread", inline="inline")
def silent_client(bench, engine):
    server, port = persistent_rping(bench, (*SHORT, "--engine", engine))
    quiet = connection(bench, port)
    still_serves(bench, server, port)  # meanwhile
    expect(closed_by_peer(quiet), "the server keeps a connection that says nothing")
    still_serves(bench, server, port)


@case
def crowd_of_strangers(bench):
    """Sixty connections of every bad kind leave no descriptor behind."""
    server, port = persistent_rping(bench)
    for _ in range(2):
        rping_client(bench, port).succeed()
    wait_until(lambda: len(server.sockets()) == 1, "the server's connections closed")
    before = server.descriptors()
    request = b"MPA ID Req Frame"
    for number in range(60):
        with contextlib.suppress(ConnectionError), \
                socket.create_connection(("127.0.0.1", port), timeout=SOON) as stranger:
            kind = number % 5
            if kind == 1:  # reset at once
                stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif kind == 2:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
            elif kind == 3:  # half a Request
                stranger.sendall(request + b"\x40")
            elif kind == 4:  # private data longer than there may be
                stranger.sendall(request + b"\x40\x02\xff\xff" + bytes(600))
    still_serves(bench, server, port)
    wait_until(lambda: server.descriptors() <= before,
               f"the server back at {before} descriptors", WITHIN_SHORT)


# Peers that die.

KILLED = {f"{program}.{victim}": (program, victim)
          for program in ("rping", "ib_write_bw", "ib_read_bw", "ib_send_bw")
          for victim in ("server", "client")}


@variants(**KILLED)
def killed(bench, what):
    """SIGKILL in mid transfer: the other end notices and ends by itself."""
    program, victim = what
    port = free_port()
    if program == "rping":
        words = ["-a", "127.0.0.1", "-p", port, "-S", 60000]
        server = bench.run("rping", "-s", *words).listens(port)
        client = bench.run("rping", "-c", *words)
    else:
        words = ["-R", "-F", "-p", port, "-s", 65536, "-D", 600]
        server = bench.run(program, *words).listens(port)
        client = bench.run(program, *words, "127.0.0.1")
    wait_until(lambda: octets_moved(port) > 10_000_000, "ten million octets moved", step=0.1)
    dead, left = (server, client) if victim == "server" else (client, server)
    dead.end()
    left.wait(SOON)
    expect(left.text().strip(), "the end that was left said nothing")


@variants(thread="thread", inline="inline")
def killed_clients_leave_nothing(bench, engine):
    """Ten clients killed one after another: the server still serves, with no descriptor more."""
    server, port = persistent_rping(bench, (*SHORT, "--engine", engine))
    held = []
    for _ in range(10):
        client = bench.run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-S", 60000)
        wait_until(lambda: octets_moved(port) > 1_000_000, "a million octets moved", step=0.05)
        client.end()
        wait_until(lambda: len(server.sockets()) == 1, "the server's connection closed")
        held.append(server.descriptors())
    still_serves(bench, server, port)
    wait_until(lambda: server.descriptors() <= held[1], f"the server back at {held[1]} descriptors")


# Programs that break the rules of memory and of queues.

UNMAPPED = ("write-source", "write-target", "read-source", "read-target", "send-source", "receive")


@variants(**{f"{what.replace('-', '_')}.{engine}": (what, engine)
             for what in UNMAPPED for engine in ("thread", "inline")})
def unmapped(bench, what):
    """A registered buffer is unmapped, then used: an error on the connection, and no crash."""
    what, engine = what
    program = os.path.join(os.path.dirname(bench.weft), "stock_unmap")
    port = free_port()
    options = ("--engine", engine)
    server = bench.run(program, "serve", port, what, options=options).listens(port)
    client = bench.run(program, "connect", port, what, options=options)
    client.succeed(SOON)
    server.succeed(SOON)


@variants(thread="thread", inline="inline")
def full_cq(bench, engine):
    """Completions that nobody polls: an error event, and no completion overwritten."""
    program = os.path.join(os.path.dirname(bench.weft), "stock_full_cq")
    port = free_port()
    options = ("--engine", engine)
    server = bench.run(program, "serve", port, options=options).listens(port)
    client = bench.run(program, "connect", port, options=options)
    server.succeed(SOON)
    client.succeed(SOON)


# The weft program and its settings.

@case
def settings(bench):
    refused(bench.plain(bench.weft, "run", "--enigne", "inline", "--", "ibv_devices"),
            "did you mean --engine")
    refused(bench.plain(bench.weft, "run", "--", "ibv_devices", WEFT_CRCC="off"), "WEFT_CRC\\b")
    refused(bench.plain(bench.weft, "run", "--", "ibv_devices", WEFT_CRC="maybe"), "on\\|off")
    refused(bench.plain(bench.weft, "run", "--", "no-such-program"), "there is no such program")
    refused(bench.plain(bench.weft, "run"), "A program is missing")


@case
def settings_without_weft_run(bench):
    """The libraries themselves refuse what they do not know, in every program: once, and be it one
    that opens no device."""
    libraries = os.path.join(os.path.dirname(os.path.dirname(bench.weft)), "lib")
    port = str(free_port())
    for words in (["ibv_devices"], ["ibv_devinfo"], ["rping", "-s", "-a", "127.0.0.1", "-p", port],
                  ["ib_write_bw", "-R", "-p", port]):
        for wrong, text in (({"WEFT_CRCC": "off"}, "WEFT_CRCC.*WEFT_CRC\\b"),
                            ({"WEFT_ENGINE": "fast"}, "WEFT_ENGINE=fast.*thread\\|inline")):
            program = bench.plain(*words, LD_LIBRARY_PATH=libraries, **wrong)
            refused(program, text)
            said = len(re.findall("(?m)^weft: ", program.text()))
            expect(said == 1, f"{program.replay()}: says so {said} times")


stop()
