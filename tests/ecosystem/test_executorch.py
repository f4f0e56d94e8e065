"""ExecuTorch runs weir's plans: its verifier accepts them, arenas are at the lower bound and never larger than its own
planner's, and programs give the same bits."""

import functools
import unittest
import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from tests.ecosystem.support import require

require("executorch", "torch")

import torch
import weir.executorch
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
from executorch.exir.memory_planning import MemoryAlgoResult, MemoryPlanningAlgorithmSuite, Verifier, greedy
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import TensorSpec
from executorch.runtime import Runtime
from torch import Tensor, nn


def conv(inputs: int, outputs: int, size: int = 3, stride: int = 1, groups: int = 1) -> nn.Sequential:
    kernel = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(kernel, nn.BatchNorm2d(outputs), nn.ReLU())


class Residual(nn.Module):
    """f(x) + x, or f(x) + g(x)."""

    def __init__(self, body: nn.Module, side: nn.Module | None = None) -> None:
        super().__init__()
        self.body, self.side = body, side or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x) + self.side(x)


def mobilenet() -> nn.Module:
    """Inverted residuals, as MobileNetV2's."""

    def block(channels: int, outputs: int, stride: int) -> nn.Module:
        wide = 6 * channels
        body = nn.Sequential(conv(channels, wide, 1), conv(wide, wide, 3, stride, wide), nn.Conv2d(wide, outputs, 1))
        return Residual(body) if stride == 1 and channels == outputs else body

    blocks = [block(8, 8, 1), block(8, 12, 2), block(12, 12, 1), block(12, 16, 2), block(16, 16, 1)]
    return nn.Sequential(conv(3, 8, 3, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def resnet() -> nn.Module:
    def block(channels: int, outputs: int, stride: int) -> nn.Module:
        body = nn.Sequential(conv(channels, outputs, 3, stride), nn.Conv2d(outputs, outputs, 3, 1, 1))
        side = None if stride == 1 and channels == outputs else nn.Conv2d(channels, outputs, 1, stride)
        return nn.Sequential(Residual(body, side), nn.ReLU())

    blocks = [block(8, 8, 1), block(8, 16, 2), block(16, 16, 1), block(16, 32, 2), block(32, 32, 1)]
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(conv(3, 8, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, head)


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([conv(3, 8), conv(8, 16), conv(16, 32)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(32, 16, 2, 2), nn.ConvTranspose2d(16, 8, 2, 2)])
        self.join = nn.ModuleList([conv(32, 16), conv(16, 8)])

    def forward(self, x: Tensor) -> Tensor:
        kept = []
        for level, down in enumerate(self.down):
            x = down(x if level == 0 else nn.functional.max_pool2d(x, 2))
            kept.append(x)
        for up, join, skipped in zip(self.up, self.join, kept[-2::-1]):
            x = join(torch.cat([up(x), skipped], 1))
        return x


class DenseNet(nn.Module):
    """Every layer reads all before it: lifetimes of every length."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([conv(3, 6), conv(9, 6), conv(15, 7), conv(22, 8)])

    def forward(self, x: Tensor) -> Tensor:
        features = [x]
        for layer in self.layers:
            features.append(layer(torch.cat(features, 1)))
        return torch.cat(features, 1)


def transformer() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2, enable_nested_tensor=False)


class Counted(nn.Module):
    """A state that a program keeps from call to call."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        self.seen.add_(self.body(x).sum(0))
        return self.body(x) * self.seen


class Branch(nn.Module):
    """Control flow: both branches are planned apart, below what is around them."""

    def forward(self, x: Tensor) -> Tensor:
        wide = torch.cat([x, x * 2], 1)

        def double(y: Tensor) -> Tensor:
            return (y + y).tanh() * y

        def halve(y: Tensor) -> Tensor:
            return y * 0.5

        return torch.cond(x.sum() > 0, double, halve, (wide,)) + wide


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet": (mobilenet, (1, 3, 32, 32)),
    "resnet": (resnet, (1, 3, 32, 32)),
    "unet": (UNet, (1, 3, 16, 16)),
    "densenet": (DenseNet, (1, 3, 12, 12)),
    "transformer": (transformer, (1, 12, 32)),
    "lstm": (lambda: nn.LSTM(16, 24, 1), (4, 1, 16)),
    "counted": (Counted, (3, 16)),
    "branch": (Branch, (3, 16)),
}


def lower_bound(specs: list[TensorSpec]) -> int:
    live: dict[int, int] = defaultdict(int)
    for spec in specs:
        if spec.storage_base is None:
            for time in range(spec.lifetime[0], spec.lifetime[1] + 1):
                live[time] += spec.allocated_memory
    return max(live.values(), default=0)


class ExecuTorch(unittest.TestCase):
    def lower(self, model: nn.Module, inputs: tuple[Tensor, ...], algorithm: Callable[..., MemoryAlgoResult]) -> tuple[bytes, list[int]]:
        planned = MemoryPlanningPass(MemoryPlanningAlgorithmSuite([algorithm]))
        edge = to_edge(torch.export.export(model, inputs), compile_config=EdgeCompileConfig(_check_ir_validity=False))
        program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planned))
        exported = program.exported_program()
        Verifier(exported.graph_module, True, True, True, exported.graph_signature).verify_storage_reuse()
        return program.buffer, exported.graph_module.meta["non_const_buffer_sizes"]

    def at_bound(self, alignment: int, specs: list[TensorSpec], graph_module: Any, *rest: Any) -> MemoryAlgoResult:
        result = weir.executorch.plan(alignment, specs, graph_module, *rest)
        below = getattr(graph_module, "input_mem_buffer_sizes", None) or [0, 0]
        self.assertEqual(result.bufsizes, [0, lower_bound(specs) + (below[1] if len(below) > 1 else 0)])
        return result

    def test_models(self) -> None:
        for name, (make, shape) in MODELS.items():
            with self.subTest(name), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(1)
                model, inputs = make().eval().requires_grad_(False), (torch.randn(*shape),)
                theirs, their_sizes = self.lower(model, inputs, greedy)
                ours, our_sizes = self.lower(model, inputs, self.at_bound)
                self.assertLessEqual(sum(our_sizes), sum(their_sizes))
                methods = [Runtime.get().load_program(program).load_method("forward") for program in (theirs, ours)]
                for _ in range(2):  # a state is kept from call to call
                    expected, found = ([value.clone() for value in method.execute(list(inputs))] for method in methods)
                    self.assertEqual([value.numpy().tobytes() for value in found], [value.numpy().tobytes() for value in expected])
                inputs = (-inputs[0],)  # the other branch
                expected, found = (method.execute(list(inputs))[0] for method in methods)
                self.assertTrue(torch.equal(found, expected))

    def test_our_arenas_are_smaller_where_theirs_are_loose(self) -> None:
        model, inputs = transformer().eval().requires_grad_(False), (torch.randn(1, 12, 32),)
        sizes = [self.lower(model, inputs, algorithm)[1][1] for algorithm in (greedy, functools.partial(weir.executorch.plan, effort=9))]
        self.assertLess(sizes[1], sizes[0])

    def test_arenas_and_shared_storage(self) -> None:
        """Tensors that a pass put into other memories, and those that lie in one another."""
        specs = [TensorSpec(torch.float32, torch.Size([size])) for size in (64, 16, 48, 32)]
        for spec, lifetime, mem_id in zip(specs, ([0, 3], [1, 2], [4, 5], [0, 5]), (None, None, 1, 3)):
            spec.lifetime, spec.mem_id = lifetime, mem_id
        view = TensorSpec(torch.float32, torch.Size([8]))
        view.lifetime, view.storage_base, view.storage_base_offset = [1, 1], specs[0], 128
        module = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
        module.input_mem_buffer_sizes = [0, 100]
        result = weir.executorch.plan(16, [view, *specs], module, None, 64)
        self.assertEqual(result.bufsizes, [0, 112 + 320 + 64, 0, 128 + 64])
        places = [result.spec_dict[spec] for spec in specs]
        self.assertEqual([place.mem_id for place in places], [1, 1, 1, 3])
        self.assertTrue(all(place.mem_offset >= 112 for place in places[:3]))
        self.assertEqual(result.spec_dict[view].mem_offset, places[0].mem_offset + 128)
        self.assertEqual(result.spec_dict[view].mem_obj_id, places[0].mem_obj_id)
        view.storage_base_offset = 240
        with self.assertRaisesRegex(ValueError, "does not fit"):
            weir.executorch.plan(16, [view, *specs], module, None)
        view.storage_base_offset, specs[0].storage_base = 0, view
        with self.assertRaisesRegex(ValueError, "own storage"):
            weir.executorch.plan(16, [view, *specs], module, None)

    def test_nothing_to_plan(self) -> None:
        module = torch.fx.GraphModule(nn.Module(), torch.fx.Graph())
        self.assertEqual(weir.executorch.plan(16, [], module, None, 0).bufsizes, [0, 0])


if __name__ == "__main__":
    unittest.main()
