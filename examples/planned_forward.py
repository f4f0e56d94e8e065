"""A model runs in the memory of its plan: every value is where the plan says, from its birth to its death.

    python3 examples/planned_forward.py

The model is traced, planned, and run node by node. Each result is put into its place in weir.Arenas and read from there by
all later nodes, so a plan that gave one byte to two live tensors would show as a wrong result. Half-way through, the
arena's memory is moved; no address changes. A commit
seals what is live where, with a hash of its bytes. Then two models that take turns share one piece of memory.
"""

from typing import Any

import torch
import torch.fx
import weir
from torch.fx.passes.shape_prop import ShapeProp


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class InArenas(torch.fx.Interpreter):
    """Runs a traced model with every value in its place."""

    def __init__(self, module: torch.fx.GraphModule, arenas: weir.Arenas) -> None:
        super().__init__(module)
        self.arenas = arenas
        self.position = 0  # of the schedule: what is there before the first node is born at 0

    def run_node(self, n: torch.fx.Node) -> Any:
        self.position += n.op.startswith("call")
        value = super().run_node(n)
        if not isinstance(value, torch.Tensor) or n.name not in self.arenas:
            return value
        return self.arenas.torch(n.name, self.position).copy_(value)


def traced(model: torch.nn.Module, example: torch.Tensor) -> torch.fx.GraphModule:
    module = torch.fx.symbolic_trace(model)
    ShapeProp(module).propagate(example)
    return module


def main() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block(64) for _ in range(4))).eval()
    x = torch.randn(32, 64)
    with torch.no_grad():
        module = traced(model, x)
        plan = weir.plan(module, mode="inference")
        activations = plan.arenas["activations"]
        all_bytes = sum(t["size"] for t in plan.tensors.values() if t["arena"] == "activations")
        print(f"{activations['tensors']} activations of {all_bytes:,} bytes live in {activations['peak_bytes']:,}")

        arenas = weir.Arenas(plan)
        arenas.prepare(0)
        assert torch.equal(InArenas(module, arenas).run(x), model(x))
        print("run in its arenas, the model gives the same bits")

        sealed = arenas.seal(0, 0, contents=True)  # parameters and input, bit for bit, in one hash
        assert arenas.seal(0, 0, contents=True) == sealed
        before = arenas.arena("activations").address
        arenas.remap("activations")  # new memory; what was there is copied
        assert arenas.arena("activations").address == before
        assert torch.equal(InArenas(module, arenas).run(x), model(x))
        print("and again after its memory was moved")

        other = weir.Arenas(plan, empty=True)
        shared = weir.Backing(arenas.pages("activations")["range_bytes"])
        for each in (arenas, other):
            each.remap("activations", shared, keep=False)
        other.remap("parameters")
        y = torch.randn(32, 64)
        for _ in range(3):
            assert torch.equal(InArenas(module, arenas).run(x), model(x))
            assert torch.equal(InArenas(module, other).run(y), model(y))
        print(f"two models take turns in {shared.nbytes:,} bytes")


if __name__ == "__main__":
    main()
