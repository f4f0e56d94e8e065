"""weir.plan and weir.Plan: as the program plans, from files, dicts and torch."""

import hashlib
import json
import pickle
import unittest
from pathlib import Path

import torch
import weir
from reference import cbor
from tests.python.support import ScratchTest, run_weir


class Plans(ScratchTest):
    def setUp(self) -> None:
        super().setUp()
        Path("g.json").write_text(run_weir("graph", "gpt2", "--layers", "2", "--seq", "16"))

    def test_a_plan_is_the_programs(self) -> None:
        printed = json.loads(run_weir("plan", "g.json", "--mode", "backward", "--json"))
        for graph in ("g.json", Path("g.json"), json.loads(Path("g.json").read_text())):
            plan = weir.plan(graph, mode="backward")
            self.assertEqual(plan.hashes["plan"], printed["plan_hash"])
            self.assertEqual(plan.hashes["graph"], printed["graph_hash"])
        self.assertEqual(plan.mode, "backward")
        for name, arena in printed["arenas"].items():
            self.assertEqual(plan.arenas[name]["peak_bytes"], arena["peak_bytes"])
        for name, tensor in printed["tensors"].items():
            found = plan.tensors[name]
            self.assertEqual((found["offset"], str(found["address"])), (tensor["offset"], tensor["address"]))
        self.assertEqual(plan.peak_bytes, sum(arena["peak_bytes"] for arena in printed["arenas"].values()))
        self.assertEqual(plan.metrics["max_live"], printed["metrics"]["max_live"])

    def test_options_count(self) -> None:
        plan = weir.plan("g.json", preset="train_full", effort=0, arenas={"activations": {"alignment_bytes": 256}})
        self.assertEqual(plan.arenas["activations"]["alignment"], 256)
        with self.assertRaises(weir.errors.ArenaTooSmall) as caught:
            weir.plan("g.json", mode="inference", arenas={"activations": {"capacity_bytes": 128}})
        self.assertEqual(caught.exception.diagnostics["capacity"], 128)
        with self.assertRaises(ValueError):
            weir.plan("g.json", mode="inference", effort=10)
        with self.assertRaises(weir.Error):
            weir.plan("g.json")
        tokens = [weir.plan("g.json", mode="inference", token=bytes([i]) * 64) for i in range(2)]
        self.assertNotEqual(tokens[0].hashes["assignment"], tokens[1].hashes["assignment"])

    def test_plans_travel(self) -> None:
        plan = weir.plan("g.json", mode="backward")
        plan.save("p.cbor")
        for again in (weir.Plan.load("p.cbor"), weir.Plan.from_bytes(plan.to_bytes()), pickle.loads(pickle.dumps(plan))):
            self.assertEqual(again.hashes["plan"], plan.hashes["plan"])
            self.assertEqual(again.to_bytes(), plan.to_bytes())
            self.assertEqual(again.tensors, plan.tensors)  # shapes and dtypes among the rest
        run_weir("plan", "g.json", "--mode", "backward", "--cbor", "bare.cbor")
        self.assertEqual(weir.Plan.load("bare.cbor").hashes, plan.hashes)
        self.assertIsNone(next(iter(weir.Plan.load("bare.cbor").tensors.values()))["shape"])

    def test_what_tensors_are_is_checked(self) -> None:
        """The second item of a plan file (docs/spec/03b-plan-tensors.md) must be this plan's, and fit it."""
        data = weir.plan("g.json", mode="inference").to_bytes()
        first, size = cbor.decode_first(data, 0)
        second, end = cbor.decode_first(data, size)
        third, last = cbor.decode_first(data, end)
        self.assertEqual((sorted(second), second["format"]), (["format", "plan_hash", "tensors"], "weir-plan-tensors/1"))
        self.assertEqual((last, third["format"]), (len(data), "weir-plan-metrics/1"))
        self.assertEqual(third["metrics"]["tensors"], len(first["tensors"]))
        self.assertEqual(second["plan_hash"], hashlib.sha256(data[:size]).digest())
        name = next(name for name, (_, _, shape) in second["tensors"].items() if len(shape) > 1)
        dtype, role, shape = second["tensors"][name]
        others = {key: value for key, value in second["tensors"].items() if key != name}
        for wrong in (
            {**second, "tensors": {**others, name: [dtype, role, [*shape[1:]]]}},
            {**second, "tensors": {**others, name: [dtype, role, [shape[0] + 1, *shape[1:]]]}},
            {**second, "tensors": {**others, name: [dtype, role, [2**63, 2**63, *shape]]}},
            {**second, "tensors": {**others, name: ["f31", role, shape]}},
            {**second, "tensors": {**others, name: [dtype, "guest", shape]}},
            {**second, "tensors": {**others, name: [dtype, role]}},
            {**second, "tensors": {**others, name + "x": [dtype, role, shape]}},
            {**second, "tensors": others},
            {**second, "plan_hash": bytes(32)},
            {**second, "format": "weir-plan-tensors/2"},
            {**second, "more": 1},
            [],
        ):
            with self.subTest(str(wrong)[:80]), self.assertRaisesRegex(weir.errors.InvalidIr, "what its tensors are is not usable"):
                weir.Plan.from_bytes(data[:size] + cbor.encode(wrong))
        for tail in b"\xff", data[size:] + b"\x00":
            with self.assertRaises(weir.errors.CborInvalid):
                weir.Plan.from_bytes(data[:size] + tail)

    def test_models_of_torch(self) -> None:
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
        plan = weir.plan(model, inputs=(torch.zeros(8, 16),), mode="backward")
        self.assertEqual(sum(t["role"] == "parameter" for t in plan.tensors.values()), 4)
        traced = torch.fx.symbolic_trace(model)
        self.assertEqual(weir.plan(traced, inputs=(torch.zeros(8, 16),), mode="backward").peak_bytes, plan.peak_bytes)
        with self.assertRaises(TypeError):
            weir.plan(model, mode="backward")

    def test_buffers_alone(self) -> None:
        buffers = [(0, 2, 10), (1, 3, 20), (2, 4, 10), (0, 4, 5)]
        Path("b.csv").write_text("id,lower,upper,size\n" + "".join(f"{i},{a},{b},{c}\n" for i, (a, b, c) in enumerate(buffers)))
        printed = json.loads(run_weir("plan", "--csv", "b.csv", "--json"))
        packing = weir.pack(iter(buffers))
        self.assertEqual(packing.offsets, [int(line.split(",")[4]) for line in printed["csv"].splitlines()[1:]])
        self.assertEqual((packing.peak_bytes, packing.lower_bound, packing.optimal), (35, 35, True))
        aligned = weir.pack([list(buffer) for buffer in buffers], alignment=16, threads=2)
        self.assertEqual((aligned.peak_bytes, [offset % 16 for offset in aligned.offsets]), (64, [0] * 4))
        self.assertEqual(weir.pack([]), weir.Packing([], 0, 0, True))
        self.assertEqual(weir.pack(buffers, capacity=36).peak_bytes, 35)
        with self.assertRaises(weir.errors.ArenaTooSmall):
            weir.pack(buffers, capacity=34)
        for wrong in [(1, 1, 8)], [(0, 1)], [(0, 1, 2, 3)]:
            with self.assertRaises(ValueError):
                weir.pack(wrong)
        for wrong in [(-1, 1, 8)], [(0, 1, 2**64)]:
            with self.assertRaises(OverflowError):
                weir.pack(wrong)
        with self.assertRaisesRegex(ValueError, "the effort is a number from 0 to 9"):
            weir.pack(buffers, effort=10)
        with self.assertRaises(weir.errors.AllocationOverflow):
            weir.pack([(0, 1, 2**63), (0, 1, 2**63)])


if __name__ == "__main__":
    unittest.main()
