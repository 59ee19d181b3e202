#!/usr/bin/env python3
"""Tests of the table: figures, limits, comparison, plots, and what the peers' programs print."""
import random
import struct
import tempfile
import unittest
import xml.etree.ElementTree

import earlier
import fpdus
import groups
import peers
import plots
import report
import rows
import shared  # finds medium and rounds
import works
from medium import Failed as NotMeasured
from rounds import compared, in_rounds, turns


def bench_row(ratio, rdma=2.0, tcp=1.0, **more):
    return {"ratio": ratio, "ratio_low": ratio - 0.1, "ratio_high": ratio + 0.1, "rdma": rdma,
            "tcp": tcp, "unit": "GB/s", "cpu": {"ratio": 1, "ratio_low": 1, "ratio_high": 1,
                                                "rdma": 1, "tcp": 1}, **more}


class Rows(unittest.TestCase):
    def test_every_name_is_given_once_and_every_row_names_what_it_needs(self):
        names = [row.name for row in rows.ROWS]
        self.assertEqual(len(names), len(set(names)))
        for row in rows.ROWS:
            self.assertTrue(row.needs, row.name)

    def test_a_figure_at_its_limit_meets_it(self):
        for direction, worse in (("at least", 0.99), ("at most", 1.01)):
            row = rows.Row("r", "R", None, direction, 1.0, None)
            self.assertEqual(row.judge(1.0), (True, None))
            self.assertEqual(row.judge(worse), (False, None))

    def test_a_row_that_was_not_measured_says_why_and_meets_nothing(self):
        made = {row["name"]: row for row in rows.make_all(
            {"veth-1500/write-bw:64K": {"missing": "no namespaces"}})}
        self.assertEqual(made["veth-1500"]["missing"], "no namespaces")
        self.assertEqual(made["write-64K"]["missing"], "not measured")
        self.assertEqual(report.unmet(made.values()), [])

    def test_the_share_of_a_latency_is_above_one_when_it_is_shorter(self):
        made = {row["name"]: row for row in rows.make_all({
            "default/write-lat:8": bench_row(0.8, rdma=4.0, tcp=5.0),
            "default/write-bw:1M": bench_row(0.5)})}
        latency, stream = made["default-write-lat-8"], made["default-write-1M"]
        self.assertAlmostEqual(latency["value"], 1.25)
        self.assertLess(latency["low"], latency["value"])
        self.assertGreater(latency["high"], latency["value"])
        self.assertAlmostEqual(stream["value"], 0.5)
        self.assertIs(stream["met"], False)

    def test_memory_is_in_kib_and_rates_are_wefts_own(self):
        made = {row["name"]: row for row in rows.make_all({
            "on/idle-memory:1000": bench_row(4096, rdma=4096.0),
            "on/write-rate:8x64": bench_row(0.5, rdma=6.0, tcp=12.0)})}
        self.assertEqual(made["idle-memory"]["value"], 4)
        self.assertEqual(made["rate-64"]["value"], 6)
        self.assertEqual(made["rate-64"]["raw"], 12)

    def test_every_row_needs_points_that_are_known(self):
        for row in rows.ROWS:
            for need in row.needs:
                point = need.split("/", 1)[1]
                if point != "segments":
                    self.assertEqual(works.parse(point).name, point)


