"""A run that fails: the exception names the step's dataset and token, and the trace ends with the failure."""

import json
import struct
import unittest
from pathlib import Path
from typing import Any

import weir
from reference import cbor

from support import TRAIN, ShopTest, run_weir


def records_of(path: str) -> list[dict[str, Any]]:
    data, offset, records = Path(path).read_bytes(), 0, []
    while offset < len(data):
        record, offset = cbor.decode_first(data, offset)
        records.append(record)
    return records


class Failures(ShopTest):
    def damaged(self) -> str:
        """The shop with a hole: some seeds of the first task of the mix lead nowhere."""
        info = json.loads(run_weir("info", self.store, "--json"))
        place = next(one for one in info["sections"] if one["name"] == "seed_rows")["offset"]
        for task in info["tasks"]:
            if task["name"] == "churn":
                break
            place += 4 * task["seeds"]
        holes = task["splits"]["train"] // 3
        data = bytearray(Path(self.store).read_bytes())
        data[place : place + 4 * holes] = struct.pack("<I", 2**32 - 2) * holes
        Path("damaged.weir").write_bytes(data)
        return "damaged.weir"

    def test_a_failing_run_closes_its_trace(self) -> None:
        store = self.damaged()
        for device in None, "host":
            path = f"{device}.trace"
            with self.subTest(device=device), self.assertRaises(weir.errors.StoreCorrupt) as caught:
                with weir.Loader(store, self.changed_manifest(global_batch_size=8), trace=path, device=device,
                                 verify="none") as loader:
                    for _ in loader:
                        pass
            error = caught.exception
            self.assertEqual(error.diagnostics["dataset_key"], TRAIN)
            self.assertEqual(len(error.record["replay_token"]), 64)
            *steps, failure, end = records_of(path)
            self.assertEqual((failure["type"], failure["failure_code"], failure["dataset_key"], failure["t"]),
                             ("failure", "STORE_CORRUPT", TRAIN, error.record["t"]))
            self.assertEqual(failure["data_replay_t"].hex(), error.record["replay_token"])
            self.assertEqual((end["type"], end["status"]), ("run_end", "failed"))
            report = weir.replay(path)
            self.assertEqual((report.status, report.failure_code, report.failed_step, report.steps),
                             ("failed", "STORE_CORRUPT", failure["t"], len(steps) - 1))

    def test_what_can_be_gone_on_with_is_no_failure(self) -> None:
        manifest = self.changed_manifest(global_batch_size=8)
        loader = weir.Loader(self.store, manifest, trace="held.trace", queue_size=2, steps=5, epochs=1)
        kept = [next(loader), next(loader)]
        with self.assertRaises(weir.errors.ContractViolation):
            next(loader)
        kept.clear()
        self.assertEqual(sum(1 for _ in loader), 3)
        self.assertEqual(weir.replay("held.trace").status, "success")
        closed = weir.Loader(self.store, manifest, trace="closed.trace", steps=5)
        next(closed)
        closed.close()
        self.assertEqual(weir.replay("closed.trace").status, "cut")

    def test_the_stage_of_a_preset(self) -> None:
        manifest = self.changed_manifest(data={"preset": "eval_sequential"})
        self.assertEqual((weir.Manifest(manifest).stage, weir.Manifest(self.manifest).stage), ("eval", "train"))
        loader = weir.Loader(self.store, manifest, dataset="shop/churn/val")
        self.assertEqual(loader.stage, "eval")
        with self.assertRaises(weir.errors.InvalidStageType):
            weir.Loader(self.store, manifest, dataset=TRAIN, stage="train")


if __name__ == "__main__":
    unittest.main()
