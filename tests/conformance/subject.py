"""The subject of a case: the program subject.c, started, told what to do and asked what it sees."""
import os
import select
import subprocess
import tempfile
import time

from failure import PATIENCE, Failure

# ibv_wc_status, in its order.
STATUSES = ("success", "local-length", "local-qp-op", "local-eec-op", "local-protection",
            "flushed", "window-bind", "bad-response", "local-access", "remote-invalid-request",
            "remote-access", "remote-operation")

# What a case may set, and the variable of weft that it stands for.
VARIABLES = {"crc": "WEFT_CRC", "markers": "WEFT_MARKERS", "revision": "WEFT_MPA_REVISION",
             "p2p": "WEFT_PEER_TO_PEER", "rtr": "WEFT_RTR",
             "startup-timeout-ms": "WEFT_STARTUP_TIMEOUT_MS", "strict": "WEFT_STRICT_RECEIVE"}


class Subject:
    def __init__(self, words, settings):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        self.variables = {VARIABLES[key]: value for key, value in settings.items()
                          if key in VARIABLES}
        environment.update(self.variables, LC_ALL="C")
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors)
        self.rest = b""

    def ask(self, command):
        """{key: value} of the answer; with the key "error" where it refused."""
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"the subject has ended: {self.status()}") from None
        words = self.line(command).split()
        if words[:1] == ["error"]:
            return {"error": words[-1], "call": " ".join(words[1:-1])}
        answer = {}
        for word in words[1:]:
            key, _, value = word.partition("=")
            answer[key] = value
        return answer

    def line(self, command):
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self.rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failure(f"the subject does not answer '{command[:200]}'")
            octets = os.read(self.process.stdout.fileno(), 1 << 20)
            if not octets:
                raise Failure(f"the subject ended in '{command[:200]}': {self.status()}")
            self.rest += octets
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def status(self):
        try:
            return f"exit status {self.process.wait(PATIENCE)}"
        except subprocess.TimeoutExpired:
            return "it still runs"

    def finish(self):
        """Lets it end by itself; a Failure unless it does, and well."""
        self.process.stdin.close()
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failure("the subject does not end when its input does") from None
        if code != 0:
            raise Failure(f"the subject ended badly: exit status {code}")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def said(self):
        """What it wrote to standard error."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")
