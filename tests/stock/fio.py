#!/usr/bin/env python3
"""fio's engine rdma: the server reads, the client writes, by RDMA Write, RDMA Read or Send.

The engine looks at no octet of what it moves; rping.py does.
"""
import json
import re

from stock import expect, free_port, stop, variants

MODES = {f"{verb}_{persona}": (verb, persona)
         for verb in ("write", "read", "send") for persona in ("iwarp", "ib")}
OCTETS = 32 << 20


@variants(**MODES)
def rdma(bench, mode):
    verb, persona = mode
    port = free_port()
    # Threads, so that no worker is left behind when a case fails.
    words = ["fio", "--name=t", "--thread", "--ioengine=rdma", f"--port={port}", "--bs=64k",
             f"--size={OCTETS}", "--iodepth=16", "--output-format=json"]
    keywords = {"options": ("--persona", persona), "label": "fio ioengine=rdma"}
    server = bench.run(*words, "--rw=read", **keywords).listens(port)
    client = bench.run(*words, "--rw=write", f"--verb={verb}", "--hostname=127.0.0.1", **keywords)
    for end in (client, server):
        end.succeed()
        text = end.output()
        job = json.loads(text[re.search(r"^\{", text, re.M).start():])["jobs"][0]
        expect(job["error"] == 0, f"fio's error {job['error']}")
    moved = json.loads(client.output()[client.output().index("{"):])["jobs"][0]["write"]["io_bytes"]
    expect(moved == OCTETS, f"{moved} octets written, wanted {OCTETS}")


stop()
