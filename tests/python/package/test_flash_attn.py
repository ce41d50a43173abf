"""FlashAttention's functions by rapt, on CPU tensors, against attention in NumPy."""

import functools

import numpy as np
import pytest

import plain

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")

from rapt.torch import (  # noqa: E402
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
)


@pytest.fixture
def arrays(random):
    return plain.inputs(random)


def to_torch(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


def close(got, want):
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=2e-6)


def test_causal_aligns_at_the_last_key(arrays):
    out, lse, probabilities = flash_attn_func(
        *to_torch(*arrays), causal=True, return_attn_probs=True
    )
    want_out, want_lse = plain.attention(*arrays, plain.causal(5, 7))
    close(out, want_out)
    close(lse, want_lse)
    assert probabilities is None


def test_minus_one_is_an_unbounded_side(arrays):
    distance = np.arange(7) - (np.arange(5)[:, None] + 2)
    q, k, v = to_torch(*arrays)
    close(flash_attn_func(q, k, v), plain.attention(*arrays)[0])
    close(
        flash_attn_func(q, k, v, window_size=(2, -1)), plain.attention(*arrays, distance >= -2)[0]
    )
    visible = (distance >= -2) & (distance <= 0)
    close(
        flash_attn_func(q, k, v, window_size=(2, 1), causal=True),
        plain.attention(*arrays, visible)[0],
    )


def test_slopes_and_scale(arrays):
    slopes = torch.tensor([0.5, 0.25, 0.125, 1.0])
    distance = np.abs(np.arange(7) - (np.arange(5)[:, None] + 2))
    bias = -slopes.numpy()[:, None, None] * distance
    got = flash_attn_func(*to_torch(*arrays), alibi_slopes=slopes, softmax_scale=0.2)
    close(got, plain.attention(*arrays, bias=bias, scale=0.2)[0])


def test_slopes_of_each_sequence(arrays):
    batch = len(arrays[0])
    slopes = torch.rand(batch, 4)
    distance = np.abs(np.arange(7) - (np.arange(5)[:, None] + 2))
    bias = -slopes.numpy()[:, :, None, None] * distance
    got = flash_attn_func(*to_torch(*arrays), alibi_slopes=slopes)
    close(got, plain.attention(*arrays, bias=bias)[0])


def test_packed_sequences(random):
    starts = torch.tensor([0, 3, 10], dtype=torch.int32)
    q, k, v = (random.standard_normal((10, 2, 8)).astype(np.float32) for _ in range(3))
    got, lse, _ = flash_attn_varlen_func(
        *to_torch(q, k, v), starts, starts, 7, 7, causal=True, return_attn_probs=True
    )
    assert lse.shape == (2, 10)
    for begin, end in [(0, 3), (3, 10)]:
        part = [x[None, begin:end] for x in (q, k, v)]
        close(got[begin:end], plain.attention(*part, plain.causal(end - begin, end - begin))[0][0])


def test_packed_queries_over_pages(random):
    q = random.standard_normal((3, 4, 8)).astype(np.float32)
    k, v = (random.standard_normal((5, 4, 2, 8)).astype(np.float32) for _ in range(2))
    table = torch.tensor([[4, 0, 2], [1, 3, 3]], dtype=torch.int32)
    q_starts = torch.tensor([0, 1, 3], dtype=torch.int32)
    kv_starts = torch.tensor([0, 9, 15], dtype=torch.int32)
    got = flash_attn_varlen_func(
        *to_torch(q, k, v), q_starts, kv_starts, 2, 12, causal=True, block_table=table
    )
    for b, (begin, end, length) in enumerate([(0, 1, 9), (1, 3, 6)]):
        keys, values = (x[table[b].numpy()].reshape(1, 12, 2, 8)[:, :length] for x in (k, v))
        visible = plain.causal(end - begin, length)
        close(got[begin:end], plain.attention(q[None, begin:end], keys, values, visible)[0][0])


def cache_of(random):
    return [random.standard_normal((3, 12, 2, 8)).astype(np.float32) for _ in range(2)]


def test_a_cache_takes_new_keys_at_each_length(random):
    q = random.standard_normal((3, 2, 4, 8)).astype(np.float32)
    new_k, new_v = (random.standard_normal((3, 2, 2, 8)).astype(np.float32) for _ in range(2))
    k_cache, v_cache = to_torch(*cache_of(random))
    lengths = torch.tensor([0, 4, 10], dtype=torch.int32)
    out, lse = flash_attn_with_kvcache(
        *to_torch(q), k_cache, v_cache, *to_torch(new_k, new_v), cache_seqlens=lengths,
        causal=True, return_softmax_lse=True,
    )  # fmt: skip
    assert lengths.tolist() == [0, 4, 10] and lse.shape == (3, 4, 2)
    for b, length in enumerate([0, 4, 10]):
        np.testing.assert_array_equal(k_cache[b, length : length + 2], new_k[b])
        np.testing.assert_array_equal(v_cache[b, length : length + 2], new_v[b])
        keys, values = (x[b : b + 1, : length + 2].numpy() for x in (k_cache, v_cache))
        want = plain.attention(q[b : b + 1], keys, values, plain.causal(2, length + 2))[0]
        close(out[b], want[0])


