"""weir.Batch, and one batch at a time."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weir import _weir
from weir._environment import rank_and_world_size
from weir._manifest import MIX_KEY, Location, Manifest, Mix, as_manifest
from weir._options import answer_unknown
from weir._cells import Cell, cells_of
from weir._store import CARRIERS, Key, Store, StoreLike, as_stores
from weir._weir import Array

if TYPE_CHECKING:
    import numpy
    import torch

    import pandas
    from torch_geometric.data import HeteroData

    from weir.torch import Tensors


class Role(enum.IntEnum):
    """What a sequence is in a batch: the numbers in `role`."""

    SAMPLE = 0  # of a task that is not about links
    SOURCE = 1
    DESTINATION = 2
    NEGATIVE = 3


class SemanticType(enum.IntEnum):
    """What the cells of a column are: the numbers in `semantic_types`."""

    IDENTIFIER = 0
    NUMERICAL = 1
    TIMESTAMP = 2
    BOOLEAN = 3
    CATEGORICAL = 4
    TEXT = 5


TENSOR_NAMES = tuple(name for name, _ in _weir.TENSORS)
OPTIONAL_NAMES = tuple(name for name, _ in _weir.OPTIONAL_TENSORS)  # of those that a manifest may ask for

# uint8 tensors hold 0 and 1: torch.bool, as masks are.
_MASKS = tuple(name for name, dtype in _weir.TENSORS + _weir.OPTIONAL_TENSORS if dtype == "uint8")
_UINT16 = tuple(name for name, dtype in _weir.TENSORS + _weir.OPTIONAL_TENSORS if dtype == "uint16")
_ALL_VALUES = ("numeric_values", "timestamp_values", "bool_values", "categorical_embed_ids", "text_embed_ids")


class Source(NamedTuple):
    """A dataset whose sequences a mixed batch has. `first_column` and `first_category`: where its store begins in the
    batch's numbering; `category_start` is in that numbering. `mean`, `std`: `value * std + mean` is the database's."""

    dataset: str
    store: Store
    task: str
    task_index: int
    target_stype: str
    category_start: int
    category_count: int
    first_column: int
    first_category: int
    mean: float
    std: float


class Target:
    """What a batch's model is to predict: a value for each sequence, apart from the inputs.

        >>> target = batch("shop.weir", "shop.manifest.json", "shop/rating/train").target
        >>> target.stype, target.values, target.is_null
        ('numerical', <weir.Array float32 (32,)>, <weir.Array bool (32,)>)
        >>> sorted({round(value * target.std + target.mean) for value in target.values.tolist()})    # stars
        [2, 3, 4, 5]

    values, by stype: boolean: bool. categorical: int64, the class, 0 to class_count - 1. numerical and
    timestamp: float32, normalised; `value * std + mean` is the database's, for a timestamp in microseconds since 1970.
    mixed (sequences of several datasets): all of these as float32, each as the source of its sequence says (`batch.sources`).
    is_null: where the database has no value, and at padding; the value is then 0. Both are copies: keeping them keeps no batch.
    """

    __slots__ = ("_batch", "stype", "class_count", "mean", "std")

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self.stype: str = batch.target_stype
        self.class_count: int = 0 if self.stype == "mixed" else batch.category_count
        self.mean, self.std = batch._target_scale

    @property
    def values(self) -> Array:
        """[B], by stype."""
        return self._batch._target()[0]

    @property
    def is_null(self) -> Array:
        """bool [B]."""
        return self._batch._target()[1]

    def numpy(self) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]:
        """(values, is_null) as numpy arrays."""
        values, is_null = self._batch._target()
        return values.numpy(), is_null.numpy()

    def _mixed(self, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each sequence the one value that its type has; those of the other types are 0."""
        import torch

        ids = self._batch.dataset_ids
        assert ids is not None
        device = tensors["is_null"].device
        starts = torch.tensor([source.category_start for source in self._batch.sources], device=device)
        classes = (tensors["categorical_embed_ids"][:, 0].long() - starts[ids.torch().long()]).clamp_(min=0)
        values = tensors["numeric_values"][:, 0] + tensors["timestamp_values"][:, 0, -1] + tensors["bool_values"][:, 0]
        return values + classes, tensors["is_null"][:, 0] | tensors["is_padding"][:, 0]

    def torch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """(values, is_null) as torch tensors, on the batch's device."""
        if self._batch.device_index is None:
            values, is_null = self._batch._target()
            return values.torch(), is_null.torch()
        tensors = self._batch.torch()
        if self.stype == "mixed":
            return self._mixed(tensors)
        carrier = CARRIERS[self.stype]
        cells = tensors[carrier][:, 0]
        if carrier == "categorical_embed_ids":
            cells = (cells.long() - self._batch.category_start).clamp_(min=0)
        is_null = tensors["is_null"][:, 0] | tensors["is_padding"][:, 0]
        return (cells[:, -1] if carrier == "timestamp_values" else cells).clone(), is_null

    def jax(self) -> tuple[Any, Any]:
        """(values, is_null) as JAX arrays."""
        import jax.numpy

        if self._batch.device_index is None:
            values, is_null = self.numpy()
            return jax.numpy.asarray(values), jax.numpy.asarray(is_null)
        if self.stype == "mixed":
            raise ValueError("a mixed batch's target on a device is for torch; use target.torch()")
        tensors = self._batch.jax()
        carrier = CARRIERS[self.stype]
        cells = tensors[carrier][:, 0]
        if carrier == "categorical_embed_ids":
            cells = jax.numpy.maximum(cells.astype("int32") - self._batch.category_start, 0)
        is_null = (tensors["is_null"][:, 0] != 0) | (tensors["is_padding"][:, 0] != 0)
        return (cells[:, -1] if carrier == "timestamp_values" else cells), is_null

    def __repr__(self) -> str:
        return f"<weir.Target {self.stype} ({self._batch.sequence_count},)>"


