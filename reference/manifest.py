"""The manifest: what a run reads, in which batches, from which seed; and the hashes that identify it.

Follows the section "Manifest" of the specification, and for the part `batch` the section "Configuration" of
the batch specification. `Manifest.read` takes the text of a JSON file and is strict: an unknown key, a wrong
type, a duplicate key, a float where an integer belongs or a number out of range is MANIFEST_INVALID and names
the place. A size of zero is not refused here; the sampler's checks have their own error for it. Two files
that mean the same, one of which spells a default out, are the same manifest and have the same hash.
"""

import hashlib
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Callable, Collection, NoReturn

from . import cbor, strict_json
from .errors import WeirError

LARGEST_UINT64 = 2**64 - 1
DEFAULT_BLOCK_SIZE = 1_048_576
LARGEST_SUM_OF_WEIGHTS = 65_536

EPOCH_BOUNDARIES = ("strict", "stream")
INTRA_BLOCK_MAPS = ("affine_v1", "feistel_v1")
CHILD_POLICIES = ("uniform", "recent")
LABEL_VISIBILITIES = ("train", "all", "none")
ROW_ORDERS = ("rcm", "best")


def sha256_of(value: Any) -> bytes:
    """SHA-256 of a value's canonical encoding, the hash of everything in weir's contracts."""
    return hashlib.sha256(cbor.encode(value)).digest()


@dataclass(frozen=True)
class Dataset:
    id: str
    version: str
    hash: bytes
    cardinality: int


@dataclass(frozen=True)
class DataConfig:
    sampler_block_size: int = DEFAULT_BLOCK_SIZE
    drop_last: bool = False
    epoch_boundary: str = "strict"
    intra_block: str = "affine_v1"
    rotate: bool = False

    @property
    def is_stream(self) -> bool:
        return self.epoch_boundary == "stream"

    def normalised(self) -> dict[str, Any]:
        """The last three appear only where they are not the default."""
        normalised: dict[str, Any] = {
            "drop_last": self.drop_last,
            "sampler_block_size": self.sampler_block_size,
        }
        if self.epoch_boundary != "strict":
            normalised["epoch_boundary"] = self.epoch_boundary
        if self.intra_block != "affine_v1":
            normalised["intra_block"] = self.intra_block
        if self.rotate:
            normalised["rotate"] = True
        return normalised


@dataclass(frozen=True)
class BatchConfig:
    sequence_length: int = 1024
    max_hops: int = 4
    child_width: int = 16
    child_policy: str = "uniform"
    max_rows: int = 256
    pad_rows: bool = False
    label_visibility: str = "train"
    row_order: str = "rcm"

    def normalised(self) -> dict[str, Any]:
        """`row_order` appears only where it is not the default."""
        normalised = asdict(self)
        if self.row_order == "rcm":
            del normalised["row_order"]
        return normalised


@dataclass(frozen=True)
class Manifest:
    global_batch_size: int
    datasets: dict[str, Dataset]
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    mix: dict[str, int] | None = None
    batch: BatchConfig = field(default_factory=BatchConfig)

    @staticmethod
    def read(text: bytes | str) -> "Manifest":
        """The manifest that a JSON text describes, or MANIFEST_INVALID."""
        return _manifest(strict_json.read(text, "MANIFEST_INVALID"))

    def normalised(self) -> dict[str, Any]:
        """The part that decides which samples come in which order, without `mix` and `batch`."""
        return {
            "data": self.data.normalised(),
            "datasets": {key: asdict(dataset) for key, dataset in self.datasets.items()},
            "global_batch_size": self.global_batch_size,
            "seed": self.seed,
        }

    @cached_property
    def manifest_hash(self) -> bytes:
        return sha256_of(self.normalised())

    @cached_property
    def replay_token(self) -> bytes:
        """The token that every draw of randomness depends on, unless the caller brings another."""
        return hashlib.sha512(cbor.encode(["replay_token_v1", self.manifest_hash, self.seed])).digest()

    @property
    def mix_hash(self) -> bytes:
        return sha256_of(self.mix or {})

    @property
    def batch_config_hash(self) -> bytes:
        return sha256_of(self.batch.normalised())


# ---- Reading -----------------------------------------------------------------------------------------------


def _refuse(path: str, reason: str) -> NoReturn:
    raise WeirError("MANIFEST_INVALID", f"{path} {reason}", path=path)


