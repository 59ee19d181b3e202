#!/usr/bin/env python3
"""Tests of the study without measuring: journal, order, verdicts both ways, tables, page, plots."""
import csv
import io
import json
import math
import os
import random
import re
import statistics
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

import charts
import claims
import export
import guide
import journal
import made_up
import main
import medium as media
import page
import plan
from claims import Compare, Data
from sets import BY_NAME, OPERATIONS, SETS
from work import LESS_IS_BETTER, METRICS, blast, ping, tcp

HEAD = {"kind": "moment", "rounds": 1}
ROUNDS = plan.KINDS["quick"].rounds


class Journal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "journal.jsonl")

    def begun(self, *entries):
        book = journal.Journal(self.path, HEAD)
        for entry in entries:
            book.append(entry)
        book.close()

    def test_what_was_appended_is_read_back(self):
        self.begun({"a": 1}, {"a": 2})
        head, entries, whole = journal.read(self.path)
        self.assertEqual(head["kind"], "moment")
        self.assertEqual(entries, [{"a": 1}, {"a": 2}])
        self.assertEqual(whole, os.path.getsize(self.path))

    def test_a_line_cut_short_anywhere_costs_that_line_alone(self):
        self.begun({"a": 1}, {"a": 22})
        octets = Path(self.path).read_bytes()
        last = octets.rstrip(b"\n").rfind(b"\n") + 1
        for end in range(last, len(octets)):
            Path(self.path).write_bytes(octets[:end])
            book = journal.Journal.resume(self.path, HEAD)
            self.assertEqual(book.entries, [{"a": 1}], end)
            book.append({"a": 3})
            book.close()
            self.assertEqual(journal.read(self.path)[1], [{"a": 1}, {"a": 3}], end)

    def test_octets_that_are_no_json_end_what_is_read(self):
        self.begun({"a": 1})
        with open(self.path, "ab") as file:
            file.write(b"\0\0\0\n{}\n")
        self.assertEqual(journal.read(self.path)[1], [{"a": 1}])

    def test_an_earlier_study_is_not_written_over(self):
        self.begun()
        with self.assertRaisesRegex(journal.Unusable, "--resume"):
            journal.Journal(self.path, HEAD)

    def test_another_machines_study_is_not_gone_on_with(self):
        self.begun()
        with self.assertRaisesRegex(journal.Unusable, "its rounds is 1, and now it is 2"):
            journal.Journal.resume(self.path, {**HEAD, "rounds": 2})

    def test_what_is_no_journal_is_left_alone(self):
        for octets in (b"", b"{}\n", b"hello\n", b'{"schema": "weft-study-journal/1"}',
                       b"[1]\n"):
            Path(self.path).write_bytes(octets)
            with self.assertRaises(journal.Unusable):
                journal.Journal.resume(self.path, HEAD)
            self.assertEqual(Path(self.path).read_bytes(), octets)
        with self.assertRaisesRegex(journal.Unusable, "no .* to go on with"):
            journal.Journal.resume(self.path + ".not", HEAD)

    def test_a_full_disk_is_said_and_half_a_line_is_taken_back(self):
        self.begun({"a": 1})
        book = journal.Journal.resume(self.path, HEAD)
        kept, os_pwrite = os.path.getsize(self.path), os.pwrite
        calls = []

        def full(fd, octets, at):
            calls.append(len(octets))
            if len(calls) > 1:
                raise OSError(28, "No space left on device")
            return os_pwrite(fd, octets[:3], at)
        os.pwrite = full
        try:
            with self.assertRaisesRegex(journal.Full, "No space left on device"):
                book.append({"a": 2})
        finally:
            os.pwrite = os_pwrite
        book.close()
        self.assertEqual(os.path.getsize(self.path), kept)
        self.assertEqual(book.entries, [{"a": 1}])

    def test_a_failure_that_was_mended_is_none(self):
        key = {"medium": "m", "work": "w"}
        entries = [{**key, "round": 1, "failed": "no"}, {**key, "round": 1, "row": {"a": 1}},
                   {"medium": "m", "work": "v", "round": 1, "failed": "never"}]
        self.assertEqual(journal.done(entries), {("m", "w", 1): {"a": 1}})
        self.assertEqual(journal.failures(entries), {("m", "v"): "never"})


