#!/usr/bin/env python3
"""A wire between weft and siw: TCP segments as they were sent, MTU 1500 and 9000, IPv4 and IPv6."""
from interop import WEFT, both_ways, expect, stop
from measure import measure

PROGRAMS = {
    "rping": ("rping -s -p {port} -a {address} -S 65000 -C 5 -v -V",
              "rping -c -p {port} -a {address} -S 65000 -C 5 -v -V"),
    "write_bw": "ib_write_bw -s 65536 -n 16",
    "talk": ("{talk} server {address} {port} size=65536 reads=4 ord=4 ird=4",
             "{talk} client {address} {port} size=65536 reads=4 ord=4 ird=4 leave=1"),
}
HEADERS = {4: 20 + 20, 6: 40 + 20}
TIMESTAMPS = 12
# What an FPDU is besides its ULPDU: the length and the CRC; padding fills up to four octets.
FRAMING = 2 + 4


def fpdu_octets(ulpdu):
    return FRAMING + ulpdu + (-ulpdu - 2) % 4


@both_ways(**{f"mtu_{mtu}.ipv{family}.{name}": (mtu, family, name)
              for mtu in (1500, 9000) for family in (4, 6) for name in PROGRAMS
              if not (family == 6 and name == "write_bw")})
def wire(rig, initiator, value):
    """No FPDU may be longer than a TCP segment: a NIC places each segment by itself."""
    mtu, family, name = value
    if rig.network.mtu != mtu:
        rig.network.set_mtu(rig.guest, mtu)
    if name == "write_bw":
        met = measure(rig, initiator, PROGRAMS[name])
    else:
        met = rig.meet(initiator, *PROGRAMS[name], family=family)
    met.wire.judge(crc=True, fpdus_min=30)
    segment_max = mtu - HEADERS[family] - TIMESTAMPS
    for end in ("initiator", "responder"):
        expect(met.wire.segment_max[end] <= segment_max, f"a segment above {segment_max}: {end}")
        fpdu_max = fpdu_octets(met.wire.ulpdu_max[end])
        expect(fpdu_max <= segment_max, f"an FPDU of {fpdu_max} octets by the {end}")
    # And it is used: large messages fill their segments.
    weft_end = "initiator" if initiator == WEFT else "responder"
    if name != "write_bw" or initiator == WEFT:
        fpdu_max = fpdu_octets(met.wire.ulpdu_max[weft_end])
        expect(fpdu_max > segment_max - 32, f"weft's FPDUs have {fpdu_max} of {segment_max} octets")


stop(["link"])
