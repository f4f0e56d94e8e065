"""Tensors that share a place: the program's plans against the reference, on random graphs in all modes, with views and
operators that write in place; and that no write loses a value that is read later."""

import itertools
import json
import random
import unittest

from reference import plan as reference
from reference import remat, reorder, schedules
from tests.property.test_plan import MODES, random_arenas, random_graph
from tests.property.test_remat import small_graph
from tests.support.cases import bar, part_of
from tests.support.plans import Files, call, validate


def with_aliases(graph: dict, rng: random.Random) -> dict:
    """Some tensors become aliases of what their node reads, or of another tensor that no node makes."""
    tensors = {tensor["id"]: tensor for tensor in graph["tensors"]}
    sizes = {tensor.id: tensor.size for tensor in reference.tensors_of(graph).values()}

    def share(alias: str, original: str) -> None:
        room = sizes[original] - sizes[alias]
        seen = original
        while "alias_of" in tensors[seen]:
            seen = tensors[seen]["alias_of"]
        if room < 0 or seen == alias or rng.random() < 0.4:
            return
        tensors[alias].pop("arena", None)
        tensors[alias]["alias_of"] = original
        if rng.random() < 0.5:
            tensors[alias]["alias_offset"] = rng.randrange(room + 1)

    for node in graph["nodes"]:
        for output in node["outputs"]:
            if node["inputs"]:
                share(output, rng.choice(node["inputs"]))
    made = {output for node in graph["nodes"] for output in node["outputs"]}
    free = [name for name in tensors if name not in made and tensors[name].get("role") not in (None, "activation")]
    for alias in free:
        if rng.random() < 0.3:
            share(alias, rng.choice(free))
    return graph


def written_graph(rng: random.Random) -> dict:
    """A graph with views, and with operators that write what they read last: whole places, and some in part."""
    graph, in_part = small_graph(rng, rng.randrange(8, 24)), rng.random() < 0.3
    tensors, nodes = {tensor["id"]: tensor for tensor in graph["tensors"]}, graph["nodes"]
    for tensor in tensors.values():
        tensor["shape"] = [64] if not in_part or rng.random() < 0.7 else [32]
    for number, node in enumerate(nodes):
        node |= {"inplace": False, "saves": rng.choice(("none", "none", "output"))}
        later = {name for other in nodes[number + 1 :] for name in other["inputs"]}
        free = [name for name in node["inputs"] if tensors[name]["role"] == "activation" and name not in later]
        output = tensors[node["outputs"][0]]
        if free and output["shape"] <= tensors[free[0]]["shape"] and rng.random() < 0.8:
            output["alias_of"] = free[0]
            node["inplace"] = rng.random() < 0.7 and (in_part or len(node["outputs"]) == 1)
    for _ in nodes:  # until no write comes too early, in any mode
        faults = [reference.analyze_liveness(graph, mode).too_early for mode in MODES]
        for name in {fault[0] for fault in faults if fault}:
            next(node for node in nodes if node["id"] == name)["inplace"] = False
    return graph