class Order(unittest.TestCase):
    def test_each_point_is_measured_once_in_each_round(self):
        for kind in plan.KINDS.values():
            steps = plan.steps(plan.chosen((), ()), list(made_up.MEDIUMS), kind)
            keys = [step.key() for step in steps]
            self.assertEqual(len(keys), len(set(keys)))
            per_round = {number: {step.key()[:2] for step in steps if step.round == number}
                         for number in range(1, kind.rounds + 1)}
            self.assertTrue(all(found == per_round[1] for found in per_round.values()))

    def test_baseline_and_subject_follow_each_other_and_take_turns_to_be_first(self):
        steps = plan.steps([BY_NAME["iwarp-t1"]], ["loopback"], plan.KINDS["quick"])
        orders = [["tcp" if step.work.over == "tcp" else step.work.crc for step in steps
                   if step.round == number and step.work.size == 8] for number in (1, 2)]
        self.assertEqual(orders, [["on", "off", "tcp"], ["tcp", "off", "on"]])

    def test_quick_is_expected_to_end_a_minute_before_ten(self):
        steps = plan.steps(plan.chosen((), ()), list(made_up.MEDIUMS), plan.KINDS["quick"])
        self.assertLess(plan.duration(steps, plan.KINDS["quick"]), 540)

    def test_sets_of_parts_that_are_not_built_are_left_out(self):
        self.assertNotIn("sockets-5", [one.name for one in plan.chosen((), ())])
        self.assertEqual([one.name for one in plan.chosen(["rdma-3"], ())], ["rdma-3"])
        self.assertEqual([one.name for one in plan.chosen(["sockets-6"], {"sockets"})],
                         ["sockets-6"])

    def test_a_library_beneath_the_sockets_is_beneath_those_of_that_work_alone(self):
        under, plain, own = BY_NAME["sockets-5"].series
        self.assertEqual(media.program("weft", own.work),
                         ["weft", "run", "--sockets", "--", "weft"])
        self.assertIn("--over sockets --op write", own.work.name())
        self.assertEqual(media.program("weft", plain.work), ["weft"])
        self.assertEqual(media.program("weft", under.work),
                         ["weft", "run", "--sockets", "--iwarp-port", "1-65535", "--", "weft"])
        self.assertNotEqual(plain.work.name(), under.work.name())

    def test_a_device_with_its_own_verbs_is_not_asked_for_what_is_wefts(self):
        works = [step.work for step in plan.steps(plan.chosen((), {"sockets"}), ["device-siw0"],
                                                  plan.KINDS["quick"])]
        self.assertEqual({(work.crc, work.through) for work in works}, {("on", "")})
        self.assertIn("write", {work.op for work in works})
        device = media.Medium("device-siw0", "siw0", "10.0.0.1", verbs="system")
        self.assertEqual(device.settings(works[0]), ["--verbs", "system"])
        self.assertEqual(device.settings(tcp(works[0])), [])

    def test_no_two_works_have_one_name(self):
        works = {work for one in SETS for kind in (True, False)
                 for group in one.points("loopback", kind) for work in group}
        names = {work.name() for work in works}
        self.assertEqual(len(names), len({(work.name(), work) for work in works}))

    def test_names_say_what_the_client_is_told(self):
        self.assertEqual(ping("read", passive="poll", size=8).name(),
                         "ping --op read --wait poll --size 8 --passive poll --crc on")
        self.assertEqual(blast("send", post="list:32", signal="periodic").name(),
                         "blast --op send --wait poll --size 64K --outstanding 64 --post list:32 "
                         "--signal periodic --crc on")
        self.assertEqual(tcp(blast(crc="off")).name(),
                         "blast --over tcp --wait poll --size 64K --outstanding 64")

    def test_durations_are_said_in_words(self):
        for seconds, words in ((0, "1 s"), (89, "89 s"), (600, "10 min"), (5400, "1 h 30 min")):
            self.assertEqual(plan.time_text(seconds), words)


