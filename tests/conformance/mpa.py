"""MPA as the peer speaks it, from RFC 5044 and RFC 6581 alone: nothing here is weft's code.

Startup frames become lists of fields that cover every octet; a Sender frames ULPDUs with markers
and CRC; a Receiver takes FPDUs apart and complains of everything a strict peer would refuse.
"""
import struct

REQUEST_KEY = b"MPA ID Req Frame"
REPLY_KEY = b"MPA ID Rep Frame"
STARTUP_OCTETS = 20
MARKER_INTERVAL = 512
MARKER_OCTETS = 4
CRC_OCTETS = 4
# A MULPDU never goes below this (RFC 5044 section 4.5), so FPDUs may pass a very small MSS.
MULPDU_MIN = 128
MULPDU_MAX = 64768


class Breach(Exception):
    """What arrived breaks a rule; the text says which."""


def _crc_table():
    table = []
    for octet in range(256):
        value = octet
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(octets):
    """The four octets as they stand on the wire, least significant first (RFC 3720 B.4)."""
    register = 0xFFFFFFFF
    for octet in octets:
        register = (register >> 8) ^ _TABLE[(register ^ octet) & 0xFF]
    return struct.pack("<I", register ^ 0xFFFFFFFF)


# Startup frames. A frame is a dict of fields, in wire order; "rtr" is a sorted, comma-separated
# list of read, send, write, or none. The enhanced fields are there when s is 1.

def startup_octets(frame):
    """A frame's octets. Fields may hold nonsense on purpose; "length" overrides the true one."""
    body = frame["data"]
    if frame["s"] and not frame.get("bare"):
        rtr = frame["rtr"].split(",")
        first = frame["a"] << 15 | ("send" in rtr) << 14 | frame["ird"]
        second = ("write" in rtr) << 15 | ("read" in rtr) << 14 | frame["ord"]
        body = struct.pack(">HH", first, second) + body
    flags = frame["m"] << 7 | frame["c"] << 6 | frame["r"] << 5 | frame["s"] << 4
    length = len(body) if frame.get("length") is None else frame["length"]
    return frame["key"] + struct.pack(">BBH", flags | frame["reserved"], frame["rev"],
                                      length) + body


def read_startup(read):
    """Reads one startup frame by read(n); (fields, octets)."""
    head = read(STARTUP_OCTETS)
    flags, revision, length = struct.unpack(">BBH", head[16:])
    if length > 512:
        raise Breach(f"PD_Length {length} is above 512")
    body = read(length)
    frame = {"key": head[:16], "m": flags >> 7, "c": flags >> 6 & 1, "r": flags >> 5 & 1,
             "s": flags >> 4 & 1, "reserved": flags & 15, "rev": revision}
    if frame["s"]:
        if length < 4:
            raise Breach(f"PD_Length {length} does not cover the enhanced words")
        first, second = struct.unpack(">HH", body[:4])
        names = [name for name, bit in (("read", second >> 14 & 1), ("send", first >> 14 & 1),
                                        ("write", second >> 15)) if bit]
        frame.update(a=first >> 15, rtr=",".join(names) or "none", ird=first & 0x3FFF,
                     ord=second & 0x3FFF)
    frame["data"] = body[4:] if frame["s"] else body
    return frame, head + body


class Sender:
    """One direction of full operation, outgoing. `position` counts from its first octet."""

    def __init__(self, markers, crc):
        self.markers, self.crc, self.position = markers, crc, 0

    def fpdu(self, ulpdu, knobs=None):
        """The octets of one FPDU. Knobs break it: length, pad, crc, marker, marker-reserved."""
        knobs = knobs or {}
        length = knobs.get("length", len(ulpdu))
        pad_octets = -(2 + len(ulpdu)) % 4
        pad = knobs.get("pad", bytes(pad_octets))[:pad_octets].ljust(pad_octets, b"\0")
        body = struct.pack(">H", length) + ulpdu + pad
        out, header = bytearray(), None
        position = self.position
        while body:
            if self.markers and position % MARKER_INTERVAL == 0:
                out += self._marker(0 if header is None else position - header, knobs)
                position += MARKER_OCTETS
            if header is None:
                header = position
            room = MARKER_INTERVAL - position % MARKER_INTERVAL if self.markers else len(body)
            out += body[:room]
            position += len(body[:room])
            body = body[room:]
        if self.markers and position % MARKER_INTERVAL == 0:  # between PAD and CRC
            out += self._marker(position - header, knobs)
        crc = crc32c(out) if self.crc or knobs.get("crc") else bytes(CRC_OCTETS)
        out += bytes(octet ^ 0xFF for octet in crc) if knobs.get("crc") == "bad" else crc
        self.position += len(out)
        return bytes(out)

    @staticmethod
    def _marker(pointer, knobs):
        return struct.pack(">HH", knobs.get("marker-reserved", 0),
                           pointer + knobs.get("marker", 0) & 0xFFFF)


class Receiver:
    """One direction of full operation, incoming: octets by read(n), FPDUs out."""

    def __init__(self, read, markers, crc):
        self.read, self.markers, self.crc, self.position = read, markers, crc, 0
        self.crc_of = crc32c

    def fpdu(self):
        """(ULPDU, all octets of its FPDU). Breach: a rule of RFC 5044 section 4 is broken."""
        raw = bytearray()
        leading = self._at_marker()
        if leading:
            self._take_marker(raw, 0)
        header = self.position
        length = struct.unpack(">H", self._take(raw, header, 2))[0]
        ulpdu = self._take(raw, header, length)
        pad = self._take(raw, header, -(2 + length) % 4)
        if any(pad):
            raise Breach(f"padding {pad.hex()} is not zero")
        if self._at_marker():
            self._take_marker(raw, self.position - header)
        covered = bytes(raw)
        crc = self._plain(raw, CRC_OCTETS)
        if self.crc and crc != self.crc_of(covered):
            raise Breach(f"CRC: expected {self.crc_of(covered).hex()}, got {crc.hex()}, over "
                         f"{covered.hex()}")
        return bytes(ulpdu), bytes(raw)

    def _at_marker(self):
        return self.markers and self.position % MARKER_INTERVAL == 0

    def _plain(self, raw, count):
        octets = self.read(count)
        raw += octets
        self.position += count
        return octets

    def _take(self, raw, header, count):
        """`count` octets of the FPDU; the markers among them are checked and left out."""
        out = bytearray()
        while count:
            if self._at_marker():
                self._take_marker(raw, self.position - header)
            room = MARKER_INTERVAL - self.position % MARKER_INTERVAL if self.markers else count
            part = self._plain(raw, min(room, count))
            out += part
            count -= len(part)
        return bytes(out)

    def _take_marker(self, raw, pointer):
        at = self.position
        marker = self._plain(raw, MARKER_OCTETS)
        wanted = struct.pack(">HH", 0, pointer)
        if marker != wanted:
            raise Breach(f"marker at octet {at}: expected {wanted.hex()}, got {marker.hex()}")
