"""The Formula 1 database from CSV files to published tasks: ingest, check, train, compare.

    python3 examples/f1/f1.py FOLDER --out build/f1                  on the CPU, one small run: minutes
    python3 examples/f1/f1.py FOLDER --out build/f1 --device cuda    what docs/f1.md shows
    python3 examples/f1/f1.py --out build/f1 --report                the tables again, of all seeds that were trained

FOLDER holds the tables of the Ergast motor racing database as CSV files with a header each: circuits, constructors,
constructor_results, constructor_standings, drivers, driver_standings, qualifying, races, results. They are not weir's to
give away. RelBench (https://relbench.stanford.edu, rel-f1) and Kaggle (Formula 1 World Championship) describe where to get
them and under which terms.

On a GPU the model for the live regime first learns to tell what hidden cells hold (pretraining), then the tasks.

Two regimes: *live*, in which each seed sees everything up to its own time, and *frozen*, in which nothing after the
beginning of its split is seen (2010-01-01 for test), as RelBench's own code has it. Which evaluation of which model
counts, and how positions are scaled, is decided on the val split alone."""

import argparse
import copy
import csv
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import torch
import weir
import weir.torch
from torch import Tensor
from torch.nn import functional
from weir import SemanticType, metrics

sys.path.insert(0, str(Path(__file__).parents[1]))
import tasks as f1_tasks  # noqa: E402
from relational_transformer import DAY, RelationalTransformer, inputs_of  # noqa: E402
from tasks import LAGS, PUBLISHED, TEST, VAL, question_and_lag  # noqa: E402

TABLES = ("circuits", "constructors", "constructor_results", "constructor_standings", "drivers", "driver_standings",
          "qualifying", "races", "results")  # fmt: skip
REGIMES = ("live", "frozen")
UNTIL = {"val": VAL * 1_000_000, "test": TEST * 1_000_000}  # of the frozen regime
CENTRE, SPREAD = 13.9, 6.5  # positions, as the model has them
MAX_ROWS = 72  # of a sequence

# What others report, test: dnf AUROC, top3 AUROC, position MAE.
REPORTED = {
    "live": {
        "Relational Transformer": (0.7993, 0.8384, 3.425),
        "RT-J, in context (pretrained, 85 M)": (0.8308, 0.9100, 2.723),
        "RT-J, fine-tuned (pretrained, 85 M)": (0.8277, 0.9171, 2.646),
    },
    "frozen": {"LightGBM (RelBench)": (0.7255, 0.6493, 4.229), "GNN (RelBench)": (0.7261, 0.6801, 4.062)},
}
# Seeds and label means of the published data: train, val, test.
SEEDS = {
    "dnf": ((11_411, 0.880379), (566, 0.779152), (702, 0.705128)),
    "top3": ((1_353, 0.170732), (588, 0.202381), (726, 0.176309)),
    "position": ((7_453, 13.901438), (499, 11.083200), (760, 11.926206)),
}


class Settings(NamedTuple):
    width: int = 64
    layers: int = 3
    heads: int = 4
    dropout: float = 0.2
    hidden_cells: float = 0.1  # a share of the cells is hidden in training, anew in each step
    length: int = 216
    batch_size: int = 256
    steps: int = 800  # of a model for the live regime; twice as many for the one that looks ahead
    pretraining: int = 1200  # steps before those, of the model for the live regime
    hidden_when_pretraining: tuple[float, float] = (0.15, 0.15)  # a share of the cells, and of whole rows
    learning_rate: float = 1e-3
    weight_decay: float = 0.05
    averaging: float = 0.995  # of the weights that are evaluated
    evaluations: int = 4


ON_CPU = Settings(batch_size=64, steps=120, pretraining=0, averaging=0.98, evaluations=2, width=32, heads=2, layers=2)


# ---- From CSV files to a store ---------------------------------------------------------------------------------------


