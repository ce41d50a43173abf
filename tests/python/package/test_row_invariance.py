"""row_invariant: a token has the same bits however its sequence is cut, paged and packed."""

import numpy as np
import pytest

import rapt

LENGTH, HEADS, KV_HEADS = 333, 4, 2
KINDS = {
    "causal": {"causal": True},
    "window": {"causal": True, "window": 70},
    "first keys": {"causal": True, "window": 70, "first_keys": 3},
    "scores": {"causal": True, "softcap": 20.0, "alibi": np.float32([0.5, 0.25, 0.1, 0.05])},
}


def rows(rng, dtype, count, heads, dim):
    return rng.standard_normal((1, count, heads, dim)).astype(dtype)


def inputs(dtype, dim, count=LENGTH):
    rng = np.random.default_rng(8)
    return [rows(rng, dtype, count, heads, dim) for heads in (HEADS, KV_HEADS, KV_HEADS)]


def attend(q, k, v, **options):
    out, lse = rapt.attention(q, k, v, row_invariant=True, return_lse=True, **options)
    return out, lse.swapaxes(-1, -2)  # (batch, seq, head)


def assert_same_bits(one, other):
    for a, b in zip(one, other):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype, dim", [(np.float32, 64), (np.float16, 40), (np.float32, 600)])
def test_chunks_of_a_prefill_and_decode_have_the_bits_of_the_whole(kind, dtype, dim):
    q, k, v = inputs(dtype, dim)
    whole = attend(q, k, v, **KINDS[kind])
    for chunk in (1, 7, 64, 100):
        parts = []
        for begin in range(0, LENGTH, chunk):
            end = min(begin + chunk, LENGTH)
            parts.append(attend(q[:, begin:end], k[:, :end], v[:, :end], **KINDS[kind]))
        assert_same_bits([np.concatenate(x, axis=1) for x in zip(*parts)], whole)


def test_neither_pages_nor_packing_nor_stored_keys_beyond_change_bits():
    q, k, v = inputs(np.float32, 64)
    whole = attend(q, k, v, causal=True)
    for page in (1, 16, 64, 256):
        pages = -(-LENGTH // page)
        table = np.random.default_rng(page).permutation(pages + 2)[:pages].astype(np.int32)
        pools = [np.full((pages + 2, page, KV_HEADS, 64), np.nan, np.float32) for _ in "kv"]
        for pool, x in zip(pools, (k, v)):
            for i, number in enumerate(table):
                some = x[0, i * page : (i + 1) * page]
                pool[number, : len(some)] = some
        lengths = {"kv_lengths": np.int32([LENGTH]), "page_table": table[None]}
        assert_same_bits(attend(q, *pools, causal=True, **lengths), whole)
    starts = np.int32([0, 50, 50 + LENGTH])
    packed = [np.concatenate([x[0, :50] + np.float32(1), x[0]]) for x in (q, k, v)]
    results = attend(*packed, causal=True, q_starts=starts, kv_starts=starts)
    assert_same_bits([x[None, 50:] for x in results], whole)
    longer = [np.concatenate([x, x + np.float32(3)], axis=1) for x in (k, v)]
    assert_same_bits(attend(q, *longer, causal=True, offset=0), whole)


def test_a_batch_of_many_has_the_bits_of_each():
    q, k, v = (np.repeat(x, 3, axis=0) for x in inputs(np.float32, 64))
    one = attend(q[:1], k[:1], v[:1], causal=True)
    for each in range(3):
        assert_same_bits([x[each : each + 1] for x in attend(q, k, v, causal=True)], one)


def test_what_cannot_be_is_said():
    q, k, v = inputs(np.float32, 64, 8)
    with pytest.raises(NotImplementedError, match="what is around it; this problem is batch-inv"):
        rapt.attention(q, k, v, row_invariant=True, kernel="cpu.split_kv")
    out, lse = rapt.attention(q, k, v, return_lse=True)
    with pytest.raises(ValueError, match="gradients of keys are sums over queries"):
        rapt.attention_backward(q, k, v, out=out, lse=lse, dout=out, row_invariant=True)
    assert "batch-invariant:rows" in rapt.problem(q, k, v, row_invariant=True)
