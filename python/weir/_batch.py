"""weir.Batch, and one batch at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from weir import _weir
from weir._environment import rank_and_world_size
from weir._manifest import Location, Manifest, Mix, as_manifest
from weir._store import StoreLike, as_stores
from weir._weir import Array

if TYPE_CHECKING:
    import numpy
    import torch

TENSOR_NAMES = (
    "semantic_types",
    "column_ids",
    "seq_row_ids",
    "is_null",
    "numeric_values",
    "timestamp_values",
    "bool_values",
    "categorical_embed_ids",
    "text_embed_ids",
    "is_target",
    "is_padding",
    "fk_adj",
    "col_perm",
    "out_perm",
    "in_perm",
    "text_batch_embeddings",
)

# uint8 tensors that hold 0 and 1: torch.bool, as masks are.
_MASKS = ("is_null", "bool_values", "is_target", "is_padding", "fk_adj")
_UINT16 = ("seq_row_ids", "col_perm", "out_perm", "in_perm")


class Batch(_weir.Batch, Mapping[str, Array]):
    """The tensors of one step, by name (docs/batch.md), with what is known about its sequences as attributes.

        >>> found = batch("shop.weir", "shop.manifest.json", "shop/churn/train")
        >>> found.task, found.target_stype, found["numeric_values"]
        ('churn', 'boolean', <weir.Array float32 (32, 1024)>)
        >>> found.sample_index.shape
        (32,)

    Arrays are views of weir's memory. A batch of a Loader is on loan: its slot is free again when the batch and all
    that was made of its arrays is gone. `copy()` gives one to keep.
    """

    __slots__ = ("__weakref__",)

    def __iter__(self) -> Iterator[str]:
        return iter(TENSOR_NAMES)

    def numpy(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """All tensors as numpy arrays: no copy, read-only (but for those of a copied batch)."""
        from numpy import asarray

        return {name: asarray(array) for name, array in self._arrays().items()}

    def torch(self) -> dict[str, torch.Tensor]:
        """All tensors as torch tensors: no copy. uint16 and uint32 are seen as int16 and int32 (sequences
        longer than 32,768 have their uint16 copied to int32), those that hold 0 and 1 as bool. Do not write to them: the
        memory is weir's. Tensors of a GPU are for the stream that is torch's current one now: it waits for the batch,
        and the memory is used again only behind what the stream was given when the last of them is gone."""
        import torch
        from torch.utils.dlpack import from_dlpack

        index = self.device_index
        stream = 0 if index is None else torch.cuda.current_stream(index).cuda_stream
        capsules = self._capsules(stream)
        tensors: dict[str, torch.Tensor] = {name: from_dlpack(capsule) for name, capsule in capsules.items()}
        for name in _MASKS:
            tensors[name] = tensors[name].view(torch.bool)
        if self.sequence_length > 2**15:
            for name in _UINT16:
                tensors[name] = tensors[name].to(torch.int32).bitwise_and_(2**16 - 1)
        return tensors

    def jax(self) -> dict[str, Any]:
        """All tensors as JAX arrays, without a copy where JAX can."""
        import jax.dlpack

        return {name: jax.dlpack.from_dlpack(array) for name, array in self._arrays().items()}

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<weir.Batch step {self.step}: {self.dataset}, {self.sequence_count} x {self.sequence_length}>"


def batch(
    stores: StoreLike | list[StoreLike] | tuple[StoreLike, ...],
    manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any],
    dataset: str | None = None,
    *,
    step: int = 0,
    cursor: tuple[int, int] | None = None,
    stage: str = "train",
    rank: int | None = None,
    world_size: int | None = None,
    token: bytes | None = None,
    any_hash: bool = False,
    pad: bool = False,
    with_digests: bool = True,
) -> Batch:
    """One batch: that of a step, or of a dataset at a cursor (epoch, position). For looking around and for tests; a
    Loader makes them in quantity.

        >>> batch("shop.weir", "shop.manifest.json", "shop/churn/train", cursor=(2, 64)).epochs.tolist()[:3]
        [2, 2, 2]
    """
    opened = as_manifest(manifest)
    rank, world_size = rank_and_world_size(rank, world_size)
    if cursor is None:
        place = _locate(opened, dataset, stage, step, token)
        dataset, cursor = place.dataset, (place.epoch, place.position)
    elif dataset is None:
        raise ValueError("a cursor is one of a dataset: name it")
    found = tuple(store for store in as_stores(stores) if dataset in store.datasets) or as_stores(stores)[:1]
    epoch, position = cursor
    return Batch._build(
        found, opened, dataset, stage, rank, world_size, token, any_hash, pad, with_digests, epoch, position, step
    )


def _locate(manifest: Manifest, dataset: str | None, stage: str, step: int, token: bytes | None) -> Location:
    """The dataset and cursor of a step: of the mix, or of one dataset alone, as a Loader's."""
    if dataset is None and stage == "train":
        return Mix(manifest, token=token).locate(step)
    from weir._sampler import Sampler

    alone = Sampler(manifest, dataset, rank=0, world_size=1, stage=stage, token=token)
    return Location(alone.dataset, *alone.cursor_of(step))
