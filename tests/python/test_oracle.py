"""The oracle and cpu.naive against NumPy (reference.py), on random and on hand-picked problems."""

import dataclasses
import re

import numpy as np
import pytest

import comparison
import oracle_dump
import problem_string
import reference

FIRST_SEED, COUNT = 20000, 400
HAND_PICKED_SEEDS = [1, 2]
HAND_PICKED = [
    "b1 h1 s1 d1 f32",
    "b2 h4/2 q5 kv9 d8/3 f16 lse",
    "b2 h3/1 q7 kv7 d16 bf16 window3:0 lse",
    "b2 h2 q9 kv20 d8 f32 window4:2 lse",
    "b2 h4/2 q9 kv30 d8 f32 causal window4+3 alibi lse",
    "b2 h2 q9 kv20 d8 f16 window2:5+7 offset-3 sinks lse",
    "b2 h2 q3 kv9 d8 f32 causal window1+40 offset30 lse",
    "b2 h2 q20 kv9 d8 f32 window:1 offset-4 sinks lse",
    "b1 h2 q20 kv9 d8 f32 causal lse",
    "b1 h2 q6 kv9 d8 f32 causal offset-100 lse",
    "b1 h2 q6 kv9 d8 f32 causal offset-100 sinks lse",
    "b1 h2 q6 kv9 d8 f32 window2 offset100 alibi lse",
    "b2 h2 q3 kv0 d8 f32 lse",
    "b2 h2 q3 kv0 d8 bf16 sinks lse",
    "b2 h2 q0 kv3 d8 f16 lse",
    "b0 h2 s3 d8 f32 lse",
    "b3 h4/2 q12 kv20 d8 f32 causal varlen lse",
    "b3 h4/2 q12 kv20 d8 bf16 causal varlen20/30 kv_lengths sinks lse",
    "b3 h4/2 q12 kv40 d8 f16 window8:2 varlen20 kv_lengths page16 lse",
    "b4 h4/2 q1 kv40 d8 f32 kv_lengths page16 lse",
    "b4 h4/2 q3 kv40 d8 f32 causal kv_lengths50 page7 alibi lse",
    "b4 h2 q3 kv21 d8 f32 kv_lengths lse",
    "b3 h4/2 q5 kv9 d8 f32 causal alibi:b lse",
    "b3 h2 q5 kv9 d8 bf16 alibi:b varlen lse",
    "b2 h2 q4 kv7 d8 f16 out:f32 lse",
    "b2 h2 q4 kv7 d8 bf16 out:f32 varlen",
    "b2 h2 s9 d8 f32 mask:bhqk sinks lse",
    "b2 h2 s9 d8 f32 mask:qk bias:1 lse",
    "b2 h4/2 q70 kv90 d8 f32 causal dropout0.1 lse",
    "b3 h4/2 q12 kv40 d8 f16 window8:2 dropout0.5 varlen20 kv_lengths page16 lse",
    "b2 h2 q9 kv40 d8 bf16 sinks dropout0.99 lse",
    "b2 h3 q5 kv11 d8 f16 bias:bhqk:f32 softcap2 alibi lse",
    "b2 h3 q5 kv11 d8 bf16 bhsd bias:k softcap30 scale0.5 lse@40,1,4 lse",
    "b2 h3 q5 kv11 d8 f32 causal softcap3 scale-0.5 lse",
    "b2 h3 s6 d8 f32 q@0,24,8 k@512,64,20 out@200,30,10 align4",
    *[
        f"b2 h3 q4 kv5 d8 f32 {name}:{axes}"
        for name in ["bias", "mask"]
        for axes in "b h q k bh bq bk hq hk qk bhq bhk bqk hqk".split()
    ],
]


