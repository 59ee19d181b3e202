#!/usr/bin/env python3
"""weft ping and weft blast from outside: every operation, refusals, ends that die, other versions.

The figures themselves are not judged, but that each derived one follows from what was counted: they
are computed again here, from the samples and counters in the report.
"""
import contextlib
import json
import math
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

WEFT = sys.argv[1]
PATIENCE = 120
HOST = "127.0.0.1"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
failures = []


def check(good, text):
    if not good:
        failures.append(text)


class Server:
    """weft ping or blast without an address, ended with the block."""

    def __init__(self, tool, *options, weft=(WEFT,), port=None):
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = probe.getsockname()[1] if port is None else port
        self.tool, self.weft = tool, weft
        self.process = subprocess.Popen([*weft, tool, "--port", str(self.port), *options],
                                        env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT)
        self.first = self.process.stdout.readline()
        check("waiting" in self.first, f"the server of {tool} said '{self.first}'")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE)
        self.process.stdout.close()

    def start(self, *options):
        return subprocess.Popen([*self.weft, self.tool, HOST, "--port", str(self.port), *options],
                                env=ENVIRONMENT, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)

    def measure(self, *options, status=0, says=""):
        """Runs a client to its end; its output."""
        client = self.start(*options)
        output = client.communicate(timeout=PATIENCE)[0]
        check(client.returncode == status and says in output,
              f"weft {self.tool} {' '.join(options)}: wanted status {status} and '{says}', got "
              f"{client.returncode} and:\n{output}")
        return output

    def ends(self, status, says=""):
        output = self.process.communicate(timeout=PATIENCE)[0]
        check(self.process.returncode == status and says in output,
              f"the server of {self.tool}: wanted status {status} and '{says}', got "
              f"{self.process.returncode} and:\n{output}")


def usage(words, says):
    ran = subprocess.run([WEFT, *words], env=ENVIRONMENT, capture_output=True, text=True,
                         timeout=PATIENCE)
    output = ran.stdout + ran.stderr
    check(ran.returncode == 2 and says in output,
          f"weft {' '.join(words)}: wanted '{says}', got {ran.returncode} and:\n{output}")


def refusals():
    for tool in ("ping", "blast"):
        ran = subprocess.run([WEFT, tool, "--help"], env=ENVIRONMENT, capture_output=True,
                             text=True, timeout=PATIENCE)
        check(ran.returncode == 0 and "What is measured" in ran.stdout and "--crc" in ran.stdout,
              f"weft {tool} --help says {ran.stdout}")
    usage(["ping", HOST, "--op", "write", "--wait", "event"], "use --op write-imm")
    usage(["ping", HOST, "--over", "tcp", "--op", "write"], "no one-sided operations")
    usage(["ping", HOST, "--outstanding", "2"], "one message outstanding")
    usage(["ping", HOST, "--op", "reed"], "--op takes send|write|write-imm|read|write-read")
    usage(["ping", HOST, "--sise", "4"], "did you mean --size?")
    usage(["ping", HOST, "--size", "257M"], "is not a size")
    usage(["ping", HOST, "--sweep", "1-4", "--size", "1"], "excludes")
    usage(["ping", HOST, "-n", "5", "--time", "5"], "excludes")
    usage(["ping", HOST, "--raw", "5"], "--raw needs --json")
    usage(["ping", "--op", "send"], "it needs an address")
    usage(["ping", "--json", "x"], "its report shows both sides")
    usage(["ping", HOST, "--persistent"], "is for a server")
    usage(["ping", HOST, "--pin", "x"], "not a list of CPUs")
    usage(["ping", HOST, "--crc=no"], "on|off")
    usage(["ping", HOST, "--verbs", "mine"], "--verbs takes")
    usage(["ping", HOST, "--verbs", "system", "--crc", "off"], "--crc is a setting of weft's")
    usage(["blast", HOST, "--signal", "none"], "one in n/2")
    usage(["blast", HOST, "--post", "list:17"], "at most --outstanding")
    usage(["blast", HOST, "--post", "list:x"], "--post takes")
    usage(["blast", HOST, "--raw", "5", "--json", "-"], "--raw is for ping")
    usage(["blast", HOST, "--size", "256M", "--outstanding", "64"], "more than 4 GiB")
    for seconds in ("-1", "nan", "inf", "3601", "x"):
        usage(["blast", HOST, "--warm-up", seconds], f"it takes 0 to 3600 seconds, not {seconds}")
    usage(["ping", HOST, "--time", "nan"], "--time: it takes 0.001 to 3600 seconds, not nan")
    for port in ("65536", "-1", "abc", "7472x"):
        usage(["ping", "--port", port], f"--port: it takes 0 to 65535, not {port}")
    usage(["ping", HOST, "--port", "0"], "--port takes 1 to 65535 here")
    # An empty word is no way to ask for a server, or for no report.
    usage(["ping", ""], "address is empty")
    usage(["blast", "", "--size", "64"], "address is empty")
    usage(["ping", HOST, "--json", ""], "--json is empty")
    usage(["ping", "--bind", ""], "--bind is empty")
    usage(["blast", HOST, "--chunk", "64K"], "they need --over tcp")
    usage(["blast", HOST, "--over", "tcp", "--chunk", "0"], "--chunk takes 1 to 256M")
    usage(["blast", HOST, "--over", "tcp", "--congestion", "a/b"], "a name such as cubic")
    usage(["ping", HOST, "--wait", "block", "--connections", "2"], "takes one connection")
    usage(["ping", HOST, "--over", "sockets", "--op", "write-imm"], "belongs to the verbs")
    usage(["ping", HOST, "--over", "sockets", "--op", "write", "--wait", "event"],
          "only --op send wakes the peer")
    usage(["blast", HOST, "--over", "sockets", "--outstanding", "4096"], "4096 operations open")


