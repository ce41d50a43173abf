"""Gradients of attention in NumPy, written from their formulas and sharing nothing with the library.

With the scores s of reference.py, the given out and lse, and the gradients dout and dlse of both:

    P = e^(s − lse) where j is visible, else nothing;  D = Σ dout·out − dlse, of each row
    dS = P · (dout·v − D),  dX = dS / cosh²(scale · q·k / cap)
    dq = scale · Σ dX k,  dk = scale · Σ dX q,  dv = Σ P dout
    dbias = Σ dS over the axes that bias is broadcast along,  dalibi = −Σ dS |p − j|
    dsinks = −Σ e^(sink − lse) D
"""

import dataclasses

import numpy as np

import reference


@dataclasses.dataclass
class Gradient:
    """One gradient, in its tensor's axes."""

    values: np.ndarray
    magnitude: np.ndarray  # the same sums, with every term and every part of a term positive
    written: np.ndarray  # what belongs to a sequence, or to all of them

    @classmethod
    def of_size(cls, size, written=True):
        return cls(np.zeros(size), np.zeros(size), np.broadcast_to(written, size))

    def add(self, at, values, magnitude):
        self.values[at] += values
        self.magnitude[at] += magnitude


@dataclasses.dataclass
class Gradients:
    by_name: dict  # "dq", "dk", ...
    largest_score: float  # in absolute value; an lse's, too


def _sums(coefficients, vectors, visible):
    """Σ over keys of coefficients (q_len, kv_len) times vectors (kv_len, dim): of visible pairs, for
    what is not visible may be NaN."""
    coefficients = np.where(visible, coefficients, 0)
    seen = np.where(visible.any(axis=0)[:, None], vectors, 0)
    if np.isfinite(coefficients).all() and np.isfinite(seen).all():
        return coefficients @ seen
    terms = coefficients[:, :, None] * seen[None]
    return np.where(visible[:, :, None], terms, 0).sum(axis=1)


def _stored_keys(problem, inputs):
    """(batch, seq) of k: whether the key belongs to a sequence, be it used or not."""
    belongs = np.ones(problem.shapes()["k"][:2], bool)
    if problem.varlen:
        starts = inputs["kv_starts"].view().ravel()
        belongs[0] = False
        belongs[0, starts[0] : starts[-1]] = True
    return belongs


def _key_rows(problem, inputs, head):
    """The place of a sequence's keys on the first two axes of k."""
    if not problem.varlen:
        return head.sequence, slice(0, len(head.k))
    begin = inputs["kv_starts"].view().ravel()[head.sequence]
    return 0, slice(begin, begin + len(head.k))


def _zeros(problem, inputs):
    shapes = problem.shapes()
    queries = reference.rows_of_sequences(problem, inputs)[:, :, None, None]
    keys = _stored_keys(problem, inputs)[:, :, None, None]
    result = {
        "dq": Gradient.of_size(shapes["dq"], queries),
        "dk": Gradient.of_size(shapes["dk"], keys),
        "dv": Gradient.of_size(shapes["dv"], keys),
    }
    if problem.dbias:
        result["dbias"] = Gradient.of_size(shapes["dbias"])
    if problem.dsinks:
        result["dsinks"] = Gradient.of_size(inputs["sinks"].size)
    if problem.dalibi:
        result["dalibi"] = Gradient.of_size(inputs["alibi"].size)
    return result


def _bias_sums(problem, of_pairs, head):
    """dS (q_len, kv_len) of a head, summed over axes that bias is broadcast along, and its place."""
    varies = problem.bias.varies
    for axis in [0, 1]:
        if not varies[2 + axis]:
            of_pairs = of_pairs.sum(axis=axis, keepdims=True)
    b = head.sequence if varies[0] else 0
    h = head.head if varies[1] else 0
    return of_pairs, (b, h, slice(of_pairs.shape[0]), slice(of_pairs.shape[1]))


def gradients(problem, inputs):
    numbers = {name: memory.numbers() for name, memory in inputs.items()}
    result = Gradients(_zeros(problem, inputs), 1.0)
    with np.errstate(invalid="ignore", over="ignore"):
        for head in reference.heads(problem, inputs, numbers):
            _add_head(problem, inputs, numbers, head, result)
    return result


def _add_head(problem, inputs, numbers, head, result):
    rows = (head.outer, head.rows, head.head)
    keys = (*_key_rows(problem, inputs, head), head.kv_head)
    to = result.by_name
    dout, out = numbers["dout"][rows], numbers["out"][rows]  # (q_len, dim)
    lse = numbers["lse"][head.outer, head.head, head.rows]  # (q_len, 1)
    delta = (dout * out).sum(axis=1, keepdims=True)
    delta_magnitude = np.abs(dout * out).sum(axis=1, keepdims=True)
    if problem.dlse:
        dlse = numbers["dlse"][head.outer, head.head, head.rows]
        delta, delta_magnitude = delta - dlse, delta_magnitude + np.abs(dlse)

    seen = ~np.isneginf(head.scores)  # a score of −inf is a key that is not there
    weights = np.where(seen, np.exp(head.scores - lse), 0)  # P
    through_v = np.where(head.z > 0, head.z * (dout @ head.v.T), 0)
    of_scores = np.where(seen, weights * (through_v - delta), 0)  # dS
    products = np.where(head.z > 0, head.z * (np.abs(dout) @ np.abs(head.v).T), 0)
    magnitude = np.where(seen, weights * (products + delta_magnitude), 0)
    kept = np.where(head.z > 0, head.z * weights, 0)  # Z P
    slopes = 1 / np.cosh(head.products / problem.softcap) ** 2 if problem.softcap else 1.0
    of_products = problem.scale * of_scores * slopes  # scale · dX
    products_magnitude = abs(problem.scale) * magnitude * slopes

    to["dq"].add(
        rows,
        _sums(of_products, head.k, seen),
        _sums(products_magnitude, np.abs(head.k), seen),
    )
    to["dk"].add(
        keys,
        _sums(of_products.T, head.q, seen.T),
        _sums(products_magnitude.T, np.abs(head.q), seen.T),
    )
    kept_pairs = (seen & (head.z > 0)).T
    to["dv"].add(keys, _sums(kept.T, dout, kept_pairs), _sums(kept.T, np.abs(dout), kept_pairs))
    if problem.dbias:
        of_bias, at = _bias_sums(problem, of_scores, head)
        to["dbias"].add(at, of_bias, _bias_sums(problem, magnitude, head)[0])
    if problem.dsinks:
        sink = numbers["sinks"].ravel()[head.head]
        if not np.isneginf(sink):
            of_sink = np.exp(sink - lse)
            to["dsinks"].add(head.head, -(of_sink * delta).sum(), (of_sink * delta_magnitude).sum())
    if problem.dalibi:
        at = (head.sequence, head.head) if problem.alibi_per_sequence else head.head
        distance = np.where(seen, head.distance, 0)
        to["dalibi"].add(at, -(of_scores * distance).sum(), (magnitude * distance).sum())
    finite_lse = np.abs(lse[np.isfinite(lse)]).max(initial=0)
    result.largest_score = max(
        result.largest_score, finite_lse, reference.largest_on_the_way(problem, numbers, head)
    )
