"""weir replay, merge and diff as judges of a whole run: traces that are forged with a chain that holds, cut, of runs that
failed, and of ranks. What the program finds is what the reference finds."""
import copy
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reference import cbor, trace  # noqa: E402
from reference.commit import Sealer  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from tests.support.demo import small_demo  # noqa: E402

WEIR = os.environ["WEIR"]
CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "300"))
LAST_EPOCH = 2**64 - 1

shop = None  # the folder of a small shop, its manifest with batches of 8
plain = None  # a manifest of one dataset, without a store


def setUpModule():
    global shop, plain
    shop = small_demo()
    plain = shop / "plain.manifest.json"
    dataset = {"id": "a", "version": "1", "hash": "00" * 32, "cardinality": 61}
    plain.write_text(json.dumps({"seed": 3, "global_batch_size": 12, "datasets": {"a": dataset}}))


def weir(*arguments):
    return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def records_of(path):
    data, offset, records = Path(path).read_bytes(), 0, []
    while offset < len(data):
        record, offset = cbor.decode_first(data, offset)
        del record["h"]
        records.append(record)
    return records


def forge(path, records):
    """Writes the records with a chain that holds; a run_end names the hash before it."""
    writer = trace.TraceWriter(records[0])
    for record in records[1:]:
        if record["type"] == "run_end":
            record = {**record, "trace_hash": writer.last_hash}
        writer.append(record)
    Path(path).write_bytes(writer.encoded)


def manifest_of(records):
    header = records[0]
    data = {**header["manifest"]["data"]}
    datasets = {key: {**dataset, "hash": dataset["hash"].hex()} for key, dataset in header["manifest"]["datasets"].items()}
    text = {"seed": str(header["manifest"]["seed"]), "global_batch_size": header["manifest"]["global_batch_size"],
            "datasets": datasets, "data": data}
    if header["mix"]:
        text["mix"] = header["mix"]
    return Manifest.read(json.dumps(text))