def ping_every_operation():
    with Server("ping", "--persistent") as server:
        for op in ("send", "write", "write-imm", "read", "write-read"):
            server.measure("--op", op, "-n", "20", "--verify", "--size", "1,77,70000")
            if op != "write":
                server.measure("--op", op, "-n", "20", "--verify", "--wait", "event")
                server.measure("--op", op, "-n", "20", "--verify", "--wait", "block")
            if op != "read":
                server.measure("--op", op, "-n", "20", "--verify", "--inline")
        server.measure("--op", "send", "-n", "100", "--signal", "none")
        server.measure("--op", "send", "-n", "20", "--connections", "4", "--threads", "2",
                       "--wait", "event", "--verify")
        server.measure("--op", "send", "--time", "0.05", "--wait", "event", "--crc", "off")
        server.measure("--op", "read", "-n", "20", "--passive", "poll")
        server.measure("--op", "write", "-n", "20", "--wait", "memory", "--verify")
        server.measure("--op", "write", "-n", "300", "--wait", "memory", "--signal", "none")
        for wait in ("poll", "event", "block"):
            server.measure("--over", "tcp", "-n", "20", "--wait", wait, "--verify",
                           "--size", "1,70000")
        server.process.send_signal(signal.SIGINT)
        server.ends(0)


def blast_every_operation():
    with Server("blast", "--persistent") as server:
        for op in ("send", "write", "write-imm", "read"):
            server.measure("--op", op, "-n", "100", "--verify", "--size", "1,77,70000")
            server.measure("--op", op, "-n", "100", "--verify", "--both", "--wait", "event")
            server.measure("--op", op, "-n", "100", "--verify", "--wait", "block")
            server.measure("--op", op, "-n", "101", "--outstanding", "9", "--post", "list:7",
                           "--signal", "periodic", "--size", "100")
            server.measure("--op", op, "-n", "50", "--outstanding", "1", "--size", "100")
        server.measure("--op", "send", "-n", "100", "--outstanding", "9", "--post", "list:9",
                       "--verify", "--both", "--size", "3000")
        server.measure("--op", "send", "-n", "500", "--receives", "64", "--verify")
        server.measure("--op", "write-imm", "-n", "500", "--receives", "3", "--both", "--verify")
        server.measure("--op", "write", "-n", "100", "--inline", "--size", "64")
        server.measure("--op", "write", "-n", "100", "--buffers", "1", "--passive", "poll")
        server.measure("--op", "write", "-n", "50", "--connections", "4", "--threads", "2",
                       "--wait", "event", "--verify")
        server.measure("--op", "write", "--inline", "--size", "64,1M", status=1,
                       says="cannot take 1048576 octets --inline")
        for wait in ("poll", "event", "block"):
            server.measure("--over", "tcp", "-n", "100", "--wait", wait, "--verify")
            server.measure("--over", "tcp", "--op", "read", "-n", "100", "--wait", wait,
                           "--verify", "--socket-buffers", "64K", "--congestion", "reno")
        server.measure("--over", "tcp", "-n", "100", "--congestion", "nosuch", status=1,
                       says="congestion control nosuch")
        server.measure("--over", "tcp", "-n", "9999", "--post", "list:4", "--size", "100,7",
                       "--chunk", "64K", "--verify")
        server.measure("--over", "tcp", "-n", "999", "--size", "100,7", "--chunk", "250",
                       "--verify")
        server.measure("--over", "tcp", "-n", "100", "--both", "--wait", "event", "--verify")
        server.measure("--over", "tcp", "-n", "100", "--post", "list:4", "--size", "100",
                       "--verify")
        server.process.send_signal(signal.SIGTERM)
        server.ends(0)


