#!/usr/bin/env python3
"""The devices of another libibverbs, listed behind weft's: the tests' own library, and Debian's."""
import os
import re
import tempfile

from stock import Skip, case, command, expect, free_port, stop

NAMES = {"ibv_devices": r"^ +(\S+)\s+[0-9a-f]{16}$", "ibv_devinfo": r"^\t(\S+)$"}


def second_library(bench):
    """The tests' own: devices behind_0 and weft_lo."""
    path = os.path.join(os.path.dirname(os.path.dirname(bench.weft)), "lib/behind/libibverbs.so.1")
    expect(os.path.exists(path), f"{path} is not built")
    return path


def listed(bench, program, *options, **keywords):
    """The names that ibv_devices or ibv_devinfo lists under `weft run`."""
    words = [program] + (["-l"] if program == "ibv_devinfo" else [])
    ran = bench.run(*words, options=options, **keywords).succeed()
    expect("weft:" not in ran.errors(), f"{program} complains: {ran.errors()}")
    return re.findall(NAMES[program], ran.output(), re.M)


@case
def both_are_listed(bench):
    """Weft's first, then the others, one of which has the name of weft's."""
    behind = ("--verbs-behind", second_library(bench))
    for program in NAMES:
        alone = listed(bench, program, "--verbs-behind", "off")
        expect("weft_lo" in alone and "behind_0" not in alone, f"{program}: off: {alone}")
        both = listed(bench, program, *behind)
        expect(both == alone + ["behind_0", "weft_lo"], f"{program}: {both} after {alone}")


@case
def a_name_that_both_have_is_wefts(bench):
    out = bench.run("ibv_devinfo", "-d", "weft_lo", options=("--verbs-behind",
                    second_library(bench))).succeed().output()
    expect(re.search(r"transport:\s+iWARP \(1\)", out), "not weft's weft_lo")


@case
def a_file_that_is_no_library_is_named(bench):
    ran = bench.run("ibv_devinfo", "-l", options=("--verbs-behind", os.path.abspath(__file__)))
    ran.succeed()
    expect("weft_lo" in ran.output(), "weft's devices are not there")
    expect(re.search(r"^weft: .*invalid ELF header.*only weft's own", ran.errors(), re.M),
           f"no sentence that says so: {ran.errors()}")


def kernel_rdma(bench):
    """The words that start a program where rdma-core lists a device rxe0; see kernel_rdma.sh."""
    kinds = ["--mount"] + ([] if os.geteuid() == 0 else ["--user", "--map-root-user"])
    command("unshare", *kinds, "true")  # a Skip where that is not allowed
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel_rdma.sh")

    def enter():
        return ["unshare", *kinds, "sh", script, tempfile.mkdtemp(dir=bench.folder)]
    alone = bench.plain("ibv_devices", namespace=enter())
    alone.wait()
    if "rxe0" not in alone.output():
        raise Skip(f"rdma-core itself lists no device of such files here: {alone.text()}")
    return enter


@case
def debians_own_library_and_provider(bench):
    """rdma-core's library calls itself, and its provider calls it, through weft's symbols."""
    enter = kernel_rdma(bench)
    for program in NAMES:
        alone = listed(bench, program, "--verbs-behind", "off", namespace=enter())
        both = listed(bench, program, namespace=enter())
        expect("weft_lo" in alone and both == alone + ["rxe0"], f"{program}: {both} after {alone}")
    out = bench.run("ibv_devices", namespace=enter()).succeed().output()
    expect(re.search(r"rxe0\s+025056fffeb21111", out), "rxe0 has not the GUID of its file")


@case
def a_real_context_answers_the_same(bench):
    """Opening, querying and closing go through the provider and back, as without weft."""
    enter = kernel_rdma(bench)
    words = ["ibv_devinfo", "-v", "-d", "rxe0"]
    alone = bench.plain(*words, namespace=enter())
    status = alone.wait()
    ran = bench.run(*words, namespace=enter())
    expect(ran.wait() == status and ran.text() == alone.text() and "rxe0" in ran.text(),
           f"'{ran.text()}', and without weft '{alone.text()}'")
    out = bench.run("ibv_devinfo", "-d", "weft_lo", namespace=enter()).succeed().output()
    expect(re.search(r"hca_id:\s+weft_lo", out), "weft_lo is not there beside it")


@case
def perftest_beside_debians_own_library(bench):
    """perftest links libmlx5 and libefa, which register themselves before main()."""
    enter, port = kernel_rdma(bench), free_port()
    words = ["ib_write_bw", "-d", "weft_lo", "-R", "-n", "50", "-p", port, "-s", "1024"]
    server = bench.run(*words, namespace=enter()).listens(port)
    client = bench.run(*words, "127.0.0.1", namespace=enter())
    client.succeed()
    server.succeed()
    expect(re.search(r"^ 1024 ", client.output(), re.M), "no line of the result")


stop()
