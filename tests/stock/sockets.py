"""Extended sockets: programs written for sockets, unchanged, both ends in IWARP_MODE.

A rule of `weft run --sockets` switches the sockets of one port. That they really travel over iWARP
is seen from outside: a plain TCP client is no MPA initiator, and the listener resets it.
"""
import glob
import hashlib
import os
import pwd
import random
import re
import shutil
import signal
import socket
import sys
import tempfile

from stock import (PATIENCE, Skip, case, expect, free_port, need_ipv6_loopback, stop, variants,
                   wait_until)

HERE = os.path.dirname(os.path.abspath(__file__))
IDLE = 200  # connections
UNUSED_PORT = 1


class Switched:
    """Starts programs with a rule for one port; `bench.beneath` may say otherwise (plain_mode)."""

    def __init__(self, bench, host="127.0.0.1"):
        self.bench, self.host, self.port = bench, host, free_port(host)
        self.beneath = getattr(bench, "beneath", "iwarp")

    def words(self, *words):
        """What starts a program so."""
        port = {"iwarp": self.port, "preload": UNUSED_PORT}.get(self.beneath)
        start = [self.bench.weft, "run", "--sockets", "--iwarp-port", port, "--"] if port else []
        return [*start, *words]

    def run(self, *words, options=(), **keywords):
        if self.beneath != "iwarp":
            return self.bench.plain(*self.words(*words))
        return self.bench.run(*words, options=("--sockets", "--iwarp-port", self.port, *options),
                              **keywords)

    def speaks_iwarp(self):
        """A request that is no MPA Request ends the connection, with no word of the program."""
        if self.beneath != "iwarp":
            return
        with socket.create_connection((self.host, self.port), PATIENCE) as plain:
            plain.settimeout(PATIENCE)
            try:
                plain.sendall(b"GET / HTTP/1.0\r\n\r\n" * 10)
                answer = plain.recv(100)
            except ConnectionError:
                answer = b""
        expect(answer == b"", f"port {self.port} answers plain TCP: {answer!r}")


def make_file(bench, name, octets):
    path = os.path.join(bench.folder, name)
    with open(path, "wb") as file:
        generator = random.Random(octets)
        for start in range(0, octets, 1 << 20):
            file.write(generator.randbytes(min(1 << 20, octets - start)))
    return path


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@variants(defaults=["-C", 100, "-S", 65536], blocking=["-T", "b", "-C", 100, "-S", 65536],
          polling=["-T", "a", "-C", 100, "-S", 65536], verify=["-T", "v", "-C", 50, "-S", 5000],
          small=["-C", 1000, "-S", 1])
def rstream(bench, options):
    port = free_port()
    bench.pair(["rstream", "-p", port, *options],
               ["rstream", "-s", "127.0.0.1", "-p", port, *options], port)


@variants(inline=(), persona_ib=("--persona", "ib"))
def rstream_engine(bench, options):
    port = free_port()
    options = options or ("--engine", "inline")
    words = ["-T", "v", "-C", 50, "-S", 30000, "-p", port]
    bench.pair(["rstream", *words], ["rstream", "-s", "127.0.0.1", *words], port,
               server_options=options, client_options=options)


@case
def rstream_ipv6(bench):
    need_ipv6_loopback()
    port = free_port("::1")
    words = ["-f", "ipv6", "-T", "v", "-C", 50, "-S", 1000, "-p", port]
    bench.pair(["rstream", "-b", "::1", *words], ["rstream", "-s", "::1", *words], port)


@case
def riostream(bench):
    port = free_port()
    words = ["-C", 100, "-S", 4096, "-p", port]
    bench.pair(["riostream", *words], ["riostream", "-s", "127.0.0.1", *words], port)


@case
def socat(bench):
    switched = Switched(bench)
    sent = make_file(bench, "sent", 20 << 20)
    got = os.path.join(bench.folder, "got")
    server = switched.run("socat", "-u", f"TCP-LISTEN:{switched.port},reuseaddr",
                          f"OPEN:{got},creat,trunc").listens(switched.port)
    switched.run("socat", "-u", f"FILE:{sent}", f"TCP:127.0.0.1:{switched.port}").succeed()
    server.succeed()
    expect(digest(sent) == digest(got), "the file arrived changed")


