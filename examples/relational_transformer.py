"""A relational transformer: cells of a database in, a prediction for the target cell out. One file, to be copied.

Each cell becomes one vector of features: what its column is called, and what it holds by semantic type; one matrix
makes that as wide as the model. Then layers of three attentions that follow the database: *column* (cells of one
column), *outbound* (a cell's own row and the rows that its foreign keys lead to) and *inbound* (the rows whose foreign
keys lead to it). The target is the first cell of every sequence; its value is hidden in the inputs
(batch.torch(hide_target=True)), and the prediction is read at its place.

    tables = {name: table.torch() for name, table in loader.tables(store).items()}    # on the GPU already, float16
    model = RelationalTransformer(store, width=512, layers=12, heads=8, tables=tables).to("cuda")
    with torch.autocast("cuda", torch.bfloat16):
        losses, predictions = model.losses(inputs_of(batch), batch.target, batch.category_start)

The attentions are weir's own operators, whose cost grows with the number of cells and not with its square;
attention="sdpa" and "flex" compute the same through PyTorch's, for comparison, and "none" leaves it out.

Times are shown as ages: how long before the time that the prediction is for. A model that is given dates alone learns
the years that it was trained on."""

import math
from typing import NamedTuple

import torch
import weir
import weir.torch
from torch import Tensor, nn
from torch.nn import functional
from weir import SemanticType

DAY = 86_400_000_000  # microseconds
YEAR = 365.2425 * DAY
NO_TIME = 2**62  # an observation time beyond this is "see everything", not a time


def inputs_of(batch: weir.Batch) -> dict[str, Tensor]:
    """The tensors that the model takes: a batch's, with the target hidden, and the time that each prediction is for."""
    inputs = batch.torch(hide_target=True)
    inputs["time"] = batch.observation_time.torch().to(inputs["is_null"].device)
    inputs["lag"] = torch.zeros_like(inputs["time"])
    inputs["texts"] = weir.torch.text_embeddings(inputs)
    if batch.dataset_ids is not None:  # of a mixed batch each sequence's times are normalised as its own store says
        scales = [source.store.info["timestamps"] for source in batch.sources]
        by_source = torch.tensor([(scale["mean"], scale["std"] or 1.0) for scale in scales], dtype=torch.double)
        inputs["time_scale"] = by_source.to(inputs["is_null"].device)[batch.dataset_ids.torch().long()]
    return inputs


# ---- Attention -------------------------------------------------------------------------------------------------------

KINDS = ("column", "outbound", "inbound")


class Attention(nn.Module):
    """One of the three attentions. `seen` is what says who sees whom: the batch and its lists for weir's operators, a dense
    mask or a BlockMask for PyTorch's."""

    def __init__(self, kind: str, width: int, heads: int, dropout: float, how: str) -> None:
        super().__init__()
        self.kind, self.heads, self.how = kind, heads, how
        self.norm = nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def attend(self, projected: Tensor, seen: object) -> Tensor:
        """[B, S, 3, H, D] to [B, S, H, D]."""
        if self.how == "weir":
            batch, lists = seen
            return weir.torch.packed_attention(self.kind, projected, batch, lists=lists)
        if self.how == "none":
            return projected[:, :, 2]
        query, key, value = projected.permute(2, 0, 3, 1, 4)
        if self.how == "sdpa":
            mask, sees_any = seen
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask) * sees_any
        else:
            from torch.nn.attention.flex_attention import flex_attention

            mixed = flex_attention(query, key, value, block_mask=seen)
        return mixed.transpose(1, 2)

    def forward(self, cells: Tensor, seen: object) -> Tensor:
        count, length, width = cells.shape
        projected = self.queries_keys_values(self.norm(cells)).view(count, length, 3, self.heads, -1)
        mixed = self.attend(projected, seen).reshape(count, length, width)
        return cells + self.dropout(self.out(mixed))


