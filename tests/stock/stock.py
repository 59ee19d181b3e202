"""Runs stock, unmodified programs on weft and judges them: what every file of this folder uses.

A file holds cases, functions marked @case, and ends in stop(). Each case gets a Bench: it starts
programs, waits for events (a port that listens, a line of output, an exit) with a bound, and ends
what is left by process id. Nothing sleeps for a time that the machine's load could make too short.

usage of each file: FILE --weft PATH/bin/weft [--facts FILE] [--sanitizer KIND] [--list] [CASE...]
--facts: writes what the cases that passed have shown, for scripts/compatibility
--sanitizer: weft is built with one (address, thread): a case that it has a report of fails
exit status: 0 all passed, 1 a case failed, 77 no case could run here (each says why)
"""
import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from sanitizer import FLAGS, Sanitizer

# How long a thing that should happen at once may take on a busy machine before it counts as hung.
# With instrumented libraries all takes longer, most of all where two ends poll in turn.
PATIENCE = 180.0 if "--sanitizer" in sys.argv else 60.0
PORTS = (10000, 32000)  # below the range from which the kernel takes ports of its own

CASES = []


class Failure(Exception):
    """The case failed; the text says how."""


class Skip(Exception):
    """The case cannot run here; the text says why."""


def case(function):
    """Marks a case; its name is the function's."""
    CASES.append((function.__name__, function))
    return function


def variants(**named):
    """Marks a case that runs once per keyword, named function.keyword, with the keyword's value."""
    def mark(function):
        for name, value in named.items():
            def run(bench, value=value):
                return function(bench, value)
            CASES.append((f"{function.__name__}.{name}", run))
        return function
    return mark


def expect(holds, text):
    if not holds:
        raise Failure(text)


