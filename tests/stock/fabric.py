#!/usr/bin/env python3
"""libfabric 1.17: fi_info, and fi_pingpong over its provider verbs, alone and under ofi_rxm.

In a sandbox, since that provider leaves loopback interfaces out.
"""
import re

from stock import SANDBOX_ADDRESS, expect, free_port, sandbox, stop, variants

PERSONAS = {"iwarp": "iwarp", "ib": "ib"}
PROVIDERS = {"verbs": "msg", "verbs;ofi_rxm": "rdm"}
SIZES = ["64", "256", "1k", "4k", "64k", "1m"]
ROUNDS = 20


def pingpong(bench, persona, provider):
    port, enter = free_port(), sandbox(bench)
    words = ["fi_pingpong", "-p", provider, "-e", PROVIDERS[provider], "-c", "-I", ROUNDS]
    keywords = {"options": ("--persona", persona), "namespace": enter,
                "label": f"fi_pingpong -p {provider}"}
    server = bench.run(*words, "-B", port, **keywords).listens(port)
    client = bench.run(*words, "-P", port, SANDBOX_ADDRESS, **keywords)
    for end in (client, server):
        end.succeed()
        rows = re.findall(r"^(\d+[km]?) +(\d+) +=(\d+) ", end.output(), re.M)
        expect(rows == [(size, str(ROUNDS), str(ROUNDS)) for size in SIZES],
               f"sizes and counts {rows}")


@variants(**PERSONAS)
def verbs(bench, persona):
    """-c: the data is compared."""
    pingpong(bench, persona, "verbs")


@variants(**PERSONAS)
def rxm(bench, persona):
    """Reliable datagrams and tagged messages, made by libfabric of connections."""
    pingpong(bench, persona, "verbs;ofi_rxm")


@variants(**PERSONAS)
def info(bench, persona):
    """fi_info without an address, which is also how an MPI asks."""
    found = bench.run("fi_info", "-p", "verbs", options=("--persona", persona),
                      namespace=sandbox(bench)).succeed().output()
    protocol = {"iwarp": "FI_PROTO_IWARP", "ib": "FI_PROTO_RDMA_CM_IB_RC"}[persona]
    for wanted in ("provider: verbs\n", "provider: verbs;ofi_rxm\n", "domain: weft_veth0\n",
                   f"protocol: {protocol}\n"):
        expect(wanted in found, f"no '{wanted.strip()}'")


stop()
