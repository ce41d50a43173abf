"""rapt.merge: two results over disjoint sets of keys as one."""

import ml_dtypes
import numpy as np
import pytest

import plain
import rapt
from elsewhere import Elsewhere


def halves(random, dtype=np.float32, layout="bshd"):
    """Attention over keys 0 to 2 and over keys 3 to 6, and over all of them, as (out, lse)."""
    q, k, v = (array.astype(dtype) for array in plain.inputs(random))
    axis = 1
    if layout == "bhsd":
        q, k, v = (np.ascontiguousarray(x.swapaxes(1, 2)) for x in (q, k, v))
        axis = 2
    results = []
    for keys in [slice(0, 3), slice(3, 7), slice(None)]:
        at = (slice(None),) * axis + (keys,)
        results.append(rapt.attention(q, k[at], v[at], layout=layout, return_lse=True))
    return results


def close(got, want, bound=2e-6):
    for array, wanted in zip(got, want):
        array, wanted = array.astype(np.float64), wanted.astype(np.float64)
        np.testing.assert_allclose(array, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("layout", ["bshd", "bhsd"])
def test_merged_halves_are_the_whole(random, layout):
    first, second, whole = halves(random, layout=layout)
    merged = rapt.merge(first, second, layout=layout)
    assert isinstance(merged, tuple)
    close(merged, whole)
    into = tuple(map(np.empty_like, merged))
    assert rapt.merge(first, second, layout=layout, out=into)[0] is into[0]
    for array, want in zip(into, merged):
        np.testing.assert_array_equal(array, want)


def test_without_a_batch_axis(random):
    first, second, whole = ([array[0] for array in pair] for pair in halves(random))
    close(rapt.merge(tuple(first), tuple(second)), whole)


def test_the_result_may_be_one_of_the_sides(random):
    first, second, whole = halves(random)
    for into in [second, first]:
        copies = [tuple(map(np.copy, pair)) for pair in (first, second)]
        target = copies[0] if into is first else copies[1]
        assert rapt.merge(*copies, out=target)[1] is target[1]
        close(target, whole)


def with_one_moved_by_four(array):
    """A copy, and an array of the same shape that begins four elements later in its memory."""
    memory = np.concatenate([array.reshape(-1), np.zeros(4, array.dtype)])
    return memory[:-4].reshape(array.shape), memory[4:].reshape(array.shape)


def test_the_result_is_all_of_a_side_or_nothing_of_it(random):
    (out, lse), second, _ = halves(random)
    moved_out, moved_lse = with_one_moved_by_four(out), with_one_moved_by_four(lse)
    for name, first, into in [
        ("result.out shares memory with first.out", (moved_out[0], lse), (moved_out[1], lse)),
        ("result.lse shares memory with first.lse", (out, moved_lse[0]), (out, moved_lse[1])),
        ("result.lse shares memory with first.out", (out, lse), (out, out.reshape(-1)[:40])),
    ]:
        with pytest.raises(ValueError, match=f"merge: {name}; it needs memory of its own, or all"):
            rapt.merge(first, second, out=(into[0], into[1].reshape(lse.shape)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_partials_of_f32_become_a_result_of_sixteen_bits(random, dtype):
    first, second, _ = halves(random)
    out, lse = rapt.merge(first, second)
    assert out.dtype == np.float32  # as the first
    into = np.empty(out.shape, dtype), np.empty_like(lse)
    rapt.merge(first, second, out=into)
    np.testing.assert_array_equal(into[0], out.astype(dtype))  # rounded once, at the end
    np.testing.assert_array_equal(into[1], lse)


@pytest.mark.parametrize("dtype, bound", [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2)])
def test_a_new_result_has_the_type_of_the_first(random, dtype, bound):
    first, second, whole = halves(random, dtype)
    wide = first[0].astype(np.float32), first[1]
    for sides, want in [((first, second), dtype), ((wide, second), np.float32)]:
        merged = rapt.merge(*sides)
        assert merged[0].dtype == want and merged[1].dtype == np.float32
        close(merged, whole, bound)


def test_a_new_result_is_dense_and_can_be_written_to(random):
    first, second, whole = halves(random)
    views = np.repeat(first[0], 2, axis=2)[:, :, ::2], np.broadcast_to(first[1], first[1].shape)
    merged = rapt.merge(views, second)
    assert all(array.flags.c_contiguous and array.flags.writeable for array in merged)
    close(merged, whole)


@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_read_only_result_is_refused_and_stays_as_it_was(random, tmp_path, name):
    first, second, _ = halves(random)
    arrays = {"out": np.zeros_like(first[0]), "lse": np.zeros_like(first[1])}
    np.save(tmp_path / "mapped.npy", arrays[name])
    arrays[name] = np.load(tmp_path / "mapped.npy", mmap_mode="r")  # writing to it is a crash
    with pytest.raises(ValueError, match=f"result.{name} is read-only; give an array that can be"):
        rapt.merge(first, second, out=(arrays["out"], arrays["lse"]))
    assert not any(array.any() for array in arrays.values())


@pytest.mark.parametrize(
    "name", ["first.lse", "second.out", "second.lse", "result.out", "result.lse"]
)
def test_arrays_of_two_devices_are_refused(random, name):
    first, second, _ = halves(random)
    arrays = {"first": first, "second": second, "result": tuple(map(np.empty_like, first))}
    side, which = name.split(".")
    out, lse = arrays[side]
    arrays[side] = (Elsewhere(out), lse) if which == "out" else (out, Elsewhere(lse))
    with pytest.raises(ValueError, match=f"{name} lies on cuda:1 and first.out on cpu; copy one"):
        rapt.merge(arrays["first"], arrays["second"], out=arrays["result"])


def test_what_does_not_fit_is_refused(random):
    first, second, _ = halves(random)
    out, lse = first
    with pytest.raises(ValueError, match="second.out has sizes 1"):
        rapt.merge(first, (out[:1], lse[:1]))
    with pytest.raises(ValueError, match="merge takes pairs"):
        rapt.merge(first, (out,))
    with pytest.raises(TypeError, match="^first is a ndarray; merge takes pairs .out, lse.$"):
        rapt.merge(out, lse)
    with pytest.raises(TypeError, match="^out is a ndarray; merge takes pairs"):
        rapt.merge(first, second, out=out)
    with pytest.raises(ValueError, match="second.out has 4 axes and second.lse 2"):
        rapt.merge(first, (out, lse[0]))
    with pytest.raises(ValueError, match="the layout is 'sbhd'"):
        rapt.merge(first, second, layout="sbhd")
    with pytest.raises(ValueError, match="result.out has sizes 1"):
        rapt.merge(first, second, out=(np.empty_like(out[:1]), np.empty_like(lse[:1])))
