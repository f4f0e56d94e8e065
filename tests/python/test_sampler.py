"""weir.Sampler and weir.Mix against the reference simulator, and as torch's samplers."""

import json
import os
import pickle
import unittest
from typing import Any
from unittest import mock

import weir
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.manifest import Manifest as ReferenceManifest
from reference.mix import Mixer
from reference.sampler import Cursor
from reference.sampler import Sampler as ReferenceSampler
from tests.python import support  # noqa: F401 (hypothesis' profile)
from torch.utils.data import DataLoader

KEY = "a"


def manifest(cardinality: int, batch: int, **data: Any) -> dict[str, Any]:
    dataset = {"id": "d", "version": "1", "hash": "00" * 32, "cardinality": cardinality}
    return {"seed": 5, "global_batch_size": batch, "datasets": {KEY: dataset}, "data": data}


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[str, Any], int, int, str]:
    """(manifest, world size, rank, stage)"""
    world = draw(st.integers(1, 5))
    batch = world * draw(st.integers(1, 7))
    document = manifest(
        draw(st.integers(batch, 400)),
        batch,
        sampler_block_size=draw(st.integers(1, 60)),
        drop_last=draw(st.booleans()),
        rotate=draw(st.booleans()),
        epoch_boundary=draw(st.sampled_from(["strict", "stream"])),
        intra_block=draw(st.sampled_from(["affine_v1", "feistel_v1"])),
    )
    if document["data"]["epoch_boundary"] == "stream":
        document["data"]["drop_last"] = False
    return document, world, draw(st.integers(0, world - 1)), draw(st.sampled_from(["train", "eval"]))


def reference_epoch(sampler: ReferenceSampler, run: Any, cursor: Cursor) -> tuple[list[list[int]], Cursor]:
    """The valid samples of the steps that begin in the cursor's epoch and have any, and the cursor behind them."""
    _, world, rank, stage = run
    steps, epoch = [], cursor.epoch
    while cursor.epoch == epoch:
        step = sampler.next_batch(KEY, world, rank, stage, cursor)
        steps.append(step.indices[: step.valid_count])
        cursor = step.cursor_next
    return [step for step in steps if step], cursor


class AgainstTheReference(unittest.TestCase):
    @settings(max_examples=60)
    @given(runs())
    def test_two_epochs_are_the_references(self, run: tuple[dict[str, Any], int, int, str]) -> None:
        document, world, rank, stage = run
        reference = ReferenceSampler(ReferenceManifest.read(json.dumps(document)))
        sampler = weir.Sampler(document, KEY, rank=rank, world_size=world, stage=stage)
        cursor = Cursor(0, 0)
        for _ in range(2):
            self.assertEqual(sampler.epoch, cursor.epoch)
            expected, cursor = reference_epoch(reference, run, cursor)
            self.assertEqual(len(sampler), sum(map(len, expected)))
            self.assertEqual(len(sampler.batches()), len(expected))
            self.assertEqual(list(sampler.batches()), expected)
        sampler.set_epoch(0)
        self.assertEqual(list(sampler), [index for step in reference_epoch(reference, run, Cursor(0, 0))[0] for index in step])

    @settings(max_examples=60)
    @given(runs(), st.integers(0, 1000), st.integers(0, 1000), st.booleans())
    def test_any_state_goes_on(self, run: Any, before: int, loads: int, by_batch: bool) -> None:
        document, world, rank, stage = run

        def make() -> Any:
            sampler = weir.Sampler(document, KEY, rank=rank, world_size=world, stage=stage)
            sampler.set_epoch(loads % 3)
            return sampler.batches() if by_batch else sampler

        whole = list(make())
        before = before % (len(whole) + 1)
        first = make()
        iterator = iter(first)
        taken = [next(iterator) for _ in range(before)]
        state = json.loads(json.dumps(first.state_dict()))
        second = make()
        second.load_state_dict(pickle.loads(pickle.dumps(state)))
        second.set_epoch(state["epoch"])
        rest = list(second) if taken != whole else []
        self.assertEqual(taken + rest, whole)

    @settings(max_examples=60)
    @given(st.data())
    def test_a_state_resumes_at_any_world_size(self, data: st.DataObject) -> None:
        """Every sample of the epoch once, in the order of world size 1: also at one that has no part in the last step."""
        document, _, _, stage = data.draw(runs())
        document["global_batch_size"] = batch = data.draw(st.sampled_from([4, 6, 12]))
        document["datasets"][KEY]["cardinality"] = data.draw(st.integers(batch, 200))
        before, after = (data.draw(st.sampled_from([w for w in (1, 2, 3, 4, 6, 12) if batch % w == 0])) for _ in range(2))
        epoch = data.draw(st.integers(0, 2))

        def world(size: int) -> list[weir.Sampler]:
            return [weir.Sampler(document, KEY, rank=r, world_size=size, stage=stage) for r in range(size)]

        def loops(ranks: list[weir.Sampler]) -> list[Any]:
            for sampler in ranks:
                sampler.set_epoch(epoch)
            return [iter(sampler.batches()) for sampler in ranks]

        def take(loops: list[Any], steps: int) -> list[list[int]]:
            """One list a step, of all ranks; none where the epoch is over."""
            found = [sum((next(loop, []) for loop in loops), []) for _ in range(steps)]
            return [step for step in found if step]

        [whole] = world(1)
        whole.set_epoch(epoch)
        expected = list(whole.batches())
        split = data.draw(st.integers(0, len(expected)))
        first = world(before)
        running = loops(first)
        taken = take(running, split)
        states = [sampler.state_dict() for sampler in first]
        second = world(after)
        for rank, sampler in enumerate(second):
            sampler.load_state_dict(json.loads(json.dumps(states[rank % before])))
        if split < len(expected):
            self.assertEqual(taken + take(loops(second), len(expected)), expected)
        else:
            self.assertEqual(taken, expected)
            self.assertEqual({state["epoch"] for state in states}, {epoch + 1})

    @settings(max_examples=40)
    @given(st.integers(0, 2**40), st.integers(1, 5), st.integers(1, 5))
    def test_the_mix_is_the_references(self, step: int, left: int, right: int) -> None:
        document = manifest(1000, 8)
        document["datasets"]["b"] = {**document["datasets"][KEY], "cardinality": 77}
        document["mix"] = {KEY: left, "b": right}
        place = weir.Mix(document).locate(step)
        expected = Mixer(ReferenceManifest.read(json.dumps(document))).locate(step)
        self.assertEqual((place.dataset, place.epoch, place.position), (expected[0], expected[1].epoch, expected[1].global_index))


