"""What the tests against real database servers share: a server's life, sockets that are served by threads, and checks of
what the program says of a source."""
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from tests.support.processes import start
from tests.support.scan import WEIR, scan


def unprivileged_user():
    """Keyword arguments for subprocess that leave root behind."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        except KeyError:
            continue
    return {}


def wide_tables():
    """Tables whose names need more than one block of a catalog's memory, so that it also runs out in the midst of one."""
    columns = ", ".join(f"{'c' * 56}{c} int" for c in range(500))
    return "".join(f"CREATE TABLE t{t} ({columns}, id int PRIMARY KEY, up int REFERENCES t0 (id));" for t in range(3))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class DatabaseServer:
    """A server in a temporary folder, on loopback. It refuses to run as root, so as root it runs as another user. It is
    always stopped, also when a test fails. A class of it says how to `prepare` its folder, the `command` that it is, when it
    `is_ready`, and the signal that ends it (`at_end`)."""

    user, password = "weir", "s3cret-w0rd"

    def __init__(self, kind):
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix=f"weir-{kind}-")
        self.as_user = unprivileged_user()
        self.process = None

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self):
        if self.as_user:
            os.chown(self.folder, self.as_user["user"], self.as_user["group"])
        self.prepare()
        with open(self.path("log"), "wb") as log:
            self.process = start(self.command(), cwd=self.folder, stdout=log, stderr=log, at_death=self.at_end, **self.as_user)
        for _ in range(300):
            if self.process.poll() is not None:
                break
            if self.is_ready():
                return
            threading.Event().wait(0.1)
        with open(self.path("log"), encoding="utf-8", errors="replace") as log:
            raise RuntimeError("the server did not start: " + log.read()[-2000:])

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(self.at_end)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run_client(self, command, sql):
        """Runs SQL by the server's own client; input may be megabytes."""
        done = subprocess.run(command, input=sql.encode(), check=False, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[:2000])
        return done.stdout.decode()


class Listener:
    """Listens on loopback, and `serve`s each client in a thread. with Listener() as server: server.port"""

    def __init__(self):
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


class Proxy(Listener):
    """Passes bytes between a client and the server. `replace` maps what the client says to bytes of the same length;
    after `cut_after` bytes from the server (if given) the connection is cut."""

    def __init__(self, port, replace=None, cut_after=None):
        self.target = port
        self.replace = replace or {}
        self.cut_after = cut_after
        super().__init__()

    def serve(self, client):
        server = socket.create_connection(("127.0.0.1", self.target))
        self.sockets.append(server)
        threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
        self.pass_on(server, client, False)

    def pass_on(self, source, target, is_client):
        passed = 0
        try:
            while data := source.recv(65536):
                if is_client:
                    for old, new in self.replace.items():
                        data = data.replace(old, new)
                elif self.cut_after is not None and passed + len(data) > self.cut_after:
                    break
                target.sendall(data)
                passed += len(data)
        except OSError:
            pass
        for each in (source, target):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class SourceCase(unittest.TestCase):
    """Tests against the server `server` of their class."""

    def assert_fails(self, url, *words, options=()):
        """A scan ends with an error that has these words, and not the password."""
        done = scan(url, *options, check=False)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 1, message)
        self.assertTrue(message.startswith("weir: SOURCE_ERROR: "), message)
        for word in words:
            self.assertIn(word, message)
        self.assertNotIn(self.server.password, message)
        return message

    def weir(self, *arguments):
        """The program's answer, and its error's message."""
        done = subprocess.run([WEIR, *arguments, "--json"], check=False, capture_output=True)
        printed = json.loads(done.stdout)
        self.assertNotIn(self.server.password, done.stdout.decode() + done.stderr.decode())
        return printed, printed.get("error", {}).get("message")
