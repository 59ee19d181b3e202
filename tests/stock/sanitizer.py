"""What stock.py does besides where weft's libraries are built with sanitizers (--sanitizer KIND).

The programs are not instrumented, so `weft run` of such a build puts the sanitizer's runtime in
front of them. What it finds it writes into files, one for each process: neither a program that
ignores the status of its children, nor one that hides what it is told, nor a process that is killed
can lose a report. A case with a report has failed, whatever the programs said.

Two kinds of reports are let pass, if sanitizer.toml names them with a reason: those in which no
function of weft's stands (the runtimes watch a whole process), and leaks of what weft's interface
gave to the program and the program did not give back. The runtimes' own suppressions know neither:
one for a program would hide everything that weft does when the program calls it.
"""
import contextlib
import fnmatch
import os
import re
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
LIST = os.path.join(HERE, "sanitizer.toml")

# The status of a program stays its own: what counts is the report.
COMMON = ["exitcode=0", "stack_trace_format='    #%n %f (%m+%o) %S'"]
FLAGS = {
    "address": {
        # The programs have no frame pointers, and who allocated has to be known.
        "ASAN_OPTIONS": [*COMMON, "fast_unwind_on_malloc=0"],
        "UBSAN_OPTIONS": [*COMMON, "print_stacktrace=1"],
    },
    "thread": {
        # die_after_fork: a program that forks has threads of its own in the child, as it may.
        # report_signal_unsafe: an _exit() in a handler may allocate, if none of our locks is held
        # (docs/SOCKETS.md, Limits), and telling of it crashes in our close().
        "TSAN_OPTIONS": [*COMMON, "die_after_fork=0", "second_deadlock_stack=1",
                         "report_signal_unsafe=0"],
    },
}
# UCX's hooks of memory calls run in a thread that has ended for ThreadSanitizer, and crash there.
# Without them it has no cache of registrations and would take one on-demand region for everything,
# which UCX 1.13 gives back wrongly when it closes the device: it follows a pointer into nowhere.
OTHERS = {"address": {}, "thread": {"UCX_MEM_EVENTS": "n", "UCX_IB_REG_METHODS": "direct"}}
WEFT = ("libibverbs.so.1", "librdmacm.so.1")
NAMELESS = "<null>"
# In which the runtime asks for the place of a new thread's stack, and has not given that back yet
# when the process ends meanwhile.
RUNTIMES_OWN = "__sanitizer::GetThreadStackAndTls("
GONE = "?"
# Whose functions everybody calls: not the ones who did it.
EVERYBODYS = ("lib[atu]*san.so*", "libc.so.6", "libstdc++.so.6*", "ld-linux*")

KINDS = {"leak": re.compile(r"(Direct|Indirect) leak of"),
         "race": re.compile(r"WARNING: ThreadSanitizer: data race")}
LOST = "[failed to restore the stack]"
COUNT = re.compile(r"(ThreadSanitizer: reported \d+ warnings)?")
# What a runtime says elsewhere when it could not write into its file.
NO_FILE = re.compile(r"Can't open file|[a-z]Sanitizer: |: runtime error: ")
FRAME = re.compile(r"^ +#\d+ (.*)$")
PLACE = re.compile(r"^(.*?) \((/[^()]*)\+0x[0-9a-f]+\)")
# Of a child that was forked from among threads: what only their stacks led to counts as leaked.
UNSURE = re.compile(r"^==\d+==Running thread \d+ was not suspended\. False leaks are possible\.\n",
                    re.M)
LEAKS = re.compile(r"^=+\n=+\d+=+ERROR: LeakSanitizer: detected memory leaks\n", re.M)


def fits(module, patterns):
    return any(fnmatch.fnmatchcase(module, pattern) for pattern in patterns)