# The library is preloaded, and no port has a rule: the programs switch their sockets themselves.
WITH_SOCKETS = (WEFT, "run", "--sockets", "--", WEFT)


def ping_over_sockets():
    with Server("ping", "--persistent", weft=WITH_SOCKETS) as server:
        for op in ("send", "write", "read", "write-read"):
            over = ("--over", "sockets", "--op", op, "-n", "20", "--verify")
            server.measure(*over, "--size", "1,77,70000", says=f"ping by {op} over sockets")
            server.measure(*over, "--connections", "4", "--threads", "2")
            for wait in ("memory",) if op == "write" else ("event", "block"):
                server.measure(*over, "--wait", wait)
        server.measure("--over", "sockets", "--op", "write", "-n", "300", "--wait", "memory")
        server.measure("--over", "sockets", "--op", "send", "--time", "0.05", "--crc", "off")
        # What goes over others goes on as before.
        server.measure("--op", "write", "-n", "20", "--verify")
        server.measure("--over", "tcp", "-n", "20", "--verify")
        server.process.send_signal(signal.SIGINT)
        server.ends(0)


def blast_over_sockets():
    with Server("blast", "--persistent", weft=WITH_SOCKETS) as server:
        for op in ("send", "write", "read"):
            over = ("--over", "sockets", "--op", op, "-n", "2000")
            server.measure(*over, "--verify", "--size", "1,77,7000",
                           says=f"blast by {op} over sockets")
            server.measure("--over", "sockets", "--op", op, "-n", "50", "--size", "1M", "--both",
                           "--verify")
            server.measure(*over, "--verify", "--both", "--wait", "event", "--size", "100")
            server.measure(*over, "--verify", "--both", "--wait", "block", "--size", "100")
            server.measure(*over, "--outstanding", "1", "--size", "100")
            server.measure(*over, "--outstanding", "1000", "--size", "100", "--verify")
            server.measure(*over, "--connections", "4", "--threads", "2", "--wait", "event",
                           "--size", "100", "--verify")
        server.measure("--over", "sockets", "--op", "send", "-n", "500", "--receives", "3",
                       "--verify")
        server.measure("--over", "sockets", "-n", "100", "--buffers", "1")
        server.process.send_signal(signal.SIGTERM)
        server.ends(0)


def without_the_sockets_library():
    """Whose side lacks it says what to do, and the other hears it."""
    hint = "run both sides as weft run --sockets"
    with Server("blast") as server:
        server.measure("--over", "sockets", status=1, says=hint)
        server.ends(1, hint)
    with Server("blast", weft=WITH_SOCKETS) as server:
        server.weft = (WEFT,)
        server.measure("--over", "sockets", status=1, says=hint)
        server.ends(1, hint)


def close_to(found, wanted, error=1e-9):
    return math.isclose(found, wanted, rel_tol=error, abs_tol=1e-12)


def recompute(report):
    """Every derived figure again, by other means: sorting instead of buckets."""
    plan = report["plan"]
    check(report["schema"] == "weft-measure/1" and report["complete"], "the report's head")
    check([row["octets"] for row in report["results"]] == plan["sizes"], "the report's sizes")
    for row in report["results"]:
        name = f"{plan['tool']} {plan['op']} {row['octets']}: "
        trips = 1 if plan["tool"] == "blast" else 1 if plan["op"] == "read" else 2
        directions = 2 if plan["both"] else 1
        check(row["messages"] == row["count"] * plan["connections"] * directions,
              name + "messages")
        moved = row["messages"] * trips
        check(close_to(row["messages_per_s"], moved / row["seconds"]), name + "messages/s")
        check(close_to(row["gbps"], moved * row["octets"] * 8 / row["seconds"] / 1e9),
              name + "gbps")
        for side in ("client", "server"):
            counted = row[side]["counted"]
            cpu = counted["user_s"] + counted["system_s"]
            check(close_to(row[side]["cpu_percent"], 100 * cpu / counted["seconds"]),
                  name + side + " CPU")
            check(close_to(row[side]["cpus_per_gbps"] * row["gbps"] * row["seconds"], cpu, 1e-6),
                  name + side + " CPUs per Gb/s")
            check(close_to(row[side]["cpu_us_per_message"], cpu / moved * 1e6),
                  name + side + " CPU per message")
            switches = counted["voluntary_switches"] + counted["involuntary_switches"]
            check(close_to(row[side]["switches_per_message"], switches / moved),
                  name + side + " switches")
            check(counted["seconds"] > 0 and cpu >= 0, name + side + " counters")
        if plan["tool"] == "ping":
            recompute_times(name, row, trips)


