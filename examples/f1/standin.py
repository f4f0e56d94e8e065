"""A small made-up database with the tables of the Formula 1 one, for trying f1.py without it.

    python3 examples/f1/standin.py FOLDER

Eight drivers of four teams, four races a year from 2001 to 2011. Drivers differ in skill and cars break, so that there is
something to learn. The same files every time."""

import csv
import random
import sys
from pathlib import Path

YEARS, RACES, DRIVERS = range(2001, 2012), 4, 8


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(1)
    tables: dict[str, list[dict[str, object]]] = {
        "circuits": [{"circuitId": c, "name": f"Circuit {c}", "country": f"Country {c % 3}"} for c in range(1, RACES + 1)],
        "constructors": [{"constructorId": c, "name": f"Team {c}", "nationality": f"Nation {c % 2}"} for c in range(1, DRIVERS // 2 + 1)],
        "drivers": [
            {"driverId": d, "dob": f"{1965 + d}-0{d % 9 + 1}-11", "nationality": f"Nation {d % 4}"} for d in range(1, DRIVERS + 1)
        ],
        "races": [], "results": [], "qualifying": [], "driver_standings": [], "constructor_standings": [],
        "constructor_results": [],
    }  # fmt: skip
    for year in YEARS:
        points = dict.fromkeys(range(1, DRIVERS + 1), 0)
        for number in range(1, RACES + 1):
            race = len(tables["races"]) + 1
            clock = r"\N" if year < 2005 else "12:00:00"
            tables["races"].append({"raceId": race, "circuitId": number, "round": number, "date": f"{year}-{number + 2:02}-14", "time": clock})
            add_race(tables, race, points, dice)
    for name, rows in tables.items():
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            out = csv.DictWriter(file, list(rows[0]))
            out.writeheader()
            out.writerows(rows)


def add_race(tables: dict[str, list[dict[str, object]]], race: int, points: dict[int, int], dice: random.Random) -> None:
    grid = sorted(points, key=lambda driver: driver + dice.gauss(0, 2))
    fell_out = {driver for driver in points if dice.random() < 0.1 + 0.04 * driver}
    order = sorted(points, key=lambda driver: (driver in fell_out, driver + dice.gauss(0, 2)))
    for place, driver in enumerate(order, 1):
        points[driver] += max(0, 7 - place)
        of = {"raceId": race, "driverId": driver}
        team = {"constructorId": (driver + 1) // 2}
        tables["results"].append({
            "resultId": len(tables["results"]) + 1, **of, **team, "grid": grid.index(driver) + 1,
            "position": r"\N" if driver in fell_out else place, "positionOrder": place, "points": max(0, 7 - place),
            "laps": dice.randrange(5, 50) if driver in fell_out else 60, "statusId": 5 if driver in fell_out else 1,
        })  # fmt: skip
        tables["qualifying"].append({"qualifyId": len(tables["qualifying"]) + 1, **of, **team, "position": grid.index(driver) + 1})
    ranks = sorted(points, key=lambda driver: -points[driver])
    for name, key, rows in (("driver", "driverId", ranks), ("constructor", "constructorId", sorted({(d + 1) // 2 for d in ranks}))):
        for place, number in enumerate(rows, 1):
            standings = tables[f"{name}_standings"]
            standings.append({f"{name}StandingsId": len(standings) + 1, "raceId": race, key: number, "points": points[number],
                              "position": place, "wins": 0})  # fmt: skip
    for team in range(1, DRIVERS // 2 + 1):
        rows = tables["constructor_results"]
        rows.append({"constructorResultsId": len(rows) + 1, "raceId": race, "constructorId": team, "points": points[team]})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
