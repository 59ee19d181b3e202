"""Network namespaces of the run's own, held open by a process that ends with it.

No root is needed where users may make namespaces. What cannot be made raises Impossible.
"""
import os
import subprocess
import sys

LOOPBACK = "127.0.0.1"


# Prints what a connection over the loopback uses.
ASK_CONGESTION = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
near = socket.create_connection(listener.getsockname())
print(near.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\\0").decode())
"""


class Impossible(Exception):
    """This user, or this system, cannot have the network; the text says why."""


def run(words, seconds=20):
    """Standard output of a short command; Impossible with its words if it fails."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Impossible(f"{words[0]}: {error}") from None
    if done.returncode != 0:
        reason = (done.stderr or done.stdout).strip().splitlines() or ["it failed"]
        raise Impossible(f"{' '.join(words)}: {reason[-1]}")
    return done.stdout


class Network:
    """One namespace with a loopback. `prefix` in front of a command runs it there."""

    def __init__(self, inside=None):
        """inside: another Network, whose owner is to own this one too."""
        as_root = os.geteuid() == 0 or inside is not None
        words = ["unshare", "--net"] if as_root else ["unshare", "--user", "--map-root-user",
                                                      "--net"]
        words = (inside.prefix if inside else []) + words + ["sh", "-c", "echo ready; read -r end"]
        self.holder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        if self.holder.stdout.readline().strip() != "ready":
            self.close()
            raise Impossible("this user may not make network namespaces")
        # unshare and nsenter become the program they start, so the holder's pid is the shell's.
        self.pid = self.holder.pid
        self.file = f"/proc/{self.pid}/ns/net"
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.prefix = ["nsenter", *user, "--net", "--target", str(self.pid)]
        try:
            self.run("ip", "link", "set", "lo", "up")
        except Impossible:
            self.close()
            raise

    def run(self, *words):
        return run([*self.prefix, *words])

    def use_congestion(self, name):
        """For what goes over the loopback. A namespace may only choose what everybody may use; its
        routes may ask for whatever the kernel has: that of 127/8, and that of the address."""
        for target in ("127.0.0.0/8", LOOPBACK):
            self.run("ip", "route", "change", "local", target, "dev", "lo", "table", "local",
                     "proto", "kernel", "scope", "host", "src", LOOPBACK, "congctl", name)
        used = self.run(sys.executable, "-c", ASK_CONGESTION).strip()
        if used != name:
            raise Impossible(f"connections use {used} where {name} was asked for")

    def close(self):
        self.holder.stdin.close()
        self.holder.stdout.close()
        try:
            self.holder.wait(5)
        except subprocess.TimeoutExpired:
            self.holder.kill()
            self.holder.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Link:
    """Two namespaces with a veth between them; the first is the leader's."""
    ADDRESSES = ("10.91.9.1", "10.91.9.2")

    def __init__(self, mtu, congestion):
        self.near = Network()
        try:
            self.far = Network(inside=self.near)
        except Impossible:
            self.near.close()
            raise
        try:
            self.near.run("ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth0",
                          "netns", str(self.far.pid))
            for network, address in zip((self.near, self.far), self.ADDRESSES):
                network.run("ip", "address", "add", f"{address}/24", "dev", "veth0")
                network.run("ip", "link", "set", "veth0", "mtu", str(mtu), "up")
                network.run("ip", "route", "replace", "10.91.9.0/24", "dev", "veth0", "src",
                            address, "congctl", congestion)
        except Impossible:
            self.close()
            raise

    def close(self):
        self.far.close()
        self.near.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def system_congestion():
    try:
        with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