class RandomAccess(unittest.TestCase):
    def test_an_index_is_its_ranges(self) -> None:
        sampler = weir.Sampler(manifest(10_000, 32), KEY)
        whole = sampler.range(3, 0, 10_000).tolist()
        self.assertEqual(sorted(whole), list(range(10_000)))
        self.assertEqual([sampler.index_at(3, p) for p in (0, 77, 9_999)], [whole[0], whole[77], whole[9_999]])
        self.assertEqual(sampler.range(3, 5, 0).tolist(), [])

    def test_a_step_of_all_ranks_is_the_step_of_one(self) -> None:
        single = weir.Sampler(manifest(1000, 12), KEY).step(1, 24)
        ranks = [weir.Sampler(manifest(1000, 12), KEY, rank=r, world_size=3).step(1, 24) for r in range(3)]
        self.assertEqual(sorted(single["indices"].tolist()), sorted(i for s in ranks for i in s["indices"].tolist()))
        self.assertEqual({s["cursor_next"] for s in ranks}, {single["cursor_next"]})

    def test_steps_have_cursors(self) -> None:
        for data in ({}, {"epoch_boundary": "stream"}, {"drop_last": True}):
            sampler = weir.Sampler(manifest(100, 32, **data), KEY)
            cursor = (0, 0)
            for step in range(20):
                self.assertEqual(sampler.cursor_of(step), cursor)
                cursor = sampler.step(*cursor)["cursor_next"]


class WithTorch(unittest.TestCase):
    def setUp(self) -> None:
        self.data = list(range(1000, 1100))

    def test_sampler_and_batch_sampler_of_a_data_loader(self) -> None:
        for workers in (0, 1):
            sampler = weir.Sampler(manifest(100, 32), KEY, rank=1, world_size=2)
            loader = DataLoader(self.data, batch_size=sampler.batch_size, sampler=sampler, num_workers=workers)
            batches = DataLoader(self.data, batch_sampler=sampler.batches(), num_workers=workers)
            expected = [[1000 + i for i in step] for step in sampler.batches()]
            sampler.set_epoch(0)
            self.assertEqual([batch.tolist() for batch in loader], expected)
            sampler.set_epoch(0)
            self.assertEqual(len(batches), len(expected))
            self.assertEqual([batch.tolist() for batch in batches], expected)

    def test_a_loop_that_is_left_begins_its_epoch_again(self) -> None:
        sampler = weir.Sampler(manifest(100, 32), KEY)
        first = next(iter(sampler))
        self.assertEqual(next(iter(sampler)), first)
        self.assertEqual(sampler.epoch, 0)
        list(sampler)
        self.assertEqual(sampler.epoch, 1)

    def test_a_data_loader_that_reads_ahead_has_no_state(self) -> None:
        sampler = weir.Sampler(manifest(1000, 32), KEY)
        loader = DataLoader(range(1000), batch_sampler=sampler.batches(), num_workers=1)
        iterator = iter(loader)
        next(iterator)
        with self.assertRaisesRegex(RuntimeError, "a DataLoader with workers reads ahead.*StatefulDataLoader"):
            sampler.state_dict()
        del iterator  # left in the middle: nobody knows what was seen
        with self.assertRaisesRegex(RuntimeError, "reads ahead"):
            sampler.state_dict()
        sampler.set_epoch(1)
        self.assertEqual(sum(len(batch) for batch in loader), 1000)
        self.assertEqual((sampler.state_dict()["epoch"], sampler.state_dict()["position"]), (2, 0))
        plain = DataLoader(range(1000), batch_sampler=sampler.batches())
        iterator = iter(plain)
        next(iterator)
        self.assertEqual(sampler.state_dict()["position"], 32)


