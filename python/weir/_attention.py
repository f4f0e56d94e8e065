"""weir.torch's attention along columns and foreign keys, as operators of torch (docs/attention.md).

The lists of who sees whom are made once per batch, by the operator weir::attention_lists; weir::attention and
weir::attention_backward use them. torch 2.4 and later have them as operators that torch.compile and CUDA graphs know;
older versions as an autograd.Function."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from weir import _weir

PATTERNS = ("column", "outbound", "inbound")
TENSORS = ("seq_row_ids", "column_ids", "is_padding", "fk_adj", "col_perm")
_DTYPES = {torch.float64: 0, torch.float32: 1, torch.float16: 2, torch.bfloat16: 3}
_UINT16 = (torch.int16, torch.uint16) if hasattr(torch, "uint16") else (torch.int16,)
_KINDS = {
    "seq_row_ids": (*_UINT16, torch.int32, torch.int64),
    "column_ids": (torch.int32, torch.int64),
    "is_padding": (torch.bool, torch.uint8),
    "fk_adj": (torch.bool, torch.uint8),
    "col_perm": (*_UINT16, torch.int32, torch.int64),
}

# ---- Where it runs ------------------------------------------------------------------------------

_engines: dict[int | None, _weir.Attention] = {}
_lock = threading.Lock()


def _engine(device: torch.device) -> tuple[_weir.Attention, int]:
    """What computes on a device, and the stream to give work to."""
    index = None if device.type == "cpu" else device.index or 0
    engine = _engines.get(index)
    if engine is None:
        with _lock:
            engine = _engines.get(index) or _weir.Attention._open(None if index is None else "cuda", index or 0)
            _engines[index] = engine
    return engine, 0 if index is None else torch.cuda.current_stream(device).cuda_stream


# ---- What is given ------------------------------------------------------------------------------


def _check_batch(batch: Mapping[str, Tensor]) -> None:
    for name in TENSORS:
        tensor = batch[name] if name in batch else None
        if tensor is None:
            raise ValueError(f"the batch has no tensor {name!r}: attention needs {', '.join(TENSORS)}")
        if not torch.is_tensor(tensor):
            raise TypeError(f"the batch's {name} is not a tensor of torch but {type(tensor).__name__}: give batch.torch()")
        if tensor.dtype not in _KINDS[name]:
            raise TypeError(f"the batch's {name} is {tensor.dtype}, not {_KINDS[name][0]}")
    shape = batch["seq_row_ids"].shape
    if len(shape) != 2:
        raise ValueError(f"the batch's seq_row_ids has the shape {tuple(shape)}, not [B, S]")
    for name in TENSORS[1:]:
        tensor = batch[name]
        expected = (shape[0], tensor.shape[-1], tensor.shape[-1]) if name == "fk_adj" else shape
        if tuple(tensor.shape) != tuple(expected) or tensor.device != batch["seq_row_ids"].device:
            raise ValueError(
                f"the batch's {name} is {tuple(tensor.shape)} on {tensor.device}, but its seq_row_ids is "
                f"{tuple(shape)} on {batch['seq_row_ids'].device}: they are not of one batch"
            )


def _check_heads(q: Tensor, k: Tensor, v: Tensor, batch: Mapping[str, Tensor]) -> None:
    shape, device = batch["seq_row_ids"].shape, batch["seq_row_ids"].device
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if not torch.is_tensor(tensor):
            raise TypeError(f"{name} is not a tensor but {type(tensor).__name__}")
        if tensor.dim() != 4 or tensor.shape != q.shape:
            raise ValueError(f"{name} has the shape {tuple(tensor.shape)}; q, k and v are [B, H, S, D], all three the same")
        if tensor.shape[0] != shape[0] or tensor.shape[2] != shape[1]:
            raise ValueError(
                f"{name} is of {tensor.shape[0]} sequences of {tensor.shape[2]} cells, but the batch has {shape[0]} of {shape[1]}"
            )
        if tensor.dtype not in _DTYPES or tensor.dtype != q.dtype:
            raise TypeError(f"{name} is {tensor.dtype}; q, k and v are float32, float16, bfloat16 (or float64 on the CPU), all the same")
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device}, but the batch is on {device}")
    if q.shape[3] % 16 != 0 or not 16 <= q.shape[3] <= 128:
        raise ValueError(f"heads of {q.shape[3]} are not possible: 16 to 128 in steps of 16 are")
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and q.dtype == torch.float64):
        raise ValueError(f"attention in {q.dtype} on {device.type} is not possible: the CPU has all types, CUDA all but float64")


# ---- The operators ------------------------------------------------------------------------------


def _words(sequences: Any, length: Any, rows: Any) -> Any:
    """The lists' size in words of 32 bits, as weir_attention_lists_size has it: also of sizes that torch.compile does not
    know yet, which C could not take."""
    least = min if isinstance(rows, int) and isinstance(length, int) else torch.sym_min
    sizes = [
        25, sequences, sequences * (rows + 2), sequences * ((length + 1) // 2), sequences * length,
        sequences * ((length + 15) // 16 * 5 + (rows + 16) // 16 * 22), sequences * 27,
    ]  # fmt: skip
    sizes += 2 * [
        sequences * ((rows + 255) // 256) * rows, sequences * rows, sequences * rows, sequences * rows,
        sequences * rows * least(rows, 64),
    ]  # fmt: skip
    room = least(rows, length) + 1 + (length + 15) // 16
    sizes += [sequences * length, sequences * length * 64] + 4 * [sequences * (rows + 1), sequences * room * 64]
    total = 0
    for size in sizes:
        total = total + (size + 63) // 64 * 64
    return total


def _as_uint16(tensor: Tensor) -> Tensor:
    """Numbers that 16 bits do not hold become the largest, which no row has: the host says so, and a device is not asked."""
    if tensor.dtype in _UINT16:
        return tensor.contiguous()
    return tensor.masked_fill((tensor < 0) | (tensor > 0xFFFF), 0xFFFF).to(torch.int16).contiguous()


def _lists(seq_row_ids: Tensor, column_ids: Tensor, is_padding: Tensor, fk_adj: Tensor, col_perm: Tensor) -> Tensor:
    sequences, length = seq_row_ids.shape
    rows = fk_adj.shape[-1]
    device = seq_row_ids.device
    words = _weir.Attention._lists_size(sequences, length, rows) // 4
    lists = torch.empty(words, dtype=torch.int32, device=device)
    kept = (
        _as_uint16(seq_row_ids), column_ids.to(torch.int32).contiguous(), is_padding.contiguous(), fk_adj.contiguous(),
        _as_uint16(col_perm),
    )  # fmt: skip
    engine, stream = _engine(device)
    engine._lists(
        sequences, length, rows, torch.get_num_threads(), tuple(tensor.data_ptr() for tensor in kept), lists.data_ptr(), stream
    )
    return lists


def _lists_fake(seq_row_ids: Tensor, column_ids: Tensor, is_padding: Tensor, fk_adj: Tensor, col_perm: Tensor) -> Tensor:
    sequences, length = seq_row_ids.shape
    return seq_row_ids.new_empty(_words(sequences, length, fk_adj.shape[-1]), dtype=torch.int32)


def _empty(like: Tensor) -> Tensor:
    """[B, H, S, D] as a model's projections have it: [B, S, H, D] in memory."""
    sequences, heads, length, size = like.shape
    return like.new_empty(sequences, length, heads, size).transpose(1, 2)


