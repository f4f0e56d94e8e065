"""Recomputing and reordering: the program's schedules against the reference, on random graphs in all modes, and
against every schedule and every order there is where the graph is small enough to look at all of them."""

import itertools
import json
import random
import unittest
from dataclasses import replace

from reference import plan as reference
from reference import remat, reorder, schedules
from tests.property.test_plan import random_graph
from tests.support.cases import bar, part_of
from tests.support.plans import Files, call, error, plan, validate
from tests.support.remat_by_force import least_cost

MODES = ("inference", "forward", "backward")
OPS = ("relu", "mul", "softmax", "matmul", "add", "custom", "reshape", "conv", "attention")


def small_graph(rng: random.Random, nodes: int) -> dict:
    """Every tensor has bytes, so that budgets mean something; costs are small numbers."""
    tensors: list[dict] = []

    def tensor(role: str = "activation") -> str:
        shape = [32 * rng.choice((1, 1, 2, 3, 4))]
        tensors.append({"id": f"t{len(tensors)}", "shape": shape, "dtype": "f32", "role": role})
        return tensors[-1]["id"]

    usable = [tensor("input") for _ in range(rng.randrange(1, 3))] + [tensor("parameter")]
    made = []
    for number in range(nodes):
        inputs = [rng.choice(usable[-5:]) for _ in range(rng.randrange(1, 3))]
        outputs = [tensor() for _ in range(rng.choice((1, 1, 1, 2)))]
        node = {"id": f"n{number}", "op": rng.choice(OPS), "inputs": inputs, "outputs": outputs}
        if rng.random() < 0.8:
            node["cost"] = rng.choice((0, 1, 2, 5, 9))
        made.append(node)
        usable += outputs
    return {"format": "weir-graph/1", "name": "small", "tensors": tensors, "nodes": made, "outputs": [usable[-1]]}


def named(graph: dict, schedule: list[schedules.Execution]) -> list[list[str]]:
    """With ids, as a plan has it."""
    kinds = {"run": "nodes", "back": "nodes", "out": "tensors", "in": "tensors", "wait": "tensors"}
    return [[kind, graph[kinds[kind]][index]["id"]] for kind, index in schedule]


