"""The relational transformer of examples/ as people train it, on a GPU: 12 layers of 512, bfloat16, torch.compile. Cells a second with weir's
attention, beside the same model with PyTorch's attentions and with attention left out; and from the loader, beside one batch that is there already.
Prints nothing if there is no PyTorch or no GPU.

    bench_model.py [--store STORE] [--length S] [--attention HOW]      without a store: the demo shop of 100,000 rows, made by build/weir

Each attention has a process of its own; steps are CUDA graphs, but FlexAttention's. They compile together, and measure one after the other when all have compiled. --tiny is a small model on
the CPU, to see that this program works.
"""

import argparse
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, os.environ.get("WEIR_PYTHON_DIR", str(ROOT / "build" / "python")))
sys.path.insert(0, str(ROOT / "examples"))

try:
    import torch
    import weir
    from relational_transformer import RecordedStep, RelationalTransformer, inputs_of
except ImportError:
    sys.exit(0)

STEPS, WARM, WAIT_S = 12, 3, 400
SLOW_S, SLOW_STEPS = 0.5, 3  # of steps that take so long a few are enough
ATTENTIONS = ("weir", "none", "sdpa", "flex")
BARS = {(1024, "sdpa"): "at least 1.4", (1024, "flex"): "at least 4", (8192, "sdpa"): "at least 4", (8192, "flex"): "at least 4"}


def manifest_of(store, length, cells):
    """Contexts that fill sequences of this length, in batches of one shape."""
    batch = {"sequence_length": length, "max_rows": max(256, length // 4), "pad_rows": True, "child_width": 16 if length <= 1024 else 256,
             "max_hops": 4, "identifiers": "omit"}  # fmt: skip
    return weir.Manifest(Path(store.path).with_suffix(".manifest.json"), global_batch_size=cells // length, batch=batch)


class Training:
    def __init__(self, store, length, how, is_tiny):
        torch.manual_seed(0)
        size = {"width": 32, "layers": 2, "heads": 2} if is_tiny else {"width": 512, "layers": 12, "heads": 8}
        self.device = "cpu" if is_tiny else "cuda"
        self.model = RelationalTransformer(store, attention=how, **size).to(self.device)
        if not is_tiny:
            self.model.compile_layers()
        self.recorded = None
        self.records = not is_tiny and how != "flex"  # its block masks are made outside of graphs, and its steps hide their launches
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **({} if is_tiny else {"fused": True}))
        manifest = manifest_of(store, length, 2 * length if is_tiny else 32 * 1024)
        self.loader = iter(weir.Loader(store, manifest, dataset=f"{store.name}/churn/train", rank=0, world_size=1,
                                       workers=min(14, os.cpu_count() or 1), device=None if is_tiny else "cuda"))  # fmt: skip

    def step(self, batch):
        if self.records:
            self.recorded = self.recorded or RecordedStep(self.model, batch)
            self.recorded(batch)
            self.optimizer.step()
            return
        with torch.autocast("cuda", torch.bfloat16) if self.device == "cuda" else nullcontext():
            losses, _ = self.model.losses(inputs_of(batch), batch.target, batch.category_start)
        self.optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def cells_a_second(self, batches, steps):
        """Cells that are not padding: batches of long sequences have different numbers of them."""
        counts = []
        self.wait()
        began = time.monotonic()
        for _ in range(steps):
            batch = next(batches)
            counts.append(batch.num_cells.torch().sum())
            self.step(batch)
        self.wait()
        seconds = time.monotonic() - began
        return sum(map(int, counts)) / seconds


def measure(store, length, how, is_tiny, take_turn):
    """Cells a second that are not padding, on one batch again and again; with weir's attention also from the loader."""
    training = Training(store, length, how, is_tiny)
    batch = next(training.loader)
    for _ in range(WARM):
        training.step(batch)
    training.wait()
    take_turn()
    again = itertools.repeat(batch)
    began = time.monotonic()
    training.cells_a_second(again, 1)
    steps = STEPS if time.monotonic() - began < SLOW_S else SLOW_STEPS
    found = {"resident": max(training.cells_a_second(again, steps) for _ in range(2))}
    if how == "weir":
        found["streamed"] = max(training.cells_a_second(training.loader, steps) for _ in range(2))
    return found


def turn_of(folder):
    """A function that returns when this process may measure: all have compiled, and nobody else measures."""
    lock = open(folder / "lock", "w", encoding="utf-8")  # held until the process ends

    def take():
        (folder / f"{os.getpid()}.compiled").touch()
        until = time.monotonic() + WAIT_S
        while len(list(folder.glob("*.compiled"))) < len(ATTENTIONS) and time.monotonic() < until:
            time.sleep(0.1)
        fcntl.flock(lock, fcntl.LOCK_EX)

    return take


def measure_all(arguments, store, length, folder):
    folder.mkdir()
    command = [sys.executable, "-B", __file__, "--store", store, "--length", str(length), "--turns", str(folder)]
    command += ["--tiny"] if arguments.tiny else []
    processes = [subprocess.Popen([*command, "--attention", how], stdout=subprocess.PIPE, text=True) for how in ATTENTIONS]
    found = {}
    for how, process in zip(ATTENTIONS, processes):
        lines = process.communicate()[0].splitlines()
        if process.returncode != 0:
            print(f"bench_model: {how} at S {length} failed with {process.returncode}", file=sys.stderr)
        else:
            found[how] = json.loads(lines[-1])
    return found


def rows_of(found, length):
    weirs = found["weir"]["resident"]
    streamed = found["weir"]["streamed"]
    yield {"name": f"training, S {length}, from the loader", "value": streamed, "unit": "cells/s", "ratio": streamed / weirs,
           "limit": "the same on one batch that is there", "limit_value": weirs, "bar": "at least 0.99"}  # fmt: skip
    for how in ATTENTIONS[1:]:
        if how in found:
            other = found[how]["resident"]
            yield {"name": f"training, S {length}", "value": weirs, "unit": "cells/s", "ratio": weirs / other, "limit": f"attention: {how}",
                   "limit_value": other, "bar": BARS.get((length, how), "at least 0.85")}  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store")
    parser.add_argument("--length", type=int, action="append")
    parser.add_argument("--attention", choices=ATTENTIONS, help="only this one")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--turns", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not torch.cuda.is_available() and not arguments.tiny:
        return
    with tempfile.TemporaryDirectory() as scratch:
        if not arguments.store:
            subprocess.run([ROOT / "build" / "weir", "demo", "--scale", "100000", "--dir", scratch, "--no-run"], check=True, stdout=subprocess.DEVNULL)
        store = arguments.store or f"{scratch}/shop.weir"
        for length in arguments.length or (1024, 8192):
            if arguments.attention:
                take_turn = turn_of(arguments.turns) if arguments.turns else lambda: None
                try:
                    print(json.dumps(measure(weir.Store(store), length, arguments.attention, arguments.tiny, take_turn)), flush=True)
                finally:  # if it failed, the others must not wait for it
                    if arguments.turns:
                        (arguments.turns / f"{os.getpid()}.compiled").touch()
            else:
                for row in rows_of(measure_all(arguments, store, length, Path(scratch, str(length))), length):
                    print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
