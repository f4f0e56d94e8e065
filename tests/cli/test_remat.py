"""`weir plan` with capacities and another order, on models as users have them."""

import json
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reference import cbor, schedules
from tests.support import golden_remat
from tests.support.cases import bar, part_of
from tests.support.golden_plans import graph_of, token_of
from tests.support.plans import Files, call, error, plan, validate

MODELS = {
    "gpt2": ("gpt2", "--size", "small"),
    "llama": ("llama", "--size", "7b"),
    "resnet": ("resnet",),
    "unet": ("unet",),
}


class Models(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.files = Files()
        cls.addClassCleanup(cls.files.close)
        cls.paths = {name: cls.files.path(name) for name in MODELS}
        for name, arguments in MODELS.items():
            assert call("graph", *arguments, "--cbor", cls.paths[name]).returncode == 0

    def test_half_the_activations(self) -> None:
        """A plan exists, and costs less than running each forward node once more."""
        for name, path in self.paths.items():
            with self.subTest(name):
                free = plan(path, "--mode", "backward")["arenas"]["activations"]["peak_bytes"]
                half = plan(path, "--capacity", f"activations={free // 2}")
                validate(half)
                self.assertLessEqual(half["arenas"]["activations"]["peak_bytes"], free // 2)
                remat = half["remat"]
                self.assertLess(remat["added_cost"], remat["base_cost"] // 5)
                self.assertLessEqual(remat["lower_bound"], remat["added_cost"])
                runs = [node for kind, node in half["schedule"] if kind == "run"]
                self.assertEqual(len(runs), len(set(runs)) + remat["runs_again"])
                self.assertEqual(len(half["schedule"]), 2 * len(set(runs)) + remat["runs_again"])

    def test_another_order_is_lower_or_proven_to_be_the_best(self) -> None:
        for name, path in self.paths.items():
            with self.subTest(name):
                given = plan(path, "--mode", "backward")
                found = plan(path, "--mode", "backward", "--reorder")
                validate(found)
                own = found["reorder"]
                self.assertTrue(own["changed"] or own["peak"] == own["lower_bound"])
                peaks = [sum(arena["peak_bytes"] for arena in p["arenas"].values()) for p in (given, found)]
                self.assertEqual(peaks[1] < peaks[0], own["changed"])
                self.assertLessEqual(peaks[1], peaks[0])

    def test_what_no_schedule_can_do(self) -> None:
        fault = error(self.paths["unet"], "--capacity", "activations=10MiB")
        self.assertEqual(fault["code_id"], "ARENA_TOO_SMALL")
        self.assertEqual(fault["diagnostics"]["proven"], 1)
        self.assertIn("no schedule can fit", fault["message"])

    def test_the_table_says_what_it_costs(self) -> None:
        done = call("plan", self.paths["gpt2"], "--capacity", "activations=700MiB", "--reorder")
        self.assertIn(b"operators run again", done.stdout)
        self.assertIn(b"no order needs less", done.stdout)

    def test_a_plan_file_is_shown_as_it_was_made(self) -> None:
        """Table, JSON, page and trace of a file are those of the plan; only the time is not kept."""
        path = self.paths["unet"]
        kept, traces = self.files.path("unet.plan"), [self.files.path("made.trace"), self.files.path("shown.trace")]
        pages = [self.files.path("made.html"), self.files.path("shown.html")]
        options = ("--capacity", "activations=500MiB", "--token", "5a" * 64)
        made = plan(path, *options, "--save", kept, "--trace", traces[0], "--html", pages[0])
        shown = json.loads(call("plan", "--show", kept, "--json", "--trace", traces[1], "--html", pages[1]).stdout)
        for result in (made, shown):
            del result["metrics"]["allocation_time_ns"]
        self.assertEqual(shown, made)
        self.assertEqual(*(Path(trace).read_bytes() for trace in traces))
        self.assertGreater(made["metrics"]["activation_retention_ratio"], 0)
        self.assertEqual(made["metrics"]["memory_reuse_ratio"], made["metrics"]["memory_reuse_bound"])
        self.assertIn(b"no assignment reuses more", call("plan", "--show", kept).stdout)
        self.assertEqual(*(Path(page).read_text().count('"runs_again"') for page in pages))
        self.assertRegex(Path(pages[1]).read_text(), '"remat": ?\{"runs_again"')
        self.assertEqual(call("plan", "--show", kept, "--mode", "backward").returncode, 2)

    def test_metrics_of_another_plan_are_refused(self) -> None:
        kept = [self.files.path("one.plan"), self.files.path("two.plan")]
        for file, token in zip(kept, ("5a", "5b")):
            plan(self.paths["unet"], "--mode", "backward", "--token", token * 64, "--save", file)
        one, two = (Path(file).read_bytes() for file in kept)
        at = [data.index(b"weir-plan-metrics/1") for data in (one, two)]
        joined = self.files.add(one[: at[0]] + two[at[1] :])
        done = call("plan", "--show", joined)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"not the metrics of this plan", done.stderr)

    def test_golden_hashes(self) -> None:
        golden = json.loads(golden_remat.GOLDEN.read_text())
        tightened = 0
        for case in part_of(list(golden_remat.cases())):
            with self.subTest(case["name"]):
                path = self.files.add(graph_of(case))
                options = ["--mode", case["mode"], "--token", token_of(case).hex()]
                options += ["--capacity", f"activations={golden_remat.capacity_of(case)}"]
                options += ["--effort", str(golden_remat.EFFORT)]
                if golden[case["name"]] == "none":
                    self.assertEqual(error(path, *options)["code_id"], "ARENA_TOO_SMALL")
                    continue
                found = plan(path, *options)
                if found["remat"]["budget"]["activations"] == golden_remat.capacity_of(case):
                    self.assertEqual(found["assignment_hash"], golden[case["name"]])
                else:  # its packing did not meet the bound, and the budget was lowered
                    tightened += 1
        self.assertLess(tightened, 5)

    def golden_with_a_link(self, file: Path, link: schedules.Link, *more: str) -> list[dict[str, Any]]:
        """The plans of the golden cases, which are as they were."""
        golden, plans = json.loads(file.read_text()), []
        for case in part_of(list(golden_remat.paging_cases())):
            with self.subTest(case["name"]):
                path = self.files.add(graph_of(case))
                options = ["--mode", case["mode"], "--token", token_of(case).hex()]
                options += ["--capacity", f"activations={golden_remat.capacity_of(case)}"]
                options += ["--effort", str(golden_remat.EFFORT), "--link", str(link.link), "--speed", str(link.speed)]
                if golden[case["name"]] == "none":
                    self.assertEqual(error(path, *options, *more)["code_id"], "ARENA_TOO_SMALL")
                    continue
                found = plan(path, *options, *more)
                validate(found)
                plans.append(found)
                if found["remat"]["budget"]["activations"] == golden_remat.capacity_of(case):
                    self.assertEqual(found["assignment_hash"], golden[case["name"]])
        return plans

    def test_golden_hashes_with_a_link(self) -> None:
        plans = self.golden_with_a_link(golden_remat.PAGING_GOLDEN, golden_remat.LINK, "--no-overlap")
        self.assertGreater(sum("paging" in found for found in plans), bar(40))

    def test_golden_hashes_with_transfers_beside_the_computation(self) -> None:
        plans = self.golden_with_a_link(golden_remat.OVERLAP_GOLDEN, golden_remat.OVERLAPPING_LINK)
        self.assertGreater(sum("hidden" in found.get("paging", {}) for found in plans), bar(40))

    def test_transfers_run_beside_the_computation(self) -> None:
        """At the speeds of a GPU it costs less than without; table, page and file say so."""
        for name, options in (("unet", ("--link", "50GB/s", "--speed", "400T/s")), ("gpt2", ("--link", "25GB/s", "--speed", "1T/s"))):
            with self.subTest(name):
                path = self.paths[name]
                free = plan(path, "--mode", "backward")["arenas"]["activations"]["peak_bytes"]
                capacity = ("--capacity", f"activations={free // 2}", "--effort", "2")
                kept, page = self.files.path(f"{name}.beside.plan"), self.files.path(f"{name}.beside.html")
                found = plan(path, *capacity, *options, "--save", kept, "--html", page)
                alone = plan(path, *capacity, *options, "--no-overlap")
                validate(found)
                self.assertLess(found["remat"]["added_cost"], alone["remat"]["added_cost"])
                self.assertLessEqual(found["arenas"]["activations"]["peak_bytes"], free // 2)
                kinds = [kind for kind, _ in found["schedule"]]
                self.assertEqual(kinds.count("wait"), found["paging"]["transfers"])
                self.assertNotIn("hidden", alone.get("paging", {}))
                self.assertGreater(found["paging"]["hidden"], found["paging"]["cost"])
                shown = json.loads(call("plan", "--show", kept, "--json").stdout)
                for key in ("plan_hash", "schedule", "remat", "paging", "arenas", "tensors"):
                    self.assertEqual(shown[key], found[key], key)
                self.assertIn(b"beside the computation", call("plan", "--show", kept).stdout)
                self.assertIn('"hidden":', Path(page).read_text())

    def test_overlap_never_costs_more(self) -> None:
        """Also where the packing lacks room for it, which a low effort brings about."""
        for name, part, effort in (("unet", 60, "0"), ("gpt2", 20, "0"), ("resnet", 50, "1")):
            with self.subTest(name):
                path = self.paths[name]
                free = plan(path, "--mode", "backward")["arenas"]["activations"]["peak_bytes"]
                options = ["--capacity", f"activations={free * part // 100}", "--effort", effort]
                options += ["--link", "50GB/s", "--speed", "20T/s"]
                alone, beside = plan(path, *options, "--no-overlap"), plan(path, *options)
                validate(beside)
                self.assertLessEqual(beside["remat"]["added_cost"], alone["remat"]["added_cost"])

    def test_plan_files_whose_waits_are_wrong(self) -> None:
        path = self.paths["unet"]
        kept = self.files.path("waits.plan")
        plan(path, "--capacity", "activations=413MiB", "--effort", "1", "--link", "25GB/s", "--speed", "1T/s", "--cbor", kept)
        whole = cbor.decode(Path(kept).read_bytes())
        at = {kind: next(i for i, (own, _) in enumerate(whole["schedule"]) if own == kind) for kind in ("out", "in", "wait")}
        moved = whole["schedule"][at["out"]][1]

        def move(document: dict[str, Any], source: int, target: int) -> None:
            document["schedule"].insert(target, document["schedule"].pop(source))

        damages: dict[str, Callable[[dict[str, Any]], Any]] = {
            "a wait is missing": lambda d: d["schedule"].__setitem__(at["wait"], ["run", d["schedule"][0][1]]),
            "a wait comes first": lambda d: d["schedule"].__setitem__(0, ["wait", moved]),
            "a wait of another": lambda d: d["schedule"].__setitem__(at["wait"], ["wait", d["schedule"][at["in"]][1] + "x"]),
            "a wait stands before its transfer": lambda d: move(d, at["wait"], at["out"]),
            "a wait stands after its tensor died": lambda d: move(d, at["wait"], len(d["schedule"]) - 1),
            "no hidden": lambda d: d["paging"].pop("hidden"),
            "a false hidden": lambda d: d["paging"].update(hidden=d["paging"]["hidden"] + 1),
            "a false cost": lambda d: d["paging"].update(cost=d["paging"]["cost"] + 1),
            "hidden without waits": lambda d: d.update(schedule=[["run", i] if k == "wait" else [k, i] for k, i in d["schedule"]]),
        }
        # One step changes its place with one of the computation, so that nothing else moves.
        steps, rows = whole["schedule"], whole["tensors"]
        out, first, back, last = (i for i, (kind, id) in enumerate(steps) if id == moved and kind in ("out", "in", "wait"))
        dies = {id: row[-1] for id, row in rows.items() if id.startswith(moved)}
        late = next(i for i in range(first + 1, back) if steps[i][0] == "run" and dies[moved] <= i + 1)
        after = next(i for i in range(last + 1, len(steps)) if steps[i][0] == "back")
        between = next(i for i in range(back + 1, last) if steps[i][0] == "back")
        self.assertTrue(dies[f"{moved}.host"] <= after + 1 < dies[f"{moved}.again1"])

        def swap(document: dict[str, Any], one: int, other: int) -> None:
            own = document["schedule"]
            own[one], own[other] = own[other], own[one]

        damages |= {
            "the last wait is missing": lambda d: d["schedule"].__setitem__(last, ["run", steps[0][1]]),
            "a wait stands where the tensor is gone": lambda d: swap(d, first, late),
            "a wait stands where the copy is gone": lambda d: swap(d, last, after),
            "an in stands where its tensor is not made": lambda d: swap(d, back, between),
        }
        for name, damage in damages.items():
            with self.subTest(name):
                document = cbor.decode(Path(kept).read_bytes())
                damage(document)
                bad = self.files.path("bad.plan")
                Path(bad).write_bytes(cbor.encode(document))
                done = call("plan", "--show", bad, "--json")
                self.assertNotEqual(done.returncode, 0)
                self.assertEqual(json.loads(done.stdout)["error"]["code_id"], "INVALID_IR")
        Path(bad).write_bytes(cbor.encode(whole))
        self.assertEqual(call("plan", "--show", bad, "--json").returncode, 0)

    def test_a_plan_file_that_brings_in_what_never_went_out(self) -> None:
        kept, bad = self.files.path("never.plan"), self.files.path("never.bad.plan")
        plan(self.paths["unet"], "--capacity", "activations=413MiB", "--effort", "1", "--link", "25GB/s",
             "--speed", "1T/s", "--no-overlap", "--cbor", kept)  # fmt: skip
        document = cbor.decode(Path(kept).read_bytes())
        steps, paging = document["schedule"], document["paging"]
        out, moved = next((i, id) for i, (kind, id) in enumerate(steps) if kind == "out")
        size = document["tensors"][moved][4]
        steps[out] = ["run", steps[0][1]]
        paging["moved"] -= size
        paging["cost"] -= schedules.Link(paging["link"], paging["speed"]).move(-(-size // 128) * 128)
        Path(bad).write_bytes(cbor.encode(document))
        done = call("plan", "--show", bad, "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["code_id"], "INVALID_IR")

    def test_models_page_what_is_dear_to_make_again(self) -> None:
        """With a fast link the added cost falls, on every model, and the table, the trace, the page and a file say so."""
        for name, path in self.paths.items():
            with self.subTest(name):
                free = plan(path, "--mode", "backward")["arenas"]["activations"]["peak_bytes"]
                options = ["--capacity", f"activations={free // 3}", "--effort", "2"]
                alone = plan(path, *options)
                kept, trace, page = (self.files.path(f"{name}.{ending}") for ending in ("plan", "trace", "html"))
                options += ["--link", "400GB/s", "--speed", "1T/s"]
                found = plan(path, *options, "--save", kept, "--trace", trace, "--html", page)
                validate(found)
                self.assertLess(found["remat"]["added_cost"], alone["remat"]["added_cost"])
                self.assertLessEqual(found["remat"]["lower_bound"], found["remat"]["added_cost"])
                self.assertLessEqual(found["arenas"]["activations"]["peak_bytes"], free // 3)
                self.assertGreater(found["paging"]["tensors"], 0)
                out = [tensor for kind, tensor in found["schedule"] if kind == "out"]
                self.assertEqual(len(out), len(set(out)))
                self.assertEqual({found["tensors"][f"{tensor}.host"]["arena"] for tensor in out}, {"host"})
                shown = json.loads(call("plan", "--show", kept, "--json").stdout)
                for key in ("plan_hash", "schedule", "remat", "paging", "arenas", "tensors"):
                    self.assertEqual(shown[key], found[key], key)
                self.assertIn(b"tensors go to the host", call("plan", "--show", kept).stdout)
                self.assertIn(b"paged_bytes", Path(trace).read_bytes())
                self.assertIn('"paged_tensors":', Path(page).read_text())

    def test_calls_that_are_refused(self) -> None:
        path = self.paths["unet"]
        for options, words in (
            (("--capacity", "activations=1GiB", "--link", "50GB/s"), "--link and --speed together"),
            (("--capacity", "activations=1GiB", "--link", "fast", "--speed", "1T/s"), "such as 50GB/s"),
            (("--capacity", "activations=1GiB", "--link", "0", "--speed", "1T/s"), "such as 50GB/s"),
            (("--capacity", "activations=1GiB", "--link", "1GB/s", "--speed", "100000T/s"), "from 1 to 2^56-1"),
            (("--mode", "backward", "--link", "1GB/s", "--speed", "1T/s"), "give a capacity"),
            (("--capacity", "activations=1GiB", "--no-overlap"), "only with --link and --speed"),
            (("--capacity", "8GiB"), "activations=8GiB"),
            (("--capacity", "activations=many"), "activations=8GiB"),
            (("--preset", "remat_enabled"), "no arena has one"),
        ):
            with self.subTest(options):
                done = call("plan", path, *options)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr.decode())
        both = call("plan", path, "--capacity", "activations=1GiB", "--arenas", path)
        self.assertIn(b"not both", both.stderr)


if __name__ == "__main__":
    unittest.main()
