"""rapt.attention_backward on NumPy arrays, against the formulas in f64."""

import numpy as np
import pytest

import plain
import rapt

CAUSAL = plain.causal(5, 7)


def forward(random, dtype=np.float32, **options):
    """q, k, v, what attention gives for them, and gradients of that."""
    q, k, v = plain.inputs(random, dtype=dtype)
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    dout = random.standard_normal(out.shape).astype(dtype)
    dlse = random.standard_normal(lse.shape).astype(np.float32)
    return (q, k, v), {"out": out, "lse": lse, "dout": dout}, dlse


def assert_near(got, want, bound=2e-6):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=bound)


def test_gradients_are_those_of_the_formulas(random):
    arrays, results, dlse = forward(random, causal=True, scale=0.3)
    for more in [{}, {"dlse": dlse}]:
        got = rapt.attention_backward(*arrays, **results, **more, causal=True, scale=0.3)
        *want, _ = plain.gradients(*arrays, **results, **more, visible=CAUSAL, scale=0.3)
        for name, gradient in zip(["dq", "dk", "dv"], want):
            assert_near(getattr(got, name), gradient)
            assert getattr(got, name).dtype == np.float32
        assert got.dbias is got.dsinks is got.dalibi is None


BIASES = {
    "all axes": (2, 4, 5, 7),
    "a head's": (4, 1, 7),
    "a batch's, for all heads": (2, 1, 5, 1),
    "one number": (1,),
}


@pytest.mark.parametrize("name", BIASES)
def test_a_bias_has_its_gradient_summed_where_it_is_broadcast(random, name):
    bias = random.standard_normal(BIASES[name]).astype(np.float32)
    arrays, results, _ = forward(random, bias=bias)
    got = rapt.attention_backward(*arrays, **results, bias=bias, dbias=True)
    *_, dscores = plain.gradients(*arrays, **results, bias=bias)
    shape = (1,) * (4 - bias.ndim) + bias.shape
    axes = tuple(axis for axis in range(4) if shape[axis] == 1)
    assert got.dbias.shape == bias.shape
    assert_near(got.dbias, dscores.sum(axis=axes).reshape(bias.shape), 1e-5)


def test_a_bias_that_is_broadcast_by_its_strides_has_one_sum(random):
    bias = random.standard_normal((4, 5, 7)).astype(np.float32)
    arrays, results, _ = forward(random, bias=bias)
    want = rapt.attention_backward(*arrays, **results, bias=bias, dbias=True).dbias
    wide = np.broadcast_to(bias, (2, 4, 5, 7))
    got = rapt.attention_backward(*arrays, **results, bias=wide, dbias=True).dbias
    np.testing.assert_array_equal(got, want[None])


def test_sinks_and_slopes_have_gradients(random):
    sinks, alibi = random.standard_normal((2, 4)).astype(np.float32)
    arrays, results, dlse = forward(random, sinks=sinks, alibi=alibi)
    got = rapt.attention_backward(
        *arrays, **results, dlse=dlse, sinks=sinks, alibi=alibi, dsinks=True, dalibi=True
    )
    distance = np.abs(np.arange(7) - np.arange(5)[:, None] - 2)
    *_, dscores = plain.gradients(
        *arrays, **results, dlse=dlse, bias=-alibi[:, None, None] * distance
    )
    assert_near(got.dalibi, (dscores * -distance).sum(axis=(0, 2, 3)), 1e-5)
    delta = np.einsum("bqhd,bqhd->bhq", results["dout"], results["out"]) - dlse
    weights = np.exp(sinks[:, None] - results["lse"])
    assert_near(got.dsinks, -(weights * delta).sum(axis=(0, 2)), 1e-5)


def test_heads_may_come_first(random):
    arrays, results, _ = forward(random)
    want = rapt.attention_backward(*arrays, **results)
    arrays = [array.swapaxes(1, 2) for array in arrays]
    results |= {name: results[name].swapaxes(1, 2) for name in ["out", "dout"]}
    got = rapt.attention_backward(*arrays, **results, layout="bhsd")
    for one, other in zip(got[:3], want):
        np.testing.assert_array_equal(one, other.swapaxes(1, 2))
    text = rapt.problem(*arrays, **results, layout="bhsd")
    assert text == "b2 h4/2 q5 kv7 d8 f32 dq@160,8,40 dk@112,8,56 dv@112,8,56 backward"


def test_packed_sequences_have_the_gradients_of_each(random):
    starts = np.array([0, 2, 5], np.int32), np.array([0, 4, 7], np.int32)
    q, k, v = plain.inputs(random, (5, 4, 8), (7, 2, 8))
    packed = {"q_starts": starts[0], "kv_starts": starts[1], "causal": True}
    out, lse = rapt.attention(q, k, v, return_lse=True, **packed)
    dout = random.standard_normal(out.shape).astype(np.float32)
    got = rapt.attention_backward(q, k, v, out=out, lse=lse, dout=dout, **packed)
    for i in range(2):
        mine, keys = (slice(s[i], s[i + 1]) for s in starts)
        *want, _ = plain.gradients(
            q[None, mine], k[None, keys], v[None, keys], out[None, mine], lse[None, :, mine],
            dout[None, mine], visible=plain.causal(mine.stop - mine.start, keys.stop - keys.start),
        )  # fmt: skip
        assert_near(got.dq[mine], want[0][0])
        assert_near(got.dk[keys], want[1][0])
        assert_near(got.dv[keys], want[2][0])


