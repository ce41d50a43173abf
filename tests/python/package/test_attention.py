"""rapt.attention over NumPy arrays: what its arguments mean, what it gives back, what it refuses."""

import functools
import subprocess
import sys
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import plain
import rapt
from elsewhere import Elsewhere


def close(got, want, tolerance=2e-6):
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=0, atol=tolerance)


def test_grouped_heads_and_unequal_lengths(random):
    q, k, v = plain.inputs(random)
    close(rapt.attention(q, k, v), plain.attention(q, k, v)[0])


def test_causal_meets_the_last_key_with_the_last_query(random):
    q, k, v = plain.inputs(random)
    out, lse = rapt.attention(q, k, v, causal=True, return_lse=True)
    want_out, want_lse = plain.attention(q, k, v, plain.causal(5, 7))
    close(out, want_out)
    close(lse, want_lse)
    assert lse.shape == (2, 4, 5) and lse.dtype == np.float32


def test_results_of_sixteen_bits_can_be_f32(random):
    q, k, v = (x.astype(np.float16) for x in plain.inputs(random))
    got = rapt.attention(q, k, v, out_dtype="f32")
    assert got.dtype == np.float32
    assert (got.astype(np.float16) != got).any(), "not rounded to sixteen bits"
    close(got, plain.attention(q, k, v)[0], 2e-3)
    given = np.empty(got.shape, np.float32)
    assert rapt.attention(q, k, v, out=given) is given
    np.testing.assert_array_equal(given, got)
    with pytest.raises(ValueError, match="out_dtype is 'f64'; it is None, for q's type, or 'f32'"):
        rapt.attention(q, k, v, out_dtype="f64")


def test_slopes_are_of_heads_or_of_sequences_and_heads(random):
    q, k, v = plain.inputs(random)
    slopes = np.float32([0.5, 0.25, 0.125, 1.0])
    each = np.stack([slopes, 2 * slopes])
    got = rapt.attention(q, k, v, alibi=each)
    for b in range(2):
        alone = rapt.attention(q[b : b + 1], k[b : b + 1], v[b : b + 1], alibi=each[b])
        np.testing.assert_array_equal(got[b : b + 1], alone)
    assert " alibi:b" in rapt.problem(q, k, v, alibi=each)


def test_a_keyword_that_names_no_array_is_a_type_error(random):
    q, k, v = plain.inputs(random)
    for call in (rapt.attention, rapt.plan(q, k, v).run):
        with pytest.raises(TypeError) as caught:
            call(q, k, v, sinkss=None)
        assert str(caught.value).endswith("keyword argument 'sinkss'; did you mean 'sinks'?")
    with pytest.raises(TypeError, match="'casual'; did you mean 'causal'.$"):
        rapt.attention(q, k, v, casual=True)
    with pytest.raises(TypeError, match="^rapt.explain.. got an .* 'kernal'; did you mean 'kernel'.$"):
        rapt.explain("b1 h1 s4 d8", kernal="cpu.flash")
    with pytest.raises(TypeError, match="^rapt.Plan.. got an .* 'nonsense'; there are problem, device"):
        rapt.Plan("b1 h1 s4 d8", nonsense=1)
    with pytest.raises(TypeError, match="'softmax_scale'; did you mean 'scale'.$"):
        rapt.attention(q, k, v, softmax_scale=1.0)


def test_what_takes_no_arguments_says_so():
    for function in (rapt.devices, rapt.kernels, rapt.version):
        with pytest.raises(TypeError, match=f"^rapt.{function.__name__}.. takes no arguments; it got 'a'$"):
            function(a=1)
        with pytest.raises(TypeError, match=f"^rapt.{function.__name__}.. takes no arguments$"):
            function(1)


