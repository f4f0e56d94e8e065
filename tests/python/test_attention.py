"""weir.torch's attention: equal to dense attention in float64, forward and backward, on random batches and on real ones;
masks that say the same; the same bits every time; and what is refused, by name."""

import itertools
import unittest
from typing import Any

import torch
import weir
import weir.torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import attention as reference
from tests.python.support import TRAIN, ShopTest
from tests.support.made_batches import dense_attention, made_batch, sees
from weir import _attention, _weir

ATTENTIONS = {
    "column": weir.torch.column_attention, "outbound": weir.torch.outbound_attention, "inbound": weir.torch.inbound_attention,
}  # fmt: skip
# By type: how far from float64, of numbers around 1.
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.float16: 8e-3, torch.bfloat16: 6e-2}


def heads(batch: Any, count: int = 2, size: int = 16, dtype: torch.dtype = torch.float32, seed: int = 0) -> list[torch.Tensor]:
    """q, k, v and o's gradient: [B, S, H, D] in memory, as projections give them."""
    sequences, length = batch["is_padding"].shape
    generator = torch.Generator().manual_seed(seed)
    made = [torch.randn(sequences, length, count, size, generator=generator).to(dtype).transpose(1, 2) for _ in range(4)]
    return [*(tensor.requires_grad_() for tensor in made[:3]), made[3]]


