"""A PyTorch model as a weir graph (weir-graph/1), for `weir plan`.

    tools/torch_graph.py mymodels:resnet > g.json

where the function `resnet` of the module `mymodels` returns (model, example inputs). From Python:

    graph_of(model, inputs)             the best way that this torch has
    traced_graph(model, *inputs)        any torch with torch.fx: symbolic trace, shapes by running the example
    exported_graph(program)             a torch.export.ExportedProgram, shapes from its metadata

Example inputs are a tuple, or a dict of keyword arguments. All ways read shapes and dtypes that torch has computed;
nothing is guessed, and a symbolic dimension is refused with the tensor's name. Parameters become parameters, buffers and
lifted constants become state; weights that are tied are one tensor. What a model returns is looked through for tensors,
whatever it is (a ModelOutput, a cache of keys and values): they are the graph's outputs. A value of several tensors
becomes tensors NAME.0, NAME.1, … Views, and what operators write in place (`relu_`), are torch's own memory under another
name: they are written with `alias_of`, so that a plan gives them the place that they share. Operators that the table of
weir-graph/1 does not have keep torch's name.
"""

import argparse
import contextlib
import importlib
import inspect
import json
import sys
from collections.abc import Mapping
from typing import Any, Callable, Iterator, NamedTuple

import torch
import torch.fx

DTYPES = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "f8e4m3",
    "float8_e4m3fnuz": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float8_e5m2fnuz": "f8e5m2",
    "int64": "i64",
    "int32": "i32",
    "int16": "i16",
    "int8": "i8",
    "uint64": "u64",
    "uint32": "u32",
    "uint16": "u16",
    "uint8": "u8",
    "bool": "bool",
}

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
         "u64": 8, "u32": 4, "u16": 2, "u8": 1, "bool": 1}  # fmt: skip

# Operators of the table, by the names that torch's functions, methods, aten operators and modules have for them.
OPERATORS = {
    "add": "add add_ iadd __iadd__",
    "sub": "sub sub_ isub rsub",
    "neg": "neg neg_ negative",
    "mul": "mul mul_ imul multiply",
    "div": "div div_ truediv itruediv divide",
    "relu": "relu relu_ ReLU",
    "tanh": "tanh tanh_ Tanh",
    "sigmoid": "sigmoid sigmoid_ Sigmoid",
    "exp": "exp exp_",
    "sqrt": "sqrt sqrt_",
    "gelu": "gelu GELU",
    "silu": "silu silu_ SiLU",
    "softmax": "softmax _softmax log_softmax _log_softmax Softmax LogSoftmax _safe_softmax",
    "cast": "to type float half bfloat16 double _to_copy",
    "reshape": "view reshape _unsafe_view flatten unflatten squeeze unsqueeze expand contiguous alias detach Flatten "
    "Identity",
    "transpose": "transpose t permute swapaxes movedim",
    "concat": "cat concat concatenate stack",
    "slice": "slice select split chunk narrow unbind split_with_sizes getitem",
    "layernorm": "layer_norm native_layer_norm group_norm native_group_norm batch_norm native_batch_norm instance_norm "
    "_native_batch_norm_legit_no_training _native_batch_norm_legit_functional LayerNorm GroupNorm BatchNorm1d "
    "BatchNorm2d BatchNorm3d InstanceNorm2d",
    "rmsnorm": "rms_norm _fused_rms_norm RMSNorm",
    "matmul": "matmul mm bmm addmm baddbmm linear einsum Linear Bilinear",
    "conv": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d convolution Conv1d Conv2d Conv3d "
    "ConvTranspose1d ConvTranspose2d",
    "attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention "
    "_scaled_dot_product_efficient_attention "
    "_scaled_dot_product_flash_attention_for_cpu multi_head_attention_forward MultiheadAttention",
    "embedding": "embedding Embedding",
    "cross_entropy": "cross_entropy cross_entropy_loss nll_loss nll_loss_forward CrossEntropyLoss NLLLoss",
}
NAMES = {name: op for op, names in OPERATORS.items() for name in names.split()}

