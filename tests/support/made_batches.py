"""The tensors of batches that no database gave: rows, columns and foreign keys at random, for tests of attention."""

import random
from typing import Any

import torch
import weir.torch


def _uint16(numbers: torch.Tensor) -> torch.Tensor:
    return numbers.to(torch.uint16 if hasattr(torch, "uint16") else torch.int16)


def made_batch(
    sequences: int, length: int, rows: int, *, columns: int = 6, widest: int = 12, density: float = 0.1, seed: int = 0,
    is_full: bool = False,
) -> weir.torch.Tensors:  # fmt: skip
    """The first sequence is full, the others (unless is_full) of any length. density: of fk_adj."""
    generator = random.Random(seed)
    edges = torch.zeros(sequences, rows, rows, dtype=torch.bool)
    made: dict[str, list[list[int]]] = {"rows": [], "columns": [], "padding": [], "order": []}
    for b in range(sequences):
        cells = length if b == 0 or is_full else generator.randint(0, length)
        row_of: list[int] = []
        while len(row_of) < cells:
            row = min(row_of[-1] + 1 if row_of else 0, rows - 1)
            row_of += [row] * min(generator.randint(1, widest), cells - len(row_of))
        column_of = [generator.randrange(columns) for _ in range(cells)]
        order = sorted(range(cells), key=lambda i: (column_of[i], i))
        for child in range(row_of[-1] + 1 if row_of else 0):
            for parent in range(row_of[-1] + 1):
                edges[b, child, parent] = generator.random() < density
        rest = length - cells
        made["rows"].append(row_of + [0] * rest)
        made["columns"].append(column_of + [0] * rest)
        made["padding"].append([0] * cells + [1] * rest)
        made["order"].append(order + list(range(cells, length)))
    tensors = {name: torch.tensor(rows, dtype=torch.int32).reshape(sequences, length) for name, rows in made.items()}
    return weir.torch.Tensors(
        seq_row_ids=_uint16(tensors["rows"]), column_ids=tensors["columns"], is_padding=tensors["padding"].bool(), fk_adj=edges,
        col_perm=_uint16(tensors["order"]),
    )  # fmt: skip


def sees(batch: Any, pattern: str) -> torch.Tensor:
    """By the definition, cell by cell of cells: bool [B, 1, S, S]."""
    rows = batch["seq_row_ids"].long() & 0xFFFF
    is_cell = ~batch["is_padding"]
    edges = torch.zeros(*rows.shape, rows.shape[1], dtype=torch.bool)
    for b, row_of in enumerate(rows):
        edges[b] = batch["fk_adj"][b][row_of][:, row_of]
    found = {
        "column": batch["column_ids"][:, :, None] == batch["column_ids"][:, None, :],
        "outbound": (rows[:, :, None] == rows[:, None, :]) | edges,
        "inbound": edges.transpose(1, 2),
    }[pattern]
    return (found & is_cell[:, :, None] & is_cell[:, None, :])[:, None]


def dense_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The long way; zeros where a cell sees nothing."""
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~mask, -1e300 if q.dtype == torch.float64 else -1e30).softmax(-1)
    result: torch.Tensor = (weights * mask) @ v
    return result
