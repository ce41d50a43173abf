"""rapt in JAX's compiled programs: under jit, grad and vmap, on the device that JAX uses by itself
if rapt computes there, else on the CPU."""

import concurrent.futures
import functools
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import oracle_dump
import plain
import problem_string
import rapt
from rapt import _words
from test_random_problems import keywords

jax = pytest.importorskip("jax", reason="JAX is not installed; rapt does not need it")

import jax.numpy as jnp  # noqa: E402

import rapt.jax  # noqa: E402
from rapt.jax import attention, dot_product_attention  # noqa: E402

BOUNDS = {"float32": 5e-6, "bfloat16": 3e-2}


@pytest.fixture(autouse=True)
def exact_products_where_rapt_computes():
    by_rapt = any(device.backend == "cuda" for device in rapt.devices())
    device = jax.devices()[0] if by_rapt else jax.devices("cpu")[0]
    with jax.default_matmul_precision("highest"), jax.default_device(device):
        yield


def check(got, want, bound=5e-6):
    got, want = (np.asarray(x, np.float32) for x in (got, want))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=bound * max(1, np.abs(want).max(initial=0)))


def exact(q, k, v, bias=0.0, alibi=None, sinks=None, visible=True, softcap=0.0):
    """Attention in JAX's own operations, (batch, seq, head, dim): out and lse."""
    k, v = (jnp.repeat(x, q.shape[2] // k.shape[2], axis=2) for x in (k, v))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
    scores = softcap * jnp.tanh(scores / softcap) if softcap else scores
    if alibi is not None:
        rows, keys = scores.shape[2:]
        position = jnp.arange(rows)[:, None] + keys - rows
        alibi = jnp.broadcast_to(alibi, (len(q), q.shape[2]))[..., None, None]
        scores = scores - alibi * jnp.abs(position - jnp.arange(keys))
    scores = jnp.where(visible, scores + bias, -jnp.inf)
    if sinks is not None:
        sinks = jnp.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))
        scores = jnp.concatenate([scores, sinks], axis=-1)
    weights = jax.nn.softmax(scores, axis=-1)[..., : k.shape[1]]
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v), jax.nn.logsumexp(scores, axis=-1)


def test_the_arguments_are_those_of_rapt_attention():
    """But for out, and for dropout, whose seed JAX has no type for."""
    known = set(_words._KEYWORDS["attention"].split()) - {"out", "dropout", "dropout_p", "seed"}
    assert set(inspect.signature(attention).parameters) == {"q", "k", "v"} | known


def test_compiled_programs_give_what_rapt_attention_gives(dump_program):
    """Every feature, on random problems, to the bit, but for denormal numbers, which are zero in
    some threads of XLA's; what lies outside of packed sequences is nobody's."""
    for case in oracle_dump.cases(dump_program, 47000, 40):
        problem = problem_string.parse(case.problem)
        arguments = keywords(case, problem)
        if arguments.pop("dropout"):  # rapt.jax has none
            continue
        for name, x in arguments.items():
            arguments[name] = np.ascontiguousarray(x) if isinstance(x, np.ndarray) else x
        q, v = arguments["q"], arguments["v"]
        out = np.full((*q.shape[:3], v.shape[3]), np.nan, q.dtype)
        lse = np.full((q.shape[0], q.shape[2], q.shape[1]), np.nan, np.float32)
        want = (out, lse) if problem.lse else out
        rapt.attention(**arguments, out=want)
        arrays = {name: x for name, x in arguments.items() if isinstance(x, np.ndarray)}
        static = {name: x for name, x in arguments.items() if name not in arrays}
        with jax.default_device(jax.devices("cpu")[0]):
            got = jax.jit(lambda arrays: attention(**arrays, **static))(arrays)
        for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            one, other = np.asarray(one, np.float32), np.asarray(other, np.float32)
            there = ~np.isnan(other)
            smallest = np.finfo(np.float32).tiny
            np.testing.assert_allclose(
                one[there], other[there], rtol=0, atol=smallest, err_msg=case.problem
            )


