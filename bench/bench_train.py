"""A PyTorch training loop on a GPU that weir feeds, beside the same loop on one batch that is there already: what the batches cost. The model is
a small one over the cells that learns the demo shop's churn. Prints nothing if there is no PyTorch or no GPU.

    bench_train.py [STORE MANIFEST]        without them: the demo shop of a million rows, made by build/weir
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, os.environ.get("WEIR_PYTHON_DIR", str(ROOT / "build" / "python")))

try:
    import torch
    import weir.torch
except ImportError:
    sys.exit(0)

WORKERS, ROUNDS, WARM, STEPS, WIDTH = min(14, os.cpu_count() or 1), 4, 30, 120, 4096


class Model(torch.nn.Module):
    """Cells become vectors by column and value; the mean of a sequence's is its answer's only source. Just wide enough that the GPU, not Python,
    is what a step waits for."""

    def __init__(self, tables):
        super().__init__()
        dim = tables["columns"].shape[1]
        self.columns = torch.nn.Embedding.from_pretrained(tables["columns"].float())
        self.categories = torch.nn.Embedding.from_pretrained(tables["categories"].float())
        self.cell = torch.nn.Sequential(torch.nn.Linear(3 * dim + 18, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU())
        self.answer = torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(), torch.nn.Linear(WIDTH, 1))

    def forward(self, batch):
        types, seen = batch["semantic_types"], ~(batch["is_target"] | batch["is_padding"])  # the target is not for the model to see
        categories = self.categories(batch["categorical_embed_ids"]) * (types == 4).unsqueeze(-1)
        texts = batch["text_batch_embeddings"].float()[batch["text_embed_ids"]] * (types == 5).unsqueeze(-1)
        numbers = torch.stack([batch["numeric_values"], batch["bool_values"].float(), batch["is_null"].float()], -1)
        cells = torch.cat([self.columns(batch["column_ids"]), categories, texts, batch["timestamp_values"], numbers], -1)
        weights = seen.float() / seen.sum(1, keepdim=True).clamp(min=1)
        return self.answer((self.cell(cells) * weights.unsqueeze(-1)).sum(1)).squeeze(-1)


def train(model, optimizer, batches, steps):
    """The losses of `steps` steps, and the seconds that they took; the host waits once, at the end."""
    losses, batches = [], iter(batches)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(steps):
        batch = next(batches)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(batch).float(), batch["bool_values"][:, 0].float())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    return torch.stack(losses).tolist(), time.perf_counter() - began


def same(batch):
    while True:
        yield batch


def report(name, value, unit, **more):
    print(json.dumps({"name": name, "value": value, "unit": unit, **more}), flush=True)


def run(store, manifest):
    torch.manual_seed(0)
    data = weir.torch.Dataset(store, manifest, dataset="shop/churn/train", workers=WORKERS, buffer_size=4, device="cuda")
    model = Model(weir.torch.embeddings(store, "cuda")).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    kept = {name: tensor.clone() for name, tensor in next(iter(data)).items()}
    first, _ = train(model, optimizer, data, WARM)
    spare = torch.optim.AdamW(model.parameters(), 0.0, weight_decay=0.0)  # steps on one batch are for the clock alone
    alone, seconds = 1e9, 1e9
    for _ in range(ROUNDS):
        alone = min(alone, train(model, spare, same(kept), STEPS)[1])
        losses, took = train(model, optimizer, data, STEPS)
        seconds = min(seconds, took)
    report("a training loop fed by weir", STEPS / seconds, "steps/s", limit="one batch that is there already", limit_value=STEPS / alone,
           ratio=alone / seconds)
    report("loss of its last hundred steps", sum(losses[-100:]) / 100, "nats", limit="the first steps", limit_value=sum(first) / WARM,
           ratio=sum(losses[-100:]) / 100 / (sum(first) / WARM))
    data.close()


def main():
    if not torch.cuda.is_available():
        return
    if len(sys.argv) == 3:
        run(sys.argv[1], sys.argv[2])
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([ROOT / "build" / "weir", "demo", "--scale", "1000000", "--dir", folder, "--no-run", "--json"], check=True, capture_output=True)
        run(f"{folder}/shop.weir", f"{folder}/shop.manifest.json")


main()