def check(case, asked, found):
    problem = problem_string.parse(case.problem)
    expected = reference.attention(problem, case.inputs)
    found["problems"].append(case.problem)

    def note(kind, kernel, sentences):
        command = f'rapt verify "{case.problem}" --kernel {kernel} --seed {case.seed}'
        found[kind] += [f"{sentence}\n    {command}" for sentence in sentences]

    for text in {case.problem, asked}:
        note("string", "cpu.oracle", comparison.string_faults(case, problem_string.parse(text)))
    oracle, naive = case.results["cpu.oracle"], case.results["cpu.naive"]
    note("oracle", "cpu.oracle", comparison.oracle_faults(problem, oracle, expected))
    note("naive", "cpu.naive", comparison.kernel_faults(problem, naive, expected, case.results["bounds"]))
    written = comparison.written_by_forward(expected)
    note("write", "cpu.oracle", comparison.misplaced_writes(oracle, written))
    note("write", "cpu.naive", comparison.misplaced_writes(naive, written))


@pytest.fixture(scope="module")
def found(dump_program):
    """What is wrong with any case, by kind."""
    found = {"problems": [], "string": [], "oracle": [], "naive": [], "write": []}
    for case in oracle_dump.cases(dump_program, FIRST_SEED, COUNT):
        check(case, case.problem, found)
    for seed in HAND_PICKED_SEEDS:
        dumped = oracle_dump.cases(dump_program, seed, *HAND_PICKED)
        for case, asked in zip(dumped, HAND_PICKED, strict=True):
            check(case, asked, found)
    return found


def assert_none(faults):
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:20])


def test_the_oracle_is_numpy_rounded_once(found):
    assert_none(found["oracle"])


def test_the_naive_kernel_keeps_the_contract(found):
    assert_none(found["naive"])


def test_rows_outside_sequences_and_guards_stay_as_they_were(found):
    assert_none(found["write"])


def test_a_second_reading_of_problem_strings_agrees_with_the_library(found):
    assert_none(found["string"])


def test_random_problems_show_every_token(found):
    random = found["problems"][:COUNT]
    assert len(random) == COUNT
    tokens = {token for problem in random for token in problem.split()}
    for pattern in problem_string.TOKENS:
        assert any(re.fullmatch(pattern, token) for token in tokens), pattern


# Problems that the checks themselves are checked with.
SAMPLES = {
    "dense": "b2 h4/2 q5 kv12 d8 f32 causal window3+2 offset3 bias:hqk alibi softcap50 sinks "
    "scale0.25 lse",
    "masked": "b2 h4/2 q5 kv12 d8 f16 mask:bqk lse",
    "packed": "b3 h4/2 q6 kv12 d8 bf16 varlen kv_lengths lse",
    "paged": "b4 h2 q3 kv21 d8 f32 kv_lengths page4 lse",
    "lengths": "b4 h2 q3 kv21 d8 f32 kv_lengths",
    "dropout": "b2 h2 q40 kv40 d8 f32 dropout0.3 lse",
}
MODERATE_SEED = 15


@pytest.fixture
def sample(dump_program, request):
    (case,) = oracle_dump.cases(dump_program, MODERATE_SEED, SAMPLES[request.param])
    problem = problem_string.parse(case.problem)
    assert disagreements(case, problem) == []
    return case, problem


def disagreements(case, problem):
    expected = reference.attention(problem, case.inputs)
    return comparison.oracle_faults(problem, case.results["cpu.oracle"], expected)


@pytest.mark.parametrize(
    "sample, field, value",
    [
        ("dense", "left", None),
        ("dense", "left", 2),
        ("dense", "first_keys", 0),
        ("dense", "first_keys", 3),
        ("dense", "right", None),
        ("dense", "right", 1),
        ("dense", "offset", None),
        ("dense", "offset", 4),
        ("dense", "bias", None),
        ("dense", "alibi", False),
        ("dense", "softcap", 0.0),
        ("dense", "sinks", False),
        ("dense", "scale", 0.250001),
        ("dense", "kv_heads", 1),
        ("masked", "mask", None),
        ("packed", "kv_heads", 1),
        ("lengths", "lengths", False),
        ("dropout", "dropout", 0.0),
        ("dropout", "dropout", 76 / 256),
    ],
    indirect=["sample"],
)
def test_a_reference_of_another_problem_disagrees(sample, field, value):
    case, problem = sample
    assert disagreements(case, dataclasses.replace(problem, **{field: value})) != []


