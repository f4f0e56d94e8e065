"""weir.push and weir.pull: there and back, progress, an end in the middle."""

import os
import unittest
from pathlib import Path

import weir
from tests.python.support import ShopTest
from tests.support.object_server import Server


@unittest.skipIf("HTTP" in os.environ.get("WEIR_ABSENT", ""), "this weir was built without HTTP")
class Remote(ShopTest):
    def setUp(self) -> None:
        self.server = Server()
        self.addCleanup(self.server.close)
        self.url = self.server.url + "/data/shop.weir"

    def test_there_and_back(self) -> None:
        seen: list[weir.Progress] = []
        sent = weir.push(weir.Store(self.store), self.url, chunk_size=1 << 14, progress=seen.append)
        self.assertEqual({progress.phase for progress in seen}, {"verify", "cut", "ask", "send"})
        got = weir.pull(self.url, "got.weir", hash=sent.store_hash)
        self.assertEqual(Path("got.weir").read_bytes(), Path(self.store).read_bytes())
        self.assertEqual((got.chunks, got.moved_bytes, got.store_hash), (sent.chunks, sent.bytes, weir.Store(self.store).hash))
        self.assertEqual(weir.push(self.store, self.url, chunk_size=1 << 14).moved_chunks, 0)

    def test_progress_can_end_it(self) -> None:
        weir.push(self.store, self.url, chunk_size=1 << 14)

        def stop(progress: weir.Progress) -> bool:
            return progress.phase != "receive"

        def fail(progress: weir.Progress) -> None:
            raise KeyError("mine")

        with self.assertRaises(weir.errors.Cancelled):
            weir.pull(self.url, "never.weir", progress=stop)
        with self.assertRaisesRegex(KeyError, "mine"):
            weir.pull(self.url, "never.weir", progress=fail)
        self.assertFalse(Path("never.weir").exists())
        weir.pull(self.url, "never.weir")

    def test_arguments(self) -> None:
        for size in (0, -4, 5000, 1 << 30):
            with self.assertRaisesRegex(ValueError, "power of two"):
                weir.push(self.store, self.url, chunk_size=size)
        for digest in ("zz", "00"):
            with self.assertRaisesRegex(ValueError, "64 hex digits"):
                weir.pull(self.url, hash=digest)
        with self.assertRaisesRegex(OSError, "is not there"):
            weir.pull(self.url, "never.weir")
        with self.assertRaises(weir.errors.ContractViolation):
            weir.pull("ftp://host/a.weir", "never.weir")


if __name__ == "__main__":
    unittest.main()
