#!/usr/bin/env python3
"""Tests of the weft program from outside: usage errors, environment, exit status."""
import os
import subprocess
import sys

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

print("\n".join(failures) or "all as expected")
sys.exit(1 if failures else 0)