@pytest.mark.parametrize("text", ["\ud800", "bshd\0x", "sinks\0x"])
def test_strings_that_utf8_or_c_would_not_hold_are_told(random, text):
    q, k, v = plain.inputs(random)
    for call in (
        functools.partial(rapt.attention, q, k, v),
        functools.partial(rapt.plan(q, k, v).run, q, k, v),
        functools.partial(rapt.merge, (q, k), (q, k)),
        functools.partial(rapt.explain, "b1 h1 s4 d8"),
        functools.partial(rapt.Plan, "b1 h1 s4 d8"),
    ):
        with pytest.raises(TypeError) as caught:
            call(**{text: 1})
        assert f"an unexpected keyword argument {text!r}; " in str(caught.value)
    for name, call in {
        "layout": lambda: rapt.attention(q, k, v, layout=text),
        "kernel": lambda: rapt.attention(q, k, v, kernel=text),
        "problem": lambda: rapt.explain(text),
        "device": lambda: rapt.Plan("b1 h1 s4 d8", device=text),
    }.items():
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value).startswith(f"{name} is {text!r}; it is a string without NUL")


def test_a_type_from_nowhere_is_told(random):
    q, k, v = plain.inputs(random)
    for module in (3, "\ud800"):
        with pytest.raises(ValueError, match="^k is a Stray; rapt takes arrays that speak DLPack"):
            rapt.attention(q, type("Stray", (), {"__module__": module})(), v)


POSITIONS = {
    "rapt.attention() takes q, k, v; v is missing or None": lambda q, k, v: rapt.attention(q, k),
    "rapt.attention() takes q, k, v; k, v are missing or None": lambda q, k, v: rapt.attention(
        q, v=None
    ),
    "rapt.problem() takes 3 arguments by position (q, k, v), not 4; name the others": (
        lambda q, k, v: rapt.problem(q, k, v, True)
    ),
    "rapt.Plan.run() takes q, k, v; v is missing": lambda q, k, v: rapt.plan(q, k, v).run(q, k),
    "rapt.Plan() takes problem; problem is missing": lambda q, k, v: rapt.Plan(),
    "rapt.explain() takes 1 argument by position (problem), not 2": lambda q, k, v: rapt.explain(
        "b1 h1 s4 d8", "cpu"
    ),
    "rapt.merge() takes first, second; second is missing": lambda q, k, v: rapt.merge((q, k)),
    "rapt.attention() got q twice": lambda q, k, v: rapt.attention(q, k, v, q=q),
    "rapt.attention_backward() got k twice": lambda q, k, v: rapt.attention_backward(
        q, k, v, k=k, out=q, lse=q, dout=q
    ),
    "rapt.problem() got v twice": lambda q, k, v: rapt.problem(q, k, v, v=None),
    "rapt.Plan.run() got v twice": lambda q, k, v: rapt.plan(q, k, v).run(q, k, v, v=v),
    "rapt.Plan() got problem twice": lambda q, k, v: rapt.Plan("b1 h1 s4 d8", problem="b1"),
    "rapt.explain() got problem twice": lambda q, k, v: rapt.explain("b1", problem="b1"),
    "rapt.merge() got first twice": lambda q, k, v: rapt.merge((q, k), (q, k), first=(q, k)),
}


@pytest.mark.parametrize("sentence", POSITIONS)
def test_arguments_by_position_that_lack_or_are_too_many_are_told(random, sentence):
    with pytest.raises(TypeError) as caught:
        POSITIONS[sentence](*plain.inputs(random))
    assert sentence in str(caught.value)


def test_what_is_taken_by_position_may_be_named(random):
    q, k, v = plain.inputs(random)
    want = rapt.attention(q, k, v)
    np.testing.assert_array_equal(rapt.attention(v=v, q=q, k=k), want)
    np.testing.assert_array_equal(rapt.plan(q=q, k=k, v=v).run(q, v=v, k=k), want)
    assert str(rapt.explain(problem="b1 h1 s4 d8")) == str(rapt.explain("b1 h1 s4 d8"))
    assert rapt.Plan(problem="b1 h1 s4 d8").problem == rapt.Plan("b1 h1 s4 d8").problem
    pair = rapt.attention(q, k, v, return_lse=True)
    for got, want in zip(rapt.merge(second=pair, first=pair), rapt.merge(pair, pair)):
        np.testing.assert_array_equal(got, want)


KINDS = {
    "softcap is a str; it is a number": {"softcap": "x"},
    "scale is a list; it is a number": {"scale": [1.0]},
    "dropout_p is a str; it is a number": {"dropout_p": "0.5"},
    "causal is None; it is True or False (or 1 or 0)": {"causal": None},
    "tf32 is a float; it is True or False": {"tf32": 1.0},
    "offset is a float; it is a whole number": {"offset": 1.0},
    "first_keys is a ndarray; it is a whole number": {"first_keys": np.zeros(2), "window": 2},
    "a bound of the window is a float; it is a whole number": {"window": (2.5, 1)},
    "layout is an int; it is a string": {"layout": 3},
    "kernel is a bytes; it is a string": {"kernel": b"cpu.flash"},
    "out_dtype is a type; it is a string": {"out_dtype": np.float32},
}


