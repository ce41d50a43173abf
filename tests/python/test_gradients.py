"""Backward's oracle against NumPy (gradient_reference.py), on random and on hand-picked problems."""

import dataclasses
import re

import numpy as np
import pytest

import comparison
import gradient_reference
import oracle_dump
import problem_string

FIRST_SEED, COUNT = 30000, 100
ALL = "backward:bias,sinks,alibi dlse"
HAND_PICKED = [
    "b1 h1 s1 d1 f32 backward",
    "b2 h4/2 q5 kv9 d8/3 f16 backward dlse",
    "b2 h3/1 q7 kv7 d16 bf16 window3:0 backward dq:f32 dk:f32 dv:f32",
    "b2 h4/2 q9 kv30 d8 f32 causal window4+3 alibi backward:alibi",
    "b2 h2 q20 kv9 d8 f32 window:1 offset-4 sinks backward:sinks dlse",
    "b1 h2 q6 kv9 d8 f32 causal offset-100 backward dlse",
    "b1 h2 q6 kv9 d8 f32 causal offset-100 sinks backward:sinks dlse",
    "b2 h2 q3 kv0 d8 bf16 sinks backward:sinks dlse",
    "b2 h2 q0 kv3 d8 f16 backward",
    "b0 h2 s3 d8 f32 bias:hqk sinks alibi backward:bias,sinks,alibi",
    "b3 h4/2 q12 kv20 d8 f32 causal varlen20/30 sinks backward:sinks",
    "b3 h4/2 q12 kv20 d8 bf16 causal varlen20/30 kv_lengths out:f32 backward",
    "b4 h2 q3 kv21 d8 f32 kv_lengths backward",
    "b3 h2 q5 kv9 d8 bf16 alibi:b varlen backward:alibi",
    "b2 h2 s9 d8 f32 mask:bhqk sinks backward:sinks dlse",
    f"b2 h4/2 q40 kv50 d8 f32 causal bias:hqk alibi softcap5 sinks dropout0.2 {ALL}",
    "b3 h4/2 q12 kv40 d8 bf16 causal dropout0.5 varlen20/60 kv_lengths backward",
    "b2 h3 q5 kv11 d8 f16 bias:bhqk:f32 softcap2 alibi backward:bias,alibi",
    "b2 h3 q5 kv11 d8 bf16 bhsd bias:k softcap30 scale0.5 dlse@40,1,4 backward:bias dlse dbias:f32",
    "b2 h3 q5 kv11 d8 f32 causal softcap3 scale-0.5 backward",
    *[
        f"b2 h3 q4 kv5 d8 f32 bias:{axes} backward:bias"
        for axes in "1 b h q k bh bq bk hq hk qk bhq bhk bqk hqk".split()
    ],
]


def faults_of(case, problem):
    expected = gradient_reference.gradients(problem, case.inputs)
    return comparison.gradient_faults(case.results["cpu.oracle_backward"], expected)


def check(case, asked, found):
    problem = problem_string.parse(case.problem)
    expected = gradient_reference.gradients(problem, case.inputs)
    results = case.results["cpu.oracle_backward"]
    command = f'rapt verify "{case.problem}" --kernel cpu.oracle_backward --seed {case.seed}'
    found["problems"].append(case.problem)

    def note(kind, sentences):
        found[kind] += [f"{sentence}\n    {command}" for sentence in sentences]

    for text in {case.problem, asked}:
        note("string", comparison.string_faults(case, problem_string.parse(text)))
    note("oracle", comparison.gradient_faults(results, expected))
    written = comparison.written_by_backward(expected)
    note("write", comparison.misplaced_writes(results, written))


@pytest.fixture(scope="module")
def found(dump_program):
    """What is wrong with any case, by kind."""
    found = {"problems": [], "string": [], "oracle": [], "write": []}
    for case in oracle_dump.cases(dump_program, FIRST_SEED, COUNT, "backward"):
        check(case, case.problem, found)
    dumped = oracle_dump.cases(dump_program, 1, *HAND_PICKED)
    for case, asked in zip(dumped, HAND_PICKED, strict=True):
        check(case, asked, found)
    return found


