"""Trains one model on two databases at once, sequences of both in every batch, and shows that it learns both.

    python3 examples/mixed.py [FOLDER]

It makes a clinic, whose patients relapse if their readings are high, and a garage, whose cars are worn as their
repairs were dear. Their tables, columns and tasks have nothing in common, and one predicts a boolean, the other a
number. The manifest asks for mixed batches (`"mixed": true`), so that every step has sequences of both, in the
proportion of the mix. The model takes them as it takes any others: `column_ids` and `categorical_embed_ids` lead into
the tables of both stores, which are `loader.tables()`. In the end each task is evaluated on its own store, beside an
answer that looks at nothing; less than that ends with status 1. Two ranks are compared with one on the way."""

import json
import random
import sqlite3
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import weir
import weir.torch
from relational_transformer import RelationalTransformer, inputs_of

ENTITIES, STEPS, BATCH_SIZE = 400, 160, 16
NUMBER, IDENTIFIER = {"stype": "numerical"}, {"stype": "identifier"}


def make_clinic(path: Path) -> dict:
    rng, connection = random.Random(1), sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE patients (id INTEGER PRIMARY KEY, relapse BOOLEAN);"
        "CREATE TABLE readings (id INTEGER PRIMARY KEY, patient INTEGER, level REAL, ward TEXT);"
    )
    for patient in range(ENTITIES):
        level = rng.gauss(0, 1)
        connection.execute("INSERT INTO patients VALUES (?, ?)", (patient, level > 0))
        for _ in range(rng.randint(3, 6)):
            reading = (patient, level + rng.gauss(0, 0.5), rng.choice(["north", "south"]))
            connection.execute("INSERT INTO readings VALUES (NULL, ?, ?, ?)", reading)
    connection.commit()
    connection.close()
    return {
        "name": "clinic",
        "tables": {
            "patients": {"primary_key": "id", "columns": {"id": IDENTIFIER, "relapse": {"stype": "boolean"}}},
            "readings": {"primary_key": "id", "columns": {
                "id": IDENTIFIER, "patient": {**IDENTIFIER, "foreign_key": "patients.id"}, "level": NUMBER,
                "ward": {"stype": "categorical"}}},
        },
        "tasks": {"relapse": {"anchor_table": "patients", "target_column": "relapse", "target_stype": "boolean"}},
        "embedding": {"provider": "hash_v1", "dim": 32},
    }  # fmt: skip


def make_garage(path: Path) -> dict:
    rng, connection = random.Random(2), sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE cars (id INTEGER PRIMARY KEY, make TEXT, wear REAL);"
        "CREATE TABLE repairs (id INTEGER PRIMARY KEY, car INTEGER, cost REAL);"
    )
    for car in range(ENTITIES):
        wear = rng.gauss(50, 10)
        connection.execute("INSERT INTO cars VALUES (?, ?, ?)", (car, rng.choice(["Kite", "Rook", "Wren"]), wear))
        for _ in range(rng.randint(2, 5)):
            connection.execute("INSERT INTO repairs VALUES (NULL, ?, ?)", (car, 10 * wear + rng.gauss(0, 30)))
    connection.commit()
    connection.close()
    return {
        "name": "garage",
        "tables": {
            "cars": {"primary_key": "id", "columns": {"id": IDENTIFIER, "make": {"stype": "categorical"}, "wear": NUMBER}},
            "repairs": {"primary_key": "id", "columns": {
                "id": IDENTIFIER, "car": {**IDENTIFIER, "foreign_key": "cars.id"}, "cost": NUMBER}},
        },
        "tasks": {"wear": {"anchor_table": "cars", "target_column": "wear", "target_stype": "numerical"}},
        "embedding": {"provider": "hash_v1", "dim": 32},
    }  # fmt: skip


