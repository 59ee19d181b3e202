"""Idle connections, and what each of them takes of this process's memory (RssAnon).

usage: sockets_idle.py server PORT | client PORT CONNECTIONS

Every connection carries one octet each way first. To be run on both ends under
`weft run --sockets --iwarp-port PORT`.
"""
import resource
import socket
import sys


def anonymous_kib():
    with open("/proc/self/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def tell(role, before, count):
    print(f"{role}: {(anonymous_kib() - before) / count:.1f} KiB each of {count}")


def serve(listener):
    """The first connection tells how many there will be, and its end is the end."""
    first, _ = listener.accept()
    count = int(first.recv(16))
    before = anonymous_kib()
    held = []
    for _ in range(count):
        held.append(listener.accept()[0])
        held[-1].sendall(held[-1].recv(1))
    first.sendall(b"!")
    first.recv(1)
    tell("server", before, count)


def connect(port, count):
    first = socket.create_connection(("127.0.0.1", port))
    first.sendall(b"%d" % count)
    before = anonymous_kib()
    held = []
    for _ in range(count):
        held.append(socket.create_connection(("127.0.0.1", port)))
        held[-1].sendall(b"?")
        held[-1].recv(1)
    first.recv(1)
    tell("client", before, count)


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port = int(sys.argv[2])
    if sys.argv[1] == "server":
        with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
            serve(listener)
    else:
        connect(port, int(sys.argv[3]))


main()