# What shares the memory of its first argument, where torch does not tell (a traced model); the second if that is
# contiguous.
VIEWS = set("view _unsafe_view squeeze unsqueeze transpose t permute swapaxes movedim alias detach Identity".split())
VIEWS_OF_CONTIGUOUS = set("flatten unflatten Flatten".split())

# Operators of the table that write over an input without needing it for the way back, what of them needs its inputs
# then, and what needs its output; operators that are not in the table need both.
OVERWRITING = set("add sub neg scale bias_add relu tanh sigmoid exp sqrt".split())
SAVES_INPUTS = set("mul div gelu silu layernorm rmsnorm matmul conv attention embedding cross_entropy".split())
SAVES_OUTPUT = set("relu tanh sigmoid exp sqrt softmax".split())
SAVES_NOTHING = set("add sub neg scale bias_add cast reshape transpose concat slice".split())


class GraphError(ValueError):
    """The model cannot be written as a graph; the message names the tensor or node."""


def _dimensions(name: str, value: Any) -> list[int]:
    shape = []
    for size in value.shape:
        if not isinstance(size, int):
            raise GraphError(f"tensor {name} has a dynamic dimension ({size}); export the model with static shapes")
        shape.append(int(size))
    return shape


def _dtype(name: str, value: Any) -> str:
    kind = str(value.dtype).removeprefix("torch.")
    if kind not in DTYPES:
        raise GraphError(f"tensor {name} is of dtype {kind}, which a weir graph cannot hold")
    return DTYPES[kind]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in a value, with the place of each: "" for a tensor itself, ".0.1" in tuples, ".k" in dicts."""
    if _is_tensor(value):
        yield path, value
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}.{index}")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")


def _free(name: str, taken: Any) -> str:
    """The name, or the next one like it that is free."""
    unique, count = name, 1
    while unique in taken:
        count += 1
        unique = f"{name}_{count}"
    return unique


class _Memory(NamedTuple):
    """Where a tensor's bytes are while torch runs: some memory, by anything that tells it from others, and the place of
    the first byte in it."""

    key: Any
    offset: int


def _memory_of(value: Any) -> _Memory | None:
    """What torch says of it; a traced model's metadata does not, nor does torch before 2.0."""
    if not isinstance(value, torch.Tensor) or not hasattr(value, "untyped_storage"):
        return None
    return _Memory(value.untyped_storage()._cdata, int(value.storage_offset()) * value.element_size())


def _is_contiguous(value: Any) -> bool:
    expected = 1
    strides = value.stride() if callable(value.stride) else value.stride
    for size, stride in zip(reversed(value.shape), reversed(tuple(strides))):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def _saves(op: str, inputs: bool) -> bool:
    known = SAVES_INPUTS | SAVES_OUTPUT | SAVES_NOTHING
    return op not in known or op in (SAVES_INPUTS if inputs else SAVES_OUTPUT)


