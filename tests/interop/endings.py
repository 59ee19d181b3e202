#!/usr/bin/env python3
"""How connections end: either end leaves, or is killed, idle or in the middle of its Writes."""
import signal

from interop import NOTICE_SECONDS, SIW, WEFT, both_ways, expect, stop

TALK = "{{talk}} {} {{address}} {{port}} "


def both_say(text):
    return lambda server, client: all(text in program.text() for program in (server, client))


@both_ways(client="client", server="server")
def disconnect(rig, initiator, leaver):
    """rdma_disconnect by one end, after the rounds; both get every receive back, flushed."""
    lines = [TALK.format(end) + ("leave=1" if end == leaver else "") for end in
             ("server", "client")]
    met = rig.meet(initiator, *lines)
    for program in (met.server, met.client):
        expect("over" in program.text(), f"{program.replay()}: {program.text()}")
    met.wire.judge(crc=True)
    expect("Terminate" not in (row[1] for row in met.wire.opcodes), "a Terminate")


@both_ways(idle_weft=("idle", WEFT), idle_siw=("idle", SIW), busy_weft=("busy", WEFT),
           busy_siw=("busy", SIW))
def killed(rig, initiator, value):
    """SIGKILL of the victim. The survivor, which is writing all the time if `busy`, hears of it,
    gets its receives back, and ends in good order."""
    what, victim = value
    lines = {end: TALK.format(end) + "size=16384" for end in ("client", "server")}
    if what == "busy":
        lines["server" if initiator == victim else "client"] += " flood=1"
    server, client = rig.connect(initiator, lines["server"], lines["client"], both_say("ready"))
    dies, survives = (client, server) if initiator == victim else (server, client)
    if what == "busy":
        survives.says("flooding")
    (dies.process.send_signal if victim == WEFT else dies.signal)(signal.SIGKILL)
    survives.succeed(NOTICE_SECONDS)
    expect("over" in survives.text(), f"the survivor: {survives.text()}")
    expect(what == "idle" or victim == WEFT or "stopped: " in survives.text(),
           f"no Write failed: {survives.text()}")
    rig.capture_end().judge(crc=True)


stop()
