"""A plan that recomputes and pages is run in its arenas, byte by byte: every operator reads what it would read if all
tensors had memory of their own, views too."""

import random
import unittest
from typing import Any

import numpy
import weir
from reference import plan as reference
from reference import schedules
from tests.property.test_aliases import with_aliases, written_graph
from tests.property.test_remat import MODES, small_graph


class Machine:
    """Runs a plan's schedule. An operator's outputs are bytes that depend on its inputs' bytes and on which it is."""

    def __init__(self, graph: dict[str, Any], mode: str, plan: weir.Plan, rng: random.Random) -> None:
        self.rng = rng  # when a copy is made: at its place, or as late as at its wait
        self.under_way: dict[str, int] = {}
        self.nodes = {node["id"]: node for node in graph["nodes"]}
        self.problem = schedules.problem(graph, mode)
        self.tensors = reference.tensors_of(graph)
        self.sizes = {id: tensor.size for id, tensor in self.tensors.items()}
        self.plan, self.arenas = plan, weir.Arenas(plan)
        self.overlaps = plan.paging is not None and plan.paging["overlaps"]
        self.needs = {
            graph["nodes"][step.node]["id"]: [self.problem.names[t] for t in step.needs]
            for step in self.problem.steps
            if step.kind == "back"
        }
        self.right: dict[str, numpy.ndarray] = {}  # as if every tensor had its own memory
        self.checked = 0

    def bytes_of(self, id: str, position: int) -> numpy.ndarray:
        found = self.arenas.tensor(self.arenas.instance(id, position), position)
        return found.numpy().reshape(-1).view("u1")

    def viewed(self, id: str) -> numpy.ndarray | None:
        """What an alias shows: bytes of its owner."""
        tensor = self.tensors[id]
        if tensor.owner is None:
            return None
        return self.right[tensor.owner][tensor.owner_offset : tensor.owner_offset + tensor.size]

    def made(self, node: dict[str, Any], values: list[numpy.ndarray]) -> dict[str, numpy.ndarray]:
        seed = sum(int(value.astype("u4").sum()) * (i + 1) for i, value in enumerate(values))
        made = {}
        for number, id in enumerate(node["outputs"]):
            view = self.viewed(id)
            if view is not None:
                made[id] = view
                continue
            rng = numpy.random.default_rng([seed, number, *node["id"].encode()])
            made[id] = rng.integers(0, 256, self.sizes[id], "u1")
        return made

    def check(self, ids: list[str], position: int) -> list[numpy.ndarray]:
        values = [self.bytes_of(id, position) for id in ids]
        for id, value in zip(ids, values):
            numpy.testing.assert_array_equal(value, self.right[id], id)
            self.checked += 1
        return [value.copy() for value in values]

    def run(self) -> None:
        given = [(t, id) for t, id in enumerate(self.problem.names) if self.problem.producer[t] is None]
        for t, id in sorted(given, key=lambda item: self.tensors[item[1]].owner is not None):
            view = self.viewed(id)
            if view is not None:
                self.right[id] = view
            else:
                self.right[id] = numpy.random.default_rng(t).integers(0, 256, self.sizes[id], "u1")
                self.bytes_of(id, 0)[:] = self.right[id]
        for position, (kind, id) in enumerate(self.plan.schedule or [], 1):
            if kind in ("out", "in") and self.overlaps and self.rng.random() < 0.5:
                self.under_way[id] = position
            elif kind in ("out", "in"):
                self.arenas.page(position)
                self.check([id], position)
            elif kind == "wait":
                if id in self.under_way:
                    self.arenas.page(self.under_way.pop(id))
                self.check([id], position)
            elif kind == "back":
                self.check(self.needs[id], position)
            else:
                node = self.nodes[id]
                inputs = [self.before(x, position) for x in node["inputs"]]
                for x, value in zip(node["inputs"], inputs):
                    numpy.testing.assert_array_equal(value, self.right[x], x)
                made = self.made(node, inputs)
                for output, value in made.items():
                    self.right.setdefault(output, value)
                    numpy.testing.assert_array_equal(value, self.right[output])
                    if self.tensors[output].owner is None:
                        self.bytes_of(output, position)[:] = value
                self.check(list(made), position)

    def before(self, id: str, position: int) -> numpy.ndarray:
        """An input: one that the operator overwrites is gone at its position."""
        try:
            return self.bytes_of(id, position).copy()
        except KeyError:
            return self.bytes_of(id, position - 1).copy()