def data_of(values, metric="gbps"):
    """Data of {work: [value of each round]} on one medium."""
    rows = {}
    for work, found in values.items():
        for number, value in enumerate(found, 1):
            rows["m", work.name(), number] = made_up.row_of(work, value)
    return Data(rows)


ALL_CLAIMS = [(one, claim) for one in SETS for claim in one.claims]


class Verdicts(unittest.TestCase):
    CLAIM = Compare("c", "advice", "gbps", blast("write"), blast("read"), "yes {gain}",
                    "same {gain}", "no {loss}", (64, 1024))

    def judged(self, better, than, claim=CLAIM, margin=None):
        values = {}
        for size in claim.sizes:
            values[claim.better.at(size=size)] = better
            values[claim.than.at(size=size)] = than
        return claim.judge(data_of(values), "m")

    def test_more_throughput_is_better_and_more_time_is_worse(self):
        self.assertEqual(self.judged([4], [2]).sentence, "yes 2.0")
        self.assertEqual(self.judged([2], [4]).sentence, "no 2.0")
        for metric in LESS_IS_BETTER - {"time"}:
            claim = Compare("c", "a", metric, blast("write"), blast("read"), "yes {gain}", "",
                            "no {loss}", (64,))
            self.assertEqual(self.judged([4], [2], claim).sentence, "no 2.0", metric)
            self.assertEqual(self.judged([2], [4], claim).sentence, "yes 2.0", metric)

    def test_a_small_difference_is_none(self):
        self.assertEqual(self.judged([1.04] * 3, [1] * 3).verdict, "same")
        self.assertEqual(self.judged([1.06] * 3, [1] * 3).verdict, "yes")
        self.assertEqual(self.judged([1 / 1.04] * 3, [1] * 3).verdict, "same")
        self.assertEqual(self.judged([1 / 1.06] * 3, [1] * 3).verdict, "no")

    def test_what_the_rounds_do_not_agree_on_is_left_open(self):
        found = self.judged([2, 2, 0.9], [1] * 3)
        self.assertEqual(found.verdict, "open")
        self.assertEqual(found.sentence, "The rounds do not agree on whether advice: 2.0.")
        self.assertEqual(self.judged([2, 2, 2, 2, 0.9], [1] * 5).verdict, "yes")
        self.assertEqual(self.judged([2, 2, 2, 0.9, 0.9], [1] * 5).verdict, "open")
        # Nor is it no difference when one round says twice and another half.
        self.assertEqual(self.judged([2, 1, 0.5], [1] * 3).verdict, "open")
        self.assertEqual(self.judged([1.1, 1, 0.9], [1] * 3).verdict, "same")

    def test_a_round_twice_as_slow_changes_nothing_when_both_are(self):
        found = self.judged([2, 1, 4], [1, 0.5, 2])
        self.assertEqual((found.verdict, found.low, found.high), ("yes", 2, 2))

    def test_what_was_not_measured_has_no_verdict(self):
        self.assertIsNone(self.judged([], []))
        self.assertIsNone(self.judged([1], []))
        self.assertIsNone(self.judged([0], [1]))
        for one, claim in ALL_CLAIMS:
            self.assertIsNone(claim.judge(Data({}), "loopback"), claim.name)

    def test_every_comparison_of_the_sets_goes_both_ways(self):
        for one, claim in ALL_CLAIMS:
            if not isinstance(claim, Compare):
                continue
            less = claim.metric in LESS_IS_BETTER
            good, bad = ([1] * 3, [2] * 3) if less else ([2] * 3, [1] * 3)
            self.assertEqual(self.judged(good, bad, claim).verdict, "yes", claim.name)
            self.assertEqual(self.judged(bad, good, claim).verdict, "no", claim.name)
            self.assertEqual(self.judged(good, good, claim).verdict, "same", claim.name)

    def both_ways(self, name, yes, no):
        claim, = [claim for _, claim in ALL_CLAIMS if claim.name == name]
        for values, wanted in ((yes, "yes"), (no, "no")):
            found = claim.judge(data_of(values), "m")
            self.assertEqual(found.verdict, wanted, f"{name}: {found.sentence}")
            self.assertNotIn("{", found.sentence)

    def test_large_messages_are_alike_or_not(self):
        ops = ("send", "write", "write-imm", "read")
        works = [blast(op, size=1 << 20) for op in ops]
        self.both_ways("large-alike", {work: [10 + i] for i, work in enumerate(works[:2])},
                       {work: [10 + 2 * i] for i, work in enumerate(works)})

    def test_one_message_outstanding_is_enough_or_not(self):
        for name, work in (("4K", blast(size=4096)), ("64K", blast()), ("read", blast("read"))):
            counts = [work.at(outstanding=count) for count in (1, 2, 4, 64)]
            self.both_ways(f"outstanding-{name}", dict(zip(counts, ([1], [2], [4], [4.1]))),
                           dict(zip(counts, ([4], [4.1], [3], [2]))))

    def test_rounds_that_disagree_leave_other_judgements_open_too(self):
        large = [blast(op, size=1 << 20) for op in OPERATIONS.values()]
        one, other = ping("write", size=8), tcp(ping(size=8))
        counts = [blast(outstanding=count) for count in (1, 4, 64)]
        for name, values in (
                ("large-alike", {large[0]: [10, 10, 10], large[1]: [10, 20, 5]}),
                ("passive-idle", {blast(wait="event", size=1 << 20): [3, 5, 80]}),
                ("latency-to-tcp", {one: [4, 4, 8], other: [4, 4, 4]}),
                ("outstanding-64K", dict(zip(counts, ([1, 1, 4], [2, 2, 4], [2, 2, 4])))),
                ("chunks-sender", {blast(wait="event", size=1024): [2, 1, 2],
                                   blast(wait="event", size=256 * 1024): [1, 2, 1]})):
            claim, = [claim for _, claim in ALL_CLAIMS if claim.name == name]
            found = claim.judge(data_of(values), "m")
            self.assertEqual(found.verdict, "open", f"{name}: {found.sentence}")
            self.assertIn("do not agree", found.sentence)

    def test_the_passive_side_is_idle_or_not(self):
        work = blast(wait="event", size=1 << 20)
        self.both_ways("passive-idle", {work: [3]}, {work: [80]})

    def test_iwarp_adds_little_or_much(self):
        one, other = ping("write", size=8), tcp(ping(size=8))
        self.both_ways("latency-to-tcp", {one: [4.4], other: [4]}, {one: [6], other: [4]})

    def test_chunks_matter_or_the_other_way_round(self):
        small, large = (blast(wait="event", size=size) for size in (1024, 256 * 1024))
        for side in ("sender", "receiver"):
            self.both_ways(f"chunks-{side}", {small: [2], large: [1]}, {small: [1], large: [2]})

    def test_every_claim_rests_on_points_that_are_measured(self):
        for kind in (plan.KINDS["quick"], plan.KINDS["thorough"]):
            measured = {step.work.name() for step in
                        plan.steps(plan.chosen((), {"sockets"}), ["loopback"], kind)}
            for _, claim in ALL_CLAIMS:
                missing = [work.name() for work in claim.works() if work.name() not in measured]
                # Of a list of counts some are enough.
                few = isinstance(claim, claims.Judge) and len(missing) < len(claim.works()) - 1
                self.assertTrue(not missing or few, f"{claim.name}: {missing}")

    def test_names_are_given_once(self):
        names = [claim.name for _, claim in ALL_CLAIMS]
        self.assertEqual(len(names), len(set(names)))


