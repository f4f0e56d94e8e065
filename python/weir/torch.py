"""weir for PyTorch: a dataset of ready-made batches, as tensors.

    >>> import weir.torch
    >>> data = weir.torch.Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", workers=2, steps=100)
    >>> for step, tensors in enumerate(data):
    ...     if step == 2:
    ...         break
    >>> tensors["numeric_values"].dtype, tensors["is_padding"].dtype, tensors["target"].dtype
    (torch.float32, torch.bool, torch.bool)

A Dataset is made like a weir.Loader and gives dicts of tensors, with the target hidden in the inputs and given apart.
Plain loops, Lightning, Accelerate and weir.transformers.Trainer take it as the data loader that it is;
`DataLoader(data, batch_size=None)` takes it as an IterableDataset.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from weir import _weir
from weir._attention import Masks, attend, attend_packed, lists_of
from weir._batch import OPTIONAL_NAMES, TENSOR_NAMES, Batch, SemanticType
from weir._loader import Loader
from weir._planned import PlannedAllocator, planned_allocator

__all__ = [
    "BudgetSolver",
    "Dataset",
    "Masks",
    "PlannedAllocator",
    "Tensors",
    "attention_lists",
    "column_attention",
    "embeddings",
    "inbound_attention",
    "masks",
    "outbound_attention",
    "packed_attention",
    "planned_allocator",
    "text_embeddings",
]

_TARGET = ("target", "target_is_null")


def __getattr__(name: str) -> Any:
    """BudgetSolver needs PyTorch's compiler, which is imported where it is wanted."""
    if name == "BudgetSolver":
        from weir._budget import BudgetSolver

        return BudgetSolver
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Tensors(dict[str, Any]):
    """A batch as torch tensors by name. It moves as a tensor does."""

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Tensors:
        """The same on a device; what is not a tensor stays as it is. On the same device nothing is copied."""
        return Tensors((name, _moved(value, device, non_blocking)) for name, value in self.items())

    def pin_memory(self) -> Tensors:
        """Copies in pinned memory, from which a GPU can copy while the program continues."""
        return Tensors((name, value.pin_memory() if torch.is_tensor(value) else value) for name, value in self.items())


def _moved(value: Any, device: torch.device | str | int, non_blocking: bool) -> Any:
    return value.to(device, non_blocking=non_blocking) if torch.is_tensor(value) else value


