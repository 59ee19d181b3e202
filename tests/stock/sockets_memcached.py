"""Stores values of many sizes in a memcached and reads them again, by its text protocol.

usage: sockets_memcached.py PORT
"""
import socket
import sys


def main():
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as server:
        stream = server.makefile("rwb")
        for size in (1, 100, 5000, 65536, 1_000_000):
            value = bytes(i * 7 % 251 for i in range(size))
            stream.write(b"set key 0 0 %d\r\n%s\r\n" % (size, value))
            stream.flush()
            if stream.readline() != b"STORED\r\n":
                sys.exit(f"{size} octets were not stored")
            stream.write(b"get key\r\n")
            stream.flush()
            stream.readline()
            if stream.read(size + 2)[:-2] != value or stream.readline() != b"END\r\n":
                sys.exit(f"{size} octets came back changed")
    print("equal")


if __name__ == "__main__":
    main()