def random_result(seed, **more):
    choose = random.Random(seed)
    return made_up.result(lambda step: choose.choice((0.01, 1, 3, 40, 1000)) * choose.random()
                          + 0.001, **more)


class Tables(unittest.TestCase):
    def test_the_csv_has_each_measurement_of_the_journal_with_its_figures(self):
        result = random_result(1)
        by_key = {(entry["medium"], entry["work"], entry["round"]): entry["row"]
                  for entry in result.entries if "row" in entry}
        lines = list(csv.DictReader(io.StringIO(export.as_csv(result))))
        self.assertEqual(len(lines), len(by_key))
        for line in lines:
            row = by_key[line["medium"], line["work"], int(line["round"])]
            for name, found in line.items():
                if name in ("medium", "work", "round"):
                    continue
                self.assertEqual(found, self.by_name(name, row), name)

    @staticmethod
    def by_name(name, row):
        """The cell of a column, found by taking its name apart."""
        for begin in ("one_way_us_", "client_", "server_"):
            if name.startswith(begin):
                part = row.get(begin.removesuffix("_"), {})
                rest = name.removeprefix(begin)
                value = part.get(rest, part.get("counted", {}).get(rest))
                return "" if value is None else str(value)
        return str(row[name])

    def test_the_jsons_medians_are_those_of_the_journal(self):
        result = random_result(2)
        report = json.loads(json.dumps(export.as_json(result)))
        read = {"time": lambda row: row["one_way_us"]["p50"], "gbps": lambda row: row["gbps"],
                "rate": lambda row: row["messages_per_s"],
                "client_cpu": lambda row: row["client"]["cpu_percent"],
                "server_cpu": lambda row: row["server"]["cpu_percent"],
                "client_cost": lambda row: row["client"]["cpus_per_gbps"],
                "server_cost": lambda row: row["server"]["cpus_per_gbps"]}
        self.assertEqual(read.keys(), METRICS.keys())
        compared = 0
        for found in report["sets"]:
            one = BY_NAME[found["set"]]
            works = {series.label: series.work for series in one.series}
            for line in found["lines"]:
                for point in line["points"]:
                    name = works[line["series"]].at(**{one.x: point[one.x]}).name()
                    values = sorted(
                        read[line["metric"]](entry["row"]) for entry in result.entries
                        if entry.get("work") == name and entry["medium"] == line["medium"])
                    self.assertEqual(len(values), ROUNDS)
                    self.assertEqual([point["lowest"], point["median"], point["highest"]],
                                     [values[0], statistics.median(values), values[-1]])
                    compared += 1
        self.assertGreater(compared, 300)
        self.assertEqual(len(report["measured"]), len(result.rows))

    def test_the_jsons_verdicts_follow_from_its_own_rows(self):
        report = export.as_json(random_result(3))
        rows = {(row["medium"], row["work"], row["round"]): row["row"]
                for row in report["measured"]}
        compares = {claim.name: claim for _, claim in ALL_CLAIMS if isinstance(claim, Compare)}
        checked = 0
        for found in (claim for one in report["sets"] for claim in one["claims"]):
            claim = compares.get(found["claim"])
            if claim is None:
                continue
            gains = []
            for number in range(1, ROUNDS + 1):
                product, count = 1, 0
                for size in claim.sizes:
                    pair = [rows.get((found["medium"], work.at(size=size).name(), number))
                            for work in (claim.better, claim.than)]
                    if None in pair:
                        continue
                    values = [METRICS[claim.metric][2](row) for row in pair]
                    product *= values[0] / values[1]
                    count += 1
                gains.append(product ** (1 / count))
            if claim.metric in LESS_IS_BETTER:
                gains = [1 / gain for gain in gains]
            self.assertTrue(math.isclose(statistics.median(gains), found["figure"]), claim.name)
            middle = statistics.median(gains)
            ordered = sorted(gains)
            spare = 1 if ROUNDS > 3 else 0  # so many may disagree
            low, high = ordered[spare], ordered[-1 - spare]  # with the dissenter at either end
            if middle > 1 + claim.margin:
                wanted = "yes" if low > 1 else "open"
            elif middle < 1 / (1 + claim.margin):
                wanted = "no" if high <= 1 else "open"
            else:
                outside = [gain for gain in gains if not 0.8 <= gain <= 1.25]
                wanted = "same" if len(outside) <= spare else "open"
            self.assertEqual(found["verdict"], wanted, f"{claim.name}: {gains}")
            checked += 1
        self.assertGreater(checked, 30)


