#!/usr/bin/env python3
"""The settings of MPA crossed, with weft and with siw as the initiator: talk.c at both ends."""
from interop import (RTR_TYPES, SIW, WEFT, both_ways, case, expect, stop)
from wire import MARKERS, REJECTED

OFF, ON = "off", "on"
TALK = "{{talk}} {} {{address}} {{port}} "


def talk(rig, initiator, server="", client="", **how):
    """Runs talk at both ends: the rounds, with Writes, Reads and Sends of each that are compared;
    then the client leaves."""
    return rig.meet(initiator, TALK.format("server") + server,
                    TALK.format("client") + "leave=1 " + client, **how)


# What the initiator asks for; weft's options, and siw's parameters.
FORMS = {
    "revision_1": (("--mpa-revision", "1"), {"mpa_version": 1}),
    "revision_2": (("--peer-to-peer", OFF), {}),
    "rtr_write": (("--rtr", "write"), {"peer_to_peer": "Y", "rtr_type": RTR_TYPES["write"]}),
    "rtr_read": (("--rtr", "read"), {"peer_to_peer": "Y", "rtr_type": RTR_TYPES["read"]}),
    "rtr_any": (("--rtr", "any"), {"peer_to_peer": "Y", "rtr_type": RTR_TYPES["any"]}),
}
# Who wants CRC: (weft, siw).
CRC = {"neither": (OFF, "N"), "weft": (ON, "N"), "siw": (OFF, "Y"), "both": (ON, "Y")}


@both_ways(**{f"{form}.crc_{who}": (form, who) for form in FORMS for who in CRC})
def startup(rig, initiator, value):
    form, who = value
    weft_options, siw_parameters = FORMS[form]
    weft_crc, siw_crc = CRC[who]
    rig.siw(mpa_crc_required=siw_crc, **(siw_parameters if initiator == SIW else {}))
    options = ("--crc", weft_crc) + (weft_options if initiator == WEFT else ())
    wire = talk(rig, initiator, options=options).wire

    # A siw that answers asks for CRC only where it has been asked.
    used = weft_crc == ON or (siw_crc == "Y" and initiator == SIW)
    wire.judge(crc=used, fpdus_min=2 + 3 * 8)
    revision = 1 if form == "revision_1" else 2
    for frame in (wire.request, wire.reply):
        expect(frame.revision == revision, f"revision {revision} wanted: {frame}")
    offered = {"rtr_any": {"write", "read"}, "rtr_write": {"write"}, "rtr_read": {"read"}}
    if form in offered:
        expect(wire.request.rtr == offered[form], f"wanted {offered[form]}: {wire.request}")
        expect(wire.reply.peer_to_peer, f"A is not echoed: {wire.reply}")
        # A responder names all it can take of those; of two, the initiator chooses.
        first = {"Write": "write", "Read Request": "read"}[wire.opcodes[0][1]]
        expect(first in wire.reply.rtr <= wire.request.rtr, f"RTR by {first}: {wire.reply}")
    elif revision == 2:
        for frame in (wire.request, wire.reply):
            expect(not frame.peer_to_peer, f"no peer-to-peer mode wanted: {frame}")
    expect(wire.opcodes[0][0] == "initiator", "the responder was the first to send")


# Client and server: IRD and ORD as the programs give them.
DEPTHS = {
    "0_0": ((0, 0), (0, 0)), "1_1": ((1, 1), (1, 1)), "16_16": ((16, 16), (16, 16)),
    "128_128": ((128, 128), (128, 128)),
    "client_reads_more": ((1, 16), (16, 1)), "server_reads_more": ((128, 4), (4, 128)),
    "client_asks_too_much": ((16, 128), (4, 4)), "server_asks_too_much": ((4, 4), (16, 128)),
    "client_alone_reads": ((0, 16), (16, 0)), "server_alone_reads": ((16, 0), (0, 16)),
}


@both_ways(**DEPTHS)
def depths(rig, initiator, value):
    """Twice as many Reads are posted at once as ORD lets be outstanding."""
    (client_ird, client_ord), (server_ird, server_ord) = value
    met = talk(rig, initiator,
               server=f"ird={server_ird} ord={server_ord} reads={2 * min(server_ord, 128)}",
               client=f"ird={client_ird} ord={client_ord} reads={2 * min(client_ord, 128)}")
    met.wire.judge(crc=True)
    request, reply = met.wire.request, met.wire.reply
    expect((request.ird, request.ord) == (client_ird, client_ord), f"{request}")
    # RFC 6581 section 5: what the responder may ask for is no more than the initiator can serve.
    expect(reply.ord <= client_ird, f"the responder's ORD exceeds the initiator's IRD: {reply}")
    reads = [sum(row == (end, "Read Request") for row in met.wire.opcodes)
             for end in ("initiator", "responder")]
    for count, wanted in zip(reads, (client_ord, server_ord)):
        expect(count >= 3 * 2 * min(wanted, 128), f"{reads} Read Requests")


# 251 is the most that siw can say in revision 2: it counts those octets and the four of enhanced
# startup in one octet.
LENGTHS = {"none": 0, "one": 1, "sixty": 60, "most": 251}