class _Places:
    """Who shares the memory of whom. Goes through the nodes in their order and gives each output that torch has in the
    memory of another tensor an `alias_of`, unless its bytes are not inside those, or a write would lose a value that
    somebody needs later, in any mode."""

    def __init__(self, builder: "_Builder", outputs: list[str]) -> None:
        self.tensors, self.memory = builder.tensors, builder.memory
        self.nodes, self.overwrites = builder.nodes, builder.overwrites
        self.outputs = set(outputs)
        self.owner = {name: name for name in self.tensors}
        self.members = {name: [name] for name in self.tensors}
        self.holder: dict[Any, str] = {}  # some memory: the tensor that has it now
        self.last_use: dict[str, int] = {}
        self.saved: set[str] = set()
        for number, node in enumerate(self.nodes):
            self.last_use.update(dict.fromkeys(node["inputs"], number))
            self.saved.update(node["inputs"] if _saves(node["op"], True) else ())
            self.saved.update(node["outputs"] if _saves(node["op"], False) else ())

    def bytes_of(self, name: str) -> int:
        count = 1
        for dimension in self.tensors[name]["shape"]:
            count *= dimension
        return count * SIZES[self.tensors[name]["dtype"]]

    def share(self) -> None:
        made = {name for node in self.nodes for name in node["outputs"]}
        for name in self.tensors:
            if name not in made and name in self.memory:
                self.holder.setdefault(self.memory[name].key, name)
        for number, node in enumerate(self.nodes):
            for name in node["outputs"]:
                self.place(number, node, name)

    def place(self, number: int, node: dict[str, Any], name: str) -> None:
        memory = self.memory[name]
        owner = self.holder.setdefault(memory.key, name)
        if owner == name:
            return
        offset = memory.offset - self.memory[owner].offset
        fits = 0 <= offset <= self.bytes_of(owner) - self.bytes_of(name)
        reads = any(self.owner[given] == owner for given in node["inputs"])
        writes = node["id"] in self.overwrites
        if fits and reads and not (writes and self.is_needed(owner, number)):
            self.tensors[name]["alias_of"] = owner
            if offset:
                self.tensors[name]["alias_offset"] = offset
            self.owner[name] = owner
            self.members[owner].append(name)
        elif writes:
            self.holder[memory.key] = name

    def is_needed(self, owner: str, number: int) -> bool:
        """Whether a value in this place is needed after the node of this number, in some mode."""
        return self.nodes[number]["op"] not in OVERWRITING or any(
            self.last_use.get(name, -1) > number or name in self.outputs or name in self.saved
            for name in self.members[owner]
        )


class _Builder:
    """Tensors and nodes of a graph; values of fx nodes are known by the ids of their tensors."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tensors: dict[str, dict[str, Any]] = {}
        self.nodes: list[dict[str, Any]] = []
        self.values: dict[torch.fx.Node, dict[str, str]] = {}  # the path inside the node's value -> tensor id
        self.owned: dict[Any, str] = {}  # parameters and buffers by identity, since one may have several names
        self.node_ids: set[str] = set()
        self.memory: dict[str, _Memory] = {}
        self.contiguous: set[str] = set()
        self.overwrites: set[str] = set()  # nodes that write in place

    def tensor(self, name: str, value: Any, role: str | None = None) -> str:
        """Declares a tensor under this name, or the next that is free."""
        unique = _free(name, self.tensors)
        entry = {"id": unique, "shape": _dimensions(unique, value), "dtype": _dtype(unique, value)}
        if role:
            entry["role"] = role
        self.tensors[unique] = entry
        self.memory[unique] = _memory_of(value) or _Memory(unique, 0)
        if _is_contiguous(value):
            self.contiguous.add(unique)
        return unique

    def owned_tensor(self, name: str, value: torch.Tensor) -> str:
        """A parameter or buffer of the model, declared when it is first met."""
        return self.owned_once(id(value), name, value, "parameter" if isinstance(value, torch.nn.Parameter) else "state")

    def owned_once(self, identity: Any, name: str, value: Any, role: str) -> str:
        """The same for anything that says whether two of them are one."""
        if identity not in self.owned:
            self.owned[identity] = self.tensor(name, value, role)
        return self.owned[identity]

    def ids_in(self, arguments: Any) -> list[str]:
        """The tensors that arguments hold, each once for every time it stands there."""
        found: list[str] = []
        torch.fx.node.map_arg(arguments, lambda node: found.extend(self.values.get(node, {}).values()))
        return found

    def compute(self, node: torch.fx.Node, name: str, inputs: list[str], value: Any, asks: bool) -> None:
        """A node and what it produces; a value without tensors (a size, a number) is left out. `asks`: it is told to
        write in place."""
        outputs = {path: self.tensor(node.name + path, leaf) for path, leaf in _leaves(value)}
        self.values[node] = outputs
        if not outputs:
            return
        unique = _free(node.name, self.node_ids)
        self.node_ids.add(unique)
        op = _operator(name, len(inputs))
        entry: dict[str, Any] = {"id": unique, "op": op, "inputs": inputs, "outputs": list(outputs.values())}
        self.nodes.append(entry)
        if asks or (name.endswith("_") and not name.endswith("__")):
            entry["inplace"] = True
            self.overwrites.add(unique)
        is_view = name in VIEWS or (name in VIEWS_OF_CONTIGUOUS and inputs[:1] and inputs[0] in self.contiguous)
        if inputs and (is_view or unique in self.overwrites):
            unknown = [outputs[path] for path, leaf in _leaves(value) if _memory_of(leaf) is None]
            self.memory.update(dict.fromkeys(unknown, self.memory[inputs[0]]))

    def take_item(self, node: torch.fx.Node) -> bool:
        """`value[i]` of a tuple or dict names a part of it: no operation. False if it computes something."""
        source, key = node.args
        if (
            not isinstance(source, torch.fx.Node)
            or not isinstance(key, (int, str))
            or "" in self.values.get(source, {"": ""})
        ):
            return False
        prefix = f".{key}"
        self.values[node] = {
            path[len(prefix) :]: name
            for path, name in self.values[source].items()
            if path == prefix or path.startswith(prefix + ".")
        }
        return True

    def finish(self, outputs: list[str]) -> dict[str, Any]:
        """The graph. What an output names without computing it (an input, a parameter) needs no place of its own."""
        made = {name for node in self.nodes for name in node["outputs"]}
        kept = [name for name in dict.fromkeys(outputs) if name in made]
        _Places(self, kept).share()
        return {
            "format": "weir-graph/1",
            "name": self.name,
            "tensors": list(self.tensors.values()),
            "nodes": self.nodes,
            "outputs": kept,
        }


def _operator(name: str, tensor_inputs: int) -> str:
    op = NAMES.get(name, name)
    # By a number instead of a tensor: nothing has to be kept for the way back.
    return "scale" if op in ("mul", "div") and tensor_inputs == 1 else op


# ---- torch.fx ----------------------------------------------------------------------------------------------


def _function_name(target: Any) -> str:
    """'add' of operator.add, torch.add and aten.add.Tensor alike."""
    if hasattr(target, "_schema"):
        return str(target._schema.name.split("::")[-1])
    return str(getattr(target, "__name__", target))


def _value_of(node: torch.fx.Node) -> Any:
    """What torch knows of a node's result: a (fake) tensor, or the metadata of ShapeProp."""
    return node.meta["val"] if "val" in node.meta else node.meta.get("tensor_meta")