def who_sees_whom(batch: dict[str, Tensor], how: str) -> list[object]:
    """What each of the three attentions takes, made once for all layers. To PyTorch's, a cell that sees nothing (padding) must be shown something,
    and what it gets is taken away again."""
    if how == "weir":
        return [(batch, weir.torch.attention_lists(batch))] * 3
    if how == "none":
        return [None] * 3
    masks = weir.torch.masks(batch)
    if how == "flex":
        return [masks.block(kind) for kind in KINDS]
    dense = [masks[kind] for kind in KINDS]
    return [(mask | ~mask.any(-1, keepdim=True), mask.any(-1, keepdim=True)) for mask in dense]


class FeedForward(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, cells: Tensor) -> Tensor:
        return cells + self.dropout(self.down(functional.gelu(self.up(self.norm(cells)))))


class Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float, how: str) -> None:
        super().__init__()
        self.attentions = nn.ModuleList(Attention(kind, width, heads, dropout, how) for kind in KINDS)
        self.feed_forward = FeedForward(width, dropout)

    def forward(self, cells: Tensor, seen: list[object]) -> Tensor:
        for attention, part in zip(self.attentions, seen):
            cells = attention(cells, part)
        return self.feed_forward(cells)


# ---- Cells -----------------------------------------------------------------------------------------------------------


