"""Attention in NumPy, written from its formulas and sharing nothing with the library.

For query i and key j of a sequence, at position p = i + offset:

    visible(i, j)   p − left ≤ j or j < first_keys, j ≤ p + right, j < kv_len, and the mask if there
                    is one
    s = scale · q·k,  then cap · tanh(s / cap),  then + bias,  then − slope[h] · |p − j|
    out = Σ Z e^s v / (Σ e^s + e^sink[h]),  lse = log(Σ e^s + e^sink[h])  over visible j

Z is 1, or that of dropout (dropout_reference.py).
"""

import dataclasses

import dropout_reference
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


def rows_of_sequences(problem, inputs):
    """(batch, seq) of q: whether the row belongs to a sequence."""
    belongs = np.zeros(problem.shapes()["q"][:2], bool)
    for b in range(problem.batch):
        belongs[_queries(problem, inputs, b)] = True
    return belongs


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


def _attend(s, sink, v, z, round_weights):
    """Softmax of the scores (q_len, kv_len), −inf where not visible, times v. Gives out, its
    magnitude and lse."""
    real = s.dtype.type
    with np.errstate(divide="ignore", invalid="ignore"):
        largest = np.maximum(s.max(axis=1, keepdims=True, initial=-np.inf), sink)
        shift = np.where(np.isneginf(largest), real(0), largest)  # keeps e^s in range
        weights = np.exp(s - shift)
        total = weights.sum(axis=1, keepdims=True) + np.exp(sink - shift)
        divisor = np.where(total == 0, real(1), total)
        weights = round_weights(weights) * z
        lse = np.where(np.isposinf(largest), largest, shift + np.log(total))
        magnitude = (weights @ np.abs(v)) / divisor
        # A weight of 0 does not hide a NaN: of keys that are not there, nothing is taken.
        finite = np.where(np.isfinite(v), v, real(0))
        out = (weights @ finite) / divisor
        for key in np.flatnonzero(~np.isfinite(v).all(axis=1)):
            seen = ~np.isneginf(s[:, key]) & (z[:, key] != 0)
            out[seen] += (weights[seen, key, None] * (v[key] - finite[key])) / divisor[seen]
    return out, magnitude, lse[:, 0]


@dataclasses.dataclass
class Head:
    """One query head of one sequence, with q_len queries and kv_len keys."""

    sequence: int
    head: int
    kv_head: int
    outer: int  # with rows: its place on the first two axes of q, out and lse
    rows: slice
    q: np.ndarray  # (q_len, dim)
    k: np.ndarray  # (kv_len, dim)
    v: np.ndarray
    distance: np.ndarray  # (q_len, kv_len): |p − j|
    in_window: np.ndarray  # (q_len, kv_len)
    visible: np.ndarray  # and not masked
    products: np.ndarray  # scale · q·k
    scores: np.ndarray  # −inf where not visible
    z: np.ndarray  # (q_len, kv_len): of dropout, or ones


def heads(problem, inputs, numbers, real=np.float64):
    """`numbers`: the inputs as numbers of type `real`."""
    scale, cap = real(problem.scale), real(problem.softcap)
    for b in range(problem.batch):
        outer, rows = _queries(problem, inputs, b)
        q = numbers["q"][outer, rows]  # (q_len, heads, dim)
        k = _keys(problem, inputs, b, numbers["k"])  # (kv_len, kv_heads, dim)
        v = _keys(problem, inputs, b, numbers["v"])
        q_len, kv_len = len(q), len(k)
        offset = kv_len - q_len if problem.offset is None else problem.offset
        p = np.arange(q_len)[:, None] + offset
        j = np.arange(kv_len)[None, :]
        distance = np.abs(p - j).astype(real)
        for h in range(problem.heads):
            kv_head = h // (problem.heads // problem.kv_heads)
            in_window = _window(problem, p, j)
            visible = in_window
            if problem.mask:
                mask = _pairs(problem, inputs["mask"].view(), b, q_len, kv_len)[h]
                visible = in_window & (mask != 0)
            with np.errstate(invalid="ignore"):  # what is not visible may be NaN
                s = products = scale * (q[:, h] @ k[:, kv_head].T)
                if problem.softcap:
                    s = cap * np.tanh(s / cap)
                if problem.bias:
                    s = s + _pairs(problem, numbers["bias"], b, q_len, kv_len)[h]
                if problem.alibi:
                    s = s - slope(problem, numbers, b, h) * distance
            yield Head(
                sequence=b,
                head=h,
                kv_head=kv_head,
                outer=outer,
                rows=rows,
                q=q[:, h],
                k=k[:, kv_head],
                v=v[:, kv_head],
                distance=distance,
                in_window=in_window,
                visible=visible,
                products=products,
                scores=np.where(visible, s, real(-np.inf)),
                z=_dropout(problem, inputs, b, h, q_len, kv_len, real),
            )


def _dropout(problem, inputs, b, h, q_len, kv_len, real):
    if not problem.dropout:
        return np.ones((q_len, kv_len), real)
    seed = inputs["seed"].view().ravel()
    return dropout_reference.factors(seed, problem.dropout, b, h, q_len, kv_len, real)


def slope(problem, numbers, b, h):
    of_sequence = b * problem.heads if problem.alibi_per_sequence else 0
    return numbers["alibi"].ravel()[of_sequence + h]


def largest_on_the_way(problem, numbers, head):
    """The largest of what is computed on the way to a score that is finite, and of those."""
    on_the_way = [head.products, head.scores]
    if problem.alibi:
        with np.errstate(invalid="ignore"):
            on_the_way.append(slope(problem, numbers, head.sequence, head.head) * head.distance)
    finite = np.isfinite(head.scores)
    return max(
        float(np.abs(some[finite & np.isfinite(some)]).max(initial=0)) for some in on_the_way
    )


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
        rows=rows_of_sequences(problem, inputs),
        largest_score=0.0,
    )
    for head in heads(problem, inputs, numbers, real):
        outer, rows, h = head.outer, head.rows, head.head
        near = head.v[head.in_window.any(axis=0)]
        result.unbounded[outer, rows, h] = ~np.isfinite(near).all(axis=0)
        sink = numbers["sinks"].ravel()[h] if problem.sinks else real(-np.inf)
        # A weight of 0 does not hide a NaN.
        values = np.where(head.visible.any(axis=0)[:, None], head.v, real(0))
        out, magnitude, lse = _attend(head.scores, sink, values, head.z, round_weights)
        result.out[outer, rows, h] = out
        result.magnitude[outer, rows, h] = magnitude
        result.lse[outer, h, rows] = lse
        result.largest_score = max(
            result.largest_score, largest_on_the_way(problem, numbers, head)
        )
    return result
