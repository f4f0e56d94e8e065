"""weir.Manifest and weir.Mix."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from weir import _weir


MIX_KEY = "*"  # the dataset of mixed batches


class Manifest(_weir.Manifest):
    """What a run is made of: datasets, batch size, shuffling, mix (docs/manifest.md). Immutable.

        >>> manifest = Manifest("shop.manifest.json")
        >>> manifest.global_batch_size
        32
        >>> manifest.datasets["shop/churn/train"]["id"]
        'shop'
        >>> Manifest("shop.manifest.json", global_batch_size=64, batch={"sequence_length": 256}).global_batch_size
        64

    changes: keys of the manifest with other values; those of `data` and `batch` are changed one by one. The order of
    the samples follows from all of it but `mix` and `batch`.
    """

    def __new__(cls, source: Manifest | str | os.PathLike[str] | Mapping[str, Any], **changes: Any) -> Manifest:
        """From a file, or from the same thing as a dict."""
        document: Mapping[str, Any]
        if isinstance(source, Manifest):
            document = source._as_given()
        elif isinstance(source, Mapping):
            document = source
        else:
            opened = cls._open(source)  # what is wrong with the file is said of the file
            if not changes:
                return opened
            with open(source, "rb") as file:
                document = json.load(file)
        parts = {name: {**document.get(name, {}), **changes[name]} for name in ("data", "batch") if name in changes}
        return cls._read(json.dumps(_with_texts({**document, **changes, **parts})), "the manifest")

    def _as_given(self) -> dict[str, Any]:
        """A document that this manifest could have been read from."""
        parts = self._parts()
        datasets = {key: {**dataset, "hash": dataset["hash"]["bytes"]} for key, dataset in parts["normalised"]["datasets"].items()}
        mix = {"mix": parts["mix"]} if parts["mix"] else {}
        return {**parts["normalised"], "datasets": datasets, "batch": parts["batch"], **mix}

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

    @property
    def mixed(self) -> bool:
        """Whether training batches hold sequences of all datasets of the mix (docs/batch.md)."""
        return bool(self.batch_config.get("mixed", False))

    def _parts(self) -> dict[str, dict[str, Any]]:
        parts: dict[str, dict[str, Any]] = json.loads(self._documents())
        return parts

    def __repr__(self) -> str:
        return f"<weir.Manifest {self.hash[:12]}: {', '.join(self.datasets)}>"


def _with_texts(value: Any) -> Any:
    """The same with integers that JSON readers have no room for as texts, as manifests take them."""
    if isinstance(value, Mapping):
        return {name: _with_texts(value[name]) for name in value}
    return str(value) if type(value) is int and value >= 2**63 else value


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
