"""The PyTorch of today: plans of models through torch.export, and functions of weir.torch inside torch.compile."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from tests.ecosystem.support import ROOT, require

require("torch", "numpy")

import torch
import weir
import weir.torch


class Torch(unittest.TestCase):
    """Tests that say nothing of a version, run with this one."""

    def run_tests(self, path: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{Path(weir.__file__).parents[1]}:{ROOT}", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", str(ROOT / path)], env=environment, cwd=ROOT, capture_output=True,
                              text=True, check=False, timeout=550)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("skipped", done.stderr if torch.__version__ >= "2" else "")

    def test_plans(self) -> None:
        self.run_tests("tests/python/test_plan.py")

    def test_text_embeddings_are_the_same_when_compiled(self) -> None:
        """Also of types that were made in the graph: torch.compile takes their comparison with an enum for False."""
        no = torch.zeros(2, 3, dtype=torch.bool)
        tensors = {
            "semantic_types": torch.tensor([[5, 1, 5], [0, 5, 2]], dtype=torch.int8), "is_null": no, "is_padding": no,
            "text_embed_ids": torch.tensor([[1, 0, 2], [0, 2, 0]]).to(torch.uint32), "text_batch_embeddings": torch.randn(3, 4),
        }  # fmt: skip

        def look(types: torch.Tensor) -> torch.Tensor:
            return weir.torch.text_embeddings({**tensors, "semantic_types": types[:]})

        expected = look(tensors["semantic_types"])
        self.assertEqual(expected.abs().sum(-1).bool().tolist(), [[True, False, True], [False, True, False]])
        found = torch.compile(look, backend="eager", fullgraph=True)(tensors["semantic_types"])
        self.assertTrue(torch.equal(found, expected))


if __name__ == "__main__":
    unittest.main()
