"""The golden shop's draft by the first rules, which are part of the vectors, beside today's (docs/spec/04-draft.md): what
has changed since, and nothing else."""

from typing import Any

# Integers that are times by name and range were numbers; a table's only time is now its rows'.
CHANGED_COLUMNS = {
    ("climate", "at"): {"stype": "timestamp", "unit": "s"},
    ("orders", "assigned_at"): {"stype": "timestamp", "unit": "ms"},
}
CHANGED_TIMES = {"books": "published", "climate": "at"}


def todays(draft: dict[str, Any]) -> dict[str, Any]:
    """Tables and embedding of the first draft, as they are drafted now."""
    tables = {}
    for name, table in draft["tables"].items():
        columns = {column: CHANGED_COLUMNS.get((name, column), said) for column, said in table["columns"].items()}
        tables[name] = {**table, "columns": columns}
        if name in CHANGED_TIMES:
            tables[name]["temporal_column"] = CHANGED_TIMES[name]
    return {**draft, "tables": tables}


def compared(draft: dict[str, Any]) -> dict[str, Any]:
    """What the first rules said something about."""
    return {key: draft[key] for key in ("name", "tables", "embedding")}
