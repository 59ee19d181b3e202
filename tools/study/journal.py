"""What was measured, line by line as it is finished, so that nothing that ended well is lost.

The first line says what the study is (its kind, machine and program); each other line is one
measurement. A line is on the disk before the next measurement begins.
"""
import json
import os

SCHEMA = "weft-study-journal/1"


class Unusable(Exception):
    """The journal cannot be begun or gone on with; the text says why."""


class Full(Exception):
    """A line could not be written; the text says why. What stood before still stands."""


def read(path):
    """(head, entries, octets that are whole lines). A line cut short ends what is read."""
    with open(path, "rb") as file:
        octets = file.read()
    whole, head, entries = 0, None, []
    for line in octets.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            entry = json.loads(line)
        except ValueError:
            break
        if not isinstance(entry, dict):
            break
        if head is None:
            head = entry
        else:
            entries.append(entry)
        whole += len(line)
    if head is None or head.get("schema") != SCHEMA:
        raise Unusable(f"{path} is no journal of a study")
    return head, entries, whole


class Journal:
    """Open for appending. entries: all that stand in it."""

    def __init__(self, path, head):
        """Begins a new one; there must be none."""
        self.path, self.head, self.entries = path, {"schema": SCHEMA, **head}, []
        try:
            self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise Unusable(f"{path} stands there already: --resume goes on with it, or take "
                           "another --out") from None
        except OSError as error:
            raise Unusable(f"cannot write {path}: {error.strerror}") from None
        self.end = 0
        self.write(self.head)

    @classmethod
    def resume(cls, path, head):
        """Goes on with one, if it is of the same study: figures of two must not be mixed."""
        try:
            found, entries, whole = read(path)
        except FileNotFoundError:
            raise Unusable(f"there is no {path} to go on with") from None
        except OSError as error:
            raise Unusable(f"cannot read {path}: {error.strerror}") from None
        for key, value in head.items():
            if found.get(key) != json.loads(json.dumps(value)):
                raise Unusable(f"{path} is of another study: its {key} is {found.get(key)}, and "
                               f"now it is {value}; take another --out")
        journal = cls.__new__(cls)
        journal.path, journal.head, journal.entries = path, found, entries
        try:
            journal.fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unusable(f"cannot write {path}: {error.strerror}") from None
        journal.end = whole
        os.ftruncate(journal.fd, whole)
        return journal

    def append(self, entry):
        self.write(entry)
        self.entries.append(entry)

    def write(self, entry):
        octets = (json.dumps(entry, separators=(",", ":")) + "\n").encode()
        try:
            done = 0
            while done < len(octets):
                done += os.pwrite(self.fd, octets[done:], self.end + done)
            os.fsync(self.fd)
        except OSError as error:
            # Half a line is no measurement.
            try:
                os.ftruncate(self.fd, self.end)
            except OSError:
                pass  # a reader passes over it
            raise Full(f"cannot write {self.path}: {error.strerror}") from None
        self.end += len(octets)

    def close(self):
        os.close(self.fd)


def done(entries):
    """{(medium, work's name, round): row} of what was measured; the last word counts."""
    return {(entry["medium"], entry["work"], entry["round"]): entry["row"]
            for entry in entries if "row" in entry}


def failures(entries):
    """{(medium, work's name): why} of what was never measured."""
    measured = {(medium, work) for medium, work, _ in done(entries)}
    return {(entry["medium"], entry["work"]): entry["failed"] for entry in entries
            if "failed" in entry and (entry["medium"], entry["work"]) not in measured}
