"""RelBench's three tasks on the Formula 1 database, as SQL over its CSV files, and the same once more in plain Python.

A cut-off is a time t; a seed is a driver and a cut-off, for each driver with an outcome in (t, t + window]. Cut-offs step
by the window: backwards from 2005-01-01 (train), forwards from it up to 2010-01-01 (val) and from there (test, 40 at
most; also val). The published definition also asks for an outcome after t minus a year, which those in the window
are, so it says nothing.

Training takes more seeds than these: the same questions at more cut-offs, asked some time ahead (`lag` days before the
window opens, from what was known then), and about the starting grid, which is known for all years and not only since
1994. All of their windows end by 2005-01-01 too."""

import csv
import json
import math
from bisect import bisect_right
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

DAY = 86_400
VAL, TEST, FIRST = 1_104_537_600, 1_262_304_000, -619_747_200  # 2005-01-01, 2010-01-01, 1950-05-13
MOST_CUTOFFS = 40

# days: the window. value: of an outcome; label: of a seed's outcomes.
QUESTIONS: dict[str, dict[str, Any]] = {
    "position": {"days": 60, "source": "results", "value": "positionOrder", "label": "AVG(value)", "stype": "numerical"},
    "dnf": {"days": 30, "source": "results", "value": "statusId", "label": "MAX(value <> 1)", "stype": "boolean"},
    "top3": {"days": 30, "source": "qualifying", "value": "position", "label": "MIN(value) <= 3", "stype": "boolean"},
    "grid": {"days": 30, "source": "results", "value": "grid", "label": "MIN(value) <= 3", "stype": "boolean"},
}
PUBLISHED = ("dnf", "top3", "position")
LAGS = {
    "position": (90, 270, 540, 900, 1300, 1800, 2300),
    "dnf": (90, 270, 540, 900, 1150),
    "top3": (90, 270, 540, 900, 1150),
    "grid": (90, 270, 540, 900, 1150),
}

SEEDS = """
WITH RECURSIVE shifts(back) AS (VALUES (0) UNION ALL SELECT back + {step} FROM shifts WHERE back + {step} < {window}),
outcomes AS (
  SELECT s.driverId, s.{value} AS value,
         CAST(strftime('%s', r.date || ' ' || COALESCE(r.time, '00:00:00')) AS INTEGER) - {early} AS at
  FROM {source} s JOIN races r ON r.raceId = s.raceId WHERE s.{value} > 0),
windows AS (
  SELECT driverId, value, {val} - ({val} - at) / {step} * {step} - {step} - back AS cutoff, 'train' AS split
  FROM outcomes, shifts WHERE at <= {val}
  UNION ALL
  SELECT driverId, value, {val} + (at - {val} - 1) / {window} * {window}, 'val' FROM outcomes
  WHERE at > {val} AND {is_published}
  UNION ALL
  SELECT driverId, value, {test} + (at - {test} - 1) / {window} * {window}, 'test' FROM outcomes
  WHERE at > {test} AND {is_published})
SELECT driverId, cutoff - {lag} AS cutoff, split, {label} AS label FROM windows
WHERE split = 'train' AND cutoff >= {first} AND cutoff + {window} <= {val}
   OR split = 'val' AND cutoff + {window} <= {test} AND cutoff < {val} + {most} * {window}
   OR split = 'test' AND cutoff < {test} + {most} * {window}
GROUP BY driverId, cutoff, split
"""


def task(question: str, step_days: int | None = None, lag_days: int = 0) -> dict[str, Any]:
    """A task of the schema. step_days: a train cut-off every so many days, and no val and test; else the published ones."""
    asked = QUESTIONS[question]
    query = SEEDS.format(
        step=(step_days or asked["days"]) * DAY, window=asked["days"] * DAY, source=asked["source"], value=asked["value"],
        label=asked["label"], early=DAY if asked["source"] == "qualifying" else 0, val=VAL, test=TEST, first=FIRST,
        most=MOST_CUTOFFS, is_published=int(step_days is None), lag=lag_days * DAY,
    )  # fmt: skip
    described = {
        "query": " ".join(query.split()), "kind": "derived", "anchor_table": "drivers", "anchor_key": "driverId",
        "target_column": "label", "target_stype": asked["stype"], "observation_time_column": "cutoff", "unit": "s",
        "split": {"method": "column", "column": "split"},
    }  # fmt: skip
    return described | ({"target_statistics": "train"} if asked["stype"] == "numerical" else {})


def schema() -> dict[str, Any]:
    """schema.json with all tasks: the published ones, and those to train on. `dnf-ahead-90` is dnf asked 90 days ahead."""
    made: dict[str, Any] = json.loads(Path(__file__).with_name("schema.json").read_text(encoding="utf-8"))
    made["tasks"] = {question: task(question) for question in PUBLISHED}
    for question in ("top3", "grid"):
        made["tasks"][f"{question}-ahead-0"] = task(question, step_days=10)
    for question, lags in LAGS.items():
        for lag in lags:
            made["tasks"][f"{question}-ahead-{lag}"] = task(question, QUESTIONS[question]["days"] // 2, lag)
    return made


def question_and_lag(name: str) -> tuple[str, int]:
    """Of a task: ("dnf", 90) for dnf-ahead-90."""
    question, _, lag = name.partition("-ahead-")
    return question, int(lag or 0)


# ---- The definition again, without SQL ------------------------------------------------------------------------------


def read(folder: Path, table: str) -> list[dict[str, str]]:
    with open(folder / f"{table}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def seeds_by_definition(folder: Path, question: str) -> dict[str, dict[tuple[int, int], float]]:
    """{split: {(driver, cut-off in seconds): label}}, one cut-off after the other, as the task is described."""
    asked, window = QUESTIONS[question], QUESTIONS[question]["days"] * DAY
    dates = {race["raceId"]: race for race in read(folder, "races")}
    outcomes = []
    for row in read(folder, asked["source"]):
        race = dates[row["raceId"]]
        clock = "00:00:00" if race["time"] == r"\N" else race["time"]
        when = datetime.fromisoformat(f"{race['date']} {clock}").replace(tzinfo=timezone.utc)
        at = int(when.timestamp()) - (DAY if asked["source"] == "qualifying" else 0)
        if row[asked["value"]] != r"\N":
            outcomes.append((at, int(row["driverId"]), float(row[asked["value"]])))
    outcomes.sort()
    cutoffs = {
        "train": [VAL - k * window for k in range(1, 10_000) if VAL - k * window >= FIRST],
        "val": [VAL + k * window for k in range(MOST_CUTOFFS) if VAL + (k + 1) * window <= TEST],
        "test": [TEST + k * window for k in range(MOST_CUTOFFS)],
    }
    return {split: dict(_labels(outcomes, times, window, question)) for split, times in cutoffs.items()}


def _labels(outcomes: list[tuple[int, int, float]], cutoffs: list[int], window: int, question: str) -> Any:
    for cutoff in cutoffs:
        found = defaultdict(list)
        first, last = (bisect_right(outcomes, (time, math.inf)) for time in (cutoff, cutoff + window))
        for _, driver, value in outcomes[first:last]:
            found[driver].append(value)
        for driver, values in found.items():
            if question == "position":
                yield (driver, cutoff), sum(values) / len(values)
            elif question == "dnf":
                yield (driver, cutoff), float(any(value != 1 for value in values))
            else:
                yield (driver, cutoff), float(min(values) <= 3)
