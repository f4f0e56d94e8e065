"""Who stands between a loader and the loop that uses its batches.

The state of a loader is how many batches it has given. That is where the loop stands only if nobody takes batches
before the loop asks for them. Some libraries do: they read one batch ahead, or share batches out again between
processes. Python has no way to ask for that, but whoever begins a loop is on the call stack, so that is where this
file looks: up to the first function that belongs to none of the libraries below, which is the user's own. What would
make the state wrong, or the batches, is refused with the way to do it right.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

_LIBRARIES = {
    "weir", "torch", "torchdata", "lightning", "pytorch_lightning", "accelerate", "transformers", "multiprocessing",
}  # fmt: skip

_STACKING = (
    "DataLoader would stack batches, and a batch of weir is whole: pass batch_size=None, or loop over the Dataset itself "
    "(weir makes batches in threads of its own: workers=N)"
)
_SHARING = (
    "Accelerate would share out batches that already belong to this rank, and cut tensors that are not one row per "
    "sequence; loop over the Dataset itself: weir gives every rank its own part (device=accelerator.device puts it there), "
    "and prepare() passes a Dataset through as it is"
)
_LOOKING_AHEAD = (
    "Accelerate reads a batch ahead of the loop, so state_dict() would count a batch that the loop has not seen; loop over "
    "the Dataset itself (prepare() passes it through as it is), or let Accelerate keep the state: "
    "DataLoaderConfiguration(use_stateful_dataloader=True, dispatch_batches=False)"
)
_ENDLESS = (
    "Lightning reads a batch ahead of the loop where a dataset has no length, so its checkpoints would count a batch that "
    "the loop has not seen; say how long an epoch is: steps=N, or epochs=N for passes over the dataset"
)
_TRAINER = "; with a transformers.Trainer use weir.transformers.Trainer, which does so"


def _callers() -> Iterator[tuple[str, Any]]:
    """(library, object) of each method of a library that is on the call stack, from the inside out."""
    frame = sys._getframe(1)
    while frame is not None:
        library = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if library not in _LIBRARIES:
            return
        if "self" in frame.f_code.co_varnames[:1]:
            yield library, frame.f_locals.get("self")
        frame = frame.f_back  # type: ignore[assignment]


def _found() -> tuple[set[str], dict[str, Any]]:
    """The libraries on the stack, and the objects of their classes."""
    libraries, wrappers = set(), {}
    for library, wrapper in _callers():
        libraries.add(library)
        wrappers[type(wrapper).__name__] = wrapper
    return libraries, wrappers


def check_batches(is_endless: bool, keeps_state: bool) -> None:
    """Refuses a wrapper around batches that would make them, or the state of a run, wrong."""
    libraries, wrappers = _found()
    trainer = _TRAINER if "transformers" in libraries else ""
    if wrappers.keys() & {"DataLoaderDispatcher", "IterableDatasetShard"}:
        raise RuntimeError(_SHARING + trainer)
    if getattr(wrappers.get("_IterableDatasetFetcher"), "auto_collation", False):
        raise TypeError(_STACKING + trainer)
    if keeps_state and wrappers.keys() & {"DataLoaderShard", "SkipDataLoader"} and "torchdata" not in libraries:
        raise RuntimeError(_LOOKING_AHEAD + trainer)
    if is_endless and "_PrefetchDataFetcher" in wrappers:
        raise RuntimeError(_ENDLESS)


class Reader(NamedTuple):
    """Who reads samples ahead of the loop. It is not kept, so that one can see when it is gone."""

    name: str
    wrapper: weakref.ref[Any]


def check_samples(world_size: int) -> Reader | None:
    """Who reads ahead of a loop over samples; refuses who would share them out a second time."""
    libraries, wrappers = _found()
    if world_size > 1 and "BatchSamplerShard" in wrappers:
        raise RuntimeError(
            "Accelerate would share out samples that already belong to this rank; do not prepare() this DataLoader, or make "
            "the sampler with rank=0, world_size=1"
        )
    if "torchdata" in libraries:  # its StatefulDataLoader keeps the state that belongs to each batch
        return None
    for kind, name in ("_MultiProcessingDataLoaderIter", "a DataLoader with workers"), ("DataLoaderShard", "Accelerate"):
        if kind in wrappers:
            return Reader(name, weakref.ref(wrappers[kind]))
    return None
