"""JAX's arrays on the CPU: rapt's memory becomes theirs."""

import numpy as np
import pytest

import plain
import rapt

jax = pytest.importorskip("jax", reason="JAX is not installed; rapt does not need it")


def test_jax_arrays_go_in_and_come_out(random):
    arrays = plain.inputs(random)
    q, k, v = (jax.device_put(array, jax.devices("cpu")[0]) for array in arrays)
    out, lse = rapt.attention(q, k, v, causal=True, return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array)
    want_out, want_lse = plain.attention(*arrays, plain.causal(5, 7))
    np.testing.assert_allclose(out, want_out, rtol=0, atol=2e-6)
    np.testing.assert_allclose(lse, want_lse, rtol=0, atol=2e-6)


def test_gradients_are_jax_arrays(random):
    arrays = plain.inputs(random)
    want_out, want_lse = rapt.attention(*arrays, return_lse=True)
    want = rapt.attention_backward(*arrays, out=want_out, lse=want_lse, dout=want_out)
    q, k, v = map(jax.numpy.asarray, arrays)
    out, lse = rapt.attention(q, k, v, return_lse=True)
    got = rapt.attention_backward(q, k, v, out=out, lse=lse, dout=out)
    for one, other in zip(got[:3], want):
        assert isinstance(one, jax.Array)
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("version", ["this", "older"])
def test_seeds_are_of_64_bits_whatever_jax_has(random, monkeypatch, version):
    if version == "older" and hasattr(jax, "enable_x64"):
        monkeypatch.setattr(jax.experimental, "enable_x64", jax.enable_x64, raising=False)
        monkeypatch.delattr(jax, "enable_x64")
    arrays = plain.inputs(random)
    q, k, v = map(jax.numpy.asarray, arrays)
    key = jax.random.key_data(jax.random.key(2**31 + 3))
    for seed, same in [
        ([2**40 + 1, -2], np.array([2**40 + 1, -2])),
        (jax.numpy.array([1, -2]), np.array([1, -2])),
        (key, np.asarray(key, np.int64)),
    ]:
        got = rapt.attention(q, k, v, dropout=0.3, seed=seed)
        np.testing.assert_array_equal(got, rapt.attention(*arrays, dropout=0.3, seed=same))
    assert jax.numpy.asarray(np.array([1])).dtype == np.int32, "JAX is as it was"


def test_bfloat16_stays_bfloat16(random):
    q, k, v = (jax.numpy.asarray(array, jax.numpy.bfloat16) for array in plain.inputs(random))
    out = rapt.attention(q, k, v)
    assert out.dtype == jax.numpy.bfloat16
    want = plain.attention(*(np.asarray(x, np.float32) for x in (q, k, v)))[0]
    np.testing.assert_allclose(np.asarray(out, np.float32), want, rtol=0, atol=2e-2)


def test_merged_halves_are_jax_arrays(random):
    q, k, v = map(jax.numpy.asarray, plain.inputs(random))
    parts = [
        rapt.attention(q, k[:, at], v[:, at], return_lse=True) for at in (slice(3), slice(3, 7))
    ]
    merged = rapt.merge(*parts)
    for got, want in zip(merged, rapt.attention(q, k, v, return_lse=True)):
        assert isinstance(got, jax.Array)
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6)


def test_jax_arrays_are_never_written_to(random):
    q, k, v = map(jax.numpy.asarray, plain.inputs(random))
    out, lse = rapt.attention(q, k, v, return_lse=True)
    before = np.array(out), np.array(lse)
    with pytest.raises(ValueError, match="^out is read-only"):
        rapt.attention(2 * q, k, v, out=out)
    with pytest.raises(ValueError, match="^lse is read-only"):
        rapt.plan(q, k, v, return_lse=True).run(2 * q, k, v, out=(np.empty_like(before[0]), lse))
    with pytest.raises(ValueError, match="result.out is read-only"):
        rapt.merge((out, lse), (out, lse), out=(out, lse))
    np.testing.assert_array_equal(out, before[0])
    np.testing.assert_array_equal(lse, before[1])
