"""rapt.attention on random problems with every feature, given as NumPy arrays with whatever strides
they have, against the NumPy reference."""

import ml_dtypes
import numpy as np

import comparison
import oracle_dump
import problem_string
import reference
import rapt

FIRST_SEED, COUNT = 31000, 150


def array(memory, axes=4):
    """The tensor as an array of its own type; bf16 as ml_dtypes has it."""
    view = memory.view()
    if memory.dtype == "bf16":
        view = view.view(ml_dtypes.bfloat16)
    if memory.dtype == "u8":
        view = view.view(bool)
    return view.reshape(view.shape[:axes]) if axes < 4 else view


def keywords(case, problem):
    """The case as one would write it in Python, but for where it writes to."""
    inputs = case.inputs
    tensors = {name: array(inputs[name]) for name in ["bias", "mask"] if name in inputs}
    if "alibi" in inputs:
        tensors["alibi"] = array(inputs["alibi"], 2 if problem.alibi_per_sequence else 1)
    tensors |= {
        name: array(inputs[name], 1)
        for name in ["sinks", "q_starts", "kv_starts", "seed"]
        if name in inputs
    }
    if "kv_lengths" in inputs:
        tensors["kv_lengths"] = array(inputs["kv_lengths"], 1)
    if "page_table" in inputs:
        tensors["page_table"] = array(inputs["page_table"], 2)
    return tensors | {
        "q": array(inputs["q"]),
        "k": array(inputs["k"]),
        "v": array(inputs["v"]),
        "window": (problem.left, problem.right),
        "first_keys": problem.first_keys,
        "offset": problem.offset,
        "softcap": problem.softcap,
        "dropout": problem.dropout,
        "scale": problem.scale,
        "max_q_len": problem.q_len if problem.varlen else None,
        "max_kv_len": problem.kv_len if problem.varlen or problem.page_size else None,
        "batch_invariant": problem.batch_invariant,
        "row_invariant": problem.row_invariant,
        "tf32": problem.tf32,
        "return_lse": problem.lse,
    }


def test_random_problems_give_what_numpy_gives(dump_program):
    faults, count = [], 0
    for case in oracle_dump.cases(dump_program, FIRST_SEED, COUNT):
        problem = problem_string.parse(case.problem)
        results = case.results["cpu.oracle"]
        for memory in results.values():
            memory.data = np.full_like(memory.data, 0xFF)
        out = array(results["out"])
        out = (out, array(results["lse"], 3)) if problem.lse else out
        rapt.attention(**keywords(case, problem), out=out)
        expected = reference.attention(problem, case.inputs)
        found = comparison.kernel_faults(problem, results, expected, case.results["bounds"])
        found += comparison.misplaced_writes(results, comparison.written_by_forward(expected))
        faults += [f"{sentence}\n    {case.problem} (seed {case.seed})" for sentence in found]
        count += 1
    assert count == COUNT
    assert not faults, "\n".join(faults)
