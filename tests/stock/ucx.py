#!/usr/bin/env python3
"""UCX 1.13 over its transport rc_verbs, persona ib (UCX leaves iWARP devices out).

UCX looks for /dev/infiniband/DEVICE before it takes a device, so it runs in a sandbox. How far it
goes: the transport itself (UCT) works, active messages, puts and gets of all its kinds. Its upper
half (UCP), to which programs are written, does not: it makes each connection of rc_verbs with the
help of datagrams (ud_verbs), which iWARP does not have.
"""
import re

from stock import SANDBOX_ADDRESS, SANDBOX_DEVICE, case, expect, free_port, sandbox, stop, variants

IB = ("--persona", "ib")
LABEL = "ucx_perftest, rc_verbs (UCT)"
# -D: how the data is handed over, in the call (short), copied, or in place.
TESTS = {
    "am_lat_short": ("am_lat", 8, "short"), "am_lat_bcopy": ("am_lat", 4000, "bcopy"),
    "am_bw_zcopy": ("am_bw", 4096, "zcopy"), "put_lat_short": ("put_lat", 8, "short"),
    "put_bw_bcopy": ("put_bw", 4096, "bcopy"), "put_bw_zcopy": ("put_bw", 65536, "zcopy"),
    "get_bcopy": ("get", 4096, "bcopy"), "get_zcopy": ("get", 65536, "zcopy"),
    "add": ("add_mr", 8, "short"), "fetch_add": ("fadd", 8, "short"),
    "compare_swap": ("cswap", 8, "short"),
}


def pair(bench, enter, words, label, **settings):
    port = free_port()
    words = ["ucx_perftest", "-p", port, "-n", 500, "-w", 50, *words]
    keywords = {"options": IB, "namespace": enter, "label": label, **settings}
    server = bench.run(*words, **keywords).listens(port)
    return bench.run(*words, SANDBOX_ADDRESS, **keywords), server


@variants(**TESTS)
def transport(bench, test):
    name, size, data = test
    words = ["-t", name, "-s", size, "-D", data, "-x", "rc_verbs", "-d", f"{SANDBOX_DEVICE}:1"]
    client, server = pair(bench, sandbox(bench), words, LABEL)
    client.succeed()
    server.succeed()
    expect(re.search(r"^Final: +500 ", client.output(), re.M), "no line of the result")


@case
def info(bench):
    found = bench.run("ucx_info", "-d", options=IB, namespace=sandbox(bench)).succeed().output()
    expect(re.search(rf"Transport: rc_verbs\n# +Device: {SANDBOX_DEVICE}:1", found),
           "no transport rc_verbs")


@case
def no_iwarp(bench):
    found = bench.run("ucx_info", "-d", namespace=sandbox(bench),
                      UCX_LOG_LEVEL="debug").succeed().output()
    expect(f"iWarp device {SANDBOX_DEVICE} is not supported" in found, "no word of why")
    bench.facts.clear()
    for label in (LABEL, "ucx_info"):
        bench.limit(label, "iwarp", "UCX leaves iWARP devices out")


@case
def upper_half(bench):
    """UCP: refused with a sentence, not a crash."""
    label = "ucx_perftest, rc_verbs (UCP)"
    client, server = pair(bench, sandbox(bench), ["-t", "tag_lat"], label,
                          UCX_TLS="rc_verbs", UCX_NET_DEVICES=f"{SANDBOX_DEVICE}:1")
    for end in (client, server):
        expect(end.wait() != 0, "UCP works over rc_verbs")
        expect("Destination is unreachable" in end.text(), "no word of why")
    bench.facts.clear()
    for persona in ("iwarp", "ib"):
        bench.limit(label, persona, "connects by datagrams (ud_verbs), which iWARP does not have")


stop()
