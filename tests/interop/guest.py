"""Boots a guest whose kernel drives siw on its network interface, and runs commands in it.

A Guest lives from boot() to end() and takes any number of commands meanwhile; see build-image for
what it boots. Its networks: UserNetwork needs no right at all, but QEMU ends each TCP connection
and opens another; LinkNetwork is a wire between the guest and a network namespace of its own.
"""
import json
import os
import random
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading

from stock import PATIENCE, Failure, Skip, command, expect, wait_until

# Emulated processors are slow, and this machine has other things to do.
BOOT_SECONDS = 180.0


class Unavailable(Skip):
    """No guest can be had here; the text says why."""


class UserNetwork:
    """QEMU's own NAT. The guest finds this machine's 127.0.0.1 at the gateway's address; for the
    other way a port of 127.0.0.1 is forwarded. In IPv6 there is only the first of these."""
    name = "user networking"
    guest_addresses = {4: "10.0.2.15", 6: "fec0::15"}
    gateway = "10.0.2.2"
    mtu = 1500
    keeps_segments = False

    # weft's own address, and the one at which the guest finds it.
    host = {4: "127.0.0.1", 6: "::1"}
    seen_by_guest = {4: "10.0.2.2", 6: "fec0::2"}
    # Where weft finds the guest.
    seen_by_host = {4: "127.0.0.1"}

    def netdev(self):
        return "user,id=net"

    def enter(self, words):
        return words

    def forward(self, guest, port):
        guest.monitor(f"hostfwd_add net tcp:127.0.0.1:{port}-:{port}")

    def end(self):
        pass


