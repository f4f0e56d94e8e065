"""Attention over the cells of a batch, as the specification (07) defines it: one sequence and one head at a time, in
Python's own floats, pair by pair. Tensors are lists."""

import math
from collections.abc import Mapping
from typing import Any

Matrix = list[list[float]]


def sees(batch: Mapping[str, Any], b: int, pattern: str, i: int, j: int) -> bool:
    """Whether position i of sequence b sees position j."""
    if batch["is_padding"][b][i] or batch["is_padding"][b][j]:
        return False
    if pattern == "column":
        return bool(batch["column_ids"][b][i] == batch["column_ids"][b][j])
    mine, other, edges = batch["seq_row_ids"][b][i], batch["seq_row_ids"][b][j], batch["fk_adj"][b]
    if pattern == "outbound":
        return bool(mine == other or edges[mine][other])
    return bool(edges[other][mine])


def _dot(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b))


def _add(to: list[float], factor: float, row: list[float]) -> None:
    for d, value in enumerate(row):
        to[d] += factor * value


def attention(
    batch: Mapping[str, Any], b: int, pattern: str, q: Matrix, k: Matrix, v: Matrix, g: Matrix
) -> tuple[Matrix, Matrix, Matrix, Matrix]:
    """(o, dq, dk, dv) of one head, for the gradient g of o."""
    length, size = len(q), len(q[0])
    scale = size**-0.5
    o, dq, dk, dv = ([[0.0] * size for _ in range(length)] for _ in range(4))
    for i in range(length):
        seen = [j for j in range(length) if sees(batch, b, pattern, i, j)]
        scores = [scale * _dot(q[i], k[j]) for j in seen]
        weights = [math.exp(score - max(scores)) for score in scores]
        total = math.fsum(weights)
        for j, weight in zip(seen, weights):
            _add(o[i], weight / total, v[j])
        delta = _dot(g[i], o[i])
        for j, weight in zip(seen, weights):
            change = scale * weight / total * (_dot(g[i], v[j]) - delta)
            _add(dq[i], change, k[j])
            _add(dk[j], change, q[i])
            _add(dv[j], weight / total, g[i])
    return o, dq, dk, dv
