"""Tensors that share a place (`alias_of`): what is refused and why, and that plan files, traces and pages show them."""

import json
import unittest
from pathlib import Path
from typing import Any

from reference import cbor
from tests.cli.test_plan_html import column, embedded
from tests.support.plans import Files, call, error, plan, validate


def tensor(id: str, *shape: int, **more: Any) -> dict[str, Any]:
    return {"id": id, "shape": list(shape), "dtype": "f32", **more}


def node(id: str, op: str, inputs: list[str], outputs: list[str], **more: Any) -> dict[str, Any]:
    return {"id": id, "op": op, "inputs": inputs, "outputs": outputs, **more}


def graph(tensors: list[dict], nodes: list[dict], outputs: list[str]) -> dict[str, Any]:
    return {"format": "weir-graph/1", "name": "places", "tensors": tensors, "nodes": nodes, "outputs": outputs}


def chain(**alias: Any) -> dict[str, Any]:
    """x -> h -> v (an alias, as given) -> y."""
    return graph(
        [tensor("x", 64, role="input"), tensor("h", 64), tensor("v", 64, **alias), tensor("y", 64)],
        [
            node("make", "softmax", ["x"], ["h"]),
            node("show", "reshape", ["h"], ["v"]),
            node("end", "softmax", ["v"], ["y"]),
        ],
        ["y"],
    )


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def refused(self, model: dict, *options: str) -> str:
        fault = error(self.files.add(model), *(options or ("--mode", "forward")))
        self.assertEqual(fault["code_id"], "INVALID_IR", fault)
        return fault["message"]


class Refusals(Case):
    def test_what_an_alias_may_not_be(self) -> None:
        for alias, words in (
            ({"alias_of": "nowhere"}, "'v' is an alias of 'nowhere', which is not declared"),
            ({"alias_offset": 4}, "$.tensors[2].alias_offset of 'v' goes with alias_of"),
            ({"alias_of": "h", "alias_offset": 2**63 - 1}, "its bytes reach beyond"),
            ({"alias_of": "h", "alias_offset": -1}, "$.tensors[2].alias_offset of 'v' must be an integer"),
            ({"alias_of": "h", "alias_offset": 4}, "'v' cannot lie in the place of 'h': its bytes reach beyond"),
            ({"alias_of": "h", "arena": "scratch"}, "different arenas"),
            ({"alias_of": "x"}, "the node that makes it does not read that"),
            ({"alias_of": "v"}, "comes back to itself"),
            ({"alias_of": 7}, "$.tensors[2].alias_of of 'v' must be a string"),
        ):
            with self.subTest(alias):
                self.assertIn(words, self.refused(chain(**alias)))

    def test_chains_without_an_end(self) -> None:
        roles = {"a": "b", "b": "c", "c": "a", "d": "a"}
        tensors = [tensor(name, 8, role="parameter", alias_of=other) for name, other in roles.items()]
        self.assertIn("comes back to itself", self.refused(graph(tensors, [], [])))

    def test_an_input_in_the_place_of_what_is_made(self) -> None:
        model = chain()
        model["tensors"].append(tensor("in", 64, role="input", alias_of="h"))
        self.assertIn("a node makes that, and none makes this", self.refused(model))

    def test_a_value_that_is_read_after_it_is_overwritten(self) -> None:
        """relu writes into h, and who reads h comes later: another node, the graph's outputs, the way back."""
        tensors = [tensor("x", 64, role="input"), tensor("w", 64, role="parameter"), tensor("h", 64)]
        tensors += [tensor("r", 64, alias_of="h"), tensor("y", 64)]
        nodes = [node("make", "add", ["x", "w"], ["h"]), node("write", "relu", ["h"], ["r"])]
        late = nodes + [node("late", "add", ["h", "r"], ["y"])]
        words = "node 'write' writes 'r' into the place of 'h', which is needed afterwards"
        for mode in ("inference", "forward", "backward"):
            self.assertIn(words, self.refused(graph(tensors, late, ["y"]), "--mode", mode))
        early = nodes + [node("end", "add", ["r", "x"], ["y"])]
        self.assertIn(words, self.refused(graph(tensors, early, ["y", "h"]), "--mode", "inference"))
        for mode in ("inference", "forward", "backward"):
            validate(plan(self.files.add(graph(tensors, early, ["y"])), "--mode", mode))
        saved = [node("make", "softmax", ["w"], ["h"]), *early[1:]]  # softmax needs its result on the way back
        validate(plan(self.files.add(graph(tensors, saved, ["y"])), "--mode", "forward"))
        self.assertIn(words, self.refused(graph(tensors, saved, ["y"]), "--mode", "backward"))
        kept = [{**t, "saved_for_backward": True} if t["id"] == "h" else t for t in tensors]
        self.assertIn(words, self.refused(graph(kept, early, ["y"]), "--mode", "forward"))

    def test_an_order_decides(self) -> None:
        tensors = [tensor("x", 64, role="input"), tensor("h", 64), tensor("r", 64, alias_of="h"), tensor("y", 64)]
        nodes = [node("make", "add", ["x"], ["h"]), node("write", "relu", ["h"], ["r"])]
        nodes += [node("read", "softmax", ["h"], ["y"])]
        path = self.files.add(graph(tensors, nodes, ["r", "y"]))
        self.assertIn("needed afterwards", error(path, "--mode", "forward")["message"])
        first = self.files.add(["make", "read", "write"])
        validate(plan(path, "--mode", "forward", "--order", first))


