"""torch.compile with weir.torch.BudgetSolver: the backward pass peaks lower as the budget falls, and gives the same bits."""

import unittest
from typing import Any

from tests.ecosystem.support import require

require("torch")

import torch
import torch._functorch.config as config
import weir.torch
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

BUDGETS = (1.0, 0.6, 0.3, 0.15, 0.05, 0.02)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 3 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norms[0](x)
        scores = torch.softmax(self.q(y) @ self.k(y).transpose(-1, -2) / 8, -1)
        x = x + self.o(scores @ self.v(y))
        y = self.norms[1](x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Meter(fx.Interpreter):
    """Runs a graph and sees the most bytes of tensors that it holds at once; a value goes after its last use."""

    most = 0

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        held: dict[int, int] = {}
        for value in [*self.env.values(), result]:
            for tensor in value if isinstance(value, (tuple, list)) else [value]:
                if isinstance(tensor, Tensor):
                    storage = tensor.untyped_storage()
                    held[storage.data_ptr()] = storage.nbytes()
        self.most = max(self.most, sum(held.values()))
        return result


class Budget(unittest.TestCase):
    def step(self, budget: float, solver: Any) -> tuple[int, Tensor]:
        """The peak of the backward pass, and all gradients, of one step."""
        peaks: list[int] = []

        def backward(graph: fx.GraphModule, _: Any) -> Any:
            def run(*values: Any) -> Any:
                meter = Meter(graph)
                result = meter.run(*values)
                peaks.append(meter.most)
                return result

            return make_boxed_func(run)

        backend = aot_autograd(
            fw_compiler=lambda graph, _: make_boxed_func(graph.forward),
            bw_compiler=backward,
            partition_fn=min_cut_rematerialization_partition,
        )
        torch._dynamo.reset()
        torch.manual_seed(1)
        model = nn.Sequential(*(Block(32) for _ in range(6)))
        x = torch.randn(2, 64, 32)
        with config.patch(activation_memory_budget=budget, activation_memory_budget_solver=solver):
            torch.compile(model, backend=backend)(x).square().mean().backward()
        self.assertEqual(len(peaks), 1)
        return peaks[0], torch.cat([p.grad.flatten() for p in model.parameters()])

    def test_peaks_fall_with_the_budget(self) -> None:
        measured = [self.step(budget, weir.torch.BudgetSolver()) for budget in BUDGETS]
        peaks = [peak for peak, _ in measured]
        self.assertEqual(peaks, sorted(peaks, reverse=True), dict(zip(BUDGETS, peaks)))
        self.assertLess(peaks[-1], 0.65 * peaks[0])
        for _, gradients in measured[1:]:
            self.assertTrue(torch.equal(gradients, measured[0][1]))
        theirs, _ = self.step(BUDGETS[-1], "dp")
        self.assertLess(peaks[-1], 0.8 * theirs)


if __name__ == "__main__":
    unittest.main()
