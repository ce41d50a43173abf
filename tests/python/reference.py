"""Attention in NumPy, written from its formulas and sharing nothing with the library.

For query i and key j of a sequence, at position p = i + offset:

    visible(i, j)   p − left ≤ j or j < first_keys, j ≤ p + right, j < kv_len, and the mask if there
                    is one
    s = scale · q·k,  then cap · tanh(s / cap),  then + bias,  then − slope[h] · |p − j|
    out = Σ e^s v / (Σ e^s + e^sink[h]),  lse = log(Σ e^s + e^sink[h])  over visible j
"""

import dataclasses

import numpy as np


@dataclasses.dataclass
class Result:
    """Everything in the axes of out and lse; NaN in packed rows of no sequence."""

    out: np.ndarray  # (batch, seq, head, dim)
    magnitude: np.ndarray  # out, if every value were positive
    unbounded: np.ndarray  # whether a value of the sequence that is not finite may reach it
    lse: np.ndarray  # (batch, head, seq)
    rows: np.ndarray  # (batch, seq): whether the row belongs to a sequence
    largest_score: float  # in absolute value, what is computed on the way to a score included


def round_to(dtype, numbers):
    """f32 numbers rounded to nearest even of an element type, as f32."""
    if dtype == "f16":
        with np.errstate(over="ignore"):
            return numbers.astype(np.float16).astype(np.float32)
    if dtype == "bf16":
        bits = numbers.astype(np.float32).view(np.uint32)
        bits = bits + np.uint32(0x7FFF) + (bits >> 16 & 1)
        return (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return numbers.astype(np.float32)


def _queries(problem, inputs, b):
    """The place of a sequence's queries on the first two axes of q, out and lse."""
    if not problem.varlen:
        return b, slice(0, problem.q_len)
    starts = inputs["q_starts"].view().ravel()
    return 0, slice(starts[b], starts[b + 1])


def _keys(problem, inputs, b, pool):
    """A sequence's rows of k or v, one after the other: (kv_len, kv_heads, dim)."""
    if problem.page_size:
        pages = inputs["page_table"].view()[b, :, 0, 0]
        length = inputs["kv_lengths"].view()[b, 0, 0, 0] if problem.lengths else problem.kv_len
        pages = pages[: -(-length // problem.page_size)]
        assert ((pages >= 0) & (pages < len(pool))).all()
        return pool[pages].reshape(-1, *pool.shape[2:])[:length]
    if problem.varlen:
        starts = inputs["kv_starts"].view().ravel()
        rows = pool[0, starts[b] : starts[b + 1]]
    else:
        rows = pool[b]
    return rows[: inputs["kv_lengths"].view()[b, 0, 0, 0]] if problem.lengths else rows


def _pairs(problem, tensor, b, q_len, kv_len):
    """A bias or mask of one sequence: (heads, q_len, kv_len)."""
    full = (problem.batch, problem.heads, problem.q_len, problem.kv_len)
    return np.broadcast_to(tensor, full)[b, :, :q_len, :kv_len]


def _window(problem, p, j):
    """Which keys the window leaves each query: (q_len, kv_len)."""
    visible = np.ones(np.broadcast_shapes(p.shape, j.shape), bool)
    if problem.left is not None:
        visible &= (j >= p - problem.left) | (j < problem.first_keys)
    if problem.right is not None:
        visible &= j <= p + problem.right
    return visible


def _attend(s, sink, v, round_weights):
    """Softmax of the scores (q_len, kv_len), −inf where not visible, times v. Gives out, its
    magnitude and lse."""
    real = s.dtype.type
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.maximum(s.max(axis=1, keepdims=True, initial=-np.inf), sink)
        shift = np.where(np.isneginf(largest), real(0), largest)  # keeps e^s in range
        weights = np.exp(s - shift)
        total = weights.sum(axis=1, keepdims=True) + np.exp(sink - shift)
        divisor = np.where(total == 0, real(1), total)
        weights = round_weights(weights)
        lse = np.where(np.isposinf(largest), largest, shift + np.log(total))
        magnitude = (weights @ np.abs(v)) / divisor
        # A weight of 0 does not hide a NaN: of keys that are not there, nothing is taken.
        finite = np.where(np.isfinite(v), v, real(0))
        out = (weights @ finite) / divisor
        for key in np.flatnonzero(~np.isfinite(v).all(axis=1)):
            seen = ~np.isneginf(s[:, key])
            out[seen] += (weights[seen, key, None] * (v[key] - finite[key])) / divisor[seen]
    return out, magnitude, lse[:, 0]


def attention(problem, inputs, real=np.float64, round_weights=lambda weights: weights):
    """`real` is the type of all arithmetic. In f32, with weights rounded to the element type, this
    is the plain computation that the errors of 16-bit kernels are measured by."""
    numbers = {name: memory.numbers(real) for name, memory in inputs.items()}
    shapes = problem.shapes()
    result = Result(
        out=np.full(shapes["out"], np.nan, real),
        magnitude=np.full(shapes["out"], np.nan, real),
        unbounded=np.zeros(shapes["out"], bool),
        lse=np.full(shapes["lse"][:3], np.nan, real),
        rows=np.zeros(shapes["out"][:2], bool),
        largest_score=0.0,
    )
    scale, cap = real(problem.scale), real(problem.softcap)
    for b in range(problem.batch):
        outer, rows = _queries(problem, inputs, b)
        result.rows[outer, rows] = True
        q = numbers["q"][outer, rows]  # (q_len, heads, dim)
        k = _keys(problem, inputs, b, numbers["k"])  # (kv_len, kv_heads, dim)
        v = _keys(problem, inputs, b, numbers["v"])
        q_len, kv_len = len(q), len(k)
        offset = kv_len - q_len if problem.offset is None else problem.offset
        p = np.arange(q_len)[:, None] + offset
        j = np.arange(kv_len)[None, :]
        for h in range(problem.heads):
            kv_head = h // (problem.heads // problem.kv_heads)
            visible = _window(problem, p, j)
            near = v[visible.any(axis=0), kv_head]
            result.unbounded[outer, rows, h] = ~np.isfinite(near).all(axis=0)
            if problem.mask:
                visible &= _pairs(problem, inputs["mask"].view(), b, q_len, kv_len)[h] != 0
            with np.errstate(invalid="ignore"):  # what is not visible may be NaN
                s = scale * (q[:, h] @ k[:, kv_head].T)
                on_the_way = [s]
                if problem.softcap:
                    s = cap * np.tanh(s / cap)
                if problem.bias:
                    s = s + _pairs(problem, numbers["bias"], b, q_len, kv_len)[h]
                if problem.alibi:
                    of_sequence = b * problem.heads if problem.alibi_per_sequence else 0
                    slope = numbers["alibi"].ravel()[of_sequence + h]
                    slopes = slope * np.abs(p - j).astype(real)
                    on_the_way.append(slopes)
                    s = s - slopes
            s = np.where(visible, s, real(-np.inf))
            sink = numbers["sinks"].ravel()[h] if problem.sinks else real(-np.inf)
            # A weight of 0 does not hide a NaN.
            values = np.where(visible.any(axis=0)[:, None], v[:, kv_head], real(0))
            out, magnitude, lse = _attend(s, sink, values, round_weights)
            result.out[outer, rows, h] = out
            result.magnitude[outer, rows, h] = magnitude
            result.lse[outer, h, rows] = lse
            for numbers_on_the_way in [*on_the_way, s]:
                finite = np.abs(numbers_on_the_way[np.isfinite(s)])
                result.largest_score = max(result.largest_score, float(finite.max(initial=0)))
    return result