FEATURES = {
    "plain": {},
    "causal": {"causal": True},
    "heads first": {"layout": "bhsd", "causal": True},
    "bias of all rows": {"bias": (2, 4, 5, 7)},
    "bias of all sequences": {"bias": (1, 1, 5, 7), "softcap": 2.0},
    "slopes": {"alibi": (4,), "causal": True},
    "slopes of each sequence": {"alibi": (2, 4)},
    "sinks": {"sinks": (4,)},
}


@pytest.mark.parametrize("feature", FEATURES)
def test_gradients_are_those_of_the_formula(feature, random):
    """Of out and of lse, in everything that has a gradient."""
    options = dict(FEATURES[feature])
    q, k, v = plain.inputs(random)
    names = [name for name in ("bias", "alibi", "sinks") if name in options]
    logits = [random.standard_normal(options.pop(name)).astype(np.float32) for name in names]
    visible = plain.causal(5, 7) if options.get("causal") else True
    dout, dlse = random.standard_normal(q.shape), random.standard_normal((2, 4, 5))
    order = (0, 2, 1, 3) if options.get("layout") == "bhsd" else (0, 1, 2, 3)

    def by_rapt(q, k, v, *logits):
        q, k, v = (x.transpose(order) for x in (q, k, v))
        out, lse = attention(q, k, v, **dict(zip(names, logits)), **options, return_lse=True)
        return jnp.sum(out.transpose(order) * dout) + jnp.sum(lse * dlse)

    def by_formula(q, k, v, *logits):
        softcap = options.get("softcap", 0.0)
        out, lse = exact(q, k, v, **dict(zip(names, logits)), visible=visible, softcap=softcap)
        return jnp.sum(out * dout) + jnp.sum(lse * dlse)

    every = tuple(range(3 + len(names)))
    got = jax.jit(jax.value_and_grad(by_rapt, every))(q, k, v, *logits)
    want = jax.jit(jax.value_and_grad(by_formula, every))(q, k, v, *logits)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
        check(one, other, 2e-5)


def random_call(random):
    """Arguments of jax.nn.dot_product_attention: arrays, and what is static."""
    batch, heads, rows, keys = (int(n) for n in random.integers(1, (4, 4, 12, 14)))
    dtype = random.choice(["float32", "bfloat16"])
    group, axes = int(random.integers(1, 4)), int(random.choice([3, 4, 4]))
    batch = batch if axes == 4 else 1

    def numbers(*shape, dtype=dtype):
        return jnp.asarray(random.standard_normal(shape), dtype)

    def lengths(most):
        return jnp.asarray(random.integers(1, most + 1, batch), jnp.int32)

    def some(*shape):
        return [int(random.choice([1, n])) for n in shape]

    arrays = {
        "query": numbers(batch, rows, heads * group, 16),
        "key": numbers(batch, keys, heads, 16),
        "value": numbers(batch, keys, heads, 16),
    }
    arrays = {name: x if axes == 4 else x[0] for name, x in arrays.items()}
    scores = (*some(batch, heads * group), rows, keys)
    optional = {
        "bias": lambda: numbers(*some(*scores), dtype=random.choice([dtype, "float32"])),
        "mask": lambda: jnp.asarray(random.random(scores) < 0.7),
        "query_seq_lengths": lambda: lengths(rows),
        "key_value_seq_lengths": lambda: lengths(keys),
    }
    arrays |= {name: make() for name, make in optional.items() if random.random() < 0.4}
    static = {
        "is_causal": True,
        "scale": 0.3,
        "local_window_size": int(random.integers(5)) if random.random() < 0.5 else (2, 3),
    }
    return arrays, {name: x for name, x in static.items() if random.random() < 0.4}


