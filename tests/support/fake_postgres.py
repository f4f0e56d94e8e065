"""A PostgreSQL server that is a script: it says what a test wants, in the wire protocol, whatever it is asked.

It serves one database with one table t (id integer primary key, w text) of two rows. `answers` puts other answers in
place of its own: a part of a statement, and bytes, an iterable of bytes that may be without end, or None (silence)."""
import struct

from tests.support.hostile import FakeServer

INT4, TEXT = 23, 25


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


def text(value):
    return value.encode() + b"\0"


READY = message(b"Z", b"T")


def complete(tag="OK"):
    return message(b"C", text(tag))


def description(count):
    field = text("c") + struct.pack("!ihihih", 0, 0, TEXT, -1, -1, 0)
    return message(b"T", struct.pack("!h", count) + field * count)


def data_row(cells):
    return message(b"D", struct.pack("!h", len(cells)) + b"".join(
        struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell.encode())) + cell.encode() for cell in cells))


def table(rows, width=None):
    """The answer of a statement that has rows."""
    width = len(rows[0]) if width is None else width
    return description(width) + b"".join(map(data_row, rows)) + complete("SELECT") + READY


def failure(words):
    return message(b"E", b"SERROR\0C42601\0M" + text(words) + b"\0") + READY


def copy_start(kind, count):
    """kind: b"H" out, b"G" in, b"W" both."""
    return message(kind, struct.pack("!bh", 1, count) + struct.pack("!h", 1) * count)


COPY_HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)


def copy_row(*fields):
    return message(b"d", struct.pack("!h", len(fields)) + b"".join(
        struct.pack("!i", len(field)) + field for field in fields))


def copy_end(tag="COPY"):
    return message(b"d", struct.pack("!h", -1)) + message(b"c") + complete(tag) + READY


def copy(rows, count):
    return copy_start(b"H", count) + message(b"d", COPY_HEADER) + b"".join(copy_row(*row) for row in rows) + copy_end()


def for_ever(part):
    while True:
        yield part


OWN = {
    "COPY (SELECT 1)": copy([[struct.pack("!i", 1)]], 1),
    "COPY (SELECT": copy([[struct.pack("!i", 1), b"one"], [struct.pack("!i", 2), b"two"]], 2),
    "pg_export_snapshot": table([["00000003-0000001B-1"]]),
    "version()": table([["PostgreSQL 15.4"]]),
    "reltuples": table([["100", "t", "public", "2", "t", "r"]]),
    "typbasetype": table([["200", "23"]]),
    "typtype = 'e'": table([["300"]]),
    "pg_attribute": table([["100", "1", "id", "23"], ["100", "2", "w", "25"]]),
    "pg_constraint": table([["100", "p", "{1}", "0", ""]]),
    "pg_relation_size": table([["100", "1", "8192", "t"]]),
    "": complete() + READY,
}


class FakePostgres(FakeServer):
    """with FakePostgres({"pg_constraint": b"..."}) as server: server.url"""

    def __init__(self, answers=None, *, speaks=True):
        self.answers = answers or {}
        self.speaks = speaks
        self.statements = []
        super().__init__()  # `asked` is set when a statement meets one of `answers`, or nothing speaks
        self.url = f"postgresql://u:s3cret@127.0.0.1:{self.port}/d?sslmode=disable&gssencmode=disable"

    def serve(self, client):
        try:
            if not self.speaks:
                self.asked.set()
                return
            stream = client.makefile("rb")
            stream.read(struct.unpack("!i", stream.read(4))[0] - 4)
            parameters = b"".join(message(b"S", text(name) + text(value)) for name, value in (
                ("server_version", "15.4"), ("client_encoding", "UTF8"), ("standard_conforming_strings", "on")))
            client.sendall(message(b"R", struct.pack("!i", 0)) + parameters + message(b"Z", b"I"))
            while head := stream.read(5):
                body = stream.read(struct.unpack("!i", head[1:])[0] - 4)
                if head[:1] == b"Q":
                    self.answer(client, body[:-1].decode())
        except (OSError, struct.error, ValueError):
            pass

    def answer(self, client, statement):
        self.statements.append(statement)
        for part, answer in self.answers.items():
            if part in statement:
                self.asked.set()
                break
        else:
            answer = next(answer for part, answer in OWN.items() if part in statement)
        self.say(client, answer)
