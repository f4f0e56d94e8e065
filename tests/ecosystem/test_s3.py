"""weir push and pull against moto's S3 server, and what boto3 finds there.

Environments: s3
"""

import json
import logging
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import require

require("boto3", "moto")

import boto3  # noqa: E402
import weir  # noqa: E402
from moto.server import ThreadedMotoServer  # noqa: E402
from reference import chunks  # noqa: E402

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_REGION": "us-east-1"}


class S3(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        cls.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        cls.server.start()
        cls.addClassCleanup(cls.server.stop)
        host, port = cls.server.get_host_and_port()
        endpoint = f"http://{host}:{port}"
        os.environ.update(CREDENTIALS, AWS_ENDPOINT_URL=endpoint)
        cls.client = boto3.client("s3", endpoint_url=endpoint)
        cls.client.create_bucket(Bucket="stores")
        subprocess.run([os.environ["WEIR"], "demo", "--scale", "20000", "--dir", cls.folder, "--no-run"], check=True, capture_output=True)
        cls.store = cls.folder / "shop.weir"

    def test_there_and_back(self) -> None:
        sent = weir.push(self.store, "s3://stores/a b/shop.weir", chunk_size=1 << 16)
        self.assertEqual(sent.moved_chunks, sent.chunks)
        got = weir.pull("s3://stores/a b/shop.weir", self.folder / "got.weir", hash=sent.store_hash)
        self.assertEqual((self.folder / "got.weir").read_bytes(), self.store.read_bytes())
        self.assertEqual(got.moved_bytes, sent.bytes)
        self.assertEqual(weir.push(self.store, "s3://stores/a b/again.weir", chunk_size=1 << 16).moved_chunks, 0)

    def test_boto3_and_the_reference_read_it(self) -> None:
        weir.push(self.store, "s3://stores/plain/shop.weir")

        def get(key: str) -> bytes:
            data: bytes = self.client.get_object(Bucket="stores", Key=f"plain/{key}")["Body"].read()
            return data

        index = chunks.read_index(get("shop.weir").decode())
        self.assertEqual(index.size, self.store.stat().st_size)
        self.assertEqual({name for name, _ in index.chunks} - {
            entry["Key"].split("/")[-1] for entry in self.client.list_objects_v2(Bucket="stores", Prefix="plain/chunks/")["Contents"]}, set())  # fmt: skip

    def test_what_s3_refuses(self) -> None:
        done = subprocess.run([os.environ["WEIR"], "push", self.store, "s3://no-such-bucket/a.weir", "--json"], capture_output=True, text=True)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["code_id"], "IO_ERROR")
        self.assertIn("NoSuchBucket", error["message"])
        self.assertNotIn("testing", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
