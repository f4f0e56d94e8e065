"""`weir batch` against the golden vectors: every field, every tensor."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from tests.support.batches import PROGRAM, VECTORS, batch_arguments, differences, make_shop, run  # noqa: E402

GOLDEN = PROJECT_ROOT / "tests/golden/context_options.json"


class ContextOptions(unittest.TestCase):
    def test_hashes_and_digests(self) -> None:
        """Of the golden shop, with labels that are known some time after their seed."""
        golden = json.loads(GOLDEN.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            _, store = make_shop(folder, golden["horizons"])
            for name, manifest in golden["manifests"].items():
                (folder / f"{name}.json").write_text(json.dumps(manifest))
                printed = run("manifest", folder / f"{name}.json")
                self.assertEqual({key: printed[key] for key in golden["hashes"][name]}, golden["hashes"][name])
            for number, case in enumerate(golden["batches"]):
                with self.subTest(case=number, manifest=case["manifest"], dataset=case["dataset"]):
                    built = run(*batch_arguments(case, store, folder / f"{case['manifest']}.json"))
                    self.assertEqual(differences(built, case["expect"]), [])

    def test_a_context_seed_is_another_context_of_the_same_samples(self) -> None:
        golden = json.loads(GOLDEN.read_text("utf-8"))
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            _, store = make_shop(folder)
            found = []
            for seed in (0, 7, 8):
                manifest = json.loads(json.dumps(golden["manifests"]["seeded"]))
                manifest["batch"]["context_seed"] = seed
                (folder / "m.json").write_text(json.dumps(manifest))
                case = {"dataset": "shop/churn/train", "stage": "eval"}
                found.append(run(*batch_arguments(case, store, folder / "m.json"))["sequences"])
            self.assertEqual(len({tuple(s["sample_index"] for s in sequences) for sequences in found}), 1)
            self.assertEqual(len({tuple(s["sample_digest"] for s in sequences) for sequences in found}), 3)


class ShopSmall(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.vectors = json.loads((VECTORS / "shop_small.batches.json").read_text("utf-8"))
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        _, cls.store = make_shop(cls.folder)
        for name, manifest in cls.vectors["manifests"].items():
            (cls.folder / f"{name}.json").write_text(json.dumps(manifest))

    def test_hashes(self) -> None:
        for name, expected in self.vectors["hashes"].items():
            with self.subTest(manifest=name):
                printed = run("manifest", self.folder / f"{name}.json")
                self.assertEqual({key: printed[key] for key in expected}, expected)

    def test_batches(self) -> None:
        for number, case in enumerate(self.vectors["batches"]):
            with self.subTest(case=number, manifest=case["manifest"], dataset=case["dataset"]):
                manifest = self.folder / f"{case['manifest']}.json"
                built = run(*batch_arguments(case, self.store, manifest), "--tensors")
                self.assertEqual(differences(built, case["expect"]), [])

    def test_a_dataset_of_another_store_is_refused(self) -> None:
        case = self.vectors["batches"][0]
        arguments = batch_arguments(case, self.store, self.folder / f"{case['manifest']}.json")
        refused = run(*(argument for argument in arguments if argument != "--any-hash"))
        self.assertEqual(refused["error"]["code_id"], "CARDINALITY_MISMATCH")

    def test_the_manifest_that_ingest_wrote_is_taken(self) -> None:
        manifest = self.folder / "shop.manifest.json"
        for dataset in json.loads(manifest.read_text("utf-8"))["datasets"]:
            with self.subTest(dataset=dataset):
                built = run("batch", "--store", self.store, "--manifest", manifest, "--dataset", dataset)
                self.assertEqual(built["dataset"], dataset)
                self.assertGreater(built["dims"]["B"], 0)

    def test_another_cardinality_is_refused_whatever_the_hash(self) -> None:
        document = json.loads(json.dumps(self.vectors["manifests"]["m0"]))
        document["datasets"]["shop/churn/train"]["cardinality"] += 1
        manifest = self.folder / "other.json"
        manifest.write_text(json.dumps(document))
        refused = run(*batch_arguments(self.vectors["batches"][0], self.store, manifest))
        self.assertEqual(refused["error"]["code_id"], "CARDINALITY_MISMATCH")

    def test_numpy_opens_the_npz(self) -> None:
        """With the interpreter that WEIR_NUMPY_PYTHON names, where there is one with numpy."""
        python = os.environ.get("WEIR_NUMPY_PYTHON", sys.executable)
        if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode:
            self.skipTest("no numpy")
        case = self.vectors["batches"][0]
        output = self.folder / "batch.npz"
        arguments = batch_arguments(case, self.store, self.folder / f"{case['manifest']}.json")
        subprocess.run([PROGRAM, *map(str, arguments), "--npz", output], check=True, capture_output=True)
        script = (
            "import json, sys, numpy; z = numpy.load(sys.argv[1]);"
            "print(json.dumps({n: {'shape': list(z[n].shape), 'data': z[n].tobytes().hex()} for n in z.files}))"
        )
        done = subprocess.run([python, "-c", script, output], check=True, capture_output=True)
        loaded = json.loads(done.stdout)
        for name, tensor in case["expect"]["tensors"].items():
            with self.subTest(tensor=name):
                self.assertEqual(loaded[name], {"shape": tensor["shape"], "data": tensor["data"]})


if __name__ == "__main__":
    unittest.main()