def make_stores(folder: Path) -> list[weir.Store]:
    warnings.simplefilter("ignore", weir.IngestWarning)  # nothing has a time here
    stores = []
    for make in (make_clinic, make_garage):
        database = folder / f"{make.__name__}.sqlite"
        database.unlink(missing_ok=True)
        schema = make(database)
        store = folder / f"{schema['name']}.weir"
        weir.ingest(database, store, schema=schema, manifest_mode="replace")
        stores.append(weir.Store(store))
    return stores


def mixed_manifest(folder: Path) -> weir.Manifest:
    """What ingest wrote for the two stores, as one manifest."""
    written = [json.loads((folder / f"{name}.manifest.json").read_text()) for name in ("clinic", "garage")]
    return weir.Manifest({
        "global_batch_size": BATCH_SIZE,
        "datasets": {key: dataset for manifest in written for key, dataset in manifest["datasets"].items()},
        "mix": {"clinic/relapse/train": 1, "garage/wear/train": 1},
        "data": {"epoch_boundary": "stream", "intra_block": "feistel_v1"},
        "batch": {"mixed": True, "sequence_length": 32, "max_rows": 16, "identifiers": "omit"},
    })  # fmt: skip


def train(stores: list[weir.Store], manifest: weir.Manifest) -> RelationalTransformer:
    torch.manual_seed(0)
    with weir.Loader(stores, manifest, steps=STEPS) as loader:
        tables = {name: table.torch() for name, table in loader.tables().items()}
        model = RelationalTransformer(stores[0], width=32, layers=2, heads=2, tables=tables)
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for batch in loader:
            loss = model.mixed_losses(inputs_of(batch), batch).mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
    return model.eval()


def evaluate(model: RelationalTransformer, store: weir.Store, manifest: weir.Manifest, dataset: str) -> tuple[float, float]:
    """The share of labels that are right, or the mean error, of the model and of an answer that looks at nothing."""
    model.encoder.columns, model.encoder.categories = (weir.torch.embeddings(store)[name] for name in ("columns", "categories"))
    predicted, wanted = [], []
    with torch.no_grad(), weir.Loader(store, manifest, dataset=dataset, stage="eval") as loader:
        for batch in loader:
            _, predictions = model.losses(inputs_of(batch), batch.target, batch.category_start)
            predicted.append(predictions)
            wanted.append(batch.target.torch()[0].float())
    answers, truth = torch.cat(predicted), torch.cat(wanted)
    if batch.target_stype == "boolean":
        return ((answers > 0) == (truth > 0.5)).float().mean().item(), max(truth.mean().item(), 1 - truth.mean().item())
    return (answers - truth).abs().mean().item(), (truth - truth.median()).abs().mean().item()


def ranks_agree(stores: list[weir.Store], manifest: weir.Manifest) -> bool:
    """Whether two ranks, put together, have what one has."""
    def digests(world_size: int) -> list[list[int]]:
        ranks = [weir.Loader(stores, manifest, steps=5, epochs=1, rank=rank, world_size=world_size, with_digests=True)
                 for rank in range(world_size)]  # fmt: skip
        return [sum((batch.sample_digests.tolist() for batch in step), []) for step in zip(*ranks)]

    return digests(1) == digests(2)


def main() -> int:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as made:
        folder = given or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        stores = make_stores(folder)
        manifest = mixed_manifest(folder)
        is_same = ranks_agree(stores, manifest)
        model = train(stores, manifest)
        right, guessed = evaluate(model, stores[0], manifest, "clinic/relapse/val")
        error, spread = evaluate(model, stores[1], manifest, "garage/wear/val")
    print(f"clinic: {right:.0%} of the patients are right; the more frequent answer is right for {guessed:.0%}")
    print(f"garage: the wear is off by {error:.2f} deviations; the median is off by {spread:.2f}")
    print(f"two ranks have {'the sequences of one' if is_same else 'OTHER sequences than one'}")
    is_learnt = right > guessed + 0.2 and error < 0.6 * spread
    print(f"mixed: one model learnt {'both databases' if is_learnt else 'NOT both databases'} from mixed batches")
    return 0 if is_learnt and is_same else 1


if __name__ == "__main__":
    sys.exit(main())