@pytest.mark.parametrize("sentence", KINDS)
def test_an_argument_of_another_kind_is_named(random, sentence):
    for call in (rapt.attention, rapt.plan):
        with pytest.raises(TypeError) as caught:
            call(*plain.inputs(random), **KINDS[sentence])
        assert str(caught.value).startswith(sentence)


def test_strings_of_a_problem_are_strings(random):
    for call in (rapt.explain, rapt.Plan):
        with pytest.raises(TypeError, match="^problem is an int; it is a string$"):
            call(3)
        with pytest.raises(TypeError, match="^device is None; it is a string$"):
            call("b1 h1 s4 d8", device=None)


def test_a_number_too_large_for_64_bits_is_told(random):
    with pytest.raises(ValueError, match="offset is 1180591620717411303424, which 64 bits do not"):
        rapt.attention(*plain.inputs(random), offset=2**70)


def test_help_shows_the_text_of_the_stubs():
    assert "no key after the query's position" in rapt.attention.__doc__
    assert "kv_lengths: Indices" in rapt.attention.__doc__
    assert "to be run many times" in rapt.Plan.__doc__
    assert "problem: str, *, device" in rapt.Plan.__init__.__doc__
    assert "layout is the plan's unless given" in rapt.Plan.run.__doc__
    assert "over two disjoint sets of keys" in rapt.merge.__doc__


@pytest.mark.parametrize("true", [1, np.bool_(True), np.int64(1)], ids=repr)
def test_whatever_is_true_is_true(random, true):
    q, k, v = plain.inputs(random)
    want = rapt.attention(q, k, v, causal=True)
    np.testing.assert_array_equal(rapt.attention(q, k, v, causal=true), want)
    with pytest.raises(TypeError, match="^causal is a str; it is True or False"):
        rapt.attention(q, k, v, causal="no")


@pytest.mark.parametrize("number", [2, -1, np.int64(2)])
def test_other_numbers_are_neither_true_nor_false(random, number):
    with pytest.raises(ValueError, match="^causal is .*; it is True or False .or 1 or 0.$"):
        rapt.attention(*plain.inputs(random), causal=number)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_lengths_are_integers(random, dtype):
    lengths = np.array([7, 4], dtype)
    with pytest.raises(ValueError, match=f"^kv_lengths is {dtype}; .* takes lengths, .* as integers"):
        rapt.attention(*plain.inputs(random), kv_lengths=lengths)


def test_lists_and_wide_integers_are_taken(random):
    q, k, v = plain.inputs(random)
    slopes = [0.5, 0.25, 0.125, 1]
    want = rapt.attention(q, k, v, kv_lengths=np.int32([7, 4]), alibi=np.float32(slopes))
    for lengths in ([7, 4], (7, 4), np.array([7, 4]), np.int16([7, 4]), np.uint8([7, 4])):
        got = rapt.attention(q, k, v, kv_lengths=lengths, alibi=slopes)
        np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="kv_lengths is a list of something else than integers"):
        rapt.attention(q, k, v, kv_lengths=[7.5, 4])


@pytest.mark.parametrize("number", [2**32 + 7, 2**31, -(2**31) - 1, -(2**63), 2**63, -(2**80)])
def test_integers_that_int32_does_not_hold_are_named(random, number):
    q, k, v = plain.inputs(random)
    fits = -(2**63) <= number < 2**63
    for lengths in ([7, number], (7, number), *([np.array([7, number])] if fits else [])):
        with pytest.raises(ValueError, match=f"kv_lengths has {number}; numbers are from"):
            rapt.attention(q, k, v, kv_lengths=lengths)
    with pytest.raises(ValueError, match="kv_lengths has 18446744073709551615"):
        rapt.attention(q, k, v, kv_lengths=np.uint64([7, 2**64 - 1]))


