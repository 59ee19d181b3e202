"""Programs that use <weft/sockets.h>: the examples, both ends; what is installed; the manual.

The examples are linked with libweft-sockets.so, and run as they are or under `weft run`.
"""
import glob
import os
import random
import shutil
import subprocess
import sys

from stock import PATIENCE, Skip, case, expect, free_port, stop, variants

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def example(bench, name):
    return os.path.join(os.path.dirname(bench.weft), f"example_{name}")


def build_folder(bench):
    return os.path.dirname(os.path.dirname(bench.weft))


def keep_a_board(bench, program, start):
    port = free_port()
    keeper = start(program, port).listens(port)
    for before, text in (("nothing yet", "first"), ("first", "second"), ("second", "x" * 255)):
        visitor = start(program, "127.0.0.1", port, text).succeed()
        expect(visitor.output() == before + "\n", f"{before} is not on the board")
        keeper.says(f"{text}\n")
    keeper.end()


@case
def board(bench):
    """In C: one program's memory, read and written by others."""
    keep_a_board(bench, example(bench, "board"), bench.plain)


@variants(thread=(), inline=("--engine", "inline"), persona_ib=("--persona", "ib"),
          preloaded=("--sockets",))
def board_run(bench, options):
    keep_a_board(bench, example(bench, "board"),
                 lambda *words: bench.run(*words, options=options))


@case
def board_without_iwarp(bench):
    """The peer is plain TCP: the program is told so, by an errno, and ends."""
    port = free_port()
    plain = bench.plain(sys.executable, "-c",
                        "import socket,sys\n"
                        f"s = socket.create_server(('127.0.0.1', {port}))\n"
                        "while True: s.accept()[0].close()").listens(port)
    visitor = bench.plain(example(bench, "board"), "127.0.0.1", port, "text")
    expect(visitor.wait() == 1 and "connect: " in visitor.errors(), "connected without iWARP")
    plain.end()


@variants(one_octet=1, small=100_000, large=20 << 20)
def fetch(bench, octets):
    """In C++: a file out of another program's memory, by epoll."""
    port = free_port()
    path = os.path.join(bench.folder, "file")
    whole = random.Random(octets).randbytes(octets)
    with open(path, "wb") as file:
        file.write(whole)
    program = example(bench, "fetch")
    keeper = bench.plain(program, port, path).listens(port)
    for _ in range(2):
        reader = bench.plain(program, "127.0.0.1", port).succeed()
        with open(reader.path, "rb") as copy:
            expect(copy.read() == whole, "the copy differs")
    full = bench.plain("sh", "-c", 'exec "$0" "$@" > /dev/full', program, "127.0.0.1", port)
    expect(full.wait() == 1 and "standard output: No space left" in full.errors(),
           "a copy on a full disk counts as made")
    keeper.end()


def compile_with(bench, folder, source, compiler, flags):
    program = os.path.join(bench.folder, "built_" + os.path.basename(source).split(".")[0])
    run(compiler, *flags, "-Wall", "-Wextra", "-Werror", os.path.join(ROOT, "examples", source),
        "-o", program, *pkg_config(folder, "--cflags", "--libs"))
    return program


def run(*words):
    ran = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                         timeout=PATIENCE, stdin=subprocess.DEVNULL)
    expect(ran.returncode == 0, f"{' '.join(map(str, words))}: {ran.stdout}{ran.stderr}")
    return ran.stdout


def pkg_config(folder, *words):
    tool = shutil.which("pkg-config") or shutil.which("pkgconf")
    if tool is None:
        raise Skip("there is no pkg-config on this machine")
    ran = subprocess.run([tool, *words, "weft-sockets"], capture_output=True, text=True,
                         env={**os.environ, "PKG_CONFIG_PATH": folder,
                              "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1"}, timeout=PATIENCE)
    expect(ran.returncode == 0, f"pkg-config: {ran.stderr}")
    return ran.stdout.split()


@case
def installed(bench):
    """A program is built with what `cmake --install` gives, after that was moved elsewhere."""
    first, moved = os.path.join(bench.folder, "first"), os.path.join(bench.folder, "moved")
    run("cmake", "--install", build_folder(bench), "--component", "sockets", "--prefix", first)
    os.rename(first, moved)
    for part in ("include/weft/sockets.h", "include/weft/sockets.hpp",
                 "share/man/man7/weft-sockets.7", "share/man/man3/iwarp_write.3"):
        expect(os.path.exists(os.path.join(moved, part)), f"{part} is not installed")
    (pc,) = glob.glob(os.path.join(moved, "**", "weft-sockets.pc"), recursive=True)
    folder = os.path.dirname(pc)
    libraries = os.path.dirname(folder)
    board_program = compile_with(bench, folder, "board.c", "cc", ["-std=gnu99"])
    compile_with(bench, folder, "fetch.cc", "c++", ["-std=c++20"])
    # The verbs are not among what is installed: they are the machine's, or weft's.
    path = f"{libraries}:{os.path.join(build_folder(bench), 'lib')}"
    keep_a_board(bench, board_program,
                 lambda *words: bench.plain(*words, LD_LIBRARY_PATH=path))


@case
def manual(bench):
    """Every page can be shown without a warning, and every call of the header has one."""
    folder = os.path.join(ROOT, "docs", "man")
    pages = sorted(glob.glob(os.path.join(folder, "*.[37]")))
    expect(pages, "there are no pages")
    with open(os.path.join(ROOT, "src", "front", "sockets", "preload", "weft-sockets.map"),
              encoding="utf-8") as map_file:
        calls = {line.strip()[:-1] for line in map_file if line.strip().startswith("iwarp_")}
    named = {os.path.basename(page).split(".")[0] for page in pages}
    expect(calls <= named, f"without a page: {sorted(calls - named)}")
    checkers = [words for words in (["mandoc", "-Tlint", "-Wwarning"],
                                    ["groff", "-t", "-man", "-ww", "-z", "-Tutf8"])
                if shutil.which(words[0])]
    if not checkers:
        raise Skip("there is neither mandoc nor groff on this machine")
    texts = []
    for page in pages:
        with open(page, encoding="utf-8") as file:
            first = file.readline()
        if not first.startswith(".so man3/"):
            texts.append(page)
            continue
        # A call that is told of on another's page.
        target = os.path.join(folder, os.path.basename(first.strip()))
        with open(target, encoding="utf-8") as file:
            expect(os.path.basename(page).split(".")[0] in file.read(), f"{target}: not in it")
    for words in checkers:
        for page in texts:
            ran = subprocess.run([*words, page], capture_output=True, text=True, cwd=folder,
                                 timeout=PATIENCE, stdin=subprocess.DEVNULL)
            said = ran.stdout + ran.stderr
            expect(ran.returncode == 0 and not said, f"{page}: {said}")


stop()
