"""The sets: what each paper measured, which points measure it again, and what they then say.

Numbers of figures and tables are those under which the issue of the papers' topics lists them; the
transports are this machine's. `found` is the paper's finding in our own words. Whether it holds
here is decided by the claims, from the data alone.
"""
import statistics
from dataclasses import dataclass

from claims import Compare, Judge, at_most, below, closeness, judge_gains, saturation, times, \
    with_spread
from work import KIB, MIB, blast, extended, ping, tcp

STUDY = "MacArthur, Russell: A Performance Study to Guide RDMA Programming Decisions (2012)"
IWARP = "Dalessandro, Devulapalli, Wyckoff: Design and Implementation of the iWARP Protocol in " \
        "Software (2005)"
SOCKETS = "Balaji, Jin, Vaidyanathan, Panda: Supporting iWARP Compatibility and Features for " \
          "Regular Network Adapters (2005)"
OFFLOAD = "Westrelin, Fugier, Nordmark, Kunze, Lemoine: Studying Network Protocol Offload With " \
          "Emulation (2004)"


@dataclass(frozen=True)
class Series:
    label: str
    work: object
    metric: str = ""  # else the set's


@dataclass(frozen=True)
class Set:
    name: str
    paper: str
    figure: str
    title: str
    asks: str              # the question, for the page
    found: str             # what the paper found
    series: tuple
    metric: str
    x: str = "size"        # or outstanding
    quick: tuple = ()      # values of x
    thorough: tuple = ()
    quick_veth: tuple = () # on a veth in a quick study
    claims: tuple = ()
    needs: str = ""        # "sockets": a part of weft that need not be there
    split: tuple = ()      # metrics with a plot each, in the place of `metric`
    aside: str = ""        # what a reader has to know about the points

    def metrics(self):
        return self.split or (self.metric,)

    def xs(self, medium, quick):
        if not quick:
            return self.thorough
        return self.quick if medium == "loopback" else self.quick_veth

    def points(self, medium, quick):
        """[[work]]: for each x, those that are measured in turn."""
        return [[series.work.at(**{self.x: x}) for series in self.series]
                for x in self.xs(medium, quick)]


def powers(low, high, step=2):
    values = []
    while low <= high:
        values.append(low)
        low *= step
    return tuple(values)


SHORT = (8, 64, 512)
LATENCY_QUICK, LATENCY = (8, 64, 512, 4 * KIB, 32 * KIB), powers(1, 64 * KIB, 4) + (128, 512)
LATENCY = tuple(sorted({8, 32 * KIB, *LATENCY}))
RATE_QUICK = (64, KIB, 8 * KIB, 64 * KIB, MIB)
RATE = powers(64, 4 * MIB, 4) + (8 * KIB, 128 * KIB)
RATE = tuple(sorted({*RATE, MIB}))
LARGE = (64 * KIB, MIB)
SMALL = (64, KIB)
TCP_PING, TCP_BLAST = tcp(ping()), tcp(blast())

OPERATIONS = {"Send": "send", "RDMA Write": "write", "Write with immediate": "write-imm",
              "RDMA Read": "read"}

# The busy polling of a side that only lends its memory: of its empty CQ.
READ_PING = ping("read", passive="poll")