@pytest.mark.parametrize("seed", range(12))
def test_dot_product_attention_is_jaxs(seed):
    """But for rows that see no key, of which JAX makes the mean of all values."""
    random = np.random.default_rng(seed)
    arrays, static = random_call(random)
    dout = jnp.asarray(random.standard_normal(arrays["query"].shape), jnp.float32)
    floats = {name: x for name, x in arrays.items() if jnp.issubdtype(x.dtype, jnp.floating)}
    rest = {name: x for name, x in arrays.items() if name not in floats}

    def loss(floats, dout, function):
        out, residual = function(**floats, **rest, **static, return_residual=True)
        return jnp.sum(out.astype(jnp.float32) * dout), (out, residual)

    run = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=2)
    (_, (out, residual)), _ = run(floats, dout, dot_product_attention)
    alive = jnp.isfinite(residual)[..., None]
    assert not jnp.any(jnp.where(alive, 0, out))
    lengths = rest.get("query_seq_lengths", jnp.full(1, out.shape[-3]))[:, None]
    padding = (jnp.arange(out.shape[-3]) >= lengths)[..., None, None]
    padding = padding if out.ndim == 4 else padding[0]
    results = []
    for function in (dot_product_attention, jax.nn.dot_product_attention):
        (_, (out, residual)), gradients = run(floats, dout * (alive | padding), function)
        assert residual.dtype == out.dtype == arrays["query"].dtype
        alive_rows = jnp.where(alive, out, 0), jnp.where(alive[..., 0], residual, 0)
        results.append(jax.tree.leaves([alive_rows, gradients]))
    for got, want in zip(*results):
        check(got, want, BOUNDS[arrays["query"].dtype.name])


def test_without_a_residual_there_is_one_result(random):
    q, k, v = plain.inputs(random)
    out = dot_product_attention(q, k, v, is_causal=True)
    check(out, jax.nn.dot_product_attention(q, k, v, is_causal=True))


def test_another_implementation_is_jaxs_own(random):
    q, k, v = plain.inputs(random)
    lowered = jax.jit(dot_product_attention, static_argnames="implementation").lower
    assert "rapt_attention" not in lowered(q, k, v, implementation="xla").as_text()
    assert "rapt_attention" in lowered(q, k, v, implementation="rapt").as_text()
    with pytest.raises(ValueError, match="flax"):
        dot_product_attention(q, k, v, implementation="flax")


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_scale_may_be_learned(random, dtype, shape):
    q, k, v = (jnp.asarray(x, dtype) for x in plain.inputs(random))
    dout = random.standard_normal(q.shape).astype(np.float32)

    def loss(q, scale, function):
        out = function(q, k, v, scale=scale, is_causal=True)
        return jnp.sum(out.astype(jnp.float32) * dout), out

    gradients = jax.value_and_grad(loss, (0, 1), has_aux=True)
    scale = jnp.full(shape, 0.3)
    for run in (gradients, jax.jit(gradients, static_argnums=2)):
        (_, got), (dq, dscale) = run(q, scale, dot_product_attention)
        (_, want), (dq_there, dscale_there) = run(q, scale, jax.nn.dot_product_attention)
        check(got, want, BOUNDS[dtype])
        check(dq, dq_there, 2 * BOUNDS[dtype])
        check(dscale, dscale_there, 10 * BOUNDS[dtype])  # a sum over all rows
        assert dscale.shape == shape and dscale.dtype == scale.dtype


def test_each_example_may_have_a_scale(random):
    q, k, v = plain.inputs(random)
    attend = jax.vmap(lambda q, k, v, scale: dot_product_attention(q, k, v, scale=scale))
    got = attend(q, k, v, jnp.array([0.2, 0.7]))
    check(got, [dot_product_attention(*x, scale=s) for *x, s in zip(q, k, v, [0.2, 0.7])])


@pytest.mark.parametrize("axes", [3, 4])
def test_lengths_beyond_the_size_are_the_size(random, axes):
    q, k, v = plain.inputs(random)
    if axes == 3:
        q, k, v = q[0], k[0], v[0]
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        for pair in [(9, 3), (4, 2**31 - 1), (100, 100)]:
            lengths = {name: jnp.array(pair[: axes - 2], jnp.int32)}
            want = jax.nn.dot_product_attention(q, k, v, **lengths)
            check(dot_product_attention(q, k, v, **lengths), want)
            check(jax.jit(dot_product_attention)(q, k, v, **lengths), want)


