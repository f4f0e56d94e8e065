"""What a user would use instead of the prefetcher, beside it in the same run: PyTorch's DataLoader with 2 workers over the same trivial items. An item
is what one call of the source makes; in training that is a batch, so DataLoader hands over item by item too (batch_size=None)."""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ITEMS = 20_000

TORCH = f"""
import json, time
try:
    import torch.utils.data as data
except ImportError:
    raise SystemExit(3)
class Trivial(data.Dataset):
    def __len__(self): return {ITEMS}
    def __getitem__(self, position): return position
best = 0
for _ in range(3):
    loader = data.DataLoader(Trivial(), batch_size=None, num_workers=2, prefetch_factor=64)
    iterator = iter(loader)
    next(iterator)  # the workers are there now
    begin = time.perf_counter()
    total = sum(iterator)
    best = max(best, ({ITEMS} - 1) / (time.perf_counter() - begin))
    assert total == {ITEMS} * ({ITEMS} - 1) // 2
print(json.dumps(best))
"""


def measure_weir():
    """Items a second with 2 workers, strict."""
    command = [os.path.join(ROOT, "build/bench/bench_prefetch"), "trivial"]
    rows = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return next(row["value"] for row in map(json.loads, rows) if row["name"] == "trivial items, strict, workers 2")


def measure_torch():
    """The same of DataLoader; None if it is not installed."""
    done = subprocess.run(["/usr/bin/python3", "-c", TORCH], capture_output=True, text=True, check=False)
    if done.returncode == 3:
        return None
    done.check_returncode()
    return json.loads(done.stdout)


def main():
    peer = measure_torch()
    if peer is None:
        print("torch is not installed: left out", file=sys.stderr)
        return
    own = measure_weir()
    print(json.dumps({"name": "PyTorch DataLoader, 2 workers, trivial items", "value": peer, "unit": "items/s"}))
    print(json.dumps({"name": "weir, 2 workers, the same items, strict", "value": own, "unit": "items/s", "limit": "DataLoader",
                      "limit_value": peer, "ratio": own / peer, "bar": "at least 100 x DataLoader"}))


main()
