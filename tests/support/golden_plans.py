"""The golden plans: 10 seeds x every mode, preset and optimizer, over a random graph and three models. A seed chooses
the random graph and the replay token."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Iterator

from tests.support.plans import graph

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "plan_hashes.json"

SEEDS = range(10)
CALLS = (
    {"mode": "inference"},
    {"mode": "forward"},
    {"mode": "backward"},
    {"preset": "train_full"},
    {"preset": "inference"},
)
OPTIMIZERS = (
    {"optimizer": "sgd", "step": "end"},
    {"optimizer": "momentum", "step": "backward"},
    {"optimizer": "adam", "step": "end"},
    {"optimizer": "adam:f32", "step": "backward"},
)
GRAPHS = {
    "random": ("random", "--nodes", "40"),
    "gpt2": ("gpt2", "--layers", "2", "--seq", "64"),
    "llama": ("llama", "--size", "70b", "--layers", "2", "--seq", "64"),
    "resnet": ("resnet", "--size", "18", "--batch", "2"),
}


def cases() -> Iterator[dict[str, Any]]:
    for seed in SEEDS:
        for graph_name, arguments in GRAPHS.items():
            if graph_name == "random":
                arguments = (*arguments, "--seed", str(seed))
            for call in CALLS:
                kind, value = next(iter(call.items()))
                name = f"{graph_name}, seed {seed}, {kind} {value}"
                yield {"name": name, "graph": arguments, "seed": seed, **call}
            for call in OPTIMIZERS:
                name = f"{graph_name}, seed {seed}, {call['optimizer']}, step {call['step']}"
                yield {"name": name, "graph": arguments, "seed": seed, "mode": "backward", **call}


@cache
def _graph(arguments: tuple[str, ...]) -> dict[str, Any]:
    return graph(*arguments)


def graph_of(case: dict[str, Any]) -> dict[str, Any]:
    return _graph(case["graph"])


def token_of(case: dict[str, Any]) -> bytes:
    return hashlib.sha512(f"seed {case['seed']}".encode()).digest()
