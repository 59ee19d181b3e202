#!/usr/bin/env python3
"""Stands in for weft in the study's tests: answers at once, with figures made from its words.

FAKE_LOG: a file that gets a line for each measurement. FAKE_FAIL: an expression; what it matches
fails. FAKE_HANG: the measurement of this number, and those after it, never end.
"""
import json
import os
import re
import sys
import time
import zlib


def row(tool, words):
    seed = zlib.crc32(" ".join(words).encode()) % 1000 + 500
    octets, messages = 64, seed * 10
    counted = {"seconds": 0.1, "user_s": seed * 1e-5, "system_s": seed * 2e-5,
               "voluntary_switches": 1, "involuntary_switches": 2}
    rate = messages / 0.1
    gbps = rate * octets * 8 / 1e9
    side = {"cpu_percent": 100 * seed * 3e-5 / 0.1, "cpus_per_gbps": seed * 3e-5 / (gbps * 0.1),
            "cpu_us_per_message": seed * 30 / messages, "switches_per_message": 3 / messages,
            "counted": counted}
    made = {"octets": octets, "count": messages, "messages": messages, "complete": True,
            "seconds": 0.1, "messages_per_s": rate, "gbps": gbps, "client": side, "server": side}
    if tool == "ping":
        time_us = seed / 100
        made["one_way_us"] = {name: time_us for name in
                              ("mean", "min", "p50", "p99", "p99.9", "max")}
        made["round_trips_ns"] = {"count": messages, "sum": 1, "histogram": [[1, 1, messages]]}
    return made


def main():
    tool, words = sys.argv[1], sys.argv[2:]
    if tool == "--version":
        print("weft 0.0 (stand-in)")
        return 0
    if "--persistent" in words:
        print("weft: waiting", flush=True)
        time.sleep(600)
        return 0
    shown = [word for i, word in enumerate(words) if words[i - 1] != "--port"]
    with open(os.environ["FAKE_LOG"], "a", encoding="utf-8") as log:
        log.write(" ".join([tool, *shown]) + "\n")
    with open(os.environ["FAKE_LOG"], encoding="utf-8") as log:
        number = len(log.readlines())
    if number >= int(os.environ.get("FAKE_HANG", "1000000")):
        time.sleep(600)
    fail = os.environ.get("FAKE_FAIL")
    if fail and re.search(fail, " ".join([tool, *words])):
        print("weft: it cannot be", file=sys.stderr)
        return 1
    report = {"schema": "weft-measure/1", "complete": True, "results": [row(tool, shown)],
              "client": {"device": "weft_fake"}, "server": {}}
    print(json.dumps(report))
    return 0


sys.exit(main())
