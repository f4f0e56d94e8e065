"""weir from Python: what Python adds to a batch, and what one would use instead.

Python's share is measured where batches cost next to nothing to make (one sequence of one cell), so that all that is left is
taking them: the CPU time of the consuming thread, and the wall time beside that of `weir run`, which does the same in C.

The peer for whole batches is torch's DataLoader at its best: samples that are ready-made in memory, which it only has to
pick and stack (in the training thread, or in a process), while weir builds each batch from the store. For the order of samples it is torch's DistributedSampler.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "build" / "python"))
PROGRAM = ROOT / "build" / "weir"
KEY = "shop/churn/train"
ROUNDS = 5
BUFFER = 64


def report(name, value, unit, limit=None, limit_value=None, bar=None):
    row = {"name": name, "value": value, "unit": unit}
    if limit:
        row.update(limit=limit, limit_value=limit_value, ratio=value / limit_value)
    if bar:
        row["bar"] = bar
    print(json.dumps(row), flush=True)


def run_weir(*arguments):
    return subprocess.run([PROGRAM, *arguments], check=True, capture_output=True, text=True).stdout


def manifest_with(**changes):
    return {**json.loads(Path("shop.manifest.json").read_text()), **changes}


# ---- What Python adds --------------------------------------------------------------------------------------


def consume(loader, count, use):
    """(seconds of this thread's CPU, seconds of the clock) a batch; the first batches are not counted."""
    for _ in loader.take(200):
        pass
    cpu, wall = time.thread_time(), time.perf_counter()
    for batch in loader.take(count):
        use(batch)
    return (time.thread_time() - cpu) / count, (time.perf_counter() - wall) / count


def measure_overhead(weir):
    tiny = manifest_with(global_batch_size=1, batch={"sequence_length": 1, "max_rows": 1, "max_hops": 0})
    Path("tiny.json").write_text(json.dumps(tiny))
    count = 20_000
    command = ["run", "--store", "shop.weir", "--manifest", "tiny.json", "--dataset", KEY, "--steps", str(count), "--json",
               "--buffer", str(BUFFER)]
    in_c = min(1 / json.loads(run_weir(*command))["batches_per_second"] for _ in range(ROUNDS))

    def best(use, number):
        def once():
            with weir.Loader("shop.weir", tiny, dataset=KEY, buffer_size=BUFFER) as loader:
                return consume(loader, number, use)

        return [min(times) for times in zip(*(once() for _ in range(ROUNDS)))]

    cpu, wall = best(lambda batch: None, count)
    report("python: a batch taken, CPU of the thread", cpu * 1e6, "us", bar="<= 20")
    report("python: a tiny batch, wall", wall * 1e6, "us", "weir run", in_c * 1e6)
    report("python: a batch taken and all of batch.numpy()", best(lambda batch: batch.numpy(), 4000)[0] * 1e6, "us")
    report("python: a batch taken and all of batch.torch()", best(lambda batch: batch.torch(), 4000)[0] * 1e6, "us")


# ---- Whole batches -----------------------------------------------------------------------------------------


def ready_made(weir, manifest):
    """Every sample of the dataset as a dict of tensors, in memory."""
    samples = []
    with weir.Loader("shop.weir", manifest, dataset=KEY, stage="eval", any_hash=True) as loader:
        for batch in loader:
            tensors = batch.torch()
            names = [name for name in tensors if name not in ("fk_adj", "text_batch_embeddings")]
            rows = {name: tensors[name].clone() for name in names}
            samples += [{name: rows[name][i] for name in names} for i in range(batch.sequence_count)]
    return samples


def measure_taking(batches, count=60):
    """(batches a second, the consuming thread's CPU seconds a batch), behind the first."""
    iterator = iter(batches)
    next(iterator)
    cpu, wall = time.thread_time(), time.perf_counter()
    for _ in range(count):
        next(iterator)
    return count / (time.perf_counter() - wall), (time.thread_time() - cpu) / count


def best_of(take):
    """The best rate and the best CPU time of a few runs."""
    runs = [take() for _ in range(ROUNDS)]
    return max(rate for rate, _ in runs), min(cpu for _, cpu in runs)


def endless(loader):
    while True:
        yield from loader


def measure_batches(weir):
    import torch
    from torch.utils.data import DataLoader

    torch.set_num_threads(1)
    manifest = manifest_with(global_batch_size=32)
    samples = ready_made(weir, manifest)

    def ours():
        with weir.Loader("shop.weir", manifest, dataset=KEY) as loader:
            return measure_taking(batch.torch() for batch in loader)

    rate, cpu = best_of(ours)
    for workers in (0, 1):
        options = {"num_workers": workers, "persistent_workers": workers > 0}
        peer = DataLoader(samples, batch_size=32, shuffle=True, drop_last=True, **options)
        their_rate, their_cpu = best_of(lambda: measure_taking(endless(peer)))
        name = f"DataLoader of ready-made samples, num_workers={workers}"
        report("python: batches of 32 x 1024 built, workers=1", rate, "batch/s", name, their_rate)
        report("python: the training thread's CPU for each", cpu * 1e6, "us", name, their_cpu * 1e6)


# ---- The order of samples ----------------------------------------------------------------------------------


def measure_samplers(weir):
    from torch.utils.data import DistributedSampler

    count, ranks = 4_000_000, 8
    document = {
        "seed": 1,
        "global_batch_size": 1024,
        "datasets": {"a": {"id": "a", "version": "1", "hash": "00" * 32, "cardinality": count}},
    }

    def seconds(make):
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            taken = sum(1 for _ in make())
            best = min(best, (time.process_time() - begin) / taken)
        return best

    ours = seconds(lambda: weir.Sampler(document, "a", rank=0, world_size=ranks))
    theirs = seconds(lambda: DistributedSampler(range(count), num_replicas=ranks, rank=0, shuffle=True))
    report("python: a sample of an epoch of 4M, 1 of 8 ranks", ours * 1e9, "ns", "torch DistributedSampler", theirs * 1e9)
    sampler = weir.Sampler(document, "a", rank=0, world_size=ranks)
    batches = seconds(lambda: sampler.batches())
    report("python: a step of the same as a list of 128", batches * 1e6, "us")


def main():
    try:
        import weir
    except ImportError:
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        run_weir("demo", "--scale", "20000", "--dir", ".", "--no-run")
        measure_overhead(weir)
        try:
            import torch  # noqa: F401
        except ImportError:
            return
        measure_samplers(weir)
        measure_batches(weir)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
