"""The training example: every type of target, and a killed and resumed run that is the run that was never killed, on one
rank and on two."""

import re
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

from tests.python.support import ShopTest

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))
import relational_transformer as models  # noqa: E402


class Training(ShopTest):
    def run_example(self, name: str, *arguments: str) -> str:
        command = [sys.executable, "-B", str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_type_of_target(self) -> None:
        shown = self.run_example("train.py", "shop.weir", "category=2", "churn", "rating", "--steps=8", "--every=4",
                                 "--length=32", "--checkpoint=c")
        self.assertRegex(shown, r"category +accuracy [\d.]+ \([\d.]+ by chance\), over 4\n")
        self.assertRegex(shown, r"churn +auroc [\d.]+ \(0.500 by chance\), average_precision .*, over 50\n")
        self.assertRegex(shown, r"rating +mae [\d.]+ .*, over 29\n")
        losses = dict(re.findall(r"step +(\d+) .* category ([\d.]+)", shown))
        self.assertLess(float(losses["8"]), float(losses["4"]))
        again = self.run_example("train.py", "shop.weir", "category=2", "churn", "rating", "--steps=8", "--length=32",
                                 "--checkpoint=c")
        self.assertIn("resuming at step 8", again)
        self.assertEqual(again.splitlines()[-3:], shown.splitlines()[-3:], "nothing was left to train")

    def test_a_task_that_is_not_there(self) -> None:
        command = [sys.executable, str(EXAMPLES / "train.py"), "shop.weir", "chrun"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        self.assertIn("shop.weir has no task chrun; it has category, churn", done.stderr)

    def test_attention_of_weir_and_of_torch(self) -> None:
        """The same model whoever computes its attention; without any, another."""
        import torch
        import weir

        if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
            self.skipTest("torch 1 has no scaled_dot_product_attention")
        found = {}
        for how in ("weir", "sdpa", "none"):
            torch.manual_seed(0)
            model = models.RelationalTransformer(weir.Store("shop.weir"), width=32, heads=2, attention=how)
            manifest = self.changed_manifest(global_batch_size=4)
            found[how] = model(models.inputs_of(weir.batch("shop.weir", manifest, "shop/churn/train")))
        torch.testing.assert_close(found["weir"], found["sdpa"], rtol=1e-4, atol=1e-4)
        self.assertGreater((found["weir"] - found["none"]).abs().max().item(), 0.01)

    def test_lists_are_made_once_per_batch(self) -> None:
        """However many layers there are, and if they are compiled one by one."""
        import torch
        import weir
        from weir import _attention

        engine, made = _attention._engine(torch.device("cpu"))[0], []

        class Counting:
            def _lists(self, *given: object) -> None:
                made.append(given)
                engine._lists(*given)

            def _run(self, *given: object) -> None:
                engine._run(*given)

        counted = unittest.mock.patch.dict(_attention._engines, {None: Counting()})
        counted.start()
        self.addCleanup(counted.stop)
        model = models.RelationalTransformer(weir.Store("shop.weir"), width=32, layers=3, heads=2)
        batch = weir.batch("shop.weir", self.changed_manifest(global_batch_size=4), "shop/churn/train")
        first = model(models.inputs_of(batch))
        self.assertEqual(len(made), 1)
        if not hasattr(model, "compile"):
            self.skipTest("torch 1 has no torch.compile")
        model.compile_layers(backend="aot_eager")
        torch.testing.assert_close(model(models.inputs_of(batch)), first)
        self.assertEqual(len(made), 2)

    def test_tables_are_the_loaders_own(self) -> None:
        """On a device the model keeps no copy of the embeddings, in whatever type."""
        import torch
        import weir

        store = weir.Store("shop.weir")
        with weir.Loader(store, self.changed_manifest(global_batch_size=4), device="host") as loader:
            tables = {name: table.torch() for name, table in loader.tables(store).items()}
            found = []
            for given in (tables, None):
                torch.manual_seed(0)
                model = models.RelationalTransformer(store, width=32, heads=2, tables=given)
                found.append(model(models.inputs_of(weir.batch(store, loader.manifest, "shop/churn/train"))))
                for name, table in given.items() if given else ():
                    kept = model.to("cpu").get_buffer(f"encoder.{name}")
                    self.assertEqual((kept.dtype, kept.data_ptr()), (torch.float16, table.data_ptr()))
            self.assertTrue(torch.equal(*found))

    def test_times_are_ages(self) -> None:
        """A model that does not look at dates says the same when all times are a leap cycle later; one that does, not."""
        import torch
        import weir

        store = weir.Store("shop.weir")
        batch = weir.batch(store, self.changed_manifest(global_batch_size=4), "shop/churn/train")
        later = round(400 * models.YEAR)
        for dates in (False, True):
            torch.manual_seed(0)
            model = models.RelationalTransformer(store, width=32, heads=2, dates=dates)
            inputs = models.inputs_of(batch)
            first = model(inputs)
            inputs["time"] = inputs["time"] + later
            inputs["timestamp_values"] = inputs["timestamp_values"].clone()
            inputs["timestamp_values"][..., -1] += later / store.info["timestamps"]["std"]
            moved = (model(inputs) - first).abs().max().item()
            self.assertEqual(moved < 0.01, not dates, moved)
            inputs["time"] = inputs["time"] + 90 * models.DAY
            self.assertGreater((model(inputs) - first).abs().max().item(), 0.01, "the age counts")

    def test_killed_and_resumed(self) -> None:
        shown = self.run_example("prove_resume.py", "shop.weir", "late", "category", "--steps=8")
        self.assertEqual(shown.count("same samples, same losses, bit for bit"), 2)
        self.assertIn("world sizes 1 and 2: the same samples in the same order", shown)


if __name__ == "__main__":
    unittest.main()
