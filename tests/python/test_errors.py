"""weir's exceptions: the table as classes, and records as the program prints them."""

import json
import pickle
import unittest

import weir
from tests.python.support import TRAIN, ShopTest, run_weir
from weir import _weir, errors

BUILTINS = {
    "IO_ERROR": OSError,
    "OUT_OF_MEMORY": MemoryError,
    "CONTRACT_VIOLATION": ValueError,
    "INVALID_DATASET_KEY": LookupError,
    "GLOBAL_POSITION_EXCEEDS_CARDINALITY": IndexError,
    "KEY_NOT_FOUND": LookupError,
    "COUNTER_OVERFLOW": OverflowError,
    "MANIFEST_INVALID": ValueError,
    "CBOR_INVALID": ValueError,
    "DEVICE_ERROR": RuntimeError,
}


def record(status: str, code: int, subsystem: str) -> str:
    fields = {"t": 0, "rank": 0, "failure_operator": "weir.test", "replay_token": "", "message": "it broke"}
    return json.dumps({"code_id": status, "numeric_code": code, "subsystem": subsystem, "diagnostics": {"n": 3}, **fields})


class Table(unittest.TestCase):
    def test_every_error_has_a_class_below_its_family(self) -> None:
        families = {}
        for code, status, subsystem, meaning in _weir._error_table():
            with self.subTest(status):
                error = errors._of_record(record(status, code, subsystem))
                self.assertEqual(type(error).__name__, "".join(part.capitalize() for part in status.split("_")))
                self.assertIs(getattr(errors, type(error).__name__), type(error))
                self.assertIn(meaning[1:], type(error).__doc__ or "") if status != "DEVICE_ERROR" else None
                family = [c for c in type(error).__mro__ if issubclass(c, weir.Error)][-2]
                self.assertIs(families.setdefault(subsystem, family), family)
                self.assertIs(getattr(weir, family.__name__), family)
                self.assertIsInstance(error, BUILTINS.get(status, weir.Error))
                self.assertEqual((error.status, error.code, error.subsystem), (status, code, subsystem))
                self.assertEqual(str(error), f"{status}: it broke")
                self.assertEqual(error.diagnostics, {"n": 3})
        self.assertGreater(len(families), 8)

    def test_errors_travel_between_processes(self) -> None:
        error = errors._of_record(record("INVALID_DATASET_KEY", 1102, "data"))
        again = pickle.loads(pickle.dumps(error))
        self.assertIs(type(again), type(error))
        self.assertEqual(again.record, error.record)


class Raised(ShopTest):
    def test_the_record_is_what_the_program_prints(self) -> None:
        printed = json.loads(run_weir("info", "missing.weir", "--json"))["error"]
        with self.assertRaises(FileNotFoundError) as caught:
            weir.Store("missing.weir")
        error = caught.exception
        self.assertEqual(error.record, printed)
        self.assertEqual((error.errno, error.filename), (2, "missing.weir"))
        self.assertIsInstance(error, errors.IoError)
        self.assertIsInstance(pickle.loads(pickle.dumps(error)), FileNotFoundError)

    def test_other_refusals_of_the_system(self) -> None:
        with self.assertRaises(IsADirectoryError):
            weir.Manifest(".")

    def test_errors_by_family(self) -> None:
        for kind, call in {
            errors.InvalidDatasetKey: lambda: weir.Sampler(self.manifest, "nothing"),
            errors.InvalidStageType: lambda: weir.Sampler(self.manifest, TRAIN, stage="training"),
            errors.BatchSizeInconsistent: lambda: weir.Sampler(self.manifest, TRAIN, rank=0, world_size=5),
            errors.ContractViolation: lambda: weir.Sampler(self.manifest, TRAIN, rank=4, world_size=4),
            errors.ManifestInvalid: lambda: weir.Manifest({"seed": -1}),
            errors.StoreCorrupt: lambda: weir.Store(self.manifest),
            errors.GlobalPositionExceedsCardinality: lambda: weir.Sampler(self.manifest, TRAIN).index_at(0, 10**9),
            errors.InvalidIr: lambda: weir.plan({"format": "weir-graph/2"}, mode="inference"),
            errors.SourceError: lambda: weir.ingest(self.store, "x.weir"),
            errors.TraceCorrupt: lambda: weir.replay(self.manifest),
            errors.CborInvalid: lambda: weir.Plan.from_bytes(b"\xff"),
        }.items():
            with self.subTest(kind.__name__), self.assertRaises(kind):
                call()

    def test_wrong_types_are_type_errors(self) -> None:
        sampler = weir.Sampler(self.manifest, TRAIN)
        for call in (
            lambda: weir.Store(3),
            lambda: weir.Store(),
            lambda: weir.Manifest(3),
            lambda: weir.Sampler(None, TRAIN),
            lambda: weir.Sampler(self.manifest, 3),
            lambda: weir.Sampler(self.manifest, TRAIN, stage=None),
            lambda: weir.Sampler(self.manifest, TRAIN, rank="0", world_size=1),
            lambda: weir.Sampler(self.manifest, TRAIN, token="text"),
            lambda: sampler.index_at(0.5, 0),
            lambda: sampler.index_at(0),
            lambda: weir.batch([3], self.manifest, TRAIN),
            lambda: weir.plan(3, mode="inference"),
            lambda: weir.replay(self.manifest, manifest=3),
            lambda: weir._weir._replay("x", (), 3),
            lambda: weir._weir.Sampler(),
            lambda: weir._weir.Manifest(),
        ):
            with self.assertRaises(TypeError):
                call()

    def test_numbers_out_of_range(self) -> None:
        sampler = weir.Sampler(self.manifest, TRAIN)
        for call in (
            lambda: sampler.index_at(-1, 0),
            lambda: sampler.index_at(0, 2**64),
            lambda: weir.Sampler(self.manifest, TRAIN, rank=0, world_size=2**32),
        ):
            with self.assertRaises(OverflowError):
                call()
        with self.assertRaises(IndexError):
            sampler.range(0, 1, 2**63)
        with self.assertRaises(ValueError):
            weir.Sampler(self.manifest, TRAIN, rank=1)


if __name__ == "__main__":
    unittest.main()