class Batch(_weir.Batch, Mapping[str, Array]):
    """The tensors of one step, by name (docs/batch.md), with what is known about its sequences as attributes.

        >>> found = batch("shop.weir", "shop.manifest.json", "shop/churn/train")
        >>> found.task, found.target_stype, found["numeric_values"]
        ('churn', 'boolean', <weir.Array float32 (32, 1024)>)
        >>> found.sample_index.shape
        (32,)

    Arrays are views of weir's memory. A batch of a Loader is on loan: its slot is free again when the batch and all
    that was made of its arrays is gone. `copy()` gives one to keep.

    The first cell of every sequence is the target's, and its true value is in these tensors. `target` has it apart;
    `torch(hide_target=True)` and its kin give the tensors without it.
    """

    __slots__ = ("__weakref__", "_stores")
    _stores: tuple[Store, ...]

    def __iter__(self) -> Iterator[str]:
        yield from TENSOR_NAMES
        yield from (name for name in OPTIONAL_NAMES if name in self)

    @property
    def store(self) -> Store:
        """The store that the batch came from. A mixed batch has one for each of its sources."""
        return self._stores[self._store_index]

    @property
    def sources(self) -> tuple[Source, ...]:
        """Of a mixed batch (docs/batch.md) the datasets of the mix: `sources[batch.dataset_ids[i]]` is that of sequence
        i. Empty if all sequences are of one dataset."""
        return tuple(Source(dataset, self._stores[store], *rest) for dataset, store, *rest in self._sources())

    def copy(self) -> Batch:
        """The same batch in memory of its own: it may be written to and kept, and its slot is free."""
        copied = super().copy()
        copied._stores = self._stores
        return copied

    @property
    def target(self) -> Target:
        """What the model is to predict, apart from the inputs."""
        return Target(self)

    @property
    def anchor_key(self) -> list[Key | None]:
        """The primary key of the row that each sequence is about, as the database has it: what joins predictions back
        to it. A key of several columns is a tuple. None for padding, and if the store keeps no keys of that table."""
        ids = [0] * self.sequence_count if self.dataset_ids is None else self.dataset_ids.tolist()
        sources = [(source.store, source.task_index) for source in self.sources] or [(self.store, self.task_index)]
        anchors, cells, roles = self.anchor_row.tolist(), self.num_cells.tolist(), self.role.tolist()
        rows = None if self.rows is None else self.rows.tolist()
        keys: list[Key | None] = []
        for i, number in enumerate(ids):
            store, task = sources[number]
            if not cells[i]:
                keys.append(None)
            elif rows is not None and rows[i][0] < store.info["rows"]:  # it begins with the row that it is about
                keys.append(store._key_of(rows[i][0]))
            else:
                described, is_other = store.info["tasks"][task], roles[i] in (Role.DESTINATION, Role.NEGATIVE)
                table = store.tables[described["destination_table" if is_other else "anchor_table"]]
                keys.append(store._key_of(anchors[i] + table.row_start - table.first_number))
        return keys

    @property
    def group(self) -> Array:
        """int64 [B]: which sample of the batch a sequence belongs to. A sample of a link task is a group of `group_size`
        sequences, one after the other: the source, the destination, its negatives. So a model's vectors h [B, D] are
        `h.view(-1, batch.group_size, D)`: [:, 0] are the sources, [:, 1] the destinations, [:, 2:] the negatives."""
        return self._group()[0]

    @property
    def role(self) -> Array:
        """uint8 [B]: weir.Role of each sequence. If there are fewer destinations than negatives are asked for, the last
        of a group are padding: num_cells is 0, and target.is_null True."""
        return self._group()[1]

    # The target's true value stands in the tensors too, at the first cell of every sequence, and so do those of masked
    # cells: a model must not see them.

    def _hidden(self) -> tuple[str, ...]:
        """The tensors that say what the target is."""
        if self.target_stype == "mixed":
            return *(name for name in _ALL_VALUES if name != "text_embed_ids"), "is_null"
        return CARRIERS[self.target_stype], "is_null"

    def numpy(self, *, hide_target: bool = False) -> dict[str, numpy.ndarray[Any, Any]]:
        """All tensors as numpy arrays: no copy, read-only (but for those of a copied batch).

        hide_target: the target's value and its null are 0, as a model's inputs must be, and so are the values of cells
        that are masked (`is_masked`); in copies of the tensors that have them."""
        from numpy import asarray

        arrays = {name: asarray(array) for name, array in self._arrays().items()}
        for name in self._hidden() if hide_target else ():
            arrays[name] = arrays[name].copy()
            arrays[name][:, 0] = 0
        for name in _ALL_VALUES if hide_target and "is_masked" in arrays else ():
            arrays[name] = arrays[name].copy()
            arrays[name][arrays["is_masked"] != 0] = 0
        return arrays

    def torch(self, *, hide_target: bool = False) -> Tensors:
        """All tensors as torch tensors: no copy. Those that hold 0 and 1 are torch.bool. uint16 and uint32 are themselves if
        torch has them (2.3 and later: index with .long()); in older versions int16 and int32, the same bytes (sequences
        longer than 32,768 have their uint16 copied to int32). Do not write to them: the memory is weir's. Tensors of a
        GPU are for the stream that is torch's current one now: it waits for the batch, and the memory is used again only
        after what the stream was given when the last of them is gone.

        hide_target: as in numpy()."""
        import torch
        from torch.utils.dlpack import from_dlpack

        from weir.torch import Tensors

        index = self.device_index
        stream = 0 if index is None else torch.cuda.current_stream(index).cuda_stream
        has_unsigned = hasattr(torch, "uint16")
        capsules = self._capsules(stream, has_unsigned)
        tensors = Tensors({name: from_dlpack(capsule) for name, capsule in capsules.items()})
        if not has_unsigned:
            for name in tensors.keys() & _MASKS:
                tensors[name] = tensors[name].view(torch.bool)
            for name in tensors.keys() & _UINT16 if self.sequence_length > 2**15 else ():
                tensors[name] = tensors[name].to(torch.int32).bitwise_and_(2**16 - 1)
        for name in self._hidden() if hide_target else ():
            tensors[name] = tensors[name].clone()
            tensors[name][:, 0] = 0
        for name in _ALL_VALUES if hide_target and "is_masked" in tensors else ():
            tensors[name] = _without(tensors[name], tensors["is_masked"])
        return tensors

    def jax(self, *, hide_target: bool = False) -> dict[str, Any]:
        """All tensors as JAX arrays, without a copy if JAX can. hide_target: as in numpy()."""
        import jax.dlpack

        arrays = {name: jax.dlpack.from_dlpack(array) for name, array in self._arrays().items()}
        for name in self._hidden() if hide_target else ():
            arrays[name] = arrays[name].at[:, 0].set(0)
        for name in _ALL_VALUES if hide_target and "is_masked" in arrays else ():
            masked = arrays["is_masked"] != 0
            masked = masked[..., None] if arrays[name].ndim == 3 else masked
            arrays[name] = arrays[name] * (~masked).astype(arrays[name].dtype)
        return arrays

    def cells(self, store: Store) -> Iterator[Cell]:
        """The batch cell by cell, with names and values of the database: for people, not for models. The target's true
        value is among them. Of a mixed batch the sequences of that store.

            >>> store = Store("shop.weir")
            >>> found = batch(store, "shop.manifest.json", "shop/rating/train")
            >>> next(found.cells(store))
            Cell(sequence=0, row=0, table='reviews', column='rating', stype='numerical', value=..., is_null=False, is_target=True)
        """
        return cells_of(self, store)

    def pandas(self, store: Store) -> pandas.DataFrame:
        """cells(store) as a DataFrame."""
        import pandas

        return pandas.DataFrame(self.cells(store))

    def hetero(self, store: Store) -> HeteroData:
        """The batch as PyTorch Geometric's HeteroData: see weir.pyg.hetero."""
        from weir.pyg import hetero

        return hetero(self, store)

    def to(self, device: Any, non_blocking: bool = False) -> Tensors:
        """The tensors on a torch device: torch().to(device)."""
        return self.torch().to(device, non_blocking)

    def pin_memory(self) -> Tensors:
        """Copies of the tensors in pinned memory: torch().pin_memory()."""
        return self.torch().pin_memory()

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<weir.Batch step {self.step}: {self.dataset}, {self.sequence_count} x {self.sequence_length}>"


def _without(values: torch.Tensor, masked: torch.Tensor) -> torch.Tensor:
    """A copy that is 0 if cells are masked. torch fills no unsigned tensors, so they pass for signed ones."""
    import torch

    filled = values.view(torch.int32) if values.element_size() == 4 and not values.is_floating_point() else values
    return filled.masked_fill(masked[..., None] if values.dim() == 3 else masked, 0).view(values.dtype)


@answer_unknown
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
    found = as_stores(stores)
    if dataset != MIX_KEY:
        found = tuple(store for store in found if dataset in store.datasets) or found[:1]
    epoch, position = cursor
    built = Batch._build(
        found, opened, dataset, stage, rank, world_size, token, any_hash, pad, with_digests, epoch, position, step
    )
    built._stores = found
    return built


def _locate(manifest: Manifest, dataset: str | None, stage: str, step: int, token: bytes | None) -> Location:
    """The dataset and cursor of a step: of the mix, or of one dataset alone, as a Loader's."""
    if dataset is None and stage == "train":
        return Mix(manifest, token=token).locate(step)
    from weir._sampler import Sampler

    alone = Sampler(manifest, dataset, rank=0, world_size=1, stage=stage, token=token)
    return Location(alone.dataset, *alone.cursor_of(step))