class Dataset(IterableDataset[Tensors]):
    """The batches of a weir.Loader as dicts of torch tensors.

    Takes what weir.Loader takes, and:

    device: where tensors go. None leaves them on the CPU, as views of weir's memory: they may be changed in place; let go
    of them before the next but one (or pass copy=True). On "cuda" they are copied ahead of the loop by weir itself, on a
    stream of their own, and are views of weir's memory there: use them on the stream that is current when you get
    them, and let go of them before `depth` (4) more; "host" is the same without a GPU. On other devices they are copies.
    hide_target: the inputs do not say what the target is (the first cell of every sequence), nor what masked cells hold;
    `target` and `target_is_null` do. False gives the tensors as they are, the truth among them.
    names: the tensors that are wanted; all of them if it is not given. Optional ones are there if the manifest asks for them.
    fields: also give step, task_index, group_size, category_start and category_count (integers), sample_index,
    observation_time, group, role … (tensors) and anchor_key (a list of the database's keys), by name.
    transform: a function of (tensors, batch) whose result is given instead of the tensors.
    """

    def __init__(
        self,
        stores: Any,
        manifest: Any,
        *,
        device: torch.device | str | int | None = None,
        hide_target: bool = True,
        names: tuple[str, ...] | list[str] | None = None,
        fields: bool = False,
        transform: Callable[[Tensors, Batch], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.hide_target = hide_target
        self.names = None if names is None else tuple(names)
        known = TENSOR_NAMES + OPTIONAL_NAMES + (_TARGET if hide_target else ()) + ("dataset_ids",)
        unknown = [name for name in self.names or () if name not in known]
        if isinstance(names, str) or unknown:
            raise ValueError(f"names is a list of some of {', '.join(known)}; not {names!r}")
        self.device = None if device is None or device == "host" else torch.device(device)
        if device == "host":
            options["device"] = device
        elif self.device is not None and self.device.type == "cuda":
            index = torch.cuda.current_device() if self.device.index is None else self.device.index
            options["device"], self.device = f"cuda:{index}", None
        options.setdefault("anchor_rows", fields)
        self.loader = Loader(stores, manifest, **options)
        self.fields = fields
        self.transform = transform
        self._is_elsewhere = mmap.mmap(-1, 1)  # shared with the workers of a DataLoader: 1 once one of them has begun

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise RuntimeError(
                f"{worker.num_workers} workers would each give all batches; weir has workers of its own: use "
                "num_workers=0, and Dataset(…, workers=N)"
            )
        self._is_elsewhere[0] = worker is not None
        return map(self._give, iter(self.loader))

    def _give(self, batch: Batch) -> Any:
        tensors = batch.torch(hide_target=self.hide_target)
        if self.hide_target:
            tensors.update(zip(_TARGET, batch.target.torch()))
        if batch.dataset_ids is not None:
            tensors["dataset_ids"] = batch.dataset_ids.torch()
        if self.names is not None:
            tensors = Tensors((name, tensors[name]) for name in self.names)
        if self.fields:
            tensors.update((name, getattr(batch, name).torch()) for name in _FIELDS)
        if self.device is not None:
            tensors = _copied(tensors, self.device)
        if self.fields:
            tensors.update((name, getattr(batch, name)) for name in (_NO_TENSORS if batch.dataset_ids is None else _OF_ANY))
        return tensors if self.transform is None else self.transform(tensors, batch)

    def __len__(self) -> int:
        """The batches of a loop; TypeError if it has no end."""
        return len(self.loader)

    def __bool__(self) -> bool:
        return True

    def state_dict(self, after: Batch | int | None = None) -> dict[str, Any]:
        """As weir.Loader's: after the last batch that was given, or after one that you name."""
        if self._is_elsewhere[0] and get_worker_info() is None:
            raise RuntimeError(
                "a DataLoader's worker gave the batches, in a process of its own, and this one does not know how far it is; "
                "use num_workers=0 (weir has workers of its own), or torchdata's StatefulDataLoader, which asks the worker"
            )
        return self.loader.state_dict(after)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As weir.Loader's."""
        self.loader.load_state_dict(state)
        self._is_elsewhere[0] = 0

    def close(self) -> None:
        """As weir.Loader's."""
        self.loader.close()


_NO_TENSORS = ("step", "task_index", "group_size", "category_start", "category_count", "anchor_key")
_OF_ANY = ("step", "group_size", "anchor_key")
_FIELDS = (*(name for name, _ in _weir.FIELDS), "group", "role")


def _copied(tensors: Mapping[str, torch.Tensor], device: torch.device) -> Tensors:
    """Copies on a device; complete when this returns, so that the batch may be let go of."""
    if device.type == "cpu":
        return Tensors((name, tensor.clone()) for name, tensor in tensors.items())
    return Tensors((name, tensor.to(device)) for name, tensor in tensors.items())


def embeddings(store: Any, device: torch.device | str | int | None = None) -> Tensors:
    """A store's embeddings of `columns` and `categories` as float16 tensors, to be looked up by column_ids and
    categorical_embed_ids. Without a device they are views of the file: do not write to them. Texts come with each
    batch: text_embeddings(tensors).

        >>> embeddings("shop.weir")["columns"].shape
        torch.Size([60, 64])
    """
    from weir._store import as_stores

    tables = as_stores(store)[0].embeddings
    chosen = {kind: tables[kind].torch() for kind in ("columns", "categories")}
    return Tensors(chosen) if device is None else _copied(chosen, torch.device(device))


def text_embeddings(tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """float16 [B, S, D]: the embedding of every text cell of a batch, zeros at all other cells.

    text_embed_ids are numbers of this batch's own text_batch_embeddings, not of the store's texts.

        >>> data = Dataset("shop.weir", "shop.manifest.json", dataset="shop/late/train", epochs=1)
        >>> text_embeddings(next(iter(data))).shape
        torch.Size([32, 1024, 64])
    """
    table, numbers = tensors["text_batch_embeddings"], tensors["text_embed_ids"].long()
    if len(table) == 0:
        return table.new_zeros(*numbers.shape, table.shape[1])
    is_text = (tensors["semantic_types"] == int(SemanticType.TEXT)) & ~tensors["is_null"] & ~tensors["is_padding"]
    return table[numbers] * is_text[..., None]


# ---- Attention ----------------------------------------------------------------------------------


def attention_lists(batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Who sees whom in a batch, as the attentions read it: one int32 tensor for all three of them and all layers.

    A batch of weir's keeps its lists, and torch.compile makes them once per graph, so few need this: models that are
    compiled layer by layer, and batches that are plain dicts. Make them before the layers, and give them to each.

        >>> data = Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", epochs=1)
        >>> tensors = next(iter(data))
        >>> q, k, v = torch.randn(3, 32, 2, 1024, 16)
        >>> lists = attention_lists(tensors)
        >>> column_attention(q, k, v, tensors, lists=lists).shape
        torch.Size([32, 2, 1024, 16])
    """
    return lists_of(batch)


def column_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: Mapping[str, torch.Tensor],
    *,
    scale: float | None = None,
    lists: torch.Tensor | None = None,
) -> torch.Tensor:
    """softmax(scale q k^T) v, in which a cell sees the cells of its column and nothing else is computed (docs/attention.md).

    q, k, v: [B, H, S, D] as scaled_dot_product_attention has them, with any strides; D is 16 to 128 in steps of 16.
    float32, float16, bfloat16; float64 on the CPU. batch: the batch's tensors, on the same device. scale: 1/sqrt(D) if
    it is not given. lists: what attention_lists(batch) gave, if you have it. Cells that see nothing, and padding, get zeros.
    The same inputs give the same bits.

        >>> data = Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", epochs=1)
        >>> tensors = next(iter(data))
        >>> q, k, v = torch.randn(3, 32, 2, 1024, 16)
        >>> column_attention(q, k, v, tensors).shape
        torch.Size([32, 2, 1024, 16])
    """
    return attend("column", q, k, v, batch, scale, lists)


def outbound_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: Mapping[str, torch.Tensor],
    *,
    scale: float | None = None,
    lists: torch.Tensor | None = None,
) -> torch.Tensor:
    """As column_attention, but a cell sees the cells of its row and of the rows that it has a foreign key to."""
    return attend("outbound", q, k, v, batch, scale, lists)


def inbound_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    batch: Mapping[str, torch.Tensor],
    *,
    scale: float | None = None,
    lists: torch.Tensor | None = None,
) -> torch.Tensor:
    """As column_attention, but a cell sees the cells of the rows that have a foreign key to its row."""
    return attend("inbound", q, k, v, batch, scale, lists)


def packed_attention(
    pattern: str,
    qkv: torch.Tensor,
    batch: Mapping[str, torch.Tensor],
    *,
    scale: float | None = None,
    lists: torch.Tensor | None = None,
) -> torch.Tensor:
    """The same three attentions ("column", "outbound", "inbound") of q, k and v as one projection gives them.

    qkv: [B, S, 3, H, D]. The result is [B, S, H, D], and the gradient comes in one tensor, as the projection's backward
    pass wants it: with q, k and v apart it would be put together by a copy.

        >>> data = Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", epochs=1)
        >>> tensors = next(iter(data))
        >>> qkv = torch.randn(32, 1024, 3 * 2 * 16).view(32, 1024, 3, 2, 16)
        >>> packed_attention("column", qkv, tensors).shape
        torch.Size([32, 1024, 2, 16])
    """
    return attend_packed(pattern, qkv, batch, scale, lists)


def masks(batch: Mapping[str, torch.Tensor]) -> Masks:
    """Who sees whom in a batch, for torch's own attention: dense masks by name ("column", "outbound", "inbound"), and
    FlexAttention's BlockMasks.

        >>> data = Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", epochs=1)
        >>> masks(next(iter(data)))["column"].shape
        torch.Size([32, 1, 1024, 1024])
    """
    return Masks(batch)
