"""Trains a relational transformer on tasks of a store, your own or the demo's, on the CPU or a GPU.

    python3 examples/train.py shop.weir late                          one task, a small model
    python3 examples/train.py shop.weir late=2 churn rating category  several at once, late twice as often
    python3 examples/train.py shop.weir late --device cuda --size large --length 1024 --workers 8
    torchrun --nproc_per_node 2 examples/train.py shop.weir late

--size large is 12 layers of 512, through torch.compile; on a GPU in bfloat16, with the steps of a task as a CUDA graph.

A target may be boolean, numerical, categorical or a timestamp. The manifest is the one that `weir ingest` wrote beside
the store. With --checkpoint the run saves model, optimizer and loader every few steps, and resumes there when it is
started again, after a kill too. With --record it writes a line per step: the samples' digests and the loss, bit for bit;
examples/prove_resume.py compares such records. At the end it evaluates on the val split of each task."""

import argparse
import json
import os
import time
from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
import weir
import weir.torch
from relational_transformer import RecordedStep, RelationalTransformer, inputs_of

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))
SIZES = {"small": {"width": 64, "layers": 2, "heads": 4}, "large": {"width": 512, "layers": 12, "heads": 8}}
LEARNING_RATES = {"small": 7e-4, "large": 2e-4}
WARM_STEPS = 100  # of the large model: full steps from the beginning would ruin it


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="a store that `weir ingest` or `weir demo` made")
    parser.add_argument("tasks", nargs="+", metavar="TASK[=WEIGHT]", help="of the store; a weight says how often")
    parser.add_argument("--manifest", type=Path, help="without it STORE.manifest.json, beside the store")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=32, help="sequences per step, of all ranks together")
    parser.add_argument("--length", type=int, default=64, help="cells per sequence")
    parser.add_argument("--size", choices=SIZES, default="small", help="of the model")
    parser.add_argument("--attention", choices=("weir", "sdpa", "flex", "none"), default="weir", help="whose attention; "
                        "all but none compute the same")
    parser.add_argument("--learning-rate", type=float, help="without it 7e-4 for the small model; 2e-4 for the large one, after "
                        f"a rise over {WARM_STEPS} steps")
    parser.add_argument("--workers", type=int, default=1, help="threads that build batches")
    parser.add_argument("--device", help="cuda: batches are copied there ahead of the loop")
    parser.add_argument("--checkpoint", type=Path, help="save here, and resume from here if it is there")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--record", type=Path, help="a JSON line per step; a resumed run appends")
    parser.add_argument("--evaluate", type=int, metavar="STEPS", help="evaluate on that many batches of each val split, taken "
                        "from all of it; without it, on all")
    arguments = parser.parse_args()
    arguments.learning_rate = arguments.learning_rate or LEARNING_RATES[arguments.size]
    return arguments


def read_tasks(arguments: argparse.Namespace, store: weir.Store) -> dict[str, int]:
    """The tasks that are asked for, with their weights."""
    known = [task["name"] for task in store.info["tasks"]]
    tasks = {}
    for text in arguments.tasks:
        name, _, weight = text.partition("=")
        if name not in known:
            raise SystemExit(f"{arguments.store} has no task {name}; it has {', '.join(known) or 'none: add some to its schema'}")
        tasks[name] = int(weight or 1)
    return tasks


def small_manifest(arguments: argparse.Namespace, store: weir.Store, tasks: dict[str, int]) -> weir.Manifest:
    """The store's manifest with these tasks, and batches of one shape, which torch.compile wants."""
    path = arguments.manifest or arguments.store.with_suffix(".manifest.json")
    mix = {f"{store.name}/{task}/train": weight for task, weight in tasks.items()}
    batch = {"sequence_length": arguments.length, "max_rows": min(arguments.length, 256), "pad_rows": True}
    return weir.Manifest(path, global_batch_size=arguments.batch_size, mix=mix, batch=batch)


def precision(arguments: argparse.Namespace) -> AbstractContextManager:
    """bfloat16 for the large model on a GPU, else float32."""
    if arguments.size == "large" and arguments.device:
        return torch.autocast("cuda", torch.bfloat16)
    return nullcontext()


def save(path: Path, **state: object) -> None:
    """Whole or not at all: a kill in the middle leaves the one before."""
    unfinished = path.with_name(path.name + ".unfinished")
    torch.save(state, unfinished)
    os.replace(unfinished, path)


def average_gradients(model: torch.nn.Module) -> None:
    """The mean over ranks, in one order, so that every run gives the same bits. All ranks have the same task at a step,
    so they have the same gradients."""
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            parameter.grad /= WORLD_SIZE


def step_of(optimizer: torch.optim.Optimizer, model: torch.nn.Module, step: int, arguments: argparse.Namespace) -> None:
    """The optimizer's step; of the large model with small ones first and gradients of bounded length. What it does depends
    on the number of the step, not on how often the run was resumed."""
    if arguments.size == "large":
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = arguments.learning_rate * min(1.0, (step + 1) / WARM_STEPS)
    optimizer.step()


