"""Paging to the host: the program's schedules against the reference, and against every schedule there is where the
graph is small enough to look at all of them."""

import json
import random
import unittest

from reference import remat, schedules
from tests.property.test_plan import random_graph
from tests.property.test_remat import MODES, WithReference, small_graph
from tests.support.cases import bar, part_of
from tests.support.plans import call, error, plan
from tests.support.remat_by_force import least_cost, least_overlapped


class Paging(WithReference):
    def compare_random_graphs(self, speeds: tuple[int, ...], overlaps: bool) -> list[str]:
        answers = []
        for seed in part_of(range(40)):
            rng = random.Random(seed)
            graph = random_graph(rng) if seed % 2 else small_graph(rng, rng.randrange(8, 25))
            for mode in MODES:
                p = schedules.problem(graph, mode)
                peaks = schedules.peaks(p, schedules.base_schedule(p))
                budget = {"activations": int(peaks.get("activations", 0) * rng.choice((0.95, 0.85, 0.7, 0.5)))}
                if rng.random() < 0.3:
                    budget["host"] = rng.choice((256, 1024, 4096))
                link = schedules.Link(rng.choice((64, 100, 1000)), rng.choice(speeds), overlaps=overlaps)
                with self.subTest(seed=seed, mode=mode):
                    answers.append(self.compare(graph, mode, budget, rng.choice((0, 1, 2, 3, 5)), link))
        return answers

    def test_random_graphs_against_the_reference(self) -> None:
        answers = self.compare_random_graphs((1, 3, 7), overlaps=False)
        self.assertGreater(answers.count("paged"), bar(20), answers)
        self.assertGreater(answers.count("again"), bar(2), answers)

    def test_random_graphs_with_transfers_beside_the_computation(self) -> None:
        answers = self.compare_random_graphs((1, 3, 7, 20), overlaps=True)
        self.assertGreater(answers.count("hidden"), bar(20), answers)
        self.assertGreater(answers.count("paged"), bar(1), answers)
        self.assertGreater(answers.count("again"), bar(2), answers)

    def test_small_graphs_cost_the_least(self) -> None:
        """Equal to the best of all schedules; where there is none, that is proven."""
        found = paged = impossible = 0
        for seed in part_of(range(100)):
            rng = random.Random(seed)
            graph = small_graph(rng, rng.randrange(3, 7))
            mode = MODES[seed % 3]
            link = schedules.Link(rng.choice((64, 128, 256)), rng.choice((1, 2, 3)))
            p = schedules.problem(graph, mode, link=link)
            if len(p.names) > 10:
                continue
            peaks = schedules.peaks(p, schedules.base_schedule(p))
            budget = {"activations": int(peaks["activations"] * rng.choice((0.9, 0.8, 0.7))) // 128 * 128}
            least = least_cost(p, budget)
            options = ["--mode", mode, "--capacity", f"activations={budget['activations']}", "--effort", "6"]
            options += ["--link", str(link.link), "--speed", str(link.speed), "--no-overlap"]
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
                    paged += "paging" in result
        self.assertGreater(found, bar(15))
        self.assertGreater(paged, bar(10))
        self.assertGreater(impossible, bar(3))

    def test_small_graphs_beside_the_computation(self) -> None:
        """Never less than the best of all schedules, nor the bound more; most are the best. And never more than if nothing
        ran beside transfers."""
        found = best = 0
        for seed in part_of(range(150)):
            rng = random.Random(seed)
            graph = small_graph(rng, rng.randrange(3, 6))
            mode = MODES[seed % 3]
            link = schedules.Link(rng.choice((64, 128, 256)), rng.choice((1, 2, 3)), overlaps=True)
            p = schedules.problem(graph, mode, link=link)
            if len(p.names) > 7:
                continue
            peaks = schedules.peaks(p, schedules.base_schedule(p))
            budget = {"activations": int(peaks["activations"] * rng.choice((0.9, 0.8, 0.7))) // 128 * 128}
            least = least_overlapped(p, budget)
            path = self.files.add(graph)
            options = ["--mode", mode, "--capacity", f"activations={budget['activations']}", "--effort", "6"]
            options += ["--link", str(link.link), "--speed", str(link.speed)]
            with self.subTest(seed=seed):
                if least is None:
                    fault = error(path, *options)
                    self.assertEqual((fault["code_id"], fault["diagnostics"]["proven"]), ("ARENA_TOO_SMALL", 1))
                    continue
                result = plan(path, *options)
                if "remat" in result and result["remat"]["budget"] == budget:
                    own = result["remat"]
                    self.assertLessEqual(own["lower_bound"], least)
                    self.assertGreaterEqual(own["added_cost"], least)
                    self.assertLessEqual(own["added_cost"], plan(path, *options, "--no-overlap")["remat"]["added_cost"])
                    found += 1
                    best += own["added_cost"] == least
        self.assertGreater(found, bar(10))
        self.assertGreaterEqual(best * 4, bar(found * 3))

    def test_more_freedom_never_costs_more(self) -> None:
        """Recomputing alone, with a link that nothing runs beside, with one that transfers run beside."""
        cheaper = [0, 0]
        for seed in part_of(range(30)):
            rng = random.Random(seed)
            graph = small_graph(rng, 24)
            p = schedules.problem(graph, "backward")
            budget = int(schedules.peaks(p, schedules.base_schedule(p))["activations"] * 0.75)
            path = self.files.add(graph)
            options = ["--capacity", f"activations={budget}", "--effort", "3"]
            link = ["--link", "1000", "--speed", "1"]
            costs = []
            for more in ([], [*link, "--no-overlap"], link):
                done = call("plan", path, "--json", *options, *more)
                costs.append(2**64 if done.returncode else json.loads(done.stdout)["remat"]["added_cost"])
            self.assertEqual(costs, sorted(costs, reverse=True))
            for i in range(2):
                cheaper[i] += costs[i + 1] < costs[i] < 2**64
        self.assertGreater(min(cheaper), bar(5))


if __name__ == "__main__":
    unittest.main()