def wait_until(condition, what, seconds=PATIENCE, step=0.01):
    """Returns condition()'s first true value; a Failure after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"{what}: not within {seconds:g} s")
        time.sleep(step)


def tcp_rows(pid):
    """(local port, state, inode) of each TCP socket in the network namespace of `pid`."""
    for family in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{family}", encoding="ascii") as table:
                lines = table.readlines()[1:]
        except (FileNotFoundError, ProcessLookupError, OSError):
            continue  # the process has gone, or there is no IPv6
        for line in lines:
            field = line.split()
            yield int(field[1].rsplit(":", 1)[1], 16), int(field[3], 16), field[9]


TCP_ESTABLISHED, TCP_LISTEN = 1, 10


class Program:
    """One started program. Its output goes to two files, so it never waits for a reader, and a
    line of one stream never cuts a line of the other in two."""

    def __init__(self, words, variables, folder, stdin=None, more=None):
        self.words, self.variables = words, variables
        self.path = os.path.join(folder, f"{len(os.listdir(folder))}.{os.path.basename(words[0])}")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        environment.update(more or {})
        environment.update(variables, LC_ALL="C")
        with open(self.path, "wb") as out, open(self.path + ".error", "wb") as error:
            self.process = subprocess.Popen(words, env=environment, stdout=out, stderr=error,
                                            cwd=folder, stdin=stdin or subprocess.DEVNULL)
        self.pid = self.process.pid

    def output(self):
        """Standard output so far. Most programs write it in pieces of 4096 octets."""
        with open(self.path, encoding="utf-8", errors="replace") as out:
            return out.read()

    def errors(self):
        with open(self.path + ".error", encoding="utf-8", errors="replace") as error:
            return error.read()

    def text(self):
        return self.output() + self.errors()

    def running(self):
        return self.process.poll() is None

    def status(self):
        """The exit status in words, or "still running"."""
        code = self.process.poll()
        if code is None:
            return "still running"
        return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"

    def replay(self):
        settings = [f"{name}={value}" for name, value in sorted(self.variables.items())]
        return shlex.join((["env"] if settings else []) + settings + self.words)

    def wait(self, seconds=PATIENCE):
        """The exit status; a Failure if it does not come, or if the program died of a signal."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.words[-1] if len(self.words) == 1 else self.replay()}: still "
                          f"running after {seconds:g} s\n{self.threads()}") from None
        expect(code >= 0 or -code not in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS,
                                          signal.SIGFPE, signal.SIGILL),
               f"{self.replay()}: {self.status()}")
        return code

    def succeed(self, seconds=PATIENCE):
        code = self.wait(seconds)
        expect(code == 0, f"{self.replay()}: {self.status()}")
        return self

    def threads(self):
        """Where each thread stands, if gdb is there to say; for the report of a hang."""
        if shutil.which("gdb") is None or not self.running():
            return ""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(["gdb", "-p", str(self.pid), "-batch", "-ex",
                                   "thread apply all bt 12"], capture_output=True, text=True,
                                  timeout=20, stdin=subprocess.DEVNULL).stdout
        return ""

    def sockets(self):
        """The rows of tcp_rows() that are this program's own."""
        own = set()
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{self.pid}/fd"):
                with contextlib.suppress(OSError):
                    own.add(os.readlink(f"/proc/{self.pid}/fd/{name}"))
        return [row for row in tcp_rows(self.pid) if f"socket:[{row[2]}]" in own]

    def listens(self, port):
        """Waits until this program listens on `port`."""
        def check():
            if (port, TCP_LISTEN) in (row[:2] for row in self.sockets()):
                return True
            expect(self.running(), f"{self.replay()}: ended before it listened: {self.status()}")
            return False
        wait_until(check, f"{self.replay()}: listening on port {port}")
        return self

    def connected(self, port, count=1):
        """Waits until `count` connections to the listening `port` are established there."""
        wait_until(lambda: sum(row[:2] == (port, TCP_ESTABLISHED)
                               for row in self.sockets()) >= count,
                   f"{self.replay()}: {count} connections on port {port}")
        return self

    def says(self, text, seconds=PATIENCE):
        """Waits until the output holds `text`, a regular expression."""
        def check():
            if re.search(text, self.text()):
                return True
            if not self.running():
                expect(re.search(text, self.text()),
                       f"{self.replay()}: {self.status()} without saying '{text}'")
                return True
            return False
        wait_until(check, f"{self.replay()}: saying '{text}'", seconds)
        return self

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def end(self):
        if self.running():
            self.process.kill()
            self.process.wait()


def persona_of(options):
    options = list(options)
    return options[options.index("--persona") + 1] if "--persona" in options else "iwarp"


