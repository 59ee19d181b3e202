#!/usr/bin/env python3
"""rdma-core 44's own Python tests (package python3-pyverbs, which brings them as documentation).

Each test passes, or stands in rdma_core.toml with the reason why it does not. A test that is listed
and passes fails the case, so none that passes can be put there; so does one that neither passes nor
is listed, and a line of the list that no test fits.
"""
import fnmatch
import gzip
import json
import os
import shutil
import time
import tomllib

from stock import PATIENCE, SANDBOX_DEVICE, Skip, expect, sandbox, stop, variants

HERE = os.path.dirname(os.path.abspath(__file__))
UNPACKED = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "unpacked",
                        "python3-pyverbs")
PYTHON = "/usr/bin/python3"  # pyverbs is built for Debian's own
PERSONAS = {"ib": "ib", "iwarp": "iwarp"}
# They look at the peer's memory as soon as a Write is completed, and wait for the peer's error on
# the work request: the rules of InfiniBand.
IB_RULES = ("--complete", "placed")


def find_tests(bench):
    """(a folder with the tests, a folder with pyverbs); they are packed, so they are copied."""
    for top in (UNPACKED, "/"):
        packed = os.path.join(top, "usr/share/doc/rdma-core/tests")
        modules = os.path.join(top, "usr/lib/python3/dist-packages")
        if os.path.exists(packed) and os.path.exists(os.path.join(modules, "pyverbs")):
            break
    else:
        raise Skip("rdma-core's Python tests are not here (package python3-pyverbs)")
    folder = os.path.join(bench.folder, "rdma-core", "tests")
    shutil.copytree(packed, folder)
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.endswith(".gz"):
            with gzip.open(path) as source, open(path[:-3], "wb") as target:
                shutil.copyfileobj(source, target)
    return folder, modules


class Listed:
    """rdma_core.toml for one persona."""

    def __init__(self, persona):
        with open(os.path.join(HERE, "rdma_core.toml"), "rb") as file:
            self.entries = [entry for entry in tomllib.load(file)["listed"]
                            if persona in entry.get("personas", list(PERSONAS))]

    def find(self, test):
        """(why it is listed, or None; whether it may pass on another machine)."""
        for entry in self.entries:
            if any(fnmatch.fnmatchcase(test, pattern) for pattern in entry["tests"]):
                return entry["reason"], entry.get("may_pass", False)
        return None, False

    def unused(self, tests):
        return [pattern for entry in self.entries for pattern in entry["tests"]
                if not fnmatch.filter(tests, pattern)]


def lines(program):
    return [json.loads(line) for line in program.output().splitlines(keepends=True)
            if line.endswith("\n")]


def watch(program):
    """Waits for the end, or until a test makes no progress; what was told of each."""
    deadline, seen = time.monotonic() + PATIENCE, 0
    while program.running() and time.monotonic() < deadline:
        time.sleep(0.02)
        size = os.path.getsize(program.path)
        if size != seen:
            deadline, seen = time.monotonic() + PATIENCE, size
    hung = program.running()
    program.end()
    told = {line["id"]: (line["result"], line["reason"]) for line in lines(program)}
    for test, (result, _) in told.items():
        if result == "begun":
            told[test] = ("failed", "hangs" if hung else f"the test {program.status()}")
    return told


def run_all(bench, persona):
    """{test: (result, reason)}: starts again behind a test that ended the program."""
    folder, modules = find_tests(bench)
    enter = sandbox(bench)

    def start(*words):
        return bench.run(PYTHON, "-B", os.path.join(HERE, "rdma_core_driver.py"), folder,
                         SANDBOX_DEVICE, *words, options=("--persona", persona, *IB_RULES),
                         namespace=enter,
                         label="rdma-core's Python tests", PYTHONPATH=modules)
    names = [line["id"] for line in lines(start("--list").succeed())]
    told = {}
    while len(told) < len(names):
        left = [name for name in names if name not in told]
        more = watch(start(*left))
        expect(more, "no test began")
        told.update(more)
    return told


@variants(**PERSONAS)
def tests(bench, persona):
    told = run_all(bench, persona)
    listed = Listed(persona)
    wrong, reasons = [], {}
    for test, (result, reason) in sorted(told.items()):
        known, may_pass = listed.find(test)
        if result == "passed" and known and not may_pass:
            wrong.append(f"{test}: passes, and is listed ({known})")
        elif result != "passed" and not known:
            wrong.append(f"{test}: {result}, not listed: {reason}")
        reasons[known or "passed"] = reasons.get(known or "passed", 0) + 1
    wrong += [f"{pattern}: listed, and no test fits" for pattern in listed.unused(told)]
    expect(not wrong, f"{len(wrong)} wrong:\n  " + "\n  ".join(wrong))
    for reason, count in reasons.items():
        bench.count("rdma-core's Python tests", persona, reason, count)


stop()