class WithFolder(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.trace = self.folder / "run.trace"

    def next(self, *arguments, path=None):
        path = path or self.trace
        done = weir("next", "--manifest", plain, "--dataset", "a", "--trace", path, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return records_of(path)

    def run_shop(self, *arguments, path=None):
        path = path or self.trace
        done = weir("run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", "--trace", path,
                    *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return records_of(path)

    def judged(self, command, *arguments):
        """The exit status, and the report or the error record."""
        done = weir(command, *arguments, "--json")
        report = json.loads(done.stdout)
        return done.returncode, report.get("error", report)

    def assert_diverges(self, records, t, field, command="replay"):
        forged = self.folder / "forged.trace"
        forge(forged, records)
        status, record = self.judged(command, forged)
        self.assertEqual(status, 1, record)
        self.assertEqual((record["code_id"], record["t"], record["diagnostics"]["field"]), ("REPLAY_DIVERGENCE", t, field))
        return record


def steps_of(records):
    return [number for number, record in enumerate(records) if record["type"] == "iter"]


class Forged(WithFolder):
    """Every record is right by itself, and the chain holds: only the run is wrong."""

    def kinds(self):
        yield "next", self.next("--count", 12, path=self.folder / "n.trace")
        yield "eval", self.next("--count", 12, "--stage", "eval", path=self.folder / "e.trace")
        yield "mix", self.run_shop("--steps", 12, "--no-digests", path=self.folder / "m.trace")
        yield "one", self.run_shop("--steps", 12, "--dataset", "shop/churn/train", "--no-digests",
                                   path=self.folder / "o.trace")

    def test_whole_runs_are_equal(self):
        for name, records in self.kinds():
            forge(self.trace, records)
            status, report = self.judged("replay", self.trace)
            self.assertEqual((status, report["status"], report["steps"]), (0, "success", 12), name)

    def test_a_step_is_missing(self):
        for name, records in self.kinds():
            for at, expected in ((0, 1), (5, 6), (11, 12)):
                forged = [record for i, record in enumerate(records) if i != 1 + at]
                with self.subTest(kind=name, missing=at):
                    if at < 11:
                        self.assert_diverges(forged, expected, "t")
                    else:  # the last one: only the run_end tells
                        forge(self.trace, forged)
                        status, record = self.judged("replay", self.trace)
                        self.assertEqual((status, record["t"]), (1, 11))
                        self.assertIn(record["diagnostics"]["field"],
                                      ("final_cursors", "final_epoch", "total_samples_seen"))

    def test_a_step_is_there_twice(self):
        for name, records in self.kinds():
            with self.subTest(kind=name):
                self.assert_diverges(records[:7] + records[6:], 5, "t")

    def test_two_steps_are_swapped(self):
        for name, records in self.kinds():
            with self.subTest(kind=name):
                self.assert_diverges([*records[:4], records[5], records[4], *records[6:]], 4, "t")

    def test_the_steps_are_renumbered(self):
        """A gap that is closed by other numbers is found by the places."""
        for name, records in self.kinds():
            forged = [copy.deepcopy(record) for i, record in enumerate(records) if i != 6]
            for t, at in enumerate(steps_of(forged)):
                forged[at]["t"] = t
            with self.subTest(kind=name):
                forge(self.trace, forged)
                status, record = self.judged("replay", self.trace)
                self.assertEqual(status, 1)
                self.assertIn((record["t"], record["diagnostics"]["field"]), ((5, "cursor_before"), (5, "dataset_key")))

    def test_a_false_end(self):
        for name, records in self.kinds():
            end = records[-1]
            key = next(iter(end["final_cursors"]))
            false_ends = [
                ({**end, "total_samples_seen": end["total_samples_seen"] + 1}, "total_samples_seen"),
                ({**end, "total_samples_seen": 0}, "total_samples_seen"),
                ({**end, "final_epoch": end["final_epoch"] + 1}, "final_epoch"),
                ({**end, "final_cursors": {}}, "final_cursors"),
                ({**end, "final_cursors": {**end["final_cursors"], "zz": {"epoch": 0, "global_index": 0}}}, "final_cursors"),
                ({**end, "final_cursors": {**end["final_cursors"], key: {"epoch": end["final_epoch"], "global_index": 1}}},
                 "final_cursors"),
                ({**end, "status": "failed"}, "status"),
            ]
            for false_end, field in false_ends:
                with self.subTest(kind=name, field=field):
                    self.assert_diverges([*records[:-1], false_end], 12, field)

    def test_an_end_of_an_older_version_has_no_status(self):
        records = self.next("--count", 3)
        del records[-1]["status"]
        forge(self.trace, records)
        status, report = self.judged("replay", self.trace)
        self.assertEqual((status, report["status"]), (0, "success"))
        again = self.folder / "again.trace"
        self.next("--count", 3, path=again)
        self.assertEqual(self.judged("diff", self.trace, again)[0], 0)

    def test_a_resume_at_another_step(self):
        records = self.next("--count", 6)
        resume = {"type": "resume", "step": 3, "checkpoint_hash": bytes(32)}
        forge(self.trace, [*records[:4], resume, *records[4:]])
        self.assertEqual(self.judged("replay", self.trace)[0], 0)
        self.assert_diverges([*records[:4], {**resume, "step": 2}, *records[4:]], 2, "step")
        self.assert_diverges([records[0], {**resume, "step": 2}, *records[1:]], 0, "t")

    def test_another_dataset_or_stage_in_between(self):
        records = self.next("--count", 6)
        other = self.next("--count", 6, "--stage", "eval", path=self.folder / "e.trace")
        self.assert_diverges([*records[:4], *other[4:]], 3, "is_shuffled")

    def test_the_rank_and_token_are_those_of_the_trace(self):
        records = self.next("--count", 6, "--world-size", 4, "--rank", 3)
        token = records[4]["data_replay_t"].hex()
        record = self.assert_diverges([*records[:3], *records[4:]], 3, "t")
        self.assertEqual((record["rank"], record["replay_token"]), (3, token))
        records[3]["micro_batch_size"] = 7
        record = self.assert_diverges(records, 2, "micro_batch_size")
        self.assertEqual((record["rank"], record["replay_token"]), (3, records[3]["data_replay_t"].hex()))

    def test_best_effort_may_change_the_order_only(self):
        records = self.run_shop("--steps", 20, "--policy", "best_effort", "--workers", 3, "--no-digests")
        at = steps_of(records)
        by_step = {records[i]["t"]: records[i] for i in at}
        shuffled = [by_step[t] for t in random.Random(1).sample(sorted(by_step), len(by_step))]
        end = {**records[-1], "final_cursors": {}, "final_epoch": 0}
        for record in shuffled:
            end["final_cursors"] = {**end["final_cursors"], record["dataset_key"]: record["cursor_after"]}
        end["final_epoch"] = max(cursor["epoch"] for cursor in end["final_cursors"].values())
        forge(self.trace, [records[0], *shuffled, end])
        self.assertEqual(self.judged("replay", self.trace)[0], 0)
        self.assert_diverges([records[0], *shuffled, shuffled[7], end], shuffled[7]["t"], "t")
        samples = sum(record["effective_batch_size"] for record in shuffled if record["t"] != 4)
        lacking = [record for record in shuffled if record["t"] != 4]
        for record in lacking:
            end["final_cursors"][record["dataset_key"]] = record["cursor_after"]
        self.assert_diverges([records[0], *lacking, {**end, "total_samples_seen": samples}], 4, "t")

    def test_random_forgeries_are_judged_as_by_the_reference(self):
        chance = random.Random(os.environ.get("WEIR_PROPERTY_SALT", "traces"))
        sources = list(self.kinds())
        sources.append(("best", self.run_shop("--steps", 12, "--policy", "best_effort", "--workers", 3, "--no-digests")))
        verdicts = {"equal": 0, "divergent": 0}
        for case in range(CASES):
            name, records = chance.choice(sources)
            forged = copy.deepcopy(records)
            for _ in range(chance.choice([0, 1, 1, 2])):
                self.damage(forged, chance)
            forge(self.trace, forged)
            with self.subTest(case=case, kind=name):
                done = weir("replay", self.trace, "--json")
                found = json.loads(done.stdout)
                try:
                    expected = trace.judge(trace.verify(self.trace.read_bytes()), manifest_of(forged))
                except trace.Divergence as divergence:
                    self.assertEqual(done.returncode, 1)
                    self.assertEqual((found["error"]["t"], found["error"]["diagnostics"]["field"]),
                                     (divergence.t, divergence.field))
                    verdicts["divergent"] += 1
                else:
                    self.assertEqual((done.returncode, found["status"]), ({"success": 0, "cut": 3}[expected], expected))
                    verdicts["equal"] += 1
        self.assertGreater(min(verdicts.values()), CASES // 10, verdicts)

    def damage(self, records, chance):
        """One accident: steps lost, doubled or moved, a resume or an end that is false, the end lost."""
        at = chance.choice(steps_of(records) or [1])
        accident = chance.choice(["lose", "double", "move", "resume", "false resume", "end", "end", "cut"])
        if accident == "lose":
            del records[at]
        elif accident == "double":
            records.insert(chance.randrange(1, len(records)), records[at])
        elif accident == "move" and len(records) > 3:
            record = records.pop(at)
            records.insert(chance.randrange(1, len(records)), record)
        elif accident.endswith("resume"):
            taken = sum(record["type"] == "iter" for record in records[:at])
            records.insert(at, {"type": "resume", "step": taken if accident == "resume" else chance.randrange(14)})
        elif records[-1]["type"] == "run_end" and accident == "cut":
            del records[-1]
        elif records[-1]["type"] == "run_end":
            field = chance.choice(["total_samples_seen", "final_epoch", "status"])
            records[-1][field] = chance.choice(["success", "failed"]) if field == "status" else chance.randrange(200)


class Cut(WithFolder):
    def test_a_cut_trace_has_an_exit_status_of_its_own(self):
        records = self.next("--count", 5)
        forge(self.trace, records[:-1])
        status, report = self.judged("replay", self.trace)
        self.assertEqual((status, report["equal"], report["complete"], report["status"], report["steps"]), (3, True, False, "cut", 5))
        for command in "replay", "merge":
            self.assertRegex(weir(command, self.trace).stdout, "the traces? ha(s|ve) no run_end: the run was stopped or killed, or is")
        status, report = self.judged("merge", self.trace)
        self.assertEqual((status, report["status"]), (3, "cut"))
        again = self.folder / "again.trace"
        forge(again, records[:-1])
        status, report = self.judged("diff", self.trace, again)
        self.assertEqual((status, report["differs"], report["status"]), (3, False, "cut"))

    def test_diff_names_the_same_step_both_ways(self):
        records = self.next("--count", 8)
        other = copy.deepcopy(records)
        other[4]["valid_count"] = 1
        pairs = [(records, records[:5], 4), (records, records[:-1], 8), (records, [*records[:4], *records[5:]], 3),
                 (records, other, 3), (records[:-1], [*records[:3], records[-1]], 2),
                 ([records[0], {"type": "resume", "step": 5}, *records[6:]],
                  [records[0], {"type": "resume", "step": 5}, *records[6:-1]], 8)]
        left, right = self.folder / "left", self.folder / "right"
        for number, (one, two, step) in enumerate(pairs):
            with self.subTest(pair=number):
                forge(left, one)
                forge(right, two)
                found = [self.judged("diff", *paths) for paths in ((left, right), (right, left))]
                self.assertEqual([(status, report["step"]) for status, report in found], [(1, step)] * 2)
                self.assertEqual(found[0][1]["left"], found[1][1]["right"])

    def test_what_was_compared_is_said(self):
        self.run_shop("--steps", 10, "--trace-indices")
        status, report = self.judged("replay", self.trace)
        samples = report["samples"]
        self.assertEqual([report[key] for key in ("steps", "indices", "checked_digests", "unchecked_digests",
                                                  "checked_sample_digests", "unchecked_sample_digests")],
                         [10, samples, 0, 10, 0, samples])
        status, report = self.judged("replay", self.trace, "--store", shop / "shop.weir")
        self.assertEqual([report[key] for key in ("steps", "indices", "checked_digests", "unchecked_digests",
                                                  "checked_sample_digests", "unchecked_sample_digests")],
                         [10, samples, 10, 0, samples, 0])

    def test_one_too_many_or_too_few(self):
        self.run_shop("--steps", 3, "--trace-indices")
        records, forged = records_of(self.trace), self.folder / "forged"
        for field, what in (("sample_digests", "digests"), ("indices", "indices")):
            all_of_them = records[2][field]
            for given in (all_of_them + all_of_them[:1], all_of_them[:-1], []):
                forge(forged, [*records[:2], {**records[2], field: given}, *records[3:]])
                status, report = self.judged("replay", forged, "--store", shop / "shop.weir")
                self.assertEqual(status, 1, report)
                self.assertIn(f"{field} was recorded as {len(given)} {what} and is now {len(all_of_them)} {what}", report["message"])

    def test_a_manifest_that_is_given_is_the_traces(self):
        """What batches are built from matters where they are built again."""
        self.run_shop("--steps", 3)
        document = json.loads((shop / "shop.manifest.json").read_text())
        given, stores = self.folder / "given.json", ["--store", shop / "shop.weir"]

        def judge(changed, *options):
            given.write_text(json.dumps({**document, **changed}))
            return self.judged("replay", self.trace, "--manifest", given, *options)

        datasets = sorted(document["datasets"])
        other = {"batch": {**document.get("batch", {}), "max_hops": 1}}
        for changed, options, what in (({"seed": 77}, [], "manifest_hash"), ({"mix": {datasets[0]: 3}}, [], "mix_hash"),
                                       (other, stores, "batch_config_hash")):
            status, record = judge(changed, *options)
            self.assertEqual((status, record["code_id"]), (1, "CHECKPOINT_MISMATCH"))
            self.assertIn(f"its {what} differs", record["message"])
        for changed, options in (({}, stores), (other, [])):
            status, record = judge(changed, *options)
            self.assertEqual((status, record["steps"]), (0, 3))


class Memory(WithFolder):
    """Commits of the run's memory, in its trace."""

    def recorded(self, *arguments, path=None):
        return self.run_shop("--steps", 8, "--trace-memory", "--trace-contents", *arguments, path=path)

    def sealed(self, arguments, steps):
        """The states that the reference seals, from the plan that `weir run --plan` shows."""
        done = weir("run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", "--plan", "--json", "--trace", self.folder / "none",
                    *arguments)
        plan = json.loads(done.stdout)
        tensors = {id: (t["arena"], int(t["address"]), t["offset"], t["size"], t["birth"], t["death"])
                   for id, t in plan["tensors"].items()}
        names = sorted(plan["arenas"], key=lambda name: (len(name), name))
        sealer, states = Sealer(bytes.fromhex(plan["plan_hash"]), names, tensors), []
        for t in steps:
            on_device = ["place/0", "place_slot/0", *(["tables/0", "rules/0"] if t == steps[0] else [])]
            for id in ["slot/0", "lists/0", *(on_device if "device" in names else ["tensors/0"])]:
                if id in tensors:
                    sealer.write(id)
            states.append(sealer.seal(t, 0))
        return states

    def test_the_states_are_those_of_the_reference(self):
        for arguments in ([], ["--workers", 3, "--queue", 2], ["--device", "host", "--depth", 2]):
            with self.subTest(arguments=arguments):
                records = self.recorded(*arguments)
                memory = [record for record in records if record["type"] == "memory"]
                steps = [record for record in records if record["type"] == "iter"]
                expected = [trace.memory_record(t, state, steps[t]["batch_digest"])
                            for t, state in enumerate(self.sealed(arguments, range(8)))]
                self.assertEqual(memory, expected)
                self.assertEqual(len({record["state_hash"] for record in memory}), 8)
                self.assertEqual(trace.judge(trace.verify(self.trace.read_bytes()), manifest_of(records)), "success")
                status, report = self.judged("replay", self.trace, "--store", shop / "shop.weir")
                self.assertEqual((status, report["memory_records"], report["checked_digests"]), (0, 8, 8))
                self.trace.unlink()

    def test_nothing_else_depends_on_it(self):
        with_memory, plain_trace = self.recorded(), self.run_shop("--steps", 8, path=self.folder / "plain.trace")
        self.assertEqual([record for record in with_memory if record["type"] not in ("memory", "run_end")], plain_trace[:-1])
        self.assertEqual(self.judged("diff", self.trace, self.folder / "plain.trace")[0], 0)
        self.assertEqual(self.judged("merge", self.trace)[0], 0)
        again = self.folder / "again.trace"
        self.recorded(path=again)
        self.assertEqual(self.trace.read_bytes(), again.read_bytes())

    def test_flipped_bytes_are_found(self):
        self.recorded()
        whole = self.trace.read_bytes()
        at = whole.index(b"fmemory")
        rng = random.Random(20)
        for place in rng.sample(range(at - 40, at + 900), 40):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << rng.randrange(8)
            self.trace.write_bytes(damaged)
            self.assertEqual(self.judged("replay", self.trace)[1]["code_id"], "TRACE_CORRUPT")

    def test_forged_records_are_found(self):
        records = self.recorded()
        places = [number for number, record in enumerate(records) if record["type"] == "memory"]

        def sealed_again(record):
            record["visibility_hash"] = trace.sha256_of(record["state"])

        def another_epoch(record):
            record["state"]["arenas"]["slots"]["epoch"] += 1
            sealed_again(record)

        def nothing_written(record):
            record["state"]["arenas"]["tensors"]["written"] = 0
            sealed_again(record)

        def moved(record):
            record["state"]["arenas"]["slots"]["live"][0][2] += 256
            sealed_again(record)

        def another_plan(record):
            record["state"]["plan_hash"] = bytes(32)
            record["state_hash"] = trace.commit_hash(bytes(32), record["t"])
            sealed_again(record)

        changes = [(another_epoch, "arenas.slots.epoch"), (nothing_written, "arenas.tensors.epoch"),
                   (moved, "arenas.slots.live"), (another_plan, "plan_hash"),
                   (lambda r: r["state"].update(batch=9), "batch"), (lambda r: r["state"].update(batch="9"), "state"),
                   (lambda r: r.update(t=r["t"] + 1), "t"), (lambda r: r.update(contents=bytes(16)), "contents"),
                   (lambda r: r.update(state_hash=bytes(32)), "state_hash"),
                   (lambda r: r.update(visibility_hash=bytes(32)), "visibility_hash")]
        for number, (change, field) in enumerate(changes):
            with self.subTest(field=field, number=number):
                forged = copy.deepcopy(records)
                change(forged[places[3]])
                self.assert_diverges(forged, forged[places[3]]["t"], field)
        for forged, t in (([*records[:places[3]], *records[places[3] + 1:]], 3), (records[:3] + records[2:], 0),
                          (records[:places[0]] + records[places[0] + 1:], 1)):
            self.assert_diverges(forged, t, "memory")

    def test_a_run_that_resumes(self):
        files = ["--checkpoint", self.folder / "c", "--resume", self.folder / "c"]
        self.recorded(*files)
        self.run_shop("--steps", 12, *files)  # without
        records = self.run_shop("--steps", 16, "--trace-memory", "--workers", 2, *files)
        self.assertEqual([r["t"] for r in records if r["type"] == "memory"], [*range(8), *range(12, 16)])
        self.assertEqual([r["state"]["arenas"]["slots"]["epoch"] for r in records if r["type"] == "memory"],
                         [*range(1, 9), *range(1, 5)])
        self.assertEqual(self.judged("replay", self.trace)[1]["memory_records"], 12)

    def test_options(self):
        call = ["run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", "--steps", 1]
        for arguments, message in ((["--trace-memory"], "--trace-memory belongs to --trace"),
                                   (["--trace", self.trace, "--trace-contents"], "--trace-contents belongs to --trace-memory"),
                                   (["--trace", self.trace, "--trace-memory", "--trace-contents", "--no-digests"], "cannot be used with --no-digests")):
            done = weir(*call, *arguments)
            self.assertEqual((done.returncode, message in done.stderr), (2, True), done.stderr)


class Ranks(WithFolder):
    def ranks(self, *arguments):
        paths = [self.folder / f"{rank}.trace" for rank in (0, 1)]
        return paths, [self.next("--count", 10, "--world-size", 2, "--rank", rank, *arguments, path=path)
                       for rank, path in enumerate(paths)]

    def test_all_ranks_are_wrong_in_the_same_way(self):
        paths, ranks = self.ranks()
        self.assertEqual(self.judged("merge", *paths)[0], 0)
        for change, t in ((lambda r: r[:4] + r[5:], 4), (lambda r: r[:6] + r[5:], 4),
                          (lambda r: [*r[:4], r[5], r[4], *r[6:]], 4),
                          (lambda r: [*r[:-1], {**r[-1], "total_samples_seen": 5}], 10),
                          (lambda r: [*r[:-1], {**r[-1], "final_cursors": {}}], 10)):
            for path, records in zip(paths, ranks):
                forge(path, change(records))
            status, record = self.judged("merge", *paths)
            self.assertEqual((status, record["code_id"], record["t"]), (1, "REPLAY_DIVERGENCE", t))

    def test_one_rank_is_wrong(self):
        paths, ranks = self.ranks()
        forge(paths[1], [*ranks[1][:-1], {**ranks[1][-1], "final_epoch": 77}])
        status, record = self.judged("merge", *paths)
        self.assertEqual((status, record["rank"], record["diagnostics"]["field"]), (1, 1, "final_epoch"))

    def test_without_digests_nothing_can_be_compared_with_a_single_run(self):
        paths = [self.folder / f"{rank}.trace" for rank in (0, 1)]
        with_digests, without = self.folder / "with.trace", self.folder / "without.trace"
        self.run_shop("--steps", 6, path=with_digests)
        self.run_shop("--steps", 6, "--no-digests", path=without)
        for more, single, lacking in (["--no-digests"], with_digests, "0.trace"), ([], without, "without.trace"):
            for rank, path in enumerate(paths):
                path.unlink(missing_ok=True)
                self.run_shop("--steps", 6, "--rank", rank, "--world-size", 2, *more, path=self.folder / "x")
                (self.folder / f"x.rank{rank}").rename(path)
            status, record = self.judged("merge", *paths, "--single", single)
            self.assertEqual((status, record["code_id"]), (1, "CONTRACT_VIOLATION"))
            self.assertIn(f"{lacking} has no sample digests of step 0", record["message"])
        status, report = self.judged("merge", *paths, "--single", with_digests)
        self.assertEqual((status, report["digests"], report["unchecked_digests"]), (0, report["samples"], 0))

    def test_digests_that_are_none(self):
        """What is not a list of 8 bytes each, or not 16 bytes, is refused by all that read it, not taken for no digests."""
        records = self.next("--count", 4)
        one = b"x" * 8
        for field, wrong in (("sample_digests", lambda count: [2**62] * count), ("sample_digests", lambda count: [None] * count),
                             ("sample_digests", lambda count: [one] * (count - 1) + [one[:-1]]), ("sample_digests", lambda count: count),
                             ("sample_digests", lambda count: "x" * count), ("sample_digests", lambda count: None),
                             ("sample_digests", lambda count: {}), ("batch_digest", lambda count: one),
                             ("batch_digest", lambda count: [one * 2]), ("batch_digest", lambda count: None)):
            forge(self.trace, [{**record, field: wrong(record["valid_count"])} if record["type"] == "iter" else record
                               for record in records])
            for command in (["replay", self.trace], ["merge", self.trace], ["merge", self.trace, "--single", self.trace],
                            ["diff", self.trace, self.trace]):
                with self.subTest(field=field, command=command[0]):
                    status, report = self.judged(*command)
                    self.assertEqual((status, report["code_id"]), (1, "TRACE_CORRUPT"), report)
        forge(self.trace, [{**record, "sample_digests": [one] * record["valid_count"], "batch_digest": one * 2}
                           if record["type"] == "iter" else record for record in records])
        self.assertEqual(self.judged("replay", self.trace)[0], 0)
        status, report = self.judged("merge", self.trace, "--single", self.trace)
        self.assertEqual((status, report["digests"]), (0, report["samples"]))

    def test_digests_that_the_single_run_has_alone(self):
        single = self.folder / "single.trace"
        records = [{**record, "sample_digests": [b"x" * 8] * record["valid_count"]} if record["type"] == "iter" else record
                   for record in self.next("--count", 4)]
        forge(self.trace, records)
        records[3] = {**records[3], "sample_digests": [*records[3]["sample_digests"], b"y" * 8]}
        forge(single, records)
        status, record = self.judged("merge", self.trace, "--single", single)
        self.assertEqual((status, record["code_id"], record["t"]), (1, "REPLAY_DIVERGENCE", 2))
        self.assertEqual(record["diagnostics"]["field"], "sample_digests")

    def run_shop(self, *arguments, path=None):
        done = weir("run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", "--trace", path,
                    *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)


class Failed(WithFolder):
    def failing(self, path=None):
        """The last epoch ends after 6 steps, and there is no next one."""
        path = path or self.trace
        done = weir("next", "--manifest", plain, "--dataset", "a", "--epoch", LAST_EPOCH, "--count", 20, "--trace", path,
                    "--world-size", 3, "--rank", 2, "--json")
        self.assertEqual(done.returncode, 1)
        return records_of(path), json.loads(done.stdout.splitlines()[-1])["error"]

    def test_a_failing_next_closes_its_trace(self):
        records, error = self.failing()
        failure, end = records[-2:]
        self.assertEqual(set(failure), {"type", "t", "failure_code", "failure_operator", "dataset_key", "cursor_before",
                                        "data_replay_t", "replay_token", "message", "diagnostics"})
        self.assertEqual((failure["type"], failure["t"], failure["failure_code"], failure["dataset_key"]),
                         ("failure", 5, "COUNTER_OVERFLOW", "a"))
        self.assertEqual((failure["cursor_before"], failure["data_replay_t"].hex(), failure["replay_token"]),
                         ({"epoch": LAST_EPOCH, "global_index": 60}, error["replay_token"], records[0]["replay_token"]))
        self.assertEqual((end["type"], end["status"]), ("run_end", "failed"))
        self.assertEqual(failure["diagnostics"]["dataset_key"], "a")
        status, report = self.judged("replay", self.trace)
        self.assertEqual((status, report["status"], report["failure"], report["steps"]),
                         (4, "failed", {"t": 5, "failure_code": "COUNTER_OVERFLOW"}, 5))
        self.assertIn("the run failed at step 5 with COUNTER_OVERFLOW", weir("replay", self.trace).stdout)
        self.assertEqual(trace.judge(trace.verify(self.trace.read_bytes()), manifest_of(records)), "failed")
        again = self.folder / "again.trace"
        self.failing(again)
        status, report = self.judged("diff", self.trace, again)
        self.assertEqual((status, report["status"]), (0, "failed"))

    def test_a_failure_at_the_first_step_is_recorded_too(self):
        done = weir("next", "--manifest", plain, "--dataset", "a", "--position", 99, "--trace", self.trace)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([record["type"] for record in records_of(self.trace)], ["run_header", "failure", "run_end"])
        self.assertEqual(self.judged("replay", self.trace)[0], 4)

    def test_what_a_failure_calls_itself_is_shown_without_control_characters(self):
        header, *steps, _ = self.next("--count", 5)
        failure = {"type": "failure", "t": 4, "failure_code": "\x1b[31mRED\x9b0m", "failure_operator": "x", "dataset_key": "a",
                   "data_replay_t": steps[4]["data_replay_t"], "replay_token": header["replay_token"], "message": "x",
                   "diagnostics": {}}  # fmt: skip
        self.trace.unlink()
        end = {**self.next("--count", 4)[-1], "status": "failed"}
        failure["cursor_before"] = end["final_cursors"]["a"]
        forge(self.trace, [header, *steps[:4], failure, end])
        for command in "replay", "merge":
            done = weir(command, self.trace)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("the run failed at step 4 with ?[31mRED?0m\n", done.stdout)

    def test_a_false_failure(self):
        records, _ = self.failing()
        failure = records[-2]
        for change, field in (({"t": 4}, "t"), ({"t": 9}, "t"), ({"dataset_key": "b"}, "dataset_key"),
                              ({"cursor_before": {"epoch": 0, "global_index": 60}}, "cursor_before"),
                              ({"data_replay_t": bytes(32)}, "data_replay_t"), ({"replay_token": bytes(64)}, "replay_token"),
                              ({"failure_code": "GLOBAL_POSITION_EXCEEDS_CARDINALITY"}, "failure_code")):
            with self.subTest(change=change):
                self.assert_diverges([*records[:-2], {**failure, **change}, records[-1]], change.get("t", 5), field)
        self.assert_diverges([*records[:-2], {**records[-1]}], 5, "status")
        self.assert_diverges([*records[:-1], {**records[-1], "status": "success"}], 6, "status")
        # A failure that would not happen: the step before it is one that works.
        self.assert_diverges([*records[:-3], {**failure, "t": 4, "cursor_before": records[-3]["cursor_before"],
                                              "data_replay_t": records[-3]["data_replay_t"]}, records[-1]], 4, "failure_code")

    def test_nothing_stands_behind_a_failure_but_the_end(self):
        records, _ = self.failing()
        forge(self.trace, [*records[:-1], records[2], records[-1]])
        status, record = self.judged("replay", self.trace)
        self.assertEqual((status, record["code_id"]), (1, "TRACE_CORRUPT"))
        forge(self.trace, records[:-1])
        self.assertEqual(self.judged("replay", self.trace)[0], 3)

    def damaged_store(self):
        """The shop with a hole: some seeds of one task lead nowhere. And how to mend it. (Such a store is read with
        --verify none: its hashes would be refused before.)"""
        path = self.folder / "damaged.weir"
        good = (shop / "shop.weir").read_bytes()
        info = json.loads(weir("info", shop / "shop.weir", "--json").stdout)
        place = next(one for one in info["sections"] if one["name"] == "seed_rows")["offset"]
        for task in info["tasks"]:
            if task["name"] == "churn":
                break
            place += 4 * task["seeds"]
        holes = task["splits"]["train"] // 3
        bad = bytearray(good)
        bad[place : place + 4 * holes] = struct.pack("<I", 2**32 - 2) * holes
        path.write_bytes(bad)
        return path, lambda: path.write_bytes(good)

    def test_a_run_that_fails_says_so_and_can_be_resumed(self):
        path, mend = self.damaged_store()
        checkpoint = self.folder / "run.checkpoint"
        call = ["run", "--store", path, "--manifest", shop / "shop.manifest.json", "--steps", 60, "--trace", self.trace,
                "--checkpoint", checkpoint, "--resume", checkpoint, "--workers", 2, "--rank", 1, "--world-size", 2,
                "--verify", "none"]
        traced, saved = Path(f"{self.trace}.rank1"), Path(f"{checkpoint}.rank1")
        done = weir(*call, "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual((done.returncode, error["code_id"], error["rank"]), (1, "STORE_CORRUPT", 1))
        self.assertEqual(error["diagnostics"]["dataset_key"], "shop/churn/train")
        records = records_of(traced)
        failure = records[-2]
        self.assertEqual((failure["t"], failure["failure_code"], failure["dataset_key"]),
                         (error["t"], "STORE_CORRUPT", "shop/churn/train"))
        self.assertEqual(failure["data_replay_t"].hex(), error["replay_token"])
        self.assertEqual(cbor.decode(saved.read_bytes())["step"], failure["t"])
        cursor = failure["cursor_before"]
        done = weir("batch", "--store", path, "--manifest", shop / "shop.manifest.json", "--dataset", failure["dataset_key"],
                    "--epoch", cursor["epoch"], "--position", cursor["global_index"], "--rank", 1, "--world-size", 2, "--json",
                    "--verify", "none")
        alone = json.loads(done.stdout)["error"]
        self.assertEqual([alone[key] for key in ("code_id", "rank", "replay_token")],
                         [error[key] for key in ("code_id", "rank", "replay_token")])
        self.assertEqual(alone["diagnostics"]["dataset_key"], "shop/churn/train")
        status, report = self.judged("replay", traced)
        self.assertEqual((status, report["steps"], report["failure"]["t"]), (4, failure["t"], failure["t"]))
        mend()
        self.assertEqual(weir(*call).returncode, 0)
        whole = self.folder / "whole"
        weir("run", "--store", path, "--manifest", shop / "shop.manifest.json", "--steps", 60, "--trace", whole, "--rank", 1,
             "--world-size", 2)
        self.assertEqual(weir("diff", f"{whole}.rank1", traced).stdout, "60 steps, all equal\n")
        self.assertEqual(self.judged("replay", traced)[0], 0)


class Header(WithFolder):
    def test_another_order_is_another_operator(self):
        records = self.run_shop("--steps", 2)
        self.assertEqual(records[0]["operator"], "UML_OS.Data.NextBatch_v3")  # ingest's manifest is better mixed
        evaluated = self.run_shop("--dataset", "shop/churn/val", "--stage", "eval", path=self.folder / "e.trace")
        self.assertNotIn("operator", evaluated[0])
        self.assertNotIn("operator", self.next("--count", 2, path=self.folder / "n.trace")[0])
        done = weir("next", "--manifest", shop / "shop.manifest.json", "--dataset", "shop/churn/train", "--world-size", 3,
                    "--json")
        self.assertEqual(json.loads(done.stdout)["error"]["failure_operator"], "UML_OS.Data.NextBatch_v3")
        self.assert_diverges([{**records[0], "operator": "UML_OS.Data.NextBatch_v2"}, *records[1:]], 0, "operator")

    def test_what_it_was_built_with_does_not_matter(self):
        checkpoint = self.folder / "c"
        records = self.run_shop("--steps", 4, "--checkpoint", checkpoint)
        self.assertIn("compiler", records[0]["build"])
        other = {**records[0], "build": {"compiler": "another"}, "weir_version": "0.0.0"}
        del other["operator"]  # as an older version wrote it
        forge(self.trace, [other, *records[1:]])
        whole = self.folder / "whole.trace"
        self.run_shop("--steps", 8, path=whole)
        self.run_shop("--steps", 8, "--checkpoint", checkpoint, "--resume", checkpoint)
        self.assertEqual(self.judged("diff", whole, self.trace)[0], 0)


if __name__ == "__main__":
    unittest.main()
