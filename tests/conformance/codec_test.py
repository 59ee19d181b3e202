#!/usr/bin/env python3
"""The peer's own framing against worked examples: it must not be the one at fault."""
import unittest

import language
import mpa
import rdmap


def octets(text):
    return bytes.fromhex(text.replace(" ", ""))


class Reader:
    def __init__(self, stream):
        self.stream = stream

    def __call__(self, count):
        part, self.stream = self.stream[:count], self.stream[count:]
        return part


class CRC(unittest.TestCase):
    def test_the_examples_of_rfc_3720(self):
        for data, crc in ((bytes(32), "aa36918a"), (b"\xff" * 32, "43aba862"),
                          (bytes(range(32)), "4e79dd46"),
                          (bytes(range(31, -1, -1)), "5cdb3f11"), (b"123456789", "839206e3")):
            self.assertEqual(mpa.crc32c(data).hex(), crc)


class Framing(unittest.TestCase):
    def test_figures_5_and_6_of_rfc_5044(self):
        sender = mpa.Sender(markers=True, crc=True)
        first = sender.fpdu(octets("4143 00000000 00000000 00000001 00000000") + bytes(24))
        self.assertEqual(first.hex(), octets(
            "00000000 002a4143 00000000 00000000 00000001 00000000 00000000 00000000 00000000"
            "00000000 00000000 00000000 52239983").hex())
        sender.position = 492
        second = sender.fpdu(octets("4143 00000000 00000000 00000002 00000000") + bytes(24))
        self.assertEqual(second.hex(), octets(
            "002a4143 00000000 00000000 00000002 00000000 00000014 00000000 00000000 00000000"
            "00000000 00000000 00000000 84925898").hex())

    def test_a_marker_between_padding_and_crc(self):
        sender = mpa.Sender(markers=True, crc=True)
        sender.position = 1064
        fpdu = sender.fpdu(octets("c140 00112233 00000000 00000400") + b"\x44" * 453)
        self.assertEqual(fpdu[-12:].hex(), "44000000" "000001d8" "8a10ba94")

    def test_what_is_framed_is_taken_apart(self):
        for markers in (False, True):
            for crc in (False, True):
                ulpdus = [language.pattern(n, n) for n in (14, 18, 500, 484, 3000, 470, 40000)]
                sender = mpa.Sender(markers, crc)
                stream = b"".join(sender.fpdu(ulpdu) for ulpdu in ulpdus)
                receiver = mpa.Receiver(Reader(stream), markers, crc)
                self.assertEqual([receiver.fpdu()[0] for _ in ulpdus], ulpdus)

    def test_faults_are_found(self):
        for knobs, fault in (({"crc": "bad"}, "CRC"), ({"pad": b"\1"}, "padding"),
                             ({"marker": 4}, "marker"), ({"marker-reserved": 1}, "marker")):
            stream = mpa.Sender(True, True).fpdu(bytes(601), knobs)
            with self.assertRaisesRegex(mpa.Breach, fault):
                mpa.Receiver(Reader(stream), True, True).fpdu()


class Startup(unittest.TestCase):
    def test_the_worked_examples(self):
        for text, fields in (
                ("4d504120 49442052 65712046 72616d65 40010004 70696e67",
                 {"key": mpa.REQUEST_KEY, "m": 0, "c": 1, "r": 0, "s": 0, "reserved": 0, "rev": 1,
                  "data": b"ping"}),
                ("4d504120 49442052 65712046 72616d65 50020006 8004c008 7064",
                 {"key": mpa.REQUEST_KEY, "m": 0, "c": 1, "r": 0, "s": 1, "reserved": 0, "rev": 2,
                  "a": 1, "rtr": "read,write", "ird": 4, "ord": 8, "data": b"pd"}),
                ("4d504120 49442052 65702046 72616d65 50020004 80084004",
                 {"key": mpa.REPLY_KEY, "m": 0, "c": 1, "r": 0, "s": 1, "reserved": 0, "rev": 2,
                  "a": 1, "rtr": "read", "ird": 8, "ord": 4, "data": b""})):
            frame, whole = mpa.read_startup(Reader(octets(text)))
            self.assertEqual(frame, fields)
            self.assertEqual(whole, octets(text))
            self.assertEqual(mpa.startup_octets({**fields, "length": None}), octets(text))


