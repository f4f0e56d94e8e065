"""The program's plans against the reference, on random graphs in all modes, and what holds for every plan."""

import json
import random
import unittest

from reference import plan as reference
from tests.support.cases import part_of
from tests.support.plans import Files, plan, validate

MODES = ("inference", "forward", "backward")
DTYPES = ("f32", "f32", "f32", "bf16", "f64", "i32", "bool", "i4")
OPS = ("add", "relu", "mul", "matmul", "softmax", "reshape", "gelu", "silu", "cross_entropy", "custom")
ROLES = ("activation", "activation", "activation", "gradient")


def random_graph(rng: random.Random) -> dict:
    """Valid by construction; nodes may be declared in any order, tensors too."""
    shapes = [[rng.choice((0, 1, 3, 4, 16, 33)) for _ in range(rng.randrange(3))] for _ in range(4)]
    tensors: list[dict] = []
    nodes: list[dict] = []

    def tensor(role: str) -> str:
        # Ids of several lengths, some the prefix of others, some not ASCII.
        name = rng.choice(("t", "tensor.", "t.ä", "", "zz")) + str(len(tensors))
        entry = {"id": name, "shape": rng.choice(shapes), "dtype": rng.choice(DTYPES)}
        if role != "activation" or rng.random() < 0.3:
            entry["role"] = role
        if rng.random() < 0.1:
            entry["arena"] = rng.choice(("scratch", "activations", "parameters", "gradients", "fast/é"))
        if rng.random() < 0.15:
            entry["saved_for_backward"] = rng.random() < 0.5
        tensors.append(entry)
        return name

    usable = [tensor(rng.choice(("input", "parameter", "state"))) for _ in range(rng.randrange(1, 6))]
    for number in range(rng.randrange(0, 24)):
        near = usable[-6:] if rng.random() < 0.8 else usable
        inputs = [rng.choice(near) for _ in range(rng.randrange(0, 4))]
        outputs = [tensor(rng.choice(ROLES)) for _ in range(rng.choice((0, 1, 1, 1, 1, 2)))]
        node = {"id": f"n{number}", "op": rng.choice(OPS), "inputs": inputs, "outputs": outputs}
        if rng.random() < 0.15:
            node["inplace"] = rng.random() < 0.6
        if rng.random() < 0.15:
            node["saves"] = rng.choice(("inputs", "output", "both", "none"))
        nodes.append(node)
        usable += outputs
    outputs = rng.sample(usable, min(len(usable), rng.randrange(0, 4)))  # inputs, parameters and state too
    graph = {"format": "weir-graph/1", "name": "random", "tensors": tensors, "nodes": nodes}
    graph["outputs"] = outputs
    if rng.random() < 0.2:
        graph["order"] = [node["id"] for node in nodes]
    rng.shuffle(nodes)
    rng.shuffle(tensors)
    return graph


def random_arenas(rng: random.Random) -> dict:
    names = ("activations", "parameters", "gradients", "scratch")
    return {name: {"alignment_bytes": 2 ** rng.randrange(0, 14)} for name in names if rng.random() < 0.4}


class RandomGraphs(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def compare(self, graph: dict, mode: str, arenas: dict, *more: str) -> None:
        """`more`: an optimizer and its step."""
        options = ["--mode", mode, "--effort", "1", "--arenas", self.files.add(arenas)]
        options += [text for pair in zip(("--optimizer", "--step"), more) for text in pair]
        result = plan(self.files.add(graph), *options)
        graph = reference.with_optimizer(graph, *more)
        expected = reference.assign(graph, mode, arenas=arenas)
        self.assertEqual(result["graph_hash"], expected.graph_hash.hex())
        for name, tensor in expected.tensors.items():
            found = dict(result["tensors"][name])
            del found["offset"]
            fields = {key: getattr(tensor, key) for key in found}
            self.assertEqual(found, {**fields, "address": str(tensor.address)}, name)
        self.assertEqual(result["assignment_hash"], expected.assignment_hash.hex())
        for name, arena in expected.arenas.items():
            self.assertEqual({key: result["arenas"][name][key] for key in arena}, arena, name)
        validate(result)
        self.check_overwritten(graph, mode, result)

    def check_overwritten(self, graph: dict, mode: str, result: dict) -> None:
        """An overwritten input and its output share a buffer, or lie in bytes that never meet."""
        for output, name in reference.analyze_liveness(graph, mode).overwritten.items():
            old, new = result["tensors"][name], result["tensors"][output]
            self.assertEqual(old["death"], new["birth"])
            distance = abs(old["offset"] - new["offset"])
            apart = distance >= old["size"]  # both have one size
            self.assertTrue(apart or old["offset"] == new["offset"], (name, output))

    def test_against_the_reference(self) -> None:
        for seed in part_of(range(120)):
            rng = random.Random(seed)
            graph = random_graph(rng)
            for mode in MODES:
                with self.subTest(seed=seed, mode=mode):
                    self.compare(graph, mode, random_arenas(rng))

    def test_optimizers_against_the_reference(self) -> None:
        for seed in part_of(range(2000, 2040)):
            rng = random.Random(seed)
            graph = random_graph(rng)
            if rng.random() < 0.3:
                graph["step"] = rng.choice(("end", "backward"))
            optimizer = rng.choice(("sgd", "momentum", "adam")) + rng.choice(("", ":f32", ":bf16"))
            with self.subTest(seed=seed, optimizer=optimizer):
                self.compare(graph, "backward", random_arenas(rng), optimizer, rng.choice(("end", "backward")))

    def test_nothing_depends_on_threads_or_on_the_order_of_rows(self) -> None:
        for seed in part_of(range(1000, 1010)):
            rng = random.Random(seed)
            graph = random_graph(rng)
            for tensor in graph["tensors"]:
                if tensor.get("role") in ("parameter", "state"):
                    tensor["arena"] = "weights"  # slots of `parameters` follow the declaration
                elif tensor.get("arena") == "parameters":
                    del tensor["arena"]
            path = self.files.add(graph)
            shuffled = dict(graph, tensors=rng.sample(graph["tensors"], len(graph["tensors"])))
            token = "ab" * 64
            for mode in MODES:
                with self.subTest(seed=seed, mode=mode):
                    one = plan(path, "--mode", mode, "--token", token)
                    two = plan(path, "--mode", mode, "--token", token, "--threads", "2")
                    other = plan(self.files.add(shuffled), "--mode", mode, "--token", token)
                    self.assertEqual(one["plan_hash"], two["plan_hash"])
                    self.assertEqual(one["tensors"], other["tensors"])
                    self.assertEqual(json.dumps(one["arenas"]), json.dumps(other["arenas"]))


if __name__ == "__main__":
    unittest.main()
