"""The sockets surface: each call's result in IWARP_MODE, against the same program on plain TCP.

stock_surface (surface/*.c) makes calls and prints what they gave. Here each of its cases runs twice
and has to print the same both times; where iWARP cannot answer as TCP does, DIFFERENCES says how it
answers instead, and why.
"""
import os

from stock import (PATIENCE, case, expect, free_port, need_ipv6_loopback, stop, variants,
                   wait_until)

# All ports: nothing of such a case is to stay on TCP.
ALL = ("--sockets", "--iwarp-port", "1-65535")

# Family.case: [(the line on TCP, the line in IWARP_MODE, why)]; None: there is no such line.
DIFFERENCES = {
    "octets.peeking": [
        ("recv(pair.client, octets, 0, MSG_DONTWAIT): -1 EAGAIN",
         "recv(pair.client, octets, 0, MSG_DONTWAIT): 0",
         "who asks for nothing gets it at once, as by read")],
    "octets.out_of_band": [
        ('send(pair.server, "!", 1, MSG_OOB): 1',
         'send(pair.server, "!", 1, MSG_OOB): -1 EOPNOTSUPP',
         "the rsockets protocol has no urgent octet")],
    "octets.zero_copy": [
        (f"setsockopt({fd}, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on): 0",
         f"setsockopt({fd}, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on): -1 EOPNOTSUPP",
         "there is no error queue to say that the octets are free again")
        if not value else ("on: 1", "on: 0", "")
        for fd in ("pair.client", "fresh") for value in (False, True)],
    "processes.passing_a_descriptor": [
        ("sendmsg(pair.client, &message, 0): 1", "sendmsg(pair.client, &message, 0): -1 EINVAL",
         "TCP sends the octets and drops the descriptor in silence"),
        ("recv(pair.server, octets, 1, MSG_DONTWAIT): 1",
         "recv(pair.server, octets, 1, MSG_DONTWAIT): -1 EAGAIN", "")],
    "processes.passing_a_socket": [
        ("sendmsg(ends[0], &message, 0): 1", "sendmsg(ends[0], &message, 0): -1 EINVAL",
         "the other process cannot use this one's device")],
    "shared.the_parent_is_killed": [
        ("the child's octet: came back", "the child's octet: is lost",
         "the connection is its maker's, who carries the octets of his children")],
    "ends.a_peer_is_killed_while_we_write": [
        ("sent: -1 ECONNRESET", "sent: -1 EPIPE",
         "what the peer had not read is not known here: the protocol has no reset")],
    "ends.closed_with_unread_octets": [
        ("recv(pair.client, octets, 1, 0): -1 ECONNRESET", "recv(pair.client, octets, 1, 0): 0",
         "likewise: it only says that it leaves")],
    "ends.closed_at_once": [
        ("recv(pair.client, octets, 1, 0): -1 ECONNRESET", "recv(pair.client, octets, 1, 0): 0",
         "likewise: it leaves without a word")],
    "limits.registrations": [
        (f"{what}: 0", f"{what}: -1 ENOMEM", "TCP has no such device, and connects")
        for what in ("regions", "completion queues", "protection domains")],
}


def program(bench):
    return os.path.join(os.path.dirname(bench.weft), "stock_surface")


def names(bench, family):
    listed = bench.plain(program(bench), "--list").succeed().output().split()
    return [name for name in listed if name.split(".")[0] == family]


def expected(name, lines):
    """What TCP said, as iWARP is to say it."""
    differences = list(DIFFERENCES.get(name, ()))
    out = []
    for line in lines:
        if differences and differences[0][0] == line:
            line = differences.pop(0)[1]
            if line is None:
                continue
        out.append(line)
    expect(not differences, f"{name}: TCP does not say '{differences and differences[0][0]}'")
    return out


def compare(name, plain, switched):
    wanted, got = expected(name, plain), switched
    for number, (want, have) in enumerate(zip(wanted, got)):
        if want != have:
            return f"{name}: line {number + 1}: '{want}' on TCP, '{have}' in IWARP_MODE"
    if len(wanted) != len(got):
        odd = (wanted + got)[min(len(wanted), len(got)):][:1]
        return f"{name}: {len(wanted)} lines on TCP, {len(got)} in IWARP_MODE; first: {odd}"
    return None


@variants(calls="calls", octets="octets", ends="ends", ready="ready", processes="processes",
          shared="shared", options="options", signals="signals", limits="limits")
def surface(bench, family):
    wrong = []
    for name in names(bench, family):
        if "ipv6" in name:
            need_ipv6_loopback()
        plain = bench.plain(program(bench), name)
        plain.wait(2 * PATIENCE)
        switched = bench.run(program(bench), name, options=ALL)
        switched.wait(2 * PATIENCE)
        fault = compare(name, plain.output().splitlines(), switched.output().splitlines())
        for one, mode in ((plain, "TCP"), (switched, "IWARP_MODE")):
            if not one.output().endswith("end\n"):
                fault = f"{name} in {mode}: {one.status()} after '{one.output()[-100:].strip()}'"
        if fault:
            wrong.append(fault)
    expect(not wrong, "\n    ".join(wrong))


def beside(bench, name):
    return os.path.join(os.path.dirname(bench.weft), name)


