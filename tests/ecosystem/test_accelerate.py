"""Accelerate: ranks see what they should, states are the loop's; what would make them wrong is refused."""

import json
import unittest
from typing import Any

from tests.ecosystem.support import require, run_ranks

require("accelerate", "torch")

import accelerate
import torch
import weir
import weir.torch
from accelerate.utils import DataLoaderConfiguration
from tests.python.support import TRAIN, ShopTest
from torch.utils.data import DataLoader

PROGRAM = """
import json, torch, accelerate, weir, weir.torch
from torch.utils.data import DataLoader
accelerator = accelerate.Accelerator(cpu=True)
manifest = json.loads({manifest!r})
data = weir.torch.Dataset({store!r}, manifest, dataset={dataset!r}, steps=4, fields=True, copy=True)
model = torch.nn.Linear(64, 1)
{prepare}
print(json.dumps([tensors["sample_index"].long().tolist() for tensors in data]))
"""


class Accelerate(ShopTest):
    def setUp(self) -> None:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)

    def data(self, **options: Any) -> weir.torch.Dataset:
        options = {"dataset": TRAIN, "fields": True, "steps": 8, **options}
        data = weir.torch.Dataset(self.store, self.changed_manifest(global_batch_size=4), **options)
        self.addCleanup(data.close)
        return data

    def test_a_dataset_passes_through(self) -> None:
        accelerator = accelerate.Accelerator(cpu=True)
        data = self.data()
        model, prepared = accelerator.prepare(torch.nn.Linear(2, 1), data)
        self.assertIs(prepared, data)
        steps = []
        for tensors in prepared:
            steps.append(tensors["step"])
            self.assertEqual(data.state_dict()["step"], tensors["step"] + 1)
        self.assertEqual(steps, list(range(8)))

    def test_save_state(self) -> None:
        accelerator = accelerate.Accelerator(cpu=True)
        data = self.data()
        model = accelerator.prepare(torch.nn.Linear(2, 1))
        accelerator.register_for_checkpointing(data)
        for tensors in data:
            if tensors["step"] == 2:
                break
        accelerator.save_state("saved")
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
        again, resumed = accelerate.Accelerator(cpu=True), self.data()
        again.prepare(torch.nn.Linear(2, 1))
        again.register_for_checkpointing(resumed)
        again.load_state("saved")
        self.assertEqual([tensors["step"] for tensors in resumed], [3, 4, 5, 6, 7])

    def test_a_prepared_data_loader_is_refused(self) -> None:
        """By default it cuts every tensor to the number of sequences; else it is a batch ahead of the loop."""
        for options, message in (({}, "share out.*loop over the Dataset itself"),
                                 ({"dispatch_batches": False}, "reads a batch ahead.*use_stateful_dataloader=True")):
            accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
            accelerator = accelerate.Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
            prepared = accelerator.prepare(DataLoader(self.data(), batch_size=None))
            with self.subTest(options), self.assertRaisesRegex(RuntimeError, message):
                next(iter(prepared))

    def test_an_evaluation_has_no_state_to_get_wrong(self) -> None:
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False))
        data = self.data(dataset="shop/churn/val", stage="eval", steps=None, copy=True)
        prepared = accelerator.prepare(DataLoader(data, batch_size=None))
        self.assertEqual([tensors["step"] for tensors in prepared], list(range(13)))

    @unittest.skipIf(weir.torch.torch.__version__ < "2", "torchdata's StatefulDataLoader needs torch 2")
    def test_a_stateful_data_loader(self) -> None:
        require("torchdata")
        options = {"use_stateful_dataloader": True, "dispatch_batches": False}
        for split in 1, 3, 8:
            accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
            accelerator = accelerate.Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
            first = accelerator.prepare(DataLoader(self.data(copy=True), batch_size=None))
            steps = []
            for tensors in first:
                steps.append(tensors["step"])
                if len(steps) == split:
                    state = first.state_dict()
                    break
            second = accelerator.prepare(DataLoader(self.data(copy=True), batch_size=None))
            second.load_state_dict(state)
            if split < 8:
                self.assertEqual(steps + [tensors["step"] for tensors in second], list(range(8)))

    def program(self, prepare: str) -> str:
        manifest = json.dumps(self.changed_manifest(global_batch_size=8))
        return PROGRAM.format(manifest=manifest, store=str(self.folder / self.store), dataset=TRAIN, prepare=prepare)

    def test_two_processes(self) -> None:
        whole = [batch.sample_index.tolist() for batch in
                 weir.Loader(self.store, self.changed_manifest(global_batch_size=8), dataset=TRAIN, steps=4)]
        done = run_ranks(2, self.program("model, data = accelerator.prepare(model, data)"))
        self.assertEqual([process.returncode for process in done], [0, 0], done[0].stderr + done[1].stderr)
        ranks = [json.loads(process.stdout) for process in done]
        self.assertEqual([a + b for a, b in zip(*ranks)], whole)

    def test_two_processes_refuse_a_prepared_data_loader(self) -> None:
        """It dropped half of each rank's batches without a word. (Without dispatching, Accelerate fails by itself.)"""
        done = run_ranks(2, self.program("data = accelerator.prepare(DataLoader(data, batch_size=None))"), timeout=120)
        self.assertNotEqual(done[0].returncode, 0)
        self.assertIn("share out batches that already belong to this rank", done[0].stderr)


if __name__ == "__main__":
    unittest.main()