RDMA = (
    Set("rdma-1", STUDY, "figure 1", "Latency of each operation, busy polling",
        "Which operation carries a short message fastest?",
        "An RDMA Write into memory that the receiver watches is the quickest way for a short "
        "message. An RDMA Read has to ask first, so it takes about a round trip.",
        (*(Series(label, ping(op)) for label, op in OPERATIONS.items() if op != "read"),
         Series("RDMA Read", READ_PING),
         Series("Write, then read back", ping("write-read", passive="poll")),
         Series("TCP", TCP_PING)),
        "time", quick=LATENCY_QUICK, thorough=LATENCY, quick_veth=SHORT,
        claims=(
            Compare("write-to-send", "short messages go by RDMA Write", "time", ping("write"),
                    ping("send"),
                    "Send short messages by RDMA Write: they take {loss} of the time of a Send.",
                    "Between RDMA Write and Send latency does not decide: a short message takes "
                    "{loss} of the time of a Send.",
                    "Do not take RDMA Writes for latency's sake: a short message takes {loss} "
                    "times as long as a Send.", SHORT),
            Compare("write-to-read", "data is pushed, not pulled", "time", ping("write"),
                    READ_PING,
                    "Push short messages, do not pull them: an RDMA Read takes {gain} times as "
                    "long as an RDMA Write.",
                    "Pushing or pulling a short message takes the same time (Read to Write "
                    "{gain}).",
                    "Pull short messages: an RDMA Read takes only {gain} of the time of an RDMA "
                    "Write.", SHORT))),
    Set("rdma-2", STUDY, "figure 2", "Latency of each operation, event notification",
        "What does sleeping until a completion cost?",
        "Waiting for an event costs a wake-up for each message, which outweighs the choice of "
        "operation when messages are short. Busy polling is for those who need the lowest latency "
        "and can give a CPU for it.",
        (*(Series(label, ping(op, wait="event")) for label, op in OPERATIONS.items()
           if op != "write"),
         Series("Send, busy polling", ping("send")), Series("TCP", TCP_PING.at(wait="event"))),
        "time", quick=LATENCY_QUICK, thorough=LATENCY, quick_veth=SHORT,
        aside="A plain RDMA Write is not here: it tells its target nothing that could wake it.",
        claims=(
            Compare("poll-to-event", "busy polling where latency counts", "time", ping("send"),
                    ping("send", wait="event"),
                    "Poll busily where latency counts: a short message takes {gain} times as long "
                    "when both sides sleep for events.",
                    "Busy polling gains nothing in latency: with events a short message takes "
                    "{gain} times as long.",
                    "Wait for events even for latency: a short message takes {gain} of the time "
                    "that it takes by busy polling.", SHORT),
            Compare("event-cpu", "events where the CPU counts", "client_cpu",
                    ping("send", wait="event"), ping("send"),
                    "Wait for events where the CPU is needed elsewhere: a side of a ping of 8 "
                    "octets keeps {better} % of a CPU busy instead of {than} %.",
                    "Events save no CPU: a side of a ping keeps {better} % of a CPU busy, and "
                    "{than} % by busy polling.",
                    "Events cost CPU: a side of a ping keeps {better} % of a CPU busy, and only "
                    "{than} % by busy polling.", SHORT))),
    Set("rdma-3", STUDY, "figure 3", "Latency with and without inline data",
        "Is it worth to put short messages into the work request?",
        "On an adapter, inline data saves a fetch from memory, so messages that fit are faster "
        "inline; the gain is some part of the time by busy polling and is lost beside a wake-up.",
        (Series("Send", ping("send")), Series("Send, inline", ping("send", inline=True)),
         Series("RDMA Write", ping("write")),
         Series("RDMA Write, inline", ping("write", inline=True))),
        "time", quick=SHORT, thorough=(1, 8, 16, 32, 64, 128, 256, 512), quick_veth=(),
        claims=(
            Compare("inline-send", "short Sends go inline", "time",
                    ping("send", inline=True), ping("send"),
                    "Put short messages inline: a Send takes {loss} of the time.",
                    "Inline data makes no difference to a Send ({loss} of the time), but its "
                    "buffer is free again at once.",
                    "Do not put Sends inline for latency: they take {loss} times as long.", SHORT),
            Compare("inline-write", "short RDMA Writes go inline", "time",
                    ping("write", inline=True), ping("write"),
                    "Put short RDMA Writes inline: they take {loss} of the time.",
                    "Inline data makes no difference to an RDMA Write ({loss} of the time), but "
                    "its buffer is free again at once.",
                    "Do not put RDMA Writes inline for latency: they take {loss} times as long.",
                    SHORT))),
    Set("rdma-4", STUDY, "figure 4", "Throughput of each operation",
        "Does the operation decide how much goes through?",
        "With enough messages outstanding all operations reach about the same throughput once "
        "messages are large; with small ones they differ.",
        (*(Series(label, blast(op)) for label, op in OPERATIONS.items()), Series("TCP", TCP_BLAST)),
        "gbps", quick=RATE_QUICK, thorough=RATE, quick_veth=(KIB, 64 * KIB, MIB),
        aside="64 messages outstanding, one work request per post, each signalled.",
        claims=(
            Judge("large-alike", "for large messages the operation does not decide",
                  closeness({label: blast(op, size=MIB) for label, op in OPERATIONS.items()},
                            "gbps", 1.15),
                  "For large messages take the operation that suits the program: at 1 MiB all "
                  "reach {least} to {most} Gb/s.", "",
                  "Choose the operation for large messages too: at 1 MiB the best ({best}, {most} "
                  "Gb/s) carries {apart} times as much as the worst ({worst}, {least} Gb/s).",
                  tuple(blast(op, size=MIB) for op in OPERATIONS.values())),
            Compare("small-write", "small messages in numbers go by RDMA Write", "gbps",
                    blast("write"), blast("send"),
                    "For many small messages take RDMA Writes: {gain} times the throughput of "
                    "Sends.",
                    "Many small messages go as fast by Send as by RDMA Write ({gain}).",
                    "For many small messages take Sends: RDMA Writes reach {gain} of their "
                    "throughput.", SMALL))),
    Set("rdma-5", STUDY, "figure 5", "Throughput and the number of messages outstanding",
        "How many buffers have to be under way?",
        "One buffer at a time leaves the link idle; a few more bring most of the throughput, and "
        "small messages need more of them than large ones.",
        (Series("RDMA Write, 4 KiB", blast(size=4 * KIB)),
         Series("RDMA Write, 64 KiB", blast(size=64 * KIB)),
         Series("RDMA Read, 64 KiB", blast("read", size=64 * KIB)),
         Series("Send, 64 KiB", blast("send", size=64 * KIB))),
        "gbps", x="outstanding", quick=(1, 2, 4, 8, 32, 128),
        thorough=(1, 2, 3, 4, 8, 16, 32, 64, 128), quick_veth=(1, 4, 64),
        claims=tuple(
            Judge(f"outstanding-{name}", f"several messages of {what} are kept outstanding",
                  saturation({count: work.at(outstanding=count)
                              for count in (1, 2, 3, 4, 8, 16, 32, 64, 128)}, "gbps"),
                  f"Keep {{enough}} messages of {what} outstanding (tried: {{tried}}): that gives "
                  "{share} % of the best throughput, which is {gain} times that of one at a time.",
                  "",
                  f"One message of {what} at a time is enough: more bring at most {{gain}} times "
                  "its throughput (tried: {tried}).",
                  tuple(work.at(outstanding=count) for count in (1, 4, 64)))
            for name, what, work in (
                ("4K", "4 KiB by RDMA Write", blast(size=4 * KIB)),
                ("64K", "64 KiB by RDMA Write", blast(size=64 * KIB)),
                ("read", "64 KiB by RDMA Read", blast("read", size=64 * KIB))))),
    Set("rdma-6", STUDY, "figure 6", "One work request per post, or lists",
        "Is it worth to post several work requests by one call?",
        "Lists spare calls and doorbells, which counts for small messages; large ones gain "
        "nothing.",
        (Series("RDMA Write, single", blast()),
         Series("RDMA Write, lists of 8", blast(post="list:8")),
         Series("RDMA Write, lists of 32", blast(post="list:32")),
         Series("Send, single", blast("send")),
         Series("Send, lists of 32", blast("send", post="list:32"))),
        "rate", quick=(64, KIB, 16 * KIB, 64 * KIB), thorough=powers(16, MIB, 4),
        claims=(
            Compare("list-small", "small messages are posted in lists", "rate",
                    blast(post="list:32"), blast(),
                    "Post small messages in lists: lists of 32 RDMA Writes give {gain} times the "
                    "messages per second.",
                    "Lists bring small RDMA Writes nothing ({gain} times the messages per "
                    "second).",
                    "Post small RDMA Writes singly: lists of 32 give {gain} of the messages per "
                    "second.", SMALL),
            Compare("list-large", "lists are not for large messages", "rate",
                    blast(), blast(post="list:32"),
                    "Post large messages singly: lists of 32 give {loss} of their throughput.",
                    "Lists make no difference to large RDMA Writes ({loss}).",
                    "Post large messages in lists as well: {loss} times the throughput at 64 "
                    "KiB.", (64 * KIB,)))),
    Set("rdma-7", STUDY, "figure 7", "A completion for each work request, or for one in n/2",
        "Is it worth to leave completions out?",
        "A completion that nobody needs costs little by itself; asking for one in half of what is "
        "outstanding spares small messages some work.",
        (Series("RDMA Write, full", blast()),
         Series("RDMA Write, periodic", blast(signal="periodic")),
         Series("Send, full", blast("send")),
         Series("Send, periodic", blast("send", signal="periodic"))),
        "rate", quick=(64, KIB, 16 * KIB), thorough=powers(16, MIB, 4),
        claims=(
            Compare("periodic", "small messages are signalled now and then", "rate",
                    blast(signal="periodic"), blast(),
                    "Ask for a completion now and then: periodic signalling of small RDMA Writes "
                    "gives {gain} times the messages per second.",
                    "Signalling each small RDMA Write or one in n/2 makes no difference ({gain}).",
                    "Signal every work request: periodic signalling of small RDMA Writes gives "
                    "{gain} of the messages per second.", SMALL),)),
    Set("rdma-8", STUDY, "figure 8", "CPU of each side",
        "Whose CPU does the work, and how much of it?",
        "Busy polling keeps a CPU fully busy whatever the size. With events the CPU's load falls "
        "as messages grow, at the same throughput; and the passive side of one-sided operations "
        "needs no CPU, since its adapter does the work.",
        (Series("Write, polling", blast()), Series("Write, events", blast(wait="event")),
         Series("Read, events", blast("read", wait="event")),
         Series("Send, events", blast("send", wait="event")),
         Series("TCP, blocking", TCP_BLAST.at(wait="block"))),
        "client_cpu", split=("client_cpu", "server_cpu"), quick=(KIB, 16 * KIB, 64 * KIB, MIB),
        thorough=RATE, quick_veth=(),
        claims=(
            Compare("event-large", "large messages lose nothing by events", "gbps",
                    blast(wait="event"), blast(),
                    "Wait for events when messages are large: the throughput is {gain} times that "
                    "of busy polling.",
                    "Wait for events when messages are large: the throughput is the same as by "
                    "busy polling ({gain}).",
                    "Poll busily for large messages too: by events they reach {gain} of the "
                    "throughput.", LARGE),
            Compare("event-load", "events leave the CPU to others", "client_cpu",
                    blast(wait="event"), blast(),
                    "Events leave the sender's CPU to others: {better} % of a CPU instead of "
                    "{than} %, at 64 KiB.",
                    "A busy sender has no CPU to spare either way: {better} % of a CPU by events, "
                    "{than} % by polling, at 64 KiB.",
                    "Events cost the sender CPU: {better} % of one, and {than} % by polling, at "
                    "64 KiB.", LARGE),
            Judge("passive-idle", "the passive side of one-sided operations is idle",
                  below(blast(wait="event", size=MIB), "server_cpu", 10),
                  "Use one-sided operations to keep the passive side's CPU idle: it is busy to "
                  "{value} % at 1 MiB.", "",
                  "Do not count on an idle passive side: a software RNIC moves the data by that "
                  "side's CPU, which RDMA Writes of 1 MiB keep busy to {value} %.",
                  (blast(wait="event", size=MIB),)))),
)