def test_lengths_below_zero_are_zero(random):
    q, k, v = plain.inputs(random)
    out = dot_product_attention(q, k, v, key_value_seq_lengths=[-3, 7])
    assert not out[0].any() and np.isfinite(out[1]).all()
    assert not dot_product_attention(q, k, v, query_seq_lengths=[-1, 0]).any()


@pytest.mark.parametrize("name", ["query_seq_lengths", "key_value_seq_lengths"])
@pytest.mark.parametrize(
    "lengths, words",
    [
        ([3], r"has shape \(1,\); it takes \(2,\)"),
        (3, r"has shape \(\); it takes \(2,\)"),
        ([3, 3, 3], r"has shape \(3,\); it takes \(2,\)"),
        ([[3, 3]], r"has shape \(1, 2\); it takes \(2,\)"),
        ([3.0, 2.5], "is float32; it takes integers"),
        ([True, False], "is bool; it takes integers"),
    ],
)
def test_wrong_lengths_are_a_sentence(random, name, lengths, words):
    q, k, v = plain.inputs(random)
    with pytest.raises(ValueError, match=f"^{name} {words}"):
        dot_product_attention(q, k, v, **{name: jnp.array(lengths)})
    with pytest.raises(ValueError, match=f"^{name} {words}"):
        jax.jit(dot_product_attention)(q, k, v, **{name: jnp.array(lengths)})


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"scale": jnp.ones(3)}, ValueError, r"scale has shape \(3,\); it is one number"),
        ({"local_window_size": (-1, 2)}, ValueError, "window"),
        ({"query": np.ones((1, 4, 2, 8), np.int32)}, ValueError, "q is int32; rapt computes in"),
    ],
)
def test_what_jax_takes_and_rapt_does_not_is_a_sentence(arguments, error, words):
    with pytest.raises(error, match=words):
        dot_product_attention(**{"query": q, "key": q, "value": q} | arguments)


# Which of q, k, v, bias, kv_lengths, alibi and sinks vmap goes over, and along which axis.
AXES = {
    "everything": (0, 0, 0, 0, 0, 0, None),
    "other axes": (1, 4, 2, 3, 1, 1, None),
    "queries": (0, None, None, None, None, None, None),
    "keys and values": (None, 0, 0, None, None, None, None),
    "a bias": (None, None, None, 0, None, None, None),
    "lengths": (None, None, None, None, 0, None, None),
    "slopes": (None, None, None, None, None, 0, None),
}


def batch_of_calls(random, axes, batch=1):
    """Arrays for three calls, stacked along `axes`."""
    keys = (batch, 7, 2, 8)
    shapes = [(batch, 5, 4, 8), keys, keys, (1, 4, 5, 7), (batch,), (4,), (4,)]
    arrays = []
    for at, (shape, axis) in enumerate(zip(shapes, axes)):
        shape = list(shape)
        if axis is not None:
            shape.insert(axis, 3)
        is_lengths = at == 4
        numbers = random.integers(1, 8, shape) if is_lengths else random.standard_normal(shape)
        arrays.append(numbers.astype(np.int32 if is_lengths else np.float32))
    return arrays


def all_of_it(q, k, v, bias, lengths, alibi, sinks):
    return attention(q, k, v, bias=bias, kv_lengths=lengths, alibi=alibi, sinks=sinks)


def one_by_one(function, axes, arrays):
    results = []
    for i in range(3):
        each = [x if a is None else jnp.take(x, i, axis=a) for x, a in zip(arrays, axes)]
        results.append(function(*each))
    return jax.tree.map(lambda *parts: jnp.stack(parts), *results)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", AXES)
def test_vmap_is_one_call_over_a_larger_batch(name, batch, random):
    axes = AXES[name]
    arrays = batch_of_calls(random, axes, batch)
    mapped = jax.jit(jax.vmap(all_of_it, axes))
    check(mapped(*arrays), one_by_one(all_of_it, axes, arrays))
    program = mapped.lower(*arrays).as_text()
    assert program.count("custom_call @rapt_attention") == 1 and "while" not in program


