#!/usr/bin/env python3
"""Open MPI 4.1 over libfabric's verbs;ofi_rxm: programs of our own on 2 and 4 ranks.

Debian's MPICH 4.0 has libucx for its network and no libfabric (ldd libmpich.so.12), and UCX needs
datagrams (ucx.py), so it is Open MPI. Nothing else may carry a message: pml cm and mtl ofi with
that one provider, and of the byte transfer layers only the one to oneself; so the one-sided
operations are made of messages (osc pt2pt).
"""
import os
import re

from stock import PATIENCE, SANDBOX_DEVICE, Skip, command, expect, sandbox, stop, variants

RANKS = {f"{persona}_{ranks}": (persona, ranks) for persona in ("iwarp", "ib") for ranks in (2, 4)}


def mpirun(bench, persona, ranks, name, *more):
    if "mca:mtl:ofi" not in command("ompi_info", "--parsable"):
        raise Skip("this Open MPI has no libfabric")
    program = os.path.join(os.path.dirname(bench.weft), f"stock_mpi_{name}")
    if not os.path.exists(program):
        raise Skip("Open MPI's compiler was not there when weft was built")
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", ranks,
             "--mca", "plm", "isolated", "--mca", "pml", "cm", "--mca", "mtl", "ofi",
             "--mca", "mtl_ofi_provider_include", "verbs;ofi_rxm", "--mca", "btl", "self",
             "--mca", "osc", "pt2pt", "--mca", "mtl_base_verbose", "50"]
    if bench.sanitizer and bench.sanitizer.kind == "address":
        kept = os.path.join(os.path.dirname(program), "stock_keep_loaded.so")
        words = ["sh", "-c", 'LD_PRELOAD="$LD_PRELOAD $0" exec "$@"', kept, *words]
    run = bench.run(*words, *more, program, options=("--persona", persona),
                    namespace=sandbox(bench), label="Open MPI over libfabric's verbs;ofi_rxm",
                    OMPI_MCA_orte_tmpdir_base=bench.folder)
    run.succeed(2 * PATIENCE)
    expect(f"{name} {ranks} ok\n" in run.output(), f"no '{name} {ranks} ok'")
    devices = re.findall(r"mtl:ofi:provider: (\S+)", run.errors())
    expect(devices == [SANDBOX_DEVICE] * ranks, f"the ranks use {devices}")


@variants(**RANKS)
def ring(bench, mode):
    mpirun(bench, *mode, "ring")


@variants(**RANKS)
def allreduce(bench, mode):
    mpirun(bench, *mode, "allreduce")


@variants(**RANKS)
def window(bench, mode):
    mpirun(bench, *mode, "window")


stop()
