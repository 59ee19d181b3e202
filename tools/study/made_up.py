"""Made-up studies, for tests: every point of every set, with figures that a test chooses."""
import plan
from export import Result

MEDIUMS = ("loopback", "veth-1500", "veth-9000")
HEAD = {"kind": "quick", "rounds": plan.KINDS["quick"].rounds, "seconds": 0.1,
        "host": "here", "machine": "x86_64", "cpu": "A processor of some kind", "cpus": 2,
        "may_use_cpus": [0, 1], "kernel": "Linux 1", "congestion": "cubic",
        "weft": "weft 0.0, commit 0123456789ab"}


def row_of(work, value):
    """A row in which every metric is `value` (a throughput of value Gb/s, and so on)."""
    seconds = 0.1
    side = {"cpu_percent": value, "cpus_per_gbps": value, "cpu_us_per_message": value,
            "switches_per_message": value,
            "counted": {"seconds": seconds, "user_s": value, "system_s": value}}
    row = {"octets": work.size, "count": 10, "messages": 10, "complete": True, "seconds": seconds,
           "messages_per_s": value, "gbps": value, "client": side, "server": side}
    if work.tool == "ping":
        row["one_way_us"] = {name: value for name in ("mean", "min", "p50", "p99", "p99.9", "max")}
    return row


def entries(value, kind="quick", mediums=MEDIUMS, have=()):
    """value(step): the figure of a step, or None where it failed."""
    made = [{"network": name, "is": "made up"} for name in mediums]
    for step in plan.steps(plan.chosen((), have), mediums, plan.KINDS[kind]):
        found = value(step)
        entry = {"medium": step.medium, "work": step.work.name(), "round": step.round}
        made.append({**entry, "failed": "made up to fail"} if found is None else
                    {**entry, "at": "2000-01-01T00:00:00+00:00",
                     "row": row_of(step.work, found)})
    return made


def result(value, **more):
    return Result(HEAD, entries(value, **more))