class LinkNetwork:
    """A tap device in a network namespace of its own, made by root or in a user namespace. What
    passes there is what TCP sends: no segment is put together or cut on the way."""
    name = "a link of its own"
    host = seen_by_guest = {4: "10.91.8.1", 6: "fd91:8::1"}
    guest_addresses = seen_by_host = {4: "10.91.8.2", 6: "fd91:8::2"}
    gateway = ""
    keeps_segments = True

    def __init__(self, mtu=1500):
        self.mtu = mtu
        if not os.path.exists("/dev/net/tun"):
            raise Unavailable("there is no /dev/net/tun here, which a link of its own needs")
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        # It keeps the namespace until its standard input closes, so with us.
        self.keeper = subprocess.Popen(["unshare", "--net", *user, "sh", "-c", "echo there; cat"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        if self.keeper.stdout.readline() != "there\n":
            raise Unavailable("no network namespace to be had: " +
                              self.keeper.stderr.read().strip())
        own = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        self.prefix = ["nsenter", f"--target={self.keeper.pid}", "--net", *own, "--"]
        try:
            self._join(mtu)
        except Skip as reason:
            self.end()
            raise Unavailable(f"no link of its own to be had: {reason}") from None

    def _join(self, mtu):
        for words in ("tuntap add dev tap0 mode tap", "link set lo up",
                      f"address add {self.host[4]}/24 dev tap0",
                      f"address add {self.host[6]}/64 dev tap0 nodad",
                      f"link set tap0 mtu {mtu} up"):
            command(*self.enter(["ip", *words.split()]))

    def netdev(self):
        return "tap,id=net,ifname=tap0,script=no,downscript=no,vnet_hdr=off"

    def enter(self, words):
        return self.prefix + words

    def forward(self, guest, port):
        pass

    def set_mtu(self, guest, mtu):
        command(*self.enter(["ip", "link", "set", "tap0", "mtu", str(mtu)]))
        guest.run(f"ip link set eth0 mtu {mtu}")
        self.mtu = mtu

    def end(self):
        self.keeper.stdin.close()
        self.keeper.wait()


class GuestProgram:
    """A command in the guest, with what stock.Program has to say of one on this machine."""

    def __init__(self, guest, number, script):
        self.guest, self.number, self.script = guest, number, script
        self.octets, self.code = b"", None

    def text(self):
        return self.octets.decode("utf-8", "replace")

    output = text

    def running(self):
        return self.code is None

    def status(self):
        if self.code is None:
            return "still running"
        return f"killed by signal {-self.code}" if self.code < 0 else f"exit status {self.code}"

    def replay(self):
        return f"(in the guest) {self.script}"

    def wait(self, seconds=PATIENCE):
        self.guest.wait_for(lambda: self.code is not None, seconds,
                            f"{self.replay()}: still running")
        return self.code

    def succeed(self, seconds=PATIENCE):
        code = self.wait(seconds)
        expect(code == 0, f"{self.replay()}: {self.status()}\n{self.text()[-2000:]}")
        return self

    def says(self, text, seconds=PATIENCE):
        self.guest.wait_for(lambda: re.search(text, self.text()) or self.code is not None, seconds,
                            f"{self.replay()}: saying '{text}'")
        expect(re.search(text, self.text()), f"{self.replay()}: {self.status()} without saying "
                                             f"'{text}'")
        return self

    def listens(self, port, seconds=PATIENCE):
        """Waits until the guest's TCP listens on `port`: siw's sockets are the kernel's own, so
        nobody can ask whose they are."""
        row = f":{port:04X} 0*:0000 0A "
        self.guest.run(f"until grep -qE '{row}' /proc/net/tcp /proc/net/tcp6; do usleep 20000; "
                       f"[ -d /proc/{self.pid()} ] || exit 9; done", seconds)
        return self

    def pid(self):
        """The process number in the guest; the command's shell has made way for the program."""
        if not hasattr(self, "_pid"):
            self.says(r"^pid \d+\n")
            self._pid = int(re.match(r"pid (\d+)", self.text())[1])
        return self._pid

    def signal(self, number):
        self.guest.send(f"signal {self.number} {number}\n".encode())

    def end(self):
        """Kills it. A guest in which that does not help is given up."""
        if self.running() and not self.guest.dead:
            self.signal(9)
            try:
                self.wait(20)
            except Failure:
                self.guest.stuck = self.guest.dead = True


class Guest:
    """threads: one reads what the agent says; everything else happens in the caller's."""

    def __init__(self, folder, network, image="guest"):
        """folder and image: what build-image was told; network: made for this guest alone."""
        self.network, self.image = network, image
        self.work = tempfile.mkdtemp(prefix="weft-guest-")
        self.console = os.path.join(self.work, "console")
        self.qemu, self.agent, self.qmp = None, None, None
        self.programs, self.numbers, self.dead, self.stuck = {}, 0, False, False
        self.ready = False
        self.changed = threading.Condition()
        try:
            self._boot(folder)
        except BaseException:
            self.end()
            raise

    def _boot(self, folder):
        if shutil.which("qemu-system-x86_64") is None:
            raise Unavailable("there is no program qemu-system-x86_64 on this machine")
        addresses = self.network.guest_addresses
        words = [f"guest.addresses={addresses[4]}/24,{addresses[6]}/64",
                 f"guest.gateway={self.network.gateway}", f"guest.mtu={self.network.mtu}",
                 "console=ttyS0", "quiet", "panic=-1", "mitigations=off", "nokaslr"]
        mac = ":".join(["52", "54", "00"] + [f"{random.randrange(256):02x}" for _ in range(3)])
        paths = {name: os.path.join(self.work, name) for name in ("agent", "qmp")}
        self.said = open(os.path.join(self.work, "qemu"), "w+", encoding="utf-8")
        self.qemu = subprocess.Popen(
            # It must not outlive us, however we end.
            self.network.enter(["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]) +
            ["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
             # KVM is not to be relied on in a guest of a guest: tried only if asked for.
             "-accel", os.environ.get("WEFT_INTEROP_ACCEL", "tcg,thread=multi"),
             "-cpu", "max", "-smp", "2", "-m", "768",
             "-kernel", os.path.join(folder, "vmlinuz"),
             "-initrd", os.path.join(folder, f"{self.image}.img"), "-append", " ".join(words),
             "-serial", f"file:{self.console}",
             "-netdev", self.network.netdev(),
             "-device", f"virtio-net-pci,netdev=net,romfile=,mac={mac}",
             "-device", "virtio-serial-pci",
             "-chardev", f"socket,id=agent,path={paths['agent']},server=on,wait=off",
             "-device", "virtserialport,chardev=agent,name=agent",
             "-qmp", f"unix:{paths['qmp']},server=on,wait=off"],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT)
        self.agent = self._connect(paths["agent"])
        self.qmp = self._connect(paths["qmp"]).makefile("rw", encoding="utf-8")
        self.qmp.readline()  # the greeting
        self.command("qmp_capabilities")
        threading.Thread(target=self._read, daemon=True).start()
        self.wait_for(lambda: self.ready, BOOT_SECONDS, "the guest booting")
        expect("siw0" in self.run("rdma link"), f"no siw in the guest\n{self._console_end()}")

    def _connect(self, path):
        end = socket.socket(socket.AF_UNIX)

        def tried():
            expect(self.qemu.poll() is None, f"QEMU ended at once:\n{self._console_end()}")
            try:
                end.connect(path)
                return True
            except OSError:
                return False
        wait_until(tried, "QEMU listening")
        return end

    def _console_end(self):
        self.said.seek(0)
        text = self.said.read()
        if os.path.exists(self.console):
            with open(self.console, encoding="utf-8", errors="replace") as console:
                text += console.read()
        return text[-3000:]

    def _read(self):
        stream = self.agent.makefile("rb")
        while True:
            try:
                line = stream.readline()
            except OSError:
                line = b""
            with self.changed:
                if not line:
                    self.dead = True
                    self.changed.notify_all()
                    return
                what, number, value = line.split()
                program = self.programs.get(int(number))
                if what == b"ready":
                    self.ready = True
                elif what == b"out":
                    program.octets += stream.read(int(value))
                elif what == b"end":
                    program.code = os.waitstatus_to_exitcode(int(value))
                self.changed.notify_all()

    def wait_for(self, condition, seconds, what):
        with self.changed:
            there = self.changed.wait_for(lambda: condition() or self.dead, seconds)
        expect(not self.dead, f"the guest {'is stuck' if self.stuck else 'ended'}:\n"
                              f"{self._console_end()}")
        expect(there, f"{what}: not within {seconds:g} s")

    def send(self, octets):
        try:
            self.agent.sendall(octets)
        except OSError:
            raise Failure(f"the guest ended:\n{self._console_end()}") from None

    def start(self, script):
        """Starts a script of the guest's shell (busybox); returns its GuestProgram."""
        self.numbers += 1
        program = self.programs[self.numbers] = GuestProgram(self, self.numbers, script)
        octets = script.encode()
        self.send(f"run {self.numbers} {len(octets)}\n".encode() + octets)
        return program

    def program(self, *words):
        """Starts one program, whose process number then can be asked for."""
        line = shlex.join(str(word) for word in words)
        return self.start(f"ulimit -l unlimited; echo pid $$; exec {line}")

    def run(self, script, seconds=PATIENCE):
        """Runs a script and returns its output; a Failure unless it succeeds."""
        program = self.start(script)
        output = program.succeed(seconds).text()
        del self.programs[program.number]
        return output

    def put(self, path, to):
        with open(path, "rb") as file:
            octets = file.read()
        self.send(f"file {len(octets)} {to}\n".encode() + octets)

    def command(self, name, **arguments):
        """A command of QEMU's machine protocol."""
        self.qmp.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.qmp.flush()
        while True:
            answer = json.loads(self.qmp.readline() or '{"error": "QEMU ended"}')
            expect("error" not in answer, f"QEMU, {name}: {answer.get('error')}")
            if "return" in answer:
                return answer["return"]

    def monitor(self, line):
        said = self.command("human-monitor-command", **{"command-line": line})
        expect(not said.strip(), f"QEMU, {line}: {said}")

    def capture(self, path):
        """From here on, what passes the guest's interface goes to `path`, until capture_end()."""
        self.command("object-add", **{"qom-type": "filter-dump", "id": "dump", "netdev": "net",
                                      "file": path})

    def capture_end(self):
        self.command("object-del", id="dump")

    def kernel_log(self, seconds):
        """What the guest's kernel has logged in the last seconds."""
        uptime, *lines = self.run("cut -d' ' -f1 /proc/uptime; dmesg").splitlines()
        times = (re.match(r"\[ *(\d+\.\d+)\]", line) for line in lines)
        return [line for line, time in zip(lines, times)
                if time and float(time[1]) >= float(uptime) - seconds]

    def set_siw(self, **parameters):
        """siw's module parameters; each holds until it is set again."""
        self.run("cd /sys/module/siw/parameters && " +
                 " && ".join(f"echo {value} >{name}" for name, value in parameters.items()))

    def end(self):
        if self.qemu is not None:
            self.qemu.kill()
            self.qemu.wait()
        if self.agent is not None:
            self.agent.close()
        self.network.end()
        shutil.rmtree(self.work, ignore_errors=True)

