"""`weir graph import`: ONNX models become graphs, and what cannot be planned is refused by name."""

import json
import random
import unittest
from pathlib import Path
from typing import Any

from tests.support import onnx_writer as onnx
from tests.support.onnx_writer import (
    BFLOAT16,
    FLOAT,
    INT64,
    STRING,
    attribute,
    initializer,
    message,
    model,
    node,
    number,
    value_info,
)
from tests.support.plans import Files, call, plan, validate

INPUT, OUTPUT, VALUE = 11, 12, 13


def mlp() -> bytes:
    return model(
        node("Gemm", ["x", "w1", "b1"], ["h"], "first"),
        node("Relu", ["h"], ["a"], "second"),
        node("MatMul", ["a", "w2"], ["y"], "third"),
        initializer("w1", FLOAT, [64, 128], bytes(64 * 128 * 4)),
        initializer("b1", FLOAT, [128], packed=True),
        initializer("w2", BFLOAT16, [128, 10]),
        value_info(INPUT, "x", FLOAT, [32, 64]),
        value_info(OUTPUT, "y", FLOAT, [32, 10]),
        value_info(VALUE, "h", FLOAT, [32, 128]),
        value_info(VALUE, "a", FLOAT, [32, 128]),
        name="mlp",
    )


class ImportCase(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def read(self, data: bytes) -> dict[str, Any]:
        done = call("graph", "import", self.files.add(data))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def refuse(self, data: bytes, identity: str, *parts: str) -> None:
        done = call("graph", "import", self.files.add(data), "--json")
        self.assertEqual(done.returncode, 1, done.stdout)
        error = json.loads(done.stdout)["error"]
        self.assertIn(identity, json.dumps(error))
        for part in parts:
            self.assertIn(part, error["message"])


class Models(ImportCase):
    def test_a_small_model(self) -> None:
        made = self.read(mlp())
        self.assertEqual(made["name"], "mlp")
        tensors = {t["id"]: (t["shape"], t["dtype"], t.get("role", "activation")) for t in made["tensors"]}
        self.assertEqual(
            tensors,
            {
                "x": ([32, 64], "f32", "input"),
                "w1": ([64, 128], "f32", "parameter"),
                "b1": ([128], "f32", "parameter"),
                "w2": ([128, 10], "bf16", "parameter"),
                "h": ([32, 128], "f32", "activation"),
                "a": ([32, 128], "f32", "activation"),
                "y": ([32, 10], "f32", "activation"),
            },
        )
        self.assertEqual(
            [(n["id"], n["op"], n["inputs"], n["outputs"]) for n in made["nodes"]],
            [
                ("first", "matmul", ["x", "w1", "b1"], ["h"]),
                ("second", "relu", ["h"], ["a"]),
                ("third", "matmul", ["a", "w2"], ["y"]),
            ],
        )
        self.assertEqual(made["outputs"], ["y"])

    def test_the_graph_can_be_planned(self) -> None:
        path = self.files.add(self.read(mlp()))
        for mode in ("inference", "forward", "backward"):
            validate(plan(path, "--mode", mode))

    def test_from_standard_input(self) -> None:
        done = call("graph", "import", "-", stdin=mlp())
        self.assertEqual(json.loads(done.stdout), self.read(mlp()))

    def test_initializers_listed_as_inputs_are_parameters(self) -> None:
        for fields in (
            (initializer("w", FLOAT, [4]), value_info(INPUT, "w", FLOAT, ["N"])),
            (value_info(INPUT, "w", FLOAT, ["N"]), initializer("w", FLOAT, [4])),
        ):
            made = self.read(model(node("Relu", ["w"], ["y"]), *fields, value_info(OUTPUT, "y", FLOAT, [4])))
            self.assertEqual(made["tensors"][0], {"id": "w", "shape": [4], "dtype": "f32", "role": "parameter"})

    def test_constants_are_state(self) -> None:
        shapes = {
            "tensor": (attribute("value", message(5, onnx.tensor("", INT64, number(1, 2)))), [2], "i64"),
            "ints": (attribute("value_ints", *[number(8, 1)] * 3), [3], "i64"),
            "packed": (attribute("value_ints", message(8, b"\x01\x80\x01\x03")), [3], "i64"),
            "floats": (attribute("value_floats", message(7, bytes(8))), [2], "f32"),
            "int": (attribute("value_int", number(3, 7)), [], "i64"),
            "float": (attribute("value_float", b"\x15" + bytes(4)), [], "f32"),
        }
        nodes = [node("Constant", [], [name], "", part) for name, (part, _, _) in shapes.items()]
        made = self.read(model(*nodes, node("Sum", list(shapes), ["y"]), value_info(OUTPUT, "y", FLOAT, [])))
        tensors = {t["id"]: t for t in made["tensors"]}
        for name, (_, shape, dtype) in shapes.items():
            self.assertEqual(tensors[name], {"id": name, "shape": shape, "dtype": dtype, "role": "state"})
        self.assertEqual([n["op"] for n in made["nodes"]], ["Sum"])

    def test_left_out_inputs_and_outputs(self) -> None:
        made = self.read(
            model(
                node("Clip", ["x", "", "m"], ["y", ""]),
                value_info(INPUT, "x", FLOAT, [4]),
                value_info(INPUT, "m", FLOAT, []),
                value_info(OUTPUT, "y", FLOAT, [4]),
            )
        )
        self.assertEqual(made["nodes"][0]["inputs"], ["x", "m"])
        self.assertEqual(made["nodes"][0]["outputs"], ["y"])

    def test_node_ids_are_made_unique(self) -> None:
        names = ["", "", "a", "a", "Relu#0", "a#3", ""]
        nodes = [node("Relu", [f"t{i}"], [f"t{i + 1}"], name) for i, name in enumerate(names)]
        values = [value_info(VALUE, f"t{i}", FLOAT, [4]) for i in range(1, len(names))]
        made = self.read(
            model(
                *nodes, value_info(INPUT, "t0", FLOAT, [4]), *values, value_info(OUTPUT, f"t{len(names)}", FLOAT, [4])
            )
        )
        self.assertEqual(
            [n["id"] for n in made["nodes"]], ["Relu#0", "Relu#1", "a", "a#3", "Relu#0#4", "a#3#5", "Relu#6"]
        )

    def test_operators_of_other_domains_keep_their_names(self) -> None:
        made = self.read(
            model(
                node("Relu", ["x"], ["h"], domain="com.example"),
                node("Relu", ["h"], ["y"], domain="ai.onnx"),
                value_info(INPUT, "x", FLOAT, [4]),
                value_info(VALUE, "h", FLOAT, [4]),
                value_info(OUTPUT, "y", FLOAT, [4]),
            )
        )
        self.assertEqual([n["op"] for n in made["nodes"]], ["com.example.Relu", "relu"])

    def test_every_data_type(self) -> None:
        kinds = {
            1: "f32",
            2: "u8",
            3: "i8",
            4: "u16",
            5: "i16",
            6: "i32",
            7: "i64",
            9: "bool",
            10: "f16",
            11: "f64",
            12: "u32",
            13: "u64",
            16: "bf16",
            17: "f8e4m3",
            18: "f8e4m3",
            19: "f8e5m2",
            20: "f8e5m2",
            21: "u4",
            22: "i4",
        }
        made = self.read(model(*[initializer(f"w{kind}", kind, [3]) for kind in kinds]))
        self.assertEqual([t["dtype"] for t in made["tensors"]], list(kinds.values()))
        for kind in (0, 8, 14, 15, 23, 99):
            self.refuse(model(initializer("w", kind, [3])), "INVALID_IR_SHAPES", "'w'", str(kind))


class Refusals(ImportCase):
    def relu(self, shape: Any, kind: int = FLOAT) -> bytes:
        return model(
            node("Relu", ["x"], ["h"]),
            node("Relu", ["h"], ["y"]),
            value_info(INPUT, "x", FLOAT, [2, 3]),
            value_info(VALUE, "h", kind, shape),
            value_info(OUTPUT, "y", FLOAT, [2, 3]),
        )

    def test_dynamic_and_missing_shapes(self) -> None:
        self.refuse(self.relu([2, "batch"]), "INVALID_IR_SHAPES", "'h'", "dynamic dimension 1", "batch")
        self.refuse(self.relu([2, None]), "INVALID_IR_SHAPES", "'h'", "unknown size")
        for negative in (-1, -(2**63)):
            self.refuse(self.relu([2, negative]), "INVALID_IR_SHAPES", "'h'", "negative")
        self.refuse(self.relu(None), "INVALID_IR_SHAPES", "'h'", "no shape")
        self.refuse(self.relu([2], STRING), "INVALID_IR_SHAPES", "'h'", "8")
        self.refuse(
            model(node("Relu", ["x"], ["y"]), value_info(INPUT, "x", FLOAT, [2])),
            "INVALID_IR_SHAPES",
            "'y'",
            "no shape",
        )
        sequence = message(12, message(1, "y"), message(2, message(4, b"")))
        self.refuse(
            model(node("Relu", ["x"], ["y"]), value_info(INPUT, "x", FLOAT, [2]), sequence),
            "INVALID_IR_SHAPES",
            "'y'",
            "not a tensor",
        )

    def test_a_dimension_that_is_given_twice(self) -> None:
        """A number and a name are one field's: the last of them counts."""
        def model_with(*parts: bytes) -> bytes:
            shape = message(2, message(1, number(1, FLOAT), message(2, message(1, *parts))))
            return model(node("Relu", ["x"], ["y"]), value_info(INPUT, "x", FLOAT, [2]), message(OUTPUT, message(1, "y"), shape))

        self.assertEqual(self.read(model_with(message(2, "N"), number(1, 2)))["tensors"][1]["shape"], [2])
        self.refuse(model_with(number(1, 2), message(2, "N")), "INVALID_IR_SHAPES", "'y'", "dynamic dimension 0 ('N')")

    def test_sizes_beyond_64_bits(self) -> None:
        self.refuse(self.relu([2**62, 2**62]), "ALLOCATION_OVERFLOW", "'h'")

    def test_graphs_inside_nodes(self) -> None:
        inner = attribute("then_branch", message(6, message(2, "inner")))
        self.refuse(
            model(
                node("If", ["x"], ["y"], "choice", inner),
                value_info(INPUT, "x", FLOAT, []),
                value_info(OUTPUT, "y", FLOAT, []),
            ),
            "INVALID_IR",
            "'choice'",
            "If",
        )

    def test_a_type_that_is_no_number(self) -> None:
        fields = value_info(INPUT, "x", FLOAT, [2]), value_info(OUTPUT, "y", FLOAT, [2])
        for kind in b"\x11" + bytes([FLOAT]) + bytes(7), message(2, bytes([FLOAT])):  # eight bytes, and text
            data = message(5, number(1, 2), kind, message(8, "w"))
            self.refuse(model(node("Add", ["x", "w"], ["y"]), data, *fields), "INVALID_IR_SHAPES", "'w'", "data type 0")

    def test_malformed_graphs(self) -> None:
        x, y = value_info(INPUT, "x", FLOAT, [2]), value_info(OUTPUT, "y", FLOAT, [2])
        self.refuse(model(node("Relu", ["z"], ["y"]), x, y), "INVALID_IR", "'z'")
        self.refuse(model(node("Relu", ["x"], ["y"]), node("Tanh", ["x"], ["y"]), x, y), "INVALID_IR", "'y'")
        self.refuse(model(node("", ["x"], ["y"], "n"), x, y), "INVALID_IR", "'n'", "op_type")
        self.refuse(model(value_info(INPUT, "", FLOAT, [2])), "INVALID_IR", "no name")
        self.refuse(model(message(15, b"")), "INVALID_IR", "sparse")

    def test_a_plan_takes_the_model_itself(self) -> None:
        whole = mlp()
        graph = self.files.add(call("graph", "import", self.files.add(whole)).stdout)
        expected = json.loads(call("plan", graph, "--preset", "inference", "--json").stdout)
        versioned = bytes([0x08, 0x08]) + whole  # ir_version first, as every exporter writes it
        named = Path(self.files.add(versioned)).with_suffix(".onnx")
        named.write_bytes(whole)
        for done in (call("plan", str(named), "--preset", "inference", "--json"),
                     call("plan", self.files.add(versioned), "--preset", "inference", "--json"),
                     call("plan", "-", "--preset", "inference", "--json", stdin=versioned),
                     call("plan", "-", "--preset", "inference", "--json", stdin=Path(graph).read_bytes())):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(json.loads(done.stdout)["plan_hash"], expected["plan_hash"])
        page = named.with_suffix(".html")
        self.assertEqual(call("plan", str(named), "--preset", "inference", "--html", str(page)).returncode, 0)
        self.assertIn(f'"title":{json.dumps(named.name)}', page.read_text().replace('": ', '":'))
        named.write_bytes(b"{}")
        self.assertIn(b"is not an ONNX model", call("plan", str(named), "--preset", "inference").stderr)

    def test_a_model_without_a_name_of_its_own_has_its_files(self) -> None:
        x, y = value_info(INPUT, "x", FLOAT, [2]), value_info(OUTPUT, "y", FLOAT, [2])
        for name, title in ("main_graph", "resnet18"), ("", "resnet18"), ("torch_jit", "resnet18"), ("mine", "mine"):
            path = Path(self.files.add(b"")).with_name("resnet18.onnx")
            path.write_bytes(model(node("Relu", ["x"], ["y"]), x, y, name=name))
            self.assertEqual(json.loads(call("graph", "import", str(path)).stdout)["name"], title)

    def test_bytes_that_are_no_model(self) -> None:
        self.refuse(b"", "INVALID_IR", "no graph")
        self.refuse(b"{}", "INVALID_IR", " is not an ONNX model: the message is broken at byte 0")
        self.refuse(bytes([0x3A, 0x05, 0]), "INVALID_IR", "broken at byte 0")
        self.refuse(b"\x80" * 11, "INVALID_IR", "broken at byte 0")
        self.refuse(model(node("Relu", ["x"], ["y\0"])), "INVALID_IR", "broken")
        self.refuse(model(message(1, message(2, b"\xff"))), "INVALID_IR", "broken")
        done = call("graph", "import", "/no/such/model.onnx")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"IO_ERROR", done.stderr)
        self.assertEqual(call("graph", "import", "/").stderr, b"weir: IO_ERROR: / is a directory\n")

    def test_cut_and_changed_models_never_crash(self) -> None:
        whole = mlp()
        stream = random.Random(3)
        cases = [whole[:size] for size in range(0, len(whole), max(1, len(whole) // 60))]
        head = whole[: 64 * 4] + whole[-700:]
        for _ in range(150):
            changed = bytearray(head)
            changed[stream.randrange(len(changed))] = stream.randrange(256)
            cases.append(bytes(changed))
        for case in cases:
            done = call("graph", "import", self.files.add(case))
            self.assertIn(done.returncode, (0, 1), (case, done.stderr))


if __name__ == "__main__":
    unittest.main()