def ingest(folder: Path, out: Path) -> weir.Store:
    missing = [table for table in TABLES if not (folder / f"{table}.csv").exists()]
    if missing:
        raise SystemExit(f"{folder} lacks {', '.join(f'{table}.csv' for table in missing)}.\n{__doc__.split(chr(10) * 2)[2]}")
    with warnings.catch_warnings():  # tasks that are for training alone have no val and no test split
        warnings.simplefilter("ignore", weir.IngestWarning)
        report = weir.ingest(folder, out / "f1.weir", schema=f1_tasks.schema(), manifest_mode="replace")
    print(f"{report.rows} rows and {report.seeds} seeds in {report.total_ns / 1e9:.1f} s", flush=True)
    return weir.Store(report.store_path)


def manifest_of(store: weir.Store, settings: Settings, seed: int = 0, mix: dict[str, int] | None = None,
                **options: object) -> weir.Manifest:
    """How batches are drawn: the newest results, qualifyings and standings of a driver, and their races and teams."""
    batch = {"sequence_length": settings.length, "max_hops": 2, "child_width": 16, "child_policy": "latest",
             "identifiers": "omit", "max_rows": MAX_ROWS, "pad_rows": True, **options}
    return weir.Manifest(
        Path(store.path).with_suffix(".manifest.json"), seed=seed, global_batch_size=settings.batch_size,
        mix={f"f1/{task}/train": weight for task, weight in (mix or {"dnf": 1}).items()}, batch=batch,
        data={"drop_last": True, "intra_block": "feistel_v1", "rotate": True},
    )  # fmt: skip


