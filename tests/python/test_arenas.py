"""weir.Arenas: views of a plan's memory that copy nothing, memory that is replaced under its addresses, and a model that
runs in its plan."""

import gc
import hashlib
import importlib.util
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

import numpy
import torch
import weir
from reference import commit

EXAMPLES = Path(__file__).parents[2] / "examples"


def graph(**tensors: tuple[list[int], str]) -> dict[str, Any]:
    """Inputs that all live together."""
    made = [{"id": id, "shape": shape, "dtype": dtype, "role": "input"} for id, (shape, dtype) in tensors.items()]
    return {"format": "weir-graph/1", "name": "g", "tensors": made, "nodes": [], "outputs": []}


CHAIN = {
    "format": "weir-graph/1",
    "name": "chain",
    "tensors": [{"id": "x", "shape": [2, 3], "dtype": "f32", "role": "input"}]
    + [{"id": f"h{i}", "shape": [2, 3], "dtype": "f32"} for i in range(4)],
    "nodes": [{"id": f"n{i}", "op": "softmax", "inputs": ["x" if i == 0 else f"h{i - 1}"], "outputs": [f"h{i}"]} for i in range(4)],
    "outputs": ["h3"],
}


class Views(unittest.TestCase):
    def test_views_are_the_memory(self) -> None:
        plan = weir.plan(CHAIN, mode="forward")
        arenas = weir.Arenas(plan)
        x = arenas["x"]
        self.assertEqual((x.shape, x.dtype, x.readonly), ((2, 3), "float32", False))
        x.numpy()[:] = numpy.arange(6).reshape(2, 3)
        self.assertEqual(x.torch().tolist(), [[0, 1, 2], [3, 4, 5]])
        self.assertEqual(x.address, arenas.arena("activations").address + plan.tensors["x"]["offset"])
        arenas.torch("x").add_(1)
        self.assertEqual(arenas.resolve(plan.tensors["x"]["address"], 0).numpy().view("f4").tolist(), [1, 2, 3, 4, 5, 6])
        self.assertEqual(list(arenas), list(plan.tensors))
        arenas.zero("x")
        self.assertEqual(x.numpy().sum(), 0)

    def test_aliases_are_views_of_their_owner(self) -> None:
        made = graph(x=([4, 3], "f32"))
        made["tensors"] += [{"id": "row", "shape": [3], "dtype": "f32", "alias_of": "x", "alias_offset": 24}]
        made["tensors"] += [{"id": "end", "shape": [1], "dtype": "f32", "alias_of": "row", "alias_offset": 8}]
        made["nodes"] += [{"id": "take", "op": "slice", "inputs": ["x"], "outputs": ["row"]}]
        made["nodes"] += [{"id": "last", "op": "slice", "inputs": ["row"], "outputs": ["end"]}]
        made["outputs"] = ["end"]
        plan = weir.Plan.from_bytes(weir.plan(made, mode="forward").to_bytes())
        self.assertEqual({k: t["alias_of"] for k, t in plan.tensors.items()}, {"x": None, "row": "x", "end": "x"})
        arenas = weir.Arenas(plan)
        arenas["x"].numpy()[:] = numpy.arange(12).reshape(4, 3)
        self.assertEqual(arenas["row"].numpy().tolist(), [6, 7, 8])
        arenas.torch("end").add_(1)
        self.assertEqual(arenas["x"].numpy()[2].tolist(), [6, 7, 9])
        address, position = plan.tensors["row"]["address"], plan.tensors["end"]["birth"]
        self.assertEqual(arenas.resolve(address, position).numpy().nbytes, 48)  # the owner
        arenas.prepare(0)
        self.assertEqual(arenas["end"].numpy().tolist(), [0])

    def test_every_dtype_and_rank(self) -> None:
        kinds = ["f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool"]
        shapes: list[list[int]] = [[], [0], [3], [1, 2, 1, 2, 1, 2, 1, 2]]
        tensors = {f"{kind}.{i}": (shape, kind) for kind in kinds for i, shape in enumerate(shapes)}
        arenas = weir.Arenas(weir.plan(graph(**tensors, i4=([3], "i4")), mode="forward"))
        for id, (shape, kind) in tensors.items():
            tensor = arenas.torch(id)
            self.assertEqual(list(tensor.shape), shape)
            self.assertEqual(tensor.data_ptr() if tensor.numel() else 0, arenas[id].address if tensor.numel() else 0)
            if kind == "bf16":
                self.assertIs(tensor.dtype, torch.bfloat16)
        self.assertEqual(arenas["i4"].shape, (2,))
        nine = weir.Arenas(weir.plan(graph(t=([1] * 9, "f32")), mode="forward"))
        with self.assertRaisesRegex(ValueError, "dimensions"):
            nine["t"]

    def test_positions(self) -> None:
        plan = weir.plan(CHAIN, mode="forward")
        arenas = weir.Arenas(plan)
        for id, tensor in plan.tensors.items():
            for position in range(7):
                if tensor["birth"] <= position < tensor["death"]:
                    self.assertEqual(arenas.tensor(id, position).address, arenas[id].address)
                    self.assertEqual(arenas.resolve(tensor["address"], position, "activations").address, arenas[id].address)
                else:
                    with self.assertRaisesRegex(weir.ContractError, "not live"):
                        arenas.tensor(id, position)
        for wrong in (lambda: arenas["none"], lambda: arenas.arena("none"), lambda: arenas.pages("none")):
            self.assertRaises(KeyError, wrong)
        self.assertRaises(weir.ContractError, arenas.resolve, 1, 0)
        self.assertRaises(OverflowError, arenas.tensor, "x", -1)

    def test_a_plan_without_shapes(self) -> None:
        plan = weir.plan(CHAIN, mode="forward")
        item = plan.to_bytes()
        size = next(n for n in range(1, len(item)) if hashlib.sha256(item[:n]).hexdigest() == plan.hashes["plan"])
        self.assertEqual(weir.Arenas(weir.Plan.from_bytes(item[:size]))["x"].shape, (24,))

    def test_views_keep_the_memory(self) -> None:
        arenas = weir.Arenas(weir.plan(CHAIN, mode="forward"))
        array = arenas["x"].numpy()
        array[:] = 7
        del arenas
        gc.collect()
        self.assertEqual(array.sum(), 42)

    def test_commits(self) -> None:
        arenas = weir.Arenas(weir.plan(CHAIN, mode="forward"))
        arenas["x"].numpy()[:] = 1
        first = arenas.prepare(3)
        self.assertEqual(arenas["x"].numpy().sum(), 0)
        self.assertEqual(arenas.commit(3), first)
        self.assertNotEqual(arenas.commit(4), first)