class OtherWork(unittest.TestCase):
    @staticmethod
    def with_machine(**machine):
        result = made_up.result(lambda step: 1)
        for row in result.rows.values():
            side = {**row["client"], "counted": {"seconds": 1, "user_s": 0.5, "system_s": 0.5,
                                                 "machine": machine}}
            row["client"] = row["server"] = side
        return result

    def test_a_busy_machine_is_told_to_the_reader(self):
        idle = self.with_machine(user_s=1, system_s=1, idle_s=8, irq_s=0, steal_s=0)
        busy = self.with_machine(user_s=3, system_s=2, idle_s=3, irq_s=1, steal_s=1)
        self.assertEqual(idle.others_share(), 0)
        self.assertAlmostEqual(busy.others_share(), 0.4)
        self.assertIsNone(made_up.result(lambda step: 1).others_share())
        for text in (page.make(busy), guide.make(busy)):
            self.assertIn("took 40 %", text)
            self.assertIn("say little", text)
        self.assertNotIn("say little", page.make(idle))


class Texts(unittest.TestCase):
    def test_the_guide_has_a_sentence_for_each_claim_with_its_set_and_no_hole(self):
        for seed in range(5):
            result = random_result(seed, have={"sockets"})
            text = guide.make(result)
            self.assertNotIn("{", text)
            for one, claim in ALL_CLAIMS:
                verdict = claim.judge(result.data, "loopback")
                self.assertIn(f"- {verdict.sentence} ({one.name}, loopback: {verdict.brief})",
                              text)
            self.assertEqual(len(re.findall("^- ", text, re.M)), len(ALL_CLAIMS))

    def test_contrary_data_makes_the_contrary_sentence(self):
        def inline_is(factor):
            return guide.make(made_up.result(
                lambda step: factor if step.work.inline else 1))
        self.assertIn("Put short messages inline: a Send takes 0.50", inline_is(0.5))
        self.assertIn("Do not put Sends inline for latency: they take 2.0", inline_is(2))
        self.assertIn("Inline data makes no difference to a Send", inline_is(1))

    def test_every_topic_of_the_guide_is_a_set(self):
        named = [name for _, names in guide.TOPICS for name in names]
        self.assertEqual(sorted(named), sorted(one.name for one in SETS if one.claims))

    def test_a_page_of_nothing_is_a_page(self):
        text = page.make(made_up.result(lambda step: None))
        self.assertIn("could not be measured", text)
        self.assertIn("made up to fail", text)
        self.assertIn("Nothing was measured", text)
        export.as_json(made_up.result(lambda step: None))
        guide.make(made_up.result(lambda step: None))

    def test_the_sets_of_the_sockets_library_say_that_they_appear_with_it(self):
        text = page.make(random_result(4))
        self.assertEqual(text.count("appears with weft's sockets library"), 2)
        text = page.make(random_result(4, have={"sockets"}))
        self.assertNotIn("appears with", text)

    def test_what_a_report_says_is_text_on_the_page(self):
        result = made_up.result(lambda step: 1)
        result.head = {**result.head, "cpu": "<script>alert(1)</script>"}
        result.failures = {("loopback", "<b>"): "</html>"}
        text = page.make(result)
        self.assertNotIn("<script", text)
        self.assertNotIn("<b>:", text)

    def test_the_page_asks_for_nothing_from_elsewhere(self):
        text = page.make(random_result(5))
        self.assertEqual(re.findall(r'(?:src|href)="(?!#|data:,)', text), [])
        self.assertNotIn("url(", text)
        self.assertNotIn("@import", text)
        self.assertNotIn("<script", text)