class Points(unittest.TestCase):
    def test_both_sides_of_a_stream_use_one_buffer_again_and_again(self):
        point = works.parse("write-bw:64K")
        self.assertEqual(point.of("off").name(),
                         "blast --op write --wait poll --size 64K --outstanding 128 --signal "
                         "periodic --passive poll --buffers 1 --crc off")
        self.assertEqual(point.tcp.name(),
                         "blast --over tcp --wait poll --size 64K --buffers 1")

    def test_cold_data_is_walked_by_both_sides(self):
        point = works.parse("write-cold:1M")
        self.assertEqual((point.rdma.buffers, point.tcp.buffers), (256, 256))

    def test_a_list_is_one_call_over_tcp(self):
        point = works.parse("write-rate:8x64")
        for side in (point.rdma, point.tcp):
            self.assertIn("--post list:64 ", " ".join(side.words()) + " ")
        self.assertEqual(point.tcp.chunk, 65536)

    def test_who_reads_has_the_stream_fetched_over_tcp_as_well(self):
        self.assertIn("--over tcp --op read", works.parse("read-bw:1M").tcp.name())

    def test_what_the_two_programs_do_not_measure_is_weft_benchs(self):
        point = works.parse("requests:4Kx1000")
        self.assertEqual(point.of("on"), works.Program("requests:1000", "rdma", "on"))
        self.assertEqual(point.tcp, works.Program("requests:1000", "tcp"))
        self.assertIsNone(works.parse("idle-memory:1000").tcp)

    def test_what_is_verified_has_buffers_for_all_that_is_on_its_way(self):
        for name in works.KINDS:
            point = works.parse(f"{name}:1M" if name.endswith("cold") else f"{name}:64x4")
            for side in (point.rdma, point.tcp):
                if isinstance(side, works.Work):
                    side = works.verified(side)
                    self.assertIn("--verify", side.words())
                    self.assertTrue(side.buffers == 0 or side.buffers >= side.outstanding, name)

    def test_what_is_no_point_is_refused(self):
        for text in ("", "write-bw", "write-bw:", "write-bw:64k", "sendfile:64K", "write-bw:64Kx"):
            with self.assertRaises(ValueError):
                works.parse(text)


class Rounds(unittest.TestCase):
    def test_every_other_round_goes_backwards(self):
        self.assertEqual(turns("ab", 1), ["a", "b"])
        self.assertEqual(turns("ab", 2), ["b", "a"])
        order = []
        found = in_rounds("ab", 3, lambda subject: order.append(subject) or len(order))
        self.assertEqual("".join(order), "abbaab")
        self.assertEqual(found, {"a": [1, 4, 5], "b": [2, 3, 6]})

    def test_a_machine_that_changes_its_speed_does_not_spoil_a_ratio(self):
        figure = compared([10, 5, 10], [8, 4, 9])
        self.assertEqual((figure["tcp"], figure["rdma"]), (10, 8))
        self.assertEqual((figure["ratio"], figure["ratio_low"], figure["ratio_high"]),
                         (0.8, 0.8, 0.9))


class MadeUpPlace:
    """Measures at once: streams by their socket buffers, all else alike."""
    mtu = 1500

    def __init__(self, fails="", network="made up"):
        self.asked, self.fails, self.network = [], fails, network

    def measure(self, _weft, work, seconds, _cpus):
        self.asked.append((work, seconds))
        if self.fails and self.fails in work.name():
            raise NotMeasured("it cannot be")
        gbps = {1 << 20: 40.0}.get(work.socket_buffers, 24.0 if work.over == "tcp" else 32.0)
        side = {"counted": {"user_s": 1.0, "system_s": 2.0}}
        row = {"messages": 10**6, "octets": 1000, "gbps": gbps, "messages_per_s": 2e6,
               "client": side, "server": side}
        if work.tool == "ping":
            row["one_way_us"] = {"p50": 4.0, "p99": 9.0}
        return row, {}


