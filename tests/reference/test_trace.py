"""The reference simulator's trace: its chain is the specification's, and no change to it goes unnoticed."""

import hashlib
import sys
import unittest
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import cbor, trace  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import DataConfig, Dataset, Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.sampler import Cursor, Sampler  # noqa: E402

MANIFEST = Manifest(
    global_batch_size=4,
    datasets={"a": Dataset("a", "1", bytes(32), 10), "b": Dataset("b", "1", bytes(32), 7)},
    data=DataConfig(sampler_block_size=3),
    mix={"a": 2, "b": 1},
)
STEPS = 6


def header() -> trace.Record:
    return trace.run_header(MANIFEST, MANIFEST.replay_token, 2, 1, "mix", [bytes(32)], weir_version="0.1.0")


def iter_records(first_step: int, last_step: int) -> list[trace.Record]:
    mixer, sampler = Mixer(MANIFEST), Sampler(MANIFEST)
    records = []
    for step in range(first_step, last_step):
        key, cursor = mixer.locate(step)
        batch = sampler.next_batch(key, 2, 1, "train", cursor)
        records.append(trace.iter_record(step, MANIFEST, key, 2, cursor, batch, with_indices=True))
    return records


def whole_trace() -> bytes:
    writer = trace.TraceWriter(header())
    for record in iter_records(0, STEPS):
        writer.append(record)
    writer.append(trace.run_end({"a": Cursor(1, 4), "b": Cursor(1, 0)}, 21, writer.last_hash))
    return writer.encoded


def boundaries(encoded: bytes) -> list[int]:
    """The offsets at which records end."""
    ends = [0]
    while ends[-1] < len(encoded):
        ends.append(cbor.decode_first(encoded, ends[-1])[1])
    return ends[1:]


class TraceTest(unittest.TestCase):
    def assert_corrupt(self, encoded: bytes) -> None:
        with self.assertRaises(WeirError) as caught:
            trace.verify(encoded)
        self.assertEqual(caught.exception.code_id, "TRACE_CORRUPT")

    def test_the_chain_is_the_specified_one(self) -> None:
        verified = trace.verify(whole_trace())
        linked = [verified.header, *verified.records, verified.run_end]
        chain = [record["h"] for record in linked]
        plain = [{name: record[name] for name in record if name != "h"} for record in linked]
        expected = hashlib.sha256(cbor.encode(["weir_trace_v1", plain[0]])).digest()
        self.assertEqual(chain[0], expected)
        for i in range(1, len(linked)):
            expected = hashlib.sha256(cbor.encode([expected, plain[i]])).digest()
            self.assertEqual(chain[i], expected)
        self.assertEqual(verified.run_end["trace_hash"], chain[-2])
        self.assertEqual(verified.run_end["final_epoch"], 1)

    def test_the_steps_are_read_back(self) -> None:
        read_back = [dict(record) for record in trace.verify(whole_trace()).records]
        for record in read_back:
            del record["h"]
        self.assertEqual(read_back, iter_records(0, STEPS))

    def test_a_trace_cut_between_records_has_no_end(self) -> None:
        encoded = whole_trace()
        for count, end in enumerate(boundaries(encoded)[:-1]):
            verified = trace.verify(encoded[:end])
            self.assertIsNone(verified.run_end)
            self.assertEqual(len(verified.records), count)

    def test_a_trace_cut_inside_a_record_is_corrupt(self) -> None:
        encoded = whole_trace()
        for end in set(range(0, len(encoded), 7)) - set(boundaries(encoded)):
            self.assert_corrupt(encoded[:end])

    def test_every_changed_byte_is_noticed(self) -> None:
        encoded = whole_trace()
        for place in range(0, len(encoded), 5):
            self.assert_corrupt(encoded[:place] + bytes([encoded[place] ^ 1]) + encoded[place + 1 :])

    def test_a_record_that_is_taken_out_doubled_or_added_is_noticed(self) -> None:
        encoded = whole_trace()
        ends = boundaries(encoded)
        for start, end in zip([0, *ends], ends[:-1]):
            self.assert_corrupt(encoded[:start] + encoded[end:])
            self.assert_corrupt(encoded[:end] + encoded[start:])
        self.assert_corrupt(encoded + encoded[ends[-2] :])

    def test_a_resumed_trace_goes_on_from_the_checkpoint(self) -> None:
        resumed = trace.cut_back_and_resume(trace.verify(whole_trace()), 3, bytes(32))
        for record in iter_records(3, STEPS):
            resumed.append(record)
        verified = trace.verify(resumed.encoded)
        kinds = [record["type"] for record in verified.records]
        self.assertEqual(kinds, ["iter"] * 3 + ["resume"] + ["iter"] * 3)
        self.assertEqual([r["t"] for r in verified.records if r["type"] == "iter"], list(range(STEPS)))
        self.assertTrue(trace.are_comparable(verified, trace.verify(whole_trace())))
        self.assertEqual(trace.judge(verified, MANIFEST), "cut")

    def test_a_whole_run_is_judged_as_one(self) -> None:
        whole = trace.verify(whole_trace())
        self.assertEqual(trace.judge(whole, MANIFEST), "success")
        for at, field in ((0, "t"), (3, "t"), (5, "final_cursors")):
            records = [record for number, record in enumerate(whole.records) if number != at]
            with self.assertRaises(trace.Divergence) as caught:
                trace.judge(trace.Trace(whole.header, records, whole.run_end), MANIFEST)
            self.assertEqual(caught.exception.field, field)


if __name__ == "__main__":
    unittest.main()
