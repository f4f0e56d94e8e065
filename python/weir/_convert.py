"""Arrays as numpy's and torch's own. Neither is imported before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir._weir import Array

if TYPE_CHECKING:
    import numpy
    import torch

# What torch cannot hold in every version is seen as the signed type of the same size.
TORCH_DTYPES = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


def to_numpy(array: Array) -> numpy.ndarray[Any, Any]:
    import numpy

    return numpy.asarray(array)


def to_torch(array: Array) -> torch.Tensor:
    from torch.utils.dlpack import from_dlpack

    dtype = array.dtype
    if dtype == "bool":
        import torch

        tensor: torch.Tensor = from_dlpack(array.view("uint8").__dlpack__())
        return tensor.view(torch.bool)
    if dtype in TORCH_DTYPES:
        array = array.view(TORCH_DTYPES[dtype])
    tensor = from_dlpack(array.__dlpack__())
    return tensor
