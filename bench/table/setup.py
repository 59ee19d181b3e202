"""What a number means nothing without: machine, kernel, compiler, commit, congestion control."""
import datetime
import os
import platform
import re
import subprocess
from pathlib import Path

import shared  # finds networks
from networks import system_congestion


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return "unknown"


def compiler(build):
    """What CMake found when the build was configured."""
    for file in Path(build).glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        said = dict(re.findall(r'set\(CMAKE_CXX_COMPILER_(ID|VERSION) "([^"]+)"\)',
                               file.read_text(encoding="utf-8")))
        name = {"GNU": "g++", "Clang": "clang"}.get(said.get("ID"), said.get("ID", "unknown"))
        return f"{name} {said.get('VERSION', '')}".strip()
    return "unknown"


def commit():
    """Of the working tree that this file is in."""
    done = subprocess.run(["git", "-C", str(Path(__file__).parent), "describe", "--always",
                           "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def describe(build, plan, congestion):
    cores = len(os.sched_getaffinity(0))
    system = system_congestion()
    return {"processor": processor(), "cores": cores, "pinned": cores > 1,
            "kernel": platform.release(), "compiler": compiler(build), "commit": commit(),
            "congestion_control": system if congestion == "system" else congestion,
            "system_congestion_control": system, "rounds": plan.rounds, "seconds": plan.seconds,
            "date": str(datetime.date.today())}
