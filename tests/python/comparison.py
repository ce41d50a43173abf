"""What a case (oracle_dump.py) must be like, given what NumPy says of it (reference.py): each
function gives the faults it finds, as sentences."""

import dataclasses

import numpy as np

import reference

# Distance from 1 to the next number, and from 0.
LAST_PLACE = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
SMALLEST = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
FP64 = 1e-11  # what the order of an fp64 sum may change, for every unit of the largest score


def worst(label, got, want, allowed):
    """A sentence about the element that is most out of bounds, or nothing."""
    with np.errstate(invalid="ignore"):
        error = np.where(got == want, 0, np.abs(got - want))
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


def finite_part(lse):
    """|lse|; 0 for rows that see nothing, whose −inf is exact."""
    return np.where(np.isfinite(lse), np.abs(lse), 0)


def oracle_faults(problem, memories, expected):
    """fp64 arithmetic, one rounding at the end."""
    (got_out, got_lse), (want_out, want_lse) = got_and_wanted(problem, memories, expected)
    arithmetic = FP64 * max(1, expected.largest_score)
    # Through f32 to the element type; ties may fall either way.
    rounding = 1.01 * LAST_PLACE[problem.out_dtype] / 2 * np.abs(want_out)
    rounding += SMALLEST[problem.out_dtype]
    magnitude = np.where(expected.rows[:, :, None, None], expected.magnitude, 0)
    faults = worst("out", got_out, want_out, rounding + arithmetic * magnitude)
    rounding = LAST_PLACE["f32"] / 2 * finite_part(want_lse)
    return faults + worst("lse", got_lse, want_lse, rounding + arithmetic)


def plain_error(problem, inputs, expected):
    """Of scores in f32, weights rounded to the element type, sums in f32, one rounding."""
    plain = reference.attention(
        problem, inputs, np.float32, lambda weights: reference.round_to(problem.dtype, weights)
    )
    rounded = reference.round_to(problem.out_dtype, plain.out)
    norm = np.linalg.norm(expected.out[expected.rows])
    return np.linalg.norm((rounded - expected.out)[expected.rows]) / norm if norm > 0 else 0


def naive_faults(problem, memories, expected, inputs):
    """The contract of every kernel: docs/numerics.md."""
    (got_out, got_lse), (want_out, want_lse) = got_and_wanted(problem, memories, expected)
    f32_bound = 4e-6 * max(1, expected.largest_score / 16)
    bound = f32_bound
    if problem.dtype != "f32":
        bound = max(2 * plain_error(problem, inputs, expected), LAST_PLACE[problem.dtype])
    error = np.linalg.norm(got_out - want_out)
    allowed = bound * np.linalg.norm(want_out) + SMALLEST[problem.dtype] * np.sqrt(got_out.size)
    faults = []
    if not error <= allowed:
        faults.append(f"the error of out is {error:.3g} (Frobenius), {allowed:.3g} is allowed")
        # No element is bound by itself: this names the worst one.
        faults += worst("out", got_out, want_out, SMALLEST[problem.dtype])
    allowed = f32_bound * np.maximum(1, finite_part(want_lse))
    return faults + worst("lse", got_lse, want_lse, allowed)


def misplaced_writes(memories, expected):
    """Outputs start as bytes of 0xff; only the rows of sequences may have changed."""
    faults = []
    for name, memory in memories.items():
        belongs = dataclasses.replace(memory, data=np.zeros_like(memory.data))
        view = belongs.view().view(f"u{belongs.view().itemsize}")
        ones = np.iinfo(view.dtype).max
        if name == "out":
            view[expected.rows] = ones
        else:
            view[np.broadcast_to(expected.rows[:, None, :, None], view.shape)] = ones
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
    memories = {**case.inputs, **case.results["cpu.oracle"]}
    for name, shape in problem.shapes().items():
        if name not in memories:
            continue
        size = memories[name].size
        if name in ["k", "v"] and problem.page_size:
            shape[0] = size[0]
        if size != shape:
            faults.append(f"the size of {name} is {size}, the string says {shape}")
    return faults
