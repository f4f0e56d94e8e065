"""Attention as operators of today's PyTorch: what torch itself checks of operators, torch.compile with rows that change in
number, and FlexAttention with weir's masks."""

import unittest
from typing import Any

from tests.ecosystem.support import require

require("torch", "numpy")

import torch
import weir.torch
from tests.support.made_batches import made_batch, sees
from weir import _attention

ATTENTIONS = {
    "column": weir.torch.column_attention, "outbound": weir.torch.outbound_attention, "inbound": weir.torch.inbound_attention,
}  # fmt: skip


class Model(torch.nn.Module):
    """Two layers of all three."""

    def __init__(self) -> None:
        super().__init__()
        self.project = torch.nn.Linear(32, 96)

    def forward(self, cells: torch.Tensor, batch: Any) -> torch.Tensor:
        for _ in range(2):
            q, k, v = self.project(cells).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
            for attention in ATTENTIONS.values():
                cells = cells + attention(q, k, v, batch).transpose(1, 2).flatten(2)
        return cells


class Operators(unittest.TestCase):
    def test_opcheck(self) -> None:
        batch = made_batch(2, 64, 12)
        tensors = tuple(batch[name] for name in _attention.TENSORS)
        # What is not used of the lists is not written, so equal calls need not give equal bytes.
        torch.library.opcheck(torch.ops.weir.attention_lists.default, tensors, test_utils=("test_schema", "test_faketensor"))
        lists = torch.ops.weir.attention_lists(*tensors)
        for pattern in range(3):
            given = [torch.randn(2, 2, 64, 16, requires_grad=True) for _ in range(3)]
            torch.library.opcheck(torch.ops.weir.attention.default, (*given, lists, 12, pattern, 0.25))
            o, lse = torch.ops.weir.attention(*(t.detach() for t in given), lists, 12, pattern, 0.25)
            parts = (torch.randn_like(o), *(t.detach() for t in given), o, lse, lists, 12, pattern, 0.25)
            torch.library.opcheck(torch.ops.weir.attention_backward.default, parts)

    def test_compile(self) -> None:
        torch.manual_seed(0)
        model, cells = Model(), torch.randn(2, 64, 32)
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        for rows in (12, 13, 14, 15):  # as batches differ without pad_rows
            batch = made_batch(2, 64, rows, seed=rows)
            expected, found = model(cells, batch), compiled(cells, batch)
            self.assertTrue(torch.equal(expected, found))
            a = torch.autograd.grad(expected.sum(), list(model.parameters()))
            b = torch.autograd.grad(found.sum(), list(model.parameters()))
            self.assertTrue(all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b)))

    def test_lists_are_made_once(self) -> None:
        seen: list[str] = []

        def look(graph: Any, inputs: Any) -> Any:
            seen.extend(str(node.target) for node in graph.graph.nodes if node.op == "call_function")
            return graph.forward

        from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
        from torch._dynamo.backends.common import aot_autograd

        def compile_graph(graph: Any, inputs: Any) -> Any:
            return make_boxed_func(look(graph, inputs))

        compiler = aot_autograd(fw_compiler=compile_graph, partition_fn=min_cut_rematerialization_partition)  # as inductor's
        torch.compile(Model(), fullgraph=True, backend=compiler)(torch.randn(2, 64, 32), made_batch(2, 64, 12)).sum().backward()
        self.assertEqual(seen.count("weir.attention_lists.default"), 1)
        self.assertEqual(seen.count("weir.attention.default"), 6)
        self.assertEqual(seen.count("weir.attention_backward.default"), 6)

    def test_flex_attention(self) -> None:
        from torch.nn.attention.flex_attention import flex_attention

        batch = made_batch(2, 256, 60, is_full=True, density=0.05)
        q, k, v = (torch.randn(2, 2, 256, 16) for _ in range(3))
        masks = weir.torch.masks(batch)
        for pattern, attention in ATTENTIONS.items():
            found = flex_attention(q, k, v, block_mask=masks.block(pattern))
            sight = sees(batch, pattern).any(-1)[..., None]
            self.assertLess(float(((found - attention(q, k, v, batch)) * sight).abs().max()), 1e-5, pattern)
            by_mask = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=masks[pattern])
            self.assertLess(float(((by_mask - attention(q, k, v, batch)).nan_to_num(0) * sight).abs().max()), 1e-5, pattern)


if __name__ == "__main__":
    unittest.main()
