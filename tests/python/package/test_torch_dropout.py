"""Dropout through rapt.torch on CPU tensors: the pairs that a seed drops, results, gradients."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")

import dropout_reference  # noqa: E402
from rapt._torch_dropout import kept_pairs  # noqa: E402
from rapt.torch import (  # noqa: E402
    flash_attn_func,
    flash_attn_varlen_func,
    scaled_dot_product_attention,
)

P = 77 / 256


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def leaves(*sizes):
    return [torch.randn(size).requires_grad_() for size in sizes]


def usual():
    return leaves((2, 40, 4, 8), (2, 50, 2, 8), (2, 50, 2, 8))


def drawn_after(manual_seed):
    """The seed that a call draws after torch.manual_seed()."""
    torch.manual_seed(manual_seed)
    drawn = torch.randint(2**63 - 1, (2,), dtype=torch.int64)
    torch.manual_seed(manual_seed)
    return drawn


def plainly(q, k, v, kept, visible=None):
    """(batch, seq, head, dim), from PyTorch's own operations."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], dim=2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) * q.shape[3] ** -0.5
    if visible is not None:
        scores = scores.masked_fill(~visible, -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhij,bjhd->bihd", torch.where(kept, weights / (1 - P), 0), v)


def test_pairs_are_those_of_the_reference():
    drawn = drawn_after(3)
    got = kept_pairs(drawn, 0.3, 2, 3, 70, 90)
    for b in range(2):
        for h in range(3):
            want = dropout_reference.kept(drawn.tolist(), 0.3, b, h, 70, 90)
            np.testing.assert_array_equal(got[b, h].numpy(), want)


def test_the_operator_knows_dropout_by_both_names():
    q, k, v = usual()
    seed = drawn_after(3)
    want = torch.ops.rapt.attention(q, k, v, dropout_p=P, seed=seed)
    got = torch.ops.rapt.attention(q, k, v, dropout=P, seed=seed)
    assert torch.equal(got, want)
    for one, other in zip(*(torch.autograd.grad(x.sum(), (q, k, v)) for x in (got, want))):
        assert torch.equal(one, other)


def test_results_and_gradients_are_those_of_the_pairs_that_are_kept():
    tensors = usual()
    kept = kept_pairs(drawn_after(5), P, 2, 4, 40, 50)
    visible = torch.ones(40, 50, dtype=torch.bool).tril(10)
    got = flash_attn_func(*tensors, dropout_p=P, causal=True)
    want = plainly(*tensors, kept, visible)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    weights = torch.randn(got.shape)
    for one, other in zip(
        torch.autograd.grad((got * weights).sum(), tensors),
        torch.autograd.grad((want * weights).sum(), tensors),
    ):
        torch.testing.assert_close(one, other, rtol=0, atol=3e-5)


def test_pytorchs_function_drops_out_too():
    q, k, v = (x.transpose(1, 2) for x in leaves(*[(2, 40, 4, 8)] * 3))
    kept = kept_pairs(drawn_after(6), P, 2, 4, 40, 40)
    got = scaled_dot_product_attention(q, k, v, dropout_p=P)
    want = plainly(*(x.transpose(1, 2) for x in (q, k, v)), kept).transpose(1, 2)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    assert not torch.equal(got, scaled_dot_product_attention(q, k, v, dropout_p=P)), "another seed"
    torch.manual_seed(6)
    assert torch.equal(got, scaled_dot_product_attention(q, k, v, dropout_p=P)), "the same one"


def test_attn_probs_tell_what_was_dropped():
    q, k, v = usual()
    kept = kept_pairs(drawn_after(7), P, 2, 4, 40, 50)
    out, lse, signed = flash_attn_func(q, k, v, dropout_p=P, causal=True, return_attn_probs=True)
    visible = torch.ones(40, 50, dtype=torch.bool).tril(10)
    assert signed.shape == (2, 4, 40, 50) and lse.shape == (2, 4, 40)
    assert torch.equal((signed >= 0) | ~visible, kept | ~visible)
    assert (signed[..., ~visible] == 0).all()
    weights = signed.abs() / signed.abs().sum(dim=-1, keepdim=True)
    wide = v.repeat_interleave(2, dim=2)
    from_probs = torch.einsum("bhij,bjhd->bihd", torch.where(signed > 0, weights / (1 - P), 0), wide)
    torch.testing.assert_close(from_probs, out, rtol=0, atol=1e-5)
    assert flash_attn_func(q, k, v, return_attn_probs=True)[2] is None


def test_attn_probs_of_no_keys_and_no_queries_are_zeros():
    q, k, v = usual()
    options = {"dropout_p": P, "return_attn_probs": True}
    out, _, signed = flash_attn_func(q, k[:, :0], v[:, :0], **options)
    assert signed.shape == (2, 4, 40, 0) and not out.any()
    q, k, v = leaves((9, 4, 8), (7, 2, 8), (7, 2, 8))
    none, q_starts, kv_starts = (
        torch.tensor(starts, dtype=torch.int32) for starts in ([0, 0, 0], [0, 2, 9], [0, 3, 7])
    )
    for longest in (0, 3):
        out, _, signed = flash_attn_varlen_func(
            q, k[:0], v[:0], q_starts, none, 7, longest, **options
        )
        assert signed.shape == (2, 4, 7, longest) and not signed.any() and not out.any()
        signed = flash_attn_varlen_func(q[:0], k, v, none, kv_starts, longest, 4, **options)[2]
        assert signed.shape == (2, 4, longest, 4) and not signed.any()


def test_packed_sequences_have_their_own_pairs():
    q, k, v = leaves((60, 4, 8), (70, 2, 8), (70, 2, 8))
    q_starts, kv_starts = (torch.tensor(x, dtype=torch.int32) for x in ([0, 20, 60], [0, 45, 70]))
    kept = kept_pairs(drawn_after(8), P, 2, 4, 40, 45)
    out, _, signed = flash_attn_varlen_func(
        q, k, v, q_starts, kv_starts, 40, 45, dropout_p=P, return_attn_probs=True
    )
    for b, (queries, keys) in enumerate([((0, 20), (0, 45)), ((20, 60), (45, 70))]):
        of_q, of_kv = slice(*queries), slice(*keys)
        q_len, kv_len = queries[1] - queries[0], keys[1] - keys[0]
        mine = kept[b, :, :q_len, :kv_len]
        want = plainly(q[None, of_q], k[None, of_kv], v[None, of_kv], mine[None])
        torch.testing.assert_close(out[None, of_q], want, rtol=0, atol=1e-5)
        assert torch.equal(signed[b, :, :q_len, :kv_len] >= 0, mine)
        assert (signed[b, :, q_len:] == 0).all() and (signed[b, :, :, kv_len:] == 0).all()


def test_a_compiled_program_draws_anew_and_keeps_its_gradients():
    def step(q, k, v):
        return flash_attn_func(q, k, v, dropout_p=P)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    q, k, v = usual()
    first, second = compiled(q, k, v), compiled(q, k, v)
    assert not torch.equal(first, second)
    kept = kept_pairs(drawn_after(9), P, 2, 4, 40, 50)
    want = torch.autograd.grad(plainly(q, k, v, kept).sum(), (q, k, v))
    got = torch.autograd.grad(compiled(q, k, v).sum(), (q, k, v))
    for one, other in zip(got, want):
        torch.testing.assert_close(one, other, rtol=0, atol=3e-5)


@pytest.mark.parametrize("p", [-0.5, 1.5, math.nan])
def test_what_is_no_probability_is_told(p):
    q, k, v = usual()
    with pytest.raises(ValueError, match=f"dropout_p is {p}; it is a probability"):
        flash_attn_func(q, k, v, dropout_p=p)


@pytest.mark.parametrize("p", [0.001, 0.999, 1.0])
def test_probabilities_beyond_its_steps_are_told(p):
    q, k, v = usual()
    with pytest.raises(NotImplementedError, match=f"dropout_p is {p}; rapt drops pairs with"):
        flash_attn_func(q, k, v, dropout_p=p)