class Plots(unittest.TestCase):
    def test_plots_are_well_formed_whatever_the_figures(self):
        choose = random.Random(7)
        for values in ([0], [1], [1e-9, 1e9], [5, 5, 5], [0, 0, 3],
                       *([choose.expovariate(1) * 10 ** choose.randint(-6, 9) for _ in range(9)]
                         for _ in range(50))):
            lines = [("a < b", [(2 ** i, value, value / 2, value * 2)
                                for i, value in enumerate(values)])]
            styles = charts.looks(["a < b"], lambda _: False)
            for log in (None, False):
                chart = charts.line_chart(lines, styles, "l & m", "x", "us", str, log)
                xml.etree.ElementTree.fromstring(chart)
                self.assertNotIn("nan", chart)
                self.assertNotIn("inf", chart)
                for y in re.findall(r'y[12]?="(-?[\d.]+)"', chart):
                    self.assertTrue(0 <= float(y) <= charts.HEIGHT, chart)

    def test_axes_hold_all_values_with_few_ticks(self):
        choose = random.Random(8)
        for _ in range(300):
            values = [choose.random() * 10 ** choose.randint(-5, 8) + 1e-9 for _ in range(4)]
            for log in (True, False):
                ticks = charts.y_axis(values, log).ticks
                self.assertLessEqual(max(values), ticks[-1] * (1 + 1e-9))
                self.assertGreaterEqual(min(values), 0 if not log else ticks[0] * (1 - 1e-9))
                self.assertLessEqual(len(ticks), 16)
                self.assertGreaterEqual(len(ticks), 2)

    def test_the_baseline_looks_the_same_in_every_plot(self):
        for one in SETS:
            styles = page.styles_of(one)
            for label, style in styles.items():
                self.assertEqual(style[0] == "var(--base)", label.startswith("TCP"), label)
            self.assertEqual(len({style[0] for style in styles.values()}), len(styles), one.name)


