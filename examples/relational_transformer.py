"""A small relational transformer: cells of a database in, a prediction for the target cell out.

Each cell is the sum of what its column means and what it holds. Three kinds of attention say which cells see each
other, all three read off the batch: *column* (cells of one column), *outbound* (a cell's own row and the rows that
its foreign keys lead to) and *inbound* (the rows whose foreign keys lead to it). The target is the first cell of every
sequence; its value is hidden in the inputs (batch.torch(hide_target=True)), a learned vector stands there, and the
prediction is read at its place.

Plain PyTorch, masks dense: what a batch holds is easy to see here. A fast model would use the batch's col_perm,
out_perm and in_perm to make the masks block-sparse."""

import torch
import weir
import weir.torch
from torch import Tensor, nn
from torch.nn import functional
from weir import SemanticType

TIMESTAMP_FLOATS = 15


def attention_masks(batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Which cell sees which, [B, S, S] each: column, outbound, inbound."""
    columns, rows = batch["column_ids"], batch["seq_row_ids"].long()
    seen = ~batch["is_padding"][:, None, :]
    column = columns[:, :, None] == columns[:, None, :]
    sequence = torch.arange(len(rows), device=rows.device)[:, None, None]
    own_row = rows[:, :, None] == rows[:, None, :]
    outbound = batch["fk_adj"].bool()[sequence, rows[:, :, None], rows[:, None, :]]
    return column & seen, (own_row | outbound) & seen, outbound.transpose(1, 2) & seen


class MaskedAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, cells: Tensor, mask: Tensor) -> Tensor:
        count, length, width = cells.shape
        projected = self.queries_keys_values(self.norm(cells))
        query, key, value = projected.view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5
        weights = scores.masked_fill(~mask[:, None], -1e9).softmax(-1)
        weights = weights * mask.any(-1)[:, None, :, None]  # a cell that sees nothing gets nothing
        return cells + self.out((weights @ value).transpose(1, 2).reshape(count, length, width))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(MaskedAttention(width, heads) for _ in range(3))
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, cells: Tensor, masks: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        for attention, mask in zip(self.attentions, masks):
            cells = attention(cells, mask)
        return cells + self.feed_forward(cells)


class CellEncoder(nn.Module):
    """A cell's vector: its column's name, and its value by semantic type."""

    def __init__(self, width: int, column_embeddings: Tensor, category_embeddings: Tensor) -> None:
        super().__init__()
        embedding = column_embeddings.shape[1]
        self.scale = embedding**0.5  # embeddings have length 1: this makes their parts about as large as numbers
        self.register_buffer("column_embeddings", column_embeddings.float() * self.scale, persistent=False)
        self.register_buffer("category_embeddings", category_embeddings.float() * self.scale, persistent=False)
        self.column = nn.Linear(embedding, width)
        self.number = nn.Linear(1, width)
        self.timestamp = nn.Linear(TIMESTAMP_FLOATS, width)
        self.boolean = nn.Embedding(2, width)
        self.category = nn.Linear(embedding, width)
        self.text = nn.Linear(embedding, width)
        self.is_null = nn.Parameter(torch.zeros(width))
        self.is_hidden = nn.Parameter(torch.zeros(width))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        types = batch["semantic_types"][..., None]
        values = (types == SemanticType.NUMERICAL) * self.number(batch["numeric_values"][..., None])
        values = values + (types == SemanticType.TIMESTAMP) * self.timestamp(batch["timestamp_values"])
        values = values + (types == SemanticType.BOOLEAN) * self.boolean(batch["bool_values"].long())
        categories = self.category_embeddings[batch["categorical_embed_ids"].long()]
        values = values + (types == SemanticType.CATEGORICAL) * self.category(categories)
        texts = weir.torch.text_embeddings(batch).float() * self.scale
        values = values + (types == SemanticType.TEXT) * self.text(texts)
        values = torch.where(batch["is_null"][..., None], self.is_null, values)
        values = torch.where(batch["is_target"][..., None], self.is_hidden, values)
        return self.column(self.column_embeddings[batch["column_ids"].long()]) + values


class RelationalTransformer(nn.Module):
    def __init__(
        self, column_embeddings: Tensor, category_embeddings: Tensor, width: int = 64, layers: int = 2, heads: int = 4
    ) -> None:
        super().__init__()
        self.encoder = CellEncoder(width, column_embeddings, category_embeddings)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.null_head = nn.Linear(width, 1)
        self.number_head = nn.Linear(width, 1)
        self.boolean_head = nn.Linear(width, 1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """The vector at each sequence's target, [B, width]. The target comes first of all cells."""
        cells = self.encoder(batch)
        masks = attention_masks(batch)
        for layer in self.layers:
            cells = layer(cells, masks)
        return self.norm(cells[:, 0])

    def predict(self, at_target: Tensor, target: weir.Target, category_start: int) -> Tensor:
        """Scores by the target's semantic type: a number, a logit, or one score per class."""
        if target.stype == "categorical":
            classes = self.encoder.category_embeddings[category_start : category_start + target.class_count]
            return at_target @ self.encoder.category(classes).T * at_target.shape[1] ** -0.5
        head = self.boolean_head if target.stype == "boolean" else self.number_head
        return head(at_target)[:, 0]

    def losses(self, inputs: dict[str, Tensor], target: weir.Target, category_start: int = 0) -> tuple[Tensor, Tensor]:
        """(loss, prediction) of each sequence: is the target null, and if it is not, what is it? category_start is where
        the classes of a categorical target begin among the store's categories."""
        at_target = self(inputs)
        wanted, is_null = target.torch()
        prediction = self.predict(at_target, target, category_start)
        if target.stype == "categorical":
            by_type = functional.cross_entropy(prediction, wanted, reduction="none")
        elif target.stype == "boolean":
            by_type = functional.binary_cross_entropy_with_logits(prediction, wanted.float(), reduction="none")
        else:
            by_type = functional.smooth_l1_loss(prediction, wanted, reduction="none")
        null_loss = functional.binary_cross_entropy_with_logits(
            self.null_head(at_target)[:, 0], is_null.float(), reduction="none"
        )
        return null_loss + ~is_null * by_type, prediction
