"""Trains a small relational transformer on three tasks of the demo shop at once, on the CPU or a GPU.

    python3 examples/train_shop.py weir-demo --steps 400
    python3 examples/train_shop.py weir-demo --steps 400 --device cuda
    torchrun --nproc_per_node 2 examples/train_shop.py weir-demo --steps 400

The folder is one that `weir demo` made. With --checkpoint the run saves model, optimizer and loader every few steps, and
goes on from there when it is started again, after a kill too. With --log it writes a line a step: the samples' digests and
the loss, bit for bit. examples/prove_resume.py compares such logs."""

import argparse
import json
import os
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.distributed as dist
import weir
from relational_transformer import RelationalTransformer

TASKS = {"late": 2, "churn": 1, "rating": 1}  # will the parcel be late, will the customer stay away, how many stars?

RANK = int(os.environ.get("RANK", "0"))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", "1"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where `weir demo` made the shop")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=32, help="sequences a step, of all ranks together")
    parser.add_argument("--length", type=int, default=64, help="cells a sequence")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--workers", type=int, default=1, help="threads that build batches")
    parser.add_argument("--device", help="cuda: batches are copied there ahead of the loop")
    parser.add_argument("--checkpoint", type=Path, help="save here, and go on from here if it is there")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--log", type=Path, help="a JSON line a step; a resumed run appends")
    return parser.parse_args()


def small_manifest(arguments: argparse.Namespace) -> weir.Manifest:
    """The demo's manifest with three of its tasks, and batches that a CPU can chew."""
    document = json.loads((arguments.folder / "shop.manifest.json").read_text())
    document["global_batch_size"] = arguments.batch_size
    document["mix"] = {f"shop/{task}/train": weight for task, weight in TASKS.items()}
    document["batch"] = {"sequence_length": arguments.length, "max_rows": 64}
    return weir.Manifest(document)


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


def train(arguments: argparse.Namespace, store: weir.Store, manifest: weir.Manifest) -> RelationalTransformer:
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    columns, categories = (torch.tensor(store.embeddings[kind].tolist()) for kind in ("columns", "categories"))
    model = RelationalTransformer(columns, categories).to(arguments.device or "cpu")
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.learning_rate)
    loader = weir.Loader(store, manifest, steps=arguments.steps, workers=arguments.workers, with_digests=True,
                         device=arguments.device)
    checkpoint = arguments.checkpoint and Path(f"{arguments.checkpoint}.rank{RANK}")
    if checkpoint and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=arguments.device)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        print(f"rank {RANK}: going on at step {loader.step}", flush=True)
    log = arguments.log and open(f"{arguments.log}.rank{RANK}", "a", encoding="utf-8")
    recent, began = defaultdict(list), time.monotonic()
    for batch in loader:
        losses, _ = model.losses(batch.torch(), batch.target_stype, batch.category_start, batch.category_count)
        loss = losses.mean()
        optimizer.zero_grad(set_to_none=True)  # a head that has no part in a step is left alone, as after a resume
        loss.backward()
        if WORLD_SIZE > 1:
            average_gradients(model)
        optimizer.step()
        recent[batch.task].append(loss.item())
        if log:
            line = {"step": batch.step, "dataset": batch.dataset, "loss": loss.item().hex(),
                    "samples": [f"{digest:016x}" for digest in batch.sample_digests.tolist()]}
            print(json.dumps(line), file=log, flush=True)
        if (batch.step + 1) % arguments.every == 0:
            if checkpoint:
                save(checkpoint, model=model.state_dict(), optimizer=optimizer.state_dict(), loader=loader.state_dict())
            if RANK == 0:
                shown = "  ".join(f"{task} {sum(values) / len(values):.3f}" for task, values in sorted(recent.items()))
                print(f"step {batch.step + 1:4}  {time.monotonic() - began:5.1f} s  {shown}", flush=True)
            recent.clear()
    return model


def auc(scores: torch.Tensor, answers: torch.Tensor) -> float:
    """How often a true one scores above a false one: 0.5 by chance."""
    true, false = scores[answers.bool()], scores[~answers.bool()]
    return (true[:, None] > false[None, :]).float().mean().item()


@torch.no_grad()
def evaluate(model: RelationalTransformer, store: weir.Store, manifest: weir.Manifest, device: str | None) -> None:
    """What the held-out splits say, beside what an answer that looks at nothing gets."""
    for task in TASKS:
        predictions, answers = [], []
        with weir.Loader(store, manifest, dataset=f"shop/{task}/val", stage="eval", rank=0, world_size=1,
                         device=device) as loader:
            for batch in loader:
                tensors = batch.torch()
                predictions.append(model.losses(tensors, batch.target_stype)[1])
                values = tensors["bool_values" if batch.target_stype == "boolean" else "numeric_values"]
                answers.append(values[:, 0].clone())
        prediction, answer = torch.cat(predictions), torch.cat(answers)
        if answer.dtype == torch.bool:
            print(f"{task:7} AUC {auc(prediction, answer):.3f} over {len(answer)} (by chance: 0.500)")
        else:
            error = (prediction - answer).square().mean().item()
            spread = answer.var(unbiased=False).item()
            print(f"{task:7} explains {1 - error / spread:.3f} of the variance over {len(answer)} (the mean: 0.000)")


def main() -> None:
    arguments = parse_arguments()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what CUDA wants for the same bits every time
    torch.set_num_threads(1)  # small matrices: more threads only wait for each other, and sums keep one order
    if WORLD_SIZE > 1:
        dist.init_process_group("gloo")
    store = weir.Store(arguments.folder / "shop.weir")
    manifest = small_manifest(arguments)
    model = train(arguments, store, manifest)
    if RANK == 0:
        evaluate(model, store, manifest, arguments.device)


if __name__ == "__main__":
    main()