class Paging(unittest.TestCase):
    def plan(
        self, graph: dict[str, Any], mode: str, part: float, given: dict[str, Any] | None = None, **options: Any
    ) -> weir.Plan | None:
        p = schedules.problem(graph, mode)
        bytes_ = int(schedules.peaks(p, schedules.base_schedule(p))["activations"] * part)
        arenas = {"activations": {"capacity_bytes": bytes_}}
        try:
            return weir.plan(given or graph, mode=mode, preset="remat_enabled", arenas=arenas, effort=3, **options)
        except weir.errors.ArenaTooSmall:
            return None

    def test_every_byte_is_right_in_the_plans_memory(self) -> None:
        paged = again = views = late = 0
        for seed in range(60):
            rng = random.Random(seed)
            graph, mode = small_graph(rng, rng.randrange(6, 24)), MODES[seed % 3]
            if seed % 2:
                graph = with_aliases(graph, rng)
                for node in graph["nodes"]:
                    node["inplace"] = False
            link = {"link": rng.choice((100, 1000)), "speed": 1, "overlap": seed % 4 < 3}
            plan = self.plan(graph, mode, rng.choice((0.85, 0.7)), **link)
            if plan is None or plan.schedule is None:
                continue
            with self.subTest(seed=seed, mode=mode):
                machine = Machine(graph, mode, plan, rng)
                machine.run()
                paged += plan.paging is not None
                late += machine.overlaps
                again += plan.remat["runs_again"] > 0
                views += any(t["alias_of"] and ".again" in id for id, t in plan.tensors.items())
        self.assertGreater(paged, 8)
        self.assertGreater(late, 5)
        self.assertGreater(again, 5)
        self.assertGreater(views, 3)

    def test_what_is_written_in_place_is_right_too(self) -> None:
        """The same of graphs whose operators write into places: a write takes the bytes of what it reads last."""
        written = again = late = 0
        for seed in range(60):
            rng = random.Random(seed)
            graph, mode = written_graph(rng), MODES[seed % 3]
            link = {"link": rng.choice((100, 1000)), "speed": 1} if seed % 4 else {}
            plan = self.plan(reference.with_versions(graph, mode), mode, rng.choice((0.85, 0.7)), graph, **link)
            if plan is None or plan.schedule is None:
                continue
            with self.subTest(seed=seed, mode=mode):
                seen = reference.with_versions(graph, mode)
                machine = Machine(seen, mode, plan, rng)
                machine.run()
                written += any(node.get("overwrites") for node in seen["nodes"])
                again += plan.remat["runs_again"] > 0
                late += machine.overlaps
        self.assertGreater(min(written, again), 10)
        self.assertGreater(late, 3)

    def test_what_python_says_of_it(self) -> None:
        graph = small_graph(random.Random(10), 24)
        plan = self.plan(graph, "backward", 0.8, link=1000, speed=1)
        kinds = [kind for kind, _ in plan.schedule]
        self.assertEqual(plan.paging["tensors"], kinds.count("out"))
        self.assertEqual(plan.paging["transfers"], kinds.count("out") + kinds.count("in"))
        moved = [id for kind, id in plan.schedule if kind in ("out", "in")]
        self.assertEqual(plan.paging["moved"], sum(plan.tensors[id]["size"] for id in moved))
        self.assertEqual({plan.tensors[f"{id}.host"]["arena"] for id in moved}, {"host"})
        self.assertLessEqual(plan.paging["cost"], plan.remat["added_cost"])
        self.assertTrue(plan.paging["overlaps"])
        self.assertEqual(kinds.count("wait"), plan.paging["transfers"])
        alone = self.plan(graph, "backward", 0.8, link=1000, speed=1, overlap=False)
        self.assertEqual((alone.paging["overlaps"], alone.paging["hidden"]), (False, 0))
        self.assertLess(plan.remat["added_cost"], alone.remat["added_cost"])
        self.assertNotIn("wait", [kind for kind, _ in alone.schedule])
        restored = weir.Plan.from_bytes(plan.to_bytes())
        self.assertEqual((restored.paging, restored.schedule, restored.hashes), (plan.paging, plan.schedule, plan.hashes))
        self.assertIsNone(weir.plan(graph, mode="backward").paging)
        with self.assertRaisesRegex(weir.GraphError, "give both"):
            self.plan(graph, "backward", 0.8, link=1000)


if __name__ == "__main__":
    unittest.main()
