"""How a typed program uses weir: checked by mypy, never run."""

import weir
import weir.torch


def train(path: str) -> dict[str, object]:
    store = weir.Store(path)
    manifest = weir.Manifest({"seed": 1})
    with weir.Loader([store, "other.weir"], manifest, workers=4, steps=10) as loader:
        for batch in loader:
            shape: tuple[int, ...] = batch["column_ids"].shape
            step: int = batch.step
            print(shape, step, batch.task, batch.numpy()["fk_adj"].dtype)
        state: dict[str, object] = loader.state_dict()
        loader.load_state_dict(state)
    return state


def sample() -> list[int]:
    sampler = weir.Sampler("m.json", "a", rank=0, world_size=2)
    place = weir.Mix("m.json").locate(3)
    indices: list[int] = sampler.range(place.epoch, place.position, 3).tolist()
    return indices + [sampler.index_at(0, 1)] + next(iter(sampler.batches()))


def handle() -> str | None:
    try:
        return weir.plan("g.json", mode="backward").hashes["plan"]
    except weir.errors.ArenaTooSmall as error:
        return f"{error.code} {error.diagnostics['required']}"
    except (weir.GraphError, weir.FileError) as error:
        return error.message


def ingest() -> int:
    def report(progress: weir.Progress) -> bool:
        return progress.done < 10

    return weir.ingest("a.sqlite", "a.weir", progress=report).rows


def tensors() -> None:
    for tensor in weir.torch.Dataset("a.weir", "m.json", device="cuda", workers=2, epochs=3):
        print(tensor)
    batch = weir.batch("a.weir", weir.Manifest("m.json", global_batch_size=64))
    stype: str = batch.target.stype
    values: list[float] = batch.target.values.tolist()
    found: dict[str, float] = weir.metrics.usual(stype, values, values)
    moved: weir.torch.Tensors = batch.to("cuda")
    cells: list[weir.Cell] = list(batch.cells(weir.Store("a.weir")))
    print(found, moved.pin_memory(), cells[0].column, weir.torch.text_embeddings(moved))


def prefetch() -> None:
    def load(epoch: int, position: int) -> str:
        return f"{epoch} {position}"

    with weir.Prefetcher(load, length=10, workers=4, shards="contiguous", policy="best_effort") as items:
        item: str
        for item in items:
            print(item.upper())
        items.load_state_dict(items.state_dict())
