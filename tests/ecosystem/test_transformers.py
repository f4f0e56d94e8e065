"""Hugging Face: the Trainer on weir's batches, resumed exactly; and plans of its models as they are."""

import contextlib
import io
import shutil
import unittest
from typing import Any

from tests.ecosystem.support import require

require("transformers", "accelerate", "torch")

import torch
import transformers
import weir
import weir.torch
import weir.transformers
from tests.python.support import TRAIN, ShopTest

transformers.logging.set_verbosity_error()


class Counting(torch.nn.Module):
    """A model that remembers the steps that it was trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(64))
        self.trained: list[int] = []

    def forward(self, step: int, numeric_values: torch.Tensor, target: torch.Tensor, **_: Any) -> dict[str, torch.Tensor]:
        if self.training:
            self.trained.append(int(step))
        logits = numeric_values @ self.weight
        return {"loss": (logits - target.float()).square().mean(), "logits": logits}


class Trainers(ShopTest):
    def setUp(self) -> None:
        shutil.rmtree("out", ignore_errors=True)

    def data(self, **options: Any) -> weir.torch.Dataset:
        options = {"dataset": TRAIN, "fields": True, "steps": 6, **options}
        data = weir.torch.Dataset(self.store, self.changed_manifest(global_batch_size=4), **options)
        self.addCleanup(data.close)
        return data

    def arguments(self, **options: Any) -> transformers.TrainingArguments:
        quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no", "label_names": ["target"]}
        return transformers.TrainingArguments("out", **{"save_steps": 2, "num_train_epochs": 2, **quiet, **options})

    def train(self, data: Any, resume: str | None = None, **options: Any) -> tuple[list[int], weir.transformers.Trainer]:
        model = Counting()
        evaluation = self.data(dataset="shop/churn/val", stage="eval", steps=None)
        trainer = weir.transformers.Trainer(model, self.arguments(**options), train_dataset=data, eval_dataset=evaluation)
        with contextlib.redirect_stdout(io.StringIO()):
            trainer.train(resume_from_checkpoint=resume)
        return model.trained, trainer

    def test_epochs_and_evaluation(self) -> None:
        trained, trainer = self.train(self.data())
        self.assertEqual((trained, trainer.state.global_step), (list(range(12)), 12))
        with contextlib.redirect_stdout(io.StringIO()):
            result = trainer.evaluate()
            predicted = trainer.predict(self.data(dataset="shop/churn/val", stage="eval", steps=None))
        self.assertGreater(result["eval_loss"], 0)
        self.assertEqual(len(predicted.predictions), weir.Store(self.store).datasets["shop/churn/val"]["cardinality"])

    def test_every_checkpoint_resumes(self) -> None:
        whole, _ = self.train(self.data())
        for step in 2, 4, 6, 8, 10:
            with self.subTest(step):
                rest, trainer = self.train(self.data(), f"out/checkpoint-{step}", save_strategy="no")
                self.assertEqual((whole[:step] + rest, trainer.state.global_step), (whole, 12))

    def test_accumulated_gradients(self) -> None:
        """The Trainer reads as many batches ahead as it accumulates, and the last of an epoch are fewer."""
        whole, _ = self.train(self.data(steps=5), gradient_accumulation_steps=2, save_steps=1)
        self.assertEqual(whole, list(range(10)))
        for step, done in (1, 2), (2, 4), (3, 5), (4, 7):
            rest, _ = self.train(self.data(steps=5), f"out/checkpoint-{step}", gradient_accumulation_steps=2, save_strategy="no")
            self.assertEqual(rest, whole[done:], step)

    def test_passes_as_epochs(self) -> None:
        whole, _ = self.train(self.data(epochs=2, steps=None), save_steps=30)
        self.assertEqual(whole, list(range(78)))
        self.assertEqual(self.train(self.data(epochs=2, steps=None), "out/checkpoint-30", save_strategy="no")[0], whole[30:])

    def test_a_state_of_other_data_is_refused(self) -> None:
        self.train(self.data())
        with self.assertRaisesRegex(weir.errors.CheckpointMismatch, "dataset"):
            self.train(self.data(dataset="shop/late/train"), "out/checkpoint-2", save_strategy="no")

    def test_other_trainers_are_refused(self) -> None:
        trainer = transformers.Trainer(Counting(), self.arguments(), train_dataset=self.data())
        with self.assertRaisesRegex((TypeError, RuntimeError), "weir.transformers.Trainer"):
            trainer.train()
        class Bare(transformers.Trainer):
            def get_train_dataloader(self) -> Any:
                return self.train_dataset

        with contextlib.redirect_stdout(io.StringIO()):
            Bare(Counting(), self.arguments(), train_dataset=self.data()).train()
        with self.assertRaisesRegex(ValueError, "saved by another Trainer"):
            self.train(self.data(), "out/checkpoint-2")

    def test_other_datasets_are_as_ever(self) -> None:
        rows = [{"step": i, "numeric_values": torch.zeros(64), "target": torch.tensor(1.0)} for i in range(4)]

        class Plain(Counting):
            def forward(self, **inputs: Any) -> dict[str, torch.Tensor]:
                return super().forward(**{**inputs, "step": 0})

        trainer = weir.transformers.Trainer(Plain(), self.arguments(remove_unused_columns=False), train_dataset=rows)
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(trainer.train().global_step, 2)


class Plans(unittest.TestCase):
    def check(self, model: torch.nn.Module, inputs: Any, parameters: int | None = None) -> None:
        own = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
        self.assertIn(parameters, (None, own))
        for mode in "backward", "inference":
            plan = weir.plan(model, inputs=inputs, mode=mode)
            planned = sum(tensor["size"] for tensor in plan.tensors.values() if tensor["role"] == "parameter")
            self.assertEqual(planned, own)

    def test_gpt2_has_tied_weights_and_a_cache(self) -> None:
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
        self.check(model, (torch.zeros(1, 16, dtype=torch.long),), 497_759_232)

    def small(self, kind: str, **options: Any) -> torch.nn.Module:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 500}
        config = getattr(transformers, f"{kind}Config")(**{**sizes, **options})
        return getattr(transformers, f"{kind}ForCausalLM")(config)

    def test_models_with_parts_without_gradients(self) -> None:
        ids = torch.zeros(2, 16, dtype=torch.long)
        self.check(self.small("Llama", num_key_value_heads=2), (ids,))
        self.check(self.small("Qwen2", num_key_value_heads=2, tie_word_embeddings=True), {"input_ids": ids})
        self.check(self.small("GPTNeoX").train(), (ids,))

    def test_keyword_inputs(self) -> None:
        ids = torch.zeros(2, 16, dtype=torch.long)
        config = transformers.BertConfig(hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64)
        self.check(transformers.BertModel(config), {"input_ids": ids, "attention_mask": torch.ones_like(ids)})
        config = transformers.T5Config(d_model=64, d_ff=128, num_layers=1, num_heads=4, d_kv=16, vocab_size=500)
        self.check(transformers.T5ForConditionalGeneration(config), {"input_ids": ids, "decoder_input_ids": ids})


if __name__ == "__main__":
    unittest.main()
