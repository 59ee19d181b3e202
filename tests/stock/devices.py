#!/usr/bin/env python3
"""ibv_devices and ibv_devinfo see weft's devices; every stock program's symbols are found."""
import os
import re
import shutil

from stock import Skip, case, command, expect, stop, variants

PROGRAMS = """
ibv_devices ibv_devinfo rping ucmatose udaddy mckey cmtime rdma_client rdma_server rdma_xclient
rdma_xserver rcopy riostream rstream ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_send_bw
ib_send_lat ib_atomic_bw ib_atomic_lat ibv_rc_pingpong ibv_srq_pingpong ibv_xsrq_pingpong
""".split()

ENGINES = {"thread": "thread", "inline": "inline"}


@variants(**ENGINES)
def devices(bench, engine):
    """One device per network interface, the loopback first among them."""
    out = bench.run("ibv_devices", options=("--engine", engine)).succeed().output()
    found = re.findall(r"^\s+(\S+)\s+([0-9a-f]{16})$", out, re.M)
    expect(any(name == "weft_lo" for name, _ in found), "ibv_devices does not list weft_lo")
    guids = [guid for _, guid in found]
    expect(len(set(guids)) == len(guids), "two devices have one GUID")
    expect("0" * 16 not in guids, "a device has the GUID 0")


@variants(**ENGINES)
def devinfo(bench, engine):
    out = bench.run("ibv_devinfo", "-d", "weft_lo", options=("--engine", engine)).succeed().output()
    for line in (r"hca_id:\s+weft_lo", r"transport:\s+iWARP \(1\)", r"state:\s+PORT_ACTIVE \(4\)",
                 r"link_layer:\s+Ethernet", r"phys_port_cnt:\s+1"):
        expect(re.search(line, out), f"ibv_devinfo does not say '{line}'")


@variants(**ENGINES)
def devinfo_verbose(bench, engine):
    """-v asks everything there is to ask, of every device."""
    out = bench.run("ibv_devinfo", "-v", options=("--engine", engine)).succeed().output()
    blocks = out.split("hca_id:")[1:]
    expect(blocks, "ibv_devinfo -v shows no device")
    for block in blocks:
        for name in ("max_qp", "max_cqe", "max_mr", "max_qp_rd_atom", "max_sge", "max_srq"):
            number = re.search(rf"^\s+{name}:\s+(\d+)$", block, re.M)
            expect(number and int(number[1]) > 0, f"{name} is missing or 0 in:\n{block}")
    loopback = next((b for b in blocks if b.split()[0] == "weft_lo"), "")
    expect(re.search(r"GID\[\s*\d+\]:\s+(0000:){5}ffff:7f00:0001", loopback),
           "weft_lo has no GID ::ffff:127.0.0.1")


@case
def wrong_device_is_refused(bench):
    program = bench.run("ibv_devinfo", "-d", "no_such_device")
    expect(program.wait() != 0, "ibv_devinfo -d no_such_device succeeded")


@case
def symbols(bench):
    """ldd -r: no stock program needs a symbol or a version that the drop-in libraries lack."""
    libraries = os.path.join(os.path.dirname(os.path.dirname(bench.weft)), "lib")
    there = [path for path in map(shutil.which, PROGRAMS) if path]
    if not there:
        raise Skip("none of the programs is on this machine")
    for path in there:
        out = command("env", f"LD_LIBRARY_PATH={libraries}", "ldd", "-r", path)
        for name in ("libibverbs.so.1", "librdmacm.so.1"):
            used = re.search(rf"{re.escape(name)} => (\S+)", out)
            expect(not used or os.path.samefile(used[1], os.path.join(libraries, name)),
                   f"{path} takes {used and used[1]} for {name}")
        faults = [line for line in out.splitlines()
                  if re.search(r"undefined symbol|not found|not defined", line)]
        expect(not faults, f"{path}:\n" + "\n".join(faults))


stop()
