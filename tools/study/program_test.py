#!/usr/bin/env python3
"""Tests of weft study as a program: interrupted, resumed, on a full disk, with what fails.

usage: program_test.py WEFT      the real one, for the last test; the others use a stand-in
"""
import csv
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE = 120
WEFT = sys.argv.pop() if len(sys.argv) > 1 and not sys.argv[-1].startswith("-") else None
# Six points of one round.
SMALL = ("--only", "iwarp-t1", "--over", "loopback")
STEPS = 6


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out, self.log = self.folder / "out", self.folder / "log"
        self.log.touch()
        # The stand-in, a program of its own, is to find the python that this one has.
        path = os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"]))
        self.environment = {**os.environ, "FAKE_LOG": str(self.log), "PATH": path}

    def start(self, *words, limit=None, **environment):
        def limited():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return subprocess.Popen(
            [sys.executable, "-B", str(HERE / "main.py"), "--weft", str(HERE / "fake_weft.py"),
             "--out", str(self.out), *words], env={**self.environment, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=limited)

    def study(self, *words, status=0, says="", **more):
        process = self.start(*words, **more)
        output = "".join(process.communicate(timeout=PATIENCE))
        self.assertEqual(process.returncode, status, output)
        self.assertIn(says, output)
        self.assertNotIn("Traceback", output)
        return output

    def measured(self):
        return self.log.read_text("utf-8").splitlines()

    def journal(self):
        return [json.loads(line) for line in
                (self.out / "journal.jsonl").read_text("utf-8").splitlines()]

    def rows(self):
        return [entry for entry in self.journal() if "row" in entry]

    def until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, "it did not come about")
            time.sleep(0.02)

    def test_a_study_writes_page_json_csv_and_journal(self):
        self.study("--moment", *SMALL, says=f"{STEPS} measurements; the page is")
        self.assertEqual(sorted(os.listdir(self.out)),
                         ["journal.jsonl", "study.csv", "study.html", "study.json"])
        report = json.loads((self.out / "study.json").read_text("utf-8"))
        self.assertEqual(len(report["measured"]), STEPS)
        with open(self.out / "study.csv", encoding="utf-8", newline="") as file:
            self.assertEqual(len(list(csv.DictReader(file))), STEPS)
        self.assertEqual(len(self.measured()), STEPS)
        self.assertIn('id="iwarp-t1"', (self.out / "study.html").read_text("utf-8"))

    def test_all_sets_run_in_one_study(self):
        self.study("--moment", "--over", "loopback")
        report = json.loads((self.out / "study.json").read_text("utf-8"))
        self.assertEqual(len(report["sets"]), 15)
        self.assertEqual(report["not_measured"], [])

    def test_what_is_interrupted_is_kept_and_gone_on_with(self):
        for how in (signal.SIGINT, signal.SIGTERM):
            process = self.start("--moment", *SMALL, FAKE_HANG="3")
            self.until(lambda: len(self.measured()) == 3)
            process.send_signal(how)
            output = "".join(process.communicate(timeout=PATIENCE))
            self.assertEqual(process.returncode, 130, output)
            self.assertIn("interrupted", output)
            self.assertIn("--resume", output)
            kept = len(self.rows())
            self.assertEqual(kept, 2)
            self.assertTrue((self.out / "study.html").exists())
            self.assertEqual(json.loads((self.out / "study.json").read_text())["schema"],
                             "weft-study/1")
            self.log.write_text("")
            # Its kind is that of what is resumed.
            self.study("--resume", *SMALL, says=f"{STEPS - kept} measurements of {STEPS} to make")
            self.assertEqual(len(self.measured()), STEPS - kept)
            self.assertEqual(len({row["work"] for row in self.rows()}), STEPS)
            for file in self.out.iterdir():
                file.unlink()
            self.log.write_text("")

    def test_one_that_was_killed_while_it_wrote_is_gone_on_with(self):
        process = self.start("--moment", *SMALL, FAKE_HANG="3")
        self.until(lambda: len(self.measured()) == 3)
        process.kill()
        process.communicate(timeout=PATIENCE)
        path = self.out / "journal.jsonl"
        path.write_bytes(path.read_bytes() + b'{"medium": "loopb')
        self.study("--resume", *SMALL, says=f"{STEPS} measurements; the page is")
        self.assertEqual(len(self.rows()), STEPS)

    def test_a_whole_study_is_resumed_without_measuring(self):
        self.study("--moment", *SMALL)
        self.log.write_text("")
        self.study("--resume", *SMALL, says="0 measurements")
        self.assertEqual(self.measured(), [])

    def test_a_full_disk_keeps_what_was_measured_and_says_so(self):
        self.study("--moment", *SMALL)
        whole = (self.out / "journal.jsonl").stat().st_size
        for file in self.out.iterdir():
            file.unlink()
        output = self.study("--moment", *SMALL, limit=whole * 2 // 3, status=1,
                            says="what was measured until then is kept; make room and go on")
        self.assertIn("journal.jsonl: File too large", output)
        self.assertIn("cannot write", output)  # the page, which is larger
        kept = len(self.rows())  # every line is whole
        self.assertTrue(0 < kept < STEPS, kept)
        self.assertEqual([name for name in os.listdir(self.out) if name.endswith(".new")], [])
        self.study("--resume", *SMALL, says=f"{STEPS - kept} measurements of {STEPS} to make")
        self.assertEqual(len(self.rows()), STEPS)

    def test_output_that_cannot_be_written_is_a_failure(self):
        self.study("--moment", *SMALL)
        words = [sys.executable, "-B", str(HERE / "main.py"), "--weft", str(HERE / "fake_weft.py"),
                 "--out", str(self.out)]
        reader, unread = os.pipe()
        os.close(reader)
        with open("/dev/full", "wb") as full, open(unread, "wb") as unread:
            for options, says in ((["--list"], "the list"), (["--help"], "the help"),
                                  (["--page"], "to standard output")):
                for where in (full, unread, None):
                    def close(where=where):
                        if where is None:
                            os.close(1)
                    ran = subprocess.run([*words, *options], env=self.environment, stdout=where,
                                         stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
                                         check=False, preexec_fn=close)
                    self.assertRegex(ran.stderr, f"^weft: cannot write {says}: [^\n]*\n$")
                    self.assertEqual(ran.returncode, 1)
            # What it says beside its work may be lost.
            for where in (full, unread):
                ran = subprocess.run([*words, "--resume", *SMALL], env=self.environment,
                                     stdout=subprocess.PIPE, stderr=where, text=True,
                                     timeout=PATIENCE, check=False)
                self.assertEqual(ran.returncode, 0)
                self.assertIn("the page is", ran.stdout)
                ran = subprocess.run([*words, "--qick"], env=self.environment, stderr=where,
                                     timeout=PATIENCE, check=False)
                self.assertEqual(ran.returncode, 2)

    def test_an_interruption_is_never_a_traceback(self):
        def held_back():  # as weft starts it
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        for moment in range(20):
            process = subprocess.Popen(
                [sys.executable, "-B", str(HERE / "main.py"), "--weft",
                 str(HERE / "fake_weft.py"), "--list"], stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, preexec_fn=held_back)
            time.sleep(moment * 0.01)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=PATIENCE)[1]
            self.assertIn((process.returncode, said),
                          [(130, ""), (130, "weft: interrupted\n"), (0, "")])

    def test_an_interruption_between_any_two_lines_of_the_program_is_no_traceback(self):
        interrupted = """
import os, runpy, signal, sys
place, until = sys.argv[1], int(sys.argv[2])
passed = 0
def look(frame, event, _):
    global passed
    if frame.f_code.co_name != "program" or event not in ("line", "return"):
        return look if event == "call" else None
    passed += 1
    if passed == until:
        os.kill(os.getpid(), signal.SIGINT)
    return look
sys.argv[1:] = ["--weft", "fake", *sys.argv[3:]]
sys.path.insert(0, os.path.dirname(place))
sys.settrace(look)
try:
    runpy.run_path(place, run_name="__main__")
finally:
    os.write(1, b"" if passed < until else b"!")
"""
        for words in (["--list"], ["--qick"]):
            statuses = []
            for until in range(1, 30):
                ran = subprocess.run(
                    [sys.executable, "-B", "-c", interrupted, str(HERE / "main.py"), str(until),
                     *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
                self.assertNotIn("Traceback", ran.stderr)
                self.assertNotIn("Interrupt", ran.stderr)
                statuses.append(ran.returncode)
                if ran.returncode != 130 and not ran.stdout.endswith("!"):
                    break
            self.assertIn(130, statuses[:-1])
            self.assertNotEqual(statuses[-1], 130)  # the last was not interrupted

    def test_what_is_to_be_done_about_a_page_that_cannot_be_written(self):
        self.study("--moment", *SMALL)
        again = f"weft study --page --out {self.out}"
        guide = str(self.folder / "no" / "guide.md")
        self.study("--page", "--guide", guide, status=1,
                   says=f"No such file or directory; when that is mended: {again} --guide {guide}")
        self.study("--page", "--guide", "/dev/full/guide", status=1, says="when that is mended")

    def test_a_disk_without_any_room_is_said_at_once(self):
        self.study("--moment", *SMALL, limit=10, status=1, says="File too large")
        self.assertEqual(self.measured(), [])

    def test_a_point_that_fails_is_named_and_the_others_are_measured(self):
        self.study("--moment", *SMALL, says="1 points could not be measured",
                   FAKE_FAIL="--op write .*--size 8 .*--crc off")
        self.assertEqual(len(self.rows()), STEPS - 1)
        page = (self.out / "study.html").read_text("utf-8")
        self.assertIn("it cannot be", page)
        # Tried once more, it is there.
        self.study("--resume", *SMALL, says="1 measurements of 6 to make")
        self.assertNotIn("it cannot be", (self.out / "study.html").read_text("utf-8"))

    def test_a_study_in_which_everything_fails_ends_soon(self):
        self.study("--moment", "--over", "loopback", "--only", "rdma-1,rdma-2", status=1,
                   says="12 measurements one after the other failed", FAKE_FAIL=".")
        self.assertEqual(len(self.measured()), 12)

    def test_an_earlier_study_is_not_written_over(self):
        self.study("--moment", *SMALL)
        self.study("--moment", *SMALL, status=1, says="--resume goes on with it")
        self.study("--quick", "--resume", *SMALL, status=1, says="of another study: its kind is")
        self.assertEqual(len(self.rows()), STEPS)

    def test_what_cannot_be_is_refused(self):
        self.study("--resume", status=1, says="no ")
        self.study("--page", status=1, says="cannot read")
        self.study("--only", "rdma-0", status=2, says="is no set")
        self.study("--over", "token-ring", status=2, says="is no medium")
        self.study("--qick", status=2, says="did you mean --quick?")
        self.study("more", status=2, says="takes no argument more")
        self.study("--page", "--quick", status=2, says="measures nothing")
        self.out.write_text("a file")
        self.study("--moment", status=1, says="cannot make")

    def test_page_and_guide_are_written_again_from_the_journal_alone(self):
        self.study("--moment", *SMALL)
        before = (self.out / "study.html").read_text("utf-8")
        for name in ("study.html", "study.csv", "study.json"):
            (self.out / name).unlink()
        guide = self.folder / "guide.md"
        self.study("--page", "--guide", str(guide))
        self.assertEqual((self.out / "study.html").read_text("utf-8"), before)
        self.assertIn("(iwarp-t1, loopback: ", guide.read_text("utf-8"))

    def test_nobody_is_left_behind(self):
        process = self.start("--moment", *SMALL, FAKE_HANG="3")
        self.until(lambda: len(self.measured()) == 3)
        process.kill()
        process.communicate(timeout=PATIENCE)
        marker = f"FAKE_LOG={self.log}".encode()

        def left():
            found = []
            for entry in Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and marker in (entry / "environ").read_bytes():
                        found.append(entry.name)
                except OSError:
                    pass
            return found
        self.until(lambda: not left())

    def test_list_names_every_set(self):
        output = self.study("--list")
        for name in ("rdma-8", "iwarp-t2", "sockets-5", "offload-2", "--quick"):
            self.assertIn(name, output)

    @unittest.skipIf(WEFT is None, "no weft was named")
    def test_the_real_one_measures_each_kind_of_work(self):
        ran = subprocess.run([WEFT, "study", "--moment", "--out", str(self.out), "--over",
                              "loopback", "--only", "rdma-2,rdma-6,iwarp-t1,sockets-5,sockets-6,"
                              "offload-1"],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=8 * PATIENCE, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        report = json.loads((self.out / "study.json").read_text("utf-8"))
        self.assertEqual(report["not_measured"], [])
        self.assertEqual(len(report["sets"]) >= 4, True)
        self.assertEqual([entry for entry in self.journal() if "failed" in entry], [])

    @unittest.skipIf(WEFT is None, "no weft was named")
    def test_without_python_it_says_what_is_missing(self):
        ran = subprocess.run([WEFT, "study"], env={"PATH": str(self.folder)}, capture_output=True,
                             text=True, timeout=PATIENCE, check=False)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("the study needs python3, which is not here", ran.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
