#!/usr/bin/env python3
"""Runs dialogues: a scripted iWARP peer on a TCP socket against a program on the verbs.

usage: conform.py --subject PATH [--weft PATH/bin/weft] [--wrong] [--list] [-v] FILE [CASE]
--weft   starts the subject by `weft run`; without it, as it is
--wrong  every case has a line `fails "text"` and has to fail with that text
CASE     only cases whose name contains this
exit status: 0 all passed, 1 a case failed
"""
import argparse
import os
import shlex
import socket
import sys
import time

import language
import mpa
import rdmap
from failure import PATIENCE, Failure
from language import Mistake, is_octets, number_of, octets_of
from peer import Peer
from subject import STATUSES, Subject

ANY = object()
POSTED = ("send", "send-inv", "send-imm", "write", "write-imm", "read", "fetch-add", "cmp-swap",
          "local-inv")
SHOWN_OCTETS = 96
SHOWN_LINES = 120


def shown(value):
    if isinstance(value, bytes):
        text = value[:SHOWN_OCTETS].hex() + ("..." if len(value) > SHOWN_OCTETS else "")
        return f"{len(value)} octets {text}"
    return f"0x{value:x}" if isinstance(value, int) else str(value)


class Run:
    """One case in progress."""

    def __init__(self, case, words):
        self.case, self.transcript = case, []
        self.variables, self.frames = {}, {}
        self.peers, self.listener, self.port = {}, None, None
        self.address = case.settings.get("address", "127.0.0.1")
        self.subject = Subject(words, case.settings)

    def log(self, sign, octets):
        text = octets.decode() if octets in (b"fin", b"rst") else octets[:200].hex()
        cut = text if len(octets) <= 200 else f"{text}... ({len(octets)} octets)"
        self.transcript.append(f"      {sign} {cut}")

    def run(self):
        for line in self.case.lines:
            self.transcript.append(f"    {line.where}: {line.text}")
            try:
                self.step(line)
            except (Failure, Mistake) as reason:
                raise Failure(f"{line.where}: {line.text}\n  {reason}") from None
        self.subject.finish()
        for peer in self.peers.values():
            peer.drain()

    def step(self, line):
        if line.sign == "do":
            return self.do(line)
        if line.sign == "see":
            return self.see(line)
        if line.sign == "take":
            return self.peer("1").take(line.split()[1])
        direction, which = line.sign[0], line.sign[1:].rstrip("+") or "1"
        held = line.sign.endswith("+")
        if direction == ">":
            return self.say(line, which, held)
        return self.hear(line, which)

    # Values.

    def value(self, word):
        if word == "*":
            return ANY
        return octets_of(word) if is_octets(word) else number_of(word, self.variables)

    def fields(self, keyed, plain, into):
        """Puts the values of a line into `into`; what `into` does not know is a Mistake."""
        for key, word in keyed.items():
            if key not in into:
                raise Mistake(f"'{key}' is no field here: {', '.join(into)}")
            into[key] = word if key == "rtr" and word not in ("*",) else self.value(word)
        if len(plain) > 1:
            raise Mistake(f"only one word can be the data, join them by &: {' '.join(plain)}")
        for word in plain:
            into["data"] = self.value(word)
        return into

    def compare(self, wanted, got):
        """Field by field, every octet that came. Failure: what differs."""
        differences = []
        for key, found in got.items():
            value = wanted.get(key)
            if value is ANY:
                continue
            if value != found:
                expected = "nothing" if value is None else shown(value)
                differences.append(f"{key}: expected {expected}, got {shown(found)}")
        missing = [key for key, value in wanted.items()
                   if key not in got and value is not None and value is not ANY]
        differences += [f"{key}: expected {shown(wanted[key])}, got nothing" for key in missing]
        if differences:
            raise Failure("\n  ".join(differences))

    # The subject.

    def ask(self, command, **keys):
        words = [command] + [f"{key}={value}" for key, value in keys.items()]
        return self.subject.ask(" ".join(words))

    def place(self, word):
        """m+4 -> the memory's name and the offset."""
        name, _, offset = word.partition("+")
        return name, number_of(offset or "0", self.variables)

    def do(self, line):
        plain, keyed = line.split()
        command, plain = plain[0], plain[1:]
        fails = keyed.pop("fails", None)
        keys = {}
        for key, word in keyed.items():
            textual = key in ("rights", "flags", "state", "from", "address")
            keys[key] = word if textual else number_of(word, self.variables)
        if command in ("memory", "put", "reregister", "deregister"):
            keys["name"], keys["offset"] = self.place(plain.pop(0))
        if "from" in keys:
            keys["from"], keys["offset"] = self.place(keys["from"])
        for word in plain:
            keys["data"] = octets_of(word).hex()
        if command in POSTED:
            command, keys["op"] = "post", command
        if command in ("listen", "resolve"):
            keys["address"] = self.address
        if command == "resolve":
            keys["port"] = self.listen()
        answer = self.ask(command, **keys)
        if answer.get("error") != fails:
            raise Failure(f"expected {fails or 'success'}, got {answer}")
        if command == "listen":
            self.port = int(answer["port"])
        if command == "memory" and not fails:
            self.variables[f"{keys['name']}.stag"] = int(answer["stag"], 0)
            self.variables[f"{keys['name']}.to"] = int(answer["to"], 0)

    def see(self, line):
        plain, keyed = line.split()
        what, plain = plain[0], plain[1:]
        if what == "no":
            return self.see_answer(self.ask(plain[0], wait=0, **keyed), {"none": "1"})
        if what == "wake":
            return self.see_answer(self.ask("wake", **keyed), {"woken": "1"})
        if what == "completion":
            return self.see_completion(keyed)
        if what == "memory":
            return self.see_memory(plain)
        if what == "state":
            return self.see_state(plain[0], keyed)
        if what == "async":
            return self.see_answer(self.ask("async"), {"event": plain[0]})
        self.see_event(what, plain, keyed)

    def see_event(self, what, plain, keyed):
        identity = keyed.get("id", "1")
        shape = {key: keyed.pop(key) for key in ("pd", "cq") if key in keyed}
        name = {"request": "CONNECT_REQUEST"}.get(what, what.upper().replace("-", "_"))
        wanted = {"event": f"RDMA_CM_EVENT_{name}", "id": identity}
        wanted.update({key: str(number_of(word, self.variables)) for key, word in keyed.items()})
        for word in plain:
            wanted["data"] = octets_of(word).hex()
        self.see_answer(self.ask("event", id=identity, **shape), wanted)

    def see_completion(self, keyed):
        answer = self.ask("completion", id=keyed.pop("id", 1))
        if "status" in answer:
            answer["status"] = STATUSES[int(answer["status"])]
        wanted = {"status": "success"}
        for key, word in keyed.items():
            textual = key in ("status", "op")
            wanted[key] = word if textual else str(number_of(word, self.variables))
        for key in {"invalidated", "imm"} & set(wanted):
            wanted[key] = hex(int(wanted[key]))
        self.see_answer(answer, wanted)

    def see_memory(self, plain):
        if len(plain) != 2:
            raise Mistake("write see memory m+4 OCTETS, which are one word, joined by &")
        name, offset = self.place(plain[0])
        wanted = octets_of(plain[1])
        got = bytes.fromhex(self.ask("get", name=name, offset=offset, size=len(wanted))["data"])
        self.compare({"memory": wanted}, {"memory": got})

    def see_state(self, wanted, keyed):
        """States follow events, so they are asked for until they are there."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self.ask("query", id=keyed.get("id", 1))
            if answer.get("state") == wanted or time.monotonic() > deadline:
                break
            time.sleep(0.001)
        self.see_answer(answer, {"state": wanted,
                                 **{key: word for key, word in keyed.items() if key != "id"}})

    @staticmethod
    def see_answer(answer, wanted):
        wrong = [f"{key}: expected {value}, got {answer.get(key, 'nothing')}"
                 for key, value in wanted.items() if answer.get(key) != value]
        if wrong:
            raise Failure("\n  ".join(wrong) + f"\n  the subject says {answer}")

    # The peer's sockets.

    def new_socket(self):
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        if "window" in self.case.settings:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(self.case.settings["window"]))
        if "mss" in self.case.settings:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, int(self.case.settings["mss"]))
        return made

    def listen(self):
        if self.listener is None:
            self.listener = self.new_socket()
            self.listener.bind((self.address, 0))
            self.listener.listen(8)
            self.listener.settimeout(PATIENCE)
        return self.listener.getsockname()[1]

    def peer(self, which):
        if which not in self.peers:
            raise Mistake(f"connection {which} was not begun: write > connect or < connect first")
        return self.peers[which]

    def begin(self, which, connection):
        if which in self.peers:
            if not self.peers[which].ended:
                raise Mistake(f"connection {which} has not ended: number the new one otherwise")
            self.peers[which].close()
        self.peers[which] = Peer(connection, self.log)

    # What the peer says.

    def say(self, line, which, held):
        plain, keyed = line.split()
        kind, plain = plain[0], plain[1:]
        pieces = int(keyed.pop("pieces", "0"))
        label = keyed.pop("as", "last")
        if kind == "connect":
            connection = self.new_socket()
            connection.settimeout(PATIENCE)
            connection.connect((self.address, self.port))
            return self.begin(which, connection)
        peer = self.peer(which)
        if kind in ("fin", "rst"):
            return peer.end(kind)
        if kind in ("request", "reply"):
            return peer.send_startup(self.startup(kind, plain, keyed), held, pieces)
        if kind == "raw":
            return peer.send(octets_of(plain[0]), held, pieces)
        knobs = {}
        for key in ("length", "marker", "marker-reserved", "cut"):
            if key in keyed:
                knobs[key] = number_of(keyed.pop(key), self.variables)
        if "pad" in keyed:
            knobs["pad"] = octets_of(keyed.pop("pad"))
        if "crc" in keyed:
            knobs["crc"] = keyed.pop("crc")
        if kind == "fpdu":
            ulpdu = octets_of(plain[0])
        else:
            ulpdu = self.segment(peer.send_msn, kind, plain, keyed)
        self.frames[label] = self.frames["last"] = ulpdu
        return peer.send_ulpdu(ulpdu, knobs, held, pieces)

    def startup(self, kind, plain, keyed):
        enhanced = any(key in keyed for key in ("ird", "ord", "a", "rtr"))
        frame = {"key": mpa.REQUEST_KEY if kind == "request" else mpa.REPLY_KEY, "m": 0, "c": 1,
                 "r": 0, "s": int(enhanced), "reserved": 0, "rev": 2 if enhanced else 1,
                 "length": None, "bare": None}
        if enhanced:
            frame.update(a=0, rtr="none", ird=None, ord=None)
        frame["data"] = b""
        return self.fields(keyed, plain, frame)

    def segment(self, msns, kind, plain, keyed):
        """A ULPDU by its fields; the message number counts by itself where none is given."""
        if kind not in rdmap.KINDS:
            raise Mistake(f"the peer cannot say {kind}")
        self.expand_terminate(kind, keyed)
        fields = self.fields(keyed, plain, rdmap.defaults(kind))
        if not fields["t"] and fields.get("msn") is None:
            fields["msn"] = self.number(msns, rdmap.KINDS[kind][2], fields["last"])
        return rdmap.ulpdu_octets(fields)

    @staticmethod
    def number(msns, queue, last):
        """The next message number of this queue and direction."""
        now = msns.get(queue, 1)
        if last:
            msns[queue] = now + 1 & 0xFFFFFFFF
        return now

    def expand_terminate(self, kind, keyed):
        """error=1/1/02 headers=MD quotes=bad -> the fields of a Terminate."""
        if kind != "terminate" or "error" not in keyed:
            return
        layer, etype, code = (int(part, 16) for part in keyed.pop("error").split("/"))
        headers, advanced = keyed.pop("headers", ""), keyed.pop("advanced", "0")
        keyed.update(layer=str(layer), etype=str(etype), code=str(code))
        for letter in headers.lower():
            keyed[letter] = "1"
        if headers:
            quoted = self.frames[keyed.pop("quotes", "last")]
            quoted = rdmap.advance(quoted, number_of(advanced, self.variables))
            keyed["data"] = "hex:" + rdmap.quotation(quoted, headers).hex()

    # What the peer hears.

    def hear(self, line, which):
        plain, keyed = line.split()
        kind, plain = plain[0], plain[1:]
        if kind == "connect":
            try:
                connection, _ = self.listener.accept()
            except socket.timeout:
                raise Failure(f"nobody connects in {PATIENCE:g} s") from None
            return self.begin(which, connection)
        peer = self.peer(which)
        if kind in ("fin", "rst", "end"):
            return peer.expect_end(kind)
        if kind == "nudge":
            _, _, fields = peer.read_ulpdu(skips_nudges=False)
            return self.compare({**rdmap.defaults("write"), "stag": 1, "to": 0}, fields)
        if kind == "nothing":
            peer.nudges_over = keyed.get("nudges") == "none"
            return peer.silent(int(plain[0]))
        if kind in ("request", "reply"):
            wanted = self.startup(kind, plain, keyed)
            del wanted["length"], wanted["bare"]
            try:
                return self.compare(wanted, peer.read_startup())
            except mpa.Breach as breach:
                raise Failure(str(breach)) from None
        if kind not in rdmap.KINDS:
            raise Mistake(f"the peer cannot hear {kind}")
        label, whole, rest = (keyed.pop(key, None) for key in ("as", "whole", "rest"))
        fields = self.segment_heard(peer, kind, label)
        while (whole and not fields["last"]) or (rest and peer.next_kind() == kind):
            self.join(fields, self.segment_heard(peer, kind, label))
        self.variables[f"{label or 'heard'}.octets"] = len(fields["data"])
        if "request" in fields:
            self.variables[f"{label or 'heard'}.request"] = fields["request"]
        self.expand_terminate(kind, keyed)
        wanted = self.fields(keyed, plain, rdmap.defaults(kind))
        if not wanted["t"] and wanted["msn"] is None:
            wanted["msn"] = self.number(peer.receive_msn, wanted["qn"], fields["last"])
        self.compare(wanted, fields)

    def segment_heard(self, peer, kind, label):
        ulpdu, found, fields = peer.read_ulpdu()
        self.frames[label or "heard"] = ulpdu
        if found != kind:
            raise Failure(f"expected {kind}, got {found} {fields}\n  {ulpdu.hex()}")
        return fields

    def join(self, message, segment):
        """Adds the next segment of the same message: all as before, the offset grown."""
        offset = "to" if message["t"] else "mo"
        wanted = {**message, offset: message[offset] + len(message["data"]), "data": ANY,
                  "last": ANY}
        self.compare(wanted, segment)
        message["last"] = segment["last"]
        message["data"] += segment["data"]

    # The end.

    def end(self):
        self.subject.end()
        for peer in self.peers.values():
            peer.close()
        if self.listener:
            self.listener.close()

    def report(self):
        shown_lines = self.transcript
        if len(shown_lines) > SHOWN_LINES:
            shown_lines = [f"    [{len(shown_lines) - SHOWN_LINES} lines]",
                           *shown_lines[-SHOWN_LINES:]]
        lines = ["  the dialogue:", *shown_lines]
        said = self.subject.said()
        if said:
            lines += ["  the subject said:", *(f"    {line}" for line in said.splitlines())]
        settings = [f"{name}={value}" for name, value in sorted(self.subject.variables.items())]
        lines.append(f"  its settings: {' '.join(settings) or 'none'}")
        return "\n".join(lines)


def can_be_had(address):
    """Whether this machine has the address; ::1 may be switched off."""
    try:
        socket.create_server((address, 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def run_case(case, words, wrong, verbose):
    """(result, text) of one case."""
    address = case.settings.get("address", "127.0.0.1")
    if ":" in address and not can_be_had(address):
        return "skipped", f": there is no address {address} on this machine"
    run, failure = Run(case, words), None
    try:
        run.run()
    except Failure as reason:
        failure = str(reason)
    except Exception:
        run.end()
        raise
    run.end()
    if wrong:
        if failure is not None and case.fails and case.fails in failure:
            return "passed", ""
        return "FAILED", f": should fail with '{case.fails}', but\n  {failure}\n{run.report()}"
    if failure is not None:
        return "FAILED", f":\n  {failure}\n{run.report()}"
    return "passed", f"\n{run.report()}" if verbose else ""


def main():
    parser = argparse.ArgumentParser(description="dialogues of a scripted iWARP peer")
    parser.add_argument("--subject", help="the program under test")
    parser.add_argument("--weft", help="start it by this program's `run`")
    parser.add_argument("--wrong", action="store_true", help="every case has to fail as it says")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("-v", action="store_true", help="show the dialogues of passed cases too")
    parser.add_argument("file")
    parser.add_argument("case", nargs="?", default="")
    arguments = parser.parse_args()
    try:
        cases = [case for case in language.read_cases(arguments.file)
                 if arguments.case in case.name]
    except Mistake as reason:
        sys.exit(str(reason))
    if arguments.list:
        print("\n".join(f"{case.name} [{', '.join(case.tags)}]" for case in cases))
        return 0
    if not cases or not arguments.subject:
        parser.error("no such case" if arguments.subject else "--subject is missing")
    words = [os.path.abspath(arguments.subject)]
    if arguments.weft:
        words = [os.path.abspath(arguments.weft), "run", "--"] + words
    results = {"passed": 0, "FAILED": 0, "skipped": 0}
    for case in cases:
        began = time.monotonic()
        result, text = run_case(case, words, arguments.wrong, arguments.v)
        results[result] += 1
        print(f"{result} {case.name} ({time.monotonic() - began:.2f} s){text}", flush=True)
    if results["FAILED"]:
        print(f"to replay one: {shlex.join(sys.argv)} CASE")
    print(", ".join(f"{count} {result.lower()}" for result, count in results.items()))
    return 1 if results["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