def test_a_paged_cache_takes_new_keys_across_a_page_border(random):
    q = random.standard_normal((2, 3, 4, 8)).astype(np.float32)
    new_k, new_v = (random.standard_normal((2, 3, 2, 8)).astype(np.float32) for _ in range(2))
    k_cache, v_cache = to_torch(
        *(random.standard_normal((5, 4, 2, 8)).astype(np.float32) for _ in range(2))
    )
    table = torch.tensor([[4, 0], [1, 3]], dtype=torch.int32)
    lengths = torch.tensor([3, 0], dtype=torch.int32)
    out = flash_attn_with_kvcache(
        *to_torch(q), k_cache, v_cache, *to_torch(new_k, new_v), cache_seqlens=lengths,
        block_table=table, causal=True,
    )  # fmt: skip
    for b, length in enumerate([3, 0]):
        pages = table[b].long()
        keys, values = (
            x[pages].reshape(1, 8, 2, 8)[:, : length + 3].numpy() for x in (k_cache, v_cache)
        )
        np.testing.assert_array_equal(keys[0, length:], new_k[b])
        close(
            out[b], plain.attention(q[b : b + 1], keys, values, plain.causal(3, length + 3))[0][0]
        )


def test_sequences_of_a_cache_are_picked_by_index(random):
    q = random.standard_normal((2, 1, 4, 8)).astype(np.float32)
    k, v = cache_of(random)
    picked = torch.tensor([2, 0], dtype=torch.int32)
    got = flash_attn_with_kvcache(
        *to_torch(q, k, v), cache_seqlens=5, cache_batch_idx=picked, causal=True
    )
    close(got, plain.attention(q, k[[2, 0], :5], v[[2, 0], :5])[0])


@pytest.mark.parametrize("new", [0, 1])
@pytest.mark.parametrize("lengths", [[3, 9], 9], ids=str)
def test_more_keys_than_the_block_table_holds_are_an_error_that_names_it(random, new, lengths):
    q, k, v = (torch.from_numpy(x) for x in plain.inputs(random, (2, 1, 4, 8), (2, 1, 2, 8)))
    caches = to_torch(*(random.standard_normal((5, 4, 2, 8)).astype(np.float32) for _ in range(2)))
    before = [cache.clone() for cache in caches]
    table = torch.tensor([[4, 0], [1, 3]], dtype=torch.int32)
    appended = {"k": k, "v": v} if new else {}
    if isinstance(lengths, list):
        lengths = torch.tensor(lengths, dtype=torch.int32)

    def call(lengths):
        return flash_attn_with_kvcache(
            q, *caches, cache_seqlens=lengths, block_table=table, **appended
        )

    words = "block_table has room for 2 pages of 4 keys.*cache_seqlens has 9"
    with pytest.raises(RuntimeError, match=words):
        call(lengths)
    with pytest.raises(RuntimeError, match="has 8 and k brings 1 more" if new else words):
        call(lengths - 1 if new else lengths)
    assert all(torch.equal(cache, old) for cache, old in zip(caches, before))
    call(lengths - 1 - new)  # just fits


def test_wide_indices_do_not_wrap_around(random):
    q = torch.from_numpy(plain.inputs(random, (2, 1, 4, 8))[0])
    call = functools.partial(flash_attn_with_kvcache, q, *to_torch(*cache_of(random)))
    call(cache_seqlens=5, cache_batch_idx=torch.tensor([2, 0]))
    with pytest.raises(ValueError, match="page_table has 4294967298"):
        call(cache_seqlens=5, cache_batch_idx=torch.tensor([2**32 + 2, 0]))


def test_more_keys_than_a_cache_holds_are_an_error(random):
    q, k, v = (torch.from_numpy(x) for x in plain.inputs(random, (3, 1, 4, 8), (3, 1, 2, 8)))
    caches = to_torch(*cache_of(random))
    lengths = torch.tensor([0, 12, 3], dtype=torch.int32)
    for options in [{}, {"cache_batch_idx": torch.tensor([2, 0, 1], dtype=torch.int32)}]:
        with pytest.raises(RuntimeError, match="k_cache has room for 12 keys.*k brings 1 more"):
            flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=lengths, **options)
        flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, **options)
        with pytest.raises(RuntimeError, match="cache_seqlens has -1; lengths are 0 or more"):
            flash_attn_with_kvcache(q, *caches, k, v, cache_seqlens=lengths - 1, **options)


