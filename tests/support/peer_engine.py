"""The engine of the Relational Transformer (the wheel `relational-transformer`, MIT), for tests and benchmarks that hold
weir's contexts against it: it reads a folder of Parquet files with a manifest, and gives sequences of cells.

Only its extension module is loaded, so that the wheel may be installed without the packages that its model needs; numpy,
ml-dtypes and pyarrow are enough.
"""

import importlib.metadata
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

EMBEDDING_DIM = 8


def engine() -> ModuleType | None:
    """The extension module; None if it is not installed."""
    try:
        import ml_dtypes  # noqa: F401  (without it the engine has no bfloat16)
        import pyarrow  # noqa: F401

        path = importlib.metadata.distribution("relational-transformer").locate_file("rt/rustler.abi3.so")
    except (ImportError, importlib.metadata.PackageNotFoundError):
        return None
    spec = importlib.util.spec_from_file_location("rustler", str(path))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _yaml(value: Any, indent: str = "") -> str:
    """Nested objects and texts as YAML."""
    if not isinstance(value, dict):
        return " " + json.dumps(value)
    lines = [f"\n{indent}{json.dumps(key)}:{_yaml(item, indent + '  ')}" for key, item in value.items()]
    return "".join(lines) if lines else " {}"


class Dataset:
    """A database and a task, as the engine reads them: tables are {name: (pyarrow table, primary key, {foreign key:
    table}, time column or None)}, keys being numbers of rows; splits of the task are tables with the columns `at`, the entity and the target."""

    def __init__(self, folder: Path, tables: dict[str, Any], task: dict[str, str], splits: dict[str, Any]) -> None:
        import ml_dtypes
        import numpy
        import pyarrow.parquet

        source, self.target = folder / "source", task["target_col"]
        (source / "db").mkdir(parents=True)
        (source / "tasks/task").mkdir(parents=True)
        described = {}
        for name, (table, key, foreign_keys, time) in tables.items():
            pyarrow.parquet.write_table(table, source / f"db/{name}.parquet")
            described[name] = {**({"pkey": key} if key else {}), "fkeys": foreign_keys, **({"time_col": time} if time else {})}
        for split, table in splits.items():
            pyarrow.parquet.write_table(table, source / f"tasks/task/{split}.parquet")
        times = [str(splits[split]["at"][0].as_py().date()) for split in ("val", "test")]
        manifest = {"manifest_version": 1, "name": "data", "tables": described, "val_timestamp": times[0], "test_timestamp": times[1]}
        (source / "manifest.yaml").write_text(_yaml(manifest).lstrip() + "\n")
        (source / "tasks/task/manifest.yaml").write_text(_yaml({"name": "task", "kind": "entity", "time_col": "at", **task}).lstrip() + "\n")
        self.engine = engine()
        assert self.engine is not None
        self.engine.preprocess(str(source), str(folder), source="weir")
        made = folder / "data"
        texts = len(json.loads((made / "text.json").read_text()))
        numpy.zeros((texts, EMBEDDING_DIM), ml_dtypes.bfloat16).tofile(made / "text_emb_none.bin")
        meta = json.loads((made / "meta.json").read_text())
        meta["text_embeddings"] = {"none": {"file": "text_emb_none.bin", "d_text": EMBEDDING_DIM}}
        (made / "meta.json").write_text(json.dumps(meta))
        self.folder = folder
        self.places = json.loads((made / "table_info.json").read_text())  # "task:Val": where its nodes are
        self.columns = json.loads((made / "column_index.json").read_text())

    def sampler(self, split: str, walks: int, length: int, local_cells: int, width: int, seed: int = 1) -> Any:
        place = self.places[f"task:{split.capitalize()}"]
        return self.engine.Sampler(
            dataset_tuples=[("data", "task", place["node_idx_offset"], place["num_nodes"])], global_rank=0, local_rank=0,
            world_size=1, local_ctx_size_list=[local_cells], bfs_width_list=[width], num_walks=walks, walk_length=length,
            prefer_latest_list=[False], mask_prob_max=0.0, embedder="none", pre_dir=str(self.folder), d_text=EMBEDDING_DIM,
            shuffle_seed=1, context_seed=seed, target_columns=[self.columns[f"{self.target} of task"]], columns_to_drop=[[]],
            cutoff_timestamps=[None], items_per_task=10**9, quiet=True, ignore_data_errors=False, num_prev_skipped=0,
            mmap_populate=False, legacy_boolean=False, timeout_per_item=60.0, vector_db_path=None,
        )  # fmt: skip

    def examples(self, sampler: Any, item: int, cells: int) -> list[tuple[str, int]]:
        """The (split, row) of the seed of a context and of its examples, in order."""
        nodes = dict(sampler.batch_py(item, 1, cells))["seed_node_idxs"].tolist()
        found = []
        for node in dict.fromkeys(nodes):
            for name, place in self.places.items():
                if name.startswith("task:") and 0 <= node - place["node_idx_offset"] < place["num_nodes"]:
                    found.append((name.removeprefix("task:").lower(), node - place["node_idx_offset"]))
        return found
