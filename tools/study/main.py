#!/usr/bin/env python3
"""weft study: the papers' measurements made again on this machine, and a page that shows them."""
import os
import signal

if __name__ == "__main__":
    # While the rest is read in there is nothing yet to say or to keep. weft held it back until now.
    signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])

import argparse
import datetime
import difflib
import errno
import fcntl
import json
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

import export
import guide
import journal
import medium as media
import page
import plan
from networks import Impossible, system_congestion
from sets import BY_NAME

PAGE, DATA, TABLE, JOURNAL = "study.html", "study.json", "study.csv", "journal.jsonl"
# A server or a network that does not work at all shows in the first few measurements.
FAILURES_MAX = 12
LOOKS_SECONDS = 60
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Interrupted(Exception):
    """By SIGINT or SIGTERM."""


class NotWritten(Exception):
    """Standard output takes nothing; the text says what was to stand there, and why."""


def fill_standard_descriptors():
    """/dev/null where 0, 1 or 2 is closed, the wrong way round: no file or pipe of the study gets
    these numbers, and writing to them fails as before."""
    for fd in range(3):
        try:
            fcntl.fcntl(fd, fcntl.F_GETFD)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if fd else os.O_WRONLY)


def put(stream, text):
    """At once. stream: standard output or error, None if it was closed."""
    if stream is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    try:
        stream.write(text)
        stream.flush()
    except OSError:
        # What was not written stays with the stream, and would fail once more as Python ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        raise


def output(what, text):
    try:
        put(sys.stdout, text)
    except OSError as error:
        raise NotWritten(f"cannot write {what}: {error.strerror}") from None


def to_user(text):
    """On standard error. Where that takes nothing the study goes on: its results are in files."""
    try:
        put(sys.stderr, text)
    except OSError:
        pass


def say(text):
    to_user(f"weft: {text}\n")


class Parser(argparse.ArgumentParser):
    """Errors and help as weft's other commands say them."""

    def error(self, message):
        say(f"{message}\nTry: weft study --help")
        sys.exit(2)

    def print_help(self, file=None):
        output("the help", self.format_help())


def listed(known, what):
    def parse(text):
        names = [name for name in text.split(",") if name]
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise argparse.ArgumentTypeError(f"{name} is no {what}{hint} (weft study --list)")
        return names
    return parse


def arguments():
    parser = Parser(
        prog="weft study", description=__doc__.split(": ", 1)[1], allow_abbrev=False,
        epilog="What is measured, and what each figure means: docs/PING-AND-BLAST.md. "
               f"DIR gets {PAGE} (the page), {DATA}, {TABLE} and {JOURNAL} (all that was "
               "measured, a line as soon as it is). Status 0: all was measured; 1: something "
               "failed, and what was measured is kept; 2: the command line was wrong; 130: "
               "interrupted, and --resume goes on.")
    parser.add_argument("--quick", action="store_true",
                        help="fewer sizes and rounds: under ten minutes")
    parser.add_argument("--out", metavar="DIR", default="weft-study",
                        help="where the results go (weft-study)")
    parser.add_argument("--resume", action="store_true",
                        help="go on with what was interrupted in DIR")
    parser.add_argument("--only", metavar="SET,...", default=[], type=listed(BY_NAME, "set"),
                        help="these sets alone")
    parser.add_argument("--over", metavar="MEDIUM,...", default=[],
                        type=listed(media.names(), "medium"),
                        help=f"over these alone: {', '.join(media.names())}")
    parser.add_argument("--list", action="store_true", help="the sets, and how long they take")
    parser.add_argument("--congestion", metavar="NAME", default="cubic",
                        help="congestion control in the study's own networks (cubic)")
    parser.add_argument("--page", action="store_true",
                        help="measure nothing: write DIR's page and tables again")
    parser.add_argument("--guide", metavar="FILE",
                        help="write the advice that follows from DIR as Markdown as well")
    parser.add_argument("--weft", help=argparse.SUPPRESS)
    parser.add_argument("--moment", action="store_true", help=argparse.SUPPRESS)
    chosen, unknown = parser.parse_known_args()
    if unknown:
        parser.error(unknown_word(parser, unknown[0]))
    if chosen.weft is None:
        parser.error("start it as weft study")
    if chosen.page and (chosen.resume or chosen.quick):
        parser.error("--page measures nothing: it goes without --quick and --resume")
    return chosen


