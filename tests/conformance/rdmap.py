"""DDP segments and RDMAP messages as the peer speaks them, from RFC 5040, 5041 and 7306 alone.

A ULPDU becomes a dict of fields, in wire order, that covers every octet of it, reserved bits too;
so what a dialogue compares is all that arrived.
"""
import struct

from mpa import Breach

TAGGED_OCTETS, UNTAGGED_OCTETS, READ_REQUEST_OCTETS = 14, 18, 28
ATOMIC_REQUEST, ATOMIC_RESPONSE = struct.Struct(">IIIQQQQQ"), struct.Struct(">IQ")
ALL_BITS = 0xFFFFFFFFFFFFFFFF

# name: (opcode, tagged, queue). An Atomic Request has the name of its operation, if that has one.
KINDS = {
    "write": (0, 1, None),
    "read-request": (1, 0, 1),
    "read-response": (2, 1, None),
    "send": (3, 0, 0),
    "send-inv": (4, 0, 0),
    "send-se": (5, 0, 0),
    "send-se-inv": (6, 0, 0),
    "terminate": (7, 0, 2),
    "immediate": (8, 0, 0),
    "immediate-se": (9, 0, 0),
    "fetch-add": (10, 0, 1),
    "cmp-swap": (10, 0, 1),
    "atomic-request": (10, 0, 1),
    "atomic-response": (11, 0, 3),
}
NAMES = {opcode: name for name, (opcode, _, _) in KINDS.items()}
OPERATIONS = {0: "fetch-add", 2: "cmp-swap"}
OPERANDS = ("value", "mask", "compare", "compare-mask")


def defaults(kind):
    """The fields of a segment of this kind that a correct sender has no choice in."""
    opcode, tagged, queue = KINDS[kind]
    fields = {"t": tagged, "last": 1, "ddp-reserved": 0, "dv": 1, "rv": 1, "rdmap-reserved": 0,
              "opcode": opcode}
    if tagged:
        fields.update(stag=None, to=None)
    else:
        fields.update(inv=None if "inv" in kind else 0, qn=queue, msn=None, mo=0)
    if kind == "read-request":
        fields.update({"sink": None, "sink-to": None, "size": None, "source": None,
                       "source-to": None})
    elif kind == "terminate":
        fields.update({"layer": None, "etype": None, "code": None, "m": 0, "d": 0, "r": 0,
                       "hdrct-reserved": 0})
    elif KINDS[kind] == KINDS["atomic-request"]:
        operation = {name: number for number, name in OPERATIONS.items()}.get(kind)
        fields.update({"operation-reserved": 0, "operation": operation, "request": None,
                       "target": None, "target-to": None, "value": None,
                       "mask": ALL_BITS if kind == "cmp-swap" else 0,
                       "compare": 0, "compare-mask": ALL_BITS})
    elif kind == "atomic-response":
        fields.update(request=None, original=None)
    fields["data"] = b""
    return fields


def header_octets(fields):
    control = fields["t"] << 7 | fields["last"] << 6 | fields["ddp-reserved"] << 2 | fields["dv"]
    rdmap = fields["rv"] << 6 | fields["rdmap-reserved"] << 4 | fields["opcode"]
    if fields["t"]:
        return struct.pack(">BBIQ", control, rdmap, fields.get("stag") or 0,
                           fields.get("to") or 0)
    return struct.pack(">BBIIII", control, rdmap, fields.get("inv") or 0, fields["qn"],
                       fields["msn"], fields["mo"])


def ulpdu_octets(fields):
    out = header_octets(fields)
    if "sink" in fields:
        out += struct.pack(">IQIIQ", fields["sink"], fields["sink-to"], fields["size"],
                           fields["source"], fields["source-to"])
    elif "layer" in fields:
        hdrct = fields["m"] << 7 | fields["d"] << 6 | fields["r"] << 5 | fields["hdrct-reserved"]>>8
        out += struct.pack(">BBBB", fields["layer"] << 4 | fields["etype"], fields["code"], hdrct,
                           fields["hdrct-reserved"] & 0xFF)
    elif "operation" in fields:
        first = fields["operation-reserved"] << 4 | fields["operation"]
        out += ATOMIC_REQUEST.pack(first, *(fields[name] or 0 for name in (
            "request", "target", "target-to", *OPERANDS)))
    elif "original" in fields:
        out += ATOMIC_RESPONSE.pack(fields["request"] or 0, fields["original"] or 0)
    return out + fields["data"]