def _sums(like: Tensor) -> Tensor:
    return like.new_empty(like.shape[:3], dtype=torch.float64 if like.dtype == torch.float64 else torch.float32)


def _ready(tensor: Tensor) -> Tensor:
    """As the kernels read it: heads in one piece, and on a GPU at multiples of 16 bytes."""
    if tensor.stride(3) != 1:
        return tensor.contiguous()
    if tensor.device.type == "cuda":
        per = 16 // tensor.element_size()
        if tensor.data_ptr() % 16 or any(tensor.stride(i) % per for i in range(3)):
            return tensor.contiguous()
    return tensor


_NOTHING = (0, 0, 0, 0)


def _place(tensor: Tensor) -> tuple[int, int, int, int]:
    return tensor.data_ptr(), tensor.stride(0), tensor.stride(1), tensor.stride(2)


def _address(lists: Tensor, q: Tensor, rows: int) -> int:
    """Of lists that have the size of such a batch's; the kernels could not tell."""
    words = _weir.Attention._lists_size(q.shape[0], q.shape[2], rows) // 4
    if lists.dtype != torch.int32 or tuple(lists.shape) != (words,) or lists.device != q.device or not lists.is_contiguous():
        raise ValueError(
            f"lists is {lists.dtype} {tuple(lists.shape)} on {lists.device}, not the torch.int32 ({words},) on {q.device} that "
            "attention_lists makes of this batch"
        )
    return int(lists.data_ptr())