def test_lengths_is_another_name_of_kv_lengths(random):
    q, k, v = plain.inputs(random)
    want = rapt.attention(q, k, v, kv_lengths=[7, 4])
    np.testing.assert_array_equal(rapt.attention(q, k, v, lengths=[7, 4]), want)
    with pytest.raises(ValueError, match="one argument by two names"):
        rapt.attention(q, k, v, lengths=[7, 4], kv_lengths=[7, 4])


def test_arrays_of_the_other_layout_get_a_hint(random):
    q, k, v = (x.swapaxes(1, 2).copy() for x in plain.inputs(random))
    for call in (rapt.attention, rapt.plan, rapt.problem):
        with pytest.raises(ValueError, match=r"The layout is bshd: .* give layout=.bhsd.$"):
            call(q, k, v)
    with pytest.raises(ValueError, match=r"give layout=.bshd.$"):
        rapt.attention(*plain.inputs(random), layout="bhsd")


INTERRUPTED = """
import numpy as np, os, rapt, signal, threading
q = np.ones((1, 32768, 8, 64), np.float32)
out = np.full_like(q, np.nan)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    {call}
except KeyboardInterrupt:
    few = q[:, :4]
    assert np.allclose(rapt.attention(few, few, few), 1)
    print("interrupted", "before the end" if np.isnan(out).any() else "at the end")
"""


LONG = {
    "flash": "rapt.attention(q, q, q, out=out)",
    "oracle": "rapt.attention(q, q, q, out=out, kernel='cpu.oracle')",
    "oracle backward": """lse = np.zeros(q.shape[:1] + q.shape[2:0:-1], np.float32)
    rapt.attention_backward(
        q, q, q, out=q, lse=lse, dout=q, dq=out, kernel="cpu.oracle_backward"
    )""",
}


@pytest.mark.parametrize("call", LONG)
def test_a_long_call_can_be_interrupted(call):
    program = INTERRUPTED.format(call=LONG[call])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "interrupted before the end\n", done.stderr


def test_an_offset_places_the_first_query(random):
    q, k, v = plain.inputs(random)
    got = rapt.attention(q, k, v, causal=True, offset=0)
    close(got, plain.attention(q, k, v, plain.causal(5, 7, 0))[0])


@pytest.mark.parametrize(
    "window, left, right",
    [
        (2, 2, 9), (np.int64(2), 2, 9), ([np.int8(2), None], 2, 9), ((2, None), 2, 9),
        ((None, 1), 9, 1), ((1, 2), 1, 2),
    ],  # fmt: skip
)
def test_a_window_is_a_left_bound_or_a_pair(random, window, left, right):
    q, k, v = plain.inputs(random)
    distance = np.arange(7) - (np.arange(5)[:, None] + 2)
    visible = (distance >= -left) & (distance <= right)
    close(rapt.attention(q, k, v, window=window), plain.attention(q, k, v, visible)[0])


def test_first_keys_are_seen_beside_a_window(random):
    q, k, v = plain.inputs(random)
    key, position = np.arange(7), np.arange(5)[:, None] + 2
    visible = (key <= position) & ((key >= position - 1) | (key < 2))
    got = rapt.attention(q, k, v, causal=True, window=1, first_keys=2)
    close(got, plain.attention(q, k, v, visible)[0])
    assert rapt.problem(q, k, v, window=(1, 3), first_keys=2).endswith("f32 window1:3+2")


def test_bias_and_mask_broadcast_as_in_numpy(random):
    q, k, v = plain.inputs(random)
    bias = random.standard_normal((4, 1, 7)).astype(np.float32)
    mask = random.random((5, 7)) < 0.7
    got = rapt.attention(q, k, v, bias=bias, mask=mask)
    close(got, plain.attention(q, k, v, mask, bias)[0])


def test_alibi_softcap_sinks_and_scale_reach_the_library(random):
    q, k, v = plain.inputs(random)
    slopes = np.array([0.5, 0.25, 0.125, 0.0625], np.float32)
    distance = np.abs(np.arange(7) - (np.arange(5)[:, None] + 2))
    bias = -slopes[:, None, None] * distance
    close(rapt.attention(q, k, v, alibi=slopes), plain.attention(q, k, v, bias=bias)[0])
    for scale in [0.1, 0, -0.7]:
        close(rapt.attention(q, k, v, scale=scale), plain.attention(q, k, v, scale=scale)[0])
    text = rapt.problem(q, k, v, softcap=30, sinks=slopes)
    assert text == "b2 h4/2 q5 kv7 d8 f32 softcap30 sinks"


