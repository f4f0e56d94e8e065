"""weir.Loader: order, leases, resuming and traces."""

import copy
import gc
import json
import os
import pickle
import resource
import unittest
from pathlib import Path
from typing import Any

import numpy as np
import weir
import weir.torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.python.support import TRAIN, LoaderTest, run_weir, skip, status_of_child

RATING = "shop/rating/train"


class Order(LoaderTest):
    def test_batches_are_those_of_the_cursors(self) -> None:
        mix = self.changed_manifest(global_batch_size=8, mix={TRAIN: 2, RATING: 1})
        for options in ({}, {"manifest": mix, "dataset": None}):
            for workers in (1, 3):
                loader = self.loader(workers=workers, rank=1, world_size=2, **options)
                for step, batch in enumerate(loader.take(25)):
                    alone = weir.batch(
                        self.store, loader.manifest, loader.dataset, step=step, rank=1, world_size=2
                    )
                    self.assertEqual((batch.step, batch.dataset, batch.cursor), (step, alone.dataset, alone.cursor))
                    self.assertEqual(batch.digest, alone.digest)
                    self.assertEqual(batch.sample_index.tolist(), alone.sample_index.tolist())

    def test_the_last_batch_of_an_evaluation_is_that_of_its_step(self) -> None:
        for changes in ({"drop_last": True}, {"epoch_boundary": "stream"}):
            manifest = self.changed_manifest(global_batch_size=16, data=changes)
            loader = self.loader(manifest=manifest, stage="eval", dataset="shop/churn/val")
            for batch in loader:
                alone = weir.batch(self.store, manifest, loader.dataset, stage="eval", step=batch.step)
                self.assertEqual((batch.digest, batch.cursor), (alone.digest, alone.cursor))
            self.assertLess(batch.valid_count, 16)

    def test_a_run_ends(self) -> None:
        loader = self.loader(steps=7, first_step=2)
        self.assertEqual((len(loader), loader.end), (5, 7))
        self.assertEqual([batch.step for batch in loader], [2, 3, 4, 5, 6])
        with self.assertWarnsRegex(UserWarning, "the run has ended at step 7"):
            self.assertEqual([batch.step for batch in loader], [])
        with self.assertRaises(TypeError):
            len(self.loader())
        self.assertTrue(self.loader())
        with self.assertRaises(ValueError):
            self.loader(steps=0)
        with self.assertRaises(ValueError):
            self.loader(steps=3, first_step=4)

    def test_a_loop_has_steps_and_loops_restart(self) -> None:
        loader = self.loader(steps=3, epochs=None)
        self.assertEqual([[batch.step for batch in loader] for _ in range(3)], [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        self.assertEqual((len(loader), loader.end), (3, None))
        with self.assertRaises(StopIteration):
            next(loader)
        self.assertEqual([batch.step for batch in loader.take(2)], [9, 10])
        self.assertEqual([batch.step for batch in loader], [11], "a loop that was left is finished by the next")
        again = self.loader(steps=3, epochs=None)
        state = loader.state_dict(after=9)
        again.load_state_dict(state)
        self.assertEqual((len(again), state["step"]), (3, 10))
        self.assertEqual([[batch.step for batch in again] for _ in range(2)], [[10, 11], [12, 13, 14]])

    def test_epochs_end_a_run(self) -> None:
        loader = self.loader(steps=3, epochs=2)
        self.assertEqual([[batch.step for batch in loader] for _ in range(2)], [[0, 1, 2], [3, 4, 5]])
        self.assertEqual((loader.end, len(loader)), (6, 3))
        with self.assertWarns(UserWarning):
            self.assertEqual(list(loader), [])
        with self.assertRaisesRegex(ValueError, "epochs is for training"):
            self.loader(stage="eval", dataset="shop/churn/val", epochs=2)

    def test_epochs_without_steps_are_passes(self) -> None:
        samples = weir.Store(self.store).datasets[TRAIN]["cardinality"]
        for data in ({}, {"drop_last": True}, {"epoch_boundary": "stream"}):
            manifest = self.changed_manifest(global_batch_size=32, data=data)
            sampler = weir.Sampler(manifest, TRAIN)
            loader = self.loader(manifest=manifest, epochs=3)
            passes = []
            for epoch in range(3):
                self.assertEqual(len(loader), sampler.steps_in(epoch))
                passes.append([batch.epoch for batch in loader])
            self.assertEqual(passes, [[epoch] * sampler.steps_in(epoch) for epoch in range(3)])
            self.assertEqual(loader.end, -(-3 * samples // 32) if "epoch_boundary" in data else 3 * sampler.steps_in(0))
        with self.assertRaisesRegex(ValueError, "a mix has no passes.*steps"):
            self.loader(dataset=None, epochs=2)

    def test_training_goes_on_and_evaluation_begins_again(self) -> None:
        loader = self.loader()
        self.assertEqual([batch.step for batch in loader.take(2)], [0, 1])
        self.assertEqual([batch.step for batch in loader.take(2)], [2, 3])
        evaluation = self.loader(stage="eval", dataset="shop/churn/val")
        self.assertEqual([batch.step for batch in evaluation.take(1)], [0])
        passes = [[batch.sample_index.tolist()[: batch.valid_count] for batch in evaluation] for _ in range(2)]
        self.assertEqual(passes[0], passes[1])
        self.assertEqual(len(passes[0]), len(evaluation))
        samples = [index for batch in passes[0] for index in batch]
        self.assertEqual(samples, list(range(weir.Store(self.store).datasets["shop/churn/val"]["cardinality"])))

    def test_ranks_together_are_one(self) -> None:
        whole = [batch.sample_digests.tolist() for batch in self.loader().take(6)]
        ranks = [
            [batch.sample_digests.tolist() for batch in self.loader(rank=r, world_size=2).take(6)] for r in range(2)
        ]
        self.assertEqual([sorted(a + b) for a, b in zip(*ranks)], [sorted(step) for step in whole])

    def test_best_effort_gives_every_step_once(self) -> None:
        steps = [batch.step for batch in self.loader(policy="best_effort", workers=3, steps=20)]
        self.assertEqual(sorted(steps), list(range(20)))
        blocks = self.loader(policy="best_effort", shards="contiguous", workers=2, max_lead=1, epochs=1, steps=20)
        steps = [batch.step for batch in blocks]
        self.assertEqual({frozenset(steps[i : i + 2]) for i in range(0, 20, 2)}, {frozenset((i, i + 10)) for i in range(10)})

    def test_a_last_batch_that_is_not_full_can_be_left_out(self) -> None:
        whole = list(self.loader(stage="eval", dataset="shop/churn/val", copy=True))
        self.assertLess(whole[-1].valid_count, whole[0].valid_count)
        full = self.loader(stage="eval", dataset="shop/churn/val", drop_remainder=True)
        self.assertEqual(len(full), len(whole) - 1)
        self.assertEqual([batch.digest for batch in full], [batch.digest for batch in whole[:-1]])
        with self.assertRaisesRegex(weir.errors.ContractViolation, "drop_last"):
            self.loader(drop_remainder=True)

    def test_options_are_checked_when_it_is_made(self) -> None:
        for kind, options in {
            weir.errors.InvalidDatasetKey: {"dataset": "shop/nothing/train"},
            weir.errors.InvalidStageType: {"stage": "test"},
            weir.errors.ContractViolation: {"policy": "fast"},
            weir.errors.BatchSizeInconsistent: {"rank": 0, "world_size": 3},
            weir.errors.ArenaTooSmall: {"memory_limit": 1000},
            TypeError: {"workers": "2"},
            OverflowError: {"queue_size": -1},
        }.items():
            with self.subTest(kind.__name__), self.assertRaises(kind):
                self.loader(**options)
        for name, value in (("workers", None), ("steps", "3"), ("depth", 1.5), ("rank", "0"), ("first_step", -1),
                            ("max_lead", 2**32), ("epochs", "2"), ("stage", 3), ("policy", 3), ("shards", 3), ("dataset", b"x")):
            options = {name: value, **({"world_size": 1} if name == "rank" else {})}
            with self.subTest(name), self.assertRaisesRegex((TypeError, OverflowError), f"^{name} is "):
                self.loader(**options)
        self.assertGreater(self.loader().plan().arenas["slots"]["peak_bytes"], 1000)

    def test_options_of_other_loaders_are_answered(self) -> None:
        for name, answer in (("batch_size", "global_batch_size=64"), ("shuffle", "eval_seeded"), ("num_workers", "called workers"),
                             ("drop_last", '"drop_last": True'), ("collate_fn", "transform="), ("max_epochs", "called epochs"),
                             ("worker", "did you mean workers"), ("zzz", "there are stores, manifest, dataset")):
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"there is no option {name}.*{answer}"):
                self.loader(**{name: 4})
            with self.subTest(name), self.assertRaisesRegex(TypeError, f"there is no option {name}"):
                weir.torch.Dataset(self.store, self.manifest, **{name: 4})
        for make in lambda: weir.Sampler(self.manifest, TRAIN, batch_size=3), lambda: weir.batch(self.store, self.manifest, TRAIN, batch_size=3):
            with self.assertRaisesRegex(TypeError, "global_batch_size=64"):
                make()


class SeededEvaluation(LoaderTest):
    """stage="eval_seeded": the samples of an evaluation in an order that has nothing to do with what they are."""

    def samples(self, stage: str, dataset: str = "shop/late/train", **options: Any) -> list[tuple[int, int]]:
        """(index, digest) of every sample, in order."""
        loader = self.loader(stage=stage, dataset=dataset, **options)
        return [pair for batch in loader for pair in zip(batch.sample_index.tolist(), batch.sample_digests.tolist())]

    def test_the_same_sequences_in_another_order(self) -> None:
        plain, seeded = self.samples("eval"), self.samples("eval_seeded")
        self.assertEqual(sorted(seeded), plain)
        self.assertNotEqual(seeded, plain)
        self.assertEqual(self.samples("eval_seeded", workers=3), seeded)
        ranks = [self.samples("eval_seeded", rank=rank, world_size=2) for rank in range(2)]
        self.assertEqual(sorted(ranks[0] + ranks[1]), plain)

    def test_it_is_the_samplers(self) -> None:
        loader = self.loader(stage="eval_seeded", dataset="shop/late/train")
        sampler = weir.Sampler(loader.manifest, loader.dataset, stage="eval_seeded")
        self.assertEqual([index for index, _ in self.samples("eval_seeded")], list(sampler))
        self.assertEqual([sampler.index_at(3, position) for position in range(8)], list(sampler)[:8])

    def test_its_beginning_is_a_sample_of_the_whole(self) -> None:
        count = len(self.samples("eval"))
        first = [index for index, _ in self.samples("eval_seeded", steps=count // 8 // 4)]
        self.assertGreater(max(first), count * 3 // 4)
        self.assertLess(min(first), count // 4)

    def test_it_resumes(self) -> None:
        whole = self.samples("eval_seeded")
        first, second = (self.loader(stage="eval_seeded", dataset="shop/late/train", workers=w) for w in (1, 2))
        skip(first, 5)
        second.load_state_dict(first.state_dict())
        self.assertEqual([index for batch in second for index in batch.sample_index.tolist()], [i for i, _ in whole[40:]])
        with self.assertRaisesRegex(weir.errors.CheckpointMismatch, "stage"):
            self.loader(stage="eval", dataset="shop/late/train").load_state_dict(first.state_dict())

    def test_its_trace_is_replayed_and_merged(self) -> None:
        self.samples("eval_seeded", trace="seeded.trace")
        report = weir.replay("seeded.trace", stores=self.store)
        self.assertEqual((report.steps, report.checked_digests, report.is_complete), (39, 39, True))
        for rank in range(2):
            self.samples("eval_seeded", trace="parts.trace", rank=rank, world_size=2)
        self.assertIn("39 steps", run_weir("merge", "parts.trace.rank0", "parts.trace.rank1", "--single", "seeded.trace"))


class Leases(LoaderTest):
    def test_memory_is_the_slots(self) -> None:
        loader = self.loader(queue_size=1, buffer_size=1)
        addresses = set()
        for batch in loader.take(10):
            addresses.add(batch["column_ids"].address)
            self.assertEqual(batch.numpy()["column_ids"].ctypes.data, batch["column_ids"].address)
            self.assertEqual(batch.torch()["column_ids"].data_ptr(), batch["column_ids"].address)
            del batch
        self.assertLessEqual(len(addresses), 2)

    def test_a_loop_that_keeps_batches_is_told(self) -> None:
        loader = self.loader(queue_size=3)
        held = [next(loader) for _ in range(3)]
        with self.assertRaisesRegex(weir.errors.ContractViolation, "3 batches are still held.*copy=True"):
            next(loader)
        held.pop()
        self.assertEqual(next(loader).step, 3)
        two = self.loader(queue_size=2)
        held = [next(two), next(two)]
        with self.assertRaisesRegex(weir.errors.ContractViolation, "2 batches are still held, as many as queue_size allows"):
            next(two)
        for options in {"queue_size": 1}, {"device": "host", "depth": 1}:
            with self.assertRaisesRegex(weir.errors.ContractViolation, "a loop holds its last batch"):
                for _ in self.loader(**options):
                    pass

    def test_whatever_is_made_of_a_batch_holds_it(self) -> None:
        loader = self.loader(queue_size=1)
        for make in (
            lambda batch: batch,
            lambda batch: batch["column_ids"],
            lambda batch: batch.numpy()["column_ids"][0],
            lambda batch: memoryview(batch["is_null"]),
            lambda batch: batch["fk_adj"].__dlpack__(),
            lambda batch: batch.torch()["fk_adj"][0],
            lambda batch: batch.sample_index,
            lambda batch: batch["numeric_values"].view("int32"),
        ):
            held = make(next(loader))
            self.assertEqual(loader.metrics()["held"], 1)
            stages = loader.metrics()["stages"]
            self.assertEqual(list(stages), ["read", "build", "transform", "transfer", "consume"])
            self.assertEqual((stages["consume"]["queued"], stages["consume"]["room"]), (1, loader._options["queue_size"]))
            with self.assertRaises(ValueError):
                next(loader)
            del held
            self.assertEqual(loader.metrics()["held"], 0)

    def test_writing_into_a_batch_harms_no_later_one(self) -> None:
        loader = self.loader(queue_size=2, buffer_size=1)
        for step, batch in enumerate(loader.take(20)):
            alone = weir.batch(self.store, loader.manifest, TRAIN, step=step, with_digests=True)
            self.assertEqual(batch.digest, alone.digest)
            for name, array in alone.items():
                np.testing.assert_array_equal(batch[name].numpy(), array.numpy(), name)
            batch["timestamp_values"].torch().sub_(1.5)  # torch has no read-only tensors
            for name, tensor in batch.torch().items():
                if step % 2:
                    tensor.fill_(1)
                elif name != "text_batch_embeddings":
                    np.copyto(tensor.numpy(), np.ones_like(tensor.numpy()))
            for field in (batch.sample_index, batch.num_rows):
                field.torch().fill_(-1)

    def test_copies_may_be_kept(self) -> None:
        loader = self.loader(copy=True)
        kept = list(loader.take(12))
        self.assertEqual([batch.step for batch in kept], list(range(12)))
        for step, batch in enumerate(kept):
            np.testing.assert_array_equal(
                batch["numeric_values"].numpy(),
                weir.batch(self.store, loader.manifest, TRAIN, step=step)["numeric_values"].numpy(),
            )
        kept[0]["numeric_values"].numpy()[:] = 1

    def test_cycles_are_collected(self) -> None:
        loader = self.loader(queue_size=1)

        class Holder:
            pass

        for _ in range(3):
            holder = Holder()
            holder.batch, holder.me = next(loader), holder
            del holder
            gc.collect()
        self.assertEqual(loader.step, 3)

    def test_a_copy_does_not_hold_its_slot(self) -> None:
        loader = self.loader(queue_size=1)
        kept = [next(loader).copy() for _ in range(3)]
        loader.close()
        for step, batch in enumerate(kept):
            expected = weir.batch(self.store, loader.manifest, TRAIN, step=step)
            self.assertEqual((batch.dataset, batch.task, batch.digest), (TRAIN, expected.task, expected.digest))
            np.testing.assert_array_equal(batch.copy()["column_ids"].numpy(), expected["column_ids"].numpy())

    def test_arrays_outlive_their_loader(self) -> None:
        loader = self.loader()
        batch = next(loader)
        expected = batch["column_ids"].numpy().copy()
        array, tensor = batch["column_ids"].numpy(), batch.torch()["column_ids"]
        loader.close()
        del loader, batch
        gc.collect()
        np.testing.assert_array_equal(array, expected)
        del array
        np.testing.assert_array_equal(tensor.numpy(), expected)

    def test_a_closed_loader_says_so(self) -> None:
        with self.loader() as loader:
            next(loader)
        with self.assertRaisesRegex(ValueError, "closed"):
            next(loader)
        loader.close()
        self.assertEqual((loader.step, loader.state_dict()["step"]), (1, 1))
        other = self.loader()
        other.load_state_dict(loader.state_dict())
        self.assertEqual(next(other).step, 1)

    def test_a_loader_that_was_closed_before_it_began_has_a_state(self) -> None:
        for options in (
            {"first_step": 3, "workers": 3}, {"trace": "never", "trace_indices": True}, {"trace": "never", "trace_memory": True},
            {"policy": "best_effort", "workers": 3}, {"device": "host", "memory_limit": 2**30},
        ):  # fmt: skip
            loader = self.loader(**options)
            other = self.loader(**{name: value for name, value in options.items() if not name.startswith("trace")})
            loader.close()
            self.assertEqual((loader.step, loader.state_dict()["step"]), (other.step, other.step))
            with self.assertRaisesRegex(ValueError, "closed"):
                next(loader)
            self.assertFalse(os.path.exists("never"))
            other.load_state_dict(loader.state_dict())
            steps = {batch.step for batch in other.take(9)}
            if "policy" not in options:
                self.assertEqual(steps, set(range(loader.step, loader.step + 9)))
        again = self.loader(stage="eval", dataset="shop/churn/val")
        self.assertGreater(sum(1 for _ in again), 1)
        iter(again)
        again.close()
        self.assertEqual((again.step, again.state_dict()["step"]), (0, 0))

    def test_a_loader_is_not_copied(self) -> None:
        for attempt in pickle.dumps, copy.copy, copy.deepcopy:
            with self.assertRaisesRegex(TypeError, "make one in each process"):
                attempt(self.loader())


class Resuming(LoaderTest):
    @settings(max_examples=12)
    @given(st.integers(0, 20), st.integers(1, 3), st.integers(1, 3), st.sampled_from(["json", "pickle", "cbor"]))
    def test_every_split_goes_on(self, split: int, before: int, after: int, notation: str) -> None:
        whole = [batch.digest for batch in self.loader(steps=20)]
        with self.loader(steps=20, workers=before) as first:
            taken = [batch.digest for batch in first.take(split)]
            state = first.state_dict()
        self.assertEqual(state["step"], split)
        state = through(notation, state)
        with self.loader(steps=20, workers=after) as second:
            second.load_state_dict(state)
            self.assertEqual(second.step, split)
            self.assertEqual(taken + [batch.digest for batch in second], whole)

    def test_torch_saves_the_state(self) -> None:
        import torch

        loader = self.loader()
        skip(loader, 3)
        torch.save({"data": loader.state_dict()}, "state.pt")
        again = self.loader()
        again.load_state_dict(torch.load("state.pt")["data"])
        self.assertEqual(next(again).step, 3)

    def test_the_state_after_any_batch_that_was_taken(self) -> None:
        """For loops that read ahead themselves."""
        for options in {}, {"device": "host"}, {"dataset": None, "workers": 2}:
            loader = self.loader(steps=20, **options)
            ahead = [next(loader).copy() if "device" not in options else next(loader) for _ in range(4)]
            state = loader.state_dict(after=ahead[1])
            self.assertEqual((state["step"], loader.step), (2, 4))
            del ahead
            again = self.loader(steps=20, **options)
            again.load_state_dict(state)
            self.assertEqual([batch.step for batch in again], list(range(2, 20)))
            self.assertEqual(next(loader).step, 4)
            for wrong in 5, -1:
                with self.assertRaisesRegex(ValueError, "not among those that were taken: 0 to 4"):
                    loader.state_dict(after=wrong)
        with self.assertRaisesRegex(ValueError, "best effort"):
            self.loader(policy="best_effort").state_dict(after=0)

    def test_a_loader_with_a_state_may_be_forked(self) -> None:
        first, second = self.loader(), self.loader()
        skip(first, 3)
        second.load_state_dict(first.state_dict())
        self.assertEqual(status_of_child(lambda: next(second).step == 3), 0)

    def test_a_state_before_the_first_batch(self) -> None:
        loader = self.loader(first_step=5)
        self.assertEqual((loader.step, loader.state_dict()["step"]), (5, 5))
        again = self.loader()
        again.load_state_dict(loader.state_dict())
        self.assertEqual(next(again).step, 5)

    def test_another_world_size(self) -> None:
        loader = self.loader()
        skip(loader, 4)
        other = self.loader(rank=1, world_size=2)
        other.load_state_dict(loader.state_dict())
        self.assertEqual(next(other).step, 4)

    def test_a_state_in_the_middle_of_an_evaluation(self) -> None:
        options = {"stage": "eval", "dataset": "shop/churn/val", "manifest": self.changed_manifest(global_batch_size=2)}
        whole = [batch.digest for batch in self.loader(**options)]
        first, second = self.loader(**options), self.loader(**options)
        skip(first, 2)
        second.load_state_dict(first.state_dict())
        self.assertEqual([batch.digest for batch in second], whole[2:])
        self.assertEqual([batch.digest for batch in second], whole)

    def test_other_runs_are_refused(self) -> None:
        state = self.loader().state_dict()
        other = self.loader(manifest=self.changed_manifest(global_batch_size=8, seed=4))
        with self.assertRaises(weir.errors.CheckpointMismatch):
            other.load_state_dict(state)
        self.assertEqual(next(other).step, 0)
        for wrong in ({}, {"version": 2}, {"version": 1}, {**state, "checkpoint": "?"}, {**state, "checkpoint": b""},
                      None, 3, [], "x"):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, "state"):
                other.load_state_dict(wrong)
        with self.assertRaises(weir.errors.CborInvalid):
            other.load_state_dict({**state, "checkpoint": "AAAA"})


class Traces(LoaderTest):
    def test_a_trace_is_the_programs(self) -> None:
        with open("m.json", "w", encoding="utf-8") as file:
            json.dump(self.changed_manifest(global_batch_size=8), file)
        run_weir("run", "--store", self.store, "--manifest", "m.json", "--dataset", TRAIN, "--steps", "9", "--trace", "c")
        with self.loader(steps=9, trace="p") as loader:
            kept = [batch.step for batch in loader]
        self.assertEqual(kept, list(range(9)))
        self.assertEqual(Path("p").read_bytes(), Path("c").read_bytes())
        report = weir.replay("p", stores=[self.store])
        self.assertEqual((report.steps, report.checked_digests, report.is_complete), (9, 9, True))

    def test_memory_is_recorded(self) -> None:
        def record(name: str, workers: int) -> weir.Loader:
            return self.loader(steps=9, trace=name, with_digests=True, trace_memory=True, trace_contents=True, workers=workers)

        with record("m", 1) as first:
            skip(first, 4)
            state = first.state_dict()
            next(first)
            self.assertEqual(first.state_dict(after=3)["step"], state["step"])
        with record("m", 2) as second:
            second.load_state_dict(state)
            skip(second, 6)
        report = weir.replay("m", stores=self.store)
        self.assertEqual((report.steps, report.memory_records, report.checked_digests), (9, 9, 9))
        with self.assertRaisesRegex(weir.errors.ContractViolation, "trace_memory belongs to a trace"):
            self.loader(trace_memory=True)

    def test_a_trace_goes_on_with_its_run(self) -> None:
        skip(self.loader(steps=9, trace="whole"), 10)
        with self.loader(steps=9, trace="parts") as first:
            skip(first, 4)
            state = first.state_dict()
            held = next(first)  # is recorded, but behind the state: cut again
        with self.loader(steps=9, trace="parts", workers=2) as second:
            second.load_state_dict(state)
            self.assertEqual([batch.step for batch in second], [4, 5, 6, 7, 8])
        del held
        self.assertEqual(weir.replay("parts", stores=self.store).checked_digests, 9)
        self.assertIn('"differs": false', run_weir("diff", "whole", "parts", "--json"))
        with self.assertRaises(weir.errors.IoError):
            next(self.loader(trace="parts"))

    def test_a_state_that_the_trace_does_not_reach_changes_nothing(self) -> None:
        loader = self.loader(steps=9, trace="short")
        skip(loader, 2)
        with self.assertRaises(weir.errors.TraceCorrupt):
            loader.load_state_dict(self.loader(first_step=7, steps=9).state_dict())
        self.assertEqual([batch.step for batch in loader], list(range(2, 9)))
        self.assertEqual(weir.replay("short", stores=self.store).steps, 9)
        with self.loader(steps=4) as early:
            skip(early, 3)
            loader.load_state_dict(early.state_dict())
        self.assertEqual([batch.step for batch in loader], list(range(3, 9)))
        self.assertEqual(weir.replay("short", stores=self.store).checked_digests, 9)

    def test_a_trace_that_fails_leaves_no_state_behind_it(self) -> None:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        loader = self.loader(trace="full")
        skip(loader, 2)
        state = loader.state_dict()
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("full") + 10, limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
        with self.assertRaises(weir.errors.IoError):
            skip(loader, 2**20)
        for attempt in loader.state_dict, loader.close:
            with self.assertRaises(weir.errors.IoError):
                attempt()
        with self.assertRaisesRegex(ValueError, "closed"):
            loader.state_dict()
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        again = self.loader(trace="full", steps=9)
        again.load_state_dict(state)
        self.assertEqual([batch.step for batch in again], list(range(2, 9)))
        self.assertEqual(weir.replay("full", stores=self.store).checked_digests, 9)

    def test_a_trace_that_cannot_be_finished_leaves_no_state_behind_it(self) -> None:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        loader = self.loader(trace="unfinished", steps=3)
        state = loader.state_dict()
        skip(loader, 3)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize("unfinished") + 10, limit[1]))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, limit)
        for attempt in loader.__next__, loader.state_dict, loader.__next__, loader.close:
            with self.assertRaises(weir.errors.IoError):
                attempt()
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        again = self.loader(trace="unfinished", steps=3)
        again.load_state_dict(state)
        skip(again, 4)
        self.assertEqual(weir.replay("unfinished", stores=self.store).checked_digests, 3)

    def test_a_trace_is_of_one_pass(self) -> None:
        loader = self.loader(stage="eval", dataset="shop/churn/val", trace="pass")
        whole = [batch.step for batch in loader]
        with self.assertRaisesRegex(ValueError, "pass is of one pass"):
            iter(loader)
        self.assertEqual(weir.replay("pass").steps, len(whole))

    def test_ranks_have_traces_of_their_own(self) -> None:
        for rank in range(2):
            skip(self.loader(steps=3, trace="ranks", rank=rank, world_size=2), 4)
        self.assertIn("3 steps", run_weir("merge", "ranks.rank0", "ranks.rank1"))


def through(notation: str, state: dict[str, Any]) -> dict[str, Any]:
    """A state written and read again."""
    if notation == "json":
        return json.loads(json.dumps(state))
    if notation == "pickle":
        return pickle.loads(pickle.dumps(state))
    from reference import cbor

    return cbor.decode(cbor.encode(state))


if __name__ == "__main__":
    unittest.main()
