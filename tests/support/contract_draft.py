"""The golden shop's draft by the first rules, which are part of the vectors, beside today's: tests/golden/draft_changes.json
has what has changed since, and nothing else."""

import json
from pathlib import Path
from typing import Any

CHANGES = json.loads((Path(__file__).parents[1] / "golden" / "draft_changes.json").read_text())


def changed(value: Any, changes: Any) -> Any:
    if not (isinstance(value, dict) and isinstance(changes, dict)):
        return changes
    return {**value, **{key: changed(value.get(key), change) for key, change in changes.items()}}


def todays(draft: dict[str, Any]) -> dict[str, Any]:
    """The first draft, as it is drafted now."""
    return {**draft, "tables": changed(draft["tables"], CHANGES["tables"])}


def compared(draft: dict[str, Any]) -> dict[str, Any]:
    """What the first rules said something about."""
    return {key: draft[key] for key in ("name", "tables", "embedding")}