class Messages(unittest.TestCase):
    EXAMPLES = (
        ("send", "4143 00000000 00000000 00000001 00000000 68656c6c6f", {"msn": 1}),
        ("write", "c140 00112233 00000000 00001000 777269746521",
         {"stag": 0x112233, "to": 0x1000, "data": b"write!"}),
        ("send-se-inv", "4146 00112233 00000000 00000001 00000000 646f6e65", {"inv": 0x112233}),
        ("read-request", "4141 00000000 00000001 00000001 00000000 0000aa01 00000000 00002000"
         "00000008 0000bb02 00007f00 00001000",
         {"sink": 0xAA01, "sink-to": 0x2000, "size": 8, "source": 0xBB02,
          "source-to": 0x7F0000001000, "data": b""}),
        ("read-response", "c142 0000aa01 00000000 00002000 7265616464617461", {"to": 0x2000}),
        ("terminate", "4147 00000000 00000002 00000001 00000000 1100c000 0022c140 00dead00"
         "00000000 00000010", {"layer": 1, "etype": 1, "code": 0, "m": 1, "d": 1, "r": 0}),
        ("immediate", "4148 00000000 00000000 00000001 00000000 0102030405060708",
         {"qn": 0, "data": bytes(range(1, 9))}),
        ("fetch-add", "414a 00000000 00000001 00000002 00000000 00000000 c0ffee01 0000bb02"
         "00007f00 00001008 00000000 00000005 00000000 00000000 00000000 00000000"
         "ffffffff ffffffff",
         {"operation": 0, "request": 0xC0FFEE01, "target": 0xBB02, "target-to": 0x7F0000001008,
          "value": 5, "mask": 0, "compare": 0, "compare-mask": rdmap.ALL_BITS, "data": b""}),
        ("cmp-swap", "414a 00000000 00000001 00000003 00000000 00000002 00000003 0000bb02"
         "00007f00 00001010 00000000 00000001 00000000 00000002 00000000 00000003"
         "00000000 00000004",
         {"value": 1, "mask": 2, "compare": 3, "compare-mask": 4}),
        ("atomic-response", "414b 00000000 00000003 00000001 00000000 c0ffee01 00000000 00000025",
         {"qn": 3, "request": 0xC0FFEE01, "original": 0x25, "data": b""}),
    )

    def test_the_worked_examples(self):
        for kind, text, some in self.EXAMPLES:
            found, fields = rdmap.parse(octets(text))
            self.assertEqual(found, kind)
            self.assertLessEqual(some.items(), fields.items())
            self.assertEqual(rdmap.ulpdu_octets(fields), octets(text))

    def test_every_bit_of_a_header_is_in_some_field(self):
        for kind, text, _ in self.EXAMPLES:
            whole = octets(text)
            original = rdmap.parse(whole)
            for bit in range(8 * len(whole)):
                changed = bytearray(whole)
                changed[bit // 8] ^= 0x80 >> bit % 8
                try:
                    self.assertNotEqual(rdmap.parse(bytes(changed)), original, (kind, bit))
                except mpa.Breach:
                    pass  # seen, too

    def test_a_quotation_of_a_read_that_was_partly_answered(self):
        request = octets(self.EXAMPLES[3][1])
        _, fields = rdmap.parse(rdmap.advance(request, 3))
        self.assertEqual((fields["sink-to"], fields["size"], fields["source-to"]),
                         (0x2003, 5, 0x7F0000001003))


if __name__ == "__main__":
    unittest.main()
