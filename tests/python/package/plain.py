"""Attention in a few lines of NumPy, for tests that say by themselves what a call means; random
problems with every feature are held against tests/python/reference.py."""

import numpy as np


def attention(q, k, v, visible=None, bias=None, scale=None):
    """(batch, seq, head, dim) in f64; visible and bias broadcast to (batch, head, q, kv). Gives out
    and lse."""
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x.astype(np.float64), group, axis=2) for x in (k, v))
    scores = np.einsum("bqhd,bkhd->bhqk", q.astype(np.float64), k)
    scores *= 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    if bias is not None:
        scores = scores + bias
    if visible is not None:
        scores = np.where(visible, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    shift = np.where(np.isinf(largest), 0, largest)
    weights = np.exp(scores - shift)
    total = weights.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + shift)[..., 0]
    weights = weights / np.where(total > 0, total, 1)
    return np.einsum("bhqk,bkhd->bqhd", weights, v), lse


def gradients(q, k, v, out, lse, dout, dlse=0.0, visible=True, bias=0.0, scale=None):
    """dq, dk, dv, and the gradient of every score, (batch, head, q, kv), in f64; out and lse as
    attention() gives them, or over more than these keys."""
    q, k, v, out, lse, dout = (x.astype(np.float64) for x in (q, k, v, out, lse, dout))
    group = q.shape[2] // k.shape[2]
    wide_k, wide_v = (np.repeat(x, group, axis=2) for x in (k, v))
    scale = 1 / np.sqrt(q.shape[-1]) if scale is None else scale
    scores = np.einsum("bqhd,bkhd->bhqk", q, wide_k) * scale + bias
    weights = np.where(visible, np.exp(scores - lse[..., None]), 0)
    delta = np.einsum("bqhd,bqhd->bhq", dout, out) - dlse
    dscores = weights * (np.einsum("bqhd,bkhd->bhqk", dout, wide_v) - delta[..., None])
    dq = np.einsum("bhqk,bkhd->bqhd", dscores, wide_k) * scale
    dk = np.einsum("bhqk,bqhd->bkhd", dscores, q) * scale
    dv = np.einsum("bhqk,bqhd->bkhd", weights, dout)
    dk, dv = (x.reshape(*x.shape[:2], -1, group, x.shape[-1]).sum(axis=3) for x in (dk, dv))
    return dq, dk, dv, dscores


def causal(q_len, kv_len, offset=None):
    """Which keys each query sees; by default the last query meets the last key."""
    offset = kv_len - q_len if offset is None else offset
    return np.arange(kv_len) <= np.arange(q_len)[:, None] + offset


def inputs(random, q_shape=(2, 5, 4, 8), kv_shape=(2, 7, 2, 8), dtype=np.float32):
    shapes = [q_shape, kv_shape, kv_shape]
    return [random.standard_normal(shape).astype(dtype) for shape in shapes]