def test_a_sink_takes_part_of_the_weight(random):
    q, k, v = plain.inputs(random)
    sinks = np.array([0, 1, -1, 3], np.float32)
    out, lse = plain.attention(q, k, v)
    share = 1 / (1 + np.exp(sinks[:, None] - lse))  # (batch, head, seq)
    close(rapt.attention(q, k, v, sinks=sinks), out * share.transpose(0, 2, 1)[..., None])


def test_heads_may_come_before_the_sequence(random):
    q, k, v = plain.inputs(random)
    heads_first = [np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v)]
    out, lse = rapt.attention(*heads_first, layout="bhsd", return_lse=True)
    want_out, want_lse = plain.attention(q, k, v)
    assert out.shape == (2, 4, 5, 8)
    close(out.swapaxes(1, 2), want_out)
    close(lse, want_lse)


def test_without_a_batch_axis_there_is_one_sequence(random):
    q, k, v = plain.inputs(random, (1, 5, 4, 8), (1, 7, 2, 8))
    out, lse = rapt.attention(q[0], k[0], v[0], return_lse=True)
    assert out.shape == (5, 4, 8) and lse.shape == (4, 5)
    close(out, plain.attention(q, k, v)[0][0])


def test_packed_sequences_do_not_see_each_other(random):
    starts = np.array([0, 3, 3, 10], np.int32)
    q, k, v = (random.standard_normal((10, 2, 8)).astype(np.float32) for _ in range(3))
    out, lse = rapt.attention(
        q, k, v, q_starts=starts, kv_starts=starts, causal=True, return_lse=True
    )
    assert lse.shape == (2, 10)
    for begin, end in [(0, 3), (3, 10)]:
        part = [x[None, begin:end] for x in (q, k, v)]
        want, want_lse = plain.attention(*part, plain.causal(end - begin, end - begin))
        close(out[begin:end], want[0])
        close(lse[:, begin:end], want_lse[0])


def test_pages_and_lengths(random):
    q = random.standard_normal((2, 1, 4, 8)).astype(np.float32)
    k, v = (random.standard_normal((5, 4, 2, 8)).astype(np.float32) for _ in range(2))
    table = np.array([[4, 0, 2], [1, 3, 3]], np.int32)
    lengths = np.array([9, 6], np.int32)
    out = rapt.attention(q, k, v, page_table=table, lengths=lengths)
    for b, length in enumerate(lengths):
        keys, values = (x[table[b]].reshape(1, 12, 2, 8)[:, :length] for x in (k, v))
        close(out[b], plain.attention(q[b : b + 1], keys, values)[0][0])


@pytest.mark.parametrize("dtype, bound", [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2)])
def test_sixteen_bit_types_stay_what_they_are(random, dtype, bound):
    q, k, v = plain.inputs(random, dtype=dtype)
    out = rapt.attention(q, k, v)
    assert out.dtype == dtype
    close(out, plain.attention(q, k, v)[0], bound)


def test_strides_are_taken_as_they_are(random):
    q, k, v = plain.inputs(random)
    wide = np.zeros((2, 7, 2, 20), np.float32)
    wide[..., 3:11] = k
    sliced = wide[..., 3:11]
    shared = np.broadcast_to(v[:1], v.shape)  # read-only, stride 0
    close(rapt.attention(q, sliced, shared), plain.attention(q, k, shared)[0])


def test_out_is_written_in_place(random):
    q, k, v = plain.inputs(random)
    out = np.zeros((2, 5, 8, 8), np.float32)[:, :, ::2]
    lse = np.zeros((2, 4, 5), np.float32)
    result = rapt.attention(q, k, v, return_lse=True, out=(out, lse))
    assert result[0] is out and result[1] is lse
    want_out, want_lse = plain.attention(q, k, v)
    close(out, want_out)
    close(lse, want_lse)