class Attention(unittest.TestCase):
    def check(self, batch: Any, dtype: torch.dtype, **options: int) -> None:
        for pattern, attention in ATTENTIONS.items():
            *given, g = heads(batch, dtype=dtype, **options)
            exact = [tensor.detach().double().requires_grad_() for tensor in given]
            mask = sees(batch, pattern)
            found, right = attention(*given, batch), dense_attention(*exact, mask)
            pairs = zip((found, *torch.autograd.grad(found, given, g)), (right, *torch.autograd.grad(right, exact, g.double())))
            self.assertEqual(found.dtype, dtype)
            for a, b in pairs:
                if b.numel():
                    far = float((a.double() - b).abs().max())
                    self.assertLessEqual(far, TOLERANCES[dtype] * (1 + float(b.abs().max())), (pattern, dtype))
            blind = ~mask.any(-1)
            self.assertTrue(bool((found.masked_select(blind[..., None].expand_as(found)) == 0).all()), pattern)

    @settings(max_examples=30)
    @given(
        st.integers(0, 3), st.integers(1, 130), st.integers(1, 40), st.integers(1, 20), st.integers(1, 40),
        st.floats(0, 1), st.sampled_from(list(TOLERANCES)), st.integers(0, 1000),
    )  # fmt: skip
    def test_random_batches(self, b: int, s: int, r: int, columns: int, widest: int, density: float, dtype: Any, seed: int) -> None:
        batch = made_batch(b, s, r, columns=columns, widest=widest, density=density, seed=seed)
        self.check(batch, dtype, seed=seed)

    @settings(max_examples=10)
    @given(st.integers(1, 20), st.integers(1, 8), st.integers(1, 5), st.floats(0, 1), st.integers(0, 1000))
    def test_the_reference(self, length: int, rows: int, columns: int, density: float, seed: int) -> None:
        batch = made_batch(2, length, rows, columns=columns, widest=5, density=density, seed=seed)
        lists = {name: (tensor.int() & 0xFFFF if name == "seq_row_ids" else tensor).tolist() for name, tensor in batch.items()}
        for pattern, attention in ATTENTIONS.items():
            *given, g = heads(batch, count=1, dtype=torch.float64, seed=seed)
            o = attention(*given, batch)
            found = [o, *torch.autograd.grad(o, given, g)]
            for b in range(2):
                right = reference.attention(lists, b, pattern, *(tensor[b, 0].tolist() for tensor in (*given, g)))
                for a, expected in zip(found, right):
                    self.assertTrue(torch.allclose(a[b, 0], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12), pattern)

    def test_hubs_and_long_columns(self) -> None:
        hub = made_batch(2, 300, 120, columns=2, widest=3, density=0.01, is_full=True)
        hub["fk_adj"][:, 1:, 0] = True  # everybody's parent
        self.check(hub, torch.float32, size=32)
        self.check(made_batch(1, 260, 3, columns=1, widest=200, density=0.5), torch.float32, size=48)

    def test_one_cell_and_none(self) -> None:
        self.check(made_batch(1, 1, 1, density=1), torch.float32)
        empty = made_batch(2, 20, 4)
        empty["is_padding"][:] = True
        empty["col_perm"] = made_batch(2, 20, 4, columns=1)["col_perm"]
        self.check(empty, torch.float64)

    def test_gradients_in_float64(self) -> None:
        batch = made_batch(2, 9, 4, density=0.4)
        for attention in ATTENTIONS.values():
            given = heads(batch, count=1, dtype=torch.float64)[:3]
            self.assertTrue(torch.autograd.gradcheck(lambda q, k, v, f=attention: f(q, k, v, batch), given))

    def test_strides(self) -> None:
        batch = made_batch(2, 50, 12)
        q, k, v, _ = heads(batch)
        expected = weir.torch.column_attention(q, k, v, batch)
        fused = torch.stack([q, k, v], 2).detach()  # [B, H, 3, S, D]
        self.assertTrue(torch.equal(weir.torch.column_attention(*fused.unbind(2), batch), expected))
        spread = [torch.stack([t, t], -1).detach()[..., 0] for t in (q, k, v)]  # the last stride is 2
        self.assertTrue(torch.equal(weir.torch.column_attention(*spread, batch), expected))
        weir.torch.column_attention(q, k, v, batch).sum().backward()  # a gradient without strides

    def test_packed(self) -> None:
        """Bit for bit as three tensors, forward and backward."""
        batch = made_batch(2, 50, 12, density=0.3)
        for pattern, scale, dtype in itertools.product(ATTENTIONS, (None, 0.3, 0), (torch.float32, torch.bfloat16)):
            q, k, v, g = heads(batch, dtype=dtype)
            qkv = torch.stack([tensor.detach().transpose(1, 2) for tensor in (q, k, v)], 2).requires_grad_()
            expected = ATTENTIONS[pattern](q, k, v, batch, scale=scale)
            found = weir.torch.packed_attention(pattern, qkv, batch, scale=scale)
            self.assertTrue(torch.equal(found.transpose(1, 2), expected), pattern)
            (made,) = torch.autograd.grad(found, qkv, g.transpose(1, 2))
            apart = torch.autograd.grad(expected, (q, k, v), g)
            self.assertTrue(all(torch.equal(made[:, :, i].transpose(1, 2), part) for i, part in enumerate(apart)), pattern)
        lists = weir.torch.attention_lists(batch)
        self.assertTrue(torch.equal(weir.torch.packed_attention("inbound", qkv, dict(batch), scale=0, lists=lists), found))
        qkv = qkv.detach().double().requires_grad_()
        part = {name: tensor[:1, :9] for name, tensor in made_batch(1, 9, 4, density=0.4).items() if name != "fk_adj"}
        part["fk_adj"] = made_batch(1, 9, 4, density=0.4)["fk_adj"]
        self.assertTrue(torch.autograd.gradcheck(lambda x: weir.torch.packed_attention("column", x, part), qkv[:1, :9]))
        with self.assertRaisesRegex(ValueError, "^the patterns are column, outbound, inbound, not 'row'"):
            weir.torch.packed_attention("row", qkv, batch)
        with self.assertRaisesRegex(ValueError, r"^qkv is \(2, 2, 50, 16\), not a tensor of \[B, S, 3, H, D\]"):
            weir.torch.packed_attention("column", q, batch)
        with self.assertRaisesRegex(ValueError, "^qkv is list"):
            weir.torch.packed_attention("column", [1.0], batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(weir.torch.packed_attention("column", qkv.float(), batch).dtype, torch.bfloat16)

    def test_the_scale(self) -> None:
        batch = made_batch(1, 30, 5)
        q, k, v, _ = heads(batch)
        a, b = (weir.torch.outbound_attention(x, k, v, batch, scale=s) for x, s in ((q, 0.5), (q * 2, None)))
        self.assertLess(float((a - b).abs().max().detach()), 1e-6)
        a, b = (weir.torch.outbound_attention(x, k, v, batch, scale=s) for x, s in ((q, 0), (torch.zeros_like(q), None)))
        self.assertTrue(torch.equal(a, b), "everything that is seen counts the same")

    def test_the_same_bits_with_any_number_of_threads(self) -> None:
        batch = made_batch(3, 120, 30, widest=5)
        kept = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, kept)
        for pattern, attention in ATTENTIONS.items():
            results = []
            for threads in (1, 2, 3, 1):
                torch.set_num_threads(threads)
                q, k, v, g = heads(batch)
                o = attention(q, k, v, weir.torch.Tensors(batch))
                results.append([o, *torch.autograd.grad(o, (q, k, v), g)])
            for other in results[1:]:
                self.assertTrue(all(torch.equal(a, b) for a, b in zip(results[0], other)), pattern)

    def test_lists_follow_the_tensors(self) -> None:
        batch = made_batch(2, 40, 10, density=0)
        q, k, v, _ = heads(batch)
        for attention in ATTENTIONS.values():
            attention(q, k, v, batch)
        self.assertTrue(torch.equal(weir.torch.inbound_attention(q, k, v, batch), torch.zeros_like(q)))
        batch["fk_adj"][:, 1:, 0] = True  # in place
        self.check(batch, torch.float32)
        batch["fk_adj"] = torch.zeros_like(batch["fk_adj"])  # another tensor
        self.check(batch, torch.float32)
        self.assertTrue(torch.equal(weir.torch.inbound_attention(q, k, v, dict(batch)), torch.zeros_like(q)))

    def test_lists_that_are_given(self) -> None:
        batch, other = made_batch(2, 40, 10, density=0.3), made_batch(2, 40, 9)
        q, k, v, _ = heads(batch)
        lists = weir.torch.attention_lists(batch)
        for attention in ATTENTIONS.values():
            found = attention(q, k, v, dict(batch), lists=lists)
            self.assertTrue(torch.equal(found, attention(q, k, v, batch)))
        for wrong in (weir.torch.attention_lists(other), lists.long(), lists[:-1], torch.stack([lists, lists], 1)[:, 0]):
            with self.assertRaisesRegex(ValueError, "^lists is torch.int.* that attention_lists makes of this batch"):
                weir.torch.column_attention(q, k, v, batch, lists=wrong)
        with self.assertRaisesRegex(TypeError, "^lists is not a tensor but list"):
            weir.torch.column_attention(q, k, v, batch, lists=[1])
        with self.assertRaisesRegex(ValueError, "the batch has no tensor 'fk_adj'"):
            weir.torch.attention_lists({name: tensor for name, tensor in batch.items() if name != "fk_adj"})

    def test_sizes_are_those_of_c(self) -> None:
        for b, s, r in ((0, 1, 0), (1, 1, 1), (3, 64, 20), (32, 1024, 256), (4, 8192, 4096), (1, 65536, 65535), (2, 17, 300)):
            self.assertEqual(4 * _attention._words(b, s, r), _weir.Attention._lists_size(b, s, r), (b, s, r))

    def test_autocast(self) -> None:
        batch = made_batch(1, 20, 4)
        q, k, v, _ = heads(batch)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(weir.torch.column_attention(q, k, v, batch).dtype, torch.bfloat16)
            q, k, v, _ = heads(batch, dtype=torch.float64)
            self.assertEqual(weir.torch.column_attention(q, k, v, batch).dtype, torch.float64)


