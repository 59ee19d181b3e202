"""One thing to measure: the words of a `weft ping` or `weft blast`, and its name in the journal."""
from dataclasses import dataclass, replace

KIB, MIB = 1 << 10, 1 << 20


def size_text(octets):
    """As the tools take it: 64, 4K, 1M."""
    for unit, suffix in ((MIB, "M"), (KIB, "K")):
        if octets >= unit and octets % unit == 0:
            return f"{octets // unit}{suffix}"
    return str(octets)


def size_words(octets):
    """As people read it."""
    for unit, suffix in ((MIB, "MiB"), (KIB, "KiB")):
        if octets >= unit and octets % unit == 0:
            return f"{octets // unit} {suffix}"
    return f"{octets} octet" + ("" if octets == 1 else "s")


@dataclass(frozen=True)
class Work:
    """What the client is told. `crc` is told to both sides, since either may ask for it."""
    tool: str
    op: str = "send"
    over: str = "rdma"
    wait: str = "poll"
    size: int = 64
    outstanding: int = 0
    post: str = "single"
    signal: str = "full"
    inline: bool = False
    passive: str = "sleep"
    crc: str = "on"
    buffers: int = 0
    socket_buffers: int = 0
    chunk: int = 0
    warm_up: float = 0
    verify: bool = False
    through: str = ""  # "sockets": weft's sockets library beneath both programs

    def at(self, **changes):
        return replace(self, **changes)

    def words(self):
        """Behind the server's address."""
        words = ["--over", self.over] if self.over != "rdma" else []
        # Over TCP messages are sent, unless they are fetched.
        words += ["--op", self.op] if self.over != "tcp" or self.op != "send" else []
        words += ["--wait", self.wait, "--size", size_text(self.size)]
        if self.outstanding:
            words += ["--outstanding", str(self.outstanding)]
        if self.post != "single":
            words += ["--post", self.post]
        if self.signal != "full":
            words += ["--signal", self.signal]
        if self.passive != "sleep":
            words += ["--passive", self.passive]
        if self.buffers:
            words += ["--buffers", str(self.buffers)]
        if self.socket_buffers:
            words += ["--socket-buffers", size_text(self.socket_buffers)]
        if self.chunk:
            words += ["--chunk", size_text(self.chunk)]
        if self.warm_up:
            words += ["--warm-up", str(self.warm_up)]
        words += ["--inline"] if self.inline else []
        words += ["--verify"] if self.verify else []
        return words

    def name(self):
        """The same work has the same name in every set that shows it, so it is measured once."""
        crc = [] if self.over == "tcp" else ["--crc", self.crc]
        through = ["through", self.through] if self.through else []
        return " ".join([self.tool, *self.words(), *crc, *through])


def ping(op="send", **more):
    return Work("ping", op, **more)


def blast(op="write", **more):
    return Work("blast", op, **{"outstanding": 64, "size": 64 * KIB, **more})


def extended(work, **more):
    """The same by a program that uses <weft/sockets.h> on its sockets."""
    return work.at(over="sockets", through="sockets", **more)


def tcp(work, **more):
    """The baseline of a work: the same program over plain sockets."""
    return work.at(over="tcp", op="send", crc="on", signal="full", inline=False, **more)


# What a plot shows: name -> (axis title, unit, how it is read from a row of the report).
METRICS = {
    "time": ("one-way time, median", "us", lambda row: row["one_way_us"]["p50"]),
    "gbps": ("throughput", "Gb/s", lambda row: row["gbps"]),
    "rate": ("messages per second", "/s", lambda row: row["messages_per_s"]),
    "client_cpu": ("CPU of the active side", "%", lambda row: row["client"]["cpu_percent"]),
    "server_cpu": ("CPU of the passive side", "%", lambda row: row["server"]["cpu_percent"]),
    "client_cost": ("sender: CPUs per Gb/s", "CPUs per Gb/s",
                    lambda row: row["client"]["cpus_per_gbps"]),
    "server_cost": ("receiver: CPUs per Gb/s", "CPUs per Gb/s",
                    lambda row: row["server"]["cpus_per_gbps"]),
}
LESS_IS_BETTER = {"time", "client_cpu", "server_cpu", "client_cost", "server_cost"}


def value_of(metric, row):
    """None where the row has it not (a time of zero is none either: nothing was counted)."""
    try:
        value = METRICS[metric][2](row)
    except (KeyError, TypeError):
        return None
    return value if isinstance(value, (int, float)) and value >= 0 else None