class CellEncoder(nn.Module):
    """A cell's vector. Every feature is zero in cells of another type; one matrix takes all of them."""

    NUMBER, AGE, MOMENT = 8, 5, 9

    def __init__(self, store: weir.Store, width: int, dropout: float, dates: bool, tables: dict[str, Tensor] | None) -> None:
        super().__init__()
        tables = tables or weir.torch.embeddings(store)
        embedding = tables["columns"].shape[1]
        self.scale = embedding**0.5  # embeddings have length 1: this makes their parts about as large as numbers
        for name in ("columns", "categories"):
            self.register_buffer(name, tables[name], persistent=False)
        times = store.info["timestamps"]
        self.mean, self.std = times["mean"], times["std"] or 1.0
        self.dates = dates
        self.width_of_features = 3 * embedding + self.NUMBER + 15 + self.AGE + 2 + 2 + self.MOMENT
        self.project = nn.Linear(self.width_of_features, width)
        self.feed_forward = FeedForward(width, dropout)

    def embedded(self, embeddings: Tensor) -> Tensor:
        """What was looked up in float16, as a feature."""
        return embeddings.float() * self.scale

    def of_classes(self, first_class: int, count: int) -> Tensor:
        """What the matrix makes of categories alone: what a prediction is compared with if it is a class."""
        embeddings = self.embedded(self.categories[first_class : first_class + count])
        first = self.width_of_features - self.MOMENT - 2 - 2 * embeddings.shape[1]
        return embeddings @ self.project.weight[:, first : first + embeddings.shape[1]].T

    def of_numbers(self, numbers: Tensor) -> Tensor:
        """Steps at several heights, so that a value far from all that was seen in training is no more than large."""
        x = numbers[..., None]
        steps = torch.arange(-2, 3, device=x.device) * 0.75
        return torch.cat((x.clamp(-4, 4), x.abs().clamp(max=4), torch.asinh(x), torch.tanh(2 * (x - steps))), -1)

    def of_times(self, times: Tensor, now: Tensor, std: Tensor | float) -> Tensor:
        """The age in days on several scales, and the date itself if it is asked for."""
        age = ((now[:, None] - times[..., -1]) * (std / DAY))[..., None]
        ages = (torch.asinh(age) / 5, torch.tanh(age / 14), torch.tanh(age / 60), torch.tanh(age / 365), torch.tanh(age / 3650))
        return torch.cat((times * float(self.dates), *ages), -1)

    def of_moments(self, time: Tensor, lag: Tensor) -> Tensor:
        """The season that a prediction is for, and how much older what is known may be, [B, MOMENT]."""
        angle = (time.double() / YEAR).frac().float()[:, None] * (2 * math.pi)
        angles = angle * torch.arange(1, 4, device=time.device)
        days = (lag.double() / DAY).float()[:, None]
        return torch.cat((angles.sin(), angles.cos(), torch.asinh(days) / 5, torch.tanh(days / 365), torch.tanh(days / 1500)), -1)

    def features(self, batch: dict[str, Tensor]) -> Tensor:
        time = batch["time"]
        has_time = time.abs() < NO_TIME
        mean, std = batch["time_scale"].T if "time_scale" in batch else (self.mean, self.std)
        now = torch.where(has_time, (time.double() - mean) / std, torch.zeros((), dtype=torch.double, device=time.device))
        std = std[:, None].float() if isinstance(std, Tensor) else std
        moments = self.of_moments(time, batch["lag"]) * has_time[:, None]
        shown = ~(batch["is_null"] | batch["is_target"] | batch["is_padding"])[..., None]
        types = batch["semantic_types"][..., None]

        def of(stype: SemanticType, values: Tensor) -> Tensor:
            return values * ((types == int(stype)) & shown)  # int: torch.compile takes a comparison with an enum for False

        ones = torch.ones_like(shown)
        truth = batch["bool_values"][..., None]
        parts = (
            self.embedded(self.columns[batch["column_ids"].long()]),
            of(SemanticType.NUMERICAL, self.of_numbers(batch["numeric_values"])),
            of(SemanticType.TIMESTAMP, self.of_times(batch["timestamp_values"], now.float(), std)),
            of(SemanticType.BOOLEAN, torch.cat((truth, ~truth), -1).float()),
            of(SemanticType.CATEGORICAL, self.embedded(self.categories[batch["categorical_embed_ids"].long()])),
            of(SemanticType.TEXT, self.embedded(batch["texts"])),
            batch["is_null"][..., None] & ones,
            batch["is_target"][..., None] & ones,
            batch["is_target"][..., None] * moments[:, None, :],
        )
        return torch.cat([part.float() for part in parts], -1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        with torch.no_grad():
            features = self.features(batch)
        return self.feed_forward(self.project(features))


class Kind(NamedTuple):
    """What a prediction is: all that it takes of a target."""

    stype: str
    class_count: int


class RelationalTransformer(nn.Module):
    def __init__(
        self,
        store: weir.Store,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        dropout: float = 0.0,
        dates: bool = True,
        attention: str = "weir",
        tables: dict[str, Tensor] | None = None,
    ) -> None:
        """tables: the store's embeddings of columns and categories, where the model will be; without them the store's own."""
        super().__init__()
        self.attention = attention
        self.encoder = CellEncoder(store, width, dropout, dates, tables)
        self.layers = nn.ModuleList(Layer(width, heads, dropout, attention) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.null_head = nn.Linear(width, 1)
        self.number_head = nn.Linear(width, 1)
        self.boolean_head = nn.Linear(width, 1)

    def compile_layers(self, **options: object) -> None:
        """torch.compile, layer by layer: all layers are one piece of code, so that it takes seconds however many there are.
        What says who sees whom is made before them, once per batch."""
        for part in (self.encoder, *self.layers):
            part.compile(dynamic=False, **options)

    def vectors(self, batch: dict[str, Tensor]) -> Tensor:
        """The vector of each cell, [B, S, width]; heads take its norm (self.norm)."""
        cells, seen = self.encoder(batch), who_sees_whom(batch, self.attention)
        for layer in self.layers:
            cells = layer(cells, seen)
        return cells

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """The vector at each sequence's target, [B, width]. The target comes first of all cells."""
        return self.norm(self.vectors(batch)[:, 0])

    def predict(self, at_target: Tensor, target: weir.Target | Kind, category_start: int) -> Tensor:
        """Scores by the target's semantic type: a number, a logit, or one score per class."""
        if target.stype == "categorical":
            classes = self.encoder.of_classes(category_start, target.class_count)
            return at_target @ classes.T * at_target.shape[1] ** -0.5
        head = self.boolean_head if target.stype == "boolean" else self.number_head
        return head(at_target)[:, 0]

    def losses(self, inputs: dict[str, Tensor], target: weir.Target, category_start: int = 0) -> tuple[Tensor, Tensor]:
        """(loss, prediction) of each sequence: is the target null, and if it is not, what is it? category_start is where
        the classes of a categorical target begin among the store's categories."""
        at_target = self(inputs)
        wanted, is_null = target.torch()
        prediction = self.predict(at_target, target, category_start)
        by_type = self.compare(prediction, wanted, target.stype)
        return self.null_losses(at_target, is_null) + ~is_null * by_type, prediction

    def mixed_losses(self, inputs: dict[str, Tensor], batch: weir.Batch) -> Tensor:
        """The loss of each sequence of a mixed batch, each by the task that it is of."""
        at_target = self(inputs)
        wanted, is_null = batch.target.torch()
        by_type, ids = torch.zeros_like(wanted), batch.dataset_ids.torch().long()
        for number, source in enumerate(batch.sources):
            own = (ids == number).nonzero()[:, 0]
            if len(own) > 0:
                kind = Kind(source.target_stype, source.category_count)
                prediction = self.predict(at_target[own], kind, source.category_start)
                by_type = by_type.index_add(0, own, self.compare(prediction, wanted[own], kind.stype).to(by_type.dtype))
        return self.null_losses(at_target, is_null) + ~is_null * by_type

    @staticmethod
    def compare(prediction: Tensor, wanted: Tensor, stype: str) -> Tensor:
        if stype == "categorical":
            return functional.cross_entropy(prediction, wanted.long(), reduction="none")
        if stype == "boolean":
            return functional.binary_cross_entropy_with_logits(prediction, wanted.float(), reduction="none")
        return functional.smooth_l1_loss(prediction, wanted, reduction="none")

    def null_losses(self, at_target: Tensor, is_null: Tensor) -> Tensor:
        logits = self.null_head(at_target)[:, 0]
        return functional.binary_cross_entropy_with_logits(logits, is_null.float(), reduction="none")


# ---- Steps without the host ------------------------------------------------------------------------------------------


class FixedTarget:
    """A target whose tensors stay where they are: for a CUDA graph."""

    def __init__(self, target: weir.Target) -> None:
        self.stype, self.class_count = target.stype, target.class_count
        self.tensors = tuple(tensor.clone() for tensor in target.torch())

    def torch(self) -> tuple[Tensor, Tensor]:
        return self.tensors


class RecordedStep:
    """Forward and backward of one task on a GPU, recorded as a CUDA graph and replayed for each batch. A step of 12 layers
    is some 1,500 kernels, and the host needs longer to launch them than the GPU to run them. Batches have one shape
    (pad_rows); what differs from batch to batch, the table of texts, was looked up before. After a call the parameters have the gradients of this batch; the losses are good until the next call.

        step = RecordedStep(model, batch)
        losses = step(batch)
        optimizer.step()
    """

    def __init__(self, model: RelationalTransformer, batch: weir.Batch) -> None:
        self.inputs = {name: tensor.clone() for name, tensor in inputs_of(batch).items() if name != "text_batch_embeddings"}
        self.target = FixedTarget(batch.target)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # what is compiled when it is used first, and what is chosen then
            for _ in range(3):
                self.run(model, batch.category_start)
        torch.cuda.current_stream().wait_stream(stream)
        model.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = self.run(model, batch.category_start)
        self.gradients = [(parameter, parameter.grad) for parameter in model.parameters()]

    def run(self, model: RelationalTransformer, category_start: int) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            losses, _ = model.losses(self.inputs, self.target, category_start)
        losses.mean().backward()
        return losses.detach()

    def __call__(self, batch: weir.Batch) -> Tensor:
        given = inputs_of(batch)
        torch._foreach_copy_(list(self.inputs.values()), [given[name] for name in self.inputs])
        torch._foreach_copy_(list(self.target.tensors), list(batch.target.torch()))
        self.graph.replay()
        for parameter, gradient in self.gradients:
            parameter.grad = gradient
        return self.losses
