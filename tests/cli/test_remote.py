"""weir push and weir pull: against a server on loopback that has ranges or not, checks signatures, cuts connections, sends
wrong bytes, is full or slow; and against the reference."""
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from reference import chunks
from tests.support.cases import scratch_database
from tests.support.demo import small_demo
from tests.support.object_server import Server
from tests.support.processes import environment, start

WEIR = os.environ.get("WEIR", "")
HAS_HTTP = "HTTP" not in os.environ.get("WEIR_ABSENT", "")
ACCESS, SECRET, TOKEN = "AKIDONOTTELL", "se/cret+do-not-tell", "to/ken=do-not-tell"
FAST, SOON = ["--chunk-size", "16KiB"], ["--retry-ms", "1"]
S3 = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "eu-test-1"}


def setUpModule():
    global STORE, SHOP
    SHOP = small_demo()
    STORE = SHOP / "shop.weir"


def hash_of(path):
    done = subprocess.run([WEIR, "verify", path, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["store_hash"]


@unittest.skipUnless(HAS_HTTP, "this weir was built without HTTP")
class RemoteTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.out = self.folder / "got.weir"

    def serve(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(server.close)
        self.url = server.url + "/data/shop.weir"
        return server

    def run_weir(self, *arguments, **variables):
        clean = {name: value for name, value in environment().items() if not name.startswith("AWS_")}
        return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder, timeout=120,
                              env={**clean, **variables})

    def do(self, *arguments, **variables):
        done = self.run_weir(*arguments, "--json", **variables)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def push(self, *more, store=None, **variables):
        return self.do("push", store or STORE, self.url, *FAST, *SOON, *more, **variables)

    def pull(self, *more, **variables):
        return self.do("pull", self.url, "-o", self.out, *SOON, *more, **variables)

    def refuse(self, code, message, *arguments, **variables):
        done = self.run_weir(*arguments, *SOON, "--json", **variables)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["code_id"], code, error)
        self.assertIn(message, error["message"])
        for secret in (SECRET, TOKEN, ACCESS):
            self.assertNotIn(secret, done.stdout + done.stderr)

    def assert_pulled(self):
        self.assertEqual(self.out.read_bytes(), STORE.read_bytes())
        self.assertEqual(os.listdir(self.folder), ["got.weir"])


class Whole(RemoteTest):
    def test_what_lies_there_is_what_the_reference_says(self):
        server = self.serve()
        report = self.push()
        index = chunks.read_index(server.objects["/data/shop.weir"].decode())
        data = STORE.read_bytes()
        self.assertEqual(index.chunks, chunks.index_of(data, 14))
        self.assertEqual((index.store_hash, index.size, index.bits), (hash_of(STORE), len(data), 14))
        self.assertEqual((report["chunks"], report["bytes"]), (len(index.chunks), len(data)))
        self.assertGreater(report["chunks"], 10)
        self.assertEqual(chunks.assemble(index, lambda name: server.objects[f"/data/chunks/{name}"]), data)

    def test_there_and_back(self):
        self.serve()
        self.push()
        report = self.pull("--hash", hash_of(STORE))
        self.assert_pulled()
        self.assertEqual((report["moved_bytes"], report["store_hash"]), (STORE.stat().st_size, hash_of(STORE)))

    def test_a_store_of_format_2(self):
        self.serve()
        two = self.folder.with_suffix(".two")
        self.addCleanup(two.unlink)
        self.do("ingest", SHOP / "shop.sqlite", "--schema", SHOP / "shop.schema.json", "-o", two, "--manifest",
                self.folder / "m.json", "--format", 2)
        self.push(store=two)
        self.assertEqual(self.pull()["store_hash"], hash_of(two))
        self.assertEqual(self.out.read_bytes(), two.read_bytes())

    def test_a_folder_gets_the_name_of_the_file(self):
        server = self.serve()
        self.do("push", STORE, server.url + "/data/")
        self.do("pull", self.url)  # and its name is the output's
        self.assertEqual((self.folder / "shop.weir").read_bytes(), STORE.read_bytes())

    def test_what_is_there_does_not_travel(self):
        server = self.serve()
        self.push()
        self.assertEqual(self.push()["moved_chunks"], 0)
        del server.objects["/data/shop.weir"]  # the index is lost, the chunks are not
        self.assertEqual(self.push()["moved_chunks"], 0)
        self.pull()
        self.assertEqual(self.pull()["moved_chunks"], 0)
        self.assert_pulled()

    def test_only_what_changed_travels(self):
        self.serve()
        first = self.push()
        self.pull()
        shutil.copy(SHOP / "shop.sqlite", self.folder / "shop.sqlite")
        connection = scratch_database(self.folder / "shop.sqlite")
        connection.execute("UPDATE products SET price = 12.5 WHERE product_id = 5")
        connection.commit()
        connection.close()
        new = self.folder / "new.weir"
        subprocess.run([WEIR, "ingest", self.folder / "shop.sqlite", "--schema", SHOP / "shop.schema.json", "-o", new],
                       check=True, capture_output=True)
        sent = self.push(store=new)
        received = self.pull()
        self.assertNotEqual(sent["store_hash"], first["store_hash"])
        self.assertEqual(self.out.read_bytes(), new.read_bytes())
        self.assertEqual(received["moved_chunks"], sent["moved_chunks"])
        self.assertLess(sent["moved_chunks"], sent["chunks"] / 2)

    def test_a_chunk_of_another_size_is_sent_again(self):
        server = self.serve()
        self.push()
        name = next(name for name in server.objects if "chunks" in name)
        server.objects[name] = b"half"
        del server.objects["/data/shop.weir"]
        self.assertEqual(self.push()["moved_chunks"], 1)


class Faults(RemoteTest):
    def test_servers_that_fail_now_and_then(self):
        for seed in range(4):
            with self.subTest(seed=seed):
                rng = random.Random(seed)
                kinds = ["cut", "wrong", "slow", 503, 429, 500]

                def behave(method, path, number):
                    return rng.choice(kinds) if rng.random() < 0.3 else None

                server = self.serve(behave, has_ranges=seed % 2 == 0)
                self.push("--retries", "40", "--timeout", "5")
                self.pull("--retries", "40", "--timeout", "5", "--concurrency", str(1 + 5 * seed))
                self.assert_pulled()
                self.assertGreater(len(server.faults), 5)
                self.out.unlink()

    def test_what_was_cut_is_continued(self):
        seen = set()

        def cut_once(method, path, number):
            if method != "GET" or "chunks" not in path or path in seen:
                return None
            seen.add(path)
            return "cut"

        server = self.serve(cut_once)
        self.push()
        self.pull()
        self.assert_pulled()
        self.assertEqual(len(server.ranges), len(seen))
        self.assertTrue(all(first > 0 for first in server.ranges))

    def test_a_server_without_ranges_begins_anew(self):
        seen = set()

        def cut_once(method, path, number):
            is_new = method == "GET" and "chunks" in path and path not in seen
            seen.add(path)
            return "cut" if is_new else None

        server = self.serve(has_ranges=False)
        self.push()
        server.behave = cut_once
        self.pull("--retries", "1")
        self.assert_pulled()

    def test_wrong_bytes_never_arrive_and_the_rest_does(self):
        wrong = []

        def behave(method, path, number):
            if method == "GET" and "chunks" in path and not wrong:
                wrong.append(path)
            return "wrong" if method == "GET" and path in wrong else None

        server = self.serve(behave)
        self.push()
        self.refuse("IO_ERROR", "has other bytes than its name says (tries: 3)", "pull", self.url, "-o", self.out, "--retries", "2",
                    "--concurrency", "1")
        self.assertEqual(os.listdir(self.folder), ["got.weir.part"])
        server.behave = lambda *_: None
        self.pull()
        self.assert_pulled()

    def test_a_damaged_store_is_mended(self):
        self.serve()
        self.push()
        data = bytearray(STORE.read_bytes())
        data[len(data) // 2] ^= 1
        self.out.write_bytes(data)
        self.assertEqual(self.pull()["moved_chunks"], 1)
        self.assert_pulled()

    def test_a_pull_that_was_killed_resumes(self):
        server = self.serve()
        self.push()
        total = server.count("PUT", "chunks")
        half = total // 2
        gets = []

        def stall(method, path, number):
            if method == "GET" and "chunks" in path:
                gets.append(path)
                return "stall" if len(gets) > half else None
            return None

        server.behave = stall
        process = start([WEIR, "pull", self.url, "-o", str(self.out), "--concurrency", "1"], stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
        self.assertTrue(server.stalled.wait(60))
        process.kill()
        process.wait()
        self.assertEqual(os.listdir(self.folder), ["got.weir.part"])
        server.behave = lambda *_: None
        report = self.pull()
        self.assertEqual(report["moved_chunks"], report["chunks"] - half)
        self.assert_pulled()

    def test_a_push_that_was_killed_resumes(self):
        puts = []

        def stall(method, path, number):
            if method == "PUT":
                puts.append(path)
                return "stall" if len(puts) > 5 else None
            return None

        server = self.serve(stall)
        process = start([WEIR, "push", str(STORE), self.url, *FAST, "--concurrency", "1"], stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
        self.assertTrue(server.stalled.wait(60))
        process.kill()
        process.wait()
        self.assertNotIn("/data/shop.weir", server.objects)
        server.behave = lambda *_: None
        report = self.push()
        self.assertEqual(report["moved_chunks"], report["chunks"] - 5)

    def test_two_pulls_at_once(self):
        server = self.serve()
        self.push()
        server.behave = lambda method, path, number: "stall" if "chunks" in path else None
        process = start([WEIR, "pull", self.url, "-o", str(self.out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertTrue(server.stalled.wait(60))
        self.refuse("IO_ERROR", "another process is pulling", "pull", self.url, "-o", self.out)
        process.kill()
        process.wait()

    def test_a_pull_that_ends_while_another_begins(self):
        """What the other one has given its name is not written again."""
        if not os.environ.get("WEIR_CRASH_LIBRARY"):
            self.skipTest("sanitizers have a library of their own in place of the one that stands in for the other pull")
        self.serve()
        self.push()
        part, kept, other = self.folder / "got.weir.part", self.folder / "kept", b"other" * 1000
        part.write_bytes(other)
        os.link(part, kept)
        self.pull(LD_PRELOAD=os.environ["WEIR_CRASH_LIBRARY"], WEIR_PUBLISH_PART="1")
        self.assertEqual(kept.read_bytes(), other)
        kept.unlink()
        self.assert_pulled()

    def test_a_server_that_stays_broken(self):
        self.serve(lambda *_: 503)
        self.refuse("IO_ERROR", "answers 503 (tries: 3): SlowDown: Please reduce", "push", STORE, self.url, "--retries", "2")
        self.refuse("IO_ERROR", "answers 503 (tries: 1)", "pull", self.url, "--retries", "0")
        self.refuse("IO_ERROR", "cannot be reached (tries: 2)", "pull", "http://127.0.0.1:1/a/b.weir", "--retries", "1")

    def test_a_server_that_says_nothing(self):
        self.serve(lambda *_: "stall")
        self.refuse("IO_ERROR", "cannot be reached (tries: 1)", "pull", self.url, "--retries", "0", "--timeout", "1")


class Signed(RemoteTest):
    def test_every_request_is_signed(self):
        server = self.serve(secrets={ACCESS: SECRET}, token=TOKEN)
        self.url = "s3://bucket/some folder/größe+1.weir"
        variables = {**S3, "AWS_SESSION_TOKEN": TOKEN, "AWS_ENDPOINT_URL": server.url + "/"}
        self.push(**variables)
        self.assertIn("/bucket/some%20folder/gr%C3%B6%C3%9Fe%2B1.weir", server.objects)
        self.assertEqual({method for method, _ in server.requests}, {"GET", "HEAD", "PUT"})
        self.pull(**variables)
        self.assert_pulled()

    def test_wrong_keys_are_refused_and_not_told(self):
        server = self.serve(secrets={ACCESS: "other"})
        variables = {**S3, "AWS_ENDPOINT_URL_S3": server.url}
        self.refuse("IO_ERROR", "answers 403 (tries: 1): SignatureDoesNotMatch", "pull", "s3://bucket/a.weir", "-o", self.out, **variables)
        self.refuse("IO_ERROR", "answers 403", "push", STORE, "s3://bucket/a.weir", **variables)

    def test_what_is_left_of_a_secret_in_a_long_message_is_not_told(self):
        """The message is cut; a secret that stands where it is cut does not lose its end only."""
        for secret in (TOKEN, SECRET):
            server = self.serve(lambda *_, said=secret: b"x" * 190 + b" " + said.encode() * 100)
            variables = {**S3, "AWS_SESSION_TOKEN": TOKEN, "AWS_ENDPOINT_URL": server.url}
            done = self.run_weir("pull", "s3://bucket/a.weir", "-o", self.out, *SOON, **variables)
            self.assertIn("answers 400 (tries: 1): No: " + "x" * 190 + " ***", done.stderr)
            self.assertNotIn(secret[:6], done.stderr)

    def test_without_keys_nothing_is_signed(self):
        server = self.serve()
        self.url = "s3://bucket/shop.weir"
        self.push(AWS_ENDPOINT_URL=server.url)
        self.pull(AWS_ENDPOINT_URL=server.url)
        self.assert_pulled()

    def test_variables_that_cannot_be(self):
        self.refuse("CONTRACT_VIOLATION", "only one is set", "pull", "s3://bucket/a.weir", AWS_ACCESS_KEY_ID=ACCESS)
        self.refuse("CONTRACT_VIOLATION", "AWS_SECRET_ACCESS_KEY has a character", "pull", "s3://bucket/a.weir",
                    **{**S3, "AWS_SECRET_ACCESS_KEY": "a\nb"})
        self.refuse("CONTRACT_VIOLATION", "AWS_ENDPOINT_URL must begin", "pull", "s3://bucket/a.weir", AWS_ENDPOINT_URL="ftp://a")


class Refused(RemoteTest):
    def test_indices_that_are_none(self):
        server = self.serve()
        self.push()
        good = json.loads(server.objects["/data/shop.weir"])
        changes = [("format", "weir-chunks/2"), ("store_hash", "12"), ("store_hash", good["store_hash"].upper()), ("size", good["size"] + 1),
                   ("size", -1), ("bits", 99), ("chunks", 3), ("chunks", [["00", 1]]), ("chunks", [[good["store_hash"], 0]]),
                   ("chunks", [[good["store_hash"], 2**28 + 1]]), ("more", 1)]
        for key, value in changes:
            with self.subTest(key=key, value=value):
                server.objects["/data/shop.weir"] = json.dumps({**good, key: value}).encode()
                self.refuse("STORE_CORRUPT", f"is not an index that weir push wrote: $.{key}", "pull", self.url, "-o", self.out)
        for text in (b"", b"{", b"[]", b"<html>", b"\xff"):
            server.objects["/data/shop.weir"] = text
            self.refuse("STORE_CORRUPT", "shop.weir", "pull", self.url, "-o", self.out)
        self.assertEqual(self.push()["moved_chunks"], 0)  # and a push mends it
        self.pull()

    def test_an_index_that_lies(self):
        server = self.serve()
        self.push()
        index = json.loads(server.objects["/data/shop.weir"])
        server.objects["/data/shop.weir"] = json.dumps({**index, "store_hash": "0" * 64}).encode()
        self.refuse("STORE_CORRUPT", "does not have the store that its index says", "pull", self.url, "-o", self.out)
        index["chunks"][1], index["chunks"][2] = index["chunks"][2], index["chunks"][1]
        server.objects["/data/shop.weir"] = json.dumps(index).encode()
        self.refuse("STORE_CORRUPT", "", "pull", self.url, "-o", self.out)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_is_not_there(self):
        server = self.serve()
        self.refuse("IO_ERROR", "is not there (404)", "pull", self.url)
        self.push()
        del server.objects[next(name for name in server.objects if "chunks" in name)]
        self.refuse("IO_ERROR", "answers 404 (tries: 1): NoSuchKey", "pull", self.url, "-o", self.out)

    def test_a_store_itself(self):
        server = self.serve()
        server.objects["/data/shop.weir"] = STORE.read_bytes()
        self.refuse("CONTRACT_VIOLATION", "is a store itself", "pull", self.url, "-o", self.out)

    def test_another_store_than_expected(self):
        self.serve()
        self.push()
        self.refuse("CONTRACT_VIOLATION", "not the one that is expected", "pull", self.url, "-o", self.out, "--hash", "0" * 64)
        self.assertFalse(self.out.exists())

    def test_a_file_that_is_not_a_store(self):
        self.serve()
        self.push()
        self.out.write_text("mine")
        self.refuse("CONTRACT_VIOLATION", "is there already and is not a store", "pull", self.url, "-o", self.out)
        self.assertEqual(self.out.read_text(), "mine")
        self.refuse("STORE_CORRUPT", "got.weir", "push", self.out, self.url)

    def test_a_link_stays_and_what_it_leads_to_is_replaced(self):
        self.serve()
        self.push()
        elsewhere = self.folder / "elsewhere"
        elsewhere.mkdir()
        shutil.copy(STORE, elsewhere / "real.weir")
        with open(elsewhere / "real.weir", "r+b") as file:
            file.truncate(STORE.stat().st_size // 2)
        self.out.symlink_to("elsewhere/real.weir")
        self.pull()
        self.assertEqual(os.readlink(self.out), "elsewhere/real.weir")
        self.assertEqual((elsewhere / "real.weir").read_bytes(), STORE.read_bytes())
        self.assertEqual((sorted(os.listdir(self.folder)), os.listdir(elsewhere)), (["elsewhere", "got.weir"], ["real.weir"]))

    def test_urls(self):
        for url, message in [("ftp://a/b", "s3://bucket/name"), ("https://user:secret@host/a", "no user or password"),
                             ("https://host", "must have a host, a path"), ("https://host/a?b=c", "no query"), ("s3://b/a", "'b' cannot be the name of a bucket"),
                             ("s3://bucket/folder/", "that of a folder"), ("s3://UPPER/a", "'UPPER' cannot be"), ("s3://bucket", "has a bucket and a name"),
                             ("s3:///a", "has a bucket and a name"), ("s3://" + "a" * 64 + "/b", "must be 3 to 63"),
                             ("http://h/" + "a" * 3000, "too long")]:
            with self.subTest(url=url[:40]):
                self.refuse("CONTRACT_VIOLATION", message, "pull", url, "-o", self.out)

    def test_a_store_that_is_not_there_is_told_before_the_url(self):
        self.refuse("IO_ERROR", "got.weir", "push", self.out, "ftp://a/b")

    def test_usage(self):
        sizes = [["push", STORE, "s3://b/a", "--chunk-size", size] for size in ("0", "1", "2KiB", "5000", "128MiB")]
        for arguments in (["push", STORE], ["pull"], *sizes, ["pull", "s3://b/a", "--hash", "zz"]):
            self.assertEqual(self.run_weir(*arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