@pytest.mark.parametrize(
    "sample, name",
    [
        *[("dense", name) for name in ["q", "k", "v", "bias", "alibi", "sinks"]],
        *[("masked", name) for name in ["q", "k", "v", "mask"]],
        *[("packed", name) for name in ["q", "k", "v", "q_starts", "kv_starts", "kv_lengths"]],
        ("dropout", "seed"),
        *[("paged", name) for name in ["q", "k", "v", "kv_lengths", "page_table"]],
    ],
    indirect=["sample"],
)
def test_a_reference_of_another_input_disagrees(sample, name):
    case, problem = sample
    memory = case.inputs[name]
    stored = memory.view()
    if memory.dtype == "i32":  # another first page or length of sequence 1
        stored[1, 0] = stored[0, 0] if name == "page_table" else stored[1, 0] - 1
    elif memory.dtype == "u8":
        stored[0, 0, 0, 0] ^= 1
    else:
        reachable = np.argwhere(np.isfinite(memory.numbers()))
        stored[tuple(reachable[0])] += 1
    assert disagreements(case, problem) != []


@pytest.mark.parametrize("sample", ["dense", "masked", "packed"], indirect=True)
@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_result_two_roundings_off_is_found(sample, name):
    case, problem = sample
    stored = case.results["cpu.oracle"][name].view()
    row = np.argwhere(reference.attention(problem, case.inputs).rows)[-1]
    at = (*row, 0, 0) if name == "out" else (row[0], 0, row[1], 0)
    stored.view(f"u{stored.itemsize}")[at] += 2
    assert len(disagreements(case, problem)) == 1


@pytest.mark.parametrize("sample", ["dense", "masked", "packed"], indirect=True)
@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_naive_result_out_of_its_bounds_is_found(sample, name):
    case, problem = sample
    expected = reference.attention(problem, case.inputs)
    naive = case.results["cpu.naive"]
    assert comparison.kernel_faults(problem, naive, expected, case.results["bounds"]) == []
    naive[name].data[:] = np.roll(naive[name].data, naive[name].view().itemsize)
    assert comparison.kernel_faults(problem, naive, expected, case.results["bounds"]) != []


@pytest.mark.parametrize("sample", ["dense", "packed"], indirect=True)
@pytest.mark.parametrize("name", ["out", "lse"])
@pytest.mark.parametrize("byte", [0, -1])
def test_a_write_into_a_guard_is_found(sample, name, byte):
    case, problem = sample
    expected = reference.attention(problem, case.inputs)
    written = comparison.written_by_forward(expected)
    results = case.results["cpu.oracle"]
    assert comparison.misplaced_writes(results, written) == []
    results[name].data[byte] = 0
    assert comparison.misplaced_writes(results, written) != []


@pytest.mark.parametrize("sample", ["packed"], indirect=True)
@pytest.mark.parametrize("name", ["out", "lse"])
def test_a_write_into_a_row_of_no_sequence_is_found(sample, name):
    case, problem = sample
    expected = reference.attention(problem, case.inputs)
    written = comparison.written_by_forward(expected)
    results = case.results["cpu.oracle"]
    outer, row = np.argwhere(~expected.rows)[0]
    results[name].view()[(outer, row) if name == "out" else (outer, 0, row)] = 0
    assert comparison.misplaced_writes(results, written) != []


@pytest.mark.parametrize("dtype, last_place", [("f16", 2.0**-10), ("bf16", 2.0**-7)])
def test_rounding_is_to_nearest_even(dtype, last_place):
    numbers = 1 + last_place * np.array([0, 0.25, 0.5, 0.75, 1.5, 2.5], np.float32)
    rounded = 1 + last_place * np.array([0, 0, 0, 1, 2, 2])
    assert (reference.round_to(dtype, numbers) == rounded).all()
