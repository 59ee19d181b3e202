#!/usr/bin/env python3
"""Makes the whole table: weft beside plain TCP and its peers, on this machine, in one run."""
import argparse
import json
import signal
import sys
import time
from pathlib import Path

import shared  # finds networks and charts
import earlier
import groups
import networks
import peers
import plots
import report
import rows
import setup
import works

# What the names of a group's measurements begin with.
PREFIXES = {"loopback": ("on/", "off/"), "one-core": ("one-core/",), "default": ("default/",),
            "veth": ("veth-",)}
GROUPS = {"loopback": groups.on_loopback, "one-core": groups.on_one_core,
          "default": groups.by_default, "veth": groups.over_veth}


def arguments():
    parser = argparse.ArgumentParser(
        prog="bench/run", description=__doc__,
        epilog="Status 0: all was measured; 1: something that has to work failed, or with --check "
               "an 'at least' was not met; 2: the command line was wrong.")
    parser.add_argument("--quick", action="store_true", help="in two minutes, with few rounds")
    parser.add_argument("--check", action="store_true", help="an 'at least' not met is an error")
    parser.add_argument("--compare", metavar="EARLIER.json", help="stand beside an earlier run")
    parser.add_argument("--json", metavar="FILE",
                        help="where the JSON goes; -: it is all that is printed")
    parser.add_argument("--html", metavar="FILE", help="where the plots go")
    parser.add_argument("--congestion", default="cubic", metavar="NAME",
                        help="congestion control of the loopback (cubic); system: no namespace, "
                             "the machine as it is")
    parser.add_argument("--points", metavar="POINT,...", type=points,
                        help="none of the table, but these points over a loopback: write-bw:64K, "
                             "write-rate:8x64, ... (" + ", ".join(works.KINDS) + ")")
    parser.add_argument("--crc", default="on", choices=("on", "off", "both"),
                        help="of --points (on)")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each point")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of one measurement")
    parser.add_argument("--only", default="", metavar="GROUP,...",
                        help=f"these groups: {', '.join([*GROUPS, 'peers'])}")
    parser.add_argument("--build", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--moment", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.seconds is not None and not 0.001 <= chosen.seconds <= 60:
        parser.error("--seconds: 0.001 to 60")
    if chosen.rounds is not None and chosen.rounds < 1:
        parser.error("--rounds: 1 at least")
    chosen.only = [name for name in chosen.only.split(",") if name] or [*GROUPS, "peers"]
    for name in chosen.only:
        if name not in GROUPS and name != "peers":
            parser.error(f"--only: {name} is none of {', '.join([*GROUPS, 'peers'])}")
    chosen.earlier = None
    if chosen.compare:
        try:
            chosen.earlier = earlier.read(chosen.compare)
        except ValueError as reason:
            parser.error(f"--compare: {chosen.compare}: {reason}")
        if chosen.json == "-":
            parser.error("--compare is text, and --json - prints none")
    return chosen


def points(text):
    try:
        return [works.parse(name).name for name in text.split(",") if name]
    except ValueError as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None


class Progress:
    """What is under way, on a terminal alone."""

    def __init__(self):
        self.began = time.monotonic()
        self.shown = sys.stderr.isatty()

    def tell(self, text):
        if self.shown:
            seconds = time.monotonic() - self.began
            print(f"\r\033[K{seconds:4.0f} s  {text}", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def measure(chosen, bench, progress):
    """(measurements, peers' rows)"""
    congestion = chosen.congestion
    measured, beside = {}, []
    for name, group in GROUPS.items():
        if name in chosen.only:
            progress.tell(name)
            measured.update(guarded(name, group, bench, congestion))
    if "peers" in chosen.only:
        beside = peers.measure(bench, congestion)
    return measured, beside


def these_points(chosen, bench):
    """{"on/write-bw:64K": figures}"""
    found = {}
    with groups.place_of(chosen.congestion) as place:
        for crc in ("on", "off") if chosen.crc == "both" else (chosen.crc,):
            found.update(bench.measure(crc, place, chosen.points, crc))
    return found


def guarded(name, group, bench, congestion):
    """Where no namespace may be made, the rows that need one say so."""
    try:
        return group(bench, congestion)
    except networks.Impossible as reason:
        names = {need for row in rows.ROWS for need in row.needs}
        return {need: {"missing": str(reason)} for need in names
                if need.startswith(PREFIXES[name])}


def main():
    chosen = arguments()
    # Ended by a signal as by a fault: the namespaces' holders and the programs end with us.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    progress, plan = Progress(), groups.Plan(chosen.quick, chosen.moment)
    plan.rounds, plan.seconds = chosen.rounds or plan.rounds, chosen.seconds or plan.seconds
    bench = groups.Bench(chosen.build, plan, progress.tell)
    try:
        if chosen.points:
            measured, beside = these_points(chosen, bench), []
        else:
            measured, beside = measure(chosen, bench, progress)
    except (groups.Failed, networks.Impossible) as reason:
        progress.end()
        print(f"bench/run: {reason}", file=sys.stderr)
        return 1
    progress.end()
    about = setup.describe(chosen.build, plan, chosen.congestion)
    about["took_seconds"] = round(time.monotonic() - progress.began)
    run = {"setup": about, "measured": measured}
    if not chosen.points:
        begins = tuple(prefix for name in chosen.only for prefix in PREFIXES.get(name, ()))
        run["rows"] = rows.make_all(measured, [row for row in rows.ROWS
                                               if row.needs[0].startswith(begins)])
        run["peers"] = beside
    sections = list(sections_of(chosen, run))
    keep(chosen, run, sections)
    unmet = report.unmet(run.get("rows", []))
    return 1 if chosen.check and unmet else 0


def sections_of(chosen, run):
    """(heading, lines) of all that there is to say."""
    if chosen.points:
        yield "weft to raw TCP", list(report.points_table(run["measured"]))
    if run.get("rows"):
        yield "weft to raw TCP", list(report.table(run["rows"]))
    if run.get("peers"):
        yield "peers of the same rounds", list(report.peers_table(run["peers"]))
    if chosen.earlier:
        kinds = (earlier.of_points,) if chosen.points else (earlier.of_rows, earlier.of_peers)
        yield "comparison", list(earlier.comparison(run, chosen.earlier, kinds))


def keep(chosen, run, sections):
    """Prints it, and writes the files."""
    text = json.dumps(run, indent=1) + "\n"
    head = list(report.setup_lines(run["setup"]))
    if chosen.json == "-":
        print(text, end="")
    else:
        print("\n".join(head))
        for heading, lines in sections:
            print("\n".join(["", heading, "", *lines]))
        if not chosen.points:
            print(f"\n{report.summary(run)}")
        if chosen.json:
            Path(chosen.json).write_text(text, encoding="utf-8")
    if chosen.html:
        made = run.get("rows", [])
        charts = [*([plots.bar_chart(made, report.number, "weft to raw TCP")] if made else []),
                  *plots.works_chart(run.get("peers", []), report.number)]
        Path(chosen.html).write_text(plots.page(head, sections, charts), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