class Bench:
    """What one case works with: starts programs and, at the end, ends them."""

    def __init__(self, weft, sanitizer=None):
        self.weft = weft
        self.folder = tempfile.mkdtemp(prefix="weft-stock-")
        self.sanitizer = Sanitizer(sanitizer, self.folder) if sanitizer else None
        self.programs = []
        self.facts = []  # for docs/COMPATIBILITY.md, if the case passes
        self.at_end = contextlib.ExitStack()

    def plain(self, *words, namespace=None, stdin=None, **settings):
        """Starts a program as it is. Keywords are environment variables: WEFT_CRC="off".
        `namespace` is the name of a network namespace, or what sandbox() gave."""
        words = [str(word) for word in words]
        if shutil.which(words[0]) is None and not os.path.exists(words[0]):
            raise Skip(f"there is no program {words[0]} on this machine")
        if namespace:
            words = (["ip", "netns", "exec", namespace] if isinstance(namespace, str)
                     else list(namespace)) + words
        program = Program(words, settings, self.folder, stdin,
                          self.sanitizer.variables if self.sanitizer else None)
        self.programs.append(program)
        return program

    def run(self, *words, options=(), label=None, **keywords):
        """Starts a program by `weft run OPTIONS --`. `label` is its name in COMPATIBILITY.md."""
        if shutil.which(str(words[0])) is None and not os.path.exists(str(words[0])):
            raise Skip(f"there is no program {words[0]} on this machine")
        ours = words[0] == sys.executable or str(words[0]).startswith(os.path.dirname(self.weft))
        if label or not ours:
            by_cm = " -R" if "-R" in words else ""  # perftest, by the connection manager
            label = label or os.path.basename(words[0]) + by_cm
            self.facts.append(("runs", label, persona_of(options), ""))
        return self.plain(self.weft, "run", *options, "--", *words, **keywords)

    def limit(self, label, persona, reason):
        """Tells that a program does not run with a persona, which the case has seen, and why."""
        self.facts.append(("limit", label, persona, reason))

    def count(self, label, persona, reason, count):
        """Tells how many tests of a suite passed, or did not for a reason."""
        self.facts.append(("count", label, persona, f"{reason}: {count}"))

    def pair(self, server, client, port, seconds=PATIENCE, server_options=(), client_options=(),
             namespaces=(None, None), label=None):
        """Runs server, then client once `port` is listened on; both have to succeed."""
        s = self.run(*server, options=server_options, namespace=namespaces[0], label=label)
        s.listens(port)
        c = self.run(*client, options=client_options, namespace=namespaces[1], label=label)
        c.succeed(seconds)
        s.succeed(seconds)
        return s.output(), c.output()

    def settle(self):
        """Ends what still runs; called once, after the case."""
        for program in reversed(self.programs):
            program.end()
        self.at_end.close()

    def report(self):
        lines = ["  to replay, in this order:"]
        if self.sanitizer:
            lines[0] += " (with " + " ".join(f"{name}='{value}'" for name, value in
                                             self.sanitizer.variables.items()) + ")"
        lines += [f"    {program.replay()}" for program in self.programs]
        for program in self.programs:
            text = program.text()
            if len(text) > 6000:
                text = text[:2000] + "\n  [...]\n" + text[-4000:]
            lines.append(f"  --- {program.replay()}: {program.status()}, it said:")
            lines += [f"  | {line[:300]}" for line in text.splitlines()]
        return "\n".join(lines)


