"""A PostgreSQL server of the tests' own, and a proxy before it that changes or cuts what passes.

The server lives in a temporary folder and listens on loopback only; it refuses to run as root, so as root it runs
as `postgres` or `nobody`. It is always stopped, also when a test fails."""
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from tests.support.processes import start


def find_binaries():
    """The folder of initdb and postgres (WEIR_POSTGRES_BIN, or Debian's), or None."""
    folders = [os.environ.get("WEIR_POSTGRES_BIN", "")] + sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for folder in folders:
        if folder and os.path.exists(os.path.join(folder, "initdb")):
            return folder
    return None


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


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """with Server() as server: server.run(sql); server.url("database")"""

    password = "s3cret-w0rd"

    def __init__(self, binaries):
        self.binaries = binaries
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="weir-postgres-")
        self.user = unprivileged_user()
        self.process = None

    def program(self, name):
        return os.path.join(self.binaries, name)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        if self.user:
            os.chown(self.folder, self.user["user"], self.user["group"])
        data = os.path.join(self.folder, "data")
        password = os.path.join(self.folder, "password")
        with open(password, "w", encoding="ascii") as file:
            file.write(self.password)
        os.chmod(password, 0o644)
        subprocess.run([self.program("initdb"), "-D", data, "-U", "weir", "--pwfile", password, "-A", "scram-sha-256",
                        "-E", "UTF8", "--locale", "C", "--no-sync"],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **self.user)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = start(
                [self.program("postgres"), "-D", data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c",
                 "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=64MB", "-c", "max_connections=20"],
                cwd=self.folder, stdout=log, stderr=log, at_death=signal.SIGINT, **self.user)
        for _ in range(300):
            if self.process.poll() is not None:
                break
            ready = subprocess.run([self.program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                                   check=False)
            if ready.returncode == 0:
                return
            threading.Event().wait(0.1)
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            raise RuntimeError("the server did not start: " + log.read()[-2000:])

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(2)  # SIGINT: fast shutdown
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, sql, database="postgres", user="weir"):
        """Runs SQL with psql; input may be megabytes."""
        done = subprocess.run([self.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d",
                               self.url(database, user=user)],
                              input=sql.encode(), check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[:2000])
        return done.stdout.decode()

    def url(self, database="postgres", user="weir", password=None, port=None, query=""):
        return (f"postgresql://{user}:{password or self.password}@127.0.0.1:{port or self.port}/{database}"
                f"?sslmode=disable{query}")


class Proxy:
    """Passes bytes between a client and the server. `replace` maps what the client says to bytes of the same length;
    after `cut_after` bytes from the server (if given) the connection is cut."""

    def __init__(self, port, replace=None, cut_after=None):
        self.target = port
        self.replace = replace or {}
        self.cut_after = cut_after
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        for each in self.sockets:
            each.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            self.sockets += [client, server]
            threading.Thread(target=self.pass_on, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.pass_on, args=(server, client, False), daemon=True).start()

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
