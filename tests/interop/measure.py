"""Runs a perftest program at both ends; knows a fault of siw that shows in its last message."""
from interop import SIW, Skip, WEFT, expect


def siw_lost_a_completion(program):
    """perftest's ends part with a last exchange, and who has the other's last message leaves. siw
    may take that FIN for a reason to call its own last Send failed, although it was sent
    (siw_qp_sq_proc_tx looks whether sending has been suspended, after the octets have gone). The
    measurement is over by then."""
    return (program.status() == "exit status 1" and
            "Bad wc status 2" in program.text() and
            "Failed to close connection" in program.text())


def measure(rig, initiator, line, **how):
    """Runs both ends of a perftest program; the client has to print its row."""
    if initiator == SIW:
        # ib_write_lat's server is the first to write, which MPA allows in this mode alone.
        rig.siw(peer_to_peer="Y")
    elif not rig.network.keeps_segments:
        raise Skip("perftest's client connects before its server listens; QEMU's forwarding takes "
                   "that connection for the guest and then drops it")
    words = line + " -R -F -p {port}"
    met = rig.meet(initiator, words, words + " {address}", succeed=False, **how)
    size = line.split("-s ")[1].split()[0]
    expect(any(row.split()[:1] == [size] for row in met.client.text().splitlines()),
           "the client reports no result")
    on_weft, on_siw = ((met.client, met.server) if initiator == WEFT else
                       (met.server, met.client))
    on_weft.succeed()
    if not siw_lost_a_completion(on_siw):
        on_siw.succeed()
    return met