PING_WRITE, BLAST_WRITE = ping("write"), blast()
IWARP_LATENCY = (Series("iWARP, CRC on", PING_WRITE), Series("iWARP, CRC off",
                                                            PING_WRITE.at(crc="off")),
                 Series("TCP", TCP_PING))
IWARP_RATE = (Series("iWARP, CRC on", BLAST_WRITE), Series("iWARP, CRC off",
                                                          BLAST_WRITE.at(crc="off")),
              Series("TCP", TCP_BLAST))
IWARP_LOAD = (Series("iWARP, CRC on", BLAST_WRITE.at(wait="event")),
              Series("iWARP, CRC off", BLAST_WRITE.at(wait="event", crc="off")),
              Series("TCP", TCP_BLAST.at(wait="block")))

SOFTWARE = (
    Set("iwarp-t1", IWARP, "table 1", "Latency of the shortest messages",
        "What does iWARP in software add to TCP?",
        "Software iWARP in user space adds little to what TCP takes for a short message; the CRC "
        "of so few octets is hardly seen.",
        IWARP_LATENCY, "time", quick=(8, 64), thorough=(1, 4, 8, 64), quick_veth=(8,),
        claims=(
            Judge("latency-to-tcp", "software iWARP adds little to TCP",
                  at_most(PING_WRITE.at(size=8), TCP_PING.at(size=8), "time", 1.25),
                  "iWARP in software adds little to a short message: it takes {ratio} times as "
                  "long as over TCP.", "",
                  "iWARP in software adds more than a little to a short message: it takes {ratio} "
                  "times as long as over TCP.",
                  (PING_WRITE.at(size=8), TCP_PING.at(size=8))),)),
    Set("iwarp-t2", IWARP, "table 2", "Throughput of large messages",
        "What does the CRC cost?",
        "Without the CRC software iWARP comes close to plain TCP; computing the CRC in software "
        "costs a large part of the throughput.",
        IWARP_RATE, "gbps", quick=(64 * KIB, MIB), thorough=(64 * KIB, 256 * KIB, MIB, 4 * MIB),
        quick_veth=(MIB,),
        claims=(
            Compare("crc-off", "the CRC costs throughput", "gbps",
                    BLAST_WRITE.at(crc="off"), BLAST_WRITE,
                    "Where the path is trusted, turning the CRC off gives {gain} times the "
                    "throughput.",
                    "Leave the CRC on: without it large messages reach {gain} times the "
                    "throughput.",
                    "Leave the CRC on: without it large messages reach {gain} of the throughput.",
                    LARGE),
            Compare("off-to-tcp", "without the CRC iWARP keeps up with TCP", "gbps",
                    BLAST_WRITE.at(crc="off"), TCP_BLAST,
                    "Without the CRC iWARP in software carries more than TCP: {gain} times as "
                    "much.",
                    "Without the CRC iWARP in software keeps up with TCP ({gain}).",
                    "Even without the CRC iWARP in software carries {gain} of what TCP does.",
                    LARGE, 0.1))),
    Set("iwarp-2", IWARP, "figure 2", "Latency by message size",
        "Where does the CRC begin to count?",
        "The lines of TCP and of iWARP without the CRC lie close together; with the CRC the time "
        "grows faster with the size.",
        IWARP_LATENCY, "time", quick=LATENCY_QUICK, thorough=LATENCY, quick_veth=SHORT,
        claims=(
            Compare("crc-latency", "the CRC is seen in the latency of longer messages", "time",
                    PING_WRITE.at(crc="off"), PING_WRITE,
                    "The CRC is seen in the latency of longer messages: {gain} times the time "
                    "without it.",
                    "The CRC is not seen in the latency of longer messages ({gain} times the time "
                    "without it).",
                    "Messages are not slower for the CRC: {gain} of the time without it.",
                    (4 * KIB, 32 * KIB)),)),
    Set("iwarp-3", IWARP, "figure 3", "Throughput by message size",
        "From which size on does iWARP keep up?",
        "Throughput grows with the message size to a plateau: near TCP's without the CRC, well "
        "below it with the CRC.",
        IWARP_RATE, "gbps", quick=RATE_QUICK, thorough=RATE, quick_veth=(KIB, 64 * KIB, MIB),
        claims=(
            Compare("on-to-tcp", "with the CRC iWARP stays behind TCP", "gbps",
                    TCP_BLAST, BLAST_WRITE,
                    "With the CRC large messages over iWARP in software reach {loss} of TCP's "
                    "throughput.",
                    "Even with the CRC iWARP in software keeps up with TCP ({loss}).",
                    "Even with the CRC iWARP in software carries {loss} times as much as TCP.",
                    LARGE, 0.1),
            Compare("small-to-tcp", "small messages are cheaper over TCP", "gbps",
                    TCP_BLAST, BLAST_WRITE,
                    "Small messages in numbers over iWARP reach {loss} of TCP's throughput, with "
                    "one call for each.",
                    "Small messages in numbers go as fast over iWARP as over TCP ({loss}).",
                    "Small messages in numbers go {loss} times as fast over iWARP as over TCP.",
                    SMALL, 0.1))),
    Set("iwarp-4", IWARP, "figure 4", "CPU load by message size",
        "Whose load does iWARP in software raise?",
        "In software iWARP loads both CPUs about as TCP does, and the CRC loads them more. The "
        "gain is the server's when its end is an adapter.",
        IWARP_LOAD, "client_cost", split=("client_cost", "server_cost"),
        quick=(KIB, 16 * KIB, 64 * KIB, MIB), thorough=RATE, quick_veth=(),
        aside="Load for the same throughput: CPUs kept busy for each Gb/s, by events (TCP: by "
              "blocking calls).",
        claims=(
            Compare("load-crc", "the CRC loads the sender", "client_cost",
                    BLAST_WRITE.at(wait="event", crc="off"), BLAST_WRITE.at(wait="event"),
                    "The CRC costs the sender CPU: {gain} times as much for each Gb/s of large "
                    "messages.",
                    "The CRC costs the sender no CPU that could be told from noise ({gain}).",
                    "The sender does not pay for the CRC: with it a Gb/s costs {gain} of the CPU.",
                    LARGE),
            Compare("load-tcp", "iWARP in software loads the receiver as TCP does", "server_cost",
                    BLAST_WRITE.at(wait="event"), TCP_BLAST.at(wait="block"),
                    "The receiver of RDMA Writes needs less CPU than TCP's: {loss} of it for each "
                    "Gb/s of large messages.",
                    "The receiver of RDMA Writes needs as much CPU as TCP's ({loss}).",
                    "The receiver of RDMA Writes needs {loss} times the CPU of TCP's for each "
                    "Gb/s of large messages.", LARGE, 0.1))),
)

