"""The golden plans of preset remat_enabled: 10 seeds x every mode, over a random graph and three models, with
activations limited to a part of what they need. A seed chooses the random graph and the replay token."""

from functools import cache
from pathlib import Path
from typing import Any, Iterator

from reference import schedules
from tests.support.golden_plans import graph_of

FOLDER = Path(__file__).resolve().parents[1] / "golden"
GOLDEN = FOLDER / "remat_hashes.json"
PAGING_GOLDEN = FOLDER / "paging_hashes.json"
OVERLAP_GOLDEN = FOLDER / "overlap_hashes.json"
LINK = schedules.Link(1000, 40)  # two transfers cost less than an addition, byte for byte
OVERLAPPING_LINK = schedules.Link(1000, 400, overlaps=True)  # ten times as slow, but beside the computation

SEEDS = range(10)
MODES = ("inference", "forward", "backward")
EFFORT = 3
GRAPHS = {
    "random 20": ("random", "--nodes", "20"),
    "random 40": ("random", "--nodes", "40"),
    "gpt2": ("gpt2", "--layers", "4", "--seq", "256"),
    "llama": ("llama", "--size", "70b", "--layers", "1", "--seq", "64"),
    "resnet": ("resnet", "--size", "18", "--batch", "2"),
}
PART = 70  # per cent


def cases() -> Iterator[dict[str, Any]]:
    for seed in SEEDS:
        for name, arguments in GRAPHS.items():
            is_random = name.startswith("random")
            arguments = (*arguments, "--seed", str(seed)) if is_random else arguments
            for mode in MODES if is_random else ("backward",):  # models hold nothing else that could be made again
                title = f"{name}, seed {seed}, mode {mode}"
                yield {"name": title, "graph": arguments, "seed": seed, "mode": mode, "random": is_random}


def paging_cases() -> Iterator[dict[str, Any]]:
    """Those whose schedules the reference finds within seconds."""
    for case in cases():
        if case["random"] or (case["seed"] == 0 and case["name"].startswith("gpt2")):
            yield case


@cache
def _needed(arguments: tuple[str, ...], mode: str) -> int:
    p = schedules.problem(graph_of({"graph": arguments}), mode)
    return schedules.peaks(p, schedules.base_schedule(p))["activations"]


def capacity_of(case: dict[str, Any]) -> int:
    return _needed(case["graph"], case["mode"]) * PART // 100