def _attribute(module: torch.nn.Module, target: str) -> Any:
    value: Any = module
    for part in target.split("."):
        value = getattr(value, part)
    return value


def _add_module_call(builder: _Builder, module: torch.nn.Module, node: torch.fx.Node, value: Any) -> None:
    called = module.get_submodule(node.target)
    inputs = builder.ids_in((node.args, node.kwargs))
    own = [*called.named_parameters(), *called.named_buffers()]
    inputs += [builder.owned_tensor(f"{node.target}.{name}", tensor) for name, tensor in own]
    kind = type(called).__name__
    builder.compute(node, kind, inputs, value, getattr(called, "inplace", False))


def _add_call(builder: _Builder, node: torch.fx.Node, value: Any) -> None:
    name = node.target if node.op == "call_method" else _function_name(node.target)
    if name == "getitem" and builder.take_item(node):
        return
    inputs = builder.ids_in((node.args, node.kwargs))
    builder.compute(node, name, inputs, value, node.kwargs.get("inplace") is True)


def fx_graph(module: torch.fx.GraphModule, name: str | None = None) -> dict[str, Any]:
    """A graph of a GraphModule whose nodes have shapes (by ShapeProp, or meta['val'])."""
    builder = _Builder(name or type(module).__name__)
    outputs: list[str] = []
    for node in module.graph.nodes:
        value = _value_of(node)
        if node.op == "placeholder":
            builder.values[node] = {
                path: builder.tensor(node.name + path, leaf, "input") for path, leaf in _leaves(value)
            }
        elif node.op == "get_attr":
            owned = _attribute(module, node.target)
            builder.values[node] = (
                {"": builder.owned_tensor(node.target, owned)} if isinstance(owned, torch.Tensor) else {}
            )
        elif node.op == "call_module":
            _add_module_call(builder, module, node, value)
        elif node.op == "output":
            outputs = builder.ids_in(node.args)
        else:
            _add_call(builder, node, value)
    return builder.finish(outputs)


