"""Training steps of several lengths: shapes, order, resuming at another world size, traces, and weir.Sampler."""

import json
import unittest
from itertools import islice
from typing import Any

import weir
from tests.python.support import TRAIN, LoaderTest, run_weir

LENGTHS = [32, 128, 64]


class Lengths(LoaderTest):
    def manifest_of(self, **data: Any) -> dict[str, Any]:
        batch = {"sequence_length": LENGTHS, "max_rows": 32, "max_hops": 2}
        return self.changed_manifest(global_batch_size=4, batch=batch, data=data)

    def test_every_step_has_its_length_and_as_many_cells(self) -> None:
        for workers in (1, 3):
            loader = self.loader(manifest=self.manifest_of(), workers=workers)
            for step, batch in enumerate(loader.take(12)):
                length = LENGTHS[step % 3]
                shape = (4 * 128 // length, length)
                self.assertEqual((batch.sequence_count, batch.sequence_length), shape)
                self.assertEqual(batch["column_ids"].shape, shape)
                alone = weir.batch(self.store, loader.manifest, TRAIN, step=step)
                self.assertEqual((batch.digest, batch.cursor), (alone.digest, alone.cursor))

    def test_a_sequence_is_that_of_a_manifest_with_its_length_alone(self) -> None:
        batch = weir.batch(self.store, self.manifest_of(), TRAIN, step=2)  # after batches of 16 and 4
        alone = self.manifest_of()
        alone["batch"]["sequence_length"] = 64
        parts = [weir.batch(self.store, alone, TRAIN, cursor=(0, place)) for place in (20, 24)]
        self.assertEqual(list(batch.sample_digests), [digest for part in parts for digest in part.sample_digests])

    def test_evaluation_has_the_longest(self) -> None:
        loader = self.loader(manifest=self.manifest_of(), stage="eval", dataset="shop/churn/val", steps=3)
        self.assertEqual({(batch.sequence_count, batch.sequence_length) for batch in loader}, {(4, 128)})

    def test_a_run_resumes_at_another_world_size(self) -> None:
        for data in ({}, {"epoch_boundary": "stream"}, {"drop_last": True}):
            manifest = self.manifest_of(**data)
            whole = [list(batch.sample_digests) for batch in self.loader(manifest=manifest).take(30)]
            first = self.loader(manifest=manifest, rank=0, world_size=2)
            for _ in first.take(7):
                pass
            state = first.state_dict()
            ranks = []
            for rank in range(4):
                loader = self.loader(manifest=manifest, rank=rank, world_size=4)
                loader.load_state_dict(state)
                ranks.append([list(batch.sample_digests) for batch in loader.take(23)])
            self.assertEqual([sum(parts, []) for parts in zip(*ranks)], whole[7:], data)

    def test_a_trace_is_replayed_and_merged(self) -> None:
        manifest = self.folder / "lengths.manifest.json"
        manifest.write_text(json.dumps(self.manifest_of()))
        for rank in range(2):
            run_weir("run", "--store", self.store, "--manifest", str(manifest), "--steps", "9", "--rank", str(rank),
                     "--world-size", "2", "--trace", f"{rank}.trace")
        run_weir("run", "--store", self.store, "--manifest", str(manifest), "--steps", "9", "--trace", "whole.trace")
        ranks = ["0.trace.rank0", "1.trace.rank1"]
        for command in (["replay", ranks[0]], ["merge", *ranks, "--single", "whole.trace"]):
            report = json.loads(run_weir(*command, "--store", self.store, "--json"))
            self.assertEqual((report.get("equal"), report.get("steps")), (True, 9), report)

    def test_a_sampler_counts_its_steps(self) -> None:
        for data in ({}, {"drop_last": True}, {"epoch_boundary": "stream"}):
            for rank in range(2):
                sampler = weir.Sampler(self.manifest_of(**data), TRAIN, rank=rank, world_size=2)
                step, batches = 0, sampler.batches()
                for epoch in range(3):
                    self.assertEqual(sampler.first_step_of(epoch), step)
                    steps, samples, given = sampler.steps_in(epoch), len(sampler), len(batches)
                    lists = list(batches)
                    self.assertEqual((len(lists), sum(map(len, lists))), (given, samples), (data, epoch))
                    self.assertLessEqual(steps - given, 1)
                    step += steps
                for number in (0, 1, 2, 3, 100, 1001):
                    epoch, position = sampler.cursor_of(number)
                    self.assertEqual(sampler.step(epoch, position)["sequence_length"], LENGTHS[
                        (number if sampler._is_stream else number % sampler.steps_in(0)) % 3])

    def test_a_sampler_resumes_between_and_inside_steps(self) -> None:
        for data in ({}, {"epoch_boundary": "stream"}):
            for taken in (0, 1, 9, 16, 20, 25, 70):
                whole = list(weir.Sampler(self.manifest_of(**data), TRAIN, rank=0, world_size=1))
                sampler = weir.Sampler(self.manifest_of(**data), TRAIN, rank=0, world_size=1)
                list(islice(sampler, taken))
                other = weir.Sampler(self.manifest_of(**data), TRAIN, rank=0, world_size=1)
                other.load_state_dict(sampler.state_dict())
                self.assertEqual(list(other), whole[taken:])
            with self.assertRaisesRegex(ValueError, "no step begins"):
                other.load_state_dict({**sampler.state_dict(), "position": 3, "given": 0})


if __name__ == "__main__":
    unittest.main()
