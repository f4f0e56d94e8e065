"""A MariaDB server of the tests' own, which also listens on a socket in its folder."""
import os
import shutil
import signal
import subprocess

from tests.support.servers import DatabaseServer

PROGRAMS = ("mariadb-install-db", "mariadbd", "mariadb")
SMALL = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--aria-log-file-size=8M"]


def find_programs():
    """The server's programs by name (WEIR_MARIADB_BIN, the path, or Debian's folders), or None if one is missing."""
    folders = os.pathsep.join([os.environ.get("WEIR_MARIADB_BIN", ""), os.environ.get("PATH", ""), "/usr/sbin", "/usr/bin"])
    found = {name: shutil.which(name, path=folders) for name in PROGRAMS}
    return found if all(found.values()) else None


class Server(DatabaseServer):
    """with Server(find_programs()) as server: server.run(sql); server.url("database")"""

    at_end = signal.SIGTERM

    def __init__(self, programs, *options):
        super().__init__("mariadb")
        self.programs = programs
        self.options = options
        self.socket = self.path("socket")

    def prepare(self):
        subprocess.run([self.programs["mariadb-install-db"], "--no-defaults", "--datadir=" + self.path("data"), *SMALL,
                        "--skip-test-db", "--auth-root-authentication-method=normal", "--tmpdir=" + self.folder],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.as_user)

    def command(self):
        return [self.programs["mariadbd"], "--no-defaults", "--datadir=" + self.path("data"), *SMALL, "--socket=" + self.socket,
                "--tmpdir=" + self.folder, "--pid-file=" + self.path("pid"), f"--port={self.port}", "--bind-address=127.0.0.1",
                "--skip-name-resolve", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0", "--max-connections=20",
                "--performance-schema=OFF", *self.options]

    def is_ready(self):
        if subprocess.run(self.client(), input=b"SELECT 1", check=False, capture_output=True).returncode != 0:
            return False
        self.run(f"CREATE USER {self.user} IDENTIFIED BY '{self.password}'; GRANT ALL ON *.* TO {self.user}")
        return True

    def client(self, *options):
        return [self.programs["mariadb"], "--no-defaults", "--default-character-set=utf8mb4", "-u", "root", "-S", self.socket,
                *options]

    def run(self, sql, database="mysql"):
        """As root."""
        return self.run_client(self.client(database), sql)

    def url(self, database="", user=None, password=None, port=None, query=""):
        return (f"mysql://{user or self.user}:{password or self.password}@127.0.0.1:{port or self.port}/{database}"
                f"{'?' + query if query else ''}")