@contextlib.contextmanager
def _unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Undoes what running a module does to its buffers (running means) and to torch's random numbers (dropout)."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    with torch.random.fork_rng(devices=list(devices)):
        try:
            yield
        finally:
            for buffer, value in before:
                buffer.copy_(value)


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and keyword arguments."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)), {}


def traced_graph(model: torch.nn.Module, *inputs: Any, name: str | None = None, **keywords: Any) -> dict[str, Any]:
    """Traces a model symbolically and runs the example inputs through it once, for the shapes."""
    from torch.fx.passes.shape_prop import ShapeProp

    module, values = model, inputs
    if not isinstance(model, torch.fx.GraphModule):
        signature = inspect.signature(model.forward)
        given = signature.bind(*inputs, **keywords)
        values = tuple(given.args) if not keywords else tuple(given.arguments.values())
        left_out = {k: p.default for k, p in signature.parameters.items() if keywords and k not in given.arguments}
        module = torch.fx.symbolic_trace(model, concrete_args=left_out or None)
    with torch.no_grad(), _unchanged(module):
        ShapeProp(module).propagate(*values)
    return fx_graph(module, name or type(model).__name__)


# ---- torch.export ------------------------------------------------------------------------------------------


def exported_graph(program: Any, name: str | None = None, prefix: str = "") -> dict[str, Any]:
    """A graph of a torch.export.ExportedProgram: its signature tells parameters and buffers from inputs. `prefix` is
    what the names of parameters begin with and should not."""
    builder = _Builder(name or type(program).__name__)
    signature = program.graph_signature
    parameters = dict(signature.inputs_to_parameters)
    state = {**signature.inputs_to_buffers, **getattr(signature, "inputs_to_lifted_tensor_constants", {})}
    for node in program.graph.nodes:
        if node.op == "placeholder":
            known = parameters.get(node.name) or state.get(node.name)
            if known is None:
                builder.values[node] = {p: builder.tensor(node.name + p, leaf, "input") for p, leaf in _leaves(_value_of(node))}
                continue
            role = "parameter" if node.name in parameters else "state"
            identity = _identity(program.state_dict.get(known), known)
            builder.values[node] = {"": builder.owned_once(identity, known.removeprefix(prefix), _value_of(node), role)}
    return builder.finish(list(_add_exported(builder, program.graph_module).values()))


def _identity(tensor: Any, name: str) -> Any:
    """What two names have in common that are one tensor (tied weights): the memory that they show, and how."""
    if not isinstance(tensor, torch.Tensor):
        return name
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _add_exported(builder: _Builder, module: torch.fx.GraphModule) -> dict[str, str]:
    """Adds the calls of an exported graph whose placeholders are known; returns its outputs by their place."""
    outputs: dict[str, str] = {}
    for node in module.graph.nodes:
        if node.op == "output":
            outputs = dict(_paths(builder, node.args[0]))
        elif node.op == "call_function" and _parts_of(module, node):
            _add_part(builder, module, node)
        elif node.op == "call_function":
            _add_call(builder, node, _value_of(node))
        elif node.op == "get_attr":
            found = _attribute(module, node.target)
            if isinstance(found, torch.Tensor):
                builder.values[node] = {"": builder.owned_tensor(node.target, found)}
        elif node.op != "placeholder":
            raise GraphError(f"node {node.name} is a {node.op}, which an exported program should not have")
    return outputs


