"""The test shop with one type a column, so that any database can hold it: the same rows as SQLite, PostgreSQL,
MySQL and DuckDB statements, and a schema whose queries all of them run.

What the servers and DuckDB have types of their own for (times, booleans, bytes, decimals) is given in those types."""
import datetime
import json
import os
import sqlite3

VECTORS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "vectors")

# Columns whose text becomes the database's own time type. The others stay text, since the tasks compare them to text.
TIMES = {"premium_since", "shipped_at", "due_at", "closed_at", "packed_at", "checked_at", "manager_since", "hired_at",
         "published", "opened"}
DECIMALS = {"salary", "floor_area", "cents"}
KEYS = {"customers": ["customer_id"], "genres": ["genre"], "couriers": ["courier"], "coupons": ["coupon.code"],
        "climate": ["minute"], "books": ["isbn"], "orders": ["order_id"], "order_items": ["order_id", "isbn"],
        "reviews": ["review_id"], "stores": ["code"], "employees": ["employee_id"]}
FOREIGN_KEYS = {"customers": {"referred_by": "customers"}, "books": {"genre": "genres"},
                "orders": {"customer_id": "customers", "billed_to": "customers", "courier": "couriers",
                           "coupon": "coupons"},
                "order_items": {"order_id": "orders", "isbn": "books"},
                "reviews": {"customer_id": "customers", "isbn": "books"},
                "employees": {"manager_id": "employees", "store_code": "stores"},
                "page_views": {"customer_id": "customers", "isbn": "books"}}


def load():
    """{table: (columns, rows)}: a column is (name, kind) with kind integer, real, text, boolean, blob or time."""
    source = sqlite3.connect(":memory:")
    with open(os.path.join(VECTORS, "shop_small.sql"), encoding="utf-8") as file:
        source.executescript(file.read())
    source.executescript("""DELETE FROM coupons WHERE typeof("coupon.code") <> 'text';
        UPDATE orders SET coupon = CAST(coupon AS TEXT);
        DELETE FROM page_views WHERE typeof(viewed_at) <> 'integer';
        UPDATE page_views SET device = CAST(device AS TEXT)""")
    tables = {}
    for (table,) in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        columns = [(name, kind_of(source, table, name, declared))
                   for _, name, declared, *_ in source.execute(f'PRAGMA table_info("{table}")').fetchall()]
        tables[table] = (columns, source.execute(f'SELECT * FROM "{table}"').fetchall())
    return tables


def kind_of(source, table, name, declared):
    if name in TIMES:
        return "time"
    if declared == "BOOLEAN":
        return "boolean"
    kinds = [kind for (kind,) in source.execute(f'SELECT DISTINCT typeof("{name}") FROM "{table}"') if kind != "null"]
    assert len(kinds) <= 1, (table, name, kinds)
    return kinds[0] if kinds else "text"


def schema():
    """The shop's schema; its one query that is SQLite's alone is changed."""
    with open(os.path.join(VECTORS, "shop_small.schema.json"), encoding="utf-8") as file:
        document = json.load(file)
    dwell = document["tasks"]["dwell"]
    dwell["query"] = dwell["query"].replace(" WHERE typeof(viewed_at) = 'integer'", "")
    return json.dumps(document)


def utc(text):
    """ISO text as a time in UTC."""
    when = datetime.datetime.fromisoformat(text)
    when = when.replace(tzinfo=datetime.timezone.utc) if when.tzinfo is None else when
    return when.astimezone(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def name_of(name):
    return '"' + name + '"'


def literal(value, kind, blob):
    if value is None:
        return "NULL"
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "blob":
        return blob(value)
    if kind == "time":
        return quoted(utc(value))
    return quoted(value) if isinstance(value, str) else quoted(repr(value))


def statements(types, blob, foreign_keys):
    """SQL that makes the shop in a database with these names of types."""
    sql = []
    tables = load()
    for table, (columns, rows) in tables.items():
        parts = [name_of(name) + " " + types("decimal" if name in DECIMALS else kind) for name, kind in columns]
        if table in KEYS:
            parts.append("PRIMARY KEY (" + ", ".join(map(name_of, KEYS[table])) + ")")
        sql.append(f"CREATE TABLE {name_of(table)} ({', '.join(parts)})")
        for start in range(0, len(rows), 500):
            values = ["(" + ", ".join(literal(value, kind, blob) for value, (_, kind) in zip(row, columns)) + ")"
                      for row in rows[start:start + 500]]
            sql.append(f"INSERT INTO {name_of(table)} VALUES {', '.join(values)}")
    return sql + (foreign_keys() if foreign_keys else [])


def for_postgres():
    def types(kind):
        return {"integer": "bigint", "real": "double precision", "text": "text", "boolean": "boolean", "blob": "bytea",
                "time": "timestamptz", "decimal": "numeric(12, 2)"}[kind]

    def foreign_keys():
        """NOT VALID: the shop has keys that match nothing, on purpose."""
        return [f"ALTER TABLE {name_of(table)} ADD FOREIGN KEY ({name_of(column)}) REFERENCES {name_of(parent)} NOT VALID"
                for table, keys in FOREIGN_KEYS.items() for column, parent in keys.items()]

    return "SET TimeZone = 'UTC';\n" + ";\n".join(
        statements(types, lambda value: f"'\\x{value.hex()}'", foreign_keys)) + ";\n"


def for_mysql():
    """For a database whose collation takes texts of different bytes for different."""
    def types(kind):
        return {"integer": "bigint", "real": "double", "text": "varchar(700)", "boolean": "boolean", "blob": "blob",
                "time": "datetime(6)", "decimal": "decimal(12, 2)"}[kind]

    def foreign_keys():
        return [f"ALTER TABLE {name_of(table)} ADD FOREIGN KEY ({name_of(column)}) REFERENCES {name_of(parent)} "
                f"({name_of(KEYS[parent][0])})" for table, keys in FOREIGN_KEYS.items() for column, parent in keys.items()]

    return ("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES', foreign_key_checks = 0;\n" + ";\n".join(
        statements(types, lambda value: f"X'{value.hex()}'", foreign_keys)) + ";\n")


def for_duckdb():
    def types(kind):
        return {"integer": "BIGINT", "real": "DOUBLE", "text": "VARCHAR", "boolean": "BOOLEAN", "blob": "BLOB",
                "time": "TIMESTAMP", "decimal": "DECIMAL(12, 2)"}[kind]

    def blob(value):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"

    return statements(types, blob, None)


def write_sqlite(path):
    """The same rows in SQLite, with times as the text they were."""
    database = sqlite3.connect(path)
    database.execute("PRAGMA synchronous = OFF")  # it need not outlive the machine
    for table, (columns, rows) in load().items():
        types = {"integer": "INTEGER", "real": "REAL", "text": "TEXT", "boolean": "BOOLEAN", "blob": "BLOB",
                 "time": "TIMESTAMP"}
        parts = [f"{name_of(name)} {'NUMERIC' if name in DECIMALS else types[kind]}" for name, kind in columns]
        if table in KEYS:
            parts.append("PRIMARY KEY (" + ", ".join(map(name_of, KEYS[table])) + ")")
        parts += [f"FOREIGN KEY ({name_of(column)}) REFERENCES {name_of(parent)}"
                  for column, parent in FOREIGN_KEYS.get(table, {}).items()]
        database.execute(f"CREATE TABLE {name_of(table)} ({', '.join(parts)})")
        database.executemany(f"INSERT INTO {name_of(table)} VALUES ({', '.join('?' * len(columns))})", rows)
    database.commit()
    database.close()