def test_the_steps_of_a_ring_add_up_to_the_whole(random):
    (q, k, v), results, _ = forward(random)
    whole = rapt.attention_backward(q, k, v, **results)
    steps = [
        rapt.attention_backward(q, k[:, at], v[:, at], **results)
        for at in (slice(3), slice(3, 7))
    ]
    assert_near(steps[0].dq + steps[1].dq, whole.dq)
    assert_near(np.concatenate([step.dk for step in steps], axis=1), whole.dk)


def test_gradients_of_sixteen_bits_may_be_f32(random):
    arrays, results, _ = forward(random, np.float16)
    *want, _ = plain.gradients(*arrays, **results)
    got = rapt.attention_backward(*arrays, **results)
    wide = rapt.attention_backward(*arrays, **results, out_dtype="f32")
    for one, other, gradient in zip(got[:3], wide[:3], want):
        assert one.dtype == np.float16 and other.dtype == np.float32
        np.testing.assert_array_equal(one, other.astype(np.float16))
        assert_near(other, gradient, 2e-3)


def test_gradients_are_written_where_the_caller_says(random):
    bias = np.ones((5, 7), np.float32)
    arrays, results, _ = forward(random, bias=bias)
    want = rapt.attention_backward(*arrays, **results, bias=bias, dbias=True)
    given = {"dk": np.empty_like(arrays[1]), "dbias": np.empty_like(bias)}
    got = rapt.attention_backward(*arrays, **results, bias=bias, **given)
    assert got.dk is given["dk"] and got.dbias is given["dbias"]
    for one, other in zip(got[:4], want):
        np.testing.assert_array_equal(one, other)
    given["dk"].flags.writeable = False
    with pytest.raises(ValueError, match="dk is read-only"):
        rapt.attention_backward(*arrays, **results, bias=bias, **given)


@pytest.mark.parametrize("wanted", [True, np.True_, 1, np.int64(1)], ids=repr)
def test_whatever_is_true_asks_for_a_gradient(random, wanted):
    sinks = random.standard_normal(4).astype(np.float32)
    arrays, results, _ = forward(random, sinks=sinks)
    got = rapt.attention_backward(*arrays, **results, sinks=sinks, dsinks=wanted)
    assert got.dsinks.shape == (4,)
    got = rapt.attention_backward(*arrays, **results, sinks=sinks, dsinks=type(wanted)(0))
    assert got.dsinks is None


def test_two_runs_give_the_same_bits(random):
    arrays, results, dlse = forward(random)
    first, second = (rapt.attention_backward(*arrays, **results, dlse=dlse) for _ in range(2))
    for one, other in zip(first[:3], second):
        np.testing.assert_array_equal(one, other)


def test_what_is_missing_or_too_much_is_named(random):
    (q, k, v), results, _ = forward(random)
    for name in results:
        with pytest.raises(ValueError, match="backward needs out, lse and dout.*return_lse=True"):
            rapt.attention_backward(q, k, v, **(results | {name: None}))
    with pytest.raises(ValueError, match="dbias is wanted, and there is no bias"):
        rapt.attention_backward(q, k, v, **results, dbias=True)
    with pytest.raises(ValueError, match="return_lse is True"):
        rapt.attention_backward(q, k, v, **results, return_lse=True)
    with pytest.raises(ValueError, match="dlse has 4 axes"):
        rapt.attention_backward(q, k, v, **results, dlse=q)
    with pytest.raises(ValueError, match="dout"):
        rapt.attention_backward(q, k, v, **(results | {"dout": q[:, 1:]}))
    with pytest.raises(ValueError, match="dk is a list of numbers"):
        rapt.attention_backward(q, k, v, **results, dk=[0.0])
    with pytest.raises(TypeError, match="'dsink'; did you mean 'dsinks'"):
        rapt.attention_backward(q, k, v, **results, dsink=True)
    with pytest.raises(TypeError, match="dout"):
        rapt.attention(q, k, v, dout=q)


def test_pages_have_no_backward(random):
    q, k, v = plain.inputs(random, (1, 1, 4, 8), (2, 4, 4, 8))
    pages = {"page_table": np.array([[0, 1]], np.int32), "kv_lengths": np.array([6], np.int32)}
    out, lse = rapt.attention(q, k, v, return_lse=True, **pages)
    with pytest.raises((ValueError, NotImplementedError), match="pages"):
        rapt.attention_backward(q, k, v, out=out, lse=lse, dout=out, **pages)


def test_a_plan_of_backward_runs_on_arrays_like_its_own(random):
    bias = np.ones((4, 5, 7), np.float32)
    arrays, results, _ = forward(random, bias=bias)
    options = results | {"bias": bias, "dbias": True}
    plan = rapt.plan(*arrays, **options)
    text = "b2 h4/2 q5 kv7 d8 f32 bias:hqk backward:bias"
    assert plan.problem == rapt.problem(*arrays, **options) == text
    want = rapt.attention_backward(*arrays, **options)
    for runner in [plan, rapt.Plan(text)]:
        for one, other in zip(runner.run(*arrays, **options)[:4], want):
            np.testing.assert_array_equal(one, other)