# What a peer may do, and how the victim's stream ends by it.
REFUSED = ("short-data", "no-data", "another-version", "no-credits", "no-target-list")
VIOLATIONS = ("reserved-op-1", "reserved-op-2", "reserved-op-3", "reserved-op-5", "unknown-control",
              "unasked-iomap", "far-iomap", "data-of-nothing", "data-beyond-the-grant", "huge-data",
              "short-message", "empty-message", "long-message", "data-after-shutdown",
              "write-beyond-the-ring", "write-with-another-key", "write-below-the-list")
HARMLESS = ("huge-target-list", "another-byte-order", "writes-beside-the-protocol",
            "limit-goes-back", "flood-of-limits", "goes-without-a-word", "dies")
# The kernel of who dies resets the stream if he left something unread, be it of the protocol's own.
DIED = ("nothing END", "nothing ECONNRESET")
# Against a victim that writes.
BAD_GRANTS = ("grants-what-it-has-not", "buffer-of-another", "buffer-too-long")


class Victims:
    """A server in IWARP_MODE, which tells of each connection how it ended."""

    def __init__(self, bench, does):
        self.bench, self.port, self.ended = bench, free_port(), 0
        self.program = bench.run(beside(bench, "stock_victim"), "serve", self.port, does,
                                 options=("--sockets", "--iwarp-port", self.port))
        self.program.listens(self.port)

    def next_end(self):
        """How the next connection ended: what came over it, and the errno."""
        self.ended += 1
        wait_until(lambda: len(self.program.output().splitlines()) >= self.ended or
                   not self.program.running(), f"connection {self.ended} ends")
        expect(self.program.running(), f"the victim ended: {self.program.status()}")
        return self.program.output().splitlines()[self.ended - 1]

    def meet(self, what):
        return self.bench.run(beside(self.bench, "stock_hostile"), "connect", self.port, what)

    def serve_a_good_one(self):
        """After all that, an honest client is served."""
        client = self.bench.run(beside(self.bench, "stock_hostile"), "connect", self.port, "dies")
        client.process.wait(PATIENCE)
        expect(self.next_end() in DIED, "an honest client is not served")


@case
def hostile_clients(bench):
    """Each breaks a rule; its connection is reset, and the server goes on."""
    victims = Victims(bench, "read")
    for what in REFUSED:
        said = victims.meet(what).succeed().output()
        expect(said == "refused\n", f"{what}: {said.strip()}")
    for what in VIOLATIONS:
        said = victims.meet(what).succeed().output()
        expect(said == "ended\n", f"{what}: {said.strip()}")
        end = victims.next_end()
        # Who reads between a Shutdown and what follows it has met an honest end.
        ends = ("nothing ECONNRESET", *(("nothing END",) if what == "data-after-shutdown" else ()))
        expect(end in ends, f"{what}: {end}")
    for what in HARMLESS:
        victims.meet(what).process.wait(PATIENCE)
        end = victims.next_end()
        expect(end in (DIED if what == "dies" else ("nothing END",)), f"{what}: {end}")
    victims.meet("hangs-up-and-goes-on").succeed()
    expect(victims.next_end() == "nothing END", "what follows a Disconnect is nobody's")
    victims.serve_a_good_one()


@case
def a_client_that_sends_more_than_its_credits(bench):
    """The victim reads nothing meanwhile, so that it gives no new ones."""
    victims = Victims(bench, "wait")
    said = victims.meet("more-than-its-credits").succeed().output()
    expect(said == "ended\n", f"the peer says {said.strip()}")
    end = victims.next_end()
    expect(end.endswith(" ECONNRESET"), end)


@case
def hostile_readers(bench):
    """A peer grants memory that it has not: who writes there is told that the peer is gone."""
    victims = Victims(bench, "write")
    for what in BAD_GRANTS:
        victims.meet(what).process.wait(PATIENCE)
        end = victims.next_end()
        expect(end.split()[1] in ("ECONNRESET", "EPIPE"), f"{what}: {end}")
    victims.meet("dies").process.wait(PATIENCE)
    expect(victims.next_end().split()[1] in ("ECONNRESET", "EPIPE"), "a peer that dies")


@variants(**{what.replace("-", "_"): what for what in (*REFUSED, "unknown-control",
                                                       "data-beyond-the-grant")})
def hostile_server(bench, what):
    port = free_port()
    server = bench.run(beside(bench, "stock_hostile"), "serve", port, what).says("ready")
    client = bench.run(beside(bench, "stock_victim"), "connect", port, options=(
        "--sockets", "--iwarp-port", port, "--tcp-fallback", "off")).succeed()
    wanted = "not connected ECONNREFUSED" if what in REFUSED else "nothing ECONNRESET"
    expect(client.output().strip() == wanted, f"{what}: {client.output().strip()}")
    server.end()


@case
def it_is_iwarp(bench):
    """The same program, by its own word: sockets are in IWARP_MODE with the rule, and only then."""
    name = "octets.much_in_both_directions"
    plain = bench.plain(program(bench), name).succeed()
    expect("in IWARP_MODE: 0" in plain.errors(), "IWARP_MODE without the preload")
    switched = bench.run(program(bench), name, options=ALL).succeed()
    expect("in IWARP_MODE: 2" in switched.errors(), "not in IWARP_MODE, though all ports are")
    unruled = bench.run(program(bench), name, options=("--sockets",)).succeed()
    expect("in IWARP_MODE: 0" in unruled.errors(), "IWARP_MODE without a rule")
    expect(plain.output() == unruled.output(), "the preload alone changes what calls give")


stop()
