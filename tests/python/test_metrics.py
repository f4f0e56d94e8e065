"""weir.metrics against their definitions, pair by pair, and against numbers worked out by hand."""

import math
import random
import unittest
from fractions import Fraction

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.python import support  # noqa: F401 (hypothesis' profile)
from weir import metrics

SCORED = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=40)
NUMBERS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6)), min_size=1, max_size=30)


class AgainstTheDefinition(unittest.TestCase):
    @given(SCORED)
    def test_auroc_is_the_share_of_pairs_in_order(self, pairs: list[tuple[int, bool]]) -> None:
        true, false = [s for s, label in pairs if label], [s for s, label in pairs if not label]
        found = metrics.auroc([s for s, _ in pairs], [label for _, label in pairs])
        if not true or not false:
            self.assertTrue(math.isnan(found))
            return
        won = sum(Fraction((a > b) * 2 + (a == b), 2) for a in true for b in false)
        self.assertEqual(found, float(won / (len(true) * len(false))))

    @given(SCORED)
    def test_average_precision_is_the_sum_over_thresholds(self, pairs: list[tuple[int, bool]]) -> None:
        positives = sum(label for _, label in pairs)
        found = metrics.average_precision([s for s, _ in pairs], [label for _, label in pairs])
        if positives == 0:
            self.assertTrue(math.isnan(found))
            return
        expected, recall = Fraction(0), Fraction(0)
        for threshold in sorted({s for s, _ in pairs}, reverse=True):
            above = [label for s, label in pairs if s >= threshold]
            expected += (Fraction(sum(above), positives) - recall) * Fraction(sum(above), len(above))
            recall = Fraction(sum(above), positives)
        self.assertAlmostEqual(found, float(expected), places=12)

    @given(NUMBERS)
    def test_errors_of_numbers(self, pairs: list[tuple[float, float]]) -> None:
        found, truth = np.array(pairs).T
        self.assertTrue(math.isclose(metrics.mae(found, truth), np.abs(found - truth).mean(), rel_tol=1e-9, abs_tol=1e-9))
        self.assertTrue(math.isclose(metrics.rmse(found, truth), math.sqrt(((found - truth) ** 2).mean()), rel_tol=1e-9))
        self.assertEqual(metrics.mae(found, found), 0)
        if truth.var() > 1e-3:
            expected = 1 - ((found - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum()
            self.assertTrue(math.isclose(metrics.r2(found, truth), expected, rel_tol=1e-6, abs_tol=1e-6))


class ByHand(unittest.TestCase):
    def test_binary(self) -> None:
        scores, labels = [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]
        self.assertEqual(metrics.auroc(scores, labels), 0.75)
        self.assertAlmostEqual(metrics.average_precision(scores, labels), (1 + 2 / 3) / 2)
        self.assertAlmostEqual(metrics.log_loss([0.9, 0.2], [True, False]), -(math.log(0.9) + math.log(0.8)) / 2)
        self.assertEqual(metrics.log_loss([1.0, 0.0], [False, False]), (-math.log(1e-15) - math.log(1 - 1e-15)) / 2)

    def test_classes(self) -> None:
        scores, labels = [[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4]], [1, 2, 2]
        self.assertEqual(metrics.accuracy(scores, labels), 2 / 3)
        self.assertEqual(metrics.accuracy([1, 2, 0], labels), 2 / 3)
        self.assertEqual(metrics.accuracy([[1, 1]], [0]), 1, "of equal scores the first")
        self.assertAlmostEqual(metrics.log_loss(scores, labels), -(math.log(0.7) + math.log(0.3) + math.log(0.4)) / 3)

    def test_arrays_of_all_kinds_are_the_same(self) -> None:
        scores, labels = [random.Random(3).random() for _ in range(200)], [i % 3 == 0 for i in range(200)]
        for make in list, tuple, np.array, torch.tensor, lambda values: iter(values):
            self.assertEqual(metrics.auroc(make(torch.tensor(scores).tolist()), make(labels)), metrics.auroc(scores, labels))

    def test_the_order_of_samples_does_not_matter(self) -> None:
        generator = random.Random(5)
        pairs = [(generator.gauss(0, 1e8), generator.gauss(0, 1)) for _ in range(1000)]
        found = {metrics.rmse(*zip(*generator.sample(pairs, 1000))) for _ in range(5)}
        self.assertEqual(len(found), 1)

    def test_what_is_usual(self) -> None:
        self.assertEqual(set(metrics.usual("boolean", [1, 2], [0, 1])), {"auroc", "average_precision"})
        self.assertEqual(metrics.usual("categorical", [[1, 2]], [1]), {"accuracy": 1})
        self.assertEqual(set(metrics.usual("numerical", [1.0], [2.0])), {"mae", "rmse", "r2"})
        with self.assertRaises(ValueError):
            metrics.usual("text", [], [])

    def test_ranking(self) -> None:
        """Two lists of four; of equal scores the false one comes first; what comes twice counts once."""
        scores = [9, 8, 7, 6, 5, 5, 4, 9]
        labels = [1, 0, 1, 0, 1, 0, 0, 0]
        lists = ["x", "x", "x", "x", "y", "y", "y", "x"]
        items = ["a", "b", "c", "d", "a", "b", "c", "b"]
        found = metrics.ranking(scores, labels, lists, items, k=3)
        self.assertAlmostEqual(found["map"], ((1 + 2 / 3) / 2 + 1 / 2) / 2)
        self.assertEqual((found["hit_rate"], found["precision"], found["recall"]), (1.0, (2 / 3 + 1 / 3) / 2, 1.0))
        self.assertEqual(metrics.ranking(scores, labels, lists, items, k=1)["hit_rate"], 0.5)
        self.assertTrue(all(math.isnan(value) for value in metrics.ranking([1.0], [0], [0], [0]).values()))
        with self.assertRaisesRegex(ValueError, "2, 1, 1, 1 scores, labels, lists and items"):
            metrics.ranking([1.0, 2.0], [0], [0], [0])

    def test_nothing_and_nonsense(self) -> None:
        for name in metrics.__all__:
            if name not in ("usual", "ranking"):
                self.assertTrue(math.isnan(getattr(metrics, name)([], [])), name)
                with self.assertRaisesRegex(ValueError, "1 predictions and 2 answers"):
                    getattr(metrics, name)([1], [1, 0])
        with self.assertRaisesRegex(ValueError, "NaN"):
            metrics.auroc([math.nan, 1], [1, 0])


if __name__ == "__main__":
    unittest.main()