def test_results_may_lie_between_the_rows_of_other_arrays(random):
    q, k, v = plain.inputs(random)
    rows = np.zeros((2, 5, 4, 17), np.float32)
    rows[..., :8] = q
    lse = rows[..., 16].swapaxes(1, 2)
    out, _ = rapt.attention(rows[..., :8], k, v, return_lse=True, out=(rows[..., 8:16], lse))
    want_out, want_lse = plain.attention(q, k, v)
    close(out, want_out)
    close(lse, want_lse)


SHARED = {
    "out shares memory with q": lambda q, k, v, lse: (q, k, v, (q, lse)),
    "out shares memory with v": lambda q, k, v, lse: (
        q, k, v, (v.reshape(-1)[8 : 8 + 160].reshape(1, 5, 4, 8), lse),
    ),
    "lse shares memory with k": lambda q, k, v, lse: (
        q, k, v, (np.empty_like(q), k.reshape(-1)[30:50].reshape(1, 4, 5)),
    ),
    "out shares memory with lse": lambda q, k, v, lse: (
        q, k, v, (q.copy(), None),
    ),
}  # fmt: skip


@pytest.mark.parametrize("sentence", SHARED)
def test_a_result_shares_no_memory_with_other_arrays(random, sentence):
    q, k, v = plain.inputs(random, (1, 5, 4, 8), (1, 40, 2, 8))
    q, k, v, (out, lse) = SHARED[sentence](q, k, v, np.empty((1, 4, 5), np.float32))
    lse = out.reshape(-1)[-20:].reshape(1, 4, 5) if lse is None else lse
    before = q.copy(), k.copy(), v.copy()
    with pytest.raises(ValueError, match=f"{sentence}; it needs memory of its own"):
        rapt.attention(q, k, v, return_lse=True, out=(out, lse))
    for array, copy in zip((q, k, v), before):
        np.testing.assert_array_equal(array, copy)


def test_nothing_to_see_gives_zeros(random):
    q, k, v = plain.inputs(random)
    out, lse = rapt.attention(q, k[:, :0], v[:, :0], return_lse=True)
    assert not out.any() and np.isneginf(lse).all()


def test_other_threads_run_while_rapt_computes(random):
    q, k, v = plain.inputs(random, (1, 512, 8, 64), (1, 512, 8, 64))
    computing, steps_meanwhile = threading.Event(), 0

    def compute():
        computing.set()
        rapt.attention(q, k, v, kernel="cpu.oracle")
        computing.clear()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # a thread runs until it gives the GIL away by itself
    try:
        thread = threading.Thread(target=compute)
        thread.start()
        computing.wait()
        while computing.is_set():
            steps_meanwhile += 1
            time.sleep(0.001)
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert steps_meanwhile > 0


def test_many_threads_may_call_at_once(random):
    q, k, v = plain.inputs(random, (1, 40, 4, 16), (1, 40, 4, 16))
    want, wrong = rapt.attention(q, k, v, causal=True, kernel="cpu.flash"), []

    def work():
        for _ in range(100):
            got = rapt.attention(q, k, v, causal=True, kernel="cpu.flash")
            if not np.array_equal(got, want):
                wrong.append(got)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


