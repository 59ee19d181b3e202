#!/usr/bin/env python3
"""The same settings measured by stock perftest and by weft blast and ping, both on weft.

In pairs, one right after the other, and every other pair the other way round. Prints for each row
the median of the pairs' ratios (weft / perftest), the lowest and the highest.

usage: beside_perftest.py WEFT [--pairs N] [--within SHARE] [ROW...]
exit status: 0 every median lies within SHARE (0.1) of 1; 1 one does not, or a row has no figures;
77 there is no perftest
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

PATIENCE = 120
WRITE = "--op write --outstanding 128 --buffers 1 --signal periodic --passive poll"
SEND = "--op send --outstanding 128 --receives 512 --buffers 1 --signal periodic"
# row: (perftest's program, weft's words, size, messages)
ROWS = {f"{name} {label}": (program, words, size, count)
        for name, program, words in (("write_bw", "ib_write_bw", f"blast {WRITE}"),
                                     ("send_bw", "ib_send_bw", f"blast {SEND}"))
        for label, size, count in (("4K", 4096, 200000), ("64K", 65536, 20000),
                                   ("1M", 1048576, 1500))}
ROWS.update({
    "write_lat 8": ("ib_write_lat", "ping --op write --inline --wait memory", 8, 40000),
    "send_lat 8": ("ib_send_lat", "ping --op send --inline", 8, 40000),
    "read_lat 8": ("ib_read_lat", "ping --op read --passive poll", 8, 40000)})


class Failed(Exception):
    """A run that has no figure."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def both(weft, server, client, listening):
    """Runs the two ends, each on a processor of its own; the client's output."""
    cpus = sorted(os.sched_getaffinity(0))
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}

    def start(words, cpu):
        return subprocess.Popen(["taskset", "-c", str(cpu), *words], env=environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
    waiting = start(server, cpus[-1])
    try:
        end = time.monotonic() + PATIENCE
        while not listening():
            if waiting.poll() is not None or time.monotonic() > end:
                raise Failed(f"{' '.join(server)}: it does not listen")
            time.sleep(0.01)
        asking = start(client, cpus[0])
        try:
            output, _ = asking.communicate(timeout=PATIENCE)
        finally:
            asking.kill()
            asking.wait()
        if asking.returncode != 0:
            raise Failed(f"{' '.join(client)}: {output[-500:]}")
        waiting.communicate(timeout=PATIENCE)
        return output
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(client)}: more than {PATIENCE} s") from None
    finally:
        waiting.kill()
        waiting.wait()


def listens(port):
    """Is there a TCP listener? It is not asked: perftest would take that for its client."""
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as rows:
            if any(row.split()[1].endswith(wanted) and row.split()[3] == "0A" for row in rows):
                return True
    return False


def by_perftest(weft, program, size, count):
    port = free_port()
    words = [weft, "run", "--", program, "-R", "-F", "-s", str(size), "-n", str(count), "-p",
             str(port)]
    if program.endswith("_bw"):
        words += ["--report_gbits", "-t", "128"]
        if program == "ib_send_bw":
            words += ["-r", "512"]
    output = both(weft, words, [*words, "127.0.0.1"], lambda: listens(port))
    row = next((line.split() for line in output.splitlines() if line.split()[:1] == [str(size)]),
               None)
    if row is None:
        raise Failed(f"{program}: no figures in {output[-500:]}")
    # Bandwidth: octets, count, peak, average. Latency: octets, count, least, most, median.
    return float(row[3] if program.endswith("_bw") else row[4])


def by_weft(weft, words, size, count):
    port = free_port()
    words = words.split()
    output = both(weft, [weft, words[0], "--port", str(port)],
                  [weft, words[0], "127.0.0.1", "--port", str(port), *words[1:], "--size",
                   str(size), "-n", str(count), "--json", "-"], lambda: listens(port))
    row = json.loads(output)["results"][0]
    return row["gbps"] if words[0] == "blast" else row["one_way_us"]["p50"]


def measure(weft, name, pairs):
    """[(perftest's figure, weft's)]"""
    program, words, size, count = ROWS[name]
    runs = (lambda: by_perftest(weft, program, size, count),
            lambda: by_weft(weft, words, size, count))
    found = []
    for pair in range(pairs):
        first = pair % 2
        figures = {index: runs[index]() for index in (first, 1 - first)}
        found.append((figures[0], figures[1]))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weft", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--within", type=float, default=0.1)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    chosen = parser.parse_intermixed_args()
    for name in chosen.rows:
        if name not in ROWS:
            parser.error(f"{name} is no row")
    if shutil.which("ib_write_bw") is None:
        print("there is no perftest on this machine")
        return 77
    bad = []
    print(f"{'':12} {'perftest':>9} {'weft':>9}   ratio  lowest .. highest")
    for name in chosen.rows or ROWS:
        try:
            found = measure(chosen.weft, name, chosen.pairs)
        except Failed as reason:
            print(f"{name:12} {reason}", flush=True)
            bad.append(name)
            continue
        ratios = [ours / theirs for theirs, ours in found]
        ratio = statistics.median(ratios)
        theirs, ours = (statistics.median(column) for column in zip(*found))
        unit = "Gb/s" if name.split()[0].endswith("bw") else "us"
        print(f"{name:12} {theirs:9.2f} {ours:9.2f}   {ratio:5.2f}  {min(ratios):.2f} .. "
              f"{max(ratios):.2f}  {unit}", flush=True)
        if abs(ratio - 1) > chosen.within:
            bad.append(name)
    print(f"apart by more than {chosen.within:.0%}: {', '.join(bad)}" if bad else
          f"all within {chosen.within:.0%}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
