"""A small database with what other shops lack: keys of several columns, tables whose time is their parent's, a view,
a query as a table, and names with dots. The statements are the same for SQLite, PostgreSQL, MySQL and DuckDB, and
so must be the store."""
import json
import sqlite3

STATEMENTS = [
    'CREATE TABLE places (country VARCHAR(9), city VARCHAR(9), people INTEGER, PRIMARY KEY (country, city))',
    'CREATE TABLE orders (order_id INTEGER PRIMARY KEY, country VARCHAR(9), city VARCHAR(9), ordered_at TIMESTAMP,'
    ' closed_at TIMESTAMP, FOREIGN KEY (country, city) REFERENCES places (country, city))',
    'CREATE TABLE "order.lines" (order_id INTEGER, line INTEGER, "qty.sold" INTEGER,'
    ' PRIMARY KEY (order_id, line), FOREIGN KEY (order_id) REFERENCES orders (order_id))',
    'CREATE TABLE returns (order_id INTEGER, line INTEGER, reason VARCHAR(9),'
    ' FOREIGN KEY (order_id, line) REFERENCES "order.lines" (order_id, line))',
    "INSERT INTO places VALUES ('de', 'Bonn', 300), ('de', 'Ulm', 120), ('no', 'Oslo', 700), ('pe', 'Lima', 9000)",
    "INSERT INTO orders VALUES (1, 'de', 'Ulm', '2024-01-01 08:00:00', '2024-01-09 00:00:00'),"
    " (2, 'no', 'Oslo', '2024-01-03 09:30:00', NULL), (3, 'de', NULL, '2024-01-05 12:00:00', '2024-01-06 00:00:00'),"
    " (5, 'pe', 'Lima', NULL, NULL), (8, 'no', 'Oslo', '2024-02-01 00:00:00', '2024-02-02 00:00:00')",
    'INSERT INTO "order.lines" VALUES (8, 1, 4), (1, 2, 7), (1, 1, 3), (2, 1, 1), (5, 1, 2), (3, 1, 9)',
    "INSERT INTO returns VALUES (1, 2, 'broken'), (8, 1, 'late'), (2, NULL, 'late'), (1, 1, 'late')",
    'CREATE VIEW big_orders AS SELECT order_id, count(*) AS parts FROM "order.lines" GROUP BY order_id',
]  # fmt: skip

SCHEMA = {
    "name": "warehouse",
    "keys": True,
    
    "statistics_until": "train",
    "tables": {
        "places": {"primary_key": ["country", "city"], "columns": {
            "country": {"stype": "categorical"}, "people": {"stype": "numerical"}}},
        "orders": {"primary_key": "order_id", "temporal_column": "ordered_at",
                   "foreign_keys": [{"columns": ["country", "city"], "table": "places"}],
                   "columns": {"order_id": {"stype": "identifier"}, "ordered_at": {"stype": "timestamp"},
                               "closed_at": {"stype": "timestamp"}}},
        "order.lines": {"primary_key": ["order_id", "line"], "temporal_column": "order_id -> orders.ordered_at",
                        "columns": {"order_id": {"stype": "identifier", "foreign_key": "orders.order_id"},
                                    "line": {"stype": "identifier"},
                                    "qty.sold": {"stype": "numerical", "known_at": ["order_id", "closed_at"]}}},
        "returns": {"temporal_column": "line_of -> order.lines.order_id -> orders.closed_at",
                    "foreign_keys": [{"columns": ["line", "order_id"], "table": "order.lines",
                                      "to": ["line", "order_id"], "name": "line_of"}],
                    "columns": {"reason": {"stype": "categorical"}}},
        "big_orders": {"primary_key": "order_id",
                       "foreign_keys": [{"columns": "order_id", "table": "orders", "known_at": None}],
                       "columns": {"parts": {"stype": "numerical"}}},
        "open": {"query": "SELECT order_id AS number, country FROM orders WHERE closed_at IS NULL",
                 "primary_key": "number", "temporal_column": "number -> orders.ordered_at",
                 "columns": {"number": {"stype": "identifier", "foreign_key": "orders.order_id"},
                             "country": {"stype": "text"}}},
    },
    "tasks": {
        "returned": {
            "query": 'SELECT l.order_id, l.line, r.reason IS NOT NULL AS returned, o.closed_at FROM "order.lines" l'
                     " JOIN orders o USING (order_id) LEFT JOIN returns r ON r.order_id = l.order_id"
                     " AND r.line = l.line",
            "anchor_table": "order.lines", "anchor_key": ["order_id", "line"], "target_column": "returned",
            "target_stype": "boolean", "observation_time_column": "closed_at", "before_anchor": "move",
            "drop_columns": [["order.lines", "qty.sold"], "returns.reason"],
            "split": {"method": "temporal", "val": "2024-01-07", "test": "2024-01-20"}},
        "size": {
            "query": "SELECT country, city, people, '2023-12-31' AS seen FROM places",
            "anchor_table": "places", "anchor_key": ["country", "city"], "target_column": "people",
            "target_stype": "numerical", "observation_time_column": "seen", "target_statistics": "train"},
    },
    "embedding": {"dim": 4},
}  # fmt: skip


def schema():
    return json.dumps(SCHEMA)


def write_sqlite(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # it need not outlive the machine
    for statement in STATEMENTS:
        connection.execute(statement)
    connection.commit()
    connection.close()