REFUSALS = {
    "v is float64": lambda q, k, v: rapt.attention(q, k, v.astype(np.float64)),
    "k is a list": lambda q, k, v: rapt.attention(q, k.tolist(), v),
    "q has 2 axes": lambda q, k, v: rapt.attention(q[0, 0], k, v),
    "k is f16; the problem wants f32": lambda q, k, v: rapt.attention(q, k.astype("f2"), v),
    "4 heads cannot share 3 kv heads": lambda q, k, v: rapt.attention(
        q, np.repeat(k, 2, 2)[:, :, :3], np.repeat(v, 2, 2)[:, :, :3]
    ),
    "the layout is 'sbhd'": lambda q, k, v: rapt.attention(q, k, v, layout="sbhd"),
    "kv_lengths is float64": lambda q, k, v: rapt.attention(q, k, v, kv_lengths=np.ones(2)),
    "kv_lengths has 2 axes; it needs 1": lambda q, k, v: rapt.attention(
        q, k, v, kv_lengths=np.ones((2, 1), np.int32)
    ),
    "out is read-only": lambda q, k, v: rapt.attention(q, k, v, out=np.broadcast_to(q, q.shape)),
    "lse is read-only": lambda q, k, v: rapt.attention(
        q, k, v, return_lse=True, out=(np.empty_like(q), np.broadcast_to(np.float32(0), (2, 4, 5)))
    ),
    "k lies on cuda:1 and q on cpu": lambda q, k, v: rapt.attention(q, Elsewhere(k), v),
    "out lies on cuda:1 and q on cpu": lambda q, k, v: rapt.attention(
        q, k, v, out=Elsewhere(np.empty_like(q))
    ),
    "give a pair (out, lse)": lambda q, k, v: rapt.attention(
        q, k, v, out=np.empty((3, 5, 4, 8), "f4"), return_lse=True
    ),
    "out is (2, 3, 4, 8); the result is (2, 5, 4, 8)": lambda q, k, v: rapt.attention(
        q, k, v, out=np.empty((2, 3, 4, 8), "f4")
    ),
    "q's last axis has stride 2": lambda q, k, v: rapt.attention(
        np.repeat(q, 2, 3)[..., ::2], k, v
    ),
    "the scale is nan": lambda q, k, v: rapt.attention(q, k, v, scale=np.nan),
    "the scale is -inf": lambda q, k, v: rapt.attention(q, k, v, scale=-np.inf),
    "scale is 1e+300, which f32 does not hold": lambda q, k, v: rapt.attention(
        q, k, v, scale=1e300
    ),
    "softcap is 3.5e+38, which f32 does not hold": lambda q, k, v: rapt.attention(
        q, k, v, softcap=np.float64(3.5e38)
    ),
    "scale is an int that f64 does not hold": lambda q, k, v: rapt.attention(
        q, k, v, scale=-(10**400)
    ),
    "dropout is an int that f64 does not hold": lambda q, k, v: rapt.attention(
        q, k, v, dropout=10**400
    ),
    "q is int64; rapt computes in float32, float16 and bfloat16": lambda q, k, v: rapt.attention(
        q.astype("i8"), k, v
    ),
    "k is int32; rapt computes in float32, float16 and bfloat16": lambda q, k, v: rapt.attention(
        q, k.astype("i4"), v
    ),
    "v is bool; rapt computes in": lambda q, k, v: rapt.attention(q, k, v > 0),
    "mask is int64; it is bool": lambda q, k, v: rapt.attention(
        q, k, v, mask=np.ones((5, 7), "i8")
    ),
    "mask is float32; it is bool": lambda q, k, v: rapt.attention(
        q, k, v, mask=np.zeros((5, 7), "f4")
    ),
    "kv_lengths is a list whose rows are not of one length": lambda q, k, v: rapt.attention(
        q, k, v, kv_lengths=[[7], [4, 3]]
    ),
    "'1e999' is not a number that fits f64": lambda q, k, v: rapt.explain(
        "b1 h1 s4 d8 dropout1e999"
    ),
    "'\\xc3' is not an axis": lambda q, k, v: rapt.explain("b1 h1 s4 d8 bias:é"),
    "neither a number of keys nor a pair": lambda q, k, v: rapt.attention(q, k, v, window="3"),
    "4 first keys stand beside a window without a left bound": lambda q, k, v: rapt.attention(
        q, k, v, window=(None, 3), first_keys=4
    ),
    "lse has 4 axes": lambda q, k, v: rapt.attention(
        q, k, v, return_lse=True, out=(np.empty_like(q), np.empty((1, 2, 4, 5), "f4"))
    ),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_bad_input_gets_a_sentence(random, sentence):
    with pytest.raises(ValueError) as caught:
        REFUSALS[sentence](*plain.inputs(random))
    assert sentence in str(caught.value)


def test_kinds_of_errors_are_kinds_of_exceptions(random):
    q, k, v = plain.inputs(random)
    with pytest.raises(LookupError, match="there is no kernel 'cpu.fast'"):
        rapt.attention(q, k, v, kernel="cpu.fast")
    with pytest.raises(NotImplementedError, match="bf16 only"):
        rapt.attention(q, k, v, kernel="cpu.flash_amx")


def test_memory_of_rapt_is_an_array_of_any_library():
    from rapt._rapt import Memory

    array = np.from_dlpack(Memory("cpu", (2, 3), "f32"))
    assert array.shape == (2, 3) and array.dtype == np.float32
    array = array + 1  # the memory outlives the object that made it
    assert array.shape == (2, 3)