class Masks(unittest.TestCase):
    def test_masks_are_the_lists(self) -> None:
        for seed in range(4):
            batch = made_batch(2, 70, 15, density=0.2, seed=seed)
            masks = weir.torch.masks(batch)
            self.assertEqual(list(masks), ["column", "outbound", "inbound"])
            b, i = torch.arange(2)[:, None, None], torch.arange(70)
            for pattern, mask in masks.items():
                self.assertTrue(torch.equal(mask, sees(batch, pattern)), pattern)
                by_function = masks.mask_mod(pattern)(b, 0, i[None, :, None], i[None, None, :])
                self.assertTrue(torch.equal(mask[:, 0], by_function), pattern)
        with self.assertRaisesRegex(KeyError, "column, outbound, inbound"):
            masks["row"]


class RealBatches(ShopTest):
    def test_a_batch_of_the_shop(self) -> None:
        data = weir.torch.Dataset(
            self.store, self.changed_manifest(global_batch_size=4, batch={"sequence_length": 192, "max_rows": 48}),
            dataset=TRAIN, steps=2, copy=True,
        )  # fmt: skip
        for batch in data:
            Attention.check(Attention(), batch, torch.float32)
            for pattern, mask in weir.torch.masks(batch).items():
                self.assertTrue(torch.equal(mask, sees(batch, pattern)), pattern)