SOCKETS_PING, SOCKETS_BLAST = (TCP_PING.at(wait="block", through="sockets"),
                               TCP_BLAST.at(wait="block", through="sockets"))
PLAIN_PING, PLAIN_BLAST = TCP_PING.at(wait="block"), TCP_BLAST.at(wait="block")
EXTENDED_PING = extended(ping("write"))
EXTENDED_BLAST = extended(blast("write", wait="block"))
PROGRAMS = "An unchanged sockets program, with weft's sockets library preloaded and without; " \
           "both block. By the extended interface a program registers memory on such a socket " \
           "and writes into its peer's, "

EXTENDED = (
    Set("sockets-5", SOCKETS, "figure 5", "Latency of sockets over iWARP",
        "What does a sockets program pay for iWARP beneath it?",
        "A sockets interface over software iWARP costs a short message more than the system's own "
        "sockets do, and less with protocol work in the kernel than in user space.",
        (Series("sockets over iWARP", SOCKETS_PING), Series("TCP, plain", PLAIN_PING),
         Series("extended interface", EXTENDED_PING)), "time",
        quick=LATENCY_QUICK, thorough=LATENCY, needs="sockets",
        aside=PROGRAMS + "which looks there, busily, for what comes.",
        claims=(
            Compare("sockets-latency", "sockets over iWARP are slower than plain ones", "time",
                    PLAIN_PING, SOCKETS_PING,
                    "A short message of a sockets program takes {gain} times as long over iWARP.",
                    "A short message of a sockets program takes as long over iWARP as without "
                    "({gain}).",
                    "A short message of a sockets program takes {gain} of the time over iWARP.",
                    SHORT, 0.1),
            Compare("extended-latency", "writes by the extended interface are faster than the "
                    "stream over iWARP", "time", EXTENDED_PING, SOCKETS_PING,
                    "A program that may be changed writes short messages by the extended "
                    "interface, and looks for them in its memory: they take {loss} of the time of "
                    "blocking calls on the stream over iWARP.",
                    "Writes by the extended interface, waited for in memory, take as long as "
                    "blocking calls on the stream over iWARP ({loss}).",
                    "Writes by the extended interface, waited for in memory, take {loss} times as "
                    "long as blocking calls on the stream over iWARP.", SHORT, 0.1))),
    Set("sockets-6", SOCKETS, "figure 6", "Throughput of sockets over iWARP",
        "How much of its throughput does a sockets program keep?",
        "Software iWARP beneath sockets carries less than plain sockets, above all with the CRC, "
        "which is the price for talking to hardware at the other end.",
        (Series("sockets over iWARP", SOCKETS_BLAST), Series("TCP, plain", PLAIN_BLAST),
         Series("extended interface", EXTENDED_BLAST)), "gbps",
        quick=RATE_QUICK, thorough=RATE, needs="sockets",
        aside=PROGRAMS + "whose program sleeps; 64 writes are outstanding, and it waits in "
              "iwarp_wait.",
        claims=(
            Compare("sockets-throughput", "sockets over iWARP carry less than plain ones", "gbps",
                    PLAIN_BLAST, SOCKETS_BLAST,
                    "A sockets program keeps {loss} of its throughput over iWARP, with large "
                    "messages.",
                    "A sockets program keeps its throughput over iWARP ({loss}), with large "
                    "messages.",
                    "A sockets program gets {loss} times its throughput over iWARP, with large "
                    "messages.", LARGE, 0.1),
            Compare("extended-throughput", "writes by the extended interface carry more than the "
                    "stream over iWARP", "gbps", EXTENDED_BLAST, SOCKETS_BLAST,
                    "A program that may be changed writes large messages by the extended "
                    "interface: {gain} times the throughput of the stream over iWARP.",
                    "Large messages go as fast on the stream over iWARP as by the extended "
                    "interface ({gain}).",
                    "Large messages stay on the stream over iWARP: writes by the extended "
                    "interface reach {gain} of its throughput.", LARGE, 0.1),
            Compare("extended-to-tcp", "plain sockets carry more than the extended interface",
                    "gbps", PLAIN_BLAST, EXTENDED_BLAST,
                    "Writes by the extended interface reach {loss} of the throughput of plain "
                    "sockets, with large messages.",
                    "Writes by the extended interface keep the throughput of plain sockets "
                    "({loss}), with large messages.",
                    "Writes by the extended interface carry {loss} times as much as plain "
                    "sockets, with large messages.", LARGE, 0.1))),
)

