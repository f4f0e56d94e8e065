"""weir.Cursors: where a loop that chooses datasets itself stands in each of them."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator, Mapping
from typing import Any

from weir import _weir
from weir._batch import Batch
from weir._manifest import Manifest, as_manifest

Cursor = tuple[int, int]


class Cursors(_weir.Cursors, Mapping[str, Cursor]):
    """A cursor (epoch, position) for every dataset of a manifest, for loops that decide by themselves which dataset comes
    next. A Loader over a mix needs none: its step says it all.

        >>> import weir
        >>> cursors = weir.Cursors("shop.manifest.json")
        >>> for key in ("shop/churn/train", "shop/rating/train", "shop/churn/train"):
        ...     batch = weir.batch("shop.weir", "shop.manifest.json", key, cursor=cursors[key])
        ...     cursors.advance(batch)
        >>> cursors["shop/churn/train"], cursors["shop/rating/train"], cursors["shop/churn/val"]
        ((0, 64), (0, 32), (0, 0))
        >>> resumed = weir.Cursors("shop.manifest.json")
        >>> resumed.load_state_dict(cursors.state_dict())
        >>> resumed["shop/churn/train"]
        (0, 64)

    The state is of the manifest and the token, not of a world size: more ranks resume where fewer stopped.
    save() and load() keep it as a file that appears whole or not at all. Damaged bytes, or another manifest's, are
    weir.errors.CheckpointMismatch, and change nothing.
    """

    manifest: Manifest

    def __new__(
        cls, manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any], *, token: bytes | None = None
    ) -> Cursors:
        opened = as_manifest(manifest)
        self = cls._open(opened, token)
        self.manifest = opened
        return self

    def __getitem__(self, dataset: str) -> Cursor:
        if dataset not in self.manifest.datasets:
            raise KeyError(dataset)
        return self._get(dataset)

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.datasets)

    def __len__(self) -> int:
        return len(self.manifest.datasets)

    def set(self, dataset: str, cursor: Cursor) -> None:
        """Puts a dataset somewhere else, such as at the cursor_next of Sampler.step."""
        epoch, position = cursor
        self._set(dataset, epoch, position)

    def advance(self, batch: Batch) -> None:
        """Moves a batch's dataset to the end of it. The batch must begin where the dataset stands: so none is skipped or taken twice
        by mistake."""
        self._advance(batch.dataset, *batch.cursor, *batch.cursor_next)

    def state_dict(self) -> dict[str, Any]:
        """All cursors: text and integers, for any file format."""
        return {"version": 1, "cursors": base64.b64encode(self._bytes()).decode()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes where a state stands."""
        found = state if isinstance(state, Mapping) else {}
        if found.get("version") != 1 or not isinstance(found.get("cursors"), str):
            raise ValueError("this is not the state_dict() of weir.Cursors: it is not a dict of version 1 with cursors")
        try:
            self._restore(base64.b64decode(found["cursors"], validate=True))
        except binascii.Error as error:
            raise ValueError(f"the state's cursors are damaged: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves them as a file."""
        self._save(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Takes them over from a file."""
        self._load(path)

    def __repr__(self) -> str:
        begun = {key: cursor for key, cursor in self.items() if cursor != (0, 0)}
        return f"<weir.Cursors of {len(self)} datasets: {begun}>"
