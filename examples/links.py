"""Trains two towers on links: which products will a customer buy in the next month? And shows what they know.

    python3 examples/links.py [FOLDER]

It makes a shop whose customers have a taste: a kind of products, of which most of their purchases are. No column
says it; what a customer bought before does. Some products are bought much more than others, so that popularity alone
is a fair guess. A link task has the purchases of each month; a batch has, for each of them, the customer, the product,
and negatives, each with its own context as of the first of the month. One tower makes vectors of customers, the
other of products, and a purchase is likely if the two agree. The test month is ranked by MAP and hit rate at 10,
beside what popularity at that time gives; less than that ends with status 1."""

import random
import sqlite3
import sys
import tempfile
import warnings
from datetime import date, timedelta
from pathlib import Path

import torch
import weir
from relational_transformer import CellEncoder, inputs_of
from torch import Tensor, nn
from torch.nn import functional

KINDS = ("tea", "knives", "lamps", "novels", "bicycles", "seeds", "paint", "records", "boots", "clocks", "puzzles", "rope")
CUSTOMERS, PRODUCTS, DAYS = 400, 156, 540
STEPS, BATCH_SIZE, NEGATIVES, CANDIDATES, K = 120, 16, 6, 40, 10
FIRST = date(2023, 1, 1)
MONTHS = [date(2023 + m // 12, 1 + m % 12, 1) for m in range(6, 18)]


def make_database(path: Path) -> None:
    rng = random.Random(7)
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, age REAL);"
        "CREATE TABLE products (id INTEGER PRIMARY KEY, kind TEXT, price REAL, since TEXT);"
        "CREATE TABLE purchases (id INTEGER PRIMARY KEY, customer INTEGER, product INTEGER, at TEXT);"
    )
    since = [FIRST + timedelta(days=rng.choice([0, 0, 0, rng.randrange(400)])) for _ in range(PRODUCTS)]
    for product in range(PRODUCTS):
        row = (product, KINDS[product % len(KINDS)], rng.random(), str(since[product]))
        connection.execute("INSERT INTO products VALUES (?, ?, ?, ?)", row)
    for customer in range(CUSTOMERS):
        taste = rng.randrange(len(KINDS))
        connection.execute("INSERT INTO customers VALUES (?, ?)", (customer, 20 + 60 * rng.random()))
        for day in sorted(rng.sample(range(DAYS), 30)):
            at = FIRST + timedelta(days=day)
            there = [p for p in range(PRODUCTS) if since[p] <= at and (rng.random() < 0.03 or p % len(KINDS) == taste)]
            product = rng.choices(there, [1 / (4 + p // len(KINDS)) for p in there])[0]  # the first of a kind are popular
            connection.execute("INSERT INTO purchases VALUES (NULL, ?, ?, ?)", (customer, product, f"{at} 12:00:00"))
    connection.commit()
    connection.close()


def schema() -> dict:
    months = " UNION ALL ".join(f"SELECT '{month}' AS at, '{month + timedelta(days=30)}' AS until" for month in MONTHS)
    query = f"SELECT p.customer, p.product, m.at FROM ({months}) m JOIN purchases p ON p.at > m.at AND p.at <= m.until"
    identifier, number, time = {"stype": "identifier"}, {"stype": "numerical"}, {"stype": "timestamp"}
    return {
        "name": "tastes",
        "tables": {
            "customers": {"primary_key": "id", "columns": {"id": identifier, "age": number}},
            "products": {"primary_key": "id", "temporal_column": "since",
                         "columns": {"id": identifier, "kind": {"stype": "categorical"}, "price": number, "since": time}},
            "purchases": {"primary_key": "id", "temporal_column": "at", "columns": {
                "id": identifier, "at": time, "customer": {**identifier, "foreign_key": "customers.id"},
                "product": {**identifier, "foreign_key": "products.id"}}},
        },
        "tasks": {"buys": {
            "kind": "link", "query": query, "anchor_table": "customers", "anchor_key": "customer",
            "destination_table": "products", "destination_key": "product", "observation_time_column": "at",
            "popularity": "purchases.product",
            "split": {"method": "temporal", "val": str(MONTHS[-2]), "test": str(MONTHS[-1])}}},
        "statistics_until": "train", "keys": True, "embedding": {"provider": "hash_v1", "dim": 64},
    }  # fmt: skip


class Tower(nn.Module):
    """A vector of a sequence: what its cells say, on average."""

    def __init__(self, store: weir.Store, width: int) -> None:
        super().__init__()
        self.cells = CellEncoder(store, width, dropout=0.0, dates=False, tables=None)
        self.out = nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, width))

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        is_cell = ~inputs["is_padding"][..., None]
        return self.out((self.cells(inputs) * is_cell).sum(1) / is_cell.sum(1).clamp(min=1))


class TwoTowers(nn.Module):
    """What a source seeks, and what a destination offers."""

    def __init__(self, store: weir.Store, width: int = 48) -> None:
        super().__init__()
        self.seeks, self.offers = Tower(store, width), Tower(store, width)

    def forward(self, batch: weir.Batch) -> Tensor:
        """[samples, 1 + negatives]: how well each destination fits its source; the true one comes first."""
        inputs = inputs_of(batch)
        is_source = batch.role.torch() == int(weir.Role.SOURCE)
        part = {True: {}, False: {}}
        for name in ("semantic_types", "column_ids", "is_null", "numeric_values", "timestamp_values", "bool_values",
                     "categorical_embed_ids", "is_target", "is_padding", "time", "lag", "texts"):  # fmt: skip
            part[True][name], part[False][name] = inputs[name][is_source], inputs[name][~is_source]
        sought, offered = self.seeks(part[True]), self.offers(part[False])
        scores = (sought[:, None] * offered.view(len(sought), -1, sought.shape[1])).sum(-1) * sought.shape[1] ** -0.5
        is_absent = (batch.num_cells.torch() == 0).view(-1, batch.group_size)[:, 1:]
        return scores.masked_fill(is_absent, -torch.inf)


def train(store: weir.Store, manifest: weir.Manifest) -> TwoTowers:
    torch.manual_seed(0)
    model = TwoTowers(store)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    with weir.Loader(store, manifest, dataset="tastes/buys/train", steps=STEPS, epochs=None) as loader:
        for batch in loader:
            scores = model(batch)
            loss = functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return model.eval()


def popularity(database: Path, store: weir.Store, rows: list[int], until: str) -> list[float]:
    """How often each product had been bought by then, from the database itself."""
    connection = sqlite3.connect(database)
    counts = dict(connection.execute("SELECT product, count(*) FROM purchases WHERE at <= ? GROUP BY product", (until,)))
    connection.close()
    keys = store.keys("products")
    return [float(counts.get(keys[row], 0)) for row in rows]


def evaluate(model: TwoTowers, database: Path, store: weir.Store, manifest: weir.Manifest) -> dict[str, dict[str, float]]:
    """MAP, hit rate, precision and recall at K of the test month, by the model and by popularity."""
    found: dict[str, list] = {"model": [], "popularity": [], "labels": [], "lists": [], "items": []}
    with torch.no_grad(), weir.Loader(store, manifest, dataset="tastes/buys/test", stage="eval") as loader:
        for batch in loader:
            scores, size = model(batch), batch.group_size
            rows = batch.anchor_row.torch().long().view(-1, size)
            for source, destinations, fits in zip(rows[:, 0].tolist(), rows[:, 1:].tolist(), scores.tolist()):
                there = [i for i, fit in enumerate(fits) if fit > -torch.inf]
                destinations = [destinations[i] for i in there]
                found["model"] += [fits[i] for i in there]
                found["popularity"] += popularity(database, store, destinations, str(MONTHS[-1]))
                found["labels"] += [True] + [False] * (len(there) - 1)
                found["lists"] += [source] * len(there)  # of one time all of them
                found["items"] += destinations
    return {name: weir.metrics.ranking(found[name], found["labels"], found["lists"], found["items"], k=K)
            for name in ("model", "popularity")}  # fmt: skip


def main() -> int:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as made:
        folder = given or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / "tastes.sqlite"
        database.unlink(missing_ok=True)
        make_database(database)
        warnings.simplefilter("ignore", weir.IngestWarning)  # customers have no time: they were always there
        weir.ingest(database, folder / "tastes.weir", schema=schema(), manifest_mode="replace")
        store = weir.Store(folder / "tastes.weir")
        manifest = weir.Manifest(folder / "tastes.manifest.json", global_batch_size=BATCH_SIZE, batch={
            "sequence_length": 64, "max_rows": 32, "child_width": 12, "identifiers": "omit", "child_policy": "latest", "max_hops": 2,
            "links": {"negatives": NEGATIVES, "candidates": CANDIDATES, "by": "uniform"}})  # fmt: skip
        found = evaluate(train(store, manifest), database, store, manifest)
    for name, metrics in found.items():
        print(f"{name:12}", ", ".join(f"{metric}@{K} {value:.3f}" for metric, value in metrics.items()), flush=True)
    is_better = all(found["model"][name] > found["popularity"][name] for name in ("map", "hit_rate"))
    print(f"links: the towers are {'better' if is_better else 'NOT better'} than popularity")
    return 0 if is_better else 1


if __name__ == "__main__":
    sys.exit(main())