def check(store: weir.Store, folder: Path) -> None:
    """Every seed and label that the store has, against the tasks' definition; then the counts against the published ones."""
    keys = store.keys("drivers")
    manifest = manifest_of(store, Settings(length=1))
    for question in PUBLISHED:
        expected = f1_tasks.seeds_by_definition(folder, question)
        for split, published in zip(("train", "val", "test"), SEEDS[question]):
            found = {}
            for batch in weir.Loader(store, manifest, dataset=f"f1/{question}/{split}", stage="eval", rank=0, world_size=1):
                values = batch.target.values.tolist()
                if question == "position":
                    values = [value * batch.target.std + batch.target.mean for value in values]
                times = [time // 1_000_000 for time in batch.observation_time.tolist()]
                found.update(zip(zip(keys[batch.anchor_row], times), values))
            wrong = found.keys() ^ expected[split].keys()
            wrong |= {seed for seed in found.keys() - wrong if abs(found[seed] - expected[split][seed]) > 1e-4}
            if wrong:
                raise SystemExit(f"{question}/{split}: {len(wrong)} seeds are not as the task defines them, such as {min(wrong)}")
            mean = math.fsum(found.values()) / max(len(found), 1)
            as_published = len(found) == published[0] and abs(mean - published[1]) < 1e-5
            print(f"{question:9}{split:6}{len(found):6} seeds, label mean {mean:9.6f}  as defined"
                  + (", as published" if as_published else f"; published: {published[0]}, {published[1]:.6f}"), flush=True)


# ---- Batches as the model takes them ---------------------------------------------------------------------------------


def prepare(batch: weir.Batch, store: weir.Store, until: int | None = None) -> tuple[weir.torch.Tensors, Tensor]:
    """(inputs, labels). A task that looks ahead is the published task at a later time, of which less is known."""
    question, lag = question_and_lag(batch.task)
    inputs = inputs_of(batch)
    inputs["lag"] = inputs["lag"] + lag * DAY
    inputs["time"] = inputs["time"] + lag * DAY
    if until is not None:
        inputs["lag"] = (inputs["time"] - until).clamp(min=0)
    column = next((task["column_idx"] for task in store.info["tasks"] if task["name"] == question), None)
    if column is not None:
        inputs["column_ids"] = inputs["column_ids"].clone()
        inputs["column_ids"][:, 0] = column
    labels, _ = batch.target.torch()
    if batch.target.stype == "numerical":
        labels = (labels * batch.target.std + batch.target.mean - CENTRE) / SPREAD
    return inputs, labels.float()


class Part(NamedTuple):
    """A split of a task in a regime, ready to be evaluated as often as one likes."""

    regime: str
    split: str
    task: str
    keys: list[tuple[object, int]]
    labels: Tensor
    inputs: list[weir.torch.Tensors]


def parts_of(store: weir.Store, settings: Settings, device: str) -> Iterator[Part]:
    keys = store.keys("drivers")
    for regime in REGIMES:
        for split, until in UNTIL.items():
            frozen = {"context_until": until} if regime == "frozen" else {}
            manifest = manifest_of(store, settings, **frozen)
            for task in PUBLISHED:
                inputs, labels, names = [], [], []
                loader = weir.Loader(store, manifest, dataset=f"f1/{task}/{split}", stage="eval", rank=0, world_size=1)
                for batch in loader:
                    tensors, truth = prepare(batch, store, until if frozen else None)
                    inputs.append(weir.torch.Tensors((name, tensor.to(device, copy=True)) for name, tensor in tensors.items()))
                    labels.append(truth.clone())
                    names += zip(keys[batch.anchor_row], batch.observation_time.tolist())
                yield Part(regime, split, task, names, torch.cat(labels), inputs)


# ---- Training --------------------------------------------------------------------------------------------------------


def mixes() -> dict[str, dict[str, int]]:
    """Which tasks a model is trained on, and how often each comes."""
    live = {"position": 9, "dnf": 9, "top3-ahead-0": 6, "grid-ahead-0": 3}
    ahead = {f"{question}-ahead-{lag}": 2 if question == "dnf" else 1 for question, lags in LAGS.items() for lag in lags}
    return {"live": live, "ahead": {**live, **ahead}}


def new_model(store: weir.Store, settings: Settings, attention: str) -> RelationalTransformer:
    return RelationalTransformer(store, settings.width, settings.layers, settings.heads, settings.dropout, dates=False,
                                 attention=attention)


def loss_of(model: RelationalTransformer, at_target: Tensor, labels: Tensor, stype: str) -> Tensor:
    if stype == "numerical":
        return (model.number_head(at_target)[:, 0] - labels).abs().mean()
    scores = model.boolean_head(at_target)[:, 0]
    return functional.binary_cross_entropy_with_logits(scores, labels)


def hide(inputs: dict[str, Tensor], cells: float, rows: float = 0.0) -> Tensor:
    """bool [B, S]: which cells are hidden this time; of the rows a share is hidden as a whole. Hides them in `inputs`."""
    shape, device = inputs["is_null"].shape, inputs["is_null"].device
    hidden = torch.rand(shape, device=device) < cells
    if rows > 0:
        whole = torch.rand(shape[0], MAX_ROWS, device=device) < rows
        hidden |= whole.gather(1, inputs["seq_row_ids"].long().clamp(0, MAX_ROWS - 1))
    hidden &= ~(inputs["is_target"] | inputs["is_padding"] | inputs["is_null"])
    inputs["is_null"] = inputs["is_null"] | hidden
    return hidden


class HiddenCells(torch.nn.Module):
    """Tells what hidden cells hold, numbers and categories, from the vectors at their places."""

    def __init__(self, width: int, categories: int) -> None:
        super().__init__()
        self.numbers = torch.nn.Linear(width, 1)
        self.categories = torch.nn.Linear(width, categories)

    def forward(self, vectors: Tensor, inputs: dict[str, Tensor], hidden: Tensor) -> Tensor:
        types = inputs["semantic_types"]
        is_number, is_category = (hidden & (types == int(stype)) for stype in (SemanticType.NUMERICAL, SemanticType.CATEGORICAL))
        found, wanted = self.numbers(vectors)[..., 0], inputs["numeric_values"].clamp(-4, 4)
        of_numbers = functional.smooth_l1_loss(found, wanted, reduction="none")
        classes = inputs["categorical_embed_ids"].long() * is_category
        of_categories = functional.cross_entropy(self.categories(vectors).transpose(1, 2), classes, reduction="none")
        return mean_of(of_numbers, is_number) + 0.3 * mean_of(of_categories, is_category)


def mean_of(losses: Tensor, which: Tensor) -> Tensor:
    return (losses * which).sum() / which.sum().clamp(min=1)


class Evaluation(NamedTuple):
    weights: dict[str, Tensor]
    on_val: dict[tuple[str, str, str], Tensor]  # the predictions, by regime, split and task


class Trainer:
    """Trains models one after the other in the same module, so that it is compiled once."""

    def __init__(self, store: weir.Store, settings: Settings, arguments: argparse.Namespace) -> None:
        self.store, self.settings, self.device, self.attention = store, settings, arguments.device, arguments.attention
        self.workers = arguments.workers
        self.model = new_model(store, settings, self.attention).to(self.device)
        self.average = copy.deepcopy(self.model).eval()  # what is evaluated
        self.is_cuda = torch.device(self.device).type == "cuda"
        if self.is_cuda:
            self.model.compile_layers()
        self.parts = list(parts_of(store, settings, self.device))

    def precision(self) -> object:
        return torch.autocast("cuda", torch.bfloat16) if self.is_cuda else nullcontext()

    def begin(self, seed: int) -> None:
        torch.manual_seed(seed)
        weights = new_model(self.store, self.settings, self.attention).state_dict()
        self.model.load_state_dict(weights)
        self.average.load_state_dict(weights)

    def advance(self, mix: dict[str, int], steps: int, seed: int, loss_of_batch: Callable[[weir.Batch], Tensor],
                *more: torch.nn.Module) -> Iterator[int]:
        """Trains the model, and what else learns with it; gives the number of steps after each."""
        settings, parameters = self.settings, [parameter for module in (self.model, *more) for parameter in module.parameters()]
        matrices = [parameter for parameter in parameters if parameter.dim() > 1]
        others = [parameter for parameter in parameters if parameter.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=(0.9, 0.98))
        warm = min(100, (steps + 3) // 4)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * max(0, step - warm) / max(1, steps - warm)))
        )
        loader = weir.Loader(self.store, manifest_of(self.store, settings, seed, mix), steps=steps, epochs=1, rank=0, world_size=1,
                             workers=self.workers, device=self.device if self.is_cuda else None)
        for batch in loader:
            loss = loss_of_batch(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            schedule.step()
            done = batch.step + 1
            with torch.no_grad():
                share = 1 - min(settings.averaging, done / (done + 10))
                for mean, new in zip(self.average.parameters(), self.model.parameters()):
                    mean.lerp_(new, share)
            del batch
            yield done

    def pretrain(self, mix: dict[str, int], steps: int, seed: int) -> None:
        """Contexts alone, no labels: cells and whole rows are hidden, and the model learns to tell what they hold."""
        head = HiddenCells(self.settings.width, len(self.model.encoder.categories)).to(self.device)

        def loss_of_batch(batch: weir.Batch) -> Tensor:
            inputs, _ = prepare(batch, self.store)
            hidden = hide(inputs, *self.settings.hidden_when_pretraining)
            with self.precision():
                vectors = self.model.norm(self.model.vectors(inputs))
            return head(vectors.float(), inputs, hidden)

        for _ in self.advance(mix, steps, seed + 1000, loss_of_batch, head):  # not the batches that training begins with
            pass

    def train(self, mix: dict[str, int], steps: int, seed: int) -> Iterator[Evaluation]:
        """The mean weights and what they say of the val splits, some times on the way."""

        def loss_of_batch(batch: weir.Batch) -> Tensor:
            inputs, labels = prepare(batch, self.store)
            hide(inputs, self.settings.hidden_cells)
            with self.precision():
                at_target = self.model(inputs)
            return loss_of(self.model, at_target.float(), labels, batch.target.stype)

        for done in self.advance(mix, steps, seed, loss_of_batch):
            if done % (steps // self.settings.evaluations) == 0:
                weights = {name: tensor.clone() for name, tensor in self.average.state_dict().items()}
                yield Evaluation(weights, {part[:3]: self.predictions(part) for part in self.parts if part.split == "val"})

    @torch.no_grad()
    def predictions(self, part: Part) -> Tensor:
        """Positions, or scores."""
        head = self.average.number_head if part.task == "position" else self.average.boolean_head
        found = []
        for inputs in part.inputs:
            with self.precision():
                at_target = self.average(inputs)
            found.append(head(at_target.float())[:, 0])
        scores = torch.cat(found).cpu()
        return scores * SPREAD + CENTRE if part.task == "position" else scores

    def run(self, seed: int) -> list[Tensor]:
        """The predictions of a run, by part: trains both models; of the evaluations on the way those that are best on val
        count."""
        by_kind: dict[str, list[Evaluation]] = {}
        for kind, mix in mixes().items():
            steps, began = self.settings.steps * (2 if kind == "ahead" else 1), time.monotonic()
            self.begin(seed)
            if kind == "live" and self.settings.pretraining > 0:
                self.pretrain(mix, self.settings.pretraining, seed)
                print(f"run {seed} {kind:5} {time.monotonic() - began:6.1f} s  pretrained", flush=True)
            for evaluation in self.train(mix, steps, seed):
                by_kind.setdefault(kind, []).append(evaluation)
                shown = "  ".join(f"{part.regime} {part.task} {score(part, evaluation.on_val[part[:3]]):.4f}"
                                  for part in self.parts if part.split == "val")
                print(f"run {seed} {kind:5} {time.monotonic() - began:6.1f} s  val: {shown}", flush=True)
        found = [self.chosen(part, by_kind) for part in self.parts]
        return [self.scaled(number, found) for number in range(len(self.parts))]

    def val_of(self, part: Part) -> Part:
        return next(other for other in self.parts if other[:3] == (part.regime, "val", part.task))

    def chosen(self, part: Part, by_kind: dict[str, list[Evaluation]]) -> Tensor:
        """What the best evaluation of one of the two models says, or the mean of both: whichever is best on val."""
        val = self.val_of(part)

        def loss(predictions: Tensor) -> float:
            return score(val, predictions) * (1 if val.task == "position" else -1)

        best = [min(evaluations, key=lambda one: loss(one.on_val[val[:3]])) for evaluations in by_kind.values()]
        sets = [[one] for one in best] + [best]
        picked = min(sets, key=lambda several: loss(torch.stack([one.on_val[val[:3]] for one in several]).mean(0)))
        return torch.stack([self.of_weights(part, one) for one in picked]).mean(0)

    def of_weights(self, part: Part, evaluation: Evaluation) -> Tensor:
        if part.split == "val":
            return evaluation.on_val[part[:3]]
        self.average.load_state_dict(evaluation.weights)
        return self.predictions(part)

    def scaled(self, number: int, means: list[Tensor]) -> Tensor:
        """Probabilities; positions stretched and shifted as val says: training saw larger and noisier fields."""
        part = self.parts[number]
        if part.task != "position":
            return means[number].sigmoid()
        partner = self.val_of(part)
        val, truth = means[next(i for i, other in enumerate(self.parts) if other is partner)], partner.labels * SPREAD + CENTRE
        steps = [(stretch / 20, shift / 4) for stretch in range(16, 29) for shift in range(-16, 17)]
        middle = val.mean()
        stretch, shift = min(steps, key=lambda step: ((val - middle) * step[0] + middle + step[1] - truth).abs().mean().item())
        return (means[number] - middle) * stretch + middle + shift


def score(part: Part, predictions: Tensor) -> float:
    if part.task == "position":
        return metrics.mae(predictions, part.labels * SPREAD + CENTRE)
    return metrics.auroc(predictions, part.labels)


# ---- What came out ---------------------------------------------------------------------------------------------------


def write(path: Path, parts: list[Part], predictions: list[Tensor]) -> None:
    """Keyed predictions: joins back to drivers.driverId."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(("regime", "split", "task", "driverId", "cutoff", "label", "prediction"))
        for part, found in zip(parts, predictions):
            labels = part.labels * SPREAD + CENTRE if part.task == "position" else part.labels
            for (driver, cutoff), label, prediction in zip(part.keys, labels.tolist(), found.tolist()):
                when = datetime.fromtimestamp(cutoff // 1_000_000, timezone.utc)
                out.writerow((part.regime, part.split, part.task, driver, f"{when:%Y-%m-%d}", f"{label:.6g}", f"{prediction:.6g}"))


Columns = dict[tuple[str, str, str], tuple[list[float], list[float]]]  # (predictions, labels) by regime, split and task


def read_predictions(path: Path) -> Columns:
    columns: Columns = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found = columns.setdefault((row["regime"], row["split"], row["task"]), ([], []))
            found[0].append(float(row["prediction"]))
            found[1].append(float(row["label"]))
    return columns


def metrics_of(columns: Columns) -> dict[tuple[str, str, str], float]:
    return {key: (metrics.mae if key[2] == "position" else metrics.auroc)(*pair) for key, pair in columns.items()}


def averaged(runs: list[Columns]) -> Columns:
    """The mean of the runs' predictions: what one would use."""
    return {key: ([math.fsum(several) / len(runs) for several in zip(*(run[key][0] for run in runs))], runs[0][key][1])
            for key in runs[0]}


def report(out: Path) -> None:
    runs = [read_predictions(path) for path in sorted(out.glob("predictions-*.csv"))]
    if not runs:
        raise SystemExit(f"{out} has no predictions yet: train first")
    each, together = [metrics_of(run) for run in runs], metrics_of(averaged(runs))
    for regime in REGIMES:
        print(f"\n{regime:44}{'dnf AUROC':>11}{'top3 AUROC':>12}{'position MAE':>14}")

        def show(name: str, values: Iterable[float]) -> None:
            dnf, top3, position = values
            print(f"{name:44}{dnf:11.4f}{top3:12.4f}{position:14.3f}")

        for split in ("val", "test"):
            columns = [[run[regime, split, task] for run in each] for task in PUBLISHED]
            show(f"weir, {split}: mean of {len(runs)} runs", (math.fsum(column) / len(column) for column in columns))
            show("  the largest less the least of them", (max(column) - min(column) for column in columns))
            show("  their predictions averaged", (together[regime, split, task] for task in PUBLISHED))
        for name, values in REPORTED[regime].items():
            show(f"{name}, test", values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with the CSV files")
    parser.add_argument("--out", type=Path, required=True, help="store, predictions and all else go there")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, nargs="+", help="runs; 0 1 2 on a GPU, 0 on a CPU")
    parser.add_argument("--steps", type=int, help="per model; fewer are quicker and worse")
    parser.add_argument("--pretraining", type=int, help="steps; 1200 on a GPU, none on a CPU")
    parser.add_argument("--workers", type=int, default=2, help="threads that build batches")
    parser.add_argument("--attention", choices=("weir", "sdpa"), default="weir")
    parser.add_argument("--store", type=Path, help="one that an earlier run has made; FOLDER may be left out, or is compared with it")
    parser.add_argument("--report", action="store_true", help="only print what the predictions in --out say")
    arguments = parser.parse_args()
    if not arguments.report:
        if arguments.store is None and arguments.folder is None:
            parser.error("name the folder with the CSV files")
        settings = ON_CPU if arguments.device == "cpu" else Settings()
        if arguments.steps is not None and arguments.steps < settings.evaluations:
            parser.error(f"--steps {arguments.steps} is too few: there are {settings.evaluations} evaluations on the way")
        if arguments.device != "cpu" and not torch.cuda.is_available():
            parser.error(f"--device {arguments.device}: the torch of {sys.executable} sees no GPU; make f1 PYTHON=... names another")
        arguments.out.mkdir(parents=True, exist_ok=True)
        store = weir.Store(arguments.store) if arguments.store else ingest(arguments.folder, arguments.out)
        if arguments.folder:
            check(store, arguments.folder)
        pretraining = settings.pretraining if arguments.pretraining is None else arguments.pretraining
        settings = settings._replace(steps=arguments.steps or settings.steps, pretraining=pretraining)
        trainer = Trainer(store, settings, arguments)
        for seed in arguments.seeds or ([0] if arguments.device == "cpu" else [0, 1, 2]):
            write(arguments.out / f"predictions-{seed}.csv", trainer.parts, trainer.run(seed))
    report(arguments.out)


if __name__ == "__main__":
    main()
