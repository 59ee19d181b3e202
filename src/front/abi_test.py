#!/usr/bin/env python3
"""Compares a built shared library's exported symbols with its linker map.

usage: abi_test.py MAP LIBRARY

The map is the checked-in list. Reported, and a failure: a version node missing, extra, or with
another parent; a symbol missing from its node, extra, or with another default version; an object of
another size; a soname that is not the library's. The maps' first comment explains the two notes
that are read from them.
"""
import os
import re
import subprocess
import sys

NODE = re.compile(r"(\w[\w.]*)\s*\{(.*?)\}\s*([\w.]*)\s*;", re.S)
SYMBOL = re.compile(r"^\s*(\w+);[ \t]*(?:/\*\s*(.*?)\s*\*/)?[ \t]*$", re.M)


def readelf(option, library):
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(["readelf", "-W", option, library], check=True, text=True,
                          stdout=subprocess.PIPE, env=environment).stdout


def expected(map_text):
    """(parents by node, lines of what the library must export)."""
    text = re.sub(r"\A\s*/\*.*?\*/", "", map_text, count=1, flags=re.S)
    parents, entries, last_node, chain = {}, [], {}, set()
    for node, body, parent in NODE.findall(text):
        if node in parents:
            raise SystemExit(f"node {node} appears twice in the map")
        parents[node] = parent
        exported = body.split("local:")[0]
        names = SYMBOL.findall(exported)
        if exported.count(";") != len(names):
            raise SystemExit(f"node {node}: not one symbol per line")
        for name, note in names:
            if (name, node) in chain:
                raise SystemExit(f"{name} appears twice in {node}")
            chain.add((name, node))
            entries.append((name, node, note))
            last_node[name] = node
    lines = set()
    for name, node, note in entries:
        default = last_node[name] == node and note != "hidden"
        size = re.fullmatch(r"data: (\d+)", note)
        if note not in ("", "hidden") and not size:
            raise SystemExit(f"{name}@{node}: unknown note '{note}'")
        kind = f"object of {size[1]}" if size else "function"
        lines.add(f"{name}{'@@' if default else '@'}{node} ({kind})")
    return parents, lines


def built_symbols(library):
    lines = set()
    for line in readelf("--dyn-syms", library).splitlines():
        field = line.split()
        if len(field) < 8 or not re.fullmatch(r"\d+:", field[0]):
            continue
        size, kind, binding, visibility, section, name = field[2:8]
        if section == "UND" or binding == "LOCAL":
            continue
        if section == "ABS" and kind == "OBJECT":  # the linker's mark of a version node
            continue
        kinds = {"FUNC": "function", "OBJECT": f"object of {int(size, 0)}"}
        lines.add(f"{name} ({kinds.get(kind, kind)})" +
                  ("" if visibility == "DEFAULT" else f" {visibility}"))
    return lines


def built_nodes(library):
    """Parent by node, from the version definitions, without the library's own base node."""
    parents, node, inside = {}, None, False
    for line in readelf("--version-info", library).splitlines():
        if line.startswith("Version "):
            inside = line.startswith("Version definition section")
        elif inside:
            definition = re.search(r"Flags: (\S+).*Name: (\S+)", line)
            if definition:
                node = None if "BASE" in definition[1] else definition[2]
                if node:
                    parents[node] = ""
            parent = re.search(r"Parent \d+: (\S+)", line)
            if parent and node:
                parents[node] = parent[1]
    return parents


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    map_path, library = sys.argv[1:]
    with open(map_path, encoding="utf-8") as file:
        want_parents, want = expected(file.read())
    if not want:
        raise SystemExit(f"{map_path} lists no symbol")
    have, have_parents = built_symbols(library), built_nodes(library)

    faults = [f"missing: {line}" for line in sorted(want - have)]
    faults += [f"extra: {line}" for line in sorted(have - want)]
    for node in sorted(want_parents.keys() | have_parents.keys()):
        want_parent, have_parent = want_parents.get(node), have_parents.get(node)
        if want_parent != have_parent:
            faults.append(f"node {node}: parent {have_parent!r}, the map says {want_parent!r}")
    soname = os.path.basename(map_path).removesuffix(".map") + ".so.1"
    if f"[{soname}]" not in readelf("--dynamic", library):
        faults.append(f"soname is not {soname}")

    for fault in faults:
        print(fault)
    print(f"{os.path.basename(library)}: {len(have)} symbols, {len(want)} in the map, "
          f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
