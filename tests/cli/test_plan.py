"""`weir plan` and `weir graph` from the shell: the seed's own tests, golden hashes, files that go in and come
out, and what people see."""

import hashlib
import json
import os
import re
import resource
import stat
import subprocess
import unittest
from pathlib import Path

from reference import cbor
from tests.support.cases import part_of
from tests.support.golden_plans import GOLDEN, cases, graph_of, token_of
from tests.support.plans import Files, call, error, graph, plan, validate
from tests.support.processes import start

MODES = ("inference", "forward", "backward")


class PlanTest(unittest.TestCase):
    def setUp(self) -> None:
        self.files = Files()
        self.addCleanup(self.files.close)

    def plan_of(self, value: dict, *options: str) -> dict:
        result = plan(self.files.add(value), *options)
        validate(result)
        return result


class SeedTests(PlanTest):
    """Section 8 of the seed."""

    def test_linear_chain_takes_one_slot(self) -> None:
        chain = graph("chain", "--nodes", "20")
        self.assertEqual(self.plan_of(chain, "--mode", "inference")["arenas"]["activations"]["slots"], 1)
        self.assertEqual(self.plan_of(chain, "--mode", "forward")["arenas"]["activations"]["slots"], 2)
        activations = self.plan_of(chain, "--mode", "inference")["tensors"]
        self.assertEqual({tensor["offset"] for tensor in activations.values()}, {0})

    def test_residual_blocks_are_coloured_optimally(self) -> None:
        for size in part_of(("18", "34", "50", "101", "152")):
            given = graph("resnet", "--size", size)
            for mode in MODES:
                with self.subTest(size, mode=mode):
                    result = self.plan_of(given, "--mode", mode)
                    activations = result["arenas"]["activations"]
                    self.assertEqual(activations["slots"], activations["max_live"])

    def test_models_reuse_and_reach_the_lower_bound(self) -> None:
        models = [("gpt2", size) for size in ("small", "medium", "large", "xl")]
        models += [("llama", size) for size in ("7b", "8b", "13b", "70b", "405b")]
        for kind, size in part_of(models):
            given = graph(kind, "--size", size)
            for mode in MODES:
                with self.subTest(kind, size=size, mode=mode):
                    result = self.plan_of(given, "--mode", mode)
                    for name, arena in result["arenas"].items():
                        self.assertEqual(arena["peak_bytes"], arena["lower_bound"], name)
                        self.assertTrue(arena["optimal"])
                    least = 0.9 if mode == "inference" else 0.4
                    self.assertGreater(result["metrics"]["memory_reuse_ratio"], least)

    def test_published_parameter_counts(self) -> None:
        """Bytes of the parameters, from the published numbers of parameters (f32 and bf16)."""
        published = {
            ("gpt2", "small"): 4 * 124_439_808,
            ("gpt2", "medium"): 4 * 354_823_168,
            ("gpt2", "large"): 4 * 774_030_080,
            ("gpt2", "xl"): 4 * 1_557_611_200,
            ("llama", "7b"): 2 * 6_738_415_616,
            ("llama", "8b"): 2 * 8_030_261_248,
            ("llama", "13b"): 2 * 13_015_864_320,
            ("llama", "70b"): 2 * 68_976_648_192,
            ("llama", "405b"): 2 * 405_853_388_800,
        }
        for (kind, size), expected in published.items():
            with self.subTest(kind, size=size):
                tensors = self.plan_of(graph(kind, "--size", size), "--mode", "forward")["tensors"].values()
                self.assertEqual(sum(t["size"] for t in tensors if t["arena"] == "parameters"), expected)
        trained = {"18": 11_689_512, "34": 21_797_672, "50": 25_557_032, "101": 44_549_160, "152": 60_192_808}
        for size, expected in trained.items():
            with self.subTest("resnet", size=size):
                given = graph("resnet", "--size", size)["tensors"]
                shapes = [t["shape"] for t in given if t.get("role") == "parameter"]
                self.assertEqual(sum(_product(shape) for shape in shapes), expected)

    def test_golden_hashes(self) -> None:
        golden = json.loads(GOLDEN.read_text())
        for case in part_of(list(cases())):
            with self.subTest(case["name"]):
                option = ("--preset", case["preset"]) if "preset" in case else ("--mode", case["mode"])
                options = (*option, "--token", token_of(case).hex(), "--effort", "2")
                options += ("--optimizer", case["optimizer"], "--step", case["step"]) if "step" in case else ()
                result = self.plan_of(graph_of(case), *options)
                self.assertEqual(result["assignment_hash"], golden[case["name"]])


