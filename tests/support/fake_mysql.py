"""A MySQL server that is a script: it says what a test wants, in the wire protocol, whatever it is asked.

It serves one database d with one table t (id integer primary key, w text) of two rows. `answers` puts other answers in
place of its own: a part of a statement, and bytes, an iterable of bytes that may be without end, or None (silence)."""
import itertools
import socket
import struct

from tests.support.hostile import FakeServer

QUIT, QUERY, PREPARE, CLOSE = 1, 3, 22, 25
LONG, DOUBLE, VARCHAR, BLOB = 3, 5, 253, 252
UTF8MB4, BINARY = 45, 63
MORE_RESULTS = 8
CAPABILITIES = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000 | 0x80000


def frame(number, payload):
    """One packet; a payload of 16 MiB less a byte is continued by the next."""
    return struct.pack("<I", len(payload))[:3] + bytes([number % 256]) + payload


def frames(*payloads, first=1):
    return b"".join(frame(first + i, payload) for i, payload in enumerate(payloads))


def for_ever(head, payload, together=1000):
    """`head` and then one packet after the other, without end."""
    yield frames(*head)
    for number in itertools.count(1 + len(head), together):
        yield b"".join(frame(number + i, payload) for i in range(together))


def counted(data):
    """Bytes with their length before them."""
    data = data.encode() if isinstance(data, str) else data
    size = len(data)
    return (bytes([size]) if size < 251 else b"\xfc" + struct.pack("<H", size) if size < 1 << 16 else
            b"\xfd" + struct.pack("<I", size)[:3]) + data


def ok(status=2):
    return b"\0\0\0" + struct.pack("<HH", status, 0)


def end(status=2):
    return b"\xfe" + struct.pack("<HH", 0, status)


def failure(words, code=1064):
    return b"\xff" + struct.pack("<H", code) + b"#42000" + words.encode()


def column(name, kind=VARCHAR, charset=UTF8MB4, length=300, flags=0):
    return b"".join(map(counted, ("def", "d", "t", "t", name, name))) + b"\x0c" + struct.pack(
        "<HIBHB", charset, length, kind, flags, 0) + b"\0\0"


def row(cells):
    return b"".join(b"\xfb" if cell is None else counted(cell) for cell in cells)


def table(rows, columns=None, status=2):
    """The answer of a statement that has rows."""
    columns = [column(f"c{i}") for i in range(len(rows[0]))] if columns is None else columns
    return frames(bytes([len(columns)]), *columns, end(status), *map(row, rows), end(status))


def prepared(columns):
    head = b"\0" + struct.pack("<IHHBH", 1, len(columns), 0, 0, 0)
    return frames(head, *columns, *([end()] if columns else []))


ID, W = column("id", LONG, BINARY, 11), column("w", BLOB)
TABLES = [["t", "BASE TABLE", "InnoDB", "YES", "2", "16384"]]
COLUMNS = [["t", "id", "int", "int(11)"], ["t", "w", "text", "text"]]
KEYS = [["t", "PRIMARY", "id", "1", None, None]]
OWN = {
    "SELECT DATABASE()": table([["d"]]),
    "information_schema.TABLES": table(TABLES),
    "information_schema.COLUMNS": table(COLUMNS),
    "information_schema.KEY_COLUMN_USAGE": table(KEYS),
    '"id"': table([["1", "one"], ["2", "two"]], [ID, W]),
    "": frames(ok()),
}


class FakeMySql(FakeServer):
    """with FakeMySql({"DATABASE()": b"..."}) as server: server.url"""

    def __init__(self, answers=None, *, speaks=True, cuts=False, welcome=None):
        self.answers = answers or {}
        self.speaks = speaks
        self.cuts = cuts  # the connection after one of `answers`
        self.welcome = welcome  # in the place of the answer to a login
        self.heard = b""
        super().__init__()  # `asked` is set when a statement meets one of `answers`, or nothing speaks
        self.url = f"mysql://u:s3cret@127.0.0.1:{self.port}/d"

    def hear(self, stream):
        head = stream.read(4)
        body = stream.read(int.from_bytes(head[:3], "little")) if len(head) == 4 else b""
        self.heard += head + body
        return body

    def serve(self, client):
        try:
            if not self.speaks:
                self.asked.set()
                return
            greeting = (b"\x0a8.0.36\0" + struct.pack("<I", 7) + b"saltsalt\0" + struct.pack("<H", CAPABILITIES & 0xFFFF)
                        + bytes([UTF8MB4]) + struct.pack("<HHB", 2, CAPABILITIES >> 16, 21) + bytes(10) + b"pepperpepper\0"
                        + b"mysql_native_password\0")
            client.sendall(frame(0, greeting))
            stream = client.makefile("rb")
            self.hear(stream)
            self.say(client, frame(2, ok()) if self.welcome is None else self.welcome)
            while body := self.hear(stream):
                if body[0] in (QUERY, PREPARE):
                    self.answer(client, body[1:].decode(), body[0] == PREPARE)
        except (OSError, ValueError):
            pass

    def answer(self, client, statement, is_prepare):
        found = [answer for part, answer in self.answers.items() if part in statement]
        if found:
            self.asked.set()
            self.say(client, found[0])
            if self.cuts:
                client.shutdown(socket.SHUT_WR)
        elif is_prepare:
            self.say(client, prepared([ID, W]))
        else:
            self.say(client, next(answer for part, answer in OWN.items() if part in statement))
