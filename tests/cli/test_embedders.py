"""The embedders http and file, through `weir ingest`: against a server on loopback that answers, fails, stalls and lies,
and with files of vectors."""
import hashlib
import http.server
import json
import math
import os
import resource
import signal
import struct
import subprocess
import tempfile
import threading
import time
import unittest

from tests.support.cases import scratch_database
from tests.support.processes import start

WEIR = os.environ.get("WEIR", "")
HAS_HTTP = "HTTP" not in os.environ.get("WEIR_ABSENT", "")
DIM = 8
KEY = "sk-do-not-tell-0123456789"
TEXTS = [f"a text about number {i}, \u017c\u00f3\u0142\u0107 \"{i}\" \\" for i in range(150)] + [""]


def model(text):
    """A vector of 12 numbers that belongs to a text."""
    digest = hashlib.sha256(text.encode()).digest()
    return [(byte - 128) / 64 + 0.001 for byte in digest[:12]]


def normalised(text):
    """What the store must hold: cut, normalised, rounded once to f16."""
    if not text:
        return struct.pack(f"<{DIM}e", *([0.0] * DIM)).hex()
    vector = model(text)[:DIM]
    total = 0.0
    for number in vector:
        total += number * number
    return struct.pack(f"<{DIM}e", *(number / math.sqrt(total) for number in vector)).hex()


class Server:
    """Answers with `behave(handler, body, number of the request)`; counts requests and texts, and how many at once."""

    def __init__(self, behave=None):
        server = self
        self.requests = self.texts = self.running = self.at_once = 0
        self.headers = []
        self.asked = threading.Event()
        self.lock = threading.Lock()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with server.lock:
                    server.requests += 1
                    number = server.requests
                    server.texts += len(body["input"])
                    server.running += 1
                    server.at_once = max(server.at_once, server.running)
                    server.headers.append((self.path, self.headers.get("Authorization"), body["model"]))
                server.asked.set()
                try:
                    (behave or Server.answer)(self, body, number)
                finally:
                    with server.lock:
                        server.running -= 1

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    @staticmethod
    def send(handler, code, text, headers=()):
        data = text.encode()
        handler.send_response(code)
        for name, value in headers:
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    @staticmethod
    def answer(handler, body, _number=0):
        data = [{"object": "embedding", "index": i, "embedding": model(text)} for i, text in enumerate(body["input"])]
        Server.send(handler, 200, json.dumps({"object": "list", "data": list(reversed(data))}))


def ended(process):
    try:
        out, said = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, said)


@unittest.skipUnless(WEIR, "WEIR must name the program (ctest does)")
class Embedder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        database = scratch_database(self.path("t.sqlite"))
        database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", enumerate(TEXTS))
        database.commit()
        database.close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def begin(self, **embedding):
        schema = {"name": "t", "tables": {"t": {"primary_key": "id", "columns": {
            "id": {"stype": "identifier"}, "word": {"stype": "text"}}}}, "tasks": {},
            "embedding": {"dim": DIM, **embedding}}
        with open(self.path("schema.json"), "w", encoding="utf-8") as file:
            json.dump(schema, file)
        env = dict(os.environ, WEIR_EMBED_KEY=KEY)
        return start([WEIR, "ingest", "t.sqlite", "--schema", "schema.json"], cwd=self.folder, env=env,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def ingest(self, **embedding):
        with self.begin(**embedding) as process:
            return ended(process)

    def http(self, server, **embedding):
        return self.ingest(provider="http", url=server.url, model="m-1", **{"retry_ms": 1, "batch_size": 10, **embedding})

    def embeddings(self, *options):
        done = subprocess.run([WEIR, "embed", "t.weir", "--json", *options], cwd=self.folder, check=True,
                              stdout=subprocess.PIPE)
        return {item["text"]: item["f16"] for item in json.loads(done.stdout)}

    def assert_stored(self):
        self.assertEqual(self.embeddings("--texts", "1000"), {text: normalised(text) for text in TEXTS})
        self.assertEqual(self.embeddings("--columns"), {text: normalised(text) for text in ("id of t", "word of t")})

    def assert_done(self, done):
        self.assertEqual(done.returncode, 0, done.stderr.decode())

    def assert_fails(self, done, status, *words):
        message = done.stderr.decode()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"weir: {status}: ", message)
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn(KEY, message + done.stdout.decode())
        self.assertNotIn("t.weir", os.listdir(self.folder))