class RandomAliases(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def compare(self, graph: dict, mode: str, arenas: dict) -> str:
        """What the program answers: "planned", or the first words of why not."""
        options = ["--mode", mode, "--effort", "1", "--arenas", self.files.add(arenas)]
        done = call("plan", self.files.add(graph), "--json", *options)
        too_early = reference.analyze_liveness(graph, mode).too_early
        if too_early is not None:
            fault = json.loads(done.stdout)["error"]
            self.assertEqual(fault["code_id"], "INVALID_IR", fault)
            node, written, lost = too_early
            self.assertIn(f"node '{node}' writes '{written}' into the place of '{lost}',", fault["message"])
            return "refused"
        self.assertEqual(done.returncode, 0, done.stdout[:500])
        result = json.loads(done.stdout)
        expected = reference.assign(graph, mode, arenas=arenas)
        self.assertEqual(result["graph_hash"], expected.graph_hash.hex())
        for name, tensor in expected.tensors.items():
            found = dict(result["tensors"][name])
            self.assertEqual(found.pop("alias_of", None), tensor.owner, name)
            offset = found.pop("offset")
            if tensor.owner is not None:
                self.assertEqual(offset, result["tensors"][tensor.owner]["offset"] + tensor.owner_offset, name)
            fields = {key: getattr(tensor, key) for key in found}
            self.assertEqual(found, {**fields, "address": str(tensor.address)}, name)
        self.assertEqual(result["assignment_hash"], expected.assignment_hash.hex())
        for name, arena in expected.arenas.items():
            self.assertEqual({key: result["arenas"][name][key] for key in arena}, arena, name)
        validate(result)
        return "planned"

    def test_against_the_reference(self) -> None:
        answers = []
        for seed in part_of(range(100)):
            rng = random.Random(seed)
            graph = with_aliases(random_graph(rng), rng)
            graph["step"] = rng.choice(("end", "backward"))
            for mode in MODES:
                with self.subTest(seed=seed, mode=mode):
                    answers.append(self.compare(graph, mode, random_arenas(rng)))
        self.assertGreater(min(answers.count("planned"), answers.count("refused")), bar(30), answers)

    def test_another_order(self) -> None:
        """As the reference has it: places count once, and no order overwrites one too early."""
        changed = 0
        for seed in part_of(range(60)):
            rng = random.Random(seed)
            graph = with_aliases(random_graph(rng), rng)
            rng.shuffle(graph["nodes"])
            for mode in MODES:
                if reference.analyze_liveness(graph, mode).too_early is not None:
                    continue
                with self.subTest(seed=seed, mode=mode):
                    done = call("plan", self.files.add(graph), "--json", "--mode", mode, "--reorder", "--effort", "2")
                    self.assertEqual(done.returncode, 0, done.stdout[:500])
                    result = json.loads(done.stdout)
                    validate(result)
                    given = [graph["nodes"][node]["id"] for node in schedules.problem(graph, mode).order]
                    own = result["reorder"]
                    self.assertEqual(own["given_peak"], reorder.order_peak(graph, mode, given))
                    self.assertEqual(own["lower_bound"], reorder.order_bound(graph, mode, given))
                    if own["changed"]:
                        best = reorder.reorder(graph, mode, None, 2)
                        self.assertEqual([node for kind, node in result["schedule"] if kind == "run"], best)
                        self.assertIsNone(reference.analyze_liveness(graph, mode, best).too_early)
                        changed += 1
        self.assertGreater(changed, bar(10))

    def plan_as_reference(self, graph: dict, seen: dict, seed: int, part: float) -> tuple[dict | None, dict[str, str]]:
        """The program's plan of `graph` with a part of its peak, and who owns the place of each alias: what the reference
        gives for the graph as it sees it. None if nothing is recomputed within that part."""
        mode = MODES[seed % 3]
        link = schedules.Link(1000, 1, overlaps=seed % 4 == 3) if seed % 2 else None
        p = schedules.problem(seen, mode, link=link)
        budget = {"activations": int(schedules.peaks(p, schedules.base_schedule(p))["activations"] * part)}
        options = ["--mode", mode, "--capacity", f"activations={budget['activations']}", "--effort", "2"]
        options += ["--link", "1000", "--speed", "1"] if link else []
        options += ["--no-overlap"] if link and not link.overlaps else []
        done = call("plan", self.files.add(graph), "--json", *options)
        result = json.loads(done.stdout)
        if done.returncode:
            self.assertEqual(result["error"]["code_id"], "ARENA_TOO_SMALL")
            return None, {}
        validate(result)
        if "remat" not in result or result["remat"]["budget"] != budget:
            return None, {}
        found = remat.solve(p, budget, 2)
        self.assertEqual(result["remat"]["added_cost"], found.added_cost)
        rows = schedules.lives(seen, mode, p, found.schedule)
        arenas = {name: {"capacity_bytes": n} for name, n in budget.items()}
        expected = reference.assign(graph, mode, arenas=arenas, tensors=rows)
        self.assertEqual(result["assignment_hash"], expected.assignment_hash.hex())
        owners = {name: row.owner for name, row in rows.items() if row.owner is not None}
        self.assertEqual({n: t["alias_of"] for n, t in result["tensors"].items() if "alias_of" in t}, owners)
        return result, owners

    def test_recomputing_and_paging(self) -> None:
        """As the reference has it, where no operator writes an alias in place; from seed 60 on, they overwrite what
        they read last."""
        again = shared = 0
        for seed in part_of(range(90)):
            rng = random.Random(seed)
            graph = small_graph(rng, rng.randrange(6, 20))
            for tensor in graph["tensors"] if seed >= 60 else []:
                tensor["shape"] = [64]
            graph = with_aliases(graph, rng)
            aliases = {tensor["id"] for tensor in graph["tensors"] if "alias_of" in tensor}
            for node in graph["nodes"]:
                node["inplace"] = seed >= 60 and aliases.isdisjoint(node["outputs"])
            with self.subTest(seed=seed):
                result, owners = self.plan_as_reference(graph, graph, seed, 0.85)
                again += result is not None
                shared += any(name.rpartition(".again")[1] for name in owners)
        self.assertGreater(again, bar(15))
        self.assertGreater(shared, bar(3))

    def test_recomputing_what_is_written_in_place(self) -> None:
        """As the reference has it: a write makes a tensor of its own in the bytes of the one before it."""
        answers = []
        for seed in part_of(range(120)):
            rng = random.Random(seed)
            graph = written_graph(rng)
            seen = reference.with_versions(graph, MODES[seed % 3])
            with self.subTest(seed=seed):
                result, _ = self.plan_as_reference(graph, seen, seed, 0.8)
                if result is None:
                    continue
                written = [node for node in seen["nodes"] if node.get("overwrites")]
                apart = not written and seen is not graph
                for node in written:
                    before, after = (result["tensors"][name] for name in (node["overwrites"], node["outputs"][0]))
                    if before["death"] == after["birth"]:
                        self.assertEqual(before["offset"], after["offset"], node["id"])
                answers.append("whole" if written else "apart" if apart else "views")
        self.assertGreater(answers.count("whole"), bar(20), answers)
        self.assertGreater(answers.count("apart"), bar(3), answers)

    def test_no_order_is_below_the_bound(self) -> None:
        """Of graphs whose orders can all be looked at."""
        seen = 0
        for seed in part_of(range(60)):
            rng = random.Random(seed)
            graph, mode = with_aliases(small_graph(rng, 5), rng), MODES[seed % 3]
            if reference.analyze_liveness(graph, mode).too_early is not None:
                continue
            p = schedules.problem(graph, mode)
            ids = [node["id"] for node in graph["nodes"]]
            waits = [{p.producer[t] for t in inputs} - {None} for inputs in p.inputs]
            peaks = []
            for order in itertools.permutations(range(5)):
                done: set[int] = set()
                names = [ids[node] for node in order]
                if not all(waits[node] <= done and not done.add(node) for node in order):
                    continue
                if reference.analyze_liveness(graph, mode, names).too_early is None:
                    peaks.append(reorder.order_peak(graph, mode, names))
            with self.subTest(seed=seed):
                self.assertLessEqual(reorder.order_bound(graph, mode, [ids[node] for node in p.order]), min(peaks))
            seen += 1
        self.assertGreater(seen, bar(30))

    def test_places_hold_the_values_that_are_read(self) -> None:
        """Runs the graph in its plan's bytes, in inference mode: every node writes its number over what it makes,
        views write nothing, and every read finds what was made there last."""
        ran = 0
        for seed in part_of(range(300, 360)):
            graph = with_aliases(random_graph(random.Random(seed)), random.Random(seed))
            done = call("plan", self.files.add(graph), "--json", "--mode", "inference")
            if done.returncode:
                continue
            with self.subTest(seed=seed):
                self.run_in_place(graph, json.loads(done.stdout)["tensors"])
            ran += 1
        self.assertGreater(ran, bar(20))

    def run_in_place(self, graph: dict, rows: dict) -> None:
        memory: dict[tuple[str, int], object] = {}
        expected: dict[str, list] = {}

        def spots(name: str) -> list[tuple[str, int]]:
            row = rows[name]
            return [(row["arena"], row["offset"] + k) for k in range(row["size"])]

        def write(name: str, mark: object) -> None:
            for spot in spots(name):
                memory[spot] = mark

        tensors = reference.tensors_of(graph)
        made = {output for node in graph["nodes"] for output in node["outputs"]}
        for name, tensor in tensors.items():
            if name not in made and tensor.owner is None:
                write(name, ("start", name))
        for name in tensors:
            if name not in made:
                expected[name] = [memory.get(spot) for spot in spots(name)]
        for node in reference.execution_order(graph, reference.nodes_of(graph), None):
            for name in node.inputs:
                self.assertEqual([memory.get(spot) for spot in spots(name)], expected[name], (node.id, name))
            for name in node.outputs:
                if tensors[name].owner is None or node.inplace:
                    write(name, (node.id, name))
            for name in node.outputs:
                expected[name] = [memory.get(spot) for spot in spots(name)]
        for name in graph["outputs"]:
            self.assertEqual([memory.get(spot) for spot in spots(name)], expected[name], name)


if __name__ == "__main__":
    unittest.main()
