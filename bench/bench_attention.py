"""Attention along columns and foreign keys on a GPU, forward and backward, beside torch's own in the same run: scaled_dot_product_attention with dense
masks and without any, and FlexAttention with block masks. The same number of cells in sequences of 1,024, 8,192 and 32,768; 8 heads of 64, bfloat16.
Times are the GPU's, of kernels alone. Prints nothing if there is no PyTorch or no GPU.

    bench_attention.py [STORE MANIFEST] [--peers masks,full,flex] [--repeat 1000]
                                           without a store: the demo shop of 200,000 rows, made by weir
"""

import argparse
import json
import math
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, os.environ.get("WEIR_PYTHON_DIR", str(ROOT / "build" / "python")))

try:
    import torch
    import weir.torch
except ImportError:
    sys.exit(0)

HEADS, SIZE, DATASET = 8, 64, "shop/churn/train"
SHAPES = [  # sequences, batch rules, the bar in ms
    (32, {"sequence_length": 1024, "max_rows": 256, "child_width": 16, "max_hops": 4}, 0.2),
    (4, {"sequence_length": 8192, "max_rows": 4096, "child_width": 128, "max_hops": 8}, 0.45),
    (1, {"sequence_length": 32768, "max_rows": 16384, "child_width": 128, "max_hops": 8}, 0.45),
]
ATTENTIONS = {
    "column": weir.torch.column_attention, "outbound": weir.torch.outbound_attention, "inbound": weir.torch.inbound_attention,
}


def graph_time(work, times=10):
    """Milliseconds of GPU time of one call: a CUDA graph of some, replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            work()
    return min(event_time(graph.replay) for _ in range(5)) / times


def event_time(work):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    work()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def both_times(attention, given, gradient):
    """(forward, forward and backward); a new graph of torch's autograd each time, so that nothing is kept."""
    def forward():
        with torch.no_grad():
            attention(*given)

    def both():
        torch.autograd.grad(attention(*given), given, gradient)

    return graph_time(forward), graph_time(both)


def plain_time(attention, given, gradient):
    """As both_times, without CUDA graphs: for kernels that are long enough to hide their launches."""
    def both():
        torch.autograd.grad(attention(*given), given, gradient)

    for _ in range(3):
        both()
    return min(event_time(both) for _ in range(5))


def report(name, value, unit="ms", **more):
    print(json.dumps({"name": name, "value": value, "unit": unit, **more}), flush=True)


def difference(found, right):
    return max(float((a.detach().double() - b.detach()).abs().max()) for a, b in zip(found, right))


def compare_with_exact(pattern, batch, mask):
    """How much further from attention in float64 than torch's own: the largest difference of two heads of one sequence; of one
    head if it is long, since all pairs of 32,768 cells take 8.6 GB in float64."""
    part = {name: tensor[:1] for name, tensor in batch.items() if torch.is_tensor(tensor) and len(tensor)}
    mask = mask[:1]
    sight = mask.any(-1)[..., None]
    heads = 2 if mask.shape[-1] <= 8192 else 1
    given = [torch.randn(1, heads, mask.shape[-1], SIZE, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    gradient = torch.randn_like(given[0]) * sight
    exact = [tensor.detach().double().requires_grad_() for tensor in given]
    weights = (exact[0] @ exact[1].mT * SIZE**-0.5).masked_fill(~mask, -math.inf).softmax(-1).masked_fill(~mask, 0)
    right = weights @ exact[2]
    right = [right, *torch.autograd.grad(right, exact, gradient.double())]
    found = ATTENTIONS[pattern](*given, part)
    found = [found, *torch.autograd.grad(found, given, gradient)]
    theirs = torch.nn.functional.scaled_dot_product_attention(*given, attn_mask=mask | ~sight)
    theirs = [theirs * sight, *torch.autograd.grad(theirs, given, gradient)]
    return difference(found, right) / difference(theirs, right)


def count_changes(attention, given, gradient, times):
    """Of so many repetitions, those whose bits are not the first's."""
    def run():
        result = attention(*given)
        return torch.stack([t.flatten().view(torch.int16) for t in (result, *torch.autograd.grad(result, given, gradient))])

    first = run()
    changes = torch.zeros((), dtype=torch.int64, device="cuda")
    for _ in range(times):
        changes += (run() != first).any()
    return int(changes)


def measure(batch, bar, options):
    sequences, length = batch["is_padding"].shape
    where = f"B {sequences} S {length}"
    shape = (sequences, length, HEADS, SIZE)
    given = [torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_() for _ in range(3)]
    gradient = torch.randn(shape, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    lists = weir.torch.attention_lists(batch)
    report(f"lists, {where}", graph_time(lambda: weir.torch.attention_lists(batch)))
    full = None
    if "full" in options.peers:
        full = plain_time(torch.nn.functional.scaled_dot_product_attention, given, gradient)
        report(f"SDPA without a mask, forward and backward, {where}", full)
    masks = weir.torch.masks(batch)
    for pattern, attention in ATTENTIONS.items():
        def ours(q, k, v, f=attention):
            return f(q, k, v, batch, lists=lists)

        forward, both = both_times(ours, given, gradient)
        report(f"{pattern} forward, {where}", forward)
        more = {"bar": f"at most {bar}"}
        if "masks" in options.peers:
            mask = masks[pattern]
            theirs = plain_time(lambda q, k, v, m=mask: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m), given, gradient)
            more |= {"ratio": both / theirs, "limit": "SDPA with a mask", "limit_value": theirs}
        report(f"{pattern} forward and backward, {where}", both, **more)
        if full:
            report(f"{pattern}, of SDPA without a mask, {where}", both / full, "x")
        if "masks" in options.peers:
            report(f"{pattern}, largest difference to float64, {where}", compare_with_exact(pattern, batch, mask), "x SDPA's", bar="at most 2")
        if "flex" in options.peers and length <= 8192:
            from torch.nn.attention.flex_attention import flex_attention

            block, compiled = masks.block(pattern), torch.compile(flex_attention, dynamic=False)
            theirs = plain_time(lambda q, k, v, c=compiled, m=block: c(q, k, v, block_mask=m), given, gradient)
            report(f"FlexAttention {pattern}, forward and backward, {where}", theirs)
            torch._dynamo.reset()
        report(f"{pattern}, {options.repeat} repetitions with other bits, {where}", count_changes(ours, given, gradient, options.repeat), "", bar="0")


def make_shop(folder):
    from weir import _weir

    _weir._command([text.encode() for text in ("weir", "demo", "--scale", "200000", "--dir", folder, "--no-run")])
    return f"{folder}/shop.weir", f"{folder}/shop.manifest.json"


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--peers", default="masks,full", type=lambda text: text.split(","))
    parser.add_argument("--repeat", default=100, type=int)
    parser.add_argument("--lengths", default="1024,8192,32768", type=lambda text: [int(n) for n in text.split(",")])
    options = parser.parse_args()
    if not torch.cuda.is_available():
        return
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        store, manifest = options.paths or make_shop(folder)
        document = json.loads(Path(manifest).read_text())
        for sequences, rules, bar in SHAPES:
            if rules["sequence_length"] in options.lengths:
                changed = {**document, "batch": rules, "global_batch_size": sequences}
                data = weir.torch.Dataset(store, changed, dataset=DATASET, device="cuda", steps=1)
                measure(next(iter(data)), bar, options)
                data.close()


if __name__ == "__main__":
    main()