class Record:
    """One finding of a report: its text, and its stacks of (function, module)."""

    def __init__(self, text):
        self.text, self.stacks, inside = text, [], False
        for line in text.splitlines():
            frame = FRAME.match(line)
            if frame and not inside:
                self.stacks.append([])
            if frame:
                place = PLACE.match(frame[1])
                self.stacks[-1].append(place.groups() if place else (frame[1], GONE))
            inside = bool(frame)
        self.kind = next((kind for kind, start in KINDS.items() if start.match(text)), "error")

    def is_wefts(self, frame):
        """All of ours have names. A leak's frame without one was a plug-in's, where ours was loaded
        since."""
        function, module = frame
        return os.path.basename(module) in WEFT and (function != NAMELESS or self.kind != "leak")

    def weft(self):
        return any(self.is_wefts(frame) for stack in self.stacks for frame in stack)

    def runtimes_own(self):
        return any(function.startswith(RUNTIMES_OWN) for function, _ in self.stacks[0])

    def owner(self):
        """Who did it, (function, module): the first that is not everybody's. Of a plug-in that is
        no longer there nothing is known (ours stay, -z nodelete), or the name of a library that was
        loaded where it had been, without a function: who called it."""
        frames = [frame for frame in (self.stacks[0] if self.stacks else [])
                  if frame[1] != GONE and not fits(os.path.basename(frame[1]), EVERYBODYS)]
        named = [frame for frame in frames if frame[0] != NAMELESS]
        return (named or frames or [(GONE, GONE)])[0]

    def call(self):
        """(the function of weft's that somebody called, the module that called it)."""
        called = None
        for function, module in self.stacks[0]:
            if self.is_wefts((function, module)):
                called = function
            elif called:
                return called, module
        return called, GONE


def records(text):
    """The findings of a file of reports."""
    errors, *leaks = LEAKS.split(UNSURE.sub("", text))
    if UNSURE.search(text):
        leaks = []
    found = [Record(block) for block in re.split(r"^=+\n", errors, flags=re.M)
             if not COUNT.fullmatch(block.strip())]
    # One without the last line was not finished: the case had ended, and the process was killed.
    for text in leaks:
        blocks = re.split(r"\n\n+", text.strip("\n"))
        if blocks[-1].startswith("SUMMARY:"):
            found += [Record(block) for block in blocks[:-1]]
    return found


def is_of(record, entry):
    """Whether the entry lists a record in which nothing of weft's stands. A stack of which the
    runtime had lost the rest may have been weft's, unless the function says whose memory it is."""
    function, module = record.owner()
    return (record.kind == entry["finding"] and fits(module, entry["modules"])
            and function in entry.get("functions", [function])
            and ("functions" in entry or LOST not in record.text))


class Listed:
    """sanitizer.toml."""

    def __init__(self):
        with open(LIST, "rb") as file:
            entries = tomllib.load(file)
        self.foreign = entries["foreign"]
        self.not_given_back = entries["not_given_back"]

    def has(self, record):
        if record.kind == "leak" and record.runtimes_own():
            return True
        if not record.weft():
            return any(is_of(record, entry) for entry in self.foreign)
        if record.kind != "leak":
            return False
        function, module = record.call()
        return any(function in entry["functions"] and fits(module, entry["programs"])
                   for entry in self.not_given_back)


class Sanitizer:
    """The reports of one case, in `folder`."""

    def __init__(self, kind, folder):
        self.kind, self.listed, self.folder = kind, Listed(), os.path.join(folder, "reports")
        os.mkdir(self.folder)
        self.variables = OTHERS[kind] | {
            name: ":".join([*flags, f"log_path={self.folder}/{name[:4].lower()}"])
            for name, flags in FLAGS[kind].items()}

    def processes(self):
        """Who still may write a report: what the programs left behind too."""
        found, mark = [], f"log_path={self.folder}/".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as environment:
                if mark in environment.read():
                    found.append(int(pid))
        return found

    def reports(self, programs):
        """The texts of those that are not listed; call it when no process is left."""
        texts = [f"{program.path}: {line}" for program in programs
                 for line in program.errors().splitlines() if NO_FILE.search(line)]
        for name in sorted(os.listdir(self.folder)):
            with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
                found = records(file.read())
            texts += [f"{name}: {record.text}" for record in found if not self.listed.has(record)]
        return texts