class Commits(unittest.TestCase):
    def sealer(self, plan: weir.Plan) -> commit.Sealer:
        keys = ("arena", "address", "offset", "size", "birth", "death")
        tensors = {id: tuple(tensor[key] for key in keys) for id, tensor in plan.tensors.items()}
        return commit.Sealer(bytes.fromhex(plan.hashes["plan"]), list(plan.arenas), tensors)

    def test_states_are_the_references(self) -> None:
        rng = random.Random(3)
        for device in (None, "host", os.environ["WEIR_FAKE_CUDA"]):
            plan = weir.plan(CHAIN, mode="backward")
            arenas, sealer = weir.Arenas(plan, device=device), self.sealer(plan)
            for batch in range(12):
                position = rng.randrange(12)
                for id in rng.sample(list(plan.tensors), rng.randrange(3)):
                    if rng.random() < 0.5:
                        arenas.zero(id)
                    else:
                        arenas.written(id)
                        if device is None:
                            arenas[id].numpy()[...] = rng.random()
                    sealer.write(id)
                held = {id: arenas[id].numpy().tobytes() if device is None else bytes(t["size"]) for id, t in plan.tensors.items()}
                contents = rng.random() < 0.7
                state = sealer.seal(batch, position, held if contents else None)
                first = arenas.seal(batch, position, contents=contents)
                self.assertEqual(first.state, state)
                self.assertEqual(first.visibility_hash, hashlib.sha256(state).hexdigest())
                self.assertEqual(first.state_hash, arenas.commit(batch))
                arenas.zero("x")  # counts for the next batch: this one is sealed
                sealer.write("x")
                self.assertEqual(arenas.seal(batch, position, contents=contents), first)
                with self.assertRaisesRegex(weir.ContractError, "was sealed"):
                    arenas.seal(batch, position + 1, contents=contents)
                with self.assertRaisesRegex(weir.ContractError, "was sealed"):
                    arenas.seal(batch, position, contents=not contents)

    def test_what_cannot_be_sealed(self) -> None:
        arenas = weir.Arenas(weir.plan(CHAIN, mode="forward"))
        self.assertRaises(weir.ContractError, arenas.written, "none")
        arenas.give_back("activations")
        with self.assertRaisesRegex(weir.ContractError, "no memory"):
            arenas.seal(0, 0, contents=True)
        self.assertEqual(arenas.seal(0, 0), arenas.seal(0, 0))  # the failed one sealed nothing

    def test_a_barrier_that_fails_names_its_arena(self) -> None:
        program = """
import os, weir
arenas = weir.Arenas(weir.plan({"format": "weir-graph/1", "name": "g", "nodes": [], "outputs": [], "tensors": [
    {"id": "x", "shape": [8], "dtype": "f32", "role": "input"},
    {"id": "w", "shape": [8], "dtype": "f32", "role": "parameter"}]}, mode="forward"), device=os.environ["WEIR_FAKE_CUDA"])
for n in range(2):
    try:
        arenas.seal(n, 0)
    except weir.DeviceError as error:
        print(error.diagnostics["arena"])
"""
        environment = os.environ | {"WEIR_FAKE_CUDA_FAILS": "cuCtxSynchronize 2"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
        self.assertEqual(done.stdout, "activations\n")


class Remapping(unittest.TestCase):
    def setUp(self) -> None:
        settings = {"activations": {"page_size": 65536, "capacity_bytes": 1 << 19}}
        tensors = {name: ([65536], "u8") for name in "abcd"}
        self.plan = weir.plan(graph(**tensors), mode="forward", arenas=settings)

    def fill(self, arenas: weir.Arenas) -> None:
        for i, id in enumerate("abcd"):
            arenas[id].numpy()[:] = i + 1

    def test_addresses_stay(self) -> None:
        arenas = weir.Arenas(self.plan, reserve_capacity=True)
        self.assertEqual(arenas.pages("activations"), {"page_size": 65536, "range_bytes": 1 << 19, "backed_bytes": 1 << 18})
        self.fill(arenas)
        a, addresses = arenas["a"].numpy(), [arenas[id].address for id in "abcd"]
        arenas.remap("activations", nbytes=1 << 18)
        self.assertEqual(set(a.tolist()), {1})
        with self.assertRaisesRegex(BufferError, "in use"):
            arenas.give_back("activations")
        del a
        arenas.give_back("activations", nbytes=0)
        arenas.remap("activations", nbytes=0, keep=False)
        self.assertEqual(set(arenas["a"].tolist()), {1})
        arenas.give_back("activations", offset=65536, nbytes=65536)
        self.assertEqual(arenas.pages("activations")["backed_bytes"], 3 * 65536)
        gone = next(id for id in "abcd" if self.plan.tensors[id]["offset"] == 65536)
        with self.assertRaisesRegex(BufferError, "given back"):
            arenas[gone]
        self.assertRaises(weir.ContractError, arenas.prepare, 0)
        arenas.remap("activations", offset=65536, nbytes=65536)
        self.assertEqual([arenas[id].address for id in "abcd"], addresses)
        self.assertEqual(arenas[gone].numpy().sum(), 0)
        arenas.remap("activations")  # the rest of the capacity too
        self.assertEqual(arenas.pages("activations")["backed_bytes"], 1 << 19)

    def test_sharing(self) -> None:
        one, two = weir.Arenas(self.plan), weir.Arenas(self.plan, empty=True)
        shared = weir.Backing(1 << 18)
        self.assertEqual(os.fstat(shared.handle).st_size, 1 << 18)
        self.fill(one)
        one.remap("activations", shared)
        two.remap("activations", shared, keep=False)
        del shared
        for i, id in enumerate("abcd"):
            self.assertEqual(set(two[id].tolist()), {i + 1})
        two["a"].numpy()[:] = 9
        self.assertEqual(set(one["a"].tolist()), {9})

    def test_refusals(self) -> None:
        arenas = weir.Arenas(self.plan)
        self.assertRaises(weir.ContractError, arenas.remap, "activations", offset=1)
        self.assertRaises(weir.ContractError, arenas.remap, "none")
        self.assertRaises(TypeError, arenas._remap, "activations", 1, 0, 65536, self.plan, 0, False)
        self.assertRaises(weir.ContractError, arenas.remap, "activations", weir.Backing(65536), nbytes=1 << 18)
        self.assertRaises(weir.ContractError, weir.Backing, 0)
        self.assertRaises(TypeError, weir.Arenas, "a plan")
        self.assertRaises(weir.ContractError, weir.Arenas, self.plan, device="tpu")

    def test_a_device(self) -> None:
        arenas = weir.Arenas(self.plan, device=os.environ["WEIR_FAKE_CUDA"])
        self.assertEqual(arenas["a"].__dlpack_device__(), (2, 0))
        self.assertRaises(BufferError, arenas["a"].tolist)
        shared = weir.Backing(1 << 18, device=os.environ["WEIR_FAKE_CUDA"])
        arenas.remap("activations", shared)
        self.assertEqual(arenas.prepare(1), weir.Arenas(self.plan, device="host").prepare(1))
        with self.assertRaisesRegex(weir.ContractError, "kind of memory"):
            weir.Arenas(self.plan).remap("activations", shared)


class Example(unittest.TestCase):
    def test_a_model_runs_in_its_plan(self) -> None:
        spec = importlib.util.spec_from_file_location("planned_forward", EXAMPLES / "planned_forward.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        module.main()


if __name__ == "__main__":
    unittest.main()