def train(arguments: argparse.Namespace, store: weir.Store, manifest: weir.Manifest) -> RelationalTransformer:
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    if hasattr(torch.utils, "deterministic"):
        torch.utils.deterministic.fill_uninitialized_memory = False  # all of it is written before it is read
    loader = weir.Loader(store, manifest, steps=arguments.steps, epochs=1, workers=arguments.workers, with_digests=True,
                         device=arguments.device)
    checkpoint = arguments.checkpoint and Path(f"{arguments.checkpoint}.rank{RANK}")
    saved = torch.load(checkpoint, map_location=arguments.device) if checkpoint and checkpoint.exists() else None
    if saved:  # before the tables are asked for, which begins the run
        loader.load_state_dict(saved["loader"])
    tables = {name: table.torch() for name, table in loader.tables(store).items()}
    model = RelationalTransformer(store, **SIZES[arguments.size], attention=arguments.attention, tables=tables)
    model.to(arguments.device or "cpu")  # the tables are there already
    if arguments.size == "large":
        model.compile_layers()
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        print(f"rank {RANK}: resuming at step {loader.step}", flush=True)
    record = arguments.record and open(f"{arguments.record}.rank{RANK}", "a", encoding="utf-8")
    recent, began, steps = defaultdict(list), time.monotonic(), {}
    for batch in loader:
        if arguments.size == "large" and arguments.device:
            if batch.task not in steps:
                steps[batch.task] = RecordedStep(model, batch)
            loss = steps[batch.task](batch).mean()
        else:
            losses, _ = model.losses(inputs_of(batch), batch.target, batch.category_start)
            loss = losses.mean()
            optimizer.zero_grad(set_to_none=True)  # a head that has no part in a step is left alone, as after a resume
            loss.backward()
        if WORLD_SIZE > 1:
            average_gradients(model)
        step_of(optimizer, model, batch.step, arguments)
        recent[batch.task].append(loss.item())
        if record:
            line = {"step": batch.step, "dataset": batch.dataset, "loss": loss.item().hex(),
                    "samples": [f"{digest:016x}" for digest in batch.sample_digests.tolist()]}
            print(json.dumps(line), file=record, flush=True)
        if (batch.step + 1) % arguments.every == 0:
            if checkpoint:
                save(checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(), loader=loader.state_dict())
            if RANK == 0:
                shown = "  ".join(f"{task} {sum(values) / len(values):.3f}" for task, values in sorted(recent.items()))
                print(f"step {batch.step + 1:4}  {time.monotonic() - began:5.1f} s  {shown}", flush=True)
            recent.clear()
    return model


def chance(stype: str, answers: list[float], mean: float) -> list[float]:
    """What an answer that looks at nothing would say, each time: the commonest class, or the training set's mean."""
    if stype == "categorical":
        return [max(set(answers), key=answers.count)] * len(answers)
    return [0.0 if stype == "boolean" else mean] * len(answers)


@torch.no_grad()
def evaluate(model: RelationalTransformer, store: weir.Store, manifest: weir.Manifest, task: str,
             arguments: argparse.Namespace) -> None:
    """What the held-out split says, beside what an answer that looks at nothing gets. In a seeded order, so that a part
    of it says something about all."""
    predictions, answers = [], []
    dataset = f"{store.name}/{task}/val"
    if not store.datasets[dataset]["cardinality"]:
        print(f"{task:10} has an empty val split")
        return
    with weir.Loader(store, manifest, dataset=dataset, stage="eval_seeded", rank=0, world_size=1, steps=arguments.evaluate,
                     device=arguments.device) as loader:
        for batch in loader:
            target = batch.target
            values, is_null = target.torch()
            with precision(arguments):
                prediction = model.losses(inputs_of(batch), target, batch.category_start)[1].float()
            if target.stype in ("numerical", "timestamp"):  # as the database has them
                prediction, values = (numbers.double() * target.std + target.mean for numbers in (prediction, values))
            predictions += prediction[~is_null].tolist()
            answers += values[~is_null].tolist()
    found = weir.metrics.usual(target.stype, predictions, answers)
    blind = weir.metrics.usual(target.stype, chance(target.stype, answers, target.mean), answers)
    shown = ", ".join(f"{name} {value:.3f} ({blind[name]:.3f} by chance)" for name, value in found.items())
    print(f"{task:10} {shown}, over {len(answers)}")


def main() -> None:
    arguments = parse_arguments()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what CUDA wants for the same bits every time
    torch.set_num_threads(1)  # small matrices: more threads only wait for each other, and sums keep one order
    if WORLD_SIZE > 1:
        dist.init_process_group("gloo")
    store = weir.Store(arguments.store)
    tasks = read_tasks(arguments, store)
    manifest = small_manifest(arguments, store, tasks)
    model = train(arguments, store, manifest)
    if RANK == 0:
        for task in tasks:
            evaluate(model, store, manifest, task, arguments)
    if WORLD_SIZE > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
