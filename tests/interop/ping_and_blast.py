#!/usr/bin/env python3
"""weft ping and weft blast at both ends, the one on weft and the other on siw; data is verified."""
import json
import os

from interop import GUEST_LIBRARIES, SIW, WEFT, Skip, both_ways, case, expect, stop

GUEST_WEFT = "/tmp/measure/bin/weft"
VERBS = {WEFT: "weft", SIW: "system"}


def programs(rig):
    rig.put_with_libraries(rig.weft, GUEST_WEFT)
    return {WEFT: rig.weft, SIW: GUEST_WEFT}


def meet(rig, initiator, words, **how):
    """One measurement: `words` is what the client is told besides the address."""
    if initiator == WEFT and not rig.network.keeps_segments:
        raise Skip("RDMA takes any free port, and QEMU's forwarding wants to know it before")
    paths, responder = programs(rig), SIW if initiator == WEFT else WEFT
    tool = words.split()[0]
    return rig.meet(
        initiator, f"{paths[responder]} {tool} --verbs {VERBS[responder]} --port {{port}}",
        f"{paths[initiator]} {words} {{address}} --verbs {VERBS[initiator]} --port {{port}}", **how)


def measure(rig, initiator, words):
    """Both succeed, no octet is wrong, and the report says who measured what."""
    met = meet(rig, initiator, words + " --verify --json -")
    met.wire.judge(crc=True)
    report = json.loads(met.client.output()[met.client.output().index("{"):])
    expect(report["complete"] and report["plan"]["verify"], f"the report: {report['plan']}")
    for row in report["results"]:
        expect(row["complete"] and row["count"] > 0, f"not all of {row['octets']} octets' messages")
    device = report["client"]["device"]
    expect(device.startswith("siw" if initiator == SIW else "weft"), f"measured by {device}")
    for side, stack in (("client", initiator), ("server", SIW if initiator == WEFT else WEFT)):
        verbs = os.path.dirname(report[side]["verbs"])
        own = os.path.join(os.path.dirname(os.path.dirname(rig.weft)), "lib")
        expect(verbs == own if stack == WEFT else GUEST_LIBRARIES.endswith(verbs),
               f"the {side} runs on {verbs}")


SIZES = "-n 20 --size 1,77,4096,70000"


@both_ways(send=f"--op send {SIZES}", write=f"--op write {SIZES}", read=f"--op read {SIZES}",
           write_read=f"--op write-read {SIZES}", send_event="--op send --wait event -n 20",
           send_unsignalled="--op send --signal none -n 200")
def ping(rig, initiator, words):
    measure(rig, initiator, f"ping {words}")


@both_ways(send=f"--op send {SIZES}", write=f"--op write {SIZES}", read=f"--op read {SIZES}",
           write_event="--op write --wait event -n 50 --size 4096",
           send_both="--op send --both -n 50 --size 4096",
           write_both="--op write --both -n 50 --size 4096",
           write_lists_periodic="--op write --post list:4 --signal periodic -n 100 --size 512",
           four_connections="--op write --connections 4 --wait event -n 20 --size 4096")
def blast(rig, initiator, words):
    measure(rig, initiator, f"blast {words}")


@case
def write_with_immediate_by_siw(rig):
    """siw has none: its end says so, and the other one is told."""
    met = meet(rig, SIW, "ping --op write-imm -n 5", succeed=False)
    expect(met.client.wait() == 1 and "this device cannot do --op write-imm" in met.client.text(),
           f"siw's end: {met.client.status()}: {met.client.text()}")
    expect(met.server.wait() == 1 and "cannot do" in met.server.text(),
           f"weft's end: {met.server.status()}: {met.server.text()}")


stop()
