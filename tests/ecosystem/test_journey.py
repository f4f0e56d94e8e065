"""The commands of docs/journey.md, one after the other, from a folder of CSV files to a trained model: in this environment,
and, with a manylinux wheel in dist/ (make wheels), in a bare Debian 12 that has never seen weir, Python or pip."""

import csv
import datetime
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WHEEL = Path(os.environ["WEIR_WHEEL"])
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/journey.md").read_text(), re.M | re.S)
INSTALL = 3  # the first commands make the environment in which this test runs already


def make_shop(folder: Path) -> None:
    """Customers and orders. Orders of one carrier, and to one region, are late more often; the rest is dice."""
    dice = random.Random(7)
    regions, carriers = ["north", "east", "south", "west"], ["swift", "steady", "slow"]
    start = datetime.datetime(2023, 1, 1)
    customers = []
    for key in range(100, 300):
        region = regions[dice.randrange(4)]
        customers.append((key, region, (start + datetime.timedelta(days=dice.randrange(200))).date()))
    orders = []
    for key in range(5000, 8000):
        customer, region, joined = dice.choice(customers)
        ordered = datetime.datetime.combine(joined, datetime.time()) + datetime.timedelta(minutes=dice.randrange(60 * 24 * 500))
        carrier = dice.choice(carriers)
        is_late = dice.random() < 0.1 + 0.5 * (carrier == "slow") + 0.2 * (region == "west")
        delivered = ordered + datetime.timedelta(days=9 if is_late else 3)
        orders.append((key, customer, ordered, carrier, round(dice.uniform(5, 200), 2), delivered, str(is_late).lower()))
    folder.mkdir()
    write(folder / "customers.csv", "customer_id,region,joined_on", customers)
    write(folder / "orders.csv", "order_id,customer_id,ordered_at,carrier,amount,delivered_at,late", orders)


def write(path: Path, names: str, rows: list[tuple]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names.split(","), *rows])


class Journey(unittest.TestCase):
    def prepare(self, folder: Path, wheel: Path) -> None:
        make_shop(folder / "mine")
        shutil.copy(wheel, folder)

    def check(self, folder: Path, output: str) -> None:
        datasets = json.loads((folder / "mine.manifest.json").read_text())["datasets"]
        self.assertEqual({key: dataset["cardinality"] for key, dataset in datasets.items()},
                         {"mine/late/train": 2329, "mine/late/val": 419, "mine/late/test": 252})  # fmt: skip
        auroc = re.search(r"val: auroc ([\d.]+) over 419", output)
        self.assertGreater(float(auroc[1]), 0.75, output)
        self.assertIn("</html>", (folder / "batch.html").read_text())
        self.assertIn('"tables"', (folder / "draft.json").read_text())
        self.assertGreater((folder / "model.pt").stat().st_size, 10_000)

    def test_the_page_has_ten_commands(self) -> None:
        self.assertEqual(len(COMMANDS), 10)
        steps = re.findall(r"^(\d+)\\\. ", (ROOT / "docs/journey.md").read_text(), re.M)
        self.assertEqual(steps, [str(step) for step in range(1, 11)])

    def test_in_this_environment(self) -> None:
        with tempfile.TemporaryDirectory() as holder:
            folder = Path(holder)
            self.prepare(folder, WHEEL)
            script = "set -e\n" + "".join(COMMANDS[INSTALL:])
            environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "WEIR_WHEEL")}
            done = subprocess.run(["sh", "-c", script], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout)
            self.check(folder, done.stdout)

    def test_on_a_bare_machine(self) -> None:
        wheels = sorted((ROOT / "dist").glob("weir-*manylinux*_x86_64.whl"))
        if not wheels:
            self.skipTest("there is no manylinux wheel in dist/ (make wheels)")
        if os.geteuid() != 0 or os.uname().machine != "x86_64":
            self.skipTest("a bare root needs root, on x86-64")
        with tempfile.TemporaryDirectory(prefix="weir-journey-") as holder:
            bare = Path(holder) / "root"
            made = subprocess.run([ROOT / "tools/bare-root", "make", "bookworm", bare], text=True, capture_output=True)
            if made.returncode != 0:
                self.skipTest(f"no bare root can be made here: {made.stderr.strip()[-200:]}")
            folder = bare / "root/journey"
            folder.mkdir()
            self.prepare(folder, wheels[-1])
            script = "set -e\ncd /root/journey\n" + "".join(COMMANDS)
            command = [ROOT / "tools/bare-root", "enter", bare, "env", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", script]
            done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:])
            self.check(folder, done.stdout)


if __name__ == "__main__":
    unittest.main()
