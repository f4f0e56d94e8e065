"""What a user would use instead of the sampler, where Debian has it, beside weir in the same run: the time and memory until the first index of a shuffled
epoch is known."""

import json
import os
import resource
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = 10_000_000

TORCH = f"""
import torch.utils.data as data
class Virtual(data.Dataset):
    def __len__(self): return {SAMPLES}
begin = clock()
next(iter(data.distributed.DistributedSampler(Virtual(), num_replicas=8, rank=0, shuffle=True)))
"""
NUMPY = f"""
import numpy
begin = clock()
numpy.random.default_rng(0).permutation({SAMPLES})[0]
"""


def measure_python(module, body):
    """Seconds and MiB from the constructor to the first index, in a process of its own; None if the module is not installed."""
    program = ("import json, resource, time\nclock = time.process_time\n"
               f"try:\n    import {module}\nexcept ImportError:\n    raise SystemExit(3)\n"
               "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n" + body +
               "print(json.dumps([clock() - begin, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))")
    done = subprocess.run(["/usr/bin/python3", "-c", program], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else None


def measure_weir(samples):
    """The whole program, its start included."""
    manifest = {"global_batch_size": 32, "datasets": {"a": {"id": "a", "version": "1", "hash": "00" * 32, "cardinality": samples}}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(manifest, file)
        file.flush()
        command = [os.path.join(ROOT, "build/weir"), "next", "--manifest", file.name, "--dataset", "a", "--world-size", "8"]
        best = None
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
            best = seconds if best is None else min(best, seconds)
    return best


def report(name, value, unit, limit=None, limit_value=None):
    row = {"name": name, "value": value, "unit": unit}
    if limit:
        row.update(limit=limit, limit_value=limit_value, ratio=value / limit_value)
    print(json.dumps(row), flush=True)


def main():
    own = max(measure_weir(SAMPLES), 1e-4)
    report("weir, first batch of 10^7, program start included", own * 1e3, "ms")
    for name, module, body in (("torch DistributedSampler, first index of 10^7", "torch", TORCH),
                               ("numpy permutation, first index of 10^7", "numpy", NUMPY)):
        measured = measure_python(module, body)
        if measured is None:
            print(f"{module} is not installed: left out", file=sys.stderr)
            continue
        seconds, mebibytes = measured
        report(name, seconds * 1e3, "ms", "weir", own * 1e3)
        report(name + ", memory", mebibytes, "MiB")


main()
