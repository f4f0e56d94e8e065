"""What the tests of wrong and hostile database servers share: a server that is a script, and an ingest from it that has
little memory and must end."""
import json
import os
import resource
import subprocess
import tempfile
import threading
import unittest

from tests.support.processes import start
from tests.support.scan import WEIR
from tests.support.servers import Listener

MEMORY = 1 << 30


def limit_memory():
    if "ASAN_OPTIONS" not in os.environ:  # the address sanitizer reserves more than there is
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


class FakeServer(Listener):
    """A server that is a script: with FakeServer() as server: server.port"""

    def __init__(self):
        self.asked = threading.Event()  # set when what a test waits for has come
        super().__init__()

    @staticmethod
    def say(client, answer):
        """Bytes, an iterable of bytes that may be without end, or None (silence)."""
        for each in [answer] if isinstance(answer, bytes) else answer or []:
            client.sendall(each)


class HostileCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def begin(self, server, *options):
        return start([WEIR, "ingest", server.url, "-o", os.path.join(self.folder, "s.weir"), "--threads", "1", "--json",
                      *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit_memory)

    def ingest_from(self, server, *options):
        with server, self.begin(server, *options) as process:
            output, errors = process.communicate(timeout=100)
        self.assertEqual(errors, b"")
        return process.returncode, json.loads(output)

    def assert_error(self, status, output, *words):
        """An ingest ended with an error that has these words and not the password, and left nothing."""
        self.assertEqual((status, output.get("error", {}).get("code_id")), (1, "SOURCE_ERROR"), output)
        for word in words:
            self.assertIn(word, output["error"]["message"])
        self.assertNotIn("s3cret", output["error"]["message"])
        self.assertEqual(os.listdir(self.folder), [])

    def signalled(self, server, number, *options):
        with server, self.begin(server, *options) as process:
            self.assertTrue(server.asked.wait(60))
            process.send_signal(number)
            output, errors = process.communicate(timeout=100)
        self.assertEqual(errors, b"")
        self.assertEqual(os.listdir(self.folder), [])
        return process.returncode, json.loads(output)["error"]["code_id"]
