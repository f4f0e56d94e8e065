"""The reference's batches against the golden vectors: shop_small.batches, rcm; XXH3 against libxxhash.

Reads the vector files from the folder that WEIR_VECTORS names, or from tests/golden/vectors.
"""

import ctypes
import ctypes.util
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import row_order  # noqa: E402
from reference.batch import BatchBuilder  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.sampler import Cursor  # noqa: E402
from reference.store import Store  # noqa: E402
from reference.xxh3 import xxh3_64, xxh3_128  # noqa: E402

VECTORS = Path(os.environ.get("WEIR_VECTORS", PROJECT_ROOT / "tests" / "golden" / "vectors"))


def vectors(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


class Xxh3(unittest.TestCase):
    def test_published_hashes(self) -> None:
        """Of nothing, as xxHash's own sanity checks have them."""
        self.assertEqual(xxh3_64(b""), 0x2D06800538D394C2)
        self.assertEqual(xxh3_128(b""), 0x99AA06D3014798D86001C324468D497F)

    def test_against_libxxhash(self) -> None:
        name = ctypes.util.find_library("xxhash")
        if name is None:
            self.skipTest("libxxhash is not there")
        library = ctypes.CDLL(name)

        class Hash128(ctypes.Structure):
            _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

        library.XXH3_64bits.restype = ctypes.c_uint64
        library.XXH3_128bits.restype = Hash128
        for function in (library.XXH3_64bits, library.XXH3_128bits):
            function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        rng = random.Random(3)
        for length in [*range(300), 511, 512, 1023, 1024, 1025, 1088, 2048, 2049, 10_000]:
            data = rng.randbytes(length)
            with self.subTest(length=length):
                self.assertEqual(xxh3_64(data), library.XXH3_64bits(data, length))
                wide = library.XXH3_128bits(data, length)
                self.assertEqual(xxh3_128(data), wide.high << 64 | wide.low)


class RowOrders(unittest.TestCase):
    def test_cases(self) -> None:
        for number, case in enumerate(vectors("rcm")["cases"]):
            with self.subTest(case=number):
                foreign_keys = [(child, parent) for child, parent in case["fk"]]
                self.assertEqual(row_order.out_order(case["rows"], foreign_keys), case["out"])
                self.assertEqual(row_order.in_order(case["rows"], foreign_keys), case["in"])


class ShopSmall(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.vectors = vectors("shop_small.batches")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shop_small.sqlite"
            connection = sqlite3.connect(path)
            connection.executescript((VECTORS / cls.vectors["sql"]).read_text("utf-8"))
            connection.close()
            cls.store = Store.ingest(path, (VECTORS / cls.vectors["schema"]).read_bytes())

    def manifest(self, name: str) -> Manifest:
        return Manifest.read(json.dumps(self.vectors["manifests"][name]))

    def build(self, case: dict[str, Any]) -> dict[str, Any]:
        token = bytes.fromhex(case["token"]) if "token" in case else None
        cursor = Cursor(case["epoch"], case["position"])
        try:
            builder = BatchBuilder(self.store, self.manifest(case["manifest"]), token)
            batch = builder.build(
                case["dataset"], case["stage"], cursor, case["world_size"], case["rank"], case.get("pad", False)
            )
        except WeirError as refused:
            return {"error": {"code_id": refused.code_id}}
        return batch.as_json_value(with_tensors="tensors" in case["expect"])

    def test_hashes(self) -> None:
        for name, expected in self.vectors["hashes"].items():
            with self.subTest(manifest=name):
                manifest = self.manifest(name)
                self.assertEqual({key: getattr(manifest, key).hex() for key in expected}, expected)

    def test_batches(self) -> None:
        for number, case in enumerate(self.vectors["batches"]):
            with self.subTest(case=number, manifest=case["manifest"], dataset=case["dataset"]):
                built, expected = self.build(case), case["expect"]
                self.assertEqual(built.keys(), expected.keys())
                for key in expected:
                    self.assertEqual(built[key], expected[key], key)


class ContextOptions(unittest.TestCase):
    def test_the_golden_file_is_what_it_makes(self) -> None:
        golden = PROJECT_ROOT / "tests/golden"
        done = subprocess.run([sys.executable, golden / "make_context_options.py"], capture_output=True, check=True)
        self.assertEqual(json.loads(done.stdout), json.loads((golden / "context_options.json").read_text("utf-8")))


if __name__ == "__main__":
    unittest.main()
