"""PyTorch's DataLoader on the same bytes: batches of a batch's shapes, ready-made, pinned by the DataLoader and copied to the GPU. What it costs
to bring a batch there, apart from making it. Prints nothing if there is no PyTorch or no GPU.
"""

import json
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(0)

WORKERS, BATCHES, B, S, R, U, D = 14, 400, 32, 1024, 147, 1522, 64
SHAPES = {"semantic_types": ((B, S), "int8"), "column_ids": ((B, S), "int32"), "seq_row_ids": ((B, S), "int16"), "is_null": ((B, S), "uint8"),
          "numeric_values": ((B, S), "float32"), "timestamp_values": ((B, S, 15), "float32"), "bool_values": ((B, S), "uint8"),
          "categorical_embed_ids": ((B, S), "int32"), "text_embed_ids": ((B, S), "int32"), "is_target": ((B, S), "uint8"),
          "is_padding": ((B, S), "uint8"), "fk_adj": ((B, R, R), "uint8"), "col_perm": ((B, S), "int16"), "out_perm": ((B, S), "int16"),
          "in_perm": ((B, S), "int16"), "text_batch_embeddings": ((U, D), "float16")}


class ReadyMade(torch.utils.data.Dataset):
    """Every item is the same batch: a dict of tensors, or one buffer of all of its bytes."""

    def __init__(self, is_one_buffer):
        tensors = {name: torch.ones(shape, dtype=getattr(torch, dtype)) for name, (shape, dtype) in SHAPES.items()}
        self.size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
        self.item = {"all": torch.ones(self.size, dtype=torch.uint8)} if is_one_buffer else tensors

    def __len__(self):
        return BATCHES

    def __getitem__(self, index):
        return {name: tensor.clone() for name, tensor in self.item.items()}


def rate(dataset, workers):
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers, pin_memory=True,
                                         prefetch_factor=4 if workers else None)
    taken, began = 0, 0.0
    for batch in loader:
        there = {name: tensor.to("cuda", non_blocking=True) for name, tensor in batch.items()}
        taken += 1
        if taken == 50:  # the workers have started
            torch.cuda.synchronize()
            began = time.perf_counter()
    torch.cuda.synchronize()
    assert there
    return (taken - 50) / (time.perf_counter() - began)


def main():
    if not torch.cuda.is_available():
        return
    for is_one_buffer in (False, True):
        dataset = ReadyMade(is_one_buffer)
        for workers in (4, WORKERS):
            what = "one buffer" if is_one_buffer else f"{len(SHAPES)} tensors"
            print(json.dumps({"name": f"PyTorch DataLoader, {what} of {dataset.size / 1e6:.1f} MB, {workers} workers",
                              "value": rate(dataset, workers), "unit": "batches/s"}), flush=True)


main()