class Measuring(unittest.TestCase):
    def bench(self, **more):
        return groups.Bench("/nowhere", groups.Plan(**more), lambda text: None)

    def test_a_plain_stream_gets_the_socket_buffers_that_serve_it_best(self):
        place, bench = MadeUpPlace(), self.bench(quick=True)
        row = bench.measure("on", place, ["write-bw:64K"])["on/write-bw:64K"]
        self.assertEqual(row["tcp_buffer"], 1 << 20)
        self.assertEqual((row["tcp"], row["rdma"], row["ratio"]), (5, 4, 0.8))
        self.assertEqual(row["cpu"]["tcp"], 6)
        self.assertEqual((row["work"], row["octets"], row["unit"]), ("write-bw", 65536, "GB/s"))
        tries = len(place.asked)
        bench.measure("off", place, ["send-bw:64K"])  # the same plain stream
        # Its octets were looked at already.
        self.assertEqual(len(place.asked) - tries, 1 + 2 * bench.plan.rounds)

    def test_a_ping_pong_has_nothing_to_choose(self):
        place, bench = MadeUpPlace(), self.bench()
        row = bench.measure("on", place, ["write-lat:8"])["on/write-lat:8"]
        self.assertEqual([work.verify for work, _ in place.asked],
                         [True] * 2 + [False] * 2 * bench.plan.rounds)
        self.assertEqual(row["ratio"], 1)

    def test_two_places_are_measured_in_turns(self):
        one, other, bench = MadeUpPlace(), MadeUpPlace(network="other"), self.bench(quick=True)
        weft = works.parse("write-bw:64K").of("on")
        reports = bench.side_by_side({"one": (one, weft), "other": (other, weft)})
        for place, found in zip((one, other), reports.values()):
            self.assertEqual(len(found), bench.plan.rounds)
            self.assertEqual([work.verify for work, _ in place.asked],
                             [True] + [False] * bench.plan.rounds)

    def test_thousands_of_connections_are_made_once_in_a_hurry(self):
        many, few = works.parse("requests:4Kx9900"), works.parse("requests:4Kx1000")
        for quick, rounds in ((True, [1, 3]), (False, [7, 7])):
            plan = groups.Plan(quick=quick)
            self.assertEqual([plan.rounds_of(point) for point in (many, few)], rounds)

    def test_what_fails_ends_the_run_and_says_which(self):
        with self.assertRaisesRegex(groups.Failed, "on/write-lat:8: it cannot be"):
            self.bench().measure("on", MadeUpPlace("--op write"), ["write-lat:8"])