def unknown_word(parser, word):
    if not word.startswith("-"):
        return f"study takes no argument {word}"
    known = [option for action in parser._actions for option in action.option_strings
             if action.help != argparse.SUPPRESS]
    near = difflib.get_close_matches(word.partition("=")[0], known, 1)
    return f"unknown option {word}" + (f"; did you mean {near[0]}?" if near else "")


def head_of(chosen, kind):
    """What has to be the same for figures to stand side by side."""
    cpus = sorted(os.sched_getaffinity(0))
    return {"kind": kind.name, "rounds": kind.rounds, "seconds": kind.seconds,
            "host": platform.node(), "machine": platform.machine(), "cpu": cpu_name(),
            "cpus": os.cpu_count(), "may_use_cpus": cpus, "kernel": f"Linux {platform.release()}",
            "congestion": chosen.congestion, "weft": version(chosen.weft)}


def cpu_name():
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or "unknown"


def version(weft):
    """Its version, and the commit that was built, which the build notes beside us."""
    done = subprocess.run([weft, "--version"], capture_output=True, text=True, check=False)
    try:
        commit = Path(__file__).with_name("commit").read_text(encoding="utf-8").strip()
    except OSError:
        commit = "unknown"
    return f"{done.stdout.strip() or 'unknown'}, commit {commit}"


class Progress:
    """One line on a terminal; elsewhere a line each minute."""

    def __init__(self, total):
        self.total, self.done, self.began = total, 0, time.monotonic()
        self.expected = self.passed = 0.0
        self.shown, self.told = os.isatty(2), self.began

    def tell(self, step, left):
        share = self.expected and self.passed / self.expected
        rest = plan.time_text(left * (share or 1.0))
        percent = 100 * self.done // max(self.total, 1)
        text = (f"{percent:3d} %  {self.done} of {self.total}, about {rest} left; round "
                f"{step.round}: {step.medium}, {step.work.name()}")
        now = time.monotonic()
        if self.shown:
            width = os.get_terminal_size(2).columns or 80
            to_user(f"\r\033[K{text[:width - 1]}")
        elif now - self.told >= 60:
            self.told = now
            say(text)

    def count(self, expected, took):
        self.done += 1
        self.expected += expected
        self.passed += took

    def clear(self):
        if self.shown:
            to_user("\r\033[K")


class Study:
    """Measures what is not in the journal yet."""

    def __init__(self, chosen, kind, book):
        self.weft, self.congestion = chosen.weft, chosen.congestion
        self.kind, self.book = kind, book
        self.mediums, self.impossible = {}, {}
        self.cpus = media.cpus_for_sides()
        self.failed_in_a_row = 0

    def medium(self, name):
        """None: it cannot be made here, which the journal then says."""
        if name not in self.mediums and name not in self.impossible:
            try:
                self.mediums[name] = media.make(name, self.congestion)
                self.book.append({"network": name, "is": self.mediums[name].network})
            except Impossible as reason:
                self.impossible[name] = str(reason)
                self.book.append({"network": name, "impossible": str(reason)})
        return self.mediums.get(name)

    def run(self, steps):
        done = journal.done(self.book.entries)
        left = [step for step in steps if step.key() not in done]
        expected = plan.duration(left, self.kind)
        progress = Progress(len(steps))
        progress.done = len(steps) - len(left)
        say(f"{len(left)} measurements of {len(steps)} to make, about {plan.time_text(expected)}")
        try:
            for step in left:
                progress.tell(step, expected - progress.expected)
                began = time.monotonic()
                self.measure(step)
                progress.count(self.kind.expected(step.work), time.monotonic() - began)
        finally:
            progress.clear()

    def measure(self, step):
        place = self.medium(step.medium)
        if place is None:
            return
        entry = {"medium": step.medium, "work": step.work.name(), "round": step.round}
        try:
            row, sides = place.measure(self.weft, step.work, self.kind.seconds, self.cpus)
        except media.Failed as reason:
            self.failed_in_a_row += 1
            self.book.append({**entry, "failed": str(reason)})
            if self.failed_in_a_row >= FAILURES_MAX:
                raise media.Failed(f"{FAILURES_MAX} measurements one after the other failed, the "
                                   f"last ({step.medium}, {entry['work']}): {reason}") from None
            return
        self.failed_in_a_row = 0
        at = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        self.book.append({**entry, "at": at, "row": row, "device": sides["client"].get("device")})

    def close(self):
        for one in self.mediums.values():
            one.close()


def stop(*_):
    raise Interrupted