def recompute_times(name, row, trips):
    raw = sorted(row["round_trips_ns"]["raw"])
    times = row["one_way_us"]
    check(len(raw) == row["messages"], f"{name}{len(raw)} samples of {row['messages']}")
    check(close_to(times["mean"], sum(raw) / len(raw) / trips / 1000), name + "mean")
    check(close_to(times["min"], raw[0] / trips / 1000), name + "min")
    check(close_to(times["max"], raw[-1] / trips / 1000), name + "max")
    for label, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
        exact = raw[max(math.ceil(share * len(raw)), 1) - 1] / trips / 1000
        check(close_to(times[label], exact, 0.004), f"{name}{label} {times[label]}, not {exact}")
    buckets = row["round_trips_ns"]["histogram"]
    for lower, width, count in buckets:
        check(count == sum(lower <= ns < lower + width for ns in raw),
              f"{name}bucket {lower}..{lower + width}")
    check(sum(count for _, _, count in buckets) == len(raw), name + "the whole histogram")
    check(row["round_trips_ns"]["sum"] == sum(raw), name + "sum")


def derived_figures():
    with Server("ping", "--persistent") as server:
        for options in (["--op", "send", "--connections", "2"], ["--op", "read"],
                        ["--op", "write-read"], ["--over", "tcp"]):
            recompute(json.loads(server.measure(
                *options, "--wait", "event", "-n", "500", "--size", "1,4K", "--raw", "1000",
                "--json", "-")))
    with Server("blast", "--persistent") as server:
        for options in (["--op", "send", "--both"], ["--op", "write", "--connections", "2"],
                        ["--over", "tcp"]):
            recompute(json.loads(server.measure(
                *options, "--wait", "event", "-n", "500", "--size", "1,4K", "--json", "-")))
    for tool, op in (("ping", "read"), ("ping", "send"), ("blast", "write")):
        with Server(tool, weft=WITH_SOCKETS) as server:
            raw = ("--raw", "1000") if tool == "ping" else ()
            recompute(json.loads(server.measure(
                "--over", "sockets", "--op", op, "--wait", "event", "-n", "500", "--size", "1,4K",
                *raw, "--json", "-")))


def warm_up():
    """It is not in the figures, and what is measured is as long as ever."""
    with Server("ping", "--persistent") as server:
        for length in (["-n", "50"], ["--time", "0.01"]):
            began = time.monotonic()
            report = json.loads(server.measure("--over", "tcp", *length, "--warm-up", "1",
                                               "--json", "-"))
            took = time.monotonic() - began
            row = report["results"][0]
            check(took - row["seconds"] >= 1,
                  f"{length} with a warm-up of 1 s: {row['seconds']} s of {took} s")
            check(length[0] != "-n" or row["messages"] == 50, f"{row['messages']} messages of 50")


def reports():
    with tempfile.TemporaryDirectory() as folder, Server("ping", "--persistent") as server:
        path = os.path.join(folder, "report.json")
        server.measure("-n", "20", "--wait", "event", "--json", path, "--markers", "on",
                       says="one-way time")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        check(report["client"]["settings"].get("WEFT_MARKERS") == "on", "settings in the report")
        check(report["client"]["verbs"].endswith("libibverbs.so.1"), "the report's libibverbs")
        check(os.listdir(folder) == ["report.json"], "files beside the report")
        server.measure("-n", "20", "--wait", "event", "--json", "/dev/full", status=1,
                       says="No space left on device")
        server.measure("-n", "20", "--wait", "event", "--json", folder + "/no/where", status=1,
                       says="No such file")


