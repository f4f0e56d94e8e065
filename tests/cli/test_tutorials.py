"""The commands of the tutorials, on databases of the same shape as the public ones that they are about, made of dice."""

import datetime
import json
import os
import random
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path

from tests.support.cases import scratch_database

ROOT = Path(__file__).resolve().parents[2]
START = datetime.datetime(2020, 1, 1)


def day(number: int) -> str:
    return str(START + datetime.timedelta(days=number))


def fill(path: Path, tables: dict[str, list[tuple]]) -> None:
    with scratch_database(path) as database:
        for declaration, rows in tables.items():
            name = declaration[: declaration.index("(")].strip()
            database.execute(f"CREATE TABLE {declaration}")
            database.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def make_music(path: Path) -> None:
    dice = random.Random(1)
    invoices = [(key, 1 + key % 40, day(key * 4), round(dice.uniform(1, 20), 2)) for key in range(1, 401)]
    fill(path, {
        "Genre (GenreId INTEGER PRIMARY KEY, Name TEXT)": [(key, f"genre {key}") for key in range(1, 6)],
        "Track (TrackId INTEGER PRIMARY KEY, Name TEXT, GenreId INTEGER REFERENCES Genre, Milliseconds INTEGER)":
            [(key, f"track {key}", 1 + key % 5, 1000 * key) for key in range(1, 101)],
        "Customer (CustomerId INTEGER PRIMARY KEY, Country TEXT)": [(key, f"country {key % 4}") for key in range(1, 41)],
        "Invoice (InvoiceId INTEGER PRIMARY KEY, CustomerId INTEGER REFERENCES Customer, InvoiceDate DATETIME, Total NUMERIC)":
            invoices,
        "InvoiceLine (InvoiceLineId INTEGER PRIMARY KEY, InvoiceId INTEGER REFERENCES Invoice, TrackId INTEGER REFERENCES Track,"
        " UnitPrice NUMERIC, Quantity INTEGER)":
            [(key, 1 + key % 400, dice.randrange(1, 101), 0.99, 1) for key in range(1, 1201)],
    })  # fmt: skip


def make_trade(path: Path) -> None:
    dice = random.Random(2)
    orders = []
    for key in range(10248, 10548):
        placed = (key - 10248) * 2
        shipped = day(placed + dice.randrange(1, 35)) if dice.random() < 0.95 else None
        orders.append((key, f"C{dice.randrange(30):04d}", day(placed), day(placed + 28), shipped, round(dice.uniform(1, 99), 2)))
    lines = sorted({(order[0], dice.randrange(1, 41)) for order in orders for _ in range(3)})
    fill(path, {
        "Products (ProductID INTEGER PRIMARY KEY, ProductName TEXT, UnitPrice NUMERIC)":
            [(key, f"product {key}", key * 1.5) for key in range(1, 41)],
        "Customers (CustomerID TEXT PRIMARY KEY, Country TEXT)": [(f"C{key:04d}", f"country {key % 5}") for key in range(30)],
        "Orders (OrderID INTEGER PRIMARY KEY, CustomerID TEXT REFERENCES Customers, OrderDate DATETIME, RequiredDate DATETIME,"
        " ShippedDate DATETIME, Freight NUMERIC)": orders,
        '"Order Details" (OrderID INTEGER REFERENCES Orders, ProductID INTEGER REFERENCES Products, Quantity INTEGER,'
        " Discount REAL, PRIMARY KEY (OrderID, ProductID))": [(*line, dice.randrange(1, 50), 0.05) for line in lines],
    })  # fmt: skip


class Tutorials(unittest.TestCase):
    def give(self, page: str, folder: Path) -> str:
        """Gives a page's commands in a folder: what they say."""
        commands = re.findall(r"^```sh\n(.*?)^```$", (ROOT / f"docs/{page}.md").read_text(), re.M | re.S)
        (folder / "bin").mkdir()
        (folder / "bin/weir").symlink_to(Path(os.environ["WEIR"]).resolve())
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
        done = subprocess.run(["sh", "-ec", "".join(commands)], cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def follow(self, name: str, make: Callable[[Path], None]) -> tuple[str, dict[str, int]]:
        """A tutorial on its database: what its commands say, and how many seeds each dataset has."""
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            make(folder / f"{name}.sqlite")
            output = self.give(f"tutorial-{name}", folder)
            self.assertNotIn("WARNING", output)
            self.assertIn("</html>", (folder / f"{name}.html").read_text())
            datasets = json.loads((folder / f"{name}.manifest.json").read_text())["datasets"]
            return output, {key: dataset["cardinality"] for key, dataset in datasets.items()}

    def test_serving(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            said = self.give("serving", Path(folder))
        for expected in ("not a seed of the store: the target is null", "(like_new_categories)", "the same context"):
            self.assertIn(expected, said)

    def test_music(self) -> None:
        output, seeds = self.follow("music", make_music)
        self.assertEqual(seeds, {"music/spend/train": 400, "music/spend/val": 40, "music/spend/test": 40})
        self.assertIn("every digest is equal", output)

    def test_trade(self) -> None:
        _, seeds = self.follow("trade", make_trade)
        self.assertEqual(sorted(seeds), ["trade/late/test", "trade/late/train", "trade/late/val"])
        self.assertEqual(sum(seeds.values()), 284)  # the orders that have shipped


if __name__ == "__main__":
    unittest.main()
