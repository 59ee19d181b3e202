#!/usr/bin/env python3
"""A moment of bench/run: every row is there with a finite, positive figure. No figure is judged.

usage: smoke_test.py --build FOLDER       status 77: this user may not make network namespaces
"""
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import rows
import shared  # finds networks
from networks import Impossible, Network

RUN = Path(__file__).resolve().parent.parent / "run"


def main():
    try:
        Network().close()
    except Impossible as reason:
        print(f"skipped: {reason}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        file, page = os.path.join(folder, "table.json"), os.path.join(folder, "table.html")
        words = [str(RUN), *sys.argv[1:], "--moment", "--congestion", "reno",
                 "--only", "loopback,one-core,default,veth", "--json", file, "--html", page]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        table = json.loads(Path(file).read_text(encoding="utf-8"))
        chart = Path(page).read_text(encoding="utf-8")
        words = [str(RUN), *sys.argv[1:], "--moment", "--points", "write-lat:8", "--compare", file]
        beside = subprocess.run(words, check=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, text=True).stdout
    found = {row["name"]: row for row in table["rows"]}
    wrong = []
    for row in rows.ROWS:
        made = found.get(row.name, {})
        value = made.get("value")
        if value is None:
            wrong.append(f"{row.name}: {made.get('missing', 'not in the table')}")
        elif not math.isfinite(value) or value <= 0:
            wrong.append(f"{row.name}: {value}")
        elif row.title.split(",")[0] not in chart.replace("&#x27;", "'"):
            wrong.append(f"{row.name}: not in the chart")
    if "beside the run of" not in beside or beside.count("on/write-lat:8") != 2:
        wrong.append(f"a point beside the earlier run:\n{beside}")
    print("\n".join(wrong) or f"{len(found)} rows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
