"""The prefetcher without its threads: which items come in which order, and what the state is after each.

Follows the section "Prefetcher" of the specification. A pass is dealt out to the workers; a worker's items are
those of its shards, pass after pass; strict order takes one item of each worker in turn, and passes over a
worker that has none left from then on. A state says what was consumed of every worker. To resume is to rebuild
each worker's items, drop those that were consumed, and go on at the worker that is next. Where the order is the
source's own for any number of workers, the state can be dealt to another number of them.

The golden file that holds the C library to this is made by

    python3 -m reference.prefetch > tests/golden/vectors/prefetch.json
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, NamedTuple

from . import cbor
from .errors import WeirError


@dataclass(frozen=True)
class Config:
    """An iterator and its shards; `epochs` counts passes from start_epoch on, 0 is endless."""

    length: int
    workers: int = 1
    epochs: int = 1
    shard_mode: str = "interleaved"
    drop_remainder: bool = False
    start_position: int = 0
    start_epoch: int = 0
    key: int = 0
    policy: str = "strict"


class Item(NamedTuple):
    epoch: int
    position: int
    worker: int


State = dict[str, Any]


# ---- Order -------------------------------------------------------------------------------------------------


def shard(config: Config, positions: range, worker: int) -> range:
    """A worker's share of a pass over these positions."""
    each, remainder = divmod(len(positions), config.workers)
    if config.drop_remainder:
        remainder = 0
    size = each + (worker < remainder)
    if config.shard_mode == "interleaved":
        return positions[worker :: config.workers][:size]
    start = each * worker + min(worker, remainder)
    return positions[start : start + size]


def passes(config: Config) -> Iterator[tuple[int, range]]:
    """Every pass as its epoch and its positions; the first begins at the start position."""
    for number in range(config.epochs) if config.epochs else count():
        yield config.start_epoch + number, range(config.start_position if number == 0 else 0, config.length)


def worker_items(config: Config, worker: int) -> Iterator[Item]:
    """A worker's items, pass after pass."""
    for epoch, positions in passes(config):
        if len(shard(config, range(config.length), worker)) == 0:
            return  # nor has any later pass something for it
        for position in shard(config, positions, worker):
            yield Item(epoch, position, worker)


def round_robin(workers: list[Iterator[Item]], next_worker: int) -> Iterator[Item]:
    """One item of each worker in turn; an exhausted worker is passed over from then on."""
    active = set(range(len(workers)))
    while active:
        if next_worker in active:
            item = next(workers[next_worker], None)
            if item is None:
                active.remove(next_worker)
            else:
                yield item
        next_worker = (next_worker + 1) % len(workers)


def strict_order(config: Config) -> Iterator[Item]:
    return round_robin([worker_items(config, worker) for worker in range(config.workers)], 0)


# ---- States ------------------------------------------------------------------------------------------------


def state_after(config: Config, consumed: list[Item]) -> State:
    """The state of strict order behind these items, which are its first."""
    worker_states = [{"epoch": config.start_epoch, "place": 0, "produced": 0} for _ in range(config.workers)]
    for item in consumed:
        state = worker_states[item.worker]
        is_new_epoch = item.epoch != state["epoch"]
        state.update(
            epoch=item.epoch, place=1 if is_new_epoch else state["place"] + 1, produced=state["produced"] + 1
        )
    return {
        "policy": config.policy,
        "shard_mode": config.shard_mode,
        "drop_remainder": config.drop_remainder,
        "workers": config.workers,
        "key": config.key,
        "epochs": config.epochs,
        "length": config.length,
        "start_position": config.start_position,
        "start_epoch": config.start_epoch,
        "next_worker": (consumed[-1].worker + 1) % config.workers if consumed else 0,
        "worker_states": worker_states,
    }


def is_sequential(config: Config) -> bool:
    """Whether strict order is the source's own, pass after pass, as far as the number of workers decides."""
    if config.policy != "strict" or config.shard_mode != "interleaved":
        return False
    if config.epochs == 1 and not config.drop_remainder:
        return True
    lengths = [config.length - config.start_position] + [config.length] * (config.epochs != 1)
    return all(length % config.workers == 0 for length in lengths)


def resume(config: Config, state: State) -> Iterator[Item]:
    """What comes behind a state; CHECKPOINT_MISMATCH where the configuration is another."""
    saved = replace(config, workers=state["workers"])
    for field in ("policy", "shard_mode", "drop_remainder", "length", "key", "epochs", "start_position", "start_epoch"):
        if state[field] != getattr(config, field):
            raise WeirError("CHECKPOINT_MISMATCH", f"{field} was {state[field]} and is {getattr(config, field)}")
    if saved.workers != config.workers:
        if not (is_sequential(saved) and is_sequential(config)):
            raise WeirError("CHECKPOINT_MISMATCH", f"workers were {saved.workers} and are {config.workers}")
        consumed = sum(worker["produced"] for worker in state["worker_states"])
        state = state_after(config, list(islice(strict_order(config), consumed)))
    workers = [
        islice(worker_items(config, number), worker["produced"], None)
        for number, worker in enumerate(state["worker_states"])
    ]
    return round_robin(workers, state["next_worker"])


# ---- The golden file ---------------------------------------------------------------------------------------

ABOUT = (
    "The prefetcher's strict order. cases: config: the options; items: [epoch, position, worker] in order, all of "
    "them or the first 40 of an endless run; states: for a number of consumed items the state as canonical CBOR, in "
    "hex; changes: whether a state of the case can be resumed with that many workers. Made by reference/prefetch.py."
)
CONFIGS = (
    Config(length=0, workers=3),
    Config(length=7, workers=1, epochs=2, key=2**64 - 1),
    Config(length=10, workers=3),
    Config(length=10, workers=3, drop_remainder=True),
    Config(length=10, workers=4, shard_mode="contiguous"),
    Config(length=10, workers=4, shard_mode="contiguous", drop_remainder=True, start_position=3),
    Config(length=6, workers=4, epochs=3, start_position=5, start_epoch=7),
    Config(length=12, workers=4, epochs=2, start_position=4),
    Config(length=3, workers=5, epochs=2),
    Config(length=5, workers=2, epochs=0, start_epoch=2**40),
)
ITEMS_MAX = 40


def golden_case(config: Config) -> dict[str, Any]:
    items = list(islice(strict_order(config), ITEMS_MAX))
    counts = sorted({0, 1, len(items) // 2, len(items)} & set(range(len(items) + 1)))
    described = {"config": config.__dict__ | {"key": str(config.key)}, "items": items}
    described["states"] = {
        str(number): cbor.encode(state_after(config, items[:number])).hex() for number in counts
    }
    others = [number for number in range(1, 9) if number != config.workers]
    described["changes"] = {
        str(number): is_sequential(config) and is_sequential(replace(config, workers=number)) for number in others
    }
    return described


if __name__ == "__main__":
    cases = ",\n".join(json.dumps(golden_case(config)) for config in CONFIGS)
    print(f'{{"about": {json.dumps(ABOUT)},\n"cases": [\n{cases}\n]}}')