class Refusals(unittest.TestCase):
    def setUp(self) -> None:
        self.batch = made_batch(2, 30, 6)
        *self.given, _ = heads(self.batch)

    def refuse(self, error: type[Exception], text: str, *, batch: Any = None, **changes: Any) -> None:
        given = dict(zip("qkv", self.given)) | changes
        with self.subTest(text), self.assertRaisesRegex(error, text):
            weir.torch.column_attention(given["q"], given["k"], given["v"], self.batch if batch is None else batch)

    def test_q_k_and_v(self) -> None:
        q, k, _ = self.given
        self.refuse(TypeError, "^k is not a tensor", k=[1.0])
        self.refuse(ValueError, r"^v has the shape \(2, 2, 30\)", v=k[..., 0])
        self.refuse(ValueError, "^k has the shape", k=k[:, :1])
        self.refuse(ValueError, "^q is of 1 sequences of 30 cells, but the batch has 2 of 30", **{n: q[:1] for n in "qkv"})
        self.refuse(ValueError, "^q is of 2 sequences of 29 cells", **{n: q[:, :, :29] for n in "qkv"})
        self.refuse(TypeError, "^v is torch.float16", v=q.half())
        self.refuse(TypeError, "^q is torch.int32", **{n: q.int() for n in "qkv"})
        self.refuse(ValueError, "^heads of 12", **{n: q[..., :12] for n in "qkv"})
        self.refuse(ValueError, "^q is on meta, but the batch is on cpu", **{n: q.to("meta") for n in "qkv"})

    def test_the_batch(self) -> None:
        for name in _attention.TENSORS:
            self.refuse(ValueError, f"no tensor '{name}'", batch={k: v for k, v in self.batch.items() if k != name})
        arrays = {name: tensor.numpy() for name, tensor in self.batch.items()}
        self.refuse(TypeError, r"seq_row_ids is not a tensor of torch but ndarray: give batch.torch\(\)", batch=arrays)
        self.refuse(TypeError, "fk_adj is torch.float32", batch={**self.batch, "fk_adj": self.batch["fk_adj"].float()})
        self.refuse(ValueError, "not of one batch", batch={**self.batch, "fk_adj": self.batch["fk_adj"][:1]})
        self.refuse(ValueError, "not of one batch", batch={**self.batch, "col_perm": self.batch["col_perm"][:, :20]})
        self.refuse(ValueError, r"not \[B, S\]", batch={**self.batch, "seq_row_ids": self.batch["seq_row_ids"][0]})

    def test_what_the_tensors_hold(self) -> None:
        rows = self.batch["seq_row_ids"].clone()
        rows[0, 0] = 5
        self.refuse(weir.errors.ContractViolation, "seq_row_ids is not a batch's", batch={**self.batch, "seq_row_ids": rows})
        order = self.batch["col_perm"].clone()
        order[0, 0] = order[0, 1]
        self.refuse(weir.errors.ContractViolation, "col_perm is not a batch's", batch={**self.batch, "col_perm": order})
        padding = self.batch["is_padding"].clone()
        padding[0, 3] = True
        self.refuse(weir.errors.ContractViolation, "is_padding is not a batch's", batch={**self.batch, "is_padding": padding})
        for name, kind, far in itertools.product(("seq_row_ids", "col_perm"), (torch.int32, torch.int64), (0x10000, -0x10000)):
            wide = self.batch[name].to(kind) & 0xFFFF
            right = weir.torch.column_attention(*self.given, {**self.batch, name: wide})
            self.assertTrue(torch.equal(right, weir.torch.column_attention(*self.given, self.batch)))
            wide[0, 0] += far  # the last 16 bits are still right
            self.refuse(weir.errors.ContractViolation, f"{name} is not a batch's", batch={**self.batch, name: wide})
        few = {**self.batch, "fk_adj": self.batch["fk_adj"][:, :2, :2]}
        self.refuse(weir.errors.ContractViolation, "seq_row_ids.*fk_adj's size", batch=few)


if __name__ == "__main__":
    unittest.main()
