"""weir for Hugging Face's Trainer: batches of weir as they are, and checkpoints that resume exactly.

    import weir.transformers

    data = weir.torch.Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", epochs=3, queue_size=8)
    trainer = weir.transformers.Trainer(model, arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=True)

A Trainer puts its datasets into DataLoaders of its own, which would stack batches that are whole, and resumes by running
through the batches that were seen. This one loops over a weir.torch.Dataset itself, and keeps its state in the
checkpoint (trainer_state.json), where it says which manifest, store and dataset it belongs to. It is a Trainer for all
other datasets.
"""

from __future__ import annotations

from typing import Any

import transformers
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from weir._manifest import only_dataset
from weir.torch import Dataset

__all__ = ["Trainer"]


class _DataState(TrainerCallback, ExportableState):
    """Puts the state of the training data into every checkpoint, and takes it from the one that is resumed."""

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def state(self) -> dict[str, Any]:
        """What the Trainer saves. It saves after an optimizer's step, when the loop has used all that it has read."""
        return {"args": {}, "attributes": {"data": self.data.state_dict()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer's state is here that of the checkpoint that it resumes."""
        saved = state.stateful_callbacks.get(type(self).__name__)
        if saved:
            self.data.load_state_dict(saved["attributes"]["data"])
        elif state.global_step:
            raise ValueError("this checkpoint does not say where its data stood: it was saved by another Trainer")


class Trainer(transformers.Trainer):
    """A transformers.Trainer whose train_dataset, and eval_dataset, may be weir.torch.Datasets. Give the training data steps or
    epochs, and a queue_size above gradient_accumulation_steps: the Trainer holds that many batches at a time."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if isinstance(self.train_dataset, Dataset):
            self.args.ignore_data_skip = True  # the state says where the data resumes; nothing is run through
            self.add_callback(_DataState(self.train_dataset))

    def get_train_dataloader(self) -> Any:
        """The training data itself, if it is weir's."""
        return self.train_dataset if isinstance(self.train_dataset, Dataset) else super().get_train_dataloader()

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """The evaluation's data itself, if it is weir's."""
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        data = self.eval_dataset[data] if isinstance(data, str) else data
        return data if isinstance(data, Dataset) else super().get_eval_dataloader(eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """The test data itself, if it is weir's."""
        return test_dataset if isinstance(test_dataset, Dataset) else super().get_test_dataloader(test_dataset)

    def num_examples(self, dataloader: Any) -> int:
        """The samples of a loop over a dataset."""
        if not isinstance(dataloader, Dataset):
            return int(super().num_examples(dataloader))
        loader = dataloader.loader
        lengths = loader.manifest.batch_config["sequence_length"]
        if loader.stage == "train" and not isinstance(lengths, int):  # of each length as many steps
            samples = sum(loader.manifest.global_batch_size * max(lengths) // s for s in lengths)
            return int(len(loader) * samples // len(lengths))
        count = len(loader) * loader.manifest.global_batch_size
        if loader.stage == "train":
            return count
        dataset = loader.manifest.datasets[only_dataset(loader.manifest, loader.dataset)]
        return min(count, int(dataset["cardinality"]))
