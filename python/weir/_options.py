"""Options that users of other loaders try, answered with what weir calls them."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

_F = TypeVar("_F", bound=Callable[..., Any])

_MANIFEST = 'the manifest says so: weir.Manifest("my.manifest.json", {})'
_ANSWERS = {
    "batch_size": "the manifest says how many sequences a step has, over all ranks together: "
    'weir.Manifest("my.manifest.json", global_batch_size=64)',
    "shuffle": "training is always shuffled, by the manifest's seed; evaluation goes through the dataset in order, "
    'and in a seeded order with stage="eval_seeded"',
    "num_workers": "it is called workers: threads of C, not processes",
    "max_skips_per_round": "it is called max_skips",
    "prefetch_factor": "it is called buffer_size: batches that each worker makes ahead",
    "num_epochs": "it is called epochs",
    "max_epochs": "it is called epochs",
    "steps_per_epoch": "it is called steps",
    "max_steps": "the run ends after epochs=1 of steps=N",
    "split": 'the split is a part of the dataset\'s key: dataset="shop/churn/val"',
    "task": 'the task is a part of the dataset\'s key: dataset="shop/churn/train"',
    "drop_last": _MANIFEST.format('data={"drop_last": True}'),
    "seed": _MANIFEST.format("seed=7"),
    "sequence_length": _MANIFEST.format('batch={"sequence_length": 256}'),
    "sampler": "the manifest is the sampler; for a dataset of your own use weir.Sampler",
    "batch_sampler": "the manifest is the sampler; for a dataset of your own use weir.Sampler",
    "generator": "all randomness comes from the manifest's seed",
    "collate_fn": "batches are whole tensors already; weir.torch.Dataset takes transform=, a function of each batch",
    "transform": "weir.torch.Dataset takes it",
    "pin_memory": 'weir.torch.Dataset(…, device="cuda") copies from pinned memory ahead of the loop',
    "persistent_workers": "weir's workers are threads that stay",
    "worker_init_fn": "weir's workers are threads of C, which run no Python",
    "multiprocessing_context": "weir's workers are threads, not processes",
    "timeout": "a batch is waited for until it is there",
}


def answer_unknown(method: _F) -> _F:
    """Makes a keyword that a function does not take a TypeError that says what to do instead."""
    known = [name for name in inspect.signature(method).parameters if name not in ("self", "cls")]

    @functools.wraps(method)
    def checked(*arguments: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise TypeError(f"there is no option {name}{_answer(name, known)}")
        return method(*arguments, **options)

    return cast(_F, checked)


def _answer(name: str, known: list[str]) -> str:
    if name in _ANSWERS:
        return f": {_ANSWERS[name]}"
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