@both_ways(**LENGTHS)
def private_data(rig, initiator, length):
    met = talk(rig, initiator, server=f"private={length}", client=f"private={length}")
    for program, event in ((met.server, "request"), (met.client, "established")):
        expect(f"private={length} good" in program.says(f"{event} .*").text(),
               f"{event}: not {length} octets of private data: {program.text()}")
    met.wire.judge()


@both_ways(**LENGTHS)
def rejected(rig, initiator, length):
    met = talk(rig, initiator, server=f"reject=1 private={length}",
               client=f"reject=1 private={length}")
    met.wire.judge(fpdus_min=0)
    expect(met.wire.reply.flags & REJECTED, f"no rejection: {met.wire.reply}")
    expect(met.wire.reply.private_octets == 4 + length, f"{met.wire.reply}")
    # weft closes at once behind its rejection, and siw sometimes looks at the close alone.
    told = [f"private={n} good" for n in {length, 0 if initiator == SIW else length}]
    expect(any(text in met.client.says("rejected .*").text() for text in told),
           f"not {length} octets of private data: {met.client.text()}")


@case
def long_private_data_to_siw(rig):
    """siw takes 256 octets, four of them for enhanced startup, and resets the connection above
    that; weft then tries revision 1, in which 255 are just 255."""
    met = talk(rig, WEFT, client="private=255")
    expect("private=255 good" in met.server.says("request .*").text(), met.server.text())
    requests = [frame for frame in met.wire.frames if frame.kind == "Request"]
    expect([frame.revision for frame in requests] == [2, 1], f"{[str(f) for f in requests]}")
    met.wire.judge()


@case
def long_private_data_from_siw(rig):
    """What siw says of 255 octets, in revision 2, is that there are 3. weft resets that connection,
    and the next one is served."""
    rig.capture()
    server, port, address = rig.listen(SIW, TALK.format("server"))
    line = TALK.format("client") + "leave=1 "
    rig.start(SIW, line + "private=255 reject=1", port=port, address=address).succeed()
    wire = rig.capture_end()
    expect(wire.request.private_octets == 3 and len(wire.frames) == 1, f"{wire.request}")
    rig.start(SIW, line, port=port, address=address).succeed()
    server.succeed()


@both_ways()
def markers(rig, initiator):
    """siw has no markers: it rejects a Request that asks for them, and leaves at such a Reply."""
    rig.capture()
    server, port, address = rig.listen(initiator, TALK.format("server"), ("--markers", ON))
    client = rig.start(initiator, TALK.format("client") + "reject=1", ("--markers", ON), port=port,
                       address=address).succeed()
    expect("rejected" in client.text(), client.text())
    if initiator == SIW:
        expect(server.wait() == 1, f"the server: {server.status()}")
        expect("a receive: " in server.text(), f"the server was not told: {server.text()}")
    wire = rig.capture_end()
    expect((wire.request if initiator == WEFT else wire.reply).flags & MARKERS, "M is not set")
    expect(bool(wire.reply.flags & REJECTED) == (initiator == WEFT), f"{wire.reply}")
    expect(not wire.fpdus, f"FPDUs: {dict(wire.fpdus)}")


@case
def no_common_rtr(rig):
    """siw offers the Read alone and weft takes the Write alone: both programs are told, and siw
    says so by a Terminate."""
    rig.siw(peer_to_peer="Y", rtr_type=RTR_TYPES["read"])
    met = talk(rig, SIW, options=("--rtr", "write"), succeed=False)
    for program in (met.server, met.client):
        expect("CONNECT_ERROR" in program.text(), f"{program.replay()}: {program.text()}")
    expect([row for row in met.wire.opcodes] == [("initiator", "Terminate")],
           f"{met.wire.opcodes}")


@case
def revision_1_alone(rig):
    """weft that knows revision 1 alone closes on a Request of revision 2; siw's program is told."""
    rig.capture()
    server, port, address = rig.listen(SIW, TALK.format("server"), ("--mpa-revision", "1"))
    rig.start(SIW, TALK.format("client") + "reject=1", port=port, address=address).succeed()
    expect(server.running(), f"the server: {server.status()}")
    wire = rig.capture_end()
    expect(len(wire.frames) == 1, f"{[str(frame) for frame in wire.frames]}")


@case
def rtr_send(rig):
    """siw cannot take a Send as ready-to-receive message: it answers with the Write, which weft has
    not offered. weft's program is told, and the peer, by a Terminate. That one leaves while siw
    waits for the message stops the guest's kernel (a BUG in iw_cm), so this guest ends here."""
    rig.capture()
    server, port, address = rig.listen(WEFT, TALK.format("server"))
    client = rig.start(WEFT, TALK.format("client"), ("--rtr", "send"), port=port, address=address)
    client.says("CONNECT_ERROR")
    expect(client.wait() == 1, f"the client: {client.status()}")
    wire = rig.capture_end()
    rig.guest.dead = True
    expect((wire.request.rtr, wire.reply.rtr) == ({"send"}, {"write"}), f"{wire.reply}")
    expect(wire.opcodes == [("initiator", "Terminate")], f"{wire.opcodes}")


stop()