def test_one_sequence_for_all_is_not_copied(random):
    """vmap over queries alone: the keys stay one sequence."""
    q, k, v = plain.inputs(random, (3, 1, 5, 4, 8), (1, 7, 2, 8))
    program = jax.jit(jax.vmap(attention, (0, None, None))).lower(q, k, v).as_text()
    assert "k@0," in program and "tensor<3x7x2x8xf32>" not in program


@pytest.mark.parametrize("name", ["everything", "queries", "a bias", "slopes"])
@pytest.mark.parametrize("batch", [1, 2])
def test_gradients_of_each_example(name, batch, random):
    axes = AXES[name]
    arrays = batch_of_calls(random, axes, batch)
    wanted = (0, 1, 2, 3, 5, 6)

    def gradients(*arrays):
        return jax.grad(lambda *arrays: jnp.sum(all_of_it(*arrays) ** 2), wanted)(*arrays)

    got = jax.jit(jax.vmap(gradients, axes))(*arrays)
    for one, other in zip(got, one_by_one(gradients, axes, arrays)):
        check(one, other, 2e-5)


def test_the_gradient_of_a_mapped_call(random):
    """What all examples share has the sum of their gradients."""
    axes = (0, 0, 0, None, 0, None, None)
    arrays = batch_of_calls(random, axes)

    def loss(function, *arrays):
        return jnp.sum(function(*arrays) ** 2)

    gradients = [
        jax.grad(functools.partial(loss, function), (0, 1, 2, 3, 5, 6))(*arrays)
        for function in (
            jax.vmap(all_of_it, axes),
            lambda *arrays: one_by_one(all_of_it, axes, arrays),
        )
    ]
    for got, want in zip(*gradients):
        check(got, want, 2e-5)


def test_vmap_in_vmap(random):
    q, k, v = plain.inputs(random, (2, 3, 5, 4, 8), (2, 7, 2, 8))
    every = jax.vmap(jax.vmap(attention, (0, None, None)), (0, 0, 0))
    want = [[rapt.attention(row, *keys) for row in rows] for rows, *keys in zip(q, k, v)]
    check(every(q, k, v), want)


def test_sinks_and_packed_sequences_are_mapped_one_by_one(random):
    q, k, v = plain.inputs(random, (3, 6, 4, 8), (3, 6, 4, 8))
    sinks = random.standard_normal((3, 4)).astype(np.float32)
    got = jax.vmap(lambda q, k, v, s: attention(q, k, v, sinks=s))(q, k, v, sinks)
    check(got, [rapt.attention(*x, sinks=s) for *x, s in zip(q, k, v, sinks)])
    starts = np.array([[0, 2, 6], [0, 0, 6], [0, 5, 6]], np.int32)
    got = jax.vmap(lambda q, k, v, s: attention(q, k, v, q_starts=s, kv_starts=s))(q, k, v, starts)
    each = zip(q, k, v, starts)
    check(got, [rapt.attention(*x, q_starts=s, kv_starts=s) for *x, s in each])


def test_a_loop_over_a_growing_cache(random):
    """A position that changes from step to step is the last of kv_lengths."""
    q, k, v = plain.inputs(random, (2, 7, 4, 8), (2, 7, 2, 8))

    def step(_, at):
        row = jax.lax.dynamic_slice_in_dim(q, at, 1, axis=1)
        return _, attention(row, k, v, causal=True, kv_lengths=jnp.full(2, at + 1))[:, 0]

    rows = jax.jit(lambda: jax.lax.scan(step, None, jnp.arange(7))[1])()
    check(rows.swapaxes(0, 1), rapt.attention(q, k, v, causal=True))


def test_rematerialised_gradients_are_the_same(random):
    arrays = plain.inputs(random)

    def loss(q, k, v):
        return jnp.sum(attention(q, k, v, causal=True) ** 2)

    want = jax.jit(jax.grad(loss))(*arrays)
    np.testing.assert_array_equal(jax.jit(jax.grad(jax.checkpoint(loss)))(*arrays), want)