class Comparison(unittest.TestCase):
    def became(self, now, then, direction="at least", low=None, high=None):
        old = {"value": then, "low": low if low is not None else then,
               "high": high if high is not None else then}
        return earlier.became({"value": now, "direction": direction}, old)

    def run_of(self, setup=None, **measured):
        peer = {"work": "send-bw:64K", "subject": "iperf3", "value": 3, "unit": "GB/s"}
        return {"setup": {"processor": "one", **(setup or {})}, "measured": measured,
                "rows": rows.make_all(measured),
                "peers": [{**peer, "weft_to_it": measured["on/write-bw:64K"]["ratio"]}]
                if measured else []}

    def test_noise_is_no_change(self):
        self.assertEqual(self.became(1.03, 1.0), "the same")
        self.assertEqual(self.became(1.2, 1.0, low=0.8, high=1.3), "the same")

    def test_better_and_worse_depend_on_the_direction(self):
        self.assertEqual(self.became(1.2, 1.0), "better")
        self.assertEqual(self.became(0.8, 1.0), "WORSE")
        self.assertEqual(self.became(1.2, 1.0, "at most"), "WORSE")
        self.assertEqual(self.became(0.8, 1.0, "at most"), "better")

    def test_rows_that_only_one_run_has_are_left_out(self):
        now = [{"name": "a", "value": 1, "direction": "at least"},
               {"name": "b", "value": 1, "direction": "at least"}]
        then = [{"name": "a", "value": 2}, {"name": "c", "value": 1}]
        self.assertEqual([(entry["name"], old, word) for entry, old, word
                          in earlier.changes(now, then)], [("a", 2, "WORSE")])

    def test_rows_and_peers_of_a_whole_run_are_compared(self):
        then, now = (self.run_of(**{"on/write-bw:64K": bench_row(ratio)}) for ratio in (2.0, 1.0))
        lines = list(earlier.comparison(now, then, (earlier.of_rows, earlier.of_peers)))
        for title in ("RDMA Write 64 KiB, many", "send-bw:64K: weft to iperf3"):
            line = next(line for line in lines if line.startswith(title))
            self.assertEqual(line.split()[-5:], ["2", "1", "-50.0", "%", "WORSE"])

    def test_single_points_stand_beside_a_whole_run_or_other_points(self):
        whole = self.run_of(**{"on/write-bw:64K": bench_row(2.0), "on/idle-memory:1000": {
            "missing": "no memory"}})
        now = {"setup": {"processor": "one"}, "measured": {
            "on/write-bw:64K": bench_row(1.0),
            "off/write-lat:8": {**bench_row(0.5), "unit": "us"}}}
        lines = list(earlier.comparison(now, whole, (earlier.of_points,)))
        self.assertEqual(lines[-1].split(), ["on/write-bw:64K", "2", "1", "-50.0", "%", "WORSE"])
        self.assertFalse([line for line in lines if line.startswith("off/")])
        then = {"setup": {}, "measured": {"off/write-lat:8": {**bench_row(1.0), "unit": "us"}}}
        lines = list(earlier.comparison(now, then, (earlier.of_points,)))
        self.assertEqual(lines[-1].split()[-1], "better")

    def test_another_machine_and_nothing_in_common_are_said(self):
        now, then = self.run_of(), self.run_of({"processor": "other", "cores": 4})
        text = "\n".join(earlier.comparison(now, then, (earlier.of_rows, earlier.of_peers)))
        self.assertIn("NOT THE SAME processor: then other, now one", text)
        self.assertIn("NOT THE SAME cores: then 4, now unknown", text)
        self.assertIn("nothing of this run was measured in that one", text)
        self.assertNotIn("kernel", text)

    def test_what_is_no_earlier_run_is_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            for text in ("", "[]", "3", '{"setup": {}}', '{"setup": [], "measured": {}}',
                         '{"setup": {}, "measured": {"a": 3}}',
                         '{"setup": {}, "measured": {"a": {"ratio": 3}}}',
                         '{"setup": {}, "measured": {}, "rows": 3}',
                         '{"setup": {}, "measured": {}, "rows": [{"name": "a", "value": "b"}]}',
                         '{"setup": {}, "measured": {}, "rows": [{"value": 1}]}'):
                file.seek(0)
                file.truncate()
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(ValueError, "no JSON of an earlier run"):
                    earlier.read(file.name)
        with self.assertRaisesRegex(ValueError, "No such file"):
            earlier.read(file.name)


class Texts(unittest.TestCase):
    def test_the_table_shows_figure_limits_and_verdict(self):
        made = rows.make_all({"on/write-bw:64K": bench_row(1.2, cpu=bench_row(1.5))})
        lines = list(report.table(made))
        line = next(line for line in lines if line.startswith("RDMA Write 64 KiB, many"))
        for word in ("1.2", "1.1", "1.3", ">= 1.15", ">= 1.4", "met"):
            self.assertIn(word, line)
        line = next(line for line in lines if line.startswith("CPU s/GB of both ends"))
        self.assertIn("NOT MET", line)

    def test_the_charts_are_well_formed_whatever_the_figures(self):
        made = rows.make_all({"on/write-bw:64K": bench_row(1e9, cpu=bench_row(-3)),
                              "on/write-bw:1M": bench_row(0.0, cpu=bench_row(1))})
        made[0]["title"] = "<&>"
        chart = plots.bar_chart(made, report.number, "a < b")
        xml.etree.ElementTree.fromstring(chart)
        page = plots.page(["x < y"], [("heading", ["<line>"])], [chart])
        self.assertIn("&lt;line&gt;", page)

    def test_a_title_has_room_however_long(self):
        long = "x" * 120
        chart = plots.bar_chart([{"title": long, "value": 1.0}], report.number, "title")
        root = xml.etree.ElementTree.fromstring(chart)
        title = next(found for found in root.iter() if found.text == long)
        self.assertEqual(title.get("text-anchor"), "end")
        self.assertGreaterEqual(float(title.get("x")), plots.LETTER * len(long))


