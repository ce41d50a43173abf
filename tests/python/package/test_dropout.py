"""rapt.attention with dropout on NumPy arrays, against the reference's own pairs."""

import numpy as np
import pytest

import dropout_reference
import plain
import rapt

SEED = (1234567890123, -5)


def factors(q, k, probability=0.3, seed=SEED):
    """Z: (batch, head, query, key)."""
    return np.stack([
        [
            dropout_reference.factors(seed, probability, b, h, q.shape[1], k.shape[1])
            for h in range(q.shape[2])
        ]
        for b in range(q.shape[0])
    ])


def weights(q, k):
    k = np.repeat(k, q.shape[2] // k.shape[2], axis=2)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def expected(q, k, v, z):
    return np.einsum("bhqk,bkhd->bqhd", z * weights(q, k), np.repeat(v, 2, axis=2))


@pytest.fixture
def arrays(random):
    return plain.inputs(random, (2, 40, 4, 8), (2, 50, 2, 8))


@pytest.mark.parametrize("seed", [SEED, list(SEED), np.array(SEED)], ids=["tuple", "list", "array"])
def test_pairs_are_dropped_as_the_seed_says(arrays, seed):
    q, k, v = arrays
    out, lse = rapt.attention(q, k, v, dropout_p=0.3, seed=seed, return_lse=True)
    np.testing.assert_allclose(out, expected(q, k, v, factors(q, k)), atol=2e-6)
    np.testing.assert_array_equal(lse, rapt.attention(q, k, v, return_lse=True)[1])


def test_dropout_p_is_another_name_of_dropout(arrays):
    q, k, v = arrays
    want = rapt.attention(q, k, v, dropout_p=0.3, seed=SEED)
    np.testing.assert_array_equal(rapt.attention(q, k, v, dropout=0.3, seed=SEED), want)
    assert " dropout0.3" in rapt.problem(q, k, v, dropout=0.3, seed=SEED)
    for call in (rapt.attention, rapt.plan, rapt.problem):
        with pytest.raises(ValueError, match="dropout and dropout_p are one argument by two names"):
            call(q, k, v, dropout=0.3, dropout_p=0.3, seed=SEED)


def test_a_narrow_seed_is_copied(arrays):
    q, k, v = arrays
    large = np.array([2**63 + 5, 1], np.uint64).view(np.int64)
    for seed in ([2**63 + 5, 1], [np.uint64(2**63 + 5), 1]):
        np.testing.assert_array_equal(
            rapt.attention(q, k, v, dropout_p=0.3, seed=seed),
            rapt.attention(q, k, v, dropout_p=0.3, seed=large),
        )
    want = rapt.attention(q, k, v, dropout_p=0.3, seed=[3, 4])
    got = rapt.attention(q, k, v, dropout_p=0.3, seed=np.int32([3, 4]))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "kernel", ["cpu.naive", "cpu.flash", "cpu.split_kv", "cpu.oracle"]
)
def test_every_kernel_drops_the_same_pairs(arrays, kernel):
    q, k, _ = arrays
    v = np.ascontiguousarray(np.broadcast_to(np.eye(50, dtype=np.float32)[:, None], (2, 50, 2, 50)))
    out = rapt.attention(q, k, v, dropout_p=0.3, seed=SEED, kernel=kernel)
    np.testing.assert_array_equal(out.transpose(0, 2, 1, 3) > 0, factors(q, k) > 0)


def test_gradients_are_those_of_the_same_pairs(arrays, random):
    q, k, v = arrays
    options = {"dropout_p": 0.3, "seed": SEED}
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    dout = random.standard_normal(out.shape).astype(np.float32)
    dq, dk, dv, *_ = rapt.attention_backward(q, k, v, out=out, lse=lse, dout=dout, **options)
    z, p = factors(q, k), weights(q, k)
    wide_k, wide_v = (np.repeat(x, 2, axis=2) for x in (k, v))
    dp = z * np.einsum("bqhd,bkhd->bhqk", dout, wide_v)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(8)
    groups = (2, 50, 2, 2, 8)
    want_dk = np.einsum("bhqk,bqhd->bkhd", ds, q).reshape(groups).sum(axis=3)
    want_dv = np.einsum("bhqk,bqhd->bkhd", z * p, dout).reshape(groups).sum(axis=3)
    np.testing.assert_allclose(dq, np.einsum("bhqk,bkhd->bqhd", ds, wide_k), atol=5e-6)
    np.testing.assert_allclose(dk, want_dk, atol=5e-6)
    np.testing.assert_allclose(dv, want_dv, atol=5e-6)


def test_a_plan_reads_the_seed_of_each_run(arrays):
    q, k, v = arrays
    plan = rapt.plan(q, k, v, dropout_p=0.3, seed=SEED)
    assert "dropout0.30078125" in plan.problem
    first, second = (plan.run(q, k, v, seed=seed) for seed in ([1, 0], [2, 0]))
    assert (first != second).any()
    np.testing.assert_array_equal(plan.run(q, k, v, seed=[1, 0]), first)


def test_what_is_wrong_is_told(arrays):
    q, k, v = arrays
    with pytest.raises(ValueError, match="seed is missing; the problem needs it as i64"):
        rapt.attention(q, k, v, dropout_p=0.5)
    with pytest.raises(ValueError, match="seed is given but the problem has none"):
        rapt.attention(q, k, v, seed=SEED)
    with pytest.raises(ValueError, match="the dropout is 1; it must be a probability"):
        rapt.attention(q, k, v, dropout_p=1.0, seed=SEED)
    with pytest.raises(ValueError, match="seed is a list of something else than integers"):
        rapt.attention(q, k, v, dropout_p=0.5, seed=[0.5, 1])
    for number in (5, np.int64(5)):
        with pytest.raises(ValueError, match=r"^seed is 5; .* a seed and an offset: give \[5, 0\]$"):
            rapt.attention(q, k, v, dropout_p=0.5, seed=number)
    with pytest.raises(ValueError, match="seed is float64; .* seeds as integers, .*: convert it"):
        rapt.attention(q, k, v, dropout_p=0.5, seed=np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="a problem with dropout is batch-invariant"):
        rapt.attention(q, k, v, dropout_p=0.5, seed=SEED, batch_invariant=True)