def test_a_named_kernel_is_the_one_that_runs(random):
    lowered = jax.jit(functools.partial(attention, kernel="cpu.naive")).lower
    with jax.default_device(jax.devices("cpu")[0]):
        assert 'kernel = "cpu.naive"' in lowered(*plain.inputs(random)).as_text()
        with pytest.raises(LookupError, match="cpu.nave"):
            attention(*plain.inputs(random), kernel="cpu.nave")


q = np.zeros((1, 4, 2, 8), np.float32)


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"k": q[..., :4]}, ValueError, "dim"),
        ({"k": q[:, :, :, None]}, ValueError, "k has 5 axes"),
        ({"v": q.astype(np.float16)}, ValueError, "v is f16"),
        ({"k": np.zeros((2, 4, 2, 8), np.float32)}, ValueError, "batch"),
        ({"q": np.zeros((1, 4, 3, 8), np.float32)}, ValueError, "3 heads"),
        ({"q": q.astype(np.int32)}, ValueError, "q is int32; rapt computes in"),
        ({"q": jnp.zeros(q.shape, jnp.float8_e4m3fn)}, ValueError, "q is float8_e4m3fn"),
        ({"mask": np.ones((1, 1, 4, 5), bool)}, ValueError, "mask"),
        ({"mask": np.ones((1, 1, 4, 4), np.int32)}, ValueError, "mask is int32; it is bool"),
        ({"scale": 1e300}, ValueError, "scale is 1e.300, which f32 does not hold"),
        ({"softcap": 10**400}, ValueError, "softcap is an int that f64 does not hold"),
        ({"layout": "sbhd"}, ValueError, "layout is 'sbhd'"),
        ({"causal": True, "window": (1, 2, 3)}, ValueError, "window"),
    ],
)
def test_wrong_arguments_are_sentences_when_a_program_is_traced(arguments, error, words):
    arguments = {"q": q, "k": q, "v": q} | arguments
    arrays = {name: x for name, x in arguments.items() if hasattr(x, "shape")}
    static = {name: x for name, x in arguments.items() if name not in arrays}
    with pytest.raises(error, match=words):
        jax.eval_shape(lambda arrays: attention(**arrays, **static), arrays)


@pytest.mark.parametrize("name", ["offset", "causal", "window"])
def test_a_traced_number_is_a_sentence(name):
    with pytest.raises(TypeError, match=f"^{name} is traced.*kv_lengths"):
        jax.jit(lambda number: attention(q, q, q, **{name: number}))(1)


def test_a_platform_without_a_device_is_a_sentence():
    if any(device.backend == "cuda" for device in rapt.devices()):
        pytest.skip("rapt sees a CUDA device here")
    with pytest.raises(LookupError, match="cuda"):
        jax.jit(attention).trace(q, q, q).lower(lowering_platforms=("cuda",))


def test_programs_run_in_many_threads_at_once(random):
    q, k, v = plain.inputs(random, (2, 65, 4, 8), (2, 70, 2, 8))
    want = np.asarray(attention(q, k, v))
    program = jax.jit(attention)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for got in threads.map(lambda _: np.asarray(program(q, k, v)), range(40)):
            np.testing.assert_array_equal(got, want)


def test_a_size_that_is_not_known_is_a_sentence():
    unknown = jax.ShapeDtypeStruct(jax.export.symbolic_shape("b, 4, 2, 8"), jnp.float32)
    with pytest.raises(NotImplementedError, match="is .b, 4, 2, 8.*not known"):
        jax.export.export(jax.jit(attention))(unknown, unknown, unknown)


def test_a_second_derivative_is_a_sentence():
    def slope(q):
        return jnp.sum(jax.grad(lambda q: jnp.sum(attention(q, q, q) ** 2))(q))

    with pytest.raises(NotImplementedError, match="differentiated twice.*dot_product_attention"):
        jax.grad(slope)(q)