class Programs(unittest.TestCase):
    def test_ucx_perftest(self):
        text = ("iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,"
                "overall_mr\n3000,11.5,473.3,468.0,132.0,133.5,2113,2137\n")
        self.assertEqual(peers.parse_ucx(text, "overall_bw", 2), 267)
        with self.assertRaises(peers.Absent):
            peers.parse_ucx("connect failed\n", "overall_bw", 1)

    def test_fi_pingpong(self):
        text = ("bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n"
                "64k     3k      =3k      375m        1.82s    216.14     303.22       0.00\n")
        self.assertEqual(peers.parse_pingpong(text, "usec/xfer"), 303.22)
        with self.assertRaises(peers.Absent):
            peers.parse_pingpong("fi_getinfo: -61\n", "usec/xfer")

    def test_fabric_rma(self):
        self.assertEqual(peers.parse_rma("2.077 GB/s\n"), 2.077)
        with self.assertRaises(peers.Absent):
            peers.parse_rma("fabric_rma: fi_getinfo: No data available\n")

    def test_iperf3(self):
        text = '{"end": {"sum_received": {"bits_per_second": 8e9}}}'
        self.assertEqual(peers.parse_iperf(text), 1)
        with self.assertRaises(peers.Absent):
            peers.parse_iperf('{"error": "no"}')

    def test_sockperf(self):
        text = "sockperf: ---> percentile 50.000 =    3.124\n"
        self.assertEqual(peers.parse_sockperf(text), 3.124)
        with self.assertRaises(peers.Absent):
            peers.parse_sockperf("sockperf: ERROR\n")

    def test_perftest(self):
        text = (" #bytes  #iterations  BW peak[MB/sec]  BW average[MB/sec]  MsgRate[Mpps]\n"
                " 65536   1000         5000.00          4900.50             0.078408\n")
        self.assertEqual(peers.parse_perftest(text, 3), 4900.5)
        with self.assertRaises(peers.Absent):
            peers.parse_perftest("Couldn't connect\n", 3)


class PeersTable(unittest.TestCase):
    def rounds(self, work, unit, **figures):
        collected = peers.Collected()
        for subject, values in figures.items():
            subject = {"raw": peers.RAW, "on": peers.WEFT_ON, "off": peers.WEFT_OFF}.get(
                subject, subject)
            for value in values:
                collected.add(work, subject, unit, value)
        return collected

    def test_a_peer_is_judged_within_rounds_and_with_the_crc_up_to_64_kib(self):
        collected = self.rounds("write-bw:64K", "GB/s", on=[4, 8], off=[9, 9], UCX=[5, 7])
        found = peers.ahead_of(collected, "write-bw:64K", "UCX")
        self.assertEqual(found["against"], peers.WEFT_ON)
        self.assertAlmostEqual(found["weft_to_it"], (4 / 5 + 8 / 7) / 2)
        self.assertEqual((found["weft_to_it_low"], found["weft_to_it_high"]), (4 / 5, 8 / 7))
        collected = self.rounds("write-bw:1M", "GB/s", on=[4], off=[9], UCX=[5])
        self.assertEqual(peers.ahead_of(collected, "write-bw:1M", "UCX")["against"], peers.WEFT_OFF)
        collected = self.rounds("write-bw:256K", "GB/s", on=[4], off=[9], UCX=[5])
        found = peers.ahead_of(collected, "write-bw:256K", "UCX")
        self.assertEqual(found["against"], peers.WEFT_OFF)

    def test_sizes_between_those_of_the_table_have_fewer_rounds_and_none_in_a_hurry(self):
        for plan, rounds in ((groups.Plan(), 3), (groups.Plan(quick=True), 0)):
            for work, wanted in (("write-bw:256K", rounds), ("send-lat:16K", rounds),
                                 ("write-bw:64K", plan.program_rounds)):
                measured = [number for number in range(1, plan.program_rounds + 1)
                            if work in peers.points_of(plan, number)]
                self.assertEqual(measured, list(range(1, wanted + 1)), work)

    def test_the_shorter_latency_is_ahead(self):
        collected = self.rounds("write-lat:8", "us", on=[4], off=[4], UCX=[5])
        found = peers.ahead_of(collected, "write-lat:8", "UCX")
        self.assertTrue(found["ahead"])
        self.assertAlmostEqual(found["weft_to_it"], 1.25)

    def test_a_peer_that_failed_is_a_row_with_the_reason(self):
        collected = self.rounds("write-bw:64K", "GB/s", raw=[1.0], on=[1.0], off=[1.0])
        collected.reasons["write-bw:64K", "UCX ucp_put_bw"] = "not installed"
        made = list(peers.make_rows(collected, ["write-bw:64K"]))
        self.assertIn("not installed", [row.get("missing") for row in made])
        self.assertIn("not installed", "\n".join(report.peers_table(made)))