def unwritable_report():
    """It is noticed before anything is measured, or anybody is asked."""
    with tempfile.TemporaryDirectory() as folder:
        for path, says in ((folder + "/no/where", "No such file"), (folder, "Is a directory"),
                           ("/proc/version/x", "Not a directory")):
            ran = subprocess.run([WEFT, "ping", HOST, "--port", "1", "--json", path],
                                 env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
            check(ran.returncode == 1 and says in ran.stderr and "nobody" not in ran.stderr,
                  f"--json {path}: {ran.returncode} and:\n{ran.stderr}")
        path = os.path.join(folder, "report.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("an older one")
        ran = subprocess.run([WEFT, "ping", HOST, "--port", "1", "--json", path], env=ENVIRONMENT,
                             capture_output=True, text=True, timeout=PATIENCE)
        check(ran.returncode == 1 and "nobody listens" in ran.stderr, f"port 1: {ran.stderr}")
        check(os.listdir(folder) == ["report.json"], "files beside the report")


# Longer than what stdio holds back.
REPORT = ("-n", "20", "--sweep", "1-64K", "--json", "-")


def lost_output():
    """A table or report that cannot be written is a failure, and ends what is measured; a
    descriptor that is closed is not taken for the connection."""
    reader, unread = os.pipe()
    os.close(reader)
    reason = "(No space left on device|Broken pipe|Bad file descriptor)"
    with open("/dev/full", "wb") as full, open(unread, "wb") as unread:
        for tool in ("ping", "blast"):
            with Server(tool, "--persistent") as server:
                words = [WEFT, tool, HOST, "--port", str(server.port), "--wait", "event"]
                for where, closed in ((full, None), (unread, None), (None, 1)):
                    def close(closed=closed):
                        if closed is not None:
                            os.close(closed)
                    began = time.monotonic()
                    for more, says in ((LONG, "table"), (REPORT, "report")):
                        ran = subprocess.run([*words, *more], env=ENVIRONMENT, stdout=where,
                                             stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                                             preexec_fn=close)
                        check(ran.returncode == 1 and "above" not in ran.stderr and
                              re.fullmatch(f"weft: cannot write the {says}: {reason}\n",
                                           ran.stderr),
                              f"{tool}, the {says} to {where}: {ran.returncode}\n{ran.stderr}")
                    check(time.monotonic() - began < 20, "it measured on, with no table")
                for closed in (0, 2):
                    ran = subprocess.run([*words, "-n", "20"], env=ENVIRONMENT, text=True,
                                         stdout=subprocess.PIPE, timeout=PATIENCE,
                                         preexec_fn=lambda closed=closed: os.close(closed))
                    check(ran.returncode == 0 and "64" in ran.stdout,
                          f"{tool}, {closed} closed: {ran.returncode}\n{ran.stdout}")
                server.measure("-n", "5", "--wait", "event")


def free_port_of_the_server():
    with Server("ping", port=0) as server:
        server.port = int(server.first.rpartition(" ")[2])
        check(server.port != 0, f"the server said '{server.first}'")
        server.measure("-n", "5", "--wait", "event")
        server.ends(0)


def one_shot_server():
    with Server("ping") as server:
        server.measure("-n", "20", "--wait", "event")
        server.ends(0, "served 127.0.0.1: ping")
    ran = subprocess.run([WEFT, "ping", HOST, "--port", str(server.port)], env=ENVIRONMENT,
                         capture_output=True, text=True, timeout=PATIENCE)
    check(ran.returncode == 1 and "nobody listens" in ran.stderr, f"no server: {ran.stderr}")


def client_that_cannot():
    """The server, which waits for the connection, is told why none comes."""
    with Server("blast") as server:
        server.measure("--inline", "--size", "64,1M", status=1, says="cannot take 1048576 octets")
        server.ends(1, "cannot take 1048576 octets --inline")


def until_busy(client):
    """Waits until the first size is measured, so that one of the many others is under way."""
    lines = [client.stdout.readline() for _ in range(3)]
    check(re.match(r"\s+\d+ B", lines[2] or ""), f"no first row: {lines}")
    time.sleep(0.1)  # into the legs of the others; any moment of theirs will do


EVENT = ("--wait", "event")
LONG = ("--time", "0.25", "--size", ",".join(["64"] + ["65"] * 250))


def killed_ends():
    plain = (WEFT,)
    for tool, options, weft in (
            ("ping", ["--op", "send", *EVENT], plain), ("blast", ["--op", "write", *EVENT], plain),
            ("blast", ["--op", "send", *EVENT], plain), ("ping", ["--over", "tcp", *EVENT], plain),
            ("ping", ["--op", "send", "--wait", "block"], plain),
            ("ping", ["--over", "sockets", "--op", "write"], WITH_SOCKETS),
            ("blast", ["--over", "sockets", *EVENT], WITH_SOCKETS),
            ("blast", ["--over", "sockets", "--op", "send", "--wait", "block"], WITH_SOCKETS)):
        with Server(tool, weft=weft) as server:
            client = server.start(*options, *LONG)
            until_busy(client)
            server.process.kill()
            output = client.communicate(timeout=PATIENCE)[0]
            check(client.returncode == 1 and "gone" in output and "stands above" in output,
                  f"{tool} {options}, its server killed: {client.returncode} and:\n{output}")
        with Server(tool, weft=weft) as server:
            client = server.start(*options, *LONG)
            until_busy(client)
            client.kill()
            client.communicate(timeout=PATIENCE)
            server.ends(1, f"client {HOST}: ")


def interrupted_client():
    for wait in ("event", "block"):
        interrupted_while("--wait", wait)


def interrupted_while(*options):
    with tempfile.TemporaryDirectory() as folder, Server("ping", "--persistent") as server:
        path = os.path.join(folder, "report.json")
        client = server.start(*options, *LONG, "--json", path)
        until_busy(client)
        client.send_signal(signal.SIGINT)
        output = client.communicate(timeout=PATIENCE)[0]
        check(client.returncode == 130 and "interrupted" in output,
              f"interrupted: {client.returncode} and:\n{output}")
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        check(report["interrupted"] and not report["complete"] and report["error"]
              and report["results"][0]["complete"], "the report of an interrupted run")
        server.measure("-n", "5", "--wait", "event")  # it lives on


def frame(body, kind=1, version=1, magic=b"WFTM"):
    return magic + struct.pack("!HHI", version, kind, len(body)) + body


def foreign_client(server, octets):
    """What the server answers to somebody else's octets, as text."""
    with socket.create_connection((HOST, server.port), timeout=PATIENCE) as line:
        line.sendall(octets)
        line.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while octets := line.recv(65536):
                answer += octets
    return answer.decode(errors="replace")


def foreign_peers():
    with Server("ping", "--persistent") as server:
        for octets, says in (
                (frame(b"{}", version=9), "version 9"), (b"GET / HTTP/1.0\r\n\r\n", "not speak"),
                (frame(b"{"), "no JSON"), (frame(b"{}"), "no plan"), (b"", ""), (b"WFTM", ""),
                (frame(b'{"plan": {}}'), "lacks"),
                (frame(b'{"plan": {}}', kind=7), "instead of"),
                (frame(b"{}", kind=5), "instead of"), (frame(b"x" * 100)[:50], ""),
                (frame(b"[" * 100000), "no JSON"),
                (b"WFTM" + b"\0\1\0\1\xff\xff\xff\xff", "4294967295")):
            answer = foreign_client(server, octets)
            check(says in answer, f"to {octets[:40]} the server said {answer}")
        server.measure("-n", "5", "--wait", "event")  # after all that it serves as before
    with socket.create_server((HOST, 0)) as listener:
        for answer, says in ((frame(b"{}", kind=2, version=2), "version 2"),
                             (frame(b"{}", kind=2), "named no port"),
                             (frame(b'{"reason": "full"}', kind=6),
                              "weft: the other side says: full"),
                             (frame(b'{"port": 70000}', kind=2), "named no port"),
                             (b"220 ready\r\n\r\n\r\n", "not speak"), (b"", "gone")):
            client = subprocess.Popen([WEFT, "ping", HOST, "--port",
                                       str(listener.getsockname()[1])], env=ENVIRONMENT,
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            line, _ = listener.accept()
            with line:
                line.recv(65536)
                line.sendall(answer)
                line.shutdown(socket.SHUT_WR)
                output = client.communicate(timeout=PATIENCE)[0]
            check(client.returncode == 1 and says in output,
                  f"a server that says {answer}: {client.returncode} and:\n{output}")


CASES = (refusals, ping_every_operation, blast_every_operation, ping_over_sockets,
         blast_over_sockets, without_the_sockets_library, derived_figures, warm_up, reports,
         unwritable_report, lost_output, free_port_of_the_server, one_shot_server,
         client_that_cannot, killed_ends, interrupted_client, foreign_peers)
for case in CASES:
    if len(sys.argv) < 3 or case.__name__ in sys.argv[2:]:
        began, before = time.monotonic(), len(failures)
        case()
        result = "ok" if len(failures) == before else "FAILED"
        print(f"{result} {case.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