def test_what_does_not_fit_is_refused_before_anything_is_written(random):
    q, k, v = (torch.from_numpy(x) for x in plain.inputs(random, (3, 1, 4, 8), (3, 1, 2, 8)))
    k_cache, v_cache = to_torch(*cache_of(random))
    for words, arguments in {
        "k has 1 sequences; the lengths are of 3": (k_cache, v_cache, k[:1], v),
        "k_cache has 2 sequences": (k_cache[:2], v_cache[:2], k, v),
        "their first two axes must be the same": (k_cache, v_cache[:, :1], k, v),
    }.items():
        with pytest.raises(ValueError, match=words):
            flash_attn_with_kvcache(q, *arguments, cache_seqlens=4)


def test_places_of_new_keys_are_inside_the_cache_whatever_the_numbers():
    from rapt.flash_attn import _places

    cache = torch.zeros(3, 4, 1, 1)
    lengths = torch.tensor([-5, 100], dtype=torch.int32)
    for table in [None, torch.tensor([[-7, 1], [2, 99]])]:
        outer, row = _places(cache[: 2 if table is None else 3], 2, lengths, table)
        assert outer.shape == row.shape == (2, 2)
        assert outer.tolist() == [[0, 0], [1, 1] if table is None else [2, 2]]
        assert row.tolist() == [[0, 0], [3, 3]]


def test_a_paged_cache_compiles_whole(random):
    q, k, v = (torch.from_numpy(x) for x in plain.inputs(random, (2, 1, 4, 8), (2, 1, 2, 8)))
    caches = to_torch(*(random.standard_normal((5, 4, 2, 8)).astype(np.float32) for _ in range(2)))
    table = torch.tensor([[4, 0], [1, 3]], dtype=torch.int32)
    lengths = torch.tensor([3, 5], dtype=torch.int32)

    def step(lengths):
        return flash_attn_with_kvcache(
            q, *caches, k, v, cache_seqlens=lengths, block_table=table, causal=True
        )

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    assert torch.equal(compiled(lengths), step(lengths))


def test_no_dropout_is_0_or_0_point_0(arrays):
    q, k, v = to_torch(*arrays)
    starts = torch.tensor([0, 5], dtype=torch.int32)
    for nothing in [0, 0.0]:
        close(flash_attn_func(q, k, v, dropout_p=nothing), plain.attention(*arrays)[0])
        flash_attn_varlen_func(q[0], k[0, :5], v[0, :5], starts, starts, 5, 5, nothing)
    with pytest.raises(NotImplementedError, match="dropout_p is 1"):
        flash_attn_func(q, k, v, dropout_p=1)


def test_what_rapt_does_not_do_is_an_error(arrays):
    q, k, v = to_torch(*arrays)
    with pytest.raises(ValueError, match="alibi has 3 axes; it needs 1 or 2"):
        flash_attn_func(q, k, v, alibi_slopes=torch.zeros(2, 4, 1))
    for rotary in (torch.zeros(4, 4), 0):
        with pytest.raises(NotImplementedError, match="rotary_cos is given"):
            flash_attn_with_kvcache(q, k, v, rotary_cos=rotary)
    with pytest.raises(NotImplementedError, match="cache_leftpad is given"):
        flash_attn_with_kvcache(q, k, v, cache_leftpad=torch.zeros(2, dtype=torch.int32))
    for given, missing in {"k": "v and cache_seqlens", "v": "k and cache_seqlens"}.items():
        for new, rest in [({}, missing), ({"cache_seqlens": 3}, missing[0])]:
            with pytest.raises(ValueError, match=f"^{given} is given without {rest}; appending"):
                flash_attn_with_kvcache(q, k, v, **{given: k[:, :1]}, **new)
    with pytest.raises(ValueError, match="^k is given without cache_seqlens; appending"):
        flash_attn_with_kvcache(q, k, v, k[:, :1], v[:, :1])


