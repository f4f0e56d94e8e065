"""A MariaDB server of the tests' own. It lives in a temporary folder and listens there on a socket, and on loopback; it
refuses to run as root, so as root it runs as another user. It is always stopped, also when a test fails."""
import os
import shutil
import signal
import subprocess
import tempfile
import threading

from tests.support.postgres import free_port, unprivileged_user
from tests.support.processes import start

PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb")


def find_programs():
    """The server's programs by name (WEIR_MARIADB_BIN, the path, or Debian's folders), or None if one is missing."""
    folders = os.pathsep.join([os.environ.get("WEIR_MARIADB_BIN", ""), os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
    found = {name: shutil.which(name, path=folders) for name in PROGRAMS}
    return found if all(found.values()) else None


class Server:
    """with Server(find_programs()) as server: server.run(sql); server.url("database")"""

    user, password = "weir", "s3cret-w0rd"

    def __init__(self, programs, *options):
        self.programs = programs
        self.options = options
        self.port = free_port()
        self.folder = tempfile.mkdtemp(prefix="weir-mariadb-")
        self.socket = os.path.join(self.folder, "socket")
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

    def start(self):
        if self.as_user:
            os.chown(self.folder, self.as_user["user"], self.as_user["group"])
        small = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--aria-log-file-size=8M"]
        data = "--datadir=" + os.path.join(self.folder, "data")
        subprocess.run([self.programs["mariadb-install-db"], "--no-defaults", data, *small, "--skip-test-db",
                        "--auth-root-authentication-method=normal", "--tmpdir=" + self.folder],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.as_user)
        with open(os.path.join(self.folder, "log"), "wb") as log:
            self.process = start(
                [self.programs["mariadbd"], "--no-defaults", data, *small, "--socket=" + self.socket, "--tmpdir=" + self.folder,
                 "--pid-file=" + os.path.join(self.folder, "pid"), f"--port={self.port}", "--bind-address=127.0.0.1",
                 "--skip-name-resolve", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--max-connections=20",
                 "--performance-schema=OFF", *self.options],
                cwd=self.folder, stdout=log, stderr=log, at_death=signal.SIGTERM, **self.as_user)
        for _ in range(300):
            if self.process.poll() is not None:
                break
            if subprocess.run(self.client(), input=b"SELECT 1", check=False, capture_output=True).returncode == 0:
                self.run(f"CREATE USER {self.user} IDENTIFIED BY '{self.password}'; GRANT ALL ON *.* TO {self.user}")
                return
            threading.Event().wait(0.1)
        with open(os.path.join(self.folder, "log"), encoding="utf-8", errors="replace") as log:
            raise RuntimeError("the server did not start: " + log.read()[-2000:])

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, *options):
        return [self.programs["mariadb"], "--no-defaults", "--default-character-set=utf8mb4", "-u", "root", "-S", self.socket,
                *options]

    def run(self, sql, database="mysql"):
        """Runs SQL as root; input may be megabytes."""
        done = subprocess.run(self.client(database), input=sql.encode(), check=False, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[:2000])
        return done.stdout.decode()

    def url(self, database="", user=None, password=None, port=None, query=""):
        return (f"mysql://{user or self.user}:{password or self.password}@127.0.0.1:{port or self.port}/{database}"
                f"{'?' + query if query else ''}")
