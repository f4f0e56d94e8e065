"""The reference's schedules, and golden hashes of the preset remat_enabled, without a link, with one, and with one that
moves tensors beside the computation.

`python3 tests/reference/test_remat.py write` makes tests/golden/remat_hashes.json, paging_hashes.json and
overlap_hashes.json anew; they may change only together with docs/spec/03d-remat.md, 03j-paging.md and 03k-overlap.md.
"""

import json
import sys
import unittest
from pathlib import Path

from reference import plan as reference
from reference import remat, schedules
from tests.support.golden_plans import graph_of, token_of
from tests.support.golden_remat import (
    EFFORT,
    GOLDEN,
    LINK,
    OVERLAP_GOLDEN,
    OVERLAPPING_LINK,
    PAGING_GOLDEN,
    capacity_of,
    cases,
    paging_cases,
)


def reference_hash(case: dict, link: schedules.Link | None = None) -> str:
    graph, mode = graph_of(case), case["mode"]
    p = schedules.problem(graph, mode, link=link)
    budget = {"activations": capacity_of(case)}
    found = remat.solve(p, budget, EFFORT)
    if found is None:
        return "none"
    assert schedules.fits(p, found.schedule, budget)
    rows = schedules.lives(graph, mode, p, found.schedule)
    arenas = {"activations": {"capacity_bytes": budget["activations"]}}
    return reference.assign(graph, mode, token_of(case), None, arenas, rows).assignment_hash.hex()


class ReferenceRemat(unittest.TestCase):
    def test_the_base_schedule_is_the_plan_without_recomputing(self) -> None:
        for case in cases():
            graph, mode = graph_of(case), case["mode"]
            p = schedules.problem(graph, mode)
            plain = reference.analyze_liveness(graph, mode).tensors
            same = schedules.lives(graph, mode, p, schedules.base_schedule(p))
            self.assertEqual(same, plain, case["name"])

    def test_golden_hashes(self) -> None:
        golden = json.loads(GOLDEN.read_text())
        self.assertEqual(sorted(golden), sorted(case["name"] for case in cases()))
        self.assertGreater(sum(value != "none" for value in golden.values()), 60)
        for case in cases():
            if case["seed"] == 0 or case["random"]:  # a model's schedule is the same for every token
                with self.subTest(case["name"]):
                    self.assertEqual(reference_hash(case), golden[case["name"]])

    def test_golden_hashes_with_a_link(self) -> None:
        golden = json.loads(PAGING_GOLDEN.read_text())
        without = json.loads(GOLDEN.read_text())
        self.assertGreater(sum(value != without[name] for name, value in golden.items()), 40)
        for case in paging_cases():
            with self.subTest(case["name"]):
                self.assertEqual(reference_hash(case, LINK), golden[case["name"]])

    def test_golden_hashes_with_transfers_beside_the_computation(self) -> None:
        golden = json.loads(OVERLAP_GOLDEN.read_text())
        without = json.loads(GOLDEN.read_text())
        self.assertGreater(sum(value != without[name] for name, value in golden.items()), 40)
        for case in paging_cases():
            with self.subTest(case["name"]):
                self.assertEqual(reference_hash(case, OVERLAPPING_LINK), golden[case["name"]])


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        hashes = {case["name"]: reference_hash(case) for case in cases()}
        GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
        hashes = {case["name"]: reference_hash(case, LINK) for case in paging_cases()}
        PAGING_GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
        hashes = {case["name"]: reference_hash(case, OVERLAPPING_LINK) for case in paging_cases()}
        OVERLAP_GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
    else:
        unittest.main()