@unittest.skipIf(HAS_HTTP, "this build has HTTP")
class WithoutHttp(Embedder):
    def test_message_says_so(self):
        done = self.ingest(provider="http", url="http://127.0.0.1:1", model="m")
        self.assert_fails(done, "SOURCE_ERROR", "built without HTTP")


@unittest.skipUnless(HAS_HTTP, "this build has no HTTP")
class Http(Embedder):
    def test_vectors_are_cut_normalised_and_stored(self):
        with Server() as server:
            self.assert_done(self.http(server))
            self.assert_stored()
            self.assertEqual(server.texts, len(TEXTS) - 1 + 2)
            self.assertEqual(set(server.headers), {("/v1/embeddings", "Bearer " + KEY, "m-1")})

    def test_second_ingest_costs_nothing(self):
        with Server() as server:
            self.assert_done(self.http(server, cache="my.cache"))
            first = server.texts
            with open(self.path("t.weir"), "rb") as file:
                store = file.read()
            self.assert_done(self.http(server, cache="my.cache", batch_size=7, concurrency=1))
            self.assertEqual(server.texts, first)
            with open(self.path("t.weir"), "rb") as file:
                self.assertTrue(store == file.read())
            self.assert_done(self.http(server, cache="my.cache", dim=4))
            self.assertEqual(server.texts, 2 * first)
            self.assert_done(self.http(server, cache=None))
            self.assertEqual(server.texts, 3 * first)
            self.assertEqual([name for name in os.listdir(self.folder) if "cache" in name or "embeddings" in name],
                             ["my.cache"])

    def test_interrupted_ingest_goes_on(self):
        def give_out(handler, body, number):
            if number > 5:
                Server.send(handler, 400, "out of credit")
            else:
                Server.answer(handler, body)

        with Server(give_out) as server:
            self.assert_fails(self.http(server, concurrency=1), "SOURCE_ERROR", "400", "out of credit")
            self.assertEqual(server.requests, 6)
        with scratch_database(self.path("weir-embeddings.sqlite")) as cache:
            kept = cache.execute("SELECT count(*) FROM weir_vectors").fetchone()[0]
        self.assertEqual(kept, 2 + 40)

    def test_requests_run_at_once(self):
        gate = threading.Barrier(4)

        def wait_for_others(handler, body, number):
            if 2 <= number <= 5:
                gate.wait(30)
            Server.answer(handler, body)

        with Server(wait_for_others) as server:
            self.assert_done(self.http(server, concurrency=4))
            self.assertEqual(server.at_once, 4)
            self.assert_stored()

    def test_room_for_many_texts(self):
        """Room for all requests of many texts, 1 GiB here, is not written to before there are texts for it."""
        def behave(handler, body, _number):
            data = [{"index": i, "embedding": [1] * 1024} for i in range(len(body["input"]))]
            Server.send(handler, 200, json.dumps({"data": data}))

        with Server(behave) as server:
            self.assert_done(self.http(server, dim=1024, batch_size=2048, concurrency=64))
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 600_000, "kB")

    def test_failures_that_pass_are_tried_again(self):
        def stumble(handler, body, number):
            if number % 5 == 1:
                Server.send(handler, 503, "busy")
            elif number % 5 == 2:
                Server.send(handler, 429, "slow down", [("Retry-After", "0")])
            elif number % 5 == 3:
                handler.close_connection = True
            else:
                Server.answer(handler, body)

        with Server(stumble) as server:
            self.assert_done(self.http(server, retries=100))
            self.assert_stored()

    def test_retry_after_is_honoured(self):
        """The time between two tries is what the server asked for, by the server's own clock."""
        times = []

        def once(handler, body, number):
            times.append(time.monotonic())
            if number == 1:
                Server.send(handler, 429, "slow down", [("Retry-After", "1")])
            else:
                Server.answer(handler, body)

        with Server(once) as server:
            self.assert_done(self.http(server, concurrency=1))
            self.assertGreaterEqual(times[1] - times[0], 1.0)

    def test_failures_that_stay(self):
        cases = [
            (401, json.dumps({"error": {"message": f"Incorrect key: {KEY}."}}), ["401", "Incorrect key: ***."]),
            (400, json.dumps({"error": "too long"}), ["400", "too long"]),
            (404, "<html>\nnothing here", ["404", "<html> nothing here"]),
            (301, "", ["301"]),
            (200, "not json", ["cannot be used"]),
            (200, "{}", ["no array"]),
            (200, '{"data": []}', ["as many embeddings"]),
        ]
        for code, text, words in cases:
            with Server(lambda handler, _body, _number, c=code, t=text: Server.send(handler, c, t)) as server:
                self.assert_fails(self.http(server), "SOURCE_ERROR", server.url, *words)

    def test_a_message_full_of_keys(self):
        """It is cut somewhere, and what is left of a key there is not told."""
        for before in range(len(KEY)):
            with Server(lambda handler, _body, _number, n=before: Server.send(handler, 400, "x" * n + KEY * 100)) as server:
                done = self.http(server)
            self.assert_fails(done, "SOURCE_ERROR", "x" * before + "***")
            self.assertNotIn(KEY[:2], done.stderr.decode())

    def test_an_answer_without_end(self):
        """It is left at its limit, and not asked for again. A refusal stays one."""
        status = 200

        def go_on(handler, _body, _number):
            handler.send_response(status)
            handler.end_headers()
            handler.close_connection = True
            try:
                while True:
                    handler.wfile.write(bytes(1 << 20))
            except OSError:
                pass

        with Server(go_on) as server:
            self.assert_fails(self.http(server), "SOURCE_ERROR", "more than 256 MiB; make $.embedding.batch_size smaller")
            self.assertEqual(server.requests, 1)
        status = 401
        with Server(go_on) as server:
            self.assert_fails(self.http(server, concurrency=1), "SOURCE_ERROR", "answers 401 (tries: 1)")
            self.assertEqual(server.requests, 1)

    def test_a_refusal_without_a_word(self):
        with Server(lambda handler, _body, _number: Server.send(handler, 400, "")) as server:
            self.assert_fails(self.http(server), "SOURCE_ERROR", "answers 400 (tries: 1)\n")

    def test_retries_end(self):
        with Server(lambda handler, _body, _number: Server.send(handler, 500, "broken " + KEY)) as server:
            self.assert_fails(self.http(server, retries=3, concurrency=1), "SOURCE_ERROR", "500", "tries: 4", "broken ***")
            self.assertEqual(server.requests, 4)

    def test_slow_server_times_out(self):
        release = threading.Event()
        with Server(lambda _handler, _body, _number: release.wait(60)) as server:
            self.assert_fails(self.http(server, retries=1, timeout_s=1, concurrency=1), "SOURCE_ERROR", "tries: 2")
            release.set()

    def test_signals_end_a_wait_for_the_server(self):
        """Also if it asks to be left alone for an hour, or says nothing."""
        release = threading.Event()
        self.addCleanup(release.set)

        def be_full(handler, _body, _number):
            Server.send(handler, 503, "busy", [("Retry-After", "3600")])

        for behave in be_full, lambda _handler, _body, _number: release.wait(240):
            for number in signal.SIGINT, signal.SIGTERM:
                with self.subTest(behave=behave, number=number), Server(behave) as server:
                    settings = {"provider": "http", "url": server.url, "model": "m", "timeout_s": 3600}
                    with self.begin(**settings) as process:
                        self.assertTrue(server.asked.wait(60))
                        process.send_signal(number)
                        done = ended(process)
                    self.assertEqual(done.returncode, 128 + number)
                    self.assert_fails(done, "CANCELLED", "the ingest was cancelled; nothing was written")

    def test_no_server(self):
        with Server() as server:
            url = server.url
        done = self.ingest(provider="http", url=url, model="m", retries=1, retry_ms=1)
        self.assert_fails(done, "SOURCE_ERROR", "cannot be reached")

    def test_answers_that_lie(self):
        def with_vectors(change):
            def behave(handler, body, _number):
                data = [{"index": i, "embedding": model(text)} for i, text in enumerate(body["input"])]
                change(data)
                Server.send(handler, 200, json.dumps({"data": data}))
            return behave

        def repeat(data):
            data[1]["index"] = 0

        cases = [
            (lambda data: data[0].update(embedding=[1.0] * (DIM - 1)), "fewer numbers"),
            (lambda data: data[0].update(embedding=[1.0] * DIM + ["x"]), None),
            (lambda data: data[0].update(embedding=[1.0] * (DIM - 1) + ["x"]), "no finite number"),
            (lambda data: data[0].update(embedding=[float("nan")] * DIM), "cannot be used"),
            (lambda data: data[0].update(embedding=[1e300] * DIM), "too large"),
            (lambda data: data[0].update(embedding="AAAA"), "not an array"),
            (lambda data: data[0].pop("embedding"), "no embedding"),
            (repeat, "an index repeats"),
            (lambda data: data[0].update(index=99), "an index repeats"),
            (lambda data: data[0].update(index=-1), "no whole number"),
            (lambda data: data.pop(), "as many embeddings"),
        ]
        for change, word in cases:
            with Server(with_vectors(change)) as server:
                done = self.http(server, cache=None)
            if word:
                self.assert_fails(done, "SOURCE_ERROR", word)
            else:
                self.assert_done(done)
                os.remove(self.path("t.weir"))

    def test_long_texts_are_cut_between_characters(self):
        seen = []

        def listen(handler, body, _number):
            seen.extend(body["input"])
            Server.answer(handler, body)

        with Server(listen) as server:
            self.assert_done(self.http(server, text_bytes=len("a text about number 7, \u017c\u00f3".encode()) - 1))
        self.assertIn("a text about number 7, \u017c", seen)

    def test_settings(self):
        url = "http://127.0.0.1:1"
        for settings, words in [
                ({}, ["$.embedding.url is missing"]),
                ({"url": url}, ["$.embedding.model is missing"]),
                ({"url": "ftp://x", "model": "m"}, ["$.embedding.url", "http://"]),
                ({"url": "http://u:" + KEY + "@x", "model": "m"}, ["$.embedding.url", "WEIR_EMBED_KEY"]),
                ({"url": url, "model": "m", "speed": 1}, ["$.embedding.speed"]),
                ({"url": url, "model": 7}, ["$.embedding.model"]),
                ({"url": url, "model": "m", "batch_size": 0}, ["$.embedding.batch_size", "1 to 2048"]),
                ({"url": url, "model": "m", "concurrency": "many"}, ["$.embedding.concurrency"])]:
            self.assert_fails(self.ingest(provider="http", **settings), "SCHEMA_INVALID", *words)

    def test_caches_that_are_none(self):
        with open(self.path("noise"), "wb") as file:
            file.write(b"not a database at all" * 100)
        other = scratch_database(self.path("other.sqlite"))
        other.execute("CREATE TABLE precious (x)")
        other.commit()
        other.close()
        with Server() as server:
            self.assert_fails(self.http(server, cache="noise"), "SOURCE_ERROR", "noise", "$.embedding.cache")
            self.assert_fails(self.http(server, cache="other.sqlite"), "SOURCE_ERROR", "other.sqlite", "not an embedding cache")
            self.assert_fails(self.http(server, cache="no/such/folder"), "SOURCE_ERROR", "no/such/folder")