def _paths(builder: _Builder, argument: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The tensors in an argument, with the place of each."""
    if isinstance(argument, torch.fx.Node):
        for inner, name in builder.values.get(argument, {}).items():
            yield path + inner, name
    elif isinstance(argument, (tuple, list)):
        for index, item in enumerate(argument):
            yield from _paths(builder, item, f"{path}.{index}")
    elif isinstance(argument, dict):
        for key, item in argument.items():
            yield from _paths(builder, item, f"{path}.{key}")


def _parts_of(module: torch.fx.GraphModule, node: torch.fx.Node) -> list[int]:
    """Which arguments of a call are parts of the program: torch.no_grad() and autocast make a part of their own."""
    return [
        place
        for place, argument in enumerate(node.args)
        if isinstance(argument, torch.fx.Node)
        and argument.op == "get_attr"
        and isinstance(_attribute(module, str(argument.target)), torch.fx.GraphModule)
    ]


def _add_part(builder: _Builder, module: torch.fx.GraphModule, node: torch.fx.Node) -> None:
    """A call of a part of the program: its own calls stand in its place. What it is given comes last."""
    parts = _parts_of(module, node)
    if len(parts) > 1:
        raise GraphError(f"node {node.name} ({_function_name(node.target)}) chooses between parts of the model; which one runs "
                         "is not known before")  # fmt: skip
    [place] = parts
    part = _attribute(module, str(node.args[place].target))
    inner = [other for other in part.graph.nodes if other.op == "placeholder"]
    given = node.args[place + 1 :][-len(inner) :] if inner else ()
    if len(given) != len(inner):
        raise GraphError(f"node {node.name} gives its part {len(given)} values, and it takes {len(inner)}")
    for placeholder, value in zip(inner, given):
        builder.values[placeholder] = dict(_paths(builder, value))
    builder.values[node] = _add_exported(builder, part)


class _Returns(torch.nn.Module):
    """A model that returns its tensors alone, as torch.export wants it: whatever else holds them is looked through."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        return tuple(_tensors_in(self.model(*inputs, **keywords), set()))


def _tensors_in(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """The tensors in a value, each once: in tuples, dicts, and in what objects have as attributes."""
    if id(value) in seen or value is None or isinstance(value, (str, int, float, torch.dtype, torch.device, type)):
        return
    seen.add(id(value))
    if isinstance(value, torch.Tensor):
        yield value
        return
    if isinstance(value, Mapping):
        items = list(value.values())
    else:
        items = list(value) if isinstance(value, (tuple, list)) else list(getattr(value, "__dict__", {}).values())
    for item in items:
        yield from _tensors_in(item, seen)


def graph_of(model: torch.nn.Module, inputs: Any, name: str | None = None) -> dict[str, Any]:
    """Through torch.export where this torch has it, else through torch.fx."""
    arguments, keywords = _arguments(inputs)
    if not hasattr(torch, "export"):
        return traced_graph(model, *arguments, name=name, **keywords)
    options = {"strict": False} if "strict" in inspect.signature(torch.export.export).parameters else {}
    with _unchanged(model):
        program = torch.export.export(_Returns(model), arguments, keywords, **options)
    return exported_graph(program, name or type(model).__name__, "model.")


def graph_of_any(model: Any, inputs: Any = None) -> dict[str, Any]:
    """A graph of an exported program, of a GraphModule that has its shapes, or of a module and example inputs."""
    if hasattr(model, "graph_signature"):
        return exported_graph(model)
    if isinstance(model, torch.nn.Module) and inputs is not None:
        return graph_of(model, inputs)
    if isinstance(model, torch.fx.GraphModule):
        return fx_graph(model)
    if isinstance(model, torch.nn.Module):
        raise TypeError('a torch module has no shapes by itself: give example inputs, as in inputs=(x,) or inputs={"x": x}')
    raise TypeError(f"a graph is a path, a dict, a torch program or module, not {type(model).__name__}")


def _load(place: str) -> Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]]:
    module, _, function = place.partition(":")
    if not function:
        raise SystemExit("say MODULE:FUNCTION; the function returns (model, example inputs)")
    found: Callable[[], tuple[torch.nn.Module, tuple[Any, ...]]] = getattr(importlib.import_module(module), function)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Prints a PyTorch model as a weir graph.")
    parser.add_argument("place", metavar="MODULE:FUNCTION", help="a function that returns (model, example inputs)")
    parser.add_argument("--name", help="the graph's name; without it, the model's class")
    arguments = parser.parse_args()
    sys.path.insert(0, ".")
    model, inputs = _load(arguments.place)()
    try:
        json.dump(graph_of(model, inputs, arguments.name), sys.stdout)
    except GraphError as fault:
        raise SystemExit(f"torch_graph: {fault}")
    print()


if __name__ == "__main__":
    main()
