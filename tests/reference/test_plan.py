"""The reference planner against the golden vectors, and the golden hashes against the reference.

`python3 tests/reference/test_plan.py write` makes tests/golden/plan_hashes.json anew; it may change only
together with the contract.
"""

import json
import sys
import unittest
from pathlib import Path

from reference import plan as reference
from tests.support.golden_plans import GOLDEN, cases, graph_of, token_of

VECTORS = Path(__file__).resolve().parents[1] / "golden" / "vectors" / "plans.json"


def reference_hash(case: dict) -> str:
    mode = reference.MODE_OF_PRESET.get(case.get("preset", ""), case.get("mode"))
    graph = reference.with_optimizer(graph_of(case), case.get("optimizer"), case.get("step"))
    return reference.assign(graph, mode, token_of(case)).assignment_hash.hex()


class ReferencePlans(unittest.TestCase):
    def check(self, case: dict, run: dict) -> None:
        mode = reference.MODE_OF_PRESET[run["preset"]] if "preset" in run else run["mode"]
        token = None if run["token"] is None else bytes.fromhex(run["token"])
        found = reference.assign(case["graph"], mode, token, run.get("order"), run.get("arenas"))
        self.assertEqual(found.graph_hash.hex(), run["graph_hash"])
        for name, (arena, slot, address, size, birth, death) in run["tensors"].items():
            tensor = found.tensors[name]
            self.assertEqual(
                [tensor.arena, tensor.slot, tensor.address, tensor.size, tensor.birth, tensor.death],
                [arena, slot, int(address), int(size), birth, death],
                name,
            )
        self.assertEqual(found.assignment_hash.hex(), run["assignment_hash"])
        self.assertEqual(sorted(found.arenas), sorted(run["arenas_out"]))
        for name, arena in run["arenas_out"].items():
            self.assertEqual(found.arenas[name], {key: int(value) for key, value in arena.items()}, name)

    def test_vectors(self) -> None:
        for case in json.loads(VECTORS.read_text())["cases"]:
            for run in case["runs"]:
                with self.subTest(case["name"], mode=run["mode"]):
                    self.check(case, run)

    def test_golden_hashes(self) -> None:
        golden = json.loads(GOLDEN.read_text())
        self.assertEqual(sorted(golden), sorted(case["name"] for case in cases()))
        for case in cases():
            with self.subTest(case["name"]):
                self.assertEqual(reference_hash(case), golden[case["name"]])


if __name__ == "__main__":
    if sys.argv[1:] == ["write"]:
        hashes = {case["name"]: reference_hash(case) for case in cases()}
        GOLDEN.write_text(json.dumps(hashes, indent=1) + "\n")
    else:
        unittest.main()
