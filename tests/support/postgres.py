"""A PostgreSQL server of the tests' own."""
import glob
import os
import signal
import subprocess

from tests.support.servers import DatabaseServer


def find_binaries():
    """The folder of initdb and postgres (WEIR_POSTGRES_BIN, or Debian's), or None."""
    folders = [os.environ.get("WEIR_POSTGRES_BIN", "")] + sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    for folder in folders:
        if folder and os.path.exists(os.path.join(folder, "initdb")):
            return folder
    return None


class Server(DatabaseServer):
    """with Server(find_binaries()) as server: server.run(sql); server.url("database")"""

    at_end = signal.SIGINT  # a fast shutdown

    def __init__(self, binaries):
        super().__init__("postgres")
        self.binaries = binaries

    def program(self, name):
        return os.path.join(self.binaries, name)

    def prepare(self):
        password = self.path("password")
        with open(password, "w", encoding="ascii") as file:
            file.write(self.password)
        os.chmod(password, 0o644)
        subprocess.run([self.program("initdb"), "-D", self.path("data"), "-U", self.user, "--pwfile", password, "-A", "scram-sha-256",
                        "-E", "UTF8", "--locale", "C", "--no-sync"],
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL, **self.as_user)

    def command(self):
        return [self.program("postgres"), "-D", self.path("data"), "-p", str(self.port), "-c", "listen_addresses=127.0.0.1", "-c",
                "unix_socket_directories=", "-c", "fsync=off", "-c", "shared_buffers=64MB", "-c", "max_connections=20"]

    def is_ready(self):
        return subprocess.run([self.program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)],
                              check=False).returncode == 0

    def run(self, sql, database="postgres", user=None):
        return self.run_client([self.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.url(database, user=user)], sql)

    def url(self, database="postgres", user=None, password=None, port=None, query=""):
        return (f"postgresql://{user or self.user}:{password or self.password}@127.0.0.1:{port or self.port}/{database}"
                f"?sslmode=disable{query}")
