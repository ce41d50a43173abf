"""`rapt run` against a softmax written in NumPy from the formulas, and against hostile files."""

import os
import stat
import subprocess

import numpy as np
import pytest

from command_line import Rapt
from reference import round_to


@pytest.fixture
def rapt(program, tmp_path):
    return Rapt(program, tmp_path / "cache")


@pytest.fixture
def random():
    return np.random.default_rng(20240229)


def plain_attention(q, k, v, *, left=None, right=None, first_keys=0, offset=None, scale=None,
                    softcap=0.0, bias=None, mask=None, alibi=None, sinks=None):
    """Out (b, s, h, d) and lse (b, h, s) in float64; q, k, v are (b, s, h, d)."""
    q, k, v = (np.asarray(a, np.float64).transpose(0, 2, 1, 3) for a in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    q_len, kv_len = q.shape[2], k.shape[2]
    scores = q @ k.swapaxes(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    position = np.arange(q_len)[:, None] + (kv_len - q_len if offset is None else offset)
    key = np.arange(kv_len)[None, :]
    if alibi is not None:
        scores = scores - alibi[None, :, None, None] * np.abs(position - key)
    visible = np.ones(scores.shape, bool)
    if left is not None:
        visible &= (key >= position - left) | (key < first_keys)
    if right is not None:
        visible &= key <= position + right
    if mask is not None:
        visible &= mask.astype(bool)
    scores = np.where(visible, scores, -np.inf)
    sink = np.full(q.shape[1], -np.inf) if sinks is None else np.asarray(sinks, np.float64)
    sink = np.broadcast_to(sink[None, :, None], scores.shape[:3])
    largest = np.maximum(scores.max(axis=3, initial=-np.inf), sink)
    shift = np.where(np.isfinite(largest), largest, 0)
    weights = np.exp(scores - shift[..., None])
    total = weights.sum(axis=3) + np.exp(sink - shift)
    with np.errstate(divide="ignore"):
        lse = shift + np.log(total)
    out = weights @ v / np.where(total > 0, total, 1)[..., None]
    return out.transpose(0, 2, 1, 3), lse


def inputs(random, batch=2, heads=4, kv_heads=2, q_len=5, kv_len=9, dim=8, v_dim=6,
           dtype=np.float32):
    return {
        "q": random.standard_normal((batch, q_len, heads, dim)).astype(dtype),
        "k": random.standard_normal((batch, kv_len, kv_heads, dim)).astype(dtype),
        "v": random.standard_normal((batch, kv_len, kv_heads, v_dim)).astype(dtype),
    }


def save(folder, arrays):
    """The files of a run, and its arguments that name them."""
    arguments = ["run"]
    for name, array in arrays.items():
        path = folder / f"{name}.npy"
        np.save(path, array)
        arguments += [path] if name in ("q", "k", "v") else [f"--{name}", path]
    return arguments + ["-o", folder / "out.npy"]


def run(rapt, folder, arrays, *options):
    assert rapt.ok(*save(folder, arrays), *options) == ""
    return np.load(folder / "out.npy")


def close(result, expected, tolerance=4e-6):
    assert result.shape == expected.shape
    assert np.linalg.norm(result - expected) <= tolerance * max(np.linalg.norm(expected), 1e-30)


CASES = {
    "plain": ([], {}),
    "causal": (["--causal"], {"right": 0}),
    "window": (["--window", "2:1"], {"left": 2, "right": 1}),
    "left window": (["--window", "3:"], {"left": 3}),
    "right window": (["--window", ":2"], {"right": 2}),
    "causal window": (["--causal", "--window", "2:"], {"left": 2, "right": 0}),
    "window and first keys": (["--window", "1:2+2"], {"left": 1, "right": 2, "first_keys": 2}),
    "causal window and first keys": (
        ["--causal", "--window", "2:+3"], {"left": 2, "right": 0, "first_keys": 3}
    ),
    "offset": (["--causal", "--offset", "0"], {"right": 0, "offset": 0}),
    "offset before the keys": (["--causal", "--offset", "-2"], {"right": 0, "offset": -2}),
    "scale": (["--scale", "0.25"], {"scale": 0.25}),
    "negative scale": (["--scale", "-0.25"], {"scale": -0.25}),
    "scale 0": (["--scale", "0"], {"scale": 0}),
    "soft cap": (["--softcap", "1.5"], {"softcap": 1.5}),
    "oracle": (["--causal", "--kernel", "cpu.oracle"], {"right": 0}),
    "one thread": (["--threads", "1", "--device", "cpu"], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_run_agrees_with_numpy(rapt, tmp_path, random, name):
    options, keywords = CASES[name]
    arrays = inputs(random)
    out = run(rapt, tmp_path, arrays, *options, "--lse", tmp_path / "lse.npy")
    expected, expected_lse = plain_attention(**arrays, **keywords)
    assert out.dtype == np.float32
    close(out, expected)
    lse = np.load(tmp_path / "lse.npy")
    assert lse.dtype == np.float32 and lse.shape == expected_lse.shape
    seen = np.isfinite(expected_lse)
    assert np.array_equal(np.isneginf(lse), ~seen)
    np.testing.assert_allclose(lse[seen], expected_lse[seen], rtol=1e-5, atol=1e-5)


EXTRAS = {
    "bias": lambda r: {"bias": r.standard_normal((2, 4, 5, 9)).astype(np.float32)},
    "broadcast bias": lambda r: {"bias": r.standard_normal((1, 4, 1, 9)).astype(np.float32)},
    "mask": lambda r: {"mask": r.random((2, 4, 5, 9)) < 0.6},
    "broadcast mask": lambda r: {"mask": r.random((2, 1, 5, 1)) < 0.6},
    "mask of bytes": lambda r: {"mask": r.integers(0, 3, (1, 1, 5, 9), np.uint8)},
    "alibi": lambda r: {"alibi": r.random(4).astype(np.float32)},
    "sinks": lambda r: {"sinks": r.standard_normal(4).astype(np.float32)},
    "all of them": lambda r: {
        "bias": r.standard_normal((2, 1, 5, 9)).astype(np.float32),
        "mask": r.random((1, 4, 5, 9)) < 0.4,
        "alibi": r.random(4).astype(np.float32),
        "sinks": r.standard_normal(4).astype(np.float32),
    },
}


@pytest.mark.parametrize("name", EXTRAS)
def test_run_agrees_with_numpy_on_extras(rapt, tmp_path, random, name):
    arrays = inputs(random) | EXTRAS[name](random)
    out = run(rapt, tmp_path, arrays, "--causal", "--softcap", "5")
    close(out, plain_attention(**arrays, right=0, softcap=5)[0])


def test_rows_that_see_nothing_are_zeros(rapt, tmp_path, random):
    arrays = inputs(random) | {"mask": np.zeros((1, 1, 1, 1), bool)}
    out = run(rapt, tmp_path, arrays, "--lse", tmp_path / "lse.npy")
    assert not out.any()
    assert np.isneginf(np.load(tmp_path / "lse.npy")).all()


@pytest.mark.parametrize("sizes", [{"q_len": 0}, {"kv_len": 0}, {"batch": 0}, {"q_len": 1}])
def test_empty_and_single_sizes_are_valid(rapt, tmp_path, random, sizes):
    arrays = inputs(random, **sizes)
    out = run(rapt, tmp_path, arrays)
    close(out, plain_attention(**arrays)[0])


def test_heads_first_layout_gives_the_same_in_that_layout(rapt, tmp_path, random):
    arrays = inputs(random)
    expected = run(rapt, tmp_path, arrays)
    swapped = {name: np.ascontiguousarray(a.swapaxes(1, 2)) for name, a in arrays.items()}
    out = run(rapt, tmp_path, swapped, "--layout", "bhsd")
    assert np.array_equal(out.swapaxes(1, 2), expected)


def test_fortran_order_gives_the_same(rapt, tmp_path, random):
    arrays = inputs(random) | {"mask": random.random((2, 4, 5, 9)) < 0.6}
    expected = run(rapt, tmp_path, arrays)
    fortran = {name: np.asfortranarray(array) for name, array in arrays.items()}
    out = run(rapt, tmp_path, fortran)
    assert b"'fortran_order': True" in (tmp_path / "q.npy").read_bytes()
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_format_of_npy_is_read(rapt, tmp_path, random, version):
    arrays = inputs(random)
    expected = run(rapt, tmp_path, arrays)
    with open(tmp_path / "q.npy", "wb") as file:
        np.lib.format.write_array(file, arrays["q"], version=version)
    rapt.ok("run", *(tmp_path / f"{name}.npy" for name in "qkv"), "-o", tmp_path / "again.npy")
    assert np.array_equal(np.load(tmp_path / "again.npy"), expected)


def test_float16_files_are_computed_and_written_as_float16(rapt, tmp_path, random):
    arrays = inputs(random, dtype=np.float16)
    arrays["bias"] = random.standard_normal((1, 4, 5, 9)).astype(np.float16)
    out = run(rapt, tmp_path, arrays)
    assert out.dtype == np.float16
    close(out.astype(np.float64), plain_attention(**arrays)[0], 2e-3)


@pytest.mark.parametrize("dtype, tolerance", [("bf16", 1e-2), ("f16", 2e-3), ("f32", 4e-6)])
def test_the_computing_type_can_be_named_and_files_stay_float32(rapt, tmp_path, random, dtype,
                                                                tolerance):
    arrays = inputs(random)
    out = run(rapt, tmp_path, arrays, "--dtype", dtype)
    assert out.dtype == np.float32
    assert np.array_equal(out, round_to(dtype, out))
    rounded = {name: round_to(dtype, array) for name, array in arrays.items()}
    close(out, plain_attention(**rounded)[0], tolerance)


def test_the_log_alone_speaks_on_stderr(rapt, tmp_path, random):
    result = rapt(*save(tmp_path, inputs(random)), RAPT_LOG="1")
    assert result.returncode == 0 and result.stdout == ""
    assert [line.split()[1] for line in result.stderr.splitlines()] == ["plan", "run"]


def npy(header, data=b"", version=b"\x01\x00", length=None):
    """A .npy file with whatever header."""
    header = header.encode()
    width = 2 if version[0] == 1 else 4
    count = len(header) if length is None else length
    return b"\x93NUMPY" + version + count.to_bytes(width, "little") + header + data


def described(descr="'<f4'", order="False", shape="(1, 1, 1, 1)"):
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


HOSTILE = {
    "empty": (b"", "is empty"),
    "text": (b"hello, world", "is not a .npy file"),
    "archive": (b"PK\x03\x04 and so on", "is a .npz archive"),
    "magic cut": (b"\x93NUM", "is not a .npy file"),
    "version missing": (b"\x93NUMPY", "is truncated: it ends inside its version"),
    "version 9.0": (npy(described(), b"\0" * 4, b"\x09\x00"), "has .npy format 9.0"),
    "version 1.7": (npy(described(), b"\0" * 4, b"\x01\x07"), "has .npy format 1.7"),
    "length cut": (b"\x93NUMPY\x02\x00\x10\x00", "ends inside its header's length"),
    "header cut": (npy(described(), length=60000), "its header has 60000 bytes, of which"),
    "header of 4 GiB": (npy(described(), version=b"\x02\x00", length=2**32 - 1),
                        "its header has 4294967295 bytes"),
    "header empty": (npy("", b"\0" * 4), "malformed .npy header"),
    "header no dict": (npy("import os", b"\0" * 4), "'{' is missing"),
    "header open": (npy(described()[:-4], b"\0" * 4), "malformed .npy header"),
    "header and more": (npy(described() + "os", b"\0" * 4), "follows its closing '}'"),
    "key missing": (npy("{'descr': '<f4', 'fortran_order': False}", b"\0" * 4),
                    "needs the keys descr, fortran_order and shape"),
    "key unknown": (npy("{'descr': '<f4', 'order': False}", b"\0" * 4), "the key 'order'"),
    "key twice": (npy(described().replace("'fortran_order': False", "'descr': '<f4'")),
                  "'descr' is there twice"),
    "string open": (npy("{'descr"), "a string does not end"),
    "string escaped": (npy(described("'<f\\x34'")), "an escape or a newline"),
    "comma missing": (npy("{'descr': '<f4' 'fortran_order': False}"), "a ',' or '}' is missing"),
    "order a number": (npy(described(order="0")), "neither True nor False"),
    "shape a list": (npy(described(shape="[1, 1, 1, 1]")), "'(' is missing"),
    "shape without comma": (npy(described(shape="(1 1)")), "a ',' is missing in the shape"),
    "shape a number": (npy(described(shape="(1)")), "with a comma"),
    "shape negative": (npy(described(shape="(1, -1, 1, 1)")), "a size of the shape is -1"),
    "shape of words": (npy(described(shape="(one,)")), "is not a whole number"),
    "shape beyond 64 bits": (npy(described(shape=f"({2**70}, 1, 1, 1)")), "overflows 64 bits"),
    "shape product beyond": (npy(described(shape=f"({2**40}, {2**40}, 1, 1)")),
                             "whose size in bytes overflows 64 bits"),
    "zero shape beyond": (npy(described(shape=f"(0, {2**62}, {2**62}, 1)")),
                          "whose size in bytes overflows 64 bits"),
    "shape of 65 axes": (npy(described(shape="(" + "1, " * 65 + ")")), "over 64 axes"),
    "shape huge": (npy(described(shape=f"({2**50}, 1, 1, 1)"), b"\0" * 4),
                   "of which 4 are there"),
    "data cut": (npy(described(), b"\0" * 3), "needs 4 bytes of data, of which 3 are there"),
    "data over": (npy(described(), b"\0" * 5), "has 1 bytes after the data"),
    "float64": (npy(described("'<f8'"), b"\0" * 8), "convert it with .astype('float32')"),
    "big endian": (npy(described("'>f4'"), b"\0" * 4), "is big endian ('>f4')"),
    "integers": (npy(described("'<i4'"), b"\0" * 4), "elements of type '<i4'"),
    "complex": (npy(described("'<c8'"), b"\0" * 8), "elements of type '<c8'"),
    "objects": (npy(described("'|O'"), b"\0" * 8), "elements of type '|O'"),
    "bfloat16": (npy(described("'<V2'"), b"\0" * 2), "--dtype bf16"),
    "structured": (npy(described("[('a', '<f4')]"), b"\0" * 4), "holds a structured array"),
    "bytes": (npy(described("'|u1'"), b"\0"), "holds bytes"),
    "three axes": (npy(described(shape="(1, 1, 1)"), b"\0" * 4), "has shape (1, 1, 1)"),
    "no axis": (npy(described(shape="()"), b"\0" * 4), "has shape ()"),
    "one axis": (npy(described(shape="(1,)"), b"\0" * 4), "has shape (1,)"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_and_the_old_result_stays(rapt, tmp_path, random, name):
    content, expected = HOSTILE[name]
    arguments = save(tmp_path, inputs(random))
    (tmp_path / "out.npy").write_text("precious")
    (tmp_path / "q.npy").write_bytes(content)
    sentence = rapt.fails(*arguments)
    assert sentence.startswith(f"{tmp_path / 'q.npy'} ") and expected in sentence
    assert (tmp_path / "out.npy").read_text() == "precious"


def test_a_file_cut_anywhere_is_refused(rapt, tmp_path, random):
    arguments = save(tmp_path, inputs(random, batch=1, q_len=1))
    whole = (tmp_path / "k.npy").read_bytes()
    for length in [*range(0, 12), 40, 64, 127, 128, 129, len(whole) - 1]:
        (tmp_path / "k.npy").write_bytes(whole[:length])
        assert rapt.fails(*arguments)
    assert not (tmp_path / "out.npy").exists()


WRONG = {
    "keys of another dim": (lambda a: a | {"k": a["k"][..., :-1]}, [], "k's dim axis"),
    "values of another length": (lambda a: a | {"v": a["v"][:, :-1]}, [], "v's seq axis"),
    "another batch": (lambda a: a | {"k": a["k"][:1]}, [], "k's batch axis"),
    "heads that do not divide": (lambda a: a | {"q": a["q"][:, :, :3]}, [], "3 heads cannot share"),
    "types that differ": (lambda a: a | {"k": a["k"].astype(np.float16)}, [], "k is f16"),
    "a dim of 0": (lambda a: a | {"q": a["q"][..., :0], "k": a["k"][..., :0]}, [], "dim is 0"),
    "bias of three axes": (lambda a: a | {"bias": np.zeros((4, 5, 9), np.float32)}, [],
                           "it must have four axes: batch, head, q, kv"),
    "bias of a wrong size": (lambda a: a | {"bias": np.zeros((1, 3, 1, 1), np.float32)}, [],
                             "bias's head axis has size 3; it must be 4 or 1"),
    "half bias": (lambda a: a | {"bias": np.zeros((1, 1, 1, 1), np.float16)}, [],
                  "a bias for f32 queries is float32"),
    "mask of floats": (lambda a: a | {"mask": np.zeros((1, 1, 1, 1), np.float32)}, [],
                       "a mask is bool or uint8"),
    "alibi for other heads": (lambda a: a | {"alibi": np.zeros(3, np.float32)}, [], "size 3"),
    "alibi of three axes": (lambda a: a | {"alibi": np.zeros((2, 4, 1), np.float32)}, [], "one axis"),
    "half sinks": (lambda a: a | {"sinks": np.zeros(4, np.float16)}, [], "it must be float32"),
    "scale nan": (dict, ["--scale", "nan"], "the scale is nan"),
    "scale a word": (dict, ["--scale", "big"], "--scale = big"),
    "soft cap -1": (dict, ["--softcap", "-1"], "the soft cap is -1"),
    "window without colon": (dict, ["--window", "5"], "--window is '5'; write L:R"),
    "window without a number": (dict, ["--window", "x"], "--window is 'x'; write L:R or L:R+N with"),
    "window negative": (dict, ["--window", "-1:3"], "--window is '-1:3'"),
    "window of words": (dict, ["--window", "a:b"], "--window is 'a:b'"),
    "first keys without a number": (dict, ["--window", "3:+"], "--window is '3:+'; write L:R or"),
    "first keys negative": (dict, ["--window", "3:2+-1"], "--window is '3:2+-1'"),
    "first keys beside no bound": (dict, ["--window", ":2+4"], "4 first keys stand beside a window"),
    "window too wide": (dict, ["--window", "9999999999999999999999:"], "--window is '9999"),
    "offset beyond": (dict, ["--offset", "9223372036854775807"], "the offset is"),
    "layout unknown": (dict, ["--layout", "sbhd"], "sbhd"),
    "layout that does not fit": (lambda a: a | {"q": a["q"][:, :3]}, ["--layout", "bhsd"], "3"),
    "type unknown": (dict, ["--dtype", "f64"], "f64"),
    "kernel unknown": (dict, ["--kernel", "cpu.magic"], "there is no kernel 'cpu.magic'"),
    "device unknown": (dict, ["--device", "cpu:x"], "'cpu:x' is not a device"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arrays_and_options_are_refused(rapt, tmp_path, random, name):
    change, options, expected = WRONG[name]
    assert expected in rapt.fails(*save(tmp_path, change(inputs(random))), *options)
    assert not (tmp_path / "out.npy").exists()


def test_a_result_beyond_memory_is_refused(rapt, tmp_path, random):
    arguments = save(tmp_path, inputs(random))
    header = described(shape=f"(2, 0, 2, {2**45})")
    (tmp_path / "k.npy").write_bytes(npy(described(shape="(2, 0, 2, 8)")))
    (tmp_path / "v.npy").write_bytes(npy(header))
    sentence = rapt.fails(*arguments, ASAN_OPTIONS="allocator_may_return_null=1")
    assert "memory" in sentence


def test_missing_files_and_folders_in_their_place_are_refused(rapt, tmp_path, random):
    arguments = save(tmp_path, inputs(random))
    (tmp_path / "v.npy").unlink()
    assert rapt.fails(*arguments) == f"cannot read {tmp_path / 'v.npy'}: No such file or directory"
    (tmp_path / "v.npy").mkdir()
    assert rapt.fails(*arguments) == f"cannot read {tmp_path / 'v.npy'}: Is a directory"
    assert "is required" in rapt.fails("run", tmp_path / "q.npy")
    assert "--out is required" in rapt.fails(*arguments[:4])


@pytest.mark.parametrize("place", ["missing/out.npy", ".", "q.npy/out.npy"])
def test_an_output_that_cannot_be_written_is_refused(rapt, tmp_path, random, place):
    arguments = save(tmp_path, inputs(random))
    before = sorted(tmp_path.iterdir())
    arguments[-1] = tmp_path / place
    assert rapt.fails(*arguments).startswith(f"cannot write {tmp_path / place}: ")
    assert sorted(tmp_path.iterdir()) == before


def test_no_result_is_replaced_when_another_cannot_be_written(rapt, tmp_path, random):
    arguments = save(tmp_path, inputs(random))
    (tmp_path / "out.npy").write_text("precious")
    rapt.fails(*arguments, "--lse", tmp_path / "missing" / "lse.npy")
    rapt.fails(*arguments, "--lse", "/dev/full")
    assert (tmp_path / "out.npy").read_text() == "precious"
    assert "each result needs a file of its own" in rapt.fails(
        *arguments, "--lse", tmp_path / "out.npy"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"q.npy", "k.npy", "v.npy", "out.npy"}


def test_a_device_as_output_stays_a_device(rapt, tmp_path, random):
    arguments = save(tmp_path, inputs(random))
    arguments[-1] = "/dev/null"
    rapt.ok(*arguments)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_an_input_may_be_the_output_and_a_link_stays_a_link(rapt, tmp_path, random):
    arrays = inputs(random, dim=6)
    arguments = save(tmp_path, arrays)
    (tmp_path / "link.npy").symlink_to(tmp_path / "q.npy")
    arguments[-1] = tmp_path / "link.npy"
    rapt.ok(*arguments)
    assert (tmp_path / "link.npy").is_symlink()
    close(np.load(tmp_path / "q.npy"), plain_attention(**arrays)[0])


def test_a_new_output_has_the_rights_of_any_new_file(rapt, tmp_path, random):
    rapt.ok(*save(tmp_path, inputs(random)))
    other = tmp_path / "other"
    other.touch()
    assert (tmp_path / "out.npy").stat().st_mode == other.stat().st_mode


def test_a_pipe_will_do_as_input(rapt, tmp_path, random):
    arrays = inputs(random)
    arguments = save(tmp_path, arrays)
    content = (tmp_path / "q.npy").read_bytes()
    arguments[1] = "/dev/stdin"
    subprocess.run([rapt.program, *map(str, arguments)], input=content, env=rapt.environment,
                   timeout=60, check=True)
    close(np.load(tmp_path / "out.npy"), plain_attention(**arrays)[0])


def test_arrays_go_through_standard_streams(rapt, random, tmp_path):
    arrays = inputs(random)
    save(tmp_path, arrays)
    files = [tmp_path / f"{name}.npy" for name in "qkv"]
    rapt.ok("run", *files, "-o", tmp_path / "out.npy")
    result = subprocess.run(
        [rapt.program, "run", "-", *files[1:], "-o", "-"], input=files[0].read_bytes(),
        capture_output=True, env=rapt.environment, timeout=60, check=True,
    )
    assert (result.stdout, result.stderr) == ((tmp_path / "out.npy").read_bytes(), b"")
    assert not (tmp_path / "-").exists()


def test_a_standard_stream_has_one_place(rapt, random, tmp_path):
    save(tmp_path, inputs(random))
    files = [tmp_path / f"{name}.npy" for name in "qkv"]
    sentence = rapt.fails("run", "-", "-", files[2], "-o", tmp_path / "out.npy")
    assert sentence.startswith("more than one input is -; standard input holds one array")
    assert "both name -" in rapt.fails("run", *files, "-o", "-", "--lse", "-")
    screen, program_end = os.openpty()
    result = subprocess.run(
        [rapt.program, "run", *files, "-o", "-"], stdout=program_end, stderr=subprocess.PIPE,
        text=True, env=rapt.environment, timeout=60, check=False,
    )
    os.close(program_end)
    os.close(screen)
    assert result.returncode == 2
    assert "would go to the terminal as binary data" in result.stderr
