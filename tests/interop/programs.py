#!/usr/bin/env python3
"""Stock programs on weft with the same stock programs on siw, whoever of the two initiates."""
import time

from interop import SIW, both_ways, case, expect, stop
from measure import measure

# rping has to tell the other end's buffer in 23 octets, so it takes no fewer.
SIZES = {f"size_{size}": size for size in (23, 64, 4096, 65000)}


@both_ways(**SIZES)
def rping(rig, initiator, size):
    """Send, RDMA Read and RDMA Write; both ends compare the data (-V)."""
    words = f"-p {{port}} -a {{address}} -S {size} -C 10 -v -V"
    met = rig.meet(initiator, f"rping -s {words}", f"rping -c {words}")
    expect(met.server.output().count("server ping data: ") == 10, "not ten pings")
    met.wire.judge(crc=True, fpdus_min=60)
    for name in ("Send", "Read Request", "Read Response", "Write"):
        expect(name in (row[1] for row in met.wire.opcodes), f"no {name} in the capture")


@both_ways()
def rping_twenty(rig, initiator):
    """Twenty connections, one after the other."""
    words = "-p {port} -a {address} -C 3 -v -V"
    for _ in range(20):
        rig.meet(initiator, f"rping -s {words}", f"rping -c {words}", capture=False)


PERFTEST = {
    "write_bw": "ib_write_bw -s 65536 -n 32", "read_bw": "ib_read_bw -s 65536 -n 32",
    "send_bw": "ib_send_bw -s 65536 -n 32", "write_lat": "ib_write_lat -s 256 -n 100",
    "read_lat": "ib_read_lat -s 256 -n 100", "send_lat": "ib_send_lat -s 256 -n 100",
    "write_bw_both_directions": "ib_write_bw -b -s 16384 -n 64",
    "send_bw_four_qps": "ib_send_bw -q 4 -s 4096 -n 64",
    "read_bw_small": "ib_read_bw -s 8 -n 500",
}


@both_ways(**PERFTEST)
def perftest(rig, initiator, line):
    """It meets twice: to exchange addresses, and to measure."""
    measure(rig, initiator, line).wire.judge(crc=True, fpdus_min=32)


@both_ways(write="ib_write_bw", read="ib_read_bw")
def sixteen_mebibytes(rig, initiator, program):
    """Much data with CRC. The capture would take longer to read than to make."""
    measure(rig, initiator, f"{program} -s 1048576 -n 16", capture=False)


UCMATOSE = "ucmatose -p {{port}} -c {} -C 10 -S 1000"


@both_ways(one=1, five=5)
def ucmatose(rig, initiator, connections):
    if initiator == SIW:
        rig.siw(peer_to_peer="Y")
    words = UCMATOSE.format(connections)
    met = rig.meet(initiator, f"{words} -b {{address}}", f"{words} -s {{address}}")
    for program in (met.server, met.client):
        expect("data transfers complete" in program.output(), "nothing was transferred")
        expect("return status 0" in program.output(), "no 'return status 0'")
    met.wire.judge(crc=True, fpdus_min=10 * connections)


@both_ways(rstream="rstream -T v", riostream="riostream")
def rsockets(rig, initiator, program):
    """A stream by rdma-core's own rsockets on siw, and by weft's. Both ends send at once."""
    if initiator == SIW:
        rig.siw(peer_to_peer="Y")
    words = "-p {port} -C 20 -S 4096"
    met = rig.meet(initiator, f"{program} -b {{address}} {words}",
                   f"{program} -s {{address}} {words}")
    met.wire.judge(crc=True, fpdus_min=80)
    for name in ("Send", "Write"):
        expect(name in (row[1] for row in met.wire.opcodes), f"no {name} in the capture")


@case
def server_first_without_peer_to_peer(rig):
    """ucmatose's server sends first and its client waits for that. siw initiates without
    peer-to-peer mode unless told otherwise, and then a responder has to wait for an FPDU: MPA gives
    weft no way to begin (siw as responder does begin). Both ends notice when one of them leaves."""
    words = UCMATOSE.format(1)
    rig.capture()
    server, port, address = rig.listen(SIW, f"{words} -b {{address}}")
    client = rig.start(SIW, f"{words} -s {{address}}", port=port, address=address)
    server.connected(port)
    time.sleep(2)  # in which nothing may happen
    expect(server.running() and client.running(), "an end has ended")
    client.end()
    server.wait()
    wire = rig.capture_end()
    expect(wire.reply.revision == 2 and not wire.request.peer_to_peer, "not the startup wanted")
    expect(not wire.fpdus, f"FPDUs where none may be: {dict(wire.fpdus)}")


@both_ways()
def rdma_client(rig, initiator):
    """The synchronous API: rdma_create_ep and the calls that wait."""
    met = rig.meet(initiator, "rdma_server -p {port}", "rdma_client -s {address} -p {port}")
    for program in (met.server, met.client):
        expect("end 0" in program.output(), "no 'end 0'")
    met.wire.judge(crc=True, fpdus_min=2)


stop()