CHUNKS_QUICK, CHUNKS = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB), powers(KIB, MIB, 4)
CHUNKS = tuple(sorted({*CHUNKS, 16 * KIB, 64 * KIB}))
SEND_EVENT = blast("send", wait="event")
COST = (Series("TCP, blocking", TCP_BLAST.at(wait="block")), Series("Send", SEND_EVENT),
        Series("RDMA Write", BLAST_WRITE.at(wait="event")),
        Series("RDMA Write, CRC off", BLAST_WRITE.at(wait="event", crc="off")))


HOST = "With a processor set apart to run TCP, as a card with an offload engine would, the host " \
       "pays a fraction of the CPU for each Gb/s, although copies at the kernel's boundary remain."


def cost_of_chunks(metric, side):
    small, large = BLAST_WRITE.at(wait="event", size=KIB), \
        BLAST_WRITE.at(wait="event", size=256 * KIB)

    def found(data, medium):
        ratios = data.ratios(medium, [(small, large)], metric)
        if not ratios:
            return None
        words = times(statistics.median(ratios))
        return judge_gains(ratios), statistics.median(ratios), {
            "gain": words, "brief": with_spread(words, min(ratios), max(ratios))}
    return Judge(f"chunks-{side}", f"large chunks cost the {side} less", found,
                 f"Move data in large chunks: a Gb/s by RDMA Write costs the {side} {{gain}} times "
                 "as much CPU in chunks of 1 KiB as in chunks of 256 KiB.",
                 f"The size of chunks makes no difference to the {side}'s CPU ({{gain}}).",
                 f"Small chunks are the cheaper ones for the {side}: {{gain}} of the CPU of 256 "
                 "KiB.", (small, large))


