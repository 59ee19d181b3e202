"""What the two sides are measured over, and one measurement over it.

Each medium keeps servers (`weft blast --persistent`, which serves pings too), one for each setting
that the server's side has to know.
"""
import ctypes
import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path

from networks import LOOPBACK, Impossible, Link, Network

PATIENCE = 60  # seconds beyond what was asked for
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


class Failed(Exception):
    """One measurement could not be made; the text says why."""


def clean_environment():
    """Without settings of weft's: those of the caller's shell would change what is measured."""
    return {key: value for key, value in os.environ.items() if not key.startswith("WEFT_")}


def end_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(words, **more):
    """A child in a group of its own (Ctrl-C is for the study, which ends its children itself)."""
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, text=True, env=clean_environment(),
                            start_new_session=True, preexec_fn=end_with_parent, **more)


class Medium:
    """Two places for programs, with an address between them."""

    def __init__(self, name, title, host, client=(), server=(), verbs="weft", owner=None, mtu=0,
                 network=""):
        self.name, self.title, self.host, self.verbs = name, title, host, verbs
        self.network, self.mtu = network, mtu
        self.prefixes = {"client": list(client), "server": list(server)}
        self.owner, self.servers = owner, {}

    def close(self):
        self.drop_servers()
        if self.owner:
            self.owner.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def port_of(self, index):
        if self.owner:
            return 7472 + index
        with socket.socket() as probe:
            probe.bind(("", 0))
            return probe.getsockname()[1]

    def settings(self, work):
        """Options of both sides: a libibverbs that is not weft's has none of weft's settings."""
        if work.over == "tcp":
            return []
        return ["--crc", work.crc] if self.verbs == "weft" else ["--verbs", self.verbs]

    def server(self, weft, work, cpu):
        """The port of a server for such work."""
        settings = self.settings(work)
        kind = (*program(weft, work), *settings)
        if kind in self.servers and self.servers[kind][0].poll() is None:
            return self.servers[kind][1]
        port = self.port_of(len(self.servers))
        words = [*self.prefixes["server"], *program(weft, work), "blast", "--persistent",
                 "--port", str(port), *pinned(cpu), *settings]
        server = start(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        first = server.stdout.readline()
        if "waiting" not in first:
            end(server)
            raise Failed(f"the server did not start: {first.strip()}")
        # It says a line for each client; unread, they would stop it some day.
        threading.Thread(target=server.stdout.read, daemon=True).start()
        self.servers[kind] = server, port
        return port

    def client(self, weft, work, seconds, cpus):
        """The words of a client, whose server is there."""
        port = self.server(weft, work, cpus[1])
        return [*program(weft, work), work.tool, self.host, "--port", str(port), *work.words(),
                "--time", str(seconds), *pinned(cpus[0]), *self.settings(work), "--json", "-"]

    def measure(self, weft, work, seconds, cpus):
        """The report's row and its two sides. Failed if there is none."""
        words = [*self.prefixes["client"], *self.client(weft, work, seconds, cpus)]
        client = start(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            output, errors = client.communicate(timeout=seconds * 10 + PATIENCE)
        except subprocess.TimeoutExpired:
            self.drop_servers()
            raise Failed(f"it took more than {seconds * 10 + PATIENCE:.0f} s") from None
        finally:
            end(client)
        if client.returncode != 0:
            self.drop_servers()
            reason = errors.strip().splitlines() or [f"it ended with {client.returncode}"]
            raise Failed(reason[-1].removeprefix("weft: "))
        return report_row(output)

    def drop_servers(self):
        """What follows a failure starts with fresh servers."""
        for server, _ in self.servers.values():
            end(server)
        self.servers.clear()


def cpus_for_sides():
    """(client's, server's): two CPUs where there are two."""
    may = sorted(os.sched_getaffinity(0))
    return (may[0], may[1]) if len(may) > 1 else (None, None)


def program(weft, work):
    """The same program, by itself or with iWARP beneath its sockets: beneath all of them, or, by
    the extended interface, beneath those that it switches itself."""
    if not work.through:
        return [weft]
    rules = [] if work.over == "sockets" else ["--iwarp-port", "1-65535"]
    return [weft, "run", "--sockets", *rules, "--", weft]


def report_row(output):
    try:
        report = json.loads(output)
        if not report["complete"] or len(report["results"]) != 1:
            raise Failed("the report is not complete")
        return report["results"][0], {"client": report["client"], "server": report["server"]}
    except (ValueError, KeyError, TypeError):
        raise Failed("the report is not as it should be") from None


def pinned(cpu):
    return [] if cpu is None else ["--pin", str(cpu)]


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def own_loopback(congestion):
    """In a namespace of the run's own, where routes name the congestion control; or Impossible."""
    network = Network()
    try:
        network.use_congestion(congestion)
    except Impossible:
        network.close()
        raise
    return Medium("loopback", "loopback", LOOPBACK, network.prefix, network.prefix,
                  owner=network, network=f"a namespace of its own, {congestion}")


def machines_loopback(why=""):
    return Medium("loopback", "loopback", LOOPBACK,
                  network=f"the machine's own loopback{why and f' ({why})'}")


def loopback(congestion):
    """One of the run's own where that can be."""
    try:
        return own_loopback(congestion)
    except Impossible as reason:
        return machines_loopback(str(reason))


def veth(mtu, congestion):
    link = Link(mtu, congestion)
    return Medium(f"veth-{mtu}", f"veth, MTU {mtu}", link.ADDRESSES[1], link.near.prefix,
                  link.far.prefix, owner=link, mtu=mtu,
                  network=f"two namespaces of its own, {congestion}")


def devices(root="/sys/class/infiniband"):
    """[(device, address)]: RDMA devices of the machine itself that have an IPv4 address."""
    found = []
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return found
    for name in names:
        for port in sorted(Path(root, name, "ports").glob("*")):
            try:
                interface = (port / "gid_attrs" / "ndevs" / "0").read_text("ascii").strip()
            except OSError:
                continue
            address = address_of(interface)
            if address:
                found.append((name, address))
                break
    return found


def address_of(interface):
    done = subprocess.run(["ip", "-json", "-4", "address", "show", "dev", interface],
                          capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)[0]["addr_info"][0]["local"]
    except (ValueError, LookupError):
        return None


# Names in the order of the plots; what each needs is made when it is measured.
def make(name, congestion):
    """A medium by its name; Impossible with the reason."""
    if name == "loopback":
        return loopback(congestion)
    if name.startswith("veth-"):
        return veth(int(name.removeprefix("veth-")), congestion)
    device = name.removeprefix("device-")
    address = dict(devices()).get(device)
    if address is None:
        raise Impossible(f"the device {device} is gone")
    return Medium(name, f"{device} (its own verbs)", address, verbs="system",
                  network=f"both ends on {address}")


def names():
    return ["loopback", "veth-1500", "veth-9000", *[f"device-{name}" for name, _ in devices()]]


def title_of(name):
    if name.startswith("veth-"):
        return f"veth, MTU {name.removeprefix('veth-')}"
    return name if name == "loopback" else f"{name.removeprefix('device-')} (its own verbs)"
