#!/usr/bin/env python3
"""Makes of libibverbs.map what the second verbs library and its test need.

usage: exports.py MAP FOLDER

FOLDER/exports.map  the version script of the second library: the map without what only weft has,
                    each name in its last node (no program is bound to the older ones)
FOLDER/exports.c    every function of it that device.c does not define: records its call
FOLDER/exports.inc  SYMBOL(name, node) for every function, for the test's table

So a symbol that is added to the map is in all three, and the test asks for it.
"""
import os
import re
import sys

NODE = re.compile(r"(\w[\w.]*)\s*\{(.*?)\}\s*([\w.]*)\s*;", re.S)
SYMBOL = re.compile(r"^\s*(\w+);[ \t]*(?:/\*\s*(.*?)\s*\*/)?[ \t]*$", re.M)
BY_HAND = {"__verbs_log", "ibv_free_device_list", "ibv_get_device_list"}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        text = re.sub(r"\A\s*/\*.*?\*/", "", file.read(), count=1, flags=re.S)
    nodes, last, data = [], {}, set()
    for node, body, parent in NODE.findall(text):
        if node.startswith("WEFT_"):
            continue
        nodes.append((node, parent))
        for name, note in SYMBOL.findall(body.split("local:")[0]):
            if note == "hidden":
                continue
            last[name] = node
            if note.startswith("data:"):
                data.add(name)
    functions = {name: node for name, node in last.items() if name not in data}

    lines = []
    for node, parent in nodes:
        lines += [f"{node} {{", "  global:"]
        lines += [f"    {name};" for name in sorted(last) if last[name] == node]
        lines += ["  local: *;"] * (node == nodes[0][0]) + [f"}} {parent};"]
    lines += ["TEST_1 { global: weft_test_record; };"]
    write("exports.map", lines)

    lines = ['#include "front/testing/behind/record.h"']
    lines += [f"RECORDED({name})" for name in sorted(functions) if name not in BY_HAND]
    write("exports.c", lines)

    write("exports.inc", [f'SYMBOL({name}, "{node}")' for name, node in sorted(functions.items())])


def write(name, lines):
    with open(os.path.join(sys.argv[2], name), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


main()