def _product(shape: list[int]) -> int:
    product = 1
    for dimension in shape:
        product *= dimension
    return product


class Optimizers(PlanTest):
    """What a training step holds beside its gradients."""

    def needs(self, model: dict, *options: str) -> dict[str, int]:
        arenas = self.plan_of(model, "--mode", "backward", *options)["arenas"]
        return {name: arena["peak_bytes"] for name, arena in arenas.items()}

    def test_bytes_a_parameter(self) -> None:
        """Llama 7B in bf16, in bytes per parameter: with a copy and Adam's two states in f32 it is 2 + 12, the
        well-known 16 with the gradient."""
        model = graph("llama", "--size", "7b", "--seq", "64")
        parameters = 6_738_415_616
        expected = {"sgd": 2, "momentum": 4, "adam": 6, "sgd:f32": 6, "momentum:f32": 10, "adam:f32": 14, "adam:bf16": 6}
        for optimizer, each in expected.items():
            with self.subTest(optimizer):
                self.assertEqual(self.needs(model, "--optimizer", optimizer)["parameters"], each * parameters)
        self.assertGreaterEqual(self.needs(model)["gradients"], 2 * parameters)

    def test_a_step_in_the_backward_pass_frees_gradients(self) -> None:
        model = graph("llama", "--size", "7b", "--seq", "64")
        largest = max(t["size"] for t in self.plan_of(model, "--mode", "forward")["tensors"].values())
        self.assertLess(self.needs(model, "--step", "backward")["gradients"], 3 * largest)
        named = self.plan_of({**model, "step": "backward"}, "--mode", "backward")
        self.assertEqual(named["plan_hash"], self.plan_of(model, "--mode", "backward", "--step", "backward")["plan_hash"])
        plain = self.plan_of(model, "--mode", "backward")
        for same in (("--step", "end"), ("--optimizer", "sgd")):
            self.assertEqual(self.plan_of(model, "--mode", "backward", *same)["plan_hash"], plain["plan_hash"])

    def test_with_recomputing_and_another_order(self) -> None:
        model = graph("gpt2", "--layers", "4", "--seq", "256")
        peak = self.needs(model)["activations"]
        capacity = f"activations={peak * 7 // 10}"
        options = ("--capacity", capacity, "--optimizer", "adam:f32", "--step", "backward", "--reorder")
        result = self.plan_of(model, *options)
        self.assertLessEqual(result["arenas"]["activations"]["peak_bytes"], peak * 7 // 10)
        states = [name for name in result["tensors"] if name.endswith((".exp_avg", ".exp_avg_sq"))]
        self.assertEqual(len(states), 2 * sum(t.get("role") == "parameter" for t in model["tensors"]))

    def test_refusals(self) -> None:
        model = graph("chain", "--nodes", "3")
        taken = {**model, "tensors": [*model["tensors"], {"id": "w", "shape": [4], "dtype": "f32", "role": "parameter"},
                                      {"id": "w.momentum", "shape": [4], "dtype": "f32", "role": "state"}]}  # fmt: skip
        for given, options, words in (
            (model, ("--mode", "backward", "--optimizer", "lion"), "unknown optimizer 'lion'"),
            (model, ("--mode", "backward", "--optimizer", "adam:i32"), "unknown optimizer 'adam:i32'"),
            (model, ("--mode", "backward", "--optimizer", ""), "unknown optimizer"),
            (model, ("--mode", "backward", "--step", "never"), "not 'never'"),
            (model, ("--mode", "forward", "--optimizer", "adam"), "belong to mode backward"),
            (model, ("--mode", "inference", "--step", "end"), "belong to mode backward"),
            ({**model, "step": "never"}, ("--mode", "inference"), "not 'never'"),
            (taken, ("--mode", "backward", "--optimizer", "momentum"), "two tensors have the id 'w.momentum'"),
        ):
            with self.subTest(options):
                fault = error(self.files.add(given), *options)
                self.assertEqual(fault["code_id"], "INVALID_IR")
                self.assertIn(words, fault["message"])


class Generators(PlanTest):
    def test_cbor_and_json_are_one_graph(self) -> None:
        for kind in ("gpt2", "llama", "resnet", "unet", "chain", "random"):
            with self.subTest(kind):
                path = self.files.path(kind)
                self.assertEqual(call("graph", kind, "--cbor", path).returncode, 0)
                given = graph(kind)
                self.assertEqual(cbor.decode(Path(path).read_bytes()), given)
                one = plan(path, "--mode", "forward", "--effort", "1")
                other = self.plan_of(given, "--mode", "forward", "--effort", "1")
                self.assertEqual(one["plan_hash"], other["plan_hash"])

    def test_options(self) -> None:
        options = ("--layers", "1", "--seq", "8", "--batch", "3", "--dtype", "f16")
        tensors = {t["id"]: t for t in graph("llama", "--size", "70b", *options)["tensors"]}
        self.assertEqual(tensors["layers.0.attn.k"]["shape"], [3, 8, 8, 128])
        self.assertEqual(tensors["layers.0.attn.scores"]["shape"], [3, 64, 8, 8])
        self.assertEqual(tensors["layers.0.attn.scores"]["dtype"], "f16")
        self.assertEqual(tensors["layers.0.ffn.gate.weight"]["shape"], [8192, 28672])
        self.assertNotIn("layers.1.attn.k", tensors)
        flash = {t["id"] for t in graph("gpt2", "--flash", "--logits")["tensors"]}
        self.assertNotIn("h0.attn.scores", flash)
        self.assertNotIn("loss", flash)

    def test_refusals(self) -> None:
        self.assertEqual(call("graph", "gpt2", "--size", "huge").returncode, 1)
        self.assertEqual(call("graph", "gpt2", "--dtype", "f31").returncode, 1)
        self.assertEqual(call("graph", "bert").returncode, 2)
        self.assertEqual(call("graph").returncode, 2)

    def test_numbers_and_options_that_a_model_does_not_take(self) -> None:
        calls = (
            ("gpt2", "--layers", "99999999999"),
            ("gpt2", "--layers", "0"),
            ("unet", "--layers", "9"),
            ("llama", "--batch", "0"),
            ("llama", "--seq", "0"),
            ("llama", "--seq", str(2**31)),
            ("chain", "--nodes", "0"),
            ("random", "--nodes", "10000001"),
            ("resnet", "--image", "0"),
            ("resnet", "--seq", "8"),
            ("gpt2", "--nodes", "8"),
            ("unet", "--size", "50"),
            ("import", "model.onnx", "--seed", "1"),
        )
        for arguments in calls:
            with self.subTest(arguments):
                self.assertEqual(call("graph", *arguments).returncode, 2)
        self.assertIn(b"--layers takes 1 to 8 for unet, not 9", call("graph", "unet", "--layers", "9").stderr)
        self.assertIn(b"resnet has no use for --seq", call("graph", "resnet", "--seq", "8").stderr)
        self.assertEqual(len(graph("random", "--seed", "0", "--nodes", "1")["nodes"]), 1)


class FilesInAndOut(PlanTest):
    def test_plan_file_is_what_is_hashed(self) -> None:
        path = self.files.path("plan.cbor")
        result = self.plan_of(graph("gpt2", "--layers", "1"), "--mode", "backward", "--cbor", path)
        written = Path(path).read_bytes()
        self.assertEqual(hashlib.sha256(written).hexdigest(), result["plan_hash"])
        value = cbor.decode(written)
        self.assertEqual(value["format"], "weir-plan/1")
        self.assertEqual(value["graph_hash"].hex(), result["graph_hash"])
        fields = ("arena", "slot", "address", "offset", "size", "birth", "death")
        for name, row in value["tensors"].items():
            expected = dict(zip(fields, row, strict=True), address=str(row[2]))
            self.assertEqual(result["tensors"][name], expected)
        self.assertEqual(value["arenas"], result["arenas"])

    def test_faults_of_a_plan_file_have_a_path(self) -> None:
        path = self.files.path("plan.cbor")
        self.plan_of(graph("gpt2", "--layers", "1"), "--mode", "backward", "--cbor", path)
        good = cbor.decode(Path(path).read_bytes())
        arenas = good["arenas"]
        for change, words in (
            ({"format": "weir-plan/2"}, '$.format must be "weir-plan/1"'),
            ({"colour": 1}, "$.colour is not a key of weir-plan/1"),
            ({"mode": "fast"}, '$.mode must be "inference", "forward" or "backward"'),
            ({"graph_hash": b"1"}, "$.graph_hash must be 32 bytes"),
            ({"tensors": []}, "$.tensors must be an object"),
            ({"aliases": {}}, "$.aliases must be an object of ids, with at least one"),
            ({"schedule": 1}, '$.schedule must be a list of ["run" or "back", node]'),
            ({"arenas": {**arenas, "activations": {**arenas["activations"], "alignment": 3}}},
             "$.arenas.activations.alignment must be a power of two from 1 to 2^30"),
            ({"arenas": {**arenas, "activations": {**arenas["activations"], "slots": -1}}},
             "$.arenas.activations.slots must be an integer"),
        ):  # fmt: skip
            with self.subTest(change):
                done = call("plan", "--show", self.files.add(cbor.encode({**good, **change})))
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"is not a usable plan; make it again: {words}".encode(), done.stderr)

    def test_a_saved_plan_may_end_at_any_time(self) -> None:
        """What is shown of it takes no memory for the time that it says it has."""
        path = self.files.path("late.cbor")
        self.plan_of(graph("gpt2", "--layers", "1"), "--mode", "forward", "--cbor", path)
        plan, at = cbor.decode_first(Path(path).read_bytes(), 0)
        end = max(tensor[6] for tensor in plan["tensors"].values())
        late = {id: [*tensor[:6], 2**27 if tensor[6] == end else tensor[6]] for id, tensor in plan["tensors"].items()}
        shown = [call("plan", "--show", self.files.add(cbor.encode({**plan, "tensors": tensors}))) for tensors in (plan["tensors"], late)]
        self.assertEqual([done.returncode for done in shown], [0, 0])
        fullest = [re.findall(rb"(\w+) is fullest at position (\d+), with (\d+) tensors", done.stdout) for done in shown]
        self.assertTrue(fullest[0])
        self.assertEqual(*fullest)
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 900 << 10)

    def test_trace(self) -> None:
        path = self.files.path("trace.cbor")
        arenas = {"activations": {"alignment_bytes": 64, "capacity_bytes": 1 << 40, "page_size": 4096}}
        options = ("--mode", "backward", "--trace", path, "--arenas", self.files.add(arenas))
        result = self.plan_of(graph("random", "--nodes", "9"), *options)
        data, at, records = Path(path).read_bytes(), 0, []
        while at < len(data):
            record, at = cbor.decode_first(data, at)
            records.append(record)
        header, *tensors, summary = records
        self.assertEqual(header["type"], "allocation_header")
        self.assertEqual(header["ir_hash"].hex(), result["graph_hash"])
        self.assertEqual(header["mode"], "backward")
        self.assertEqual(len(header["replay_token_prefix"]), 8)
        self.assertEqual(header["arenas"]["activations"], arenas["activations"])
        self.assertEqual([record["tensor_id"] for record in tensors], list(result["tensors"]))
        for record in tensors:
            tensor = result["tensors"][record["tensor_id"]]
            self.assertEqual(record["type"], "tensor")
            self.assertEqual(record["live_range"], [tensor["birth"], tensor["death"]])
            self.assertEqual((record["logical_slot"], record["size"]), (tensor["slot"], tensor["size"]))
            self.assertEqual(record["virtual_address"], int(tensor["address"]))
            alignment = result["arenas"][tensor["arena"]]["alignment"]
            self.assertEqual(record["bytes"], -(-tensor["size"] // alignment) * alignment)
        self.assertEqual(summary["type"], "summary")
        metrics = result["metrics"]
        self.assertEqual(summary["peak_bytes_per_arena"], metrics["peak_physical_bytes_per_arena"])
        self.assertEqual(summary["total_logical_slots"], metrics["peak_logical_slots"])
        self.assertEqual(summary["reuse_ratio"], metrics["memory_reuse_ratio"])
        self.assertEqual(summary["fragmentation_pct"], 100 * metrics["internal_fragmentation_ratio"])

    def test_csv(self) -> None:
        rows = ["id,lower,upper,size", "a,0,2,10", "b,1,3,20", "c,2,4,10", "d,0,4,5"]
        path = self.files.add("\r\n".join(rows).encode())
        done = call("plan", "--csv", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.decode().splitlines()
        self.assertEqual(lines[0], "id,lower,upper,size,offset")
        self.assertEqual([line.rsplit(",", 1)[0] for line in lines[1:]], rows[1:])
        result = json.loads(call("plan", "--csv", path, "--json", "--capacity", "35").stdout)
        self.assertEqual((result["peak_bytes"], result["lower_bound"], result["optimal"]), (35, 35, True))
        again = call("plan", "--csv", self.files.add(result["csv"].encode()))
        self.assertEqual(again.stdout, done.stdout)
        small = call("plan", "--csv", path, "--capacity", "34", "--json")
        record = json.loads(small.stdout)["error"]
        self.assertEqual(small.returncode, 1)
        self.assertEqual(record["code_id"], "ARENA_TOO_SMALL")
        self.assertEqual(record["diagnostics"]["proven"], 1)

    def test_csv_in_another_order_of_columns(self) -> None:
        done = call("plan", "--csv", self.files.add(b"size,id,upper,lower\n7,x,2,1\n"))
        self.assertEqual(done.stdout, b"id,lower,upper,size,offset\nx,1,2,7,0\n")

    def test_csv_refusals(self) -> None:
        header = b"id,lower,upper,size\n"
        rows = [b"a,0,1\n", b"a,0,0,1\n", b"a,0,1,-1\n", b"a,0,1,1\na,0,1,1\n"]
        rows.append(b"a,0,1,18446744073709551616\n")
        whole = [b"", b"id,lower,upper\n", b"id,lower,upper,size,gaps\n"]
        for text in whole + [header + row for row in rows]:
            with self.subTest(text):
                done = call("plan", "--csv", self.files.add(text), "--json")
                self.assertEqual(done.returncode, 1)
                self.assertEqual(json.loads(done.stdout)["error"]["code_id"], "INVALID_IR")

    def test_unknown_strategies(self) -> None:
        path = self.files.add(graph("chain"))
        rows = self.files.add(b"id,lower,upper,size\na,0,1,1\n")
        for given in ((path, "--mode", "forward"), ("--csv", rows)):
            done = call("plan", *given, "--strategies", "corners,luck", "--json")
            self.assertEqual(done.returncode, 1)
            record = json.loads(done.stdout)["error"]
            self.assertEqual(record["code_id"], "CONTRACT_VIOLATION")
            self.assertIn("'luck'", record["message"])

    def test_files_that_cannot_be_written_or_read(self) -> None:
        path = self.files.add(graph("chain"))
        for option in ("--cbor", "--trace"):
            record = error(path, "--mode", "forward", option, "/nowhere/at/all")
            self.assertEqual(record["code_id"], "IO_ERROR")
        self.assertEqual(error("/nowhere/at/all", "--mode", "forward")["code_id"], "IO_ERROR")
        self.assertEqual(error(path, "--mode", "forward", "--order", "/nowhere")["code_id"], "IO_ERROR")

    def test_an_output_that_fails_harms_nothing(self) -> None:
        path = self.files.add(graph("chain"))
        folder = Path(self.files.path("folder"))
        folder.mkdir()
        (folder / "kept").write_text("kept")
        for option in ("--cbor", "--trace", "--html"):
            for target in (str(folder), "/nowhere/at/all"):
                with self.subTest(option, target=target):
                    record = error(path, "--mode", "forward", option, target)
                    self.assertEqual(record["code_id"], "IO_ERROR")
                    self.assertRegex(record["message"], rf"^cannot write {target}: ")
        done = call("graph", "chain", "--cbor", str(folder), "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["message"], f"cannot write {folder}: Is a directory")
        self.assertEqual([entry.name for entry in folder.iterdir()], ["kept"])
        self.assertEqual([entry.name for entry in folder.parent.iterdir() if "tmp" in entry.name], [])

    def test_an_output_through_a_link_and_into_a_pipe(self) -> None:
        link, target = Path(self.files.path("link")), Path(self.files.path("target"))
        target.write_text("old")
        link.symlink_to(target)
        self.assertEqual(call("graph", "chain", "--cbor", str(link)).returncode, 0)
        self.assertTrue(link.is_symlink())
        pipe = self.files.path("pipe")
        os.mkfifo(pipe)
        reader = start(["cat", pipe], stdout=subprocess.PIPE)
        self.assertEqual(call("graph", "chain", "--cbor", pipe).returncode, 0)
        self.assertEqual(reader.communicate(timeout=60)[0], target.read_bytes())
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))


class Capacity(PlanTest):
    def test_a_capacity_at_the_bound_fits_and_changes_nothing(self) -> None:
        given = graph("gpt2", "--layers", "2", "--seq", "128")
        free = self.plan_of(given, "--mode", "backward")
        arenas = {name: {"capacity_bytes": arena["peak_bytes"]} for name, arena in free["arenas"].items()}
        held = self.plan_of(given, "--mode", "backward", "--arenas", self.files.add(arenas))
        self.assertEqual(held["tensors"], free["tensors"])
        arenas["activations"]["capacity_bytes"] -= 1
        record = error(self.files.add(given), "--mode", "backward", "--arenas", self.files.add(arenas))
        self.assertEqual(record["code_id"], "ARENA_TOO_SMALL")
        diagnostics = record["diagnostics"]
        self.assertEqual(diagnostics["arena"], "activations")
        self.assertEqual(diagnostics["required"], free["arenas"]["activations"]["peak_bytes"])
        self.assertEqual(diagnostics["lower_bound"], free["arenas"]["activations"]["lower_bound"])
        self.assertEqual(diagnostics["proven"], 1)


class Messages(PlanTest):
    def test_a_cycle_is_shown(self) -> None:
        names = ["a", "b", "c"]
        tensors = [{"id": name, "shape": [4], "dtype": "f32"} for name in names]
        nodes = [
            {"id": f"make_{name}", "op": "relu", "inputs": [names[i - 1]], "outputs": [name]}
            for i, name in enumerate(names)
        ]
        value = {"format": "weir-graph/1", "tensors": tensors, "nodes": nodes, "outputs": ["c"]}
        for options in ((), ("--order", self.files.add(["make_a", "make_b", "make_c"]))):
            record = error(self.files.add(value), "--mode", "forward", *options)
            self.assertEqual(record["code_id"], "LIVENESS_CYCLE")
            for name in names:
                self.assertIn(f"make_{name}", record["message"])

    def test_json_faults_have_a_place(self) -> None:
        record = error(self.files.add(b'{"format": "weir-graph/1",\n "tensors": [}'), "--mode", "forward")
        self.assertEqual(record["code_id"], "INVALID_IR")
        self.assertEqual(record["diagnostics"]["line"], 2)
        duplicate = self.files.add(b'{"format": "weir-graph/1", "format": "weir-graph/1"}')
        self.assertEqual(error(duplicate, "--mode", "forward")["code_id"], "INVALID_IR")
        self.assertEqual(error(self.files.add(b"\xa1\x61"), "--mode", "forward")["code_id"], "CBOR_INVALID")

    def test_faults_of_fields_have_a_path(self) -> None:
        """The path says where in the file, the id which tensor or node, and the rest what to write instead."""
        roles = '"activation", "input", "parameter", "gradient" or "state"'
        for part, change, path, words in (
            ("tensors", {"role": "odd"}, "$.tensors[1].role", f"of 'y' must be {roles}"),
            ("tensors", {"colour": 1}, "$.tensors[1].colour", "of 'y' is not a key of weir-graph/1"),
            ("tensors", {"shape": 4}, "$.tensors[1].shape", "of 'y' must be a list"),
            ("tensors", {"arena": ""}, "$.tensors[1].arena", "of 'y' must be a name of 1 to 64 bytes"),
            ("tensors", {"id": None}, "$.tensors[1].id", "must be a string"),
            ("nodes", {"saves": "all"}, "$.nodes[0].saves", "of 'n' must be \"none\", \"inputs\", \"output\" or \"both\""),
            ("nodes", {"inputs": ["x", 1]}, "$.nodes[0].inputs", "of 'n' must be a list of ids, which are strings"),
            ("nodes", {"cost": 2**56}, "$.nodes[0].cost", "of 'n' is 72057594037927936; it must be from 0 to"),
            ("nodes", {"cost": "1"}, "$.nodes[0].cost", "of 'n' must be an integer"),
            ("nodes", {"inplace": 1}, "$.nodes[0].inplace", "of 'n' must be true or false"),
        ):
            with self.subTest(change):
                value = {
                    "format": "weir-graph/1",
                    "tensors": [{"id": name, "shape": [4], "dtype": "f32"} for name in "xy"],
                    "nodes": [{"id": "n", "op": "relu", "inputs": ["x"], "outputs": ["y"]}],
                    "outputs": ["y"],
                }
                value[part][-1].update(change)
                record = error(self.files.add(value), "--mode", "forward")
                self.assertEqual((record["code_id"], record["diagnostics"]["path"]), ("INVALID_IR", path))
                self.assertIn(f"{path} {words}", record["message"])

    def test_types_of_options_files(self) -> None:
        path = self.files.add(graph("chain"))
        bad_settings = (
            [],
            {"size": 1},
            {"capacity_bytes": -1},
            {"capacity_bytes": "01"},
            {"page_size": 1.5},
            {"alignment_bytes": None},
        )
        for arenas in ([], {"": {}}, {"a" * 65: {}}, *({"a": setting} for setting in bad_settings)):
            with self.subTest(arenas):
                record = error(path, "--mode", "forward", "--arenas", self.files.add(arenas))
                self.assertEqual(record["code_id"], "INVALID_IR")
                self.assertRegex(record["diagnostics"]["path"], r"^\$(\.a|\[|$)")
        record = error(path, "--mode", "forward", "--arenas", self.files.add({"activation": {"capacity_bytes": 8}}))
        self.assertEqual(record["code_id"], "INVALID_IR")
        self.assertIn("'activation', which the graph does not have; it has parameters, activations, gradients", record["message"])
        for order in ({}, [1], "t1", None):
            with self.subTest(order):
                record = error(path, "--mode", "forward", "--order", self.files.add(order))
                self.assertEqual(record["code_id"], "INVALID_IR")
        for setting in ({"alignment_bytes": -8}, {"page_size": 3}):
            record = error(path, "--mode", "forward", "--arenas", self.files.add({"a": setting}))
            self.assertEqual(record["code_id"], "ALIGNMENT_VIOLATION")

    def test_address_collision(self) -> None:
        """34 bits are left of an address at the largest alignment: 400,000 slots must collide."""
        tensors = [{"id": f"p{i}", "shape": [], "dtype": "u8", "role": "parameter"} for i in range(400_000)]
        value = {"format": "weir-graph/1", "name": "", "tensors": tensors, "nodes": [], "outputs": []}
        arenas = self.files.add({"parameters": {"alignment_bytes": 1 << 30}})
        record = error(self.files.add(value), "--mode", "forward", "--arenas", arenas)
        self.assertEqual(record["code_id"], "ADDRESS_COLLISION")

    def test_table(self) -> None:
        done = call("plan", self.files.add(graph("gpt2")), "--mode", "backward")
        self.assertEqual(done.returncode, 0)
        text = done.stdout.decode()
        for word in ("lower bound", "activations", "gradients", "parameters", "logits", "plan_hash", "yes"):
            self.assertIn(word, text)

    def test_usage(self) -> None:
        path = self.files.add(graph("chain"))
        calls = (
            (),
            (path,),
            ("--csv", path, path),
            ("--csv", path, "--mode", "forward"),
            (path, "--mode", "forward", "--token", "xyz"),
            (path, "--mode", "forward", "--capacity", "1"),
            (path, "--mode", "forward", "--effort", "x"),
            (path, "--mode", "forward", "--effort", "10"),
            ("--csv", path, "--effort", "10"),
            (path, "--mode", "forward", "--cbor", path),
            (path, "--mode", "forward", "--strategies"),
        )
        for arguments in calls:
            with self.subTest(arguments):
                self.assertEqual(call("plan", *arguments).returncode, 2)


if __name__ == "__main__":
    unittest.main()
