"""`weir plan` and the golden vectors: graphs that must be planned, and graphs that must be refused."""

import json
import unittest
from pathlib import Path

from tests.support.plans import Files, arguments_of, error, plan, validate

VECTORS = Path(__file__).resolve().parents[1] / "golden" / "vectors"


def load(name: str) -> list[dict]:
    return json.loads((VECTORS / name).read_text())["cases"]


class PlanVectors(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def check_run(self, path: str, run: dict) -> None:
        result = plan(path, *arguments_of(run, self.files))
        self.assertEqual(result["graph_hash"], run["graph_hash"])
        tensors = {
            name: [t["arena"], t["slot"], t["address"], t["size"], t["birth"], t["death"]]
            for name, t in result["tensors"].items()
        }
        expected = {name: [a, s, d, int(z), b, e] for name, (a, s, d, z, b, e) in run["tensors"].items()}
        self.assertEqual(tensors, expected)
        self.assertEqual(result["assignment_hash"], run["assignment_hash"])
        self.assertEqual(sorted(result["arenas"]), sorted(run["arenas_out"]))
        for name, arena in run["arenas_out"].items():
            for key, value in arena.items():
                self.assertEqual(result["arenas"][name][key], int(value), (name, key))
        validate(result)

    def test_plans(self) -> None:
        runs = 0
        for case in load("plans.json"):
            paths = [self.files.add(case["graph"])]
            if "graph_cbor" in case:
                paths.append(self.files.add(bytes.fromhex(case["graph_cbor"])))
            for path in paths:
                for run in case["runs"]:
                    runs += 1
                    with self.subTest(case["name"], mode=run["mode"]):
                        self.check_run(path, run)
        self.assertGreater(runs, 100)

    def test_errors(self) -> None:
        runs = 0
        for case in load("plan_errors.json"):
            path = self.files.add(case["graph"])
            for run in case["runs"]:
                runs += 1
                with self.subTest(case["name"], why=case["why"]):
                    record = error(path, *arguments_of(run, self.files))
                    self.assertEqual(record["code_id"], run["code_id"], record["message"])
                    self.assertEqual(record["numeric_code"], run["numeric_code"])
                    self.assertTrue(record["message"])
        self.assertGreater(runs, 100)


if __name__ == "__main__":
    unittest.main()