@pytest.mark.parametrize("kind", ["oracle", "write", "string"])
def test_the_oracle_of_backward_is_numpy_rounded_once(found, kind):
    faults = found[kind]
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:20])


def test_random_problems_show_every_token_of_backward(found):
    tokens = {token for problem in found["problems"][:COUNT] for token in problem.split()}
    forward_alone = [f"page{problem_string.N}", "lse", "batch-invariant:rows"]
    for pattern in problem_string.TOKENS | problem_string.BACKWARD_TOKENS:
        if pattern not in forward_alone:
            assert any(re.fullmatch(pattern, token) for token in tokens), pattern


# Problems that the checks themselves are checked with.
SAMPLES = {
    "dense": "b2 h4/2 q5 kv12 d8 f32 causal window3+2 offset3 bias:hqk alibi softcap50 sinks "
    f"scale0.25 {ALL}",
    "packed": "b3 h4/2 q6 kv12 d8 bf16 varlen kv_lengths mask:bqk backward",
    "dropout": "b2 h2 q40 kv40 d8 f32 dropout0.3 backward",
}
MODERATE_SEED = 15


@pytest.fixture
def sample(dump_program, request):
    (case,) = oracle_dump.cases(dump_program, MODERATE_SEED, SAMPLES[request.param])
    problem = problem_string.parse(case.problem)
    assert faults_of(case, problem) == []
    return case, problem


@pytest.mark.parametrize(
    "sample, field, value",
    [
        ("dense", "left", 2),
        ("dense", "first_keys", 3),
        ("dense", "right", 1),
        ("dense", "offset", 4),
        ("dense", "bias", None),
        ("dense", "alibi", False),
        ("dense", "softcap", 0.0),
        ("dense", "dlse", False),
        ("dense", "scale", 0.250001),
        ("packed", "mask", None),
        ("packed", "lengths", False),
        ("dropout", "dropout", 0.0),
        ("dropout", "dropout", 76 / 256),
    ],
    indirect=["sample"],
)
def test_a_reference_of_another_problem_disagrees(sample, field, value):
    case, problem = sample
    other = dataclasses.replace(problem, **{field: value})
    if field in ["bias", "alibi"]:  # gradients of what is not there are not asked for
        other = dataclasses.replace(other, **{f"d{field}": value})
    assert faults_of(case, other) != []


@pytest.mark.parametrize("sample", ["dense"], indirect=True)
@pytest.mark.parametrize("name", "q k v bias alibi sinks out lse dout dlse".split())
def test_a_reference_of_another_input_disagrees(sample, name):
    case, problem = sample
    memory = case.inputs[name]
    stored = memory.view()
    stored[tuple(np.argwhere(np.isfinite(memory.numbers()))[-1])] += 1
    assert faults_of(case, problem) != []


@pytest.mark.parametrize("sample", ["dense"], indirect=True)
@pytest.mark.parametrize("name", ["dq", "dk", "dv", "dbias", "dsinks", "dalibi"])
def test_a_gradient_two_roundings_off_is_found(sample, name):
    case, problem = sample
    stored = case.results["cpu.oracle_backward"][name].view()
    at = tuple(np.argwhere(stored != 0)[-1])
    stored.view(f"u{stored.itemsize}")[at] += 2
    assert len(faults_of(case, problem)) == 1


@pytest.mark.parametrize("sample", ["packed"], indirect=True)
@pytest.mark.parametrize("name", ["dq", "dk", "dv"])
def test_a_write_outside_sequences_or_into_a_guard_is_found(sample, name):
    case, problem = sample
    written = comparison.written_by_backward(gradient_reference.gradients(problem, case.inputs))
    results = case.results["cpu.oracle_backward"]
    assert comparison.misplaced_writes(results, written) == []
    memory = results[name]
    kept = memory.data.copy()
    memory.view()[tuple(np.argwhere(~written[name])[0])] = 0
    assert comparison.misplaced_writes(results, written) != []
    memory.data[:] = kept
    memory.data[0] = 0
    assert comparison.misplaced_writes(results, written) != []
