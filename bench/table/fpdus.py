#!/usr/bin/env python3
"""Runs a command, captures what it sends over an interface, and measures the FPDUs in it.

usage: fpdus.py INTERFACE COMMAND...     prints {"count", "longest", "mss"} as JSON

A stream of MPA begins with a Request or a Reply; from there on each FPDU tells its length, so its
borders are known however TCP, or the segmentation of the interface, cuts the octets.
"""
import json
import socket
import struct
import subprocess
import sys
import threading

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
PATIENCE = 60.0
FRAME_HEADS = (b"MPA ID Req Frame", b"MPA ID Rep Frame")
FRAME_OCTETS = 20
MARKERS = 0x80
TIMESTAMP_OCTETS = 12  # of each segment, where both ends of a connection use them


class Stream:
    """One direction of one connection: octets in order, FPDUs counted."""

    def __init__(self):
        self.expected = None
        self.pending = bytearray()
        self.is_mpa = None  # not known yet
        self.in_fpdus = False
        self.broken = False  # the capture lost a packet, or this is no stream to judge
        self.count = self.longest = 0

    def add(self, sequence, octets):
        if self.expected is None:
            self.expected = sequence
        ahead = (sequence - self.expected) & 0xFFFFFFFF
        if ahead >= 1 << 31:  # sent again: what is new of it
            octets, ahead = octets[(1 << 32) - ahead:], 0
        if ahead:
            self.broken = True
        if self.broken or self.is_mpa is False:
            return
        self.expected = (self.expected + len(octets)) & 0xFFFFFFFF
        self.pending += octets
        self.parse()

    def parse(self):
        if not self.in_fpdus:
            if len(self.pending) < FRAME_OCTETS:
                return
            self.is_mpa = bytes(self.pending[:16]) in FRAME_HEADS
            if not self.is_mpa:
                self.pending.clear()
                return
            if self.pending[16] & MARKERS:
                self.broken = True  # they stand at places of their own, which this does not follow
                return
            private = struct.unpack_from("!H", self.pending, 18)[0]
            if len(self.pending) < FRAME_OCTETS + private:
                return
            del self.pending[:FRAME_OCTETS + private]
            self.in_fpdus = True
        at = 0
        while len(self.pending) - at >= 2:
            ulpdu = struct.unpack_from("!H", self.pending, at)[0]
            octets = (2 + ulpdu + 3) // 4 * 4 + 4
            if len(self.pending) - at < octets:
                break
            at += octets
            self.count += 1
            self.longest = max(self.longest, octets)
        del self.pending[:at]


class Capture:
    """All streams of an interface, from packets as a packet socket gives them."""

    def __init__(self):
        self.streams = {}
        self.mss = {}  # of the SYN with these addresses and ports: (MSS, whether timestamps)

    def add_packet(self, packet):
        if len(packet) < 54 or packet[12:14] != b"\x08\x00" or packet[23] != 6:
            return  # not TCP over IPv4
        ip = 14
        tcp = ip + (packet[ip] & 15) * 4
        end = ip + struct.unpack_from("!H", packet, ip + 2)[0] or len(packet)
        source, target, sequence = struct.unpack_from("!HHI", packet, tcp)
        head = (packet[tcp + 12] >> 4) * 4
        key = (packet[ip + 12:ip + 16], source, packet[ip + 16:ip + 20], target)
        if packet[tcp + 13] & 2:  # SYN
            self.mss[key] = options(packet[tcp + 20:tcp + head])
            self.streams[key] = Stream()
            self.streams[key].expected = (sequence + 1) & 0xFFFFFFFF
        elif key in self.streams and end > tcp + head:
            self.streams[key].add(sequence, packet[tcp + head:end])

    def result(self):
        """Of the stream with most FPDUs; the MSS is what its peer allowed."""
        judged = [(stream.count, key) for key, stream in self.streams.items() if stream.count]
        if not judged:
            return None
        _, key = max(judged)
        back = (key[2], key[3], key[0], key[1])
        mss, stamps = self.mss.get(back, (0, False))
        if stamps and self.mss[key][1]:
            mss -= TIMESTAMP_OCTETS
        return {"count": self.streams[key].count, "mss": mss,
                "longest": max(one.longest for one in self.streams.values() if one.count)}


def options(octets):
    """(MSS, whether timestamps are offered) of a SYN."""
    mss, stamps, at = 536, False, 0
    while at < len(octets) and octets[at]:
        if octets[at] == 1:
            at += 1
            continue
        if at + 1 >= len(octets) or octets[at + 1] < 2:
            break
        if octets[at] == 2:
            mss = struct.unpack_from("!H", octets, at + 2)[0]
        stamps = stamps or octets[at] == 8
        at += octets[at + 1]
    return mss, stamps


def main():
    interface, command = sys.argv[1], sys.argv[2:]
    capture = Capture()
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    try:
        listener.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    except PermissionError:
        pass  # a smaller one may lose packets; a stream is judged as far as it is whole
    listener.bind((interface, 0))
    listener.settimeout(0.2)
    done = threading.Event()

    def listen():
        while True:
            try:
                packet = listener.recv(1 << 17)
            except TimeoutError:
                if done.is_set():
                    return
                continue
            capture.add_packet(packet)

    listening = threading.Thread(target=listen)
    listening.start()
    try:
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
    finally:
        done.set()
        listening.join()
    result = capture.result()
    if ran.returncode != 0 or result is None:
        print(ran.stderr.strip() or "no FPDU was captured", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
