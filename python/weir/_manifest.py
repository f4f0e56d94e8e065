"""weir.Manifest and weir.Mix."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from weir import _weir


class Manifest(_weir.Manifest):
    """What a run is made of: datasets, batch size, shuffling, mix (docs/manifest.md). Immutable.

        >>> manifest = Manifest("shop.manifest.json")
        >>> manifest.global_batch_size
        32
        >>> manifest.datasets["shop/churn/train"]["id"]
        'shop'
        >>> with open("shop.manifest.json") as file:
        ...     document = json.load(file)
        >>> Manifest({**document, "seed": 7}).hash == manifest.hash
        False
    """

    def __new__(cls, source: str | os.PathLike[str] | Mapping[str, Any]) -> Manifest:
        """From a file, or from the same thing as a dict."""
        if isinstance(source, Mapping):
            return cls._read(json.dumps(source), "the manifest")
        return cls._open(source)

    @property
    def document(self) -> dict[str, Any]:
        """The manifest as its hash sees it: defaults filled in or left out, hashes as {"bytes": hex}."""
        return self._parts()["normalised"]

    @property
    def mix(self) -> dict[str, Any]:
        """The mix with all defaults."""
        return self._parts()["mix"]

    @property
    def batch_config(self) -> dict[str, Any]:
        """How sequences are built, with all defaults."""
        return self._parts()["batch"]

    def _parts(self) -> dict[str, dict[str, Any]]:
        parts: dict[str, dict[str, Any]] = json.loads(self._documents())
        return parts

    def __repr__(self) -> str:
        return f"<weir.Manifest {self.hash[:12]}: {', '.join(self.datasets)}>"


def as_manifest(manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any]) -> Manifest:
    return manifest if isinstance(manifest, Manifest) else Manifest(manifest)


def only_dataset(manifest: Manifest, dataset: str | None) -> str:
    """The dataset that is named, or the only one that there is."""
    if dataset is not None:
        return dataset
    if len(manifest.datasets) > 1:
        raise ValueError(f"name one of the manifest's datasets: {', '.join(manifest.datasets)}")
    return next(iter(manifest.datasets))


class Location(NamedTuple):
    """Where a step of a mix lies."""

    dataset: str
    epoch: int
    position: int


class Mix(_weir.Mix):
    """Which dataset each step takes, and where in it: the same cost for every step.

        >>> mix = Mix("shop.manifest.json")
        >>> mix.locate(1_000_000).epoch > 0
        True
    """

    def __new__(
        cls, manifest: Manifest | str | os.PathLike[str] | Mapping[str, Any], *, token: bytes | None = None
    ) -> Mix:
        return super().__new__(cls, as_manifest(manifest), token=token)

    def locate(self, step: int) -> Location:
        """The dataset, epoch and position of a step, over all ranks."""
        return Location(*self._locate(step))
