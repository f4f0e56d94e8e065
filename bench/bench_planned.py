"""weir.torch.planned_allocator beside torch's own allocator: memory, speed, and the same losses, bit for bit.

    python3 bench/bench_planned.py [STEPS]          needs an NVIDIA GPU

A language model of 12 layers (about 160 million parameters) is trained with AdamW on made-up tokens, in two processes. Prints what each
keeps of the GPU's memory and what of that it uses, steps per second, and whether the losses are equal.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from typing import Any

WIDTH, LAYERS, HEADS, WORDS, LENGTH, BATCH = 1024, 12, 16, 8192, 512, 16


def make_model(torch: Any) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norms[0](x)).view(BATCH, LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
            self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))

        def forward(self, tokens: Any) -> Any:
            scores = self.head(self.blocks(self.words(tokens[:, :-1]))).flatten(0, 1)
            return nn.functional.cross_entropy(scores, tokens[:, 1:].flatten())

    torch.manual_seed(0)
    return Model().cuda()


def train(kind: str, steps: int) -> dict[str, Any]:
    import contextlib

    import torch

    memory = None
    if kind == "planned":
        import weir.torch

        memory = weir.torch.planned_allocator()
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.utils.deterministic.fill_uninitialized_memory = False
    model = make_model(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.Generator().manual_seed(1)
    losses, started = [], 0.0
    for step in range(steps):
        if step == 10:
            torch.cuda.synchronize()
            started = time.perf_counter()
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), generator=words)
        with memory.step() if memory else contextlib.nullcontext():
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(tokens.cuda())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach().cpu())
            del loss
    torch.cuda.synchronize()
    result: dict[str, Any] = {"steps_per_second": (steps - 10) / (time.perf_counter() - started)}
    result["losses"] = hashlib.sha256(torch.stack(losses).numpy().tobytes()).hexdigest()
    result["last_loss"] = float(losses[-1])
    if memory:
        info = memory.stats()
        result |= info
        result["reserved"] = info["block_bytes"] + info["pool_reserved"]
        result["allocated"] = info["peak_bytes"] + info["pool_bytes"]
    else:
        result |= {"reserved": torch.cuda.max_memory_reserved(), "allocated": torch.cuda.max_memory_allocated()}
    result["of_the_gpu"] = torch.cuda.mem_get_info()[1] - torch.cuda.mem_get_info()[0]
    return result


def main() -> None:
    if len(sys.argv) == 3:
        print(json.dumps(train(sys.argv[1], int(sys.argv[2]))))
        return
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    environment = os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    results = {}
    for kind in ("torch", "planned"):
        done = subprocess.run([sys.executable, __file__, kind, str(steps)], stdout=subprocess.PIPE, env=environment, check=True)
        r = results[kind] = json.loads(done.stdout)
        print(f"{kind:8} reserved {r['reserved'] / 2**20:10.1f} MiB, allocated at most {r['allocated'] / 2**20:10.1f} MiB "
              f"({100 * (1 - r['allocated'] / r['reserved']):.2f} % unused), {r['steps_per_second']:.2f} steps/s", flush=True)
    planned = results["planned"]
    print("planned:", json.dumps(planned))
    print("same losses:", planned["losses"] == results["torch"]["losses"])
    print(f"speed: {planned['steps_per_second'] / results['torch']['steps_per_second']:.3f} of torch's")


if __name__ == "__main__":
    main()