def parse(ulpdu):
    """(kind, fields) of a ULPDU. What cannot even be read is a Breach; what is merely wrong
    (versions, reserved bits, queues) is left for the comparison to find."""
    if len(ulpdu) < 2:
        raise Breach(f"a ULPDU of {len(ulpdu)} octets has no header")
    control, rdmap = ulpdu[0], ulpdu[1]
    tagged = control >> 7
    size = TAGGED_OCTETS if tagged else UNTAGGED_OCTETS
    if len(ulpdu) < size:
        raise Breach(f"a ULPDU of {len(ulpdu)} octets is shorter than its header")
    kind = NAMES.get(rdmap & 15)
    if kind is None:
        raise Breach(f"opcode {rdmap & 15} is not assigned")
    fields = {"t": tagged, "last": control >> 6 & 1, "ddp-reserved": control >> 2 & 15,
              "dv": control & 3, "rv": rdmap >> 6, "rdmap-reserved": rdmap >> 4 & 3,
              "opcode": rdmap & 15}
    if tagged:
        fields["stag"], fields["to"] = struct.unpack(">IQ", ulpdu[2:size])
    else:
        fields["inv"], fields["qn"], fields["msn"], fields["mo"] = struct.unpack(
            ">IIII", ulpdu[2:size])
    rest = ulpdu[size:]
    if kind == "read-request":
        if len(rest) < READ_REQUEST_OCTETS:
            raise Breach(f"a Read Request of {len(rest)} octets, not 28")
        (fields["sink"], fields["sink-to"], fields["size"], fields["source"],
         fields["source-to"]) = struct.unpack(">IQIIQ", rest[:READ_REQUEST_OCTETS])
        rest = rest[READ_REQUEST_OCTETS:]
    elif kind == "terminate":
        if len(rest) < 4:
            raise Breach(f"a Terminate of {len(rest)} octets, fewer than 4")
        hdrct = rest[2]
        fields.update({"layer": rest[0] >> 4, "etype": rest[0] & 15, "code": rest[1],
                       "m": hdrct >> 7, "d": hdrct >> 6 & 1, "r": hdrct >> 5 & 1,
                       "hdrct-reserved": (hdrct & 31) << 8 | rest[3]})
        rest = rest[4:]
    elif kind == "atomic-request":
        if len(rest) < ATOMIC_REQUEST.size:
            raise Breach(f"an Atomic Request of {len(rest)} octets, not {ATOMIC_REQUEST.size}")
        first, *others = ATOMIC_REQUEST.unpack_from(rest)
        fields.update({"operation-reserved": first >> 4, "operation": first & 15})
        fields.update(zip(("request", "target", "target-to", *OPERANDS), others))
        kind = OPERATIONS.get(fields["operation"], kind)
        rest = rest[ATOMIC_REQUEST.size:]
    elif kind == "atomic-response":
        if len(rest) < ATOMIC_RESPONSE.size:
            raise Breach(f"an Atomic Response of {len(rest)} octets, not {ATOMIC_RESPONSE.size}")
        fields["request"], fields["original"] = ATOMIC_RESPONSE.unpack_from(rest)
        rest = rest[ATOMIC_RESPONSE.size:]
    fields["data"] = rest
    return kind, fields


def quotation(ulpdu, headers):
    """What follows the four octets of a Terminate that quotes this ULPDU: "", "MD" or "MDR"."""
    if not headers:
        return b""
    size = TAGGED_OCTETS if ulpdu[0] & 0x80 else UNTAGGED_OCTETS
    if "R" in headers:
        size += READ_REQUEST_OCTETS
    return struct.pack(">H", len(ulpdu)) + ulpdu[:size]


def advance(request, octets):
    """A Read Request's ULPDU as a Terminate quotes it when so many octets were answered."""
    if not octets:
        return request
    header, body = request[:UNTAGGED_OCTETS], request[UNTAGGED_OCTETS:]
    sink, sink_to, size, source, source_to = struct.unpack(">IQIIQ", body)
    return header + struct.pack(">IQIIQ", sink, sink_to + octets, size - octets, source,
                                source_to + octets)