class Parts(unittest.TestCase):
    def parts(self, script, library=True):
        """With a weft that is this script."""
        with tempfile.TemporaryDirectory() as folder:
            weft = Path(folder, "bin", "weft")
            weft.parent.mkdir()
            weft.write_text(f"#!/bin/sh\n{script}\n")
            weft.chmod(0o755)
            Path(folder, "lib").mkdir()
            if library:
                Path(folder, "lib", "libweft-sockets.so").touch()
            return main.parts(str(weft))

    def test_the_sockets_library_counts_where_programs_run_with_it(self):
        self.assertEqual(self.parts("exit 0"), {"sockets"})
        self.assertEqual(self.parts("exit 0", library=False), set())

    def test_one_that_an_earlier_build_left_does_not(self):
        self.assertEqual(self.parts("exit 127"), set())
        # The dynamic linker leaves out what it cannot preload, and goes on.
        self.assertEqual(self.parts('shift 3; exec "$@"'), set())


class Devices(unittest.TestCase):
    def test_a_device_without_a_network_interface_is_passed_over(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "rxe0", "ports", "1").mkdir(parents=True)
            self.assertEqual(media.devices(root), [])
            ndevs = Path(root, "siw0", "ports", "1", "gid_attrs", "ndevs")
            ndevs.mkdir(parents=True)
            (ndevs / "0").write_text("lo\n")
            self.assertEqual(media.devices(root), [("siw0", "127.0.0.1")])
        self.assertEqual(media.devices(root), [])


if __name__ == "__main__":
    unittest.main()
