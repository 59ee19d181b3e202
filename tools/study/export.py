"""The figures for other programs: JSON with every row and every median, CSV with every row."""
import csv
import io

import journal
import plan
from claims import Data
from sets import SETS
from work import METRICS

SCHEMA = "weft-study/1"
# Columns of a row that are not derived from others, then the derived ones.
COLUMNS = (
    ("octets", lambda row: row["octets"]), ("messages", lambda row: row["messages"]),
    ("seconds", lambda row: row["seconds"]),
    ("messages_per_s", lambda row: row["messages_per_s"]), ("gbps", lambda row: row["gbps"]),
    *((f"one_way_us_{name}", lambda row, name=name: row["one_way_us"][name])
      for name in ("mean", "min", "p50", "p99", "p99.9", "max")),
    *((f"{side}_{name}", lambda row, side=side, name=name: row[side][name])
      for side in ("client", "server")
      for name in ("cpu_percent", "cpus_per_gbps", "cpu_us_per_message", "switches_per_message")),
    *((f"{side}_{name}", lambda row, side=side, name=name: row[side]["counted"][name])
      for side in ("client", "server") for name in ("user_s", "system_s")),
)


class Result:
    """A journal, read for the page and the tables."""

    def __init__(self, head, entries):
        self.head, self.entries = head, entries
        self.rows = journal.done(entries)
        self.failures = journal.failures(entries)
        self.data = Data(self.rows)
        self.kind = plan.KINDS[head["kind"]]
        self.networks = {entry["network"]: entry for entry in entries if "network" in entry}
        self.mediums = [name for name in self.networks if name in self.data.media()]
        times = sorted(entry["at"] for entry in entries if "at" in entry)
        self.began, self.ended = (times[0], times[-1]) if times else ("", "")

    def shown(self, one, medium):
        """[(series, [(x, median, low, high)])] of a set's plot for each metric."""
        for metric in one.metrics():
            lines = []
            for series in one.series:
                line = []
                for x in one.xs(medium, self.kind.quick):
                    found = self.data.summary(medium, series.work.at(**{one.x: x}), metric)
                    if found:
                        line.append((x, *found))
                lines.append((series, line))
            yield metric, lines

    def others_share(self):
        """Of the machine's CPU time while something was measured, what was not of the two sides."""
        others = all_of_it = 0.0
        for row in self.rows.values():
            counted = [row.get(side, {}).get("counted", {}) for side in ("client", "server")]
            machine = counted[0].get("machine")
            if not machine:
                continue
            ours = sum(side.get(name, 0) for side in counted for name in ("user_s", "system_s"))
            # Interrupts belong to nobody: most of them are the network's, which is ours.
            others += sum(machine.get(name, 0) for name in ("user_s", "system_s", "steal_s")) - ours
            all_of_it += sum(machine.values())
        return max(0.0, others / all_of_it) if all_of_it else None

    def has_subject(self, one):
        """Whether it was measured itself, and not its baseline alone, which others have too."""
        return any(self.data.values(medium, one.series[0].work.at(**{one.x: x}), one.metric)
                   for medium in self.mediums for x in one.xs(medium, self.kind.quick))

    def verdicts(self, one):
        """[(claim, {medium: verdict})] of those that were measured."""
        found = [(claim, {medium: verdict for medium in self.mediums
                          if (verdict := claim.judge(self.data, medium))})
                 for claim in one.claims]
        return [(claim, by_medium) for claim, by_medium in found if by_medium]


def as_json(result):
    measured = []
    for (medium, work, number), row in sorted(result.rows.items()):
        row = {key: value for key, value in row.items() if key != "round_trips_ns"}
        measured.append({"medium": medium, "work": work, "round": number, "row": row})
    sets = []
    for one in SETS:
        if one.needs and not result.has_subject(one):
            continue
        lines = [{"medium": medium, "metric": metric, "series": series.label,
                  "points": [{one.x: x, "median": middle, "lowest": low, "highest": high}
                             for x, middle, low, high in line]}
                 for medium in result.mediums
                 for metric, shown in result.shown(one, medium)
                 for series, line in shown if line]
        claims = [{"claim": claim.name, "advice": claim.advice, "medium": medium,
                   "verdict": verdict.verdict, "figure": verdict.gain, "lowest": verdict.low,
                   "highest": verdict.high, "sentence": verdict.sentence}
                  for claim, verdicts in result.verdicts(one)
                  for medium, verdict in verdicts.items()]
        if lines:
            sets.append({"set": one.name, "paper": one.paper, "figure": one.figure,
                         "title": one.title, "lines": lines, "claims": claims})
    return {"schema": SCHEMA,
            "setup": {key: value for key, value in result.head.items() if key != "schema"},
            "others_share_of_cpu": result.others_share(),
            "began": result.began, "ended": result.ended,
            "networks": list(result.networks.values()),
            "metrics": {name: {"title": title, "unit": unit}
                        for name, (title, unit, _) in METRICS.items()},
            "sets": sets, "measured": measured,
            "not_measured": [{"medium": medium, "work": work, "why": why}
                             for (medium, work), why in sorted(result.failures.items())]}


def as_csv(result):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["medium", "work", "round", *(name for name, _ in COLUMNS)])
    for (medium, work, number), row in sorted(result.rows.items()):
        writer.writerow([medium, work, number, *(cell(read, row) for _, read in COLUMNS)])
    return text.getvalue()


def cell(read, row):
    try:
        return read(row)
    except (KeyError, TypeError):
        return ""
