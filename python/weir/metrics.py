"""The usual metrics of predictions, in plain Python: lists, numpy arrays and torch tensors alike, nothing to install.

    >>> from weir import metrics
    >>> metrics.auroc([0.9, 0.8, 0.3, 0.3], [True, False, True, False])
    0.625
    >>> metrics.usual("numerical", [1.0, 2.0, 4.0], [1.0, 2.0, 3.0])["mae"]
    0.3333333333333333

Sums are exact before they are rounded (math.fsum), so a metric does not depend on the order of the samples, and is the
same on every machine. Of nothing, or if it is not defined (an AUROC of one class), a metric is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weir._store import CARRIERS

__all__ = ["accuracy", "auroc", "average_precision", "log_loss", "mae", "r2", "ranking", "rmse", "usual"]


def auroc(scores: Any, labels: Any) -> float:
    """The area under the ROC curve: how often a true one scores above a false one; a tie counts half. 0.5 by chance."""
    pairs = sorted(_pairs(scores, labels))
    positives = sum(1 for _, label in pairs if label)
    negatives = len(pairs) - positives
    if positives == 0 or negatives == 0:
        return math.nan
    won = below = 0  # won counts in halves, so that it is exact
    for tied in _ties(pairs):
        true = sum(1 for _, label in tied if label)
        won += true * (2 * below + len(tied) - true)
        below += len(tied) - true
    return won / (2 * positives * negatives)


def average_precision(scores: Any, labels: Any) -> float:
    """The mean precision at each true one, from the best score down; equal scores are taken together. By chance it is the
    share of true ones."""
    pairs = sorted(_pairs(scores, labels), key=lambda pair: -pair[0])
    positives = sum(1 for _, label in pairs if label)
    if positives == 0:
        return math.nan
    terms, true, seen = [], 0, 0
    for tied in _ties(pairs):
        new = sum(1 for _, label in tied if label)
        true, seen = true + new, seen + len(tied)
        terms.append(new * true / seen)
    return math.fsum(terms) / positives


def accuracy(predictions: Any, labels: Any) -> float:
    """The share of predictions that are right. A prediction is a class, or a list of scores, one per class, of which the
    first of the largest counts."""
    rows, answers = _lists(predictions, labels)
    right = sum(1 for row, answer in zip(rows, answers) if _class_of(row) == int(answer))
    return right / len(rows) if rows else math.nan


def log_loss(probabilities: Any, labels: Any) -> float:
    """The mean of -log(probability of what is true): probabilities of the true class, or lists of them, one per class.
    Probabilities are kept within 1e-15 of 0 and 1, as others do."""
    rows, answers = _lists(probabilities, labels)
    terms = []
    for row, answer in zip(rows, answers):
        right = row[int(answer)] if isinstance(row, Sequence) else row if answer else 1 - row
        terms.append(-math.log(min(max(right, 1e-15), 1 - 1e-15)))
    return math.fsum(terms) / len(terms) if terms else math.nan


def mae(predictions: Any, truth: Any) -> float:
    """The mean absolute error."""
    errors = [abs(a - b) for a, b in zip(*_lists(predictions, truth))]
    return math.fsum(errors) / len(errors) if errors else math.nan


def rmse(predictions: Any, truth: Any) -> float:
    """The root of the mean squared error."""
    squares = [(a - b) ** 2 for a, b in zip(*_lists(predictions, truth))]
    return math.sqrt(math.fsum(squares) / len(squares)) if squares else math.nan


def r2(predictions: Any, truth: Any) -> float:
    """The share of the variance that is explained: 1 is perfect, 0 is what the mean alone gets."""
    found, values = _lists(predictions, truth)
    if not values:
        return math.nan
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values)
    return 1 - math.fsum((a - b) ** 2 for a, b in zip(found, values)) / spread if spread else math.nan


def ranking(scores: Any, labels: Any, lists: Any, items: Any, k: int = 10) -> dict[str, float]:
    """How high the true ones come in their lists: map, hit_rate, precision and recall at k, means over the lists that have
    a true one.

        >>> ranking([3.0, 2.0, 1.0, 1.0, 5.0], [0, 1, 0, 1, 0], [7, 7, 7, 8, 8], ["a", "b", "c", "a", "b"], k=1)
        {'map': 0.0, 'hit_rate': 0.0, 'precision': 0.0, 'recall': 0.0}
        >>> ranking([3.0, 2.0, 1.0, 1.0, 5.0], [0, 1, 0, 1, 0], [7, 7, 7, 8, 8], ["a", "b", "c", "a", "b"], k=2)["map"]
        0.5

    One entry per candidate: its score, whether it is true, what says which list it is of (for a link task the source and the
    time), and what it is (the destination's row). A candidate that comes several times in a list counts once, as the
    first time. Of equal scores the false ones come first, so that a model which tells nothing apart gains nothing.
    The average precision of a list is the sum of the precisions at the places up to k that are true, over the lesser of
    k and the number of true ones."""
    by_list: dict[Any, dict[Any, tuple[float, bool]]] = {}
    given = [_listed(values) for values in (scores, labels, lists, items)]
    if len({len(values) for values in given}) > 1:
        raise ValueError(f"there are {', '.join(str(len(values)) for values in given)} scores, labels, lists and items")
    for score, label, name, item in zip(*given):
        by_list.setdefault(name, {}).setdefault(item, (score, bool(label)))
    found: dict[str, list[float]] = {"map": [], "hit_rate": [], "precision": [], "recall": []}
    for candidates in by_list.values():
        true = sum(1 for _, label in candidates.values() if label)
        if true == 0:
            continue
        ranked = [label for _, label in sorted(candidates.values(), key=lambda pair: (-pair[0], pair[1]))][:k]
        hits = sum(ranked)
        terms = [sum(ranked[: place + 1]) / (place + 1) for place, label in enumerate(ranked) if label]
        found["map"].append(math.fsum(terms) / min(k, true))
        found["hit_rate"].append(float(hits > 0))
        found["precision"].append(hits / k)
        found["recall"].append(hits / true)
    return {name: math.fsum(values) / len(values) if values else math.nan for name, values in found.items()}


def usual(stype: str, predictions: Any, truth: Any) -> dict[str, float]:
    """What one looks at for a target of this semantic type: predictions of a boolean are scores (logits do), of a
    categorical one lists of scores, of a number numbers."""
    chosen: dict[str, Callable[[Any, Any], float]]
    carrier = CARRIERS.get(stype)
    if carrier == "bool_values":
        chosen = {"auroc": auroc, "average_precision": average_precision}
    elif carrier == "categorical_embed_ids":
        chosen = {"accuracy": accuracy}
    elif carrier in ("numeric_values", "timestamp_values"):
        chosen = {"mae": mae, "rmse": rmse, "r2": r2}
    else:
        raise ValueError(f"a target is boolean, categorical, numerical or timestamp, not {stype!r}")
    return {name: metric(predictions, truth) for name, metric in chosen.items()}


def _listed(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _lists(predictions: Any, truth: Any) -> tuple[list[Any], list[Any]]:
    first, second = _listed(predictions), _listed(truth)
    if len(first) != len(second):
        raise ValueError(f"there are {len(first)} predictions and {len(second)} answers")
    return first, second


def _pairs(scores: Any, labels: Any) -> list[tuple[float, bool]]:
    """(score, label) each; a NaN has no place in an order."""
    first, second = _lists(scores, labels)
    if any(score != score for score in first):
        raise ValueError("a score is NaN, which has no place in an order")
    return [(score, bool(label)) for score, label in zip(first, second)]


def _ties(pairs: list[tuple[float, bool]]) -> list[list[tuple[float, bool]]]:
    """Pairs of equal scores together, in their order."""
    groups: list[list[tuple[float, bool]]] = []
    for pair in pairs:
        if groups and groups[-1][0][0] == pair[0]:
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def _class_of(row: Any) -> int:
    return row.index(max(row)) if isinstance(row, Sequence) else int(row)