def test_whatever_is_no_dense_tensor_gets_a_sentence(arrays):
    q, k, v = to_torch(*arrays)
    starts = torch.tensor([0, 5], dtype=torch.int32)
    for call in [
        flash_attn_func,
        flash_attn_with_kvcache,
        lambda q, k, v: flash_attn_varlen_func(q, k, v, starts, starts, 5, 5),
    ]:
        with pytest.raises(TypeError, match="^q is a numpy.ndarray; .* torch.as_tensor.q."):
            call(arrays[0], k, v)
        with pytest.raises(NotImplementedError, match="v(_cache)? is sparse .* give v"):
            call(q, k, v.to_sparse())
    with pytest.raises(TypeError, match="^v is a numpy.ndarray"):
        flash_attn_with_kvcache(q, k, v, k[:, :1], arrays[2][:, :1], cache_seqlens=2)
    with pytest.raises(ValueError, match="q is int32; rapt computes in float32, .* convert it"):
        flash_attn_func(q.int(), k.int(), v.int())


STARTS = torch.tensor([0, 4, 10], dtype=torch.int32)
OTHER_KINDS = {
    "alibi_slopes": ([0.5, 0.25], np.ones(4, np.float32)),
    "window_size": (None, 3, (None, None), (1, 2, 3), (2.0, -1), "12", np.array([2.0, -1])),
    "dropout_p": (None, "0.1"),
    "softmax_scale": ("x", [1.0]),
    "softcap": (None, "x"),
    "cu_seqlens_q": ([0, 4, 10], None),
    "cu_seqlens_k": ([0, 4, 10], np.array([0, 4, 10]), None),
    "cache_seqlens": ([3, 4], np.array([3, 4]), 3.0, "3"),
    "cache_batch_idx": ([1, 0], np.array([1, 0])),
    "block_table": ([[0, 1], [2, 3]], np.array([[0, 1], [2, 3]])),
    "k": ([1.0], np.ones((2, 1, 2, 8), np.float32)),
    "v": ([1.0], np.ones((2, 1, 2, 8), np.float32)),
}
KINDS_OF_CALLS = {
    "dense": (
        lambda **rest: flash_attn_func(torch.ones(2, 5, 4, 8), *[torch.ones(2, 7, 2, 8)] * 2, **rest),
        {},
    ),
    "packed": (
        lambda **rest: flash_attn_varlen_func(
            torch.ones(10, 4, 8), *[torch.ones(10, 2, 8)] * 2, max_seqlen_q=6, max_seqlen_k=6, **rest
        ),
        {"cu_seqlens_q": STARTS, "cu_seqlens_k": STARTS},
    ),
    "pages": (
        lambda **rest: flash_attn_varlen_func(
            torch.ones(10, 4, 8), *[torch.ones(5, 4, 2, 8)] * 2, max_seqlen_q=6, max_seqlen_k=8, **rest
        ),
        {
            "cu_seqlens_q": STARTS, "cu_seqlens_k": STARTS,
            "block_table": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32),
        },
    ),
    "cache": (
        lambda **rest: flash_attn_with_kvcache(
            torch.ones(2, 1, 4, 8), *(torch.ones(2, 8, 2, 8) for _ in "kv"), **rest
        ),
        {"k": torch.ones(2, 1, 2, 8), "v": torch.ones(2, 1, 2, 8), "cache_seqlens": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("call", KINDS_OF_CALLS)
def test_an_argument_of_another_kind_is_named(call):
    function, options = KINDS_OF_CALLS[call]
    function(**options)
    common = {"alibi_slopes", "window_size", "softmax_scale", "softcap"}
    of_cache = {"cache_seqlens", "cache_batch_idx", "block_table", "k", "v"}
    more = of_cache if call == "cache" else {"dropout_p", *options}
    for name in sorted(common | more):
        for value in OTHER_KINDS[name]:
            with pytest.raises(TypeError, match=f"^{name} is .*; "):
                function(**options | {name: value})


def test_whole_numbers_of_numpy_are_lengths_and_bounds():
    cached, options = KINDS_OF_CALLS["cache"]
    got = cached(**options | {"cache_seqlens": np.int64(3), "window_size": [np.int64(2), -1]})
    for window in ((2, -1), torch.tensor([2, -1]), np.array([2, -1])):
        assert torch.equal(got, cached(**options, window_size=window))


INDICES = {
    "cache_seqlens has 0 axes; it needs 1": {"cache_seqlens": torch.tensor(3)},
    "cache_seqlens is torch.float32; it takes integers": {"cache_seqlens": torch.ones(2)},
    "block_table has 1 axis; it needs 2": {"block_table": torch.tensor([0, 1])},
    "cache_batch_idx is of 3 sequences and q of 2": {"cache_batch_idx": torch.tensor([0, 1, 0])},
}


@pytest.mark.parametrize("sentence", INDICES)
def test_indices_of_another_form_are_told(sentence):
    cached, options = KINDS_OF_CALLS["cache"]
    with pytest.raises(ValueError, match=f"^{sentence}"):
        cached(**options | INDICES[sentence])