def free_port(host="127.0.0.1"):
    """A port that nobody uses at the moment."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for _ in range(1000):
        port = random.randint(*PORTS)
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((host, port))
                return port
            except OSError:
                continue
    raise Failure(f"no free port between {PORTS[0]} and {PORTS[1]} on {host}")


def need_ipv6_loopback():
    try:
        free_port("::1")
    except (Failure, OSError):
        raise Skip("there is no address ::1 on this machine") from None


def command(*words):
    """Runs a short command of the system; its output, or a Skip with what it said."""
    try:
        ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE,
                             stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise Skip(f"there is no program {words[0]} on this machine") from None
    if ran.returncode != 0:
        raise Skip(f"{shlex.join(words)}: {(ran.stdout + ran.stderr).strip()}")
    return ran.stdout


def octets_moved(port):
    """The most that one connection to `port` has moved in one direction, as the kernel counts."""
    text = command("ss", "-tinH", f"( sport = :{port} or dport = :{port} )")
    return max((int(n) for n in re.findall(r"bytes_(?:sent|received|acked):(\d+)", text)),
               default=0)


_links = itertools.count()


def linked_namespaces(bench, mtu):
    """Two network namespaces joined by a veth pair: (names, IPv4 addresses, IPv6 addresses)."""
    if os.geteuid() != 0:
        raise Skip("network namespaces need root")
    stem = f"weft-{os.getpid()}-{next(_links)}"
    names = [f"{stem}-a", f"{stem}-b"]
    for name in names:
        command("ip", "netns", "add", name)
        bench.at_end.callback(subprocess.run, ["ip", "netns", "del", name], check=False,
                              capture_output=True)
    command("ip", "-n", names[0], "link", "add", "veth0", "mtu", str(mtu), "type", "veth",
            "peer", "name", "veth0", "mtu", str(mtu), "netns", names[1])
    for index, name in enumerate(names, 1):
        command("ip", "-n", name, "address", "add", f"10.91.7.{index}/24", "dev", "veth0")
        command("ip", "-n", name, "address", "add", f"fd91::{index}/64", "dev", "veth0", "nodad")
        command("ip", "-n", name, "link", "set", "lo", "up")
        command("ip", "-n", name, "link", "set", "veth0", "up")
    return names, ["10.91.7.1", "10.91.7.2"], ["fd91::1", "fd91::2"]


SANDBOX_ADDRESS, SANDBOX_DEVICE = "10.91.7.1", "weft_veth0"


def sandbox(bench):
    """A network namespace with an interface that is not the loopback, and with the files of a
    kernel's RDMA devices (sandbox.sh): the words that start a program in it."""
    kinds = ["--mount", "--net"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
    command("unshare", *kinds, "true")  # a Skip where that is not allowed
    folder = tempfile.mkdtemp(dir=bench.folder)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sandbox.sh")
    holder = bench.plain("unshare", *kinds, "sh", script, folder).says("ready")
    enter = ["nsenter", "--target", str(holder.pid)] + [kind for kind in kinds if "map" not in kind]
    return enter + (["--preserve-credentials"] if "--user" in kinds else [])


def sanitizer_reports(bench):
    if bench.sanitizer is None:
        return []
    try:
        wait_until(lambda: not bench.sanitizer.processes(), "every process of the case ended")
    except Failure as left:
        return [str(left)]
    return bench.sanitizer.reports(bench.programs)


def judge(bench, function):
    """Runs a case to its end: (its result in a word, what there is to say)."""
    result, text = "passed", ""
    try:
        function(bench)
    except Skip as reason:
        result, text = "skipped", f": {reason}"
    except Failure as reason:
        result, text = "FAILED", f": {reason}\n{bench.report()}"
    except OSError:  # of a call of the case's own; the other cases still run
        result, text = "FAILED", f": {traceback.format_exc()}\n{bench.report()}"
    finally:
        bench.settle()
    reports = sanitizer_reports(bench)
    if reports:  # in front of what else was wrong, which may follow from it
        text = f": {len(reports)} reports of a sanitizer\n" + "\n".join(reports) + text
        result = "FAILED"
    return result, text


def judge_all():
    """Judges the cases that the command line chooses; the exit status."""
    parser = argparse.ArgumentParser(description="cases of stock programs on weft")
    parser.add_argument("--weft", help="the weft program of a build")
    parser.add_argument("--facts", help="a file for scripts/compatibility")
    parser.add_argument("--sanitizer", choices=FLAGS, help="what weft is built with")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("cases", nargs="*", help="only these; a name or its first part")
    arguments = parser.parse_args()
    chosen = [(name, function) for name, function in CASES if not arguments.cases or
              any(name == wanted or name.split(".")[0] == wanted for wanted in arguments.cases)]
    if arguments.list:
        print("\n".join(name for name, _ in chosen))
        return 0
    if not chosen or not arguments.weft:
        parser.error("no such case" if arguments.weft else "--weft is missing")
    weft = os.path.abspath(arguments.weft)
    results, facts = {"passed": 0, "FAILED": 0, "skipped": 0}, set()
    for name, function in chosen:
        bench, began = Bench(weft, arguments.sanitizer), time.monotonic()
        result, text = judge(bench, function)
        if result == "passed":
            facts.update(bench.facts)
        shutil.rmtree(bench.folder, ignore_errors=True)
        results[result] += 1
        print(f"{result} {name} ({time.monotonic() - began:.1f} s){text}", flush=True)
    print(", ".join(f"{count} {result.lower()}" for result, count in results.items()))
    if arguments.facts:
        os.makedirs(os.path.dirname(arguments.facts), exist_ok=True)
        with open(arguments.facts, "w", encoding="utf-8") as file:
            json.dump(sorted(facts), file, indent=1)
    if results["FAILED"]:
        return 1
    return 0 if results["passed"] else 77


def stop():
    """What each file ends in: the exit status tells ctest what its cases came to."""
    sys.exit(judge_all())