class States(unittest.TestCase):
    def setUp(self) -> None:
        self.document = manifest(100, 12)
        sampler = weir.Sampler(self.document, KEY, rank=0, world_size=3)
        loop = iter(sampler)
        for _ in range(6):
            next(loop)
        self.state = sampler.state_dict()

    def refused(self, field: str, document: dict[str, Any], state: dict[str, Any] | None = None, **options: Any) -> None:
        sampler = weir.Sampler(document, KEY, **{"rank": 0, "world_size": 3, **options})
        before = sampler.state_dict()
        with self.assertRaisesRegex(weir.errors.CheckpointMismatch, f"the state's {field} is ") as caught:
            sampler.load_state_dict(state or self.state)
        self.assertEqual((caught.exception.diagnostics["field"], caught.exception.code), (field, 2008))
        self.assertEqual(sampler.state_dict(), before)

    def test_what_the_state_says(self) -> None:
        self.assertEqual({**self.state, "manifest_hash": 0, "token_hash": 0}, {
            "version": 2, "manifest_hash": 0, "token_hash": 0, "dataset": KEY, "stage": "train", "world_size": 3,
            "epoch": 0, "position": 12, "given": 2})

    def test_others_are_refused(self) -> None:
        self.refused("manifest_hash", manifest(101, 12))
        self.refused("manifest_hash", {**self.document, "seed": 6})
        self.refused("stage", self.document, stage="eval")
        self.refused("token_hash", self.document, token=b"x" * 64)
        two = {**self.document, "datasets": {**self.document["datasets"], "b": self.document["datasets"][KEY]}}
        self.refused("dataset", two, weir.Sampler(two, "b").state_dict())

    def test_inside_a_step_another_world_size_is_refused(self) -> None:
        for world_size in 1, 2, 4:
            self.refused("world_size", self.document, world_size=world_size)
        sampler = weir.Sampler(self.document, KEY, rank=2, world_size=3)
        sampler.load_state_dict(self.state)
        self.assertEqual(next(iter(sampler.batches())), sampler.step(0, 12)["indices"].tolist()[2:])

    def test_damaged_states_are_refused(self) -> None:
        sampler = weir.Sampler(self.document, KEY, rank=0, world_size=3)
        for change in ({"version": 1}, {"position": 13}, {"position": 108}, {"position": -12}, {"epoch": "0"}, {"epoch": None},
                       {"given": 5}, {"given": True}, {"given": 2.0}, {"position": 2**64}, {"world_size": None}):
            with self.subTest(change), self.assertRaises(ValueError):
                sampler.load_state_dict({**self.state, **change})
        for other in None, 3, [], {}:
            with self.assertRaisesRegex(ValueError, "not the state_dict"):
                sampler.load_state_dict(other)


class Launchers(unittest.TestCase):
    def rank(self, **environment: str) -> tuple[int, int]:
        with mock.patch.dict(os.environ, environment, clear=True):
            sampler = weir.Sampler(manifest(100, 32), KEY)
            return sampler.rank, sampler.world_size

    def test_rank_and_world_size_come_from_the_launcher(self) -> None:
        self.assertEqual(self.rank(), (0, 1))
        self.assertEqual(self.rank(RANK="1", WORLD_SIZE="4"), (1, 4))
        self.assertEqual(self.rank(OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="8"), (2, 8))
        self.assertEqual(self.rank(PMI_RANK="3", PMI_SIZE="4"), (3, 4))
        self.assertEqual(self.rank(SLURM_PROCID="1", SLURM_NTASKS="2"), (1, 2))
        self.assertEqual(self.rank(RANK="0", WORLD_SIZE="2", SLURM_PROCID="1", SLURM_NTASKS="4"), (0, 2))
        for wrong in ({"RANK": "one", "WORLD_SIZE": "4"}, {"RANK": "0"}, {"PMI_RANK": "4", "PMI_SIZE": "4"}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                self.rank(**wrong)


if __name__ == "__main__":
    unittest.main()