class File(Embedder):
    def write_vectors(self, *lines):
        with open(self.path("vectors.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))

    @staticmethod
    def line(text, vector):
        return json.dumps({"text": text, "embedding": vector})

    def from_file(self):
        return self.ingest(provider="file", path="vectors.jsonl")

    def test_file(self):
        texts = TEXTS + ["id of t", "word of t"]
        self.write_vectors(*(self.line(text, model(text)[:DIM]) for text in texts), "", "  ",
                           self.line("not asked for", [0] * DIM))
        self.assert_done(self.from_file())
        self.assertEqual(self.embeddings("--texts", "1000"),
                         {text: struct.pack(f"<{DIM}e", *model(text)[:DIM]).hex() for text in TEXTS})

    def test_file_without_a_text(self):
        texts = [text for text in TEXTS if text != TEXTS[77]] + ["id of t", "word of t"]
        self.write_vectors(*(self.line(text, model(text)[:DIM]) for text in texts))
        self.assert_fails(self.from_file(), "SOURCE_ERROR", "vectors.jsonl", "a text about number 77")
        self.write_vectors()
        self.assert_fails(self.from_file(), "SOURCE_ERROR", "no vector for the text")

    def test_files_that_cannot_be_used(self):
        good = self.line("a", [1] * DIM)
        for lines, words in [
                ([good, "{"], [":2:"]),
                ([good, "[]"], [":2:", "must be"]),
                ([good, self.line("b", [1] * (DIM + 1))], [":2:", "$.embedding.dim"]),
                ([good, self.line("b", [1] * (DIM - 1) + ["x"])], [":2:", "no finite number"]),
                ([good, '{"text": "b", "embedding": [1e999]}'], [":2:"]),
                ([good, self.line("b", [2] * DIM), "", self.line("a", [1] * DIM)], [":4:", "line 1"])]:
            self.write_vectors(*lines)
            self.assert_fails(self.from_file(), "SOURCE_ERROR", "vectors.jsonl", *words)
        os.remove(self.path("vectors.jsonl"))
        self.assert_fails(self.from_file(), "IO_ERROR", "vectors.jsonl")
        self.assert_fails(self.ingest(provider="file"), "SCHEMA_INVALID", "$.embedding.path")


if __name__ == "__main__":
    unittest.main()
