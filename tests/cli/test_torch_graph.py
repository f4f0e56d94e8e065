"""tools/torch_graph.py: PyTorch models become graphs that `weir plan` takes. Skipped where torch is not installed."""

import json
import operator
import os
import subprocess
import sys
import types
import unittest
from pathlib import Path
from typing import Any

from tests.support.plans import Files, plan, validate

TOOLS = Path(__file__).resolve().parents[2] / "tools"
sys.path.insert(0, str(TOOLS))

try:
    import torch
except ImportError:
    torch = None

if torch:
    import torch_graph
    from torch import nn

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(16, 32)
            self.second = nn.Linear(32, 4, bias=False)
            self.register_buffer("offset", torch.zeros(4))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.second(torch.relu(self.first(x))) * 0.5 + self.offset

    class Parts(nn.Module):
        """Values of several tensors, sizes, views, a shared parameter."""

        def __init__(self) -> None:
            super().__init__()
            self.tied = nn.Linear(8, 8)
            self.again = self.tied
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            halves = x.chunk(2, dim=1)
            mixed = self.attention(halves[0], halves[1], halves[1])
            flat = self.again(self.tied(mixed[0])).view(x.size(0), -1)
            return {"flat": flat, "weights": mixed[1]}


@unittest.skipIf(torch is None, "not installed: torch (Debian: python3-torch)")
class TorchGraph(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def check_planned(self, made: dict[str, Any]) -> None:
        path = self.files.add(made)
        for mode in ("inference", "forward", "backward"):
            validate(plan(path, "--mode", mode))

    def aliases(self, made: dict[str, Any]) -> dict[str, tuple[str, int]]:
        found = (t for t in made["tensors"] if "alias_of" in t)
        return {t["id"]: (t["alias_of"], t.get("alias_offset", 0)) for t in found}

    def ops(self, made: dict[str, Any]) -> list[str]:
        return [node["op"] for node in made["nodes"]]

    def test_a_model_stays_as_it_is(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout())
        before = {name: value.clone() for name, value in model.state_dict().items()}
        random = torch.get_rng_state()
        torch_graph.traced_graph(model, torch.ones(8, 4))
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(value, before[name]), name)
        self.assertTrue(torch.equal(torch.get_rng_state(), random))

    def test_a_traced_model(self) -> None:
        made = torch_graph.traced_graph(Mlp(), torch.zeros(3, 16))
        self.assertEqual(made["name"], "Mlp")
        self.assertEqual(self.ops(made), ["matmul", "relu", "matmul", "scale", "add"])
        tensors = {t["id"]: (t["shape"], t["dtype"], t.get("role")) for t in made["tensors"]}
        self.assertEqual(tensors["x"], ([3, 16], "f32", "input"))
        self.assertEqual(tensors["first.weight"], ([32, 16], "f32", "parameter"))
        self.assertEqual(tensors["first.bias"], ([32], "f32", "parameter"))
        self.assertEqual(tensors["offset"], ([4], "f32", "state"))
        self.assertEqual(tensors["second"], ([3, 4], "f32", None))
        self.assertEqual(made["nodes"][0]["inputs"], ["x", "first.weight", "first.bias"])
        self.assertEqual(made["outputs"], made["nodes"][-1]["outputs"])
        self.check_planned(made)

    def test_parts_views_and_shared_parameters(self) -> None:
        made = torch_graph.traced_graph(Parts(), torch.zeros(2, 6, 8))
        nodes = {node["id"]: node for node in made["nodes"]}
        self.assertEqual(nodes["chunk"]["outputs"], ["chunk.0", "chunk.1"])
        self.assertEqual(nodes["attention"]["inputs"][:3], ["chunk.0", "chunk.1", "chunk.1"])
        self.assertEqual(nodes["attention"]["op"], "attention")
        self.assertEqual(self.aliases(made)["view"], ("tied_1", 0))
        self.assertNotIn("size", nodes)
        weights = [t["id"] for t in made["tensors"] if t["shape"] == [8, 8] and t.get("role") == "parameter"]
        self.assertEqual(len([name for name in weights if name.startswith(("tied", "again"))]), 1)
        self.assertEqual(made["outputs"], ["view", "attention.1"])
        self.check_planned(made)

    def test_inplace_hints(self) -> None:
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.Dropout(inplace=True),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * 9, 10),
        ).eval()
        made = torch_graph.traced_graph(model, torch.zeros(1, 3, 8, 8, dtype=torch.float32))
        self.assertEqual(self.ops(made), ["conv", "layernorm", "relu", "Dropout", "MaxPool2d", "reshape", "matmul"])
        self.assertEqual([node.get("inplace") for node in made["nodes"]], [None, None, True, True, None, None, None])
        # The operator of Dropout is not in the table: it may need its input on the way back.
        self.assertEqual(self.aliases(made), {"_2": ("_1", 0), "_5": ("_4", 0)})
        state = [t["id"] for t in made["tensors"] if t.get("role") == "state"]
        self.assertEqual(state, ["1.running_mean", "1.running_var", "1.num_batches_tracked"])
        self.check_planned(made)

    @unittest.skipUnless(torch is not None and hasattr(torch, "export"), "this torch has no torch.export")
    def test_places_are_those_of_torch(self) -> None:
        class Views(nn.Module):
            def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
                both = x @ w
                left, right = both.chunk(2, dim=1)
                copied = left.t().reshape(-1).relu_()
                kept = torch.exp(right)
                lost = kept.add_(1)  # exp needs its result on the way back
                wide = right[1:].unsqueeze(0).expand(3, 2, 4)
                return copied, lost.view(-1) * 2, wide + 1, torch.add(both, 1).add_(1).view(2, -1)

        made = torch_graph.graph_of(Views(), (torch.zeros(3, 5), torch.zeros(5, 8)))
        expected = {
            "chunk.0": ("matmul", 0),
            "chunk.1": ("matmul", 16),
            "t": ("matmul", 0),
            "relu_": ("reshape", 0),
            "view": ("add_", 0),  # not of exp: the write has a place of its own
            "slice_1": ("matmul", 48),
            "unsqueeze": ("matmul", 48),
            "add__1": ("add_1", 0),
            "view_1": ("add_1", 0),
        }
        self.assertEqual(self.aliases(made), expected)
        self.check_planned(made)

    def test_an_output_that_is_an_input(self) -> None:
        class Pass(nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
                y = torch.exp(x)
                return y, x, y

        made = torch_graph.traced_graph(Pass(), torch.zeros(2))
        self.assertEqual(made["outputs"], ["exp"])
        self.check_planned(made)

    def test_dtypes(self) -> None:
        class Casts(nn.Module):
            def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return x.half(), x.to(torch.bfloat16), x.to(torch.int8), x > 0

        made = torch_graph.traced_graph(Casts(), torch.zeros(2, dtype=torch.float64))
        self.assertEqual([t["dtype"] for t in made["tensors"]], ["f64", "f16", "bf16", "i8", "bool"])
        with self.assertRaisesRegex(torch_graph.GraphError, "complex64"):
            torch_graph.traced_graph(nn.Identity(), torch.zeros(2, dtype=torch.complex64))

    def exported(self) -> Any:
        """A program as torch.export makes it: aten operators, lifted parameters, shapes in meta['val']."""
        graph = torch.fx.Graph()
        weight, mean, x = (graph.placeholder(name) for name in ("p_fc_weight", "b_mean", "x"))
        turned = graph.call_function(torch.ops.aten.t.default, (weight,))
        product = graph.call_function(torch.ops.aten.mm.default, (x, turned))
        normal = graph.call_function(torch.ops.aten.native_layer_norm.default, (product, [4], None, None, 1e-5))
        first = graph.call_function(operator.getitem, (normal, 0))
        total = graph.call_function(torch.ops.aten.add.Tensor, (first, mean))
        out = graph.output((total,))
        zeros = torch.zeros
        values = {
            weight: zeros(4, 8),
            mean: zeros(4),
            x: zeros(2, 8),
            turned: zeros(8, 4),
            product: zeros(2, 4),
            normal: (zeros(2, 4), zeros(2, 1), zeros(2, 1)),
            first: zeros(2, 4),
            total: zeros(2, 4),
        }
        for node, value in values.items():
            node.meta["val"] = value
        signature = types.SimpleNamespace(
            inputs_to_parameters={"p_fc_weight": "fc.weight"}, inputs_to_buffers={"b_mean": "mean"}
        )
        self.assertEqual(out.op, "output")
        module = torch.fx.GraphModule({}, graph)
        for node, copy in zip(graph.nodes, module.graph.nodes):
            copy.meta.update(node.meta)
        return types.SimpleNamespace(
            graph=module.graph, graph_module=module, graph_signature=signature, state_dict={}
        )

    def test_an_exported_program(self) -> None:
        made = torch_graph.exported_graph(self.exported(), "net")
        self.assertEqual(self.ops(made), ["transpose", "matmul", "layernorm", "add"])
        roles = {t["id"]: t.get("role") for t in made["tensors"]}
        self.assertEqual((roles["fc.weight"], roles["mean"], roles["x"]), ("parameter", "state", "input"))
        self.assertEqual(made["nodes"][3]["inputs"], [made["nodes"][2]["outputs"][0], "mean"])
        self.assertEqual(len(made["nodes"][2]["outputs"]), 3)
        self.check_planned(made)

    def test_a_dynamic_dimension(self) -> None:
        class Symbol:
            def __str__(self) -> str:
                return "s0"

        program = self.exported()
        node = list(program.graph.nodes)[2]
        node.meta["val"] = types.SimpleNamespace(shape=(Symbol(), 8), dtype=torch.float32)
        with self.assertRaisesRegex(torch_graph.GraphError, "tensor x has a dynamic dimension .s0."):
            torch_graph.exported_graph(program)

    def test_a_part_of_an_exported_program(self) -> None:
        """What torch.no_grad() makes: a call of a graph of its own, whose nodes stand in the call's place."""
        inner = torch.fx.Graph()
        a, b = inner.placeholder("a"), inner.placeholder("b")
        total = inner.call_function(torch.ops.aten.add.Tensor, (a, b))
        inner.output((total, total))
        outer = torch.fx.Graph()
        x = outer.placeholder("x")
        add = outer.call_function(torch.ops.aten.exp.default, (x,))
        part = outer.get_attr("part")
        call = outer.call_function(torch.ops.aten.add.Tensor, (False, part, add, x))
        item = outer.call_function(operator.getitem, (call, 1))
        outer.output((item, item))
        for node in total, x, add, item:
            node.meta["val"] = torch.zeros(3)
        root = nn.Module()
        root.part = torch.fx.GraphModule({}, inner)
        module = torch.fx.GraphModule(root, outer)
        for graph, copies in ((outer, module.graph), (inner, module.part.graph)):
            for node, copy in zip(graph.nodes, copies.nodes):
                copy.meta.update(node.meta)
        signature = types.SimpleNamespace(inputs_to_parameters={}, inputs_to_buffers={})
        program = types.SimpleNamespace(graph=module.graph, graph_module=module, graph_signature=signature, state_dict={})
        made = torch_graph.exported_graph(program, "net")
        self.assertEqual(self.ops(made), ["exp", "add"])
        self.assertEqual(made["nodes"][1]["inputs"], [made["nodes"][0]["outputs"][0], "x"])
        self.assertEqual(made["outputs"], made["nodes"][1]["outputs"])
        self.check_planned(made)

    def test_keyword_inputs(self) -> None:
        class Adds(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor | None = None, scale: float = 2.0) -> torch.Tensor:
                return (x if y is None else x + y) * scale

        for inputs in {"x": torch.zeros(2), "y": torch.zeros(2)}, {"y": torch.zeros(2), "x": torch.zeros(2)}:
            made = torch_graph.graph_of(Adds(), inputs)
            self.assertEqual(self.ops(made), ["add", "scale"])
            self.check_planned(made)
        self.assertEqual(self.ops(torch_graph.graph_of(Adds(), {"x": torch.zeros(2)})), ["scale"])

    def test_tied_weights_are_one(self) -> None:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.words, self.head = nn.Embedding(10, 4), nn.Linear(4, 10, bias=False)
                self.head.weight = self.words.weight

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.head(self.words(x))

        made = torch_graph.graph_of(Tied(), (torch.zeros(3, dtype=torch.long),))
        self.assertEqual([t["shape"] for t in made["tensors"] if t.get("role") == "parameter"], [[10, 4]])
        self.check_planned(made)

    @unittest.skipUnless(torch is not None and hasattr(torch, "export"), "this torch has no torch.export")
    def test_outputs_of_any_kind(self) -> None:
        class Cache:
            def __init__(self, tensor: torch.Tensor) -> None:
                self.layers, self.size, self.me = [{"keys": tensor, "values": tensor + 1}], 3, self

        class Caching(nn.Module):
            def forward(self, x: torch.Tensor) -> dict[str, Any]:
                return {"out": x * 2, "cache": Cache(x.exp()), "nothing": None}

        made = torch_graph.graph_of(Caching(), (torch.zeros(3),))
        self.assertEqual(len(made["outputs"]), 3)
        self.check_planned(made)

    @unittest.skipUnless(torch is not None and hasattr(torch, "export"), "this torch has no torch.export")
    def test_no_grad_inside_a_model(self) -> None:
        class Half(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                with torch.no_grad():
                    fixed = x.sin() + 1
                return x * fixed

        made = torch_graph.graph_of(Half(), (torch.zeros(3),))
        self.assertEqual(self.ops(made), ["sin", "add", "mul"])
        self.check_planned(made)

    @unittest.skipUnless(torch is not None and hasattr(torch, "export"), "this torch has no torch.export")
    def test_a_real_export(self) -> None:
        made = torch_graph.graph_of(Mlp(), (torch.zeros(3, 16),))
        self.assertEqual([op for op in self.ops(made) if op in ("matmul", "relu")], ["matmul", "relu", "matmul"])
        self.assertEqual(
            {t["id"] for t in made["tensors"] if t.get("role") == "parameter"},
            {"first.weight", "first.bias", "second.weight"},
        )
        self.check_planned(made)

    def test_from_the_command_line(self) -> None:
        folder = Path(self.files.path("x")).parent
        (folder / "models.py").write_text(
            "import torch\ndef small():\n    return torch.nn.Linear(4, 2), (torch.zeros(1, 4),)\n"
        )
        done = subprocess.run(
            [sys.executable, "-B", str(TOOLS / "torch_graph.py"), "models:small", "--name", "small"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            timeout=300,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual(made["name"], "small")
        self.check_planned(made)


if __name__ == "__main__":
    unittest.main()