class Shared(Case):
    def test_a_view_costs_nothing(self) -> None:
        own = plan(self.files.add(chain()), "--mode", "forward")
        shared = plan(self.files.add(chain(alias_of="h")), "--mode", "forward")
        self.assertEqual(own["arenas"]["activations"]["peak_bytes"], 512)
        self.assertEqual(shared["arenas"]["activations"]["peak_bytes"], 512)  # v and y, or h and y
        deep = chain(alias_of="h")
        deep["tensors"].append(tensor("u", 64, alias_of="v"))
        deep["nodes"].append(node("again", "reshape", ["v"], ["u"]))
        deep["nodes"].append(node("late", "softmax", ["u"], ["z"]))
        deep["tensors"].append(tensor("z", 64))
        result = plan(self.files.add(deep), "--mode", "forward")
        validate(result)
        self.assertEqual(result["tensors"]["u"]["alias_of"], "h")
        self.assertEqual(result["tensors"]["h"]["death"], 6)
        self.assertEqual(result["arenas"]["activations"]["slots"], 3)

    def test_tied_parameters(self) -> None:
        tensors = [tensor("w", 64, role="parameter"), tensor("head", 64, role="parameter", alias_of="w")]
        tensors += [tensor("h", 64), tensor("y", 64)]
        nodes = [node("in", "softmax", ["w"], ["h"]), node("out", "add", ["h", "head"], ["y"])]
        result = plan(self.files.add(graph(tensors, nodes, ["y"])), "--mode", "backward")
        validate(result)
        self.assertEqual(result["arenas"]["parameters"]["peak_bytes"], 256)

    def test_files_traces_and_pages_show_it(self) -> None:
        path = self.files.add(chain(alias_of="h"))
        names = {kind: self.files.path(kind) for kind in ("saved", "trace", "page", "again")}
        options = ["--mode", "forward", "--save", names["saved"], "--trace", names["trace"], "--html", names["page"]]
        made = plan(path, *options)
        shown = json.loads(call("plan", "--show", names["saved"], "--json", "--html", names["again"]).stdout)
        self.assertEqual(shown["tensors"], made["tensors"])
        self.assertEqual(shown["plan_hash"], made["plan_hash"])
        document, _ = cbor.decode_first(Path(names["saved"]).read_bytes(), 0)
        self.assertEqual(document["aliases"], {"v": "h"})
        data, at, records = Path(names["trace"]).read_bytes(), 0, []
        while at < len(data):
            record, at = cbor.decode_first(data, at)
            records.append(record)
        self.assertEqual({r["tensor_id"]: r.get("alias_of") for r in records if r["type"] == "tensor"},
                         {"x": None, "h": None, "v": "h", "y": None})  # fmt: skip
        for name in ("page", "again"):
            data = embedded(Path(names[name]).read_text())
            owners = [data["ids"][owner] for owner in column(data["tensors"]["owner"])]
            self.assertEqual(dict(zip(data["ids"], owners)), {"x": "x", "h": "h", "v": "h", "y": "y"})

    def test_a_file_that_lies_is_refused(self) -> None:
        path = self.files.add(chain(alias_of="h"))
        saved = self.files.path("saved")
        plan(path, "--mode", "forward", "--cbor", saved)
        document = cbor.decode(Path(saved).read_bytes())
        for aliases in ({"v": "y"}, {"v": "nowhere"}, {"v": "v"}, {"nowhere": "h"}, {}, {"v": "h", "h": "v"}, 7, {"v": 7}):
            with self.subTest(aliases):
                damaged = self.files.add(cbor.encode({**document, "aliases": aliases}))
                fault = json.loads(call("plan", "--show", damaged, "--json").stdout)["error"]
                self.assertEqual(fault["code_id"], "INVALID_IR", fault)

    def test_recomputing(self) -> None:
        """A capacity that shared places keep changes nothing; otherwise views come back with their owner."""
        path = self.files.add(chain(alias_of="h"))
        plain = plan(path, "--mode", "forward")
        for bytes_ in (4096, plain["arenas"]["activations"]["peak_bytes"]):
            result = plan(path, "--mode", "forward", "--capacity", f"activations={bytes_}")
            self.assertEqual(result["assignment_hash"], plain["assignment_hash"])
            self.assertEqual(result["tensors"]["v"]["alias_of"], "h")

    def test_a_view_comes_back_with_its_owner(self) -> None:
        """h is dropped while a wide tensor is there, and made again for the view that reads it; if an operator
        writes in place, aliases are tensors of their own."""
        for op in ("reshape", "relu"):
            tensors = [tensor("x", 64, role="input"), tensor("h", 1024), tensor("v", 32, 32, alias_of="h")]
            tensors += [tensor("wide", 2048), tensor("s", 16), tensor("y", 1024)]
            nodes = [node("make", "custom", ["x"], ["h"]), node("show", op, ["h"], ["v"])]
            nodes += [node("grow", "custom", ["x"], ["wide"]), node("sum", "custom", ["wide"], ["s"])]
            nodes += [node("end", "custom", ["v", "s"], ["y"])]
            path = self.files.add(graph(tensors, nodes, ["y"]))
            result = plan(path, "--mode", "forward", "--capacity", "activations=9KiB")
            validate(result)
            self.assertEqual(result["remat"]["runs_again"], 1 if op == "reshape" else 2)
            if op == "reshape":
                self.assertEqual(result["tensors"]["v"]["alias_of"], "h")
                self.assertEqual(result["tensors"]["v.again1"]["alias_of"], "h.again1")
                self.assertEqual(result["tensors"]["v.again1"]["offset"], result["tensors"]["h.again1"]["offset"])
            else:
                self.assertNotIn("alias_of", result["tensors"]["v"])

    def test_another_order_counts_a_place_once(self) -> None:
        """Two branches, each a wide tensor that a view shows: one after the other needs one of them at a time."""
        tensors = [tensor("x", 64, role="input")]
        nodes: list[dict[str, Any]] = []
        for branch in "ab":
            tensors += [tensor(f"{branch}1", 4096), tensor(f"{branch}2", 64, 64, alias_of=f"{branch}1")]
            tensors += [tensor(f"{branch}3", 64)]
        for step in range(3):
            for branch in "ab":
                before = "x" if step == 0 else f"{branch}{step}"
                nodes.append(node(f"n{branch}{step}", "custom", [before], [f"{branch}{step + 1}"]))
        model = graph([*tensors, tensor("y", 64)], [*nodes, node("join", "add", ["a3", "b3"], ["y"])], ["y"])
        path = self.files.add(model)
        given = plan(path, "--mode", "forward")
        result = plan(path, "--mode", "forward", "--reorder")
        validate(result)
        self.assertTrue(result["reorder"]["changed"])
        self.assertLess(result["arenas"]["activations"]["peak_bytes"], 0.6 * given["arenas"]["activations"]["peak_bytes"])
        self.assertEqual(result["reorder"]["peak"], result["reorder"]["lower_bound"])
        self.assertEqual(result["tensors"]["a2"]["alias_of"], "a1")

    def test_what_is_written_in_place_runs_again_in_place(self) -> None:
        """A write that is made again takes the bytes of what it overwrites, both times."""
        model = graph(
            [
                tensor("x", 32, role="input"),
                tensor("a", 64),
                tensor("r", 64, alias_of="a"),
                tensor("v", 64, alias_of="a"),
                tensor("b", 96),
                tensor("c", 64),
            ],
            [
                node("make", "mul", ["x"], ["a"], saves="none"),
                node("write", "relu", ["a"], ["r"], saves="output"),
                node("view", "view", ["r"], ["v"], saves="none"),
                node("use", "mul", ["v"], ["b"], saves="none"),
                node("end", "mul", ["b"], ["c"], saves="none"),
            ],
            ["c"],
        )
        kept = self.files.path("written.plan")
        found = plan(self.files.add(model), "--capacity", "activations=768", "--cbor", kept)
        validate(found)
        rows = found["tensors"]
        self.assertEqual([node for kind, node in found["schedule"] if kind == "run"][5:], ["make", "write"])
        for before, after in (("a", "r"), ("a.again1", "r.again1")):
            self.assertEqual(rows[before]["death"], rows[after]["birth"])
            self.assertEqual(rows[before]["offset"], rows[after]["offset"])
        self.assertEqual({id: row["alias_of"] for id, row in rows.items() if "alias_of" in row}, {"v": "r"})
        self.assertEqual(found["arenas"]["activations"]["peak_bytes"], 768)
        self.assertEqual(json.loads(call("plan", "--show", kept, "--json").stdout)["tensors"], rows)
        model["tensors"][2]["shape"] = [32]  # in part: each has bytes of its own
        rows = plan(self.files.add(model), "--capacity", "activations=768")["tensors"]
        self.assertFalse([id for id, row in rows.items() if "alias_of" in row])


if __name__ == "__main__":
    unittest.main()