OFFLOADED = (
    Set("offload-1", OFFLOAD, "table I", "CPU of the sender for a Gb/s, by chunk size",
        "What does a Gb/s cost the sending host?", HOST, COST, "client_cost",
        quick=CHUNKS_QUICK, thorough=CHUNKS, quick_veth=(),
        aside="The host runs the protocol itself here; rows of an offload engine appear with it.",
        claims=(cost_of_chunks("client_cost", "sender"),)),
    Set("offload-2", OFFLOAD, "table II", "CPU of the receiver for a Gb/s, by chunk size",
        "What does a Gb/s cost the receiving host?", HOST, COST, "server_cost",
        quick=CHUNKS_QUICK, thorough=CHUNKS, quick_veth=(),
        aside="The host runs the protocol itself here; rows of an offload engine appear with it.",
        claims=(cost_of_chunks("server_cost", "receiver"),
                Compare("write-to-send-cost", "direct placement spares the receiver",
                        "server_cost", BLAST_WRITE.at(wait="event"), SEND_EVENT,
                        "Place data by RDMA Write: the receiver needs {loss} of the CPU that "
                        "Sends cost it.",
                        "The receiver pays the same for RDMA Writes and for Sends ({loss}).",
                        "RDMA Writes cost the receiver {loss} times the CPU of Sends.",
                        (16 * KIB, 64 * KIB)))),
)

SETS = (*RDMA, *SOFTWARE, *EXTENDED, *OFFLOADED)
BY_NAME = {one.name: one for one in SETS}
