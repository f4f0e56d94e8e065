"""weir for PyTorch: a dataset of ready-made batches, as tensors.

    >>> import weir.torch
    >>> data = weir.torch.Dataset("shop.weir", "shop.manifest.json", dataset="shop/churn/train", workers=2, steps=100)
    >>> for step, tensors in enumerate(data):
    ...     if step == 2:
    ...         break
    >>> tensors["numeric_values"].dtype, tensors["is_padding"].dtype
    (torch.float32, torch.bool)

A Dataset is made like a weir.Loader and gives dicts of tensors. Plain loops, Lightning and Accelerate take it as the
data loader that it is; `DataLoader(data, batch_size=None)` takes it as an IterableDataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info

from weir._batch import TENSOR_NAMES, Batch
from weir._loader import Loader

__all__ = ["Dataset", "embeddings"]

Tensors = dict[str, torch.Tensor]


class Dataset(IterableDataset[Tensors]):
    """The batches of a weir.Loader as dicts of torch tensors.

    Takes what weir.Loader takes, and:

    device: where tensors go. None leaves them on the CPU, as views of weir's memory: they may be changed in place; let go
    of them before the next but one (or pass copy=True). On "cuda" they are copied ahead of the loop by weir itself, on a
    stream of their own, and are views of weir's memory there: use them on the stream that is current when you get
    them, and let go of them before `depth` (4) more; "host" is the same without a GPU. On other devices they are copies.
    names: the tensors that are wanted; all where it is not given.
    fields: also give step, task_index, category_start and category_count (integers) and sample_index,
    observation_time … (tensors), by name.
    transform: a function of (tensors, batch) whose result is given instead of the tensors.
    """

    def __init__(
        self,
        stores: Any,
        manifest: Any,
        *,
        device: torch.device | str | int | None = None,
        names: tuple[str, ...] | list[str] | None = None,
        fields: bool = False,
        transform: Callable[[dict[str, Any], Batch], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self.names = None if names is None else tuple(names)
        unknown = [name for name in self.names or () if name not in TENSOR_NAMES]
        if isinstance(names, str) or unknown:
            raise ValueError(f"names is a list of some of {', '.join(TENSOR_NAMES)}; not {names!r}")
        self.device = None if device is None or device == "host" else torch.device(device)
        if device == "host":
            options["device"] = device
        elif self.device is not None and self.device.type == "cuda":
            index = torch.cuda.current_device() if self.device.index is None else self.device.index
            options["device"], self.device = f"cuda:{index}", None
        self.loader = Loader(stores, manifest, **options)
        self.fields = fields
        self.transform = transform

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise RuntimeError(
                f"{worker.num_workers} workers would each give all batches; weir has workers of its own: use "
                "num_workers=0, and Dataset(…, workers=N)"
            )
        for batch in self.loader:
            yield self._give(batch)

    def _give(self, batch: Batch) -> Any:
        tensors: dict[str, Any] = batch.torch()
        if self.names is not None:
            tensors = {name: tensors[name] for name in self.names}
        if self.fields:
            tensors.update(_tensor_fields(batch))
        if self.device is not None:
            tensors = move(tensors, self.device)
        if self.fields:
            tensors.update({name: getattr(batch, name) for name in _INTEGERS})
        return tensors if self.transform is None else self.transform(tensors, batch)

    def __len__(self) -> int:
        """The batches of a whole run; TypeError where it has no end."""
        return len(self.loader)

    def __bool__(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """As weir.Loader's: behind the last batch that was given."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As weir.Loader's."""
        self.loader.load_state_dict(state)

    def close(self) -> None:
        """As weir.Loader's."""
        self.loader.close()


_INTEGERS = ("step", "task_index", "category_start", "category_count")
_FIELDS = ("sample_index", "position", "anchor_row", "observation_time", "num_cells", "num_rows")


def _tensor_fields(batch: Batch) -> Tensors:
    return {name: getattr(batch, name).torch() for name in _FIELDS}


def move(tensors: Tensors, device: torch.device) -> Tensors:
    """Copies of tensors on a device; complete when this returns, so that the batch may be let go of."""
    if device.type == "cpu":
        return {name: tensor.clone() for name, tensor in tensors.items()}
    return {name: tensor.to(device) for name, tensor in tensors.items()}


def embeddings(store: Any, device: torch.device | str | int | None = None) -> Tensors:
    """A store's embedding tables (`columns`, `categories`, `texts`) as float16 tensors, to be looked up by column_ids,
    categorical_embed_ids and text_embed_ids. Without a device they are views of the file: do not write to them.

        >>> embeddings("shop.weir")["columns"].shape
        torch.Size([60, 64])
    """
    from weir._store import as_stores

    tables = {kind: array.torch() for kind, array in as_stores(store)[0].embeddings.items()}
    return tables if device is None else move(tables, torch.device(device))