class WithReference(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def compare(self, graph: dict, mode: str, budget: dict[str, int], effort: int, link: schedules.Link | None = None) -> str:
        """What the program answers, which is what the reference does: "plain", "again", "paged", "hidden" or "none"."""
        arenas = {name: {"capacity_bytes": n} for name, n in budget.items()}
        options = ["--preset", "remat_enabled", "--mode", mode, "--effort", str(effort)]
        options += ["--arenas", self.files.add(arenas)]
        if link:
            options += ["--link", f"{link.link}B/s", "--speed", f"{link.speed}/s"]
            options += [] if link.overlaps else ["--no-overlap"]
        p = schedules.problem(graph, mode, link=link)
        done = call("plan", self.files.add(graph), "--json", *options)
        if done.returncode:
            fault = json.loads(done.stdout)["error"]
            self.assertEqual(fault["code_id"], "ARENA_TOO_SMALL", fault)
            if fault["diagnostics"]["proven"]:
                self.assertIsNone(remat.solve(p, budget, effort))
            return "none"
        result = json.loads(done.stdout)
        validate(result)
        if "remat" not in result:
            self.assertTrue(schedules.fits(p, schedules.base_schedule(p), budget))
            return "plain"
        own = result["remat"]
        limits = {**budget, **own["budget"]}  # an arena without tensors has no budget in the plan
        found = remat.solve(p, limits, effort)
        if link and link.overlaps and limits != budget and result["schedule"] != named(graph, found.schedule):
            link = replace(link, overlaps=False)  # the packing took so much room that this is the cheaper plan
            p = schedules.problem(graph, mode, link=link)
            found = remat.solve(p, limits, effort)
        self.assertEqual(result["schedule"], named(graph, found.schedule))
        self.assertEqual((own["added_cost"], own["base_cost"]), (found.added_cost, sum(p.costs)))
        if limits == budget:
            self.assertEqual((own["lower_bound"], own["optimal"]), (found.bound, found.optimal))
        moved = [index for kind, index in found.schedule if kind in ("out", "in")]
        waited, whole = schedules.waited(p, found.schedule), sum(p.moves[t] for t in moved)
        hidden = {"hidden": whole - waited} if any(kind == "wait" for kind, _ in found.schedule) else {}
        said = result.get("paging", {"cost": 0})
        self.assertEqual({key: said[key] for key in ("cost", "hidden") if key in said}, {"cost": waited, **hidden})
        self.assertTrue(schedules.fits(p, found.schedule, limits))
        rows = schedules.lives(graph, mode, p, found.schedule)
        expected = reference.assign(graph, mode, arenas=arenas, tensors=rows)
        self.assertEqual(result["assignment_hash"], expected.assignment_hash.hex())
        self.assertEqual(result["graph_hash"], expected.graph_hash.hex())
        for arena in budget.keys() & result["arenas"].keys():
            self.assertLessEqual(result["arenas"][arena]["peak_bytes"], budget[arena])
        return "hidden" if hidden else "paged" if moved else "again"


class Remat(WithReference):
    def test_random_graphs_against_the_reference(self) -> None:
        answers = []
        for seed in part_of(range(40)):
            rng = random.Random(seed)
            graph = random_graph(rng) if seed % 2 else small_graph(rng, rng.randrange(8, 25))
            for mode in MODES:
                p = schedules.problem(graph, mode)
                peaks = schedules.peaks(p, schedules.base_schedule(p))
                part = rng.choice((0.95, 0.85, 0.7, 0.5))
                budget = {"activations": int(peaks.get("activations", 0) * part)}
                if rng.random() < 0.3:
                    budget["gradients"] = peaks.get("gradients", 0)
                with self.subTest(seed=seed, mode=mode):
                    answers.append(self.compare(graph, mode, budget, rng.choice((0, 1, 2, 3, 5))))
        self.assertGreater(answers.count("again"), bar(20), answers)

    def test_small_graphs_cost_the_least(self) -> None:
        """Equal to the best of all schedules; where there is none, that is proven."""
        found = impossible = 0
        for seed in part_of(range(120)):
            rng = random.Random(seed)
            graph = small_graph(rng, rng.randrange(3, 8))
            mode = MODES[seed % 3]
            p = schedules.problem(graph, mode)
            peaks = schedules.peaks(p, schedules.base_schedule(p))
            if len(p.names) > 12:
                continue
            budget = {"activations": int(peaks["activations"] * rng.choice((0.9, 0.8, 0.65))) // 128 * 128}
            least = least_cost(p, budget)
            options = ["--mode", mode, "--capacity", f"activations={budget['activations']}", "--effort", "6"]
            with self.subTest(seed=seed):
                if least is None:
                    fault = error(self.files.add(graph), *options)
                    self.assertEqual((fault["code_id"], fault["diagnostics"]["proven"]), ("ARENA_TOO_SMALL", 1))
                    impossible += 1
                    continue
                result = plan(self.files.add(graph), *options)
                if "remat" in result and result["remat"]["budget"] == budget:
                    self.assertTrue(result["remat"]["optimal"])
                    self.assertEqual(result["remat"]["added_cost"], least)
                    found += 1
        self.assertGreater(found, bar(15))
        self.assertGreater(impossible, bar(5))

    def test_a_restored_plan_keeps_its_schedule(self) -> None:
        graph = small_graph(random.Random(3), 12)
        path, kept = self.files.add(graph), self.files.path("kept.plan")
        p = schedules.problem(graph, "backward")
        capacity = int(schedules.peaks(p, schedules.base_schedule(p))["activations"] * 0.9)
        made = plan(path, "--capacity", f"activations={capacity}", "--cbor", kept)
        shown = json.loads(call("plan", kept, "--json").stdout)
        self.assertIn("remat", made)
        for key in ("plan_hash", "assignment_hash", "schedule", "remat", "arenas", "tensors"):
            self.assertEqual(shown[key], made[key], key)

    def test_a_capacity_that_fits_changes_nothing(self) -> None:
        graph = self.files.add(small_graph(random.Random(5), 12))
        plain = plan(graph, "--mode", "backward")
        roomy = {"activations": {"capacity_bytes": 1 << 40}}
        with_room = plan(graph, "--mode", "backward", "--arenas", self.files.add(roomy))
        remade = plan(graph, "--capacity", "activations=1TiB")
        self.assertEqual(remade["plan_hash"], with_room["plan_hash"])
        self.assertEqual(remade["assignment_hash"], plain["assignment_hash"])
        self.assertNotIn("schedule", remade)


class Order(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def test_against_the_reference(self) -> None:
        lowered = proven = 0
        for seed in part_of(range(30)):
            rng = random.Random(1000 + seed)
            graph = small_graph(rng, rng.randrange(6, 20)) if seed % 3 else random_graph(rng)
            rng.shuffle(graph["nodes"])
            for mode in MODES:
                effort = rng.choice((0, 1, 2, 5))
                with self.subTest(seed=seed, mode=mode, effort=effort):
                    result = plan(self.files.add(graph), "--mode", mode, "--reorder", "--effort", str(effort))
                    validate(result)
                    own = result["reorder"]
                    p = schedules.problem(graph, mode)
                    given = [graph["nodes"][node]["id"] for node in p.order]
                    best = reorder.reorder(graph, mode, None, effort)
                    self.assertEqual(own["given_peak"], reorder.order_peak(graph, mode, given))
                    self.assertEqual(own["lower_bound"], reorder.order_bound(graph, mode, given))
                    self.assertLessEqual(own["peak"], own["given_peak"])
                    if own["changed"]:
                        self.assertEqual([node for kind, node in result["schedule"] if kind == "run"], best)
                        self.assertEqual(own["peak"], reorder.order_peak(graph, mode, best))
                    lowered += own["changed"]
                    proven += own["peak"] == own["lower_bound"]
        self.assertGreater(lowered, bar(20))
        self.assertGreater(proven, bar(40))

    def test_no_order_is_below_the_bound(self) -> None:
        """Of graphs whose orders can all be looked at."""
        for seed in part_of(range(60)):
            rng = random.Random(seed)
            graph = small_graph(rng, 6)
            mode = MODES[seed % 3]
            p = schedules.problem(graph, mode)
            ids = [node["id"] for node in graph["nodes"]]
            peaks = []
            for order in itertools.permutations(range(6)):
                done: set[int] = set()
                waits = [{p.producer[t] for t in inputs} - {None} for inputs in p.inputs]
                if all(waits[node] <= done and not done.add(node) for node in order):
                    peaks.append(reorder.order_peak(graph, mode, [ids[node] for node in order]))
            given = [ids[node] for node in p.order]
            with self.subTest(seed=seed):
                self.assertLessEqual(reorder.order_bound(graph, mode, given), min(peaks))


if __name__ == "__main__":
    unittest.main()
