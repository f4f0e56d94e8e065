"""Runs scan_source (WEIR_SCAN) and reads what it prints."""
import json
import os
import re
import subprocess

SCAN = os.environ.get("WEIR_SCAN", "")
WEIR = os.environ.get("WEIR", "")
ABSENT = os.environ.get("WEIR_ABSENT", "")  # what the build leaves out, such as WEIR_WITHOUT_HTTP
DECLARED = ["nothing", "boolean", "time", "integer", "real", "numeric", "text", "blob", "enum"]


def scan(location, *options, check=True, env=None):
    done = subprocess.run([SCAN, location, *options], check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    if check and done.returncode:
        raise AssertionError(done.stderr.decode())
    return done


def lines(done):
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def rows(done, table):
    """A table's rows in an order of their own, since a source gives them in any."""
    return sorted((line["row"] for line in lines(done) if isinstance(line, dict) and line.get("of") == table),
                  key=json.dumps)


def rows_by_table(done):
    """The rows of all tables that have some, as they were printed, each table's in order: quick where there are many."""
    found = {}
    for line in sorted(done.stdout.splitlines()):
        table = re.match(rb'\{"of": ?"([^"]*)", ?"row"', line)
        if table:
            found.setdefault(table[1].decode(), []).append(line)
    return found


def real(value):
    """A real as scan_source prints it."""
    return float.fromhex(value)


def comparable(row):
    """Reals as numbers: hex floats have several spellings."""
    return [[v[0], real(v[1])] if v[0] == "r" else v for v in row]


def ingest(source, folder, name, *options):
    """The bytes of the store and of its manifest."""
    path = os.path.join(folder, name + ".weir")
    subprocess.run([WEIR, "ingest", source, "-o", path, *options], check=True, stdout=subprocess.DEVNULL)
    with open(path, "rb") as store, open(os.path.join(folder, name + ".manifest.json"), "rb") as manifest:
        return store.read(), manifest.read()
