#!/usr/bin/env python3
"""Tests of the weft program from outside: usage errors, environment, exit status."""
import os
import subprocess
import sys
import tempfile

WEFT = sys.argv[1]
failures = []


def case(arguments, status, says="", environment=None):
    """Runs weft with `arguments`; its status and a part of its output have to be as given."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    clean.update(environment or {})
    ran = subprocess.run([WEFT, *arguments], env=clean, capture_output=True, text=True, timeout=30)
    output = ran.stdout + ran.stderr
    if ran.returncode != status or says not in output:
        failures.append(f"weft {' '.join(arguments)}: wanted status {status} and '{says}', "
                        f"got {ran.returncode} and:\n{output}")


case([], 2, "Examples")
case(["--help"], 0, "weft run -- rping")
case(["--version"], 0, "weft 0.")
case(["run", "--help"], 0, "WEFT_STRICT_RECEIVE")
case(["rnu"], 2, "did you mean run?")
case(["--versoin"], 2, "did you mean --version?")
case(["devices", "--jsno"], 2, "did you mean --json?")
case(["devices", "extra"], 2, "takes no argument extra")
case(["run"], 2, "A program is missing")
case(["run", "--"], 2, "A program is missing")
case(["run", "--enigne", "inline", "--", "true"], 2, "did you mean --engine?")
case(["run", "--engine", "fast", "--", "true"], 2, "thread|inline")
case(["run", "--startup-timeout-ms", "0", "--", "true"], 2, "1..600000")
case(["run", "--", "no-such-program-anywhere"], 127, "there is no such program")
case(["run", "--", "/"], 126, "cannot run")
# `env` with LD_LIBRARY_PATH unset would show less; sh and printf need none of our libraries.
SHOW = "printf '%s %s %s' \"$WEFT_CRC\" \"$WEFT_MARKERS\" \"$1\"; exit 7"
case(["run", "--crc", "off", "--markers", "sh", "-c", SHOW, "sh", "--crc"], 7, "off on --crc")
case(["run", "--markers=off", "--", "sh", "-c", SHOW], 7, " off ", {"WEFT_MARKERS": "on"})
case(["run", "--", "sh", "-c", "printf %s $LD_LIBRARY_PATH"], 0, "/lib:/before",
     {"LD_LIBRARY_PATH": "/before"})
case(["run", "--", "true"], 2, "did you mean WEFT_CRC?", {"WEFT_CRCC": "off"})
case(["run", "--", "true"], 2, "it takes on|off", {"WEFT_CRC": "no"})
case(["devices"], 2, "did you mean WEFT_CRC?", {"WEFT_CRCC": "off"})
case(["devices", "--json"], 2, "WEFT_ENGINE=fast in the environment: it takes thread|inline",
     {"WEFT_ENGINE": "fast"})

case(["run", ""], 2, "A program is missing")
case(["run", "--crc", "maybe", "--", "true"], 127, "no such program; --crc: it takes on|off")
case(["run", "--crc", "--", "maybe"], 127, "there is no such program\n")
case(["run", "--help"], 0, "may stand without: on")
with tempfile.TemporaryDirectory() as folder:
    for line, says in (("#!/no/such/interpreter -x", "its interpreter /no/such/interpreter is not"),
                       ("#!/bin/sh\r", "its interpreter /bin/sh\\r is not")):
        script = os.path.join(folder, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(line + "\n")
        os.chmod(script, 0o755)
        case(["run", "--", script], 126, says)
        case(["run", "--", "script"], 126, says, {"PATH": f"/nowhere:{folder}"})


def lost(descriptor, arguments, status, says):
    """Runs weft with standard output (1) or error (2) full, closed, or a pipe without a reader."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
    reader, unread = os.pipe()
    os.close(reader)
    with open("/dev/full", "wb") as full, open(unread, "wb") as unread:
        for name, where, close in (("full", full, None), ("unread", unread, None),
                                   ("closed", None, lambda: os.close(descriptor))):
            streams = {1: {"stdout": where, "stderr": subprocess.PIPE},
                       2: {"stdout": subprocess.PIPE, "stderr": where}}[descriptor]
            # Python lets it ignore SIGPIPE, which else ends a program without a word.
            ran = subprocess.run([WEFT, *arguments], env=clean, text=True, timeout=30, **streams,
                                 preexec_fn=close, restore_signals=False)
            output = (ran.stdout or "") + (ran.stderr or "")
            if ran.returncode != status or says not in output:
                failures.append(f"weft {' '.join(arguments)}, {descriptor} {name}: wanted status "
                                f"{status} and '{says}', got {ran.returncode} and:\n{output}")


for words in (["--help"], ["--version"], ["run", "--help"], ["ping", "--help"]):
    lost(1, words, 1, "weft: cannot write to standard output: ")
for words in (["devices"], ["devices", "--json"]):
    lost(1, words, 1, "weft: cannot write the list of devices: ")
    lost(2, words, 0, "weft_lo")
lost(2, [], 2, "")
lost(2, ["rnu"], 2, "")
# What it becomes finds closed what was closed, and not /dev/null.
# Where the descriptors do not suffice there are devices to list, and none that can be opened.
case(["run", "--", "sh", "-c", "ulimit -n 6; exec \"$0\" devices", WEFT], 1,
     "weft: none of these devices can be opened")
INNER = "test -e /proc/self/fd/0 || test -e /proc/self/fd/1 || exit 7"
case(["run", "--", "sh", "-c", f"exec 0<&- 1>&-; exec \"$0\" run -- sh -c '{INNER}'", WEFT], 7)

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
