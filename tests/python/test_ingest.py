"""weir.ingest and weir.replay: the program's bytes, progress, and an end in the middle."""

import datetime
import os
import signal
import sys
import threading
import types
import unittest
from pathlib import Path
from unittest import mock

import weir
from tests.python.support import TRAIN, ShopTest, run_weir


class Ingest(ShopTest):
    def test_the_same_bytes_as_the_program(self) -> None:
        report = weir.ingest("shop.sqlite", "again.weir", schema="shop.schema.json")
        self.assertEqual(Path("again.weir").read_bytes(), Path(self.store).read_bytes())
        self.assertEqual((report.tables, report.store_path), (8, "again.weir"))
        self.assertEqual(report.rows, weir.Store("again.weir").info["rows"])
        self.assertEqual(weir.Manifest(report.manifest_path).hash, weir.Manifest(self.manifest).hash)

    def test_memory(self) -> None:
        plenty = weir.ingest("shop.sqlite", "plenty.weir", schema="shop.schema.json", memory=1 << 30)
        least = weir.ingest("shop.sqlite", "least.weir", schema="shop.schema.json", memory=64 << 20)
        self.assertEqual((plenty.spilled_bytes, least.spilled_bytes), (0, 0))
        self.assertEqual(Path("least.weir").read_bytes(), Path(self.store).read_bytes())
        with self.assertRaisesRegex(weir.Error, "memory is 262144 bytes, but must be at least 64 MiB"):
            weir.ingest("shop.sqlite", "little.weir", schema="shop.schema.json", memory=1 << 18)

    def test_only_new_rows_are_read(self) -> None:
        kept = weir.ingest("shop.sqlite", "day.weir", schema="shop.schema.json", keep_rows=True)
        self.assertGreater(kept.kept_bytes, 0)
        based = weir.ingest("shop.sqlite", "next.weir", schema="shop.schema.json", base=weir.Store("day.weir"))
        self.assertEqual(based.store_hash, kept.store_hash)
        orders = next(table for table in based.base if table["table"] == "orders")
        self.assertEqual((orders["how"], orders["new"]), ("from the cut", 0))
        self.assertLess(orders["read"], orders["reused"])
        full = weir.ingest("shop.sqlite", "next.weir", schema="shop.schema.json", base="day.weir", base_check="full")
        self.assertEqual({table["how"] for table in full.base if table["reused"]}, {"compared"})
        self.assertEqual((kept.base, full.store_hash), ([], kept.store_hash))
        day = datetime.datetime(2024, 7, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
        counts = set()
        for cut in ("2024-07-01", day.date(), day, day.replace(hour=0, tzinfo=None)):
            cutting = weir.ingest("shop.sqlite", "next.weir", schema="shop.schema.json", base="day.weir", base_cut=cut)
            self.assertEqual(cutting.store_hash, kept.store_hash)
            counts.add(next(table["reused"] for table in cutting.base if table["table"] == "orders"))
        self.assertEqual(len(counts), 1, "one instant, in all forms")
        self.assertTrue(0 < counts.pop() < orders["reused"])

    def test_schemas_of_all_kinds(self) -> None:
        schema = weir.draft_schema("shop.sqlite")
        drafted = weir.ingest("shop.sqlite", "drafted.weir")
        given = weir.ingest(Path("shop.sqlite"), Path("given.weir"), schema=schema, batch_size=16, threads=2)
        self.assertTrue(drafted.drafted and not given.drafted)
        self.assertEqual(drafted.store_hash, given.store_hash)
        self.assertEqual(weir.Manifest("given.manifest.json").global_batch_size, 16)

    def test_progress_is_reported(self) -> None:
        seen: list[weir.Progress] = []
        weir.ingest("shop.sqlite", "seen.weir", schema="shop.schema.json", progress=seen.append)
        self.assertIn("read", {progress.phase for progress in seen})

    def test_warnings_are_shown_and_kept(self) -> None:
        columns = {"ordered_at": {"stype": "timestamp"}}
        schema = {"tables": {"orders": {"primary_key": "order_id", "temporal_column": "ordered_at", "columns": columns}},
                  "tasks": {"same": {"query": "SELECT order_id, 1 AS same FROM orders", "anchor_table": "orders",
                                     "anchor_key": "order_id", "target_column": "same", "target_stype": "boolean"}}}
        with self.assertWarnsRegex(weir.IngestWarning, r"labels of task same are the same.*\(constant_label\)"):
            report = weir.ingest("shop.sqlite", "warned.weir", schema=schema)
        self.assertIn(("constant_label", "same"), [(warning.code, warning.task) for warning in report.warnings])
        with self.assertWarns(weir.IngestWarning), self.assertRaisesRegex(weir.errors.SchemaInvalid, "which strict makes"):
            weir.ingest("shop.sqlite", "never.weir", schema=schema, strict=True)
        self.assertFalse(Path("never.weir").exists())

    def test_an_edited_manifest_is_kept(self) -> None:
        weir.ingest("shop.sqlite", "kept.weir", schema="shop.schema.json", batch_size=16)
        path = Path("kept.manifest.json")
        again = weir.ingest("shop.sqlite", "kept.weir", schema="shop.schema.json")
        self.assertEqual((again.manifest_kept, weir.Manifest(path).global_batch_size), (False, 16))
        path.write_text(path.read_text().replace('"seed": 0', '"seed": 7'))
        report = weir.ingest("shop.sqlite", "kept.weir", schema="shop.schema.json", batch_size=8)
        self.assertTrue(report.manifest_kept and report.notes)
        self.assertEqual(weir.Manifest(path).seed, 7)
        weir.ingest("shop.sqlite", "kept.weir", schema="shop.schema.json", manifest_mode="update")
        self.assertEqual(weir.Manifest(path).seed, 7)
        weir.ingest("shop.sqlite", "kept.weir", schema="shop.schema.json", manifest_mode="replace")
        self.assertEqual(weir.Manifest(path).seed, 0)
        with self.assertRaisesRegex(ValueError, "must be one of keep, update, replace"):
            weir.ingest("shop.sqlite", "kept.weir", manifest_mode="other")  # type: ignore[arg-type]

    def test_a_bar_where_tqdm_is_installed(self) -> None:
        bars = []

        class Bar:
            def __init__(self, **_: object) -> None:
                self.total, self.n, self.phases, self.closed = None, 0, set(), False
                bars.append(self)

            def set_description(self, text: str, refresh: bool) -> None:
                self.phases.add(text)

            def refresh(self) -> None:
                pass

            def close(self) -> None:
                self.closed = True

        fake = types.ModuleType("tqdm.auto")
        fake.tqdm = Bar
        with mock.patch.dict(sys.modules, {"tqdm": types.ModuleType("tqdm"), "tqdm.auto": fake}):
            weir.ingest("shop.sqlite", "bar.weir", schema="shop.schema.json", progress=True)
        self.assertTrue(bars[0].closed and bars[0].phases)
        with mock.patch.dict(sys.modules, {"tqdm.auto": None}):
            weir.ingest("shop.sqlite", "nobar.weir", schema="shop.schema.json", progress=True)

    def test_a_callback_ends_the_work(self) -> None:
        with self.assertRaises(weir.errors.Cancelled):
            weir.ingest("shop.sqlite", "never.weir", progress=lambda _: False)

        def fail(_: weir.Progress) -> None:
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            weir.ingest("shop.sqlite", "never.weir", progress=fail)
        self.assertFalse(Path("never.weir").exists())

    def test_ctrl_c_ends_the_work(self) -> None:
        """Ctrl-C comes while ingest waits for the callback, which waits until the main thread has noticed."""
        noticed = threading.Event()

        def interrupt(_: weir.Progress) -> None:
            if not noticed.is_set():  # it may be asked once more before the work ends
                os.kill(os.getpid(), signal.SIGINT)
            self.assertTrue(noticed.wait(30))

        def on_interrupt(*_: object) -> None:
            noticed.set()
            raise KeyboardInterrupt

        previous = signal.signal(signal.SIGINT, on_interrupt)
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        with self.assertRaises(KeyboardInterrupt):
            weir.ingest("shop.sqlite", "never.weir", progress=interrupt)
        self.assertFalse(Path("never.weir").exists())


class Replay(ShopTest):
    def test_a_trace_is_replayed(self) -> None:
        run_weir("next", "--manifest", self.manifest, "--dataset", TRAIN, "--count", "9", "--trace", "t")
        report = weir.replay("t")
        self.assertEqual((report.steps, report.is_complete, report.unchecked_digests), (9, True, 0))
        self.assertEqual(weir.replay("t", manifest=self.manifest), report)
        with self.assertRaises(weir.errors.CheckpointMismatch):
            weir.replay("t", manifest=self.changed_manifest(seed=99))
        Path("cut").write_bytes(Path("t").read_bytes()[:-10])
        with self.assertRaises(weir.ReplayError):
            weir.replay("cut")


if __name__ == "__main__":
    unittest.main()
