"""Arrays as numpy's and torch's own. Neither is imported before it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weir._weir import Array

if TYPE_CHECKING:
    import numpy
    import torch

# Unsigned types that torch has from 2.3 on; before, they are seen as the signed type of the same size.
_SIGNED = {"uint16": "int16", "uint32": "int32", "uint64": "int64"}


def to_numpy(array: Array) -> numpy.ndarray[Any, Any]:
    import numpy

    return numpy.asarray(array)


def to_torch(array: Array) -> torch.Tensor:
    import torch
    from torch.utils.dlpack import from_dlpack

    dtype = array.dtype
    kind, index = array.__dlpack_device__()
    # A GPU's memory is for torch's current stream there. DLPack calls the default one, torch's 0, 1.
    stream = None if kind == 1 else torch.cuda.current_stream(index).cuda_stream or 1
    if dtype == "bool":
        tensor: torch.Tensor = from_dlpack(array.view("uint8").__dlpack__(stream=stream))
        return tensor.view(torch.bool)
    if dtype in _SIGNED and not hasattr(torch, dtype):
        array = array.view(_SIGNED[dtype])
    tensor = from_dlpack(array.__dlpack__(stream=stream))
    return tensor
