#!/usr/bin/env python3
"""By hand, because it takes long: two hundred connections in each direction, a gibibyte each way.

usage: like the other files of cases; about ten minutes on two cores
"""
import time

from interop import both_ways, stop
from measure import measure

CONNECTIONS = 200
GIBIBYTE = "-s 1048576 -n 1024"


@both_ways()
def two_hundred_connections(rig, initiator):
    words = "-p {port} -a {address} -C 3 -v -V"
    began = time.monotonic()
    for _ in range(CONNECTIONS):
        rig.meet(initiator, f"rping -s {words}", f"rping -c {words}", capture=False)
    print(f"  {CONNECTIONS} connections in {time.monotonic() - began:.0f} s")


@both_ways(write="ib_write_bw", read="ib_read_bw")
def gibibyte(rig, initiator, program):
    began = time.monotonic()
    measure(rig, initiator, f"{program} {GIBIBYTE}", capture=False, seconds=900)
    print(f"  1 GiB by {program} in {time.monotonic() - began:.0f} s")


stop()
