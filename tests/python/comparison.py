"""What a case (oracle_dump.py) must be like, given what NumPy says of it (reference.py): each
function gives the faults it finds, as sentences."""

import dataclasses

import numpy as np

import reference

# Distance from 1 to the next number, and from 0.
LAST_PLACE = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
SMALLEST = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
# From here on, a number is rounded to infinity.
OVERFLOW = {"f32": 2.0**128 - 2.0**103, "f16": 65520.0, "bf16": 2.0**128 - 2.0**119}
FP64 = 1e-11  # what the order of an fp64 sum may change, for every unit of the largest score


def worst(label, got, want, allowed):
    """A sentence about the element that is most out of bounds, or nothing."""
    with np.errstate(invalid="ignore"):
        # What is not finite may be NaN, but lse is −inf only where nothing is seen.
        none = np.isnan(got) | (np.isinf(got) & (label != "lse"))
        same = (got == want) | (~np.isfinite(want) & none)
        error = np.where(same, 0, np.abs(got - want))
        excess = np.where(np.isnan(error), np.inf, error / allowed)
    if not excess.size or excess.max() <= 1:
        return []
    at = np.unravel_index(excess.argmax(), excess.shape)
    place = ", ".join(str(index) for index in at)
    return [
        f"{label}[{place}] is {got[at]:.9g}, expected {want[at]:.9g}: "
        f"off by {error[at]:.3g}, {np.broadcast_to(allowed, error.shape)[at]:.3g} is allowed"
    ]


def in_sequences(rows, out, lse):
    """0 in the rows that belong to no sequence."""
    return np.where(rows[:, :, None, None], out, 0), np.where(rows[:, None, :], lse, 0)


def got_and_wanted(problem, memories, expected):
    got_lse = memories["lse"].numbers()[..., 0] if problem.lse else expected.lse
    got = in_sequences(expected.rows, memories["out"].numbers(), got_lse)
    return got, in_sequences(expected.rows, expected.out, expected.lse)


def finite_part(numbers):
    """Absolute values; 0 for what is not finite, which is exact."""
    return np.where(np.isfinite(numbers), np.abs(numbers), 0)


def oracle_faults(problem, memories, expected):
    """fp64 arithmetic, one rounding at the end."""
    (got_out, got_lse), (want_out, want_lse) = got_and_wanted(problem, memories, expected)
    arithmetic = FP64 * max(1, expected.largest_score)
    # Through f32 to the element type; ties may fall either way.
    rounding = 1.01 * LAST_PLACE[problem.out_dtype] / 2 * finite_part(want_out)
    rounding += SMALLEST[problem.out_dtype]
    magnitude = finite_part(np.where(expected.rows[:, :, None, None], expected.magnitude, 0))
    faults = worst("out", got_out, want_out, rounding + arithmetic * magnitude)
    rounding = LAST_PLACE["f32"] / 2 * finite_part(want_lse)
    return faults + worst("lse", got_lse, want_lse, rounding + arithmetic)


def kernel_faults(problem, memories, expected, bounds):
    """The contract of every kernel, docs/numerics.md, with the bounds of the library's harness."""
    (got_out, got_lse), (want_out, want_lse) = got_and_wanted(problem, memories, expected)
    got_out = np.where(expected.unbounded & ~np.isfinite(got_out), want_out, got_out)
    out_bounds, lse_bounds = bounds["out"].numbers(), bounds["lse"].numbers()[..., 0]
    with np.errstate(invalid="ignore"):  # where there are no numbers, there are no bounds
        out_bounds, lse_bounds = [
            np.where(bounds > 0, bounds, SMALLEST["f32"]) for bounds in [out_bounds, lse_bounds]
        ]
    faults = worst("out", got_out, want_out, out_bounds)
    return faults + worst("lse", got_lse, want_lse, lse_bounds)


def gradient_faults(memories, expected):
    """fp64 arithmetic, one rounding at the end."""
    faults = []
    for name, gradient in expected.by_name.items():
        memory = memories[name]
        got = np.where(gradient.written, memory.numbers(), 0)
        beyond = np.abs(gradient.values) >= OVERFLOW[memory.dtype]
        want = np.where(beyond, np.copysign(np.inf, gradient.values), gradient.values)
        rounding = 1.01 * LAST_PLACE[memory.dtype] / 2 * finite_part(want) + SMALLEST[memory.dtype]
        arithmetic = FP64 * expected.largest_score * finite_part(gradient.magnitude)
        faults += worst(name, got, want, rounding + arithmetic)
    return faults


def written_by_forward(expected):
    """What misplaced_writes() needs of forward's results."""
    return {"out": expected.rows[:, :, None, None], "lse": expected.rows[:, None, :, None]}


def written_by_backward(expected):
    return {name: gradient.written for name, gradient in expected.by_name.items()}


def misplaced_writes(memories, written):
    """Outputs start as bytes of 0xff; only elements that are `written` may have changed."""
    faults = []
    for name, memory in memories.items():
        belongs = dataclasses.replace(memory, data=np.zeros_like(memory.data))
        view = belongs.view().view(f"u{belongs.view().itemsize}")
        view[np.broadcast_to(written[name], view.shape)] = np.iinfo(view.dtype).max
        changed = np.flatnonzero((belongs.data == 0) & (memory.data != 0xFF))
        if changed.size:
            faults.append(f"byte {changed[0]} of the memory of {name} was written")
    return faults


def string_faults(case, problem):
    """The string says what the problem is, and the tensors are what the problem says."""
    fields = dataclasses.asdict(problem)
    faults = [
        f"{name} is read as {fields[name]}, the library has {case.fields.get(name)}"
        for name in fields
        if fields[name] != case.fields.get(name)
    ]
    oracle = "cpu.oracle_backward" if problem.backward else "cpu.oracle"
    memories = {**case.inputs, **case.results[oracle]}
    for name, shape in problem.shapes().items():
        if name not in memories:
            continue
        size = memories[name].size
        if name in ["k", "v"] and problem.page_size:
            shape[0] = size[0]
        if size != shape:
            faults.append(f"the size of {name} is {size}, the string says {shape}")
    return faults