def main():
    chosen = arguments()
    if chosen.list:
        output("the list", "\n".join(plan.listing()) + "\n")
        return 0
    out = Path(chosen.out)
    if chosen.page:
        try:
            head, entries, _ = journal.read(out / JOURNAL)
        except OSError as error:
            say(f"cannot read {out / JOURNAL}: {error.strerror}")
            return 1
        except journal.Unusable as reason:
            say(reason)
            return 1
        return write_all(chosen, out, head, entries)
    return measure(chosen, out)


def measure(chosen, out):
    path = out / JOURNAL
    try:
        kind = plan.KINDS[kind_of(chosen, path)]
        if not chosen.resume:
            out.mkdir(parents=True, exist_ok=True)
        head = head_of(chosen, kind)
        book = journal.Journal.resume(path, head) if chosen.resume else journal.Journal(path, head)
    except OSError as error:
        say(f"cannot make {out}: {error.strerror}")
        return 1
    except (journal.Unusable, journal.Full) as reason:
        say(reason)
        return 1
    sets = plan.chosen(chosen.only, parts(chosen.weft))
    steps = plan.steps(sets, plan.mediums_of(chosen.over), kind)
    study, status = Study(chosen, kind, book), 0
    again = f"go on with: weft study --resume --out {out}"
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        study.run(steps)
    except Interrupted:
        status = 130
        say(f"interrupted; what was measured until then is in {out}; {again}")
    except journal.Full as reason:
        status = 1
        say(f"{reason}; what was measured until then is kept; make room and {again}")
    except media.Failed as reason:
        status = 1
        say(f"{reason}; what was measured until then is in {out}; {again}")
    finally:
        # From here on nothing is measured: a second Ctrl-C must not leave half a page.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        study.close()
        book.close()
    for name, reason in study.impossible.items():
        say(f"{name} was not measured: {reason}")
    failed = journal.failures(book.entries)
    if failed:
        say(f"{len(failed)} points could not be measured; the page says which and why")
    return write_all(chosen, out, book.head, book.entries) or status


def kind_of(chosen, path):
    """What is resumed is of the kind that it was."""
    asked = "moment" if chosen.moment else "quick" if chosen.quick else None
    if chosen.resume and asked is None and path.exists():
        return journal.read(path)[0].get("kind")
    return asked or "thorough"


def parts(weft):
    """What of weft is built beside it. A library that an earlier build left may not load, or lack
    calls: a program that runs with it looks them up."""
    library = Path(weft).resolve().parent.parent / "lib" / "libweft-sockets.so"
    if not library.exists():
        return set()
    looks = "import ctypes, os; os._exit(not hasattr(ctypes.CDLL(None), 'iwarp_post_write'))"
    try:
        ran = subprocess.run([weft, "run", "--sockets", "--", sys.executable, "-c", looks],
                             stdin=subprocess.DEVNULL, capture_output=True, check=False,
                             env=media.clean_environment(), timeout=LOOKS_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return set()
    return {"sockets"} if ran.returncode == 0 else set()


def write_all(chosen, out, head, entries):
    """The page and the tables; each is whole or is not there."""
    result = export.Result(head, entries)
    texts = {DATA: lambda: json.dumps(export.as_json(result), indent=1) + "\n",
             TABLE: lambda: export.as_csv(result),
             PAGE: lambda: page.make(result, parts(chosen.weft))}
    files = {out / name: text for name, text in texts.items()}
    if chosen.guide:
        files[Path(chosen.guide)] = lambda: guide.make(result)
    status = 0
    for path, text in files.items():
        try:
            write_file(path, text())
        except OSError as error:
            status = 1
            room = "with room for it" if error.errno in NO_ROOM else "when that is mended"
            say(f"cannot write {path}: {error.strerror}; {room}: {page_command(chosen)}")
    if status == 0:
        output("to standard output", f"weft: {len(journal.done(entries))} measurements; the page "
                                     f"is {out / PAGE}\n")
    return status


def page_command(chosen):
    words = ["weft", "study", "--page", "--out", chosen.out]
    return shlex.join(words + (["--guide", chosen.guide] if chosen.guide else []))


def write_file(path, text):
    beside = path.with_name(path.name + ".new")
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:  # be it an interruption
        beside.unlink(missing_ok=True)
        raise


def interrupt_once(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending
    raise KeyboardInterrupt


def program():
    """main, and what may end it anywhere."""
    fill_standard_descriptors()
    try:
        try:
            signal.signal(signal.SIGINT, interrupt_once)
            return main()
        except NotWritten as reason:
            say(reason)
            return 1
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        say("interrupted")
        return 130


if __name__ == "__main__":
    sys.exit(program())
