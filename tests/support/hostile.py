"""What the tests of wrong and hostile database servers share: a server that is a script, and an ingest from it that has
little memory and must end."""
import json
import os
import resource
import socket
import subprocess
import tempfile
import threading
import unittest

from tests.support.processes import start
from tests.support.scan import WEIR

MEMORY = 1 << 30


def limit_memory():
    if "ASAN_OPTIONS" not in os.environ:  # the address sanitizer reserves more than there is
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


class FakeServer:
    """Listens on loopback, and `serve`s each client in a thread. with FakeServer() as server: server.port"""

    def __init__(self):
        self.asked = threading.Event()  # set when what a test waits for has come
        self.sockets = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in [self.listener, *self.sockets]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.sockets.append(client)
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        raise NotImplementedError

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

    def signalled(self, server, number, *options):
        with server, self.begin(server, *options) as process:
            self.assertTrue(server.asked.wait(60))
            process.send_signal(number)
            output, errors = process.communicate(timeout=100)
        self.assertEqual(errors, b"")
        self.assertEqual(os.listdir(self.folder), [])
        return process.returncode, json.loads(output)["error"]["code_id"]
