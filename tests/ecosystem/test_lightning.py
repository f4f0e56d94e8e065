"""Lightning: every step once, whatever the epochs, checkpoints and validation; or a refusal that says what to do."""

import contextlib
import io
import logging
import unittest
import warnings
from pathlib import Path
from typing import Any

from tests.ecosystem.support import require

require("lightning")

import lightning.pytorch as pl
import torch
import weir
import weir.torch
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.python.support import TRAIN, ShopTest
from torch.utils.data import DataLoader


class Counting(pl.LightningModule):
    """A model that remembers the steps that it was trained and validated on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.trained: list[int] = []
        self.validated: list[int] = []

    def training_step(self, tensors: Any, number: int) -> torch.Tensor:
        self.trained.append(int(tensors["step"]))
        return (tensors["numeric_values"] @ self.weight - tensors["target"].float()).square().mean()

    def validation_step(self, tensors: Any, number: int) -> None:
        self.validated.append(int(tensors["step"]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Lightning(ShopTest):
    def setUp(self) -> None:
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore")

    def data(self, **options: Any) -> weir.torch.Dataset:
        options = {"dataset": TRAIN, "fields": True, **options}
        data = weir.torch.Dataset(self.store, self.changed_manifest(global_batch_size=4), **options)
        self.addCleanup(data.close)
        return data

    def fit(self, data: Any, checkpoint: Path | None = None, validation: Any = None, **options: Any) -> Counting:
        """What a run was trained on; a checkpoint is resumed."""
        model = Counting()
        callbacks = options.pop("callbacks", [])
        quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
        quiet["enable_checkpointing"] = bool(callbacks)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            trainer = pl.Trainer(callbacks=callbacks, num_sanity_val_steps=0, **quiet, **options)
            trainer.fit(model, data, validation, ckpt_path=checkpoint, weights_only=False)
        return model

    def test_epochs(self) -> None:
        self.assertEqual(self.fit(self.data(steps=12), max_epochs=2).trained, list(range(24)))
        self.assertEqual(self.fit(self.data(epochs=2), max_epochs=2).trained, list(range(2 * 39)))
        loader = DataLoader(self.data(steps=5), batch_size=None)
        self.assertEqual(self.fit(loader, max_epochs=2).trained, list(range(10)))
        limited = self.fit(self.data(steps=100), max_epochs=3, limit_train_batches=4)
        self.assertEqual(limited.trained, list(range(12)))

    def test_validation_between(self) -> None:
        validation = self.data(dataset="shop/churn/val", stage="eval_seeded")
        model = self.fit(self.data(steps=6), validation=validation, max_epochs=2, val_check_interval=3)
        self.assertEqual(model.trained, list(range(12)))
        self.assertEqual(model.validated, list(range(13)) * 4)

    def resumed(self, make: Any, every: int, **options: Any) -> None:
        """From each checkpoint on, the steps of the run that was never stopped."""
        folder = self.folder / f"checkpoints-{self.id()}"
        callback = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=every, save_top_k=-1)
        whole = self.fit(make(), callbacks=[callback], **options).trained
        checkpoints = sorted(folder.glob("*.ckpt"))
        self.assertGreater(len(checkpoints), 1)
        for checkpoint in checkpoints:
            done = torch.load(checkpoint, weights_only=False)["global_step"]
            found = self.fit(make(), checkpoint, **options).trained
            self.assertEqual(whole[:done] + found, whole, checkpoint.name)

    def test_resuming_inside_and_between_epochs(self) -> None:
        self.resumed(lambda: self.data(steps=6), every=2, max_epochs=3)

    def test_resuming_with_passes_as_epochs(self) -> None:
        self.resumed(lambda: self.data(epochs=2), every=30, max_epochs=2)

    def test_resuming_a_run_of_steps(self) -> None:
        self.resumed(lambda: self.data(steps=20), every=3, max_steps=9)

    def test_resuming_with_accumulated_gradients(self) -> None:
        data = self.data(steps=8)
        folder = self.folder / "accumulated"
        callback = ModelCheckpoint(folder, filename="{step}", every_n_train_steps=2, save_top_k=-1)
        whole = self.fit(data, callbacks=[callback], max_epochs=2, accumulate_grad_batches=2).trained
        self.assertEqual(whole, list(range(16)))
        again = self.fit(self.data(steps=8), folder / "step=2.ckpt", max_epochs=2, accumulate_grad_batches=2)
        self.assertEqual(again.trained, list(range(4, 16)))

    def test_without_a_length_it_is_refused(self) -> None:
        """Lightning would read a batch ahead, count it in its checkpoints, and drop it between epochs."""
        for data in self.data(), DataLoader(self.data(), batch_size=None):
            with self.assertRaisesRegex(RuntimeError, "Lightning reads a batch ahead.*steps=N, or epochs=N"):
                self.fit(data, max_steps=3)

    def test_a_loader_itself(self) -> None:
        class Batches(Counting):
            def training_step(self, tensors: Any, number: int) -> torch.Tensor:
                self.trained.append(number)
                return (tensors["numeric_values"] @ self.weight).square().mean()

        loader = weir.Loader(self.store, self.changed_manifest(), dataset=TRAIN, steps=3)
        self.addCleanup(loader.close)
        model = Batches()
        trainer = pl.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            trainer.fit(model, loader)
        self.assertEqual((model.trained, loader.step), ([0, 1, 2] * 2, 6))

    def test_a_loop_in_a_hook_is_the_users_own(self) -> None:
        """An endless Dataset may be looped over inside a model: nobody reads ahead of that."""
        other = self.data()

        class Looping(Counting):
            def on_train_epoch_end(self) -> None:
                for tensors in other:
                    self.validated.append(int(tensors["step"]))
                    break

        model = Looping()
        trainer = pl.Trainer(max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            trainer.fit(model, self.data(steps=2))
        self.assertEqual((model.trained, model.validated, other.state_dict()["step"]), ([0, 1, 2, 3], [0, 1], 2))


if __name__ == "__main__":
    unittest.main()
