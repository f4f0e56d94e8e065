"""JAX: batches as arrays, labels apart, a loop that resumes."""

import itertools
import unittest
from typing import Any

from tests.ecosystem.support import require

require("jax", "numpy")

import jax
import jax.numpy as jnp
import numpy as np
import weir
from tests.python.support import TRAIN, ShopTest


class Jax(ShopTest):
    def test_tensors_are_numpys(self) -> None:
        batch = weir.batch(self.store, self.manifest, TRAIN)
        for hide_target in False, True:
            expected = batch.numpy(hide_target=hide_target)
            found = batch.jax(hide_target=hide_target)
            self.assertEqual(list(found), list(expected))
            for name, array in found.items():
                self.assertEqual(array.dtype, expected[name].dtype, name)
                np.testing.assert_array_equal(np.asarray(array), expected[name])

    def test_targets(self) -> None:
        for task in "churn", "rating", "category":
            target = weir.batch(self.store, self.manifest, f"shop/{task}/train").target
            for found, expected in zip(target.jax(), target.numpy()):
                self.assertEqual(np.asarray(found).tolist(), expected.tolist())

    def test_a_loop_that_resumes(self) -> None:
        @jax.jit
        def step(weight: jax.Array, values: jax.Array, target: jax.Array) -> jax.Array:
            gradient = jax.grad(lambda w: jnp.mean((values @ w - target) ** 2))(weight)
            return weight - 0.01 * gradient

        def loader() -> weir.Loader:
            loader = weir.Loader(self.store, self.changed_manifest(global_batch_size=4), dataset=TRAIN, steps=10)
            self.addCleanup(loader.close)
            return loader

        def train(loader: weir.Loader, weight: jax.Array, count: int) -> jax.Array:
            for batch in itertools.islice(loader, count):
                values = batch.jax(hide_target=True)["numeric_values"]
                weight = step(weight, values, batch.target.jax()[0].astype(jnp.float32))
                jax.block_until_ready(weight)
            return weight

        zero = jnp.zeros(64)
        whole = train(loader(), zero, 10)
        first, second = loader(), loader()
        half = train(first, zero, 4)
        second.load_state_dict(first.state_dict())
        np.testing.assert_array_equal(np.asarray(train(second, half, 6)), np.asarray(whole))

    def test_kept_arrays_are_told(self) -> None:
        kept: list[Any] = []
        with self.assertRaisesRegex(weir.errors.ContractViolation, "batches are still held"):
            for batch in weir.Loader(self.store, self.changed_manifest(), dataset=TRAIN):
                kept.append(batch.jax())


if __name__ == "__main__":
    unittest.main()