def test_pages_have_no_gradients(random):
    pages = random.standard_normal((3, 4, 2, 8)).astype(np.float32)

    def loss(q):
        return jnp.sum(attention(q, pages, pages, page_table=[[2, 0]], kv_lengths=[7]))

    assert np.isfinite(jax.jit(loss)(q))
    with pytest.raises(ValueError, match="page"):
        jax.grad(loss)(q)


def test_rapt_attention_points_at_rapt_jax():
    with pytest.raises(TypeError, match="traced.*rapt.jax.attention"):
        jax.jit(lambda q: rapt.attention(q, q, q))(q)


@pytest.mark.parametrize("number", [2**32 + 7, -(2**32) + 7, 2**63 - 1])
def test_wide_lengths_do_not_wrap_around(random, number):
    q, k, v = plain.inputs(random)
    want = rapt.attention(q, k, v, kv_lengths=[7, 4])
    with jax.enable_x64(True):
        wide, attend = jnp.array([7, number]), functools.partial(attention, q, k, v)
        compiled = jax.jit(lambda lengths: attend(kv_lengths=lengths))
        check(compiled(jnp.array([7, 4])), want)
        for call in (compiled, lambda lengths: attend(kv_lengths=lengths)):
            with pytest.raises(Exception, match=r"kv_lengths\[1\] is -?214748364[78]"):
                jax.block_until_ready(call(wide))
        for lengths in (np.array([7, number]), [7, number]):
            with pytest.raises(ValueError, match=f"kv_lengths has {number}; numbers are from"):
                attend(kv_lengths=lengths)
        with pytest.raises(ValueError, match=f"kv_lengths has {number}; numbers are from"):
            rapt.attention(*map(jnp.asarray, (q, k, v)), kv_lengths=wide)
    with pytest.raises(ValueError, match="kv_lengths is float64; it takes integers"):
        attention(q, k, v, kv_lengths=[7.5, 4])


@pytest.mark.parametrize("lengths", [[], np.array([]), jnp.array([])], ids=["list", "numpy", "jax"])
def test_no_lengths_are_of_any_type(lengths):
    none = jnp.asarray(q[:0])
    assert attention(none, none, none, kv_lengths=lengths).shape == none.shape
    compiled = jax.jit(lambda lengths: attention(none, none, none, kv_lengths=lengths))
    assert compiled(jnp.asarray(lengths)).shape == none.shape


SHARDED = """
import functools, jax, jax.numpy as jnp, numpy as np, rapt, rapt.jax
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
q = np.random.default_rng(0).standard_normal((4, 5, 2, 8)).astype(np.float32)
shared = jax.device_put(q, NamedSharding(mesh, P("data")))
try:
    jax.jit(rapt.jax.attention)(shared, shared, shared)
except NotImplementedError as error:
    print(error)
lengths = jax.device_put(np.full(4, 5, np.int32), shared.sharding)
for arguments in [{"q": shared}, {"kv_lengths": lengths}]:
    try:
        rapt.attention(**{"q": q, "k": q, "v": q} | arguments)
    except NotImplementedError as error:
        print("outside:", error)
data = {"mesh": mesh, "in_specs": P("data"), "out_specs": P("data"), "check_vma": False}
each = jax.shard_map(rapt.jax.attention, **data)
out, gradient = jax.jit(jax.value_and_grad(lambda q: jnp.sum(each(q, q, q) ** 2)))(shared)
want = jax.value_and_grad(lambda q: jnp.sum(rapt.jax.attention(q, q, q) ** 2))(q)
same = np.allclose(out, want[0]), np.allclose(gradient, want[1], atol=1e-5)
print("same:", *same, len(gradient.devices()))
"""


def test_sharding_is_refused_and_shard_map_is_not():
    two = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", SHARDED]
    text = subprocess.check_output(command, env=os.environ | two, text=True)
    assert "part of a program that is sharded over 2 devices" in text and "shard_map" in text
    for name in ("q", "kv_lengths"):
        assert f"outside: {name} is sharded over 2 devices" in text
    assert text.count("call rapt.jax.attention inside jax.shard_map") == 2
    assert "same: True True 2" in text