def _shape_of(q: Tensor, rows: int) -> tuple[int, int, int, int, int]:
    return q.shape[0], q.shape[2], rows, q.shape[1], q.shape[3]


def _forward(q: Tensor, k: Tensor, v: Tensor, lists: Tensor, rows: int, pattern: int, scale: float) -> tuple[Tensor, Tensor]:
    q, k, v, o, lse = _ready(q), _ready(k), _ready(v), _empty(q), _sums(q)
    engine, stream = _engine(q.device)
    engine._run(
        False, pattern, _DTYPES[q.dtype], _shape_of(q, rows), torch.get_num_threads(), scale, _address(lists, q, rows),
        _place(q), _place(k), _place(v), _place(o), lse.data_ptr(), _NOTHING, _NOTHING, _NOTHING, _NOTHING, 0, stream,
    )  # fmt: skip
    return o, lse


def _forward_fake(
    q: Tensor, k: Tensor, v: Tensor, lists: Tensor, rows: int, pattern: int, scale: float
) -> tuple[Tensor, Tensor]:
    return _empty(q), _sums(q)


def _backward(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, lists: Tensor, rows: int, pattern: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    made = (_empty(q), _empty(q), _empty(q))
    _run_backward(made, g, q, k, v, o, lse, lists, rows, pattern, scale)
    return made


def _run_backward(
    made: tuple[Tensor, ...], g: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, lists: Tensor, rows: int,
    pattern: int, scale: float,
) -> None:  # fmt: skip
    g, q, k, v, delta = _ready(g), _ready(q), _ready(k), _ready(v), _sums(q)
    engine, stream = _engine(q.device)
    engine._run(
        True, pattern, _DTYPES[q.dtype], _shape_of(q, rows), torch.get_num_threads(), scale, _address(lists, q, rows),
        _place(q), _place(k), _place(v), _place(o), lse.data_ptr(), _place(g), *map(_place, made), delta.data_ptr(), stream,
    )  # fmt: skip


def _backward_fake(
    g: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, lists: Tensor, rows: int, pattern: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty(q), _empty(q), _empty(q)


# The same of q, k and v in one tensor, [B, S, 3, H, D], with the gradients in one tensor.


def _parts(packed: Tensor) -> tuple[Tensor, ...]:
    return tuple(part.transpose(1, 2) for part in packed.unbind(2))


def _forward_packed(packed: Tensor, lists: Tensor, rows: int, pattern: int, scale: float) -> tuple[Tensor, Tensor]:
    q, k, v = _parts(packed)
    o, lse = _forward(q, k, v, lists, rows, pattern, scale)
    return o.transpose(1, 2), lse


def _forward_packed_fake(packed: Tensor, lists: Tensor, rows: int, pattern: int, scale: float) -> tuple[Tensor, Tensor]:
    sequences, length, _, heads, size = packed.shape
    return packed.new_empty(sequences, length, heads, size), _sums(packed[:, :, 0].transpose(1, 2))


def _backward_packed(
    g: Tensor, packed: Tensor, o: Tensor, lse: Tensor, lists: Tensor, rows: int, pattern: int, scale: float
) -> Tensor:
    q, k, v = _parts(packed)
    made = packed.new_empty(packed.shape)
    _run_backward(_parts(made), g.transpose(1, 2), q, k, v, o.transpose(1, 2), lse, lists, rows, pattern, scale)
    return made


def _backward_packed_fake(
    g: Tensor, packed: Tensor, o: Tensor, lse: Tensor, lists: Tensor, rows: int, pattern: int, scale: float
) -> Tensor:
    return packed.new_empty(packed.shape)


class _Attention(torch.autograd.Function):  # type: ignore[misc]
    """For versions of torch without operators that are written in Python."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        q, k, v, lists, ctx.rows, ctx.pattern, ctx.scale = given
        o, lse = _forward(*given)
        ctx.save_for_backward(q, k, v, o, lse, lists)
        return o

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        q, k, v, o, lse, lists = ctx.saved_tensors
        made = _backward(gradients[0], q, k, v, o, lse, lists, ctx.rows, ctx.pattern, ctx.scale)
        return (*made, None, None, None, None)


class _PackedAttention(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, *given: Any) -> Any:
        packed, lists, ctx.rows, ctx.pattern, ctx.scale = given
        o, lse = _forward_packed(*given)
        ctx.save_for_backward(packed, o, lse, lists)
        return o

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        packed, o, lse, lists = ctx.saved_tensors
        made = _backward_packed(gradients[0], packed, o, lse, lists, ctx.rows, ctx.pattern, ctx.scale)
        return (made, None, None, None, None)


_library: Any = None
if hasattr(torch.library, "register_autograd"):
    _library = torch.library.Library("weir", "DEF")
    _library.define(
        "attention_lists(Tensor seq_row_ids, Tensor column_ids, Tensor is_padding, Tensor fk_adj, Tensor col_perm) -> Tensor"
    )
    _library.define(
        "attention(Tensor q, Tensor k, Tensor v, Tensor lists, SymInt rows, int pattern, float scale) -> (Tensor, Tensor)"
    )
    _library.define(
        "attention_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor lists, SymInt rows, "
        "int pattern, float scale) -> (Tensor, Tensor, Tensor)"
    )
    _library.define(
        "packed_attention(Tensor packed, Tensor lists, SymInt rows, int pattern, float scale) -> (Tensor, Tensor)"
    )
    _library.define(
        "packed_attention_backward(Tensor g, Tensor packed, Tensor o, Tensor lse, Tensor lists, SymInt rows, int pattern, "
        "float scale) -> Tensor"
    )
    for _name, _real, _fake in (
        ("attention_lists", _lists, _lists_fake), ("attention", _forward, _forward_fake),
        ("attention_backward", _backward, _backward_fake), ("packed_attention", _forward_packed, _forward_packed_fake),
        ("packed_attention_backward", _backward_packed, _backward_packed_fake),
    ):  # fmt: skip
        for _key in ("CPU", "CUDA"):
            _library.impl(_name, _real, _key)
        torch.library.register_fake(f"weir::{_name}", _fake, lib=_library)

    def _setup(ctx: Any, inputs: Any, output: Any) -> None:
        q, k, v, lists, ctx.rows, ctx.pattern, ctx.scale = inputs
        o, lse = output
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, o, lse, lists)

    def _gradients(ctx: Any, g: Tensor, _: Any) -> Any:
        q, k, v, o, lse, lists = ctx.saved_tensors
        made = torch.ops.weir.attention_backward(g, q, k, v, o, lse, lists, ctx.rows, ctx.pattern, ctx.scale)
        return (*made, None, None, None, None)

    def _setup_packed(ctx: Any, inputs: Any, output: Any) -> None:
        packed, lists, ctx.rows, ctx.pattern, ctx.scale = inputs
        o, lse = output
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(packed, o, lse, lists)

    def _gradients_packed(ctx: Any, g: Tensor, _: Any) -> Any:
        made = torch.ops.weir.packed_attention_backward(g, *ctx.saved_tensors, ctx.rows, ctx.pattern, ctx.scale)
        return (made, None, None, None, None)

    torch.library.register_autograd("weir::attention", _gradients, setup_context=_setup, lib=_library)
    torch.library.register_autograd("weir::packed_attention", _gradients_packed, setup_context=_setup_packed, lib=_library)


# ---- For users ----------------------------------------------------------------------------------


def _is_compiling() -> bool:
    compiler = getattr(torch, "compiler", None)
    return compiler is not None and hasattr(compiler, "is_compiling") and bool(compiler.is_compiling())


def _make_lists(batch: Mapping[str, Tensor]) -> Tensor:
    tensors = [batch[name] for name in TENSORS]
    return torch.ops.weir.attention_lists(*tensors) if _library is not None else _lists(*tensors)


def lists_of(batch: Mapping[str, Tensor]) -> Tensor:
    _check_batch(batch)
    return _kept_lists(batch)


def _kept_lists(batch: Mapping[str, Tensor]) -> Tensor:
    """The lists of a batch; kept with weir's own Tensors, for as long as the tensors stay the same."""
    if _is_compiling():  # equal calls become one there
        return _make_lists(batch)
    if batch["is_padding"].is_cuda and torch.cuda.is_current_stream_capturing():
        return _make_lists(batch)  # a CUDA graph makes them again of what its tensors hold then
    tensors = tuple(batch[name] for name in TENSORS)
    kept = getattr(batch, "_kept_lists", None)
    if kept is not None and all(a is b for a, b in zip(kept[0], tensors)) and kept[1] == _versions(tensors):
        return kept[2]
    lists = _make_lists(batch)
    if hasattr(batch, "__dict__"):
        batch.__dict__["_kept_lists"] = (tensors, _versions(tensors), lists)
    return lists


def _versions(tensors: tuple[Tensor, ...]) -> list[int]:
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _autocast(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """As scaled_dot_product_attention: in the type of autocast where that is on. float64 stays."""
    kind = tensors[0].device.type
    if kind not in ("cpu", "cuda"):
        return tensors
    if hasattr(torch, "get_autocast_dtype"):
        if not torch.is_autocast_enabled(kind):
            return tensors
        dtype = torch.get_autocast_dtype(kind)
    elif kind == "cuda" and torch.is_autocast_enabled():
        dtype = torch.get_autocast_gpu_dtype()
    elif kind == "cpu" and torch.is_autocast_cpu_enabled():
        dtype = torch.get_autocast_cpu_dtype()
    else:
        return tensors
    return tuple(tensor if tensor.dtype == torch.float64 else tensor.to(dtype) for tensor in tensors)


def _rest(pattern: str, size: int, batch: Mapping[str, Tensor], scale: float | None, lists: Tensor | None) -> tuple[Any, ...]:
    """What the operators take after the tensors that have gradients."""
    if lists is None:
        lists = _kept_lists(batch)
    elif not torch.is_tensor(lists):
        raise TypeError(f"lists is not a tensor but {type(lists).__name__}: give what attention_lists(batch) gave")
    factor = size**-0.5 if scale is None else float(scale)
    return lists, batch["fk_adj"].shape[-1], PATTERNS.index(pattern), factor


def attend(
    pattern: str, q: Tensor, k: Tensor, v: Tensor, batch: Mapping[str, Tensor], scale: float | None, lists: Tensor | None
) -> Tensor:
    _check_batch(batch)
    if all(torch.is_tensor(tensor) for tensor in (q, k, v)):
        q, k, v = _autocast((q, k, v))
    _check_heads(q, k, v, batch)
    if scale == 0:  # which is C's word for 1/sqrt(D)
        q, scale = q * 0, 1.0
    given = (q, k, v, *_rest(pattern, q.shape[3], batch, scale, lists))
    if _library is not None:
        return torch.ops.weir.attention(*given)[0]
    return _Attention.apply(*given)


def attend_packed(
    pattern: str, packed: Tensor, batch: Mapping[str, Tensor], scale: float | None, lists: Tensor | None
) -> Tensor:
    if pattern not in PATTERNS:
        raise ValueError(f"the patterns are {', '.join(PATTERNS)}, not {pattern!r}")
    if not torch.is_tensor(packed) or packed.dim() != 5 or packed.shape[2] != 3:
        shape = tuple(packed.shape) if torch.is_tensor(packed) else type(packed).__name__
        raise ValueError(f"qkv is {shape}, not a tensor of [B, S, 3, H, D]")
    q, k, v = _parts(packed)
    if scale == 0:
        return attend(pattern, q, k, v, batch, scale, lists).transpose(1, 2)
    _check_batch(batch)
    (packed,) = _autocast((packed,))
    q, k, v = _parts(packed)
    _check_heads(q, k, v, batch)
    given = (packed, *_rest(pattern, packed.shape[4], batch, scale, lists))
    if _library is not None:
        return torch.ops.weir.packed_attention(*given)[0]
    return _PackedAttention.apply(*given)


class Masks(Mapping[str, Tensor]):
    """Who sees whom in a batch, for attention that is not weir's: "column", "outbound" and "inbound".

    masks[name] is dense, bool [B, 1, S, S]: the attn_mask of scaled_dot_product_attention. masks.block(name) is
    FlexAttention's BlockMask, masks.mask_mod(name) the function that it is made of. A cell that sees nothing, such as
    padding, has a row of False: weir's attention gives zeros there, and others what they will."""

    def __init__(self, batch: Mapping[str, Tensor]) -> None:
        _check_batch(batch)
        self._batch = batch
        self._rows = _numbers(batch["seq_row_ids"])
        self._columns = batch["column_ids"].long()
        self._is_cell = ~batch["is_padding"].bool()
        self._edges = batch["fk_adj"].bool()

    def mask_mod(self, pattern: str) -> Any:
        """A function of (b, h, query, key), as FlexAttention wants it."""
        rows, columns, is_cell, edges = self._rows, self._columns, self._is_cell, self._edges
        if pattern not in PATTERNS:
            raise KeyError(f"the patterns are {', '.join(PATTERNS)}, not {pattern!r}")

        def column(b: Any, h: Any, i: Any, j: Any) -> Any:
            return (columns[b, i] == columns[b, j]) & is_cell[b, i] & is_cell[b, j]

        def outbound(b: Any, h: Any, i: Any, j: Any) -> Any:
            child, parent = rows[b, i], rows[b, j]
            return ((child == parent) | edges[b, child, parent]) & is_cell[b, i] & is_cell[b, j]

        def inbound(b: Any, h: Any, i: Any, j: Any) -> Any:
            return edges[b, rows[b, j], rows[b, i]] & is_cell[b, i] & is_cell[b, j]

        return {"column": column, "outbound": outbound, "inbound": inbound}[pattern]

    def __getitem__(self, pattern: str) -> Tensor:
        mask_mod, device = self.mask_mod(pattern), self._rows.device
        sequences, length = self._rows.shape
        if device.type == "cpu":
            return self._from_lists(pattern)
        b = torch.arange(sequences, device=device)[:, None, None]
        i = torch.arange(length, device=device)
        found: Tensor = mask_mod(b, 0, i[None, :, None], i[None, None, :])
        return found[:, None]

    def _from_lists(self, pattern: str) -> Tensor:
        sequences, length = self._rows.shape
        lists = _kept_lists(self._batch)
        mask = torch.empty(sequences, 1, length, length, dtype=torch.bool)
        _weir.Attention._mask(
            lists.data_ptr(), sequences, length, self._edges.shape[-1], PATTERNS.index(pattern), mask.data_ptr()
        )
        return mask

    def block(self, pattern: str, block_size: int = 128) -> Any:
        """FlexAttention's BlockMask (torch 2.5 and later)."""
        from torch.nn.attention.flex_attention import create_block_mask

        sequences, length = self._rows.shape
        return create_block_mask(
            self.mask_mod(pattern), sequences, None, length, length, device=str(self._rows.device), BLOCK_SIZE=block_size
        )

    def __iter__(self) -> Iterator[str]:
        return iter(PATTERNS)

    def __len__(self) -> int:
        return len(PATTERNS)


def _numbers(tensor: Tensor) -> Tensor:
    """uint16, whatever holds it, as int64."""
    return tensor.long() & 0xFFFF if tensor.dtype == torch.int16 else tensor.long()
