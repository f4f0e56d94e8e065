"""weir's exceptions, made from the one table of its errors (include/weir/errors.h).

Every error is a class of its own, below the class of its family and, where Python has a word for it, below a built-in
one: a store that is not there is weir.errors.IoError, weir.FileError, weir.Error and FileNotFoundError.

    >>> import weir
    >>> try:
    ...     weir.Store("nowhere.weir")
    ... except FileNotFoundError as error:
    ...     print(error.status, error.code, error.diagnostics["path"])
    IO_ERROR 2001 nowhere.weir
"""

import json
from typing import Any

from weir import _weir


class Error(Exception):
    """What the C library reports: `status` is the error's name in docs/errors.md, `record` all of it."""

    def __init__(self, record: dict[str, Any]) -> None:
        super().__init__(record["message"])
        self.record = record
        self.status: str = record["code_id"]
        self.code: int = record["numeric_code"]
        self.subsystem: str = record["subsystem"]
        self.message: str = record["message"]
        self.operator: str = record["failure_operator"]
        self.diagnostics: dict[str, int | str] = record["diagnostics"]

    def __str__(self) -> str:
        return f"{self.status}: {self.message}"

    def __reduce__(self) -> Any:
        return _of_record, (json.dumps(self.record),)


# Subsystem -> the family's name and the built-in class that all of the family are.
_FAMILIES: dict[str, tuple[str, tuple[type[Exception], ...], str]] = {
    "data": ("DataError", (ValueError,), "Datasets, batch sizes, manifests."),
    "ir": ("GraphError", (ValueError,), "Model graphs."),
    "memory": ("AllocationError", (), "Memory, planned or had."),
    "contract": ("ContractError", (ValueError,), "An argument breaks a contract."),
    "replay": ("ReplayError", (), "Traces, and runs that differ from them."),
    "io": ("FileError", (OSError,), "The operating system refused."),
    "store": ("StoreError", (), "Stores, schemas and the databases that they are made of."),
    "pipeline": ("PipelineError", (), "Runs: checkpoints and cancelling."),
    "device": ("DeviceError", (RuntimeError,), "GPUs and their drivers."),
    "encoding": ("EncodingError", (ValueError,), "Canonical CBOR."),
}

# Built-in classes of single errors, beside those of the family.
_BUILTINS: dict[str, type[Exception]] = {
    "INVALID_DATASET_KEY": LookupError,
    "GLOBAL_POSITION_EXCEEDS_CARDINALITY": IndexError,
    "KEY_NOT_FOUND": LookupError,
    "ALLOCATION_OVERFLOW": OverflowError,
    "COUNTER_OVERFLOW": OverflowError,
    "OUT_OF_MEMORY": MemoryError,
}

_OS_ERRORS = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)


def _class(name: str, bases: tuple[type[Exception], ...], meaning: str) -> type[Error]:
    """A class of this module; built-in bases come last, so that Error's own methods count."""
    return type(name, bases, {"__doc__": meaning, "__module__": __name__})


def _make_classes() -> dict[str, type[Error]]:
    by_status: dict[str, type[Error]] = {}
    families = {
        subsystem: _class(name, (Error, *builtins), meaning) for subsystem, (name, builtins, meaning) in _FAMILIES.items()
    }
    globals().update((family.__name__, family) for family in families.values())
    for _, status, subsystem, meaning in _weir._error_table():
        name = "".join(part.capitalize() for part in status.split("_"))
        family = families[subsystem]
        if name == family.__name__:  # a family of one
            by_status[status] = family
            continue
        builtin = (_BUILTINS[status],) if status in _BUILTINS else ()
        by_status[status] = globals()[name] = _class(name, (family, *builtin), meaning[0].upper() + meaning[1:] + ".")
    return by_status


_by_status = _make_classes()
_of_errno = {
    OSError(number, "").errno: _class("IoError", (_by_status["IO_ERROR"], kind), kind.__doc__ or "")
    for kind in _OS_ERRORS
    for number in range(1, 40)
    if type(OSError(number, "")) is kind
}


def _of_record(text: str) -> Error:
    """The exception that belongs to an error record in JSON. The extension raises what this gives."""
    record = json.loads(text)
    number = record["diagnostics"].get("errno")
    kind = _by_status.get(record["code_id"], Error)
    if record["code_id"] == "IO_ERROR":
        kind = _of_errno.get(number, kind)
    error = kind(record)
    if isinstance(error, OSError):
        error.errno = number
        error.filename = record["diagnostics"].get("path")
        error.strerror = record["message"]
    return error