def _manifest(value: Any) -> Manifest:
    members = _object(
        value, "$", required=("global_batch_size", "datasets"), optional=("seed", "data", "mix", "batch")
    )
    datasets = {
        key: _dataset(dataset, f"$.datasets.{key}")
        for key, dataset in _any_object(members["datasets"], "$.datasets").items()
    }
    return Manifest(
        global_batch_size=_integer(members["global_batch_size"], "$.global_batch_size"),
        datasets=datasets,
        seed=_integer(members.get("seed", 0), "$.seed"),
        data=_data_config(members.get("data", {})),
        mix=_mix(members["mix"], datasets) if "mix" in members else None,
        batch=_batch_config(members.get("batch", {})),
    )


def _dataset(value: Any, path: str) -> Dataset:
    members = _object(value, path, required=("id", "version", "hash", "cardinality"))
    return Dataset(
        id=_text(members["id"], f"{path}.id"),
        version=_text(members["version"], f"{path}.version"),
        hash=_hash(members["hash"], f"{path}.hash"),
        cardinality=_integer(members["cardinality"], f"{path}.cardinality"),
    )


def _data_config(value: Any) -> DataConfig:
    readers = {
        "sampler_block_size": _integer,
        "drop_last": _boolean,
        "epoch_boundary": _one_of(EPOCH_BOUNDARIES),
        "intra_block": _one_of(INTRA_BLOCK_MAPS),
        "rotate": _boolean,
    }
    members = _object(value, "$.data", optional=readers)
    return DataConfig(**{name: readers[name](member, f"$.data.{name}") for name, member in members.items()})


def _batch_config(value: Any) -> BatchConfig:
    readers = {
        "sequence_length": _integer_between(1, 65_536),
        "max_hops": _integer_between(0, 64),
        "child_width": _integer_between(0, 4_096),
        "child_policy": _one_of(CHILD_POLICIES),
        "max_rows": _integer_between(1, 65_535),
        "pad_rows": _boolean,
        "label_visibility": _one_of(LABEL_VISIBILITIES),
        "row_order": _one_of(ROW_ORDERS),
    }
    members = _object(value, "$.batch", optional=readers)
    return BatchConfig(**{name: readers[name](member, f"$.batch.{name}") for name, member in members.items()})


def _mix(value: Any, datasets: dict[str, Dataset]) -> dict[str, int]:
    weights = {}
    for key, weight in _any_object(value, "$.mix").items():
        if key not in datasets:
            _refuse(f"$.mix.{key}", "is not one of the datasets")
        weights[key] = _integer_between(1, LARGEST_SUM_OF_WEIGHTS)(weight, f"$.mix.{key}")
    if not weights:
        _refuse("$.mix", "is empty; leave it out, or give a dataset a weight")
    if sum(weights.values()) > LARGEST_SUM_OF_WEIGHTS:
        _refuse("$.mix", f"has weights whose sum is above {LARGEST_SUM_OF_WEIGHTS}")
    return weights


def _any_object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        _refuse(path, "must be an object")
    return value


def _object(
    value: Any, path: str, required: Collection[str] = (), optional: Collection[str] = ()
) -> dict[str, Any]:
    members = _any_object(value, path)
    for name in required:
        if name not in members:
            _refuse(f"{path}.{name}", "is missing")
    for name in members:
        if name not in required and name not in optional:
            _refuse(f"{path}.{name}", "is not a key that is known here")
    return members


def _integer(value: Any, path: str) -> int:
    """A uint64, given as a JSON integer or as a string of ASCII digits without leading zeros."""
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,19}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        _refuse(path, "must be an integer")
    if not 0 <= value <= LARGEST_UINT64:
        _refuse(path, f"must be an integer from 0 to {LARGEST_UINT64}")
    return value


def _integer_between(lowest: int, highest: int) -> Callable[[Any, str], int]:
    def read(value: Any, path: str) -> int:
        number = _integer(value, path)
        if not lowest <= number <= highest:
            _refuse(path, f"must be an integer from {lowest} to {highest}")
        return number

    return read


def _one_of(choices: tuple[str, ...]) -> Callable[[Any, str], str]:
    def read(value: Any, path: str) -> str:
        if value not in choices:
            _refuse(path, f"must be one of {', '.join(choices)}")
        return value

    return read


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        _refuse(path, "must be true or false")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        _refuse(path, "must be a string")
    return value


def _hash(value: Any, path: str) -> bytes:
    if not re.fullmatch("[0-9a-fA-F]{64}", _text(value, path)):
        _refuse(path, "must be 64 hexadecimal digits")
    return bytes.fromhex(value)