@case
def a_server_that_forks(bench):
    """Each connection's child executes cat, which knows of nothing; the parent accepts the next."""
    switched = Switched(bench)
    sent = make_file(bench, "sent", 3 << 20)
    server = switched.run("socat", f"TCP-LISTEN:{switched.port},reuseaddr,fork", "EXEC:/bin/cat")
    server.listens(switched.port)
    clients = []
    for number in range(4):
        got = os.path.join(bench.folder, f"got{number}")
        clients.append((got, switched.run("socat", "-t", PATIENCE, f"TCP:127.0.0.1:{switched.port}",
                                          f"OPEN:{sent},rdonly!!OPEN:{got},creat,trunc")))
    for got, client in clients:
        client.succeed()
        expect(digest(got) == digest(sent), "the echo is not what was sent")
    server.end()


def sleeps(pid):
    """How often the main thread of a program has gone to sleep."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status
                    if line.startswith("voluntary_ctxt_switches"))


@case
def postgresql(bench):
    """The postmaster accepts and forks; its backends wait with epoll of their own."""
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    if not folders:
        raise Skip("there is no PostgreSQL on this machine")
    # It refuses to run as root.
    as_user = (["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
               if os.geteuid() == 0 else [])
    if bench.plain(*as_user, bench.weft, "--version").wait() != 0:
        raise Skip("the user postgres cannot reach this build")
    data = tempfile.mkdtemp(prefix="weft-postgres-")
    bench.at_end.callback(shutil.rmtree, data, ignore_errors=True)
    if as_user:
        shutil.chown(data, "postgres")
    switched = Switched(bench)
    bench.plain(*as_user, f"{folders[0]}/initdb", "-D", f"{data}/d", "-A", "trust", "-U",
                "postgres").succeed()
    server = bench.plain(*as_user, *switched.words(
        f"{folders[0]}/postgres", "-D", f"{data}/d", "-p", switched.port, "-k", data,
        "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"))
    server.says("ready to accept connections")
    where = ["-h", "127.0.0.1", "-p", switched.port, "-U", "postgres", "postgres"]
    switched.run(f"{folders[0]}/pgbench", "-i", "-q", *where).succeed()
    before = sleeps(server.pid)
    client = switched.run(f"{folders[0]}/pgbench", "-c", 4, "-t", 100, *where).succeed()
    expect("400/400" in client.output(), "not every transaction was made")
    # A transaction is seven round trips. The postmaster waits for connections and hears of none.
    slept = sleeps(server.pid) - before
    expect(slept < 400, f"the postmaster's thread was woken {slept} times by others' octets")
    server.process.send_signal(signal.SIGINT)
    server.wait()


@case
def fallback_to_tcp(bench):
    """The listener is plain: who connects by the rule falls back, and with `off` does not."""
    switched = Switched(bench)
    sent = make_file(bench, "sent", 1 << 20)
    got = os.path.join(bench.folder, "got")
    server = bench.plain("socat", "-u", f"TCP-LISTEN:{switched.port},reuseaddr,fork,max-children=4",
                         f"OPEN:{got},creat,append").listens(switched.port)
    # A server that listens in silence is given up when the startup takes too long.
    soon = ("--startup-timeout-ms", "500")
    switched.run("socat", "-u", f"FILE:{sent}", f"TCP:127.0.0.1:{switched.port}",
                 options=soon).succeed()
    wait_until(lambda: os.path.getsize(got) >= 1 << 20, "the octets arrived")
    with open(got, "rb") as arrived, open(sent, "rb") as whole:
        expect(arrived.read().endswith(whole.read()), "the file arrived changed")
    refused = switched.run("socat", "-u", f"FILE:{sent}", f"TCP:127.0.0.1:{switched.port}",
                           options=(*soon, "--tcp-fallback", "off"))
    expect(refused.wait() != 0, "connected without iWARP, though told not to")
    server.end()


@case
def asyncio_200_clients(bench):
    switched = Switched(bench)
    script = os.path.join(HERE, "sockets_echo.py")
    server = switched.run(sys.executable, script, "server", switched.port, label="asyncio")
    server.listens(switched.port)
    switched.speaks_iwarp()
    client = switched.run(sys.executable, script, "client", switched.port, label="asyncio")
    client.succeed()
    expect("200 clients" in client.output(), "the clients did not finish")


@variants(forward=[], reverse=["-R"], four=["-P", 4], window=["-w", "128K"])
def iperf3(bench, options):
    switched = Switched(bench)
    server = switched.run("iperf3", "-s", "-1", "-p", switched.port).listens(switched.port)
    switched.run("iperf3", "-c", "127.0.0.1", "-p", switched.port, "-n", "64M", *options,
                 label="iperf3").succeed()
    server.succeed()


@case
def redis(bench):
    switched = Switched(bench)
    server = switched.run("redis-server", "--port", switched.port, "--bind", "127.0.0.1",
                          "--save", "", "--appendonly", "no").listens(switched.port)
    switched.speaks_iwarp()
    client = switched.run("redis-benchmark", "-p", switched.port, "-q", "-n", 5000, "-d", 300,
                          "-t", "ping,set,get,lpush,mset").succeed()
    expect("MSET" in client.output(), "redis-benchmark did not finish")
    asked = switched.run("redis-cli", "-p", switched.port, "ping").succeed()
    expect("PONG" in asked.output(), "no PONG")
    server.process.send_signal(signal.SIGTERM)
    server.succeed()


@case
def memcached(bench):
    switched = Switched(bench)
    server = switched.run("memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", switched.port,
                          "-U", 0).listens(switched.port)
    switched.speaks_iwarp()
    script = os.path.join(HERE, "sockets_memcached.py")
    client = switched.run(sys.executable, script, switched.port, label="memcached").succeed()
    expect("equal" in client.output(), "the values came back changed")
    server.end()


NGINX = """daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
events {{ worker_connections 256; }}
http {{
  access_log off; sendfile on;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def nginx(switched, processes="master_process off"):
    """Serves the bench's folder."""
    folder = switched.bench.folder
    os.chmod(folder, 0o755)
    configuration = os.path.join(folder, "nginx.conf")
    with open(configuration, "w", encoding="ascii") as file:
        file.write(NGINX.replace("master_process off", processes)
                   .format(folder=folder, port=switched.port))
    return switched.run("nginx", "-p", folder, "-c", configuration).listens(switched.port)


@case
def nginx_and_curl(bench):
    """One GiB by HTTP, both ends by epoll or poll of their own."""
    if shutil.disk_usage(bench.folder).free < 4 << 30:
        raise Skip("there is no room for two files of 1 GiB")
    switched = Switched(bench)
    sent, got = make_file(bench, "sent", 1 << 30), os.path.join(bench.folder, "got")
    server = nginx(switched)
    switched.run("curl", "-sS", "-o", got, f"http://127.0.0.1:{switched.port}/sent").succeed()
    same = digest(sent) == digest(got)
    server.end()
    os.unlink(sent)
    os.unlink(got)
    expect(same, "the file arrived changed")


@case
def nginx_and_wrk(bench):
    """wrk waits with an event loop of its own, and counts what went wrong with its sockets."""
    switched = Switched(bench)
    make_file(bench, "small", 3000)
    server = nginx(switched)
    client = switched.run("wrk", "-t", 1, "-c", 20, "-d", "2s", "--timeout", f"{PATIENCE:.0f}s",
                          f"http://127.0.0.1:{switched.port}/small").succeed()
    said = client.output()
    counted = re.search(r"(\d+) requests in", said)
    expect(counted and int(counted[1]) > 0, "wrk made no request")
    expect("Socket errors" not in said and "Non-2xx" not in said, "wrk met errors")
    server.end()


@case
def nginx_with_workers(bench):
    """The master listens; its workers, forked after that, accept."""
    switched = Switched(bench)
    sent, got = make_file(bench, "sent", 20 << 20), os.path.join(bench.folder, "got")
    server = nginx(switched, "worker_processes 2")
    for _ in range(4):
        switched.run("curl", "-sS", "-o", got, f"http://127.0.0.1:{switched.port}/sent").succeed()
        expect(digest(sent) == digest(got), "the file arrived changed")
    server.process.send_signal(signal.SIGTERM)
    server.succeed()


SSHD = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile {folder}/sshd.pid
StrictModes no
UsePAM no
PermitRootLogin yes
"""


@case
def openssh(bench):
    """sshd accepts, forks, and executes itself again for each connection."""
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # sshd of root insists on it
    switched = Switched(bench)
    folder = bench.folder
    for name in ("host", "key"):
        bench.plain("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                    os.path.join(folder, name)).succeed()
    with open(os.path.join(folder, "sshd.conf"), "w", encoding="ascii") as file:
        file.write(SSHD.format(folder=folder, port=switched.port))
    server = switched.run("/usr/sbin/sshd", "-D", "-e", "-f", os.path.join(folder, "sshd.conf"))
    server.listens(switched.port)
    how = ["-i", os.path.join(folder, "key"), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes",
           "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    user = pwd.getpwuid(os.geteuid()).pw_name
    asked = switched.run("ssh", *how, "-p", switched.port, f"{user}@127.0.0.1",
                         "echo so $((6 * 7))").succeed()
    expect("so 42" in asked.output(), "the command did not run there")
    sent, got = make_file(bench, "sent", 64 << 20), os.path.join(folder, "got")
    # -O: by the old protocol, which needs no subsystem.
    switched.run("scp", "-q", "-O", *how, "-P", switched.port, sent,
                 f"{user}@127.0.0.1:{got}").succeed()
    expect(digest(sent) == digest(got), "the file arrived changed")
    server.end()


@case
def rsync(bench):
    """Its daemon accepts and forks, and the child that receives forks again. A client that fetches
    forks too, and both halves of it use the connection."""
    switched = Switched(bench)
    target, fetched = (os.path.join(bench.folder, name) for name in ("target", "fetched"))
    os.mkdir(target)
    os.mkdir(fetched)
    sent = [make_file(bench, name, octets)
            for name, octets in (("large", 64 << 20), ("small", 100), ("odd", 70001))]
    configuration = os.path.join(bench.folder, "rsyncd.conf")
    with open(configuration, "w", encoding="ascii") as file:
        file.write(f"use chroot = no\n[files]\npath = {target}\nread only = no\n"
                   f"uid = {os.geteuid()}\ngid = {os.getegid()}\n")
    server = switched.run("rsync", "--daemon", "--no-detach", "--address", "127.0.0.1", "--port",
                          switched.port, "--config", configuration).listens(switched.port)
    daemon = f"rsync://127.0.0.1:{switched.port}/files/"
    switched.run("rsync", *sent, daemon).succeed()
    switched.run("rsync", "-r", daemon, fetched).succeed()
    # What it has is compared by blocks: both directions have much to say.
    with open(os.path.join(fetched, "large"), "r+b") as file:
        file.seek(10 << 20)
        file.write(b"changed" * 1000)
    switched.run("rsync", "-r", "--checksum", "--no-whole-file", daemon, fetched).succeed()
    for path in sent:
        for folder in (target, fetched):
            expect(digest(path) == digest(os.path.join(folder, os.path.basename(path))),
                   f"{path} arrived changed in {folder}")
    server.end()


@case
def rules(bench):
    """By address and by program: all that are given have to hold."""
    switched = Switched(bench)
    listen = ["socat", "-u", f"TCP-LISTEN:{switched.port},bind=127.0.0.1,reuseaddr", "STDOUT"]
    for options, iwarp in ((("--iwarp-address", "127.0.0.0/8"), True),
                           (("--iwarp-address", "10.0.0.0/8,127.0.0.1"), True),
                           (("--iwarp-address", "10.0.0.0/8"), False),
                           (("--iwarp-program", "nginx,socat"), True),
                           (("--iwarp-program", "nginx"), False),
                           (("--iwarp-program", "socat", "--iwarp-address", "::/0"), False)):
        server = switched.run(*listen, options=options).listens(switched.port)
        with socket.create_connection((switched.host, switched.port), PATIENCE) as plain:
            plain.settimeout(PATIENCE)
            plain.sendall(b"by TCP")
            if iwarp:
                try:
                    expect(plain.recv(1) == b"", f"{options}: not in IWARP_MODE")
                except ConnectionError:
                    pass  # as it should
                server.end()
                expect(server.output() == "", f"{options}: octets of plain TCP")
            else:
                plain.shutdown(socket.SHUT_WR)
                server.succeed()
                expect(server.output() == "by TCP", f"{options}: not by TCP")
    alone = bench.run(*listen, options=("--sockets", "--iwarp-address", "127.0.0.1"))
    alone.listens(switched.port)
    switched.speaks_iwarp()
    alone.end()


@case
def a_peer_that_is_killed(bench):
    """The program hears the end of the stream, as with TCP."""
    switched = Switched(bench)
    got = os.path.join(bench.folder, "got")
    server = switched.run("socat", "-u", f"TCP-LISTEN:{switched.port},reuseaddr",
                          f"OPEN:{got},creat,trunc").listens(switched.port)
    client = switched.run("socat", "-u", "/dev/zero", f"TCP:127.0.0.1:{switched.port}")
    wait_until(lambda: os.path.exists(got) and os.path.getsize(got) > 1 << 20, "octets arrive")
    client.end()
    server.wait()


@case
def an_end_in_a_signal_handler(bench):
    """iperf3 leaves select() by a jump out of its handler, and ends."""
    switched = Switched(bench)
    server = switched.run("iperf3", "-s", "-p", switched.port).listens(switched.port)
    switched.run("iperf3", "-c", "127.0.0.1", "-p", switched.port, "-n", "1M").succeed()
    server.process.send_signal(signal.SIGTERM)
    server.wait()


SERVERS = ("postgres", "nginx", "redis-server", "memcached", "sshd")


def outcome(program):
    """What two runs of a program have in common: its status and its words, but for numbers and
    their units. A server is ended in the middle of its work, and tells of its times."""
    if any(os.path.basename(word) in SERVERS for word in program.words):
        return []
    with open(program.path, encoding="utf-8", errors="replace", newline="\n") as out:
        lines = [line.rstrip("\r\n").rsplit("\r", 1)[-1] for line in out]  # as they are at last
    return [program.status(), *sorted({word for line in lines for word in line.split()
                                       if not re.search(r"\d|^[KMG]?(bits|Bytes)", word)})]


@variants(socat=socat, a_server_that_forks=a_server_that_forks, redis=redis, memcached=memcached,
          iperf3=lambda bench: iperf3(bench, ["-P", 2]), nginx_and_wrk=nginx_and_wrk,
          nginx_with_workers=nginx_with_workers, asyncio=asyncio_200_clients, openssh=openssh,
          rsync=rsync, postgresql=postgresql)
def plain_mode(bench, programs):
    """Under the preload, but with a rule for a port that nobody uses: the case of that name passes
    as it does without the preload, and each program says the same and ends the same way."""
    folder, outcomes = bench.folder, {}
    os.chmod(folder, 0o755)  # workers of another user are to reach what lies below
    for bench.beneath in ("nothing", "preload"):
        bench.folder = os.path.join(folder, bench.beneath)
        os.mkdir(bench.folder)
        before = len(bench.programs)
        programs(bench)
        outcomes[bench.beneath] = [outcome(program) for program in bench.programs[before:]]
    bench.folder = folder
    expect(any("exit status 0" in one for one in outcomes["nothing"]), "no program was compared")
    expect(outcomes["nothing"] == outcomes["preload"],
           f"without the preload {outcomes['nothing']}, with it {outcomes['preload']}")


def costs(output):
    """call_cost's lines: {call: (what it returned, nanoseconds)}"""
    lines = (line.split() for line in output.splitlines())
    return {call: (returned, float(cost)) for call, returned, cost in lines}


@case
def calls_of_other_sockets(bench):
    """Sockets that no rule switches behave as without the preload. The costs are only told."""
    program = os.path.join(os.path.dirname(bench.weft), "stock_call_cost")
    plain, preloaded = {}, {}
    for _ in range(3):  # in turns, the best of each
        for best, run in ((plain, bench.plain(program)), (preloaded, Switched(bench).run(program))):
            for call, (returned, cost) in costs(run.succeed().output()).items():
                kept = best.setdefault(call, (returned, cost))
                expect(kept[0] == returned, f"{call} returned {kept[0]}, and then {returned}")
                best[call] = (returned, min(kept[1], cost))
    expect(len(plain) > 5 and plain.keys() == preloaded.keys(), "the calls are not the same")
    for call, (returned, cost) in plain.items():
        with_preload = preloaded[call]
        expect(returned == with_preload[0], f"{call}: {returned}, preloaded {with_preload[0]}")
        print(f"{call}: {cost:.0f} ns, preloaded {with_preload[1] - cost:+.0f} ns, "
              f"ratio {with_preload[1] / cost:.3f}")


@case
def idle_memory(bench):
    """What an idle connection takes of each end's memory: told, and far from a whole ring."""
    switched = Switched(bench)
    script = os.path.join(HERE, "sockets_idle.py")
    server = switched.run(sys.executable, script, "server", switched.port).listens(switched.port)
    client = switched.run(sys.executable, script, "client", switched.port, IDLE).succeed()
    server.succeed()
    for end in (server, client):
        said = end.output().split()
        expect("KiB" in said, "the end does not say what it takes")
        each = float(said[said.index("KiB") - 1])
        print(f"{said[0]} {each:.0f} KiB for each of {IDLE} idle connections")
        # With a sanitizer's shadow and red zones it is more; a touched ring alone would be 1024.
        expect(each < 512, f"an idle connection takes {each} KiB")


stop()
