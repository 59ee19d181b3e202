#!/usr/bin/env python3
"""Errors made on purpose (planted.c), each of which has to fail its case: that reports are seen.

The program says that all is well. ctest wants each case to fail, and by the report that it names.
"""
import os

from stock import stop, variants


@variants(**{name: name for name in ("short", "unaligned", "leak", "race", "fault")})
def planted(bench, error):
    bench.run(os.path.join(os.path.dirname(bench.weft), "stock_planted"), error).succeed()


stop()