class Segments(unittest.TestCase):
    """A made-up connection, cut into packets at random places."""
    NEAR, FAR = (b"\x0a\x00\x00\x01", 4000), (b"\x0a\x00\x00\x02", 5000)

    def packet(self, source, target, sequence, octets=b"", syn=False):
        options = b"\x02\x04" + struct.pack("!H", 1460) + b"\x01\x01\x08\x0a" + bytes(8) if syn \
            else b""
        tcp = struct.pack("!HHIIBBHHH", source[1], target[1], sequence & 0xFFFFFFFF, 0,
                          (20 + len(options)) // 4 << 4, 2 if syn else 16, 0, 0, 0) + options
        length = 20 + len(tcp) + len(octets)
        ip = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, 6, 0) + source[0] + target[0]
        return bytes(12) + b"\x08\x00" + ip + tcp + octets

    def capture(self, stream, lose=None, again=False, seed=1):
        choose, capture = random.Random(seed), fpdus.Capture()
        first = 0xFFFFFF00  # so that the numbers wrap
        capture.add_packet(self.packet(self.NEAR, self.FAR, first, syn=True))
        capture.add_packet(self.packet(self.FAR, self.NEAR, 7, syn=True))
        at, number = 0, 0
        while at < len(stream):
            part = stream[at:at + choose.randint(1, 3000)]
            if number != lose:
                capture.add_packet(self.packet(self.NEAR, self.FAR, first + 1 + at, part))
            if again:
                capture.add_packet(self.packet(self.NEAR, self.FAR, first + 1 + at, part))
            at, number = at + len(part), number + 1
        return capture.result()

    @staticmethod
    def stream(lengths, private=b"hello"):
        octets = b"MPA ID Req Frame" + struct.pack("!BBH", 0x40, 1, len(private)) + private
        for length in lengths:
            fpdu = struct.pack("!H", length) + bytes(length)
            octets += fpdu + bytes(-len(fpdu) % 4) + bytes(4)
        return octets

    def test_all_fpdus_are_counted_and_the_longest_is_found(self):
        lengths = [0, 1, 1400, 17, 1442] * 20
        for seed in range(5):
            found = self.capture(self.stream(lengths), seed=seed)
            self.assertEqual(found, {"count": 100, "longest": 1448, "mss": 1448})

    def test_what_is_sent_again_is_counted_once(self):
        found = self.capture(self.stream([1400] * 30), again=True)
        self.assertEqual(found["count"], 30)

    def test_after_a_lost_packet_nothing_is_made_up(self):
        found = self.capture(self.stream([1400] * 300), lose=20)
        self.assertLess(found["count"], 300)
        self.assertEqual(found["longest"], 1408)

    def test_other_connections_are_left_alone(self):
        self.assertIsNone(self.capture(bytes(100000)))


if __name__ == "__main__":
    unittest.main()
