"""rapt in JAX's compiled programs, under jit, vmap and grad:

    import rapt.jax
    out = jax.jit(functools.partial(rapt.jax.attention, causal=True))(q, k, v)

`attention` has the arguments of rapt.attention but for dropout, `dot_product_attention` those of jax.nn's. They are
differentiable, once, in reverse mode, in q, k, v, bias, alibi and sinks."""

from __future__ import annotations

import functools
import operator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ._jax_call import Call, bind
from ._libraries import clamped, integers

__all__ = ["attention", "dot_product_attention"]

_INDICES = ("q_starts", "kv_starts", "kv_lengths", "page_table")


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: int | tuple[int | None, int | None] | None = None,
    first_keys: int = 0,
    offset: int | None = None,
    bias: Any = None,
    mask: Any = None,
    alibi: Any = None,
    softcap: float = 0.0,
    sinks: Any = None,
    scale: float | None = None,
    q_starts: Any = None,
    kv_starts: Any = None,
    kv_lengths: Any = None,
    page_table: Any = None,
    max_q_len: int | None = None,
    max_kv_len: int | None = None,
    layout: Literal["bshd", "bhsd"] = "bshd",
    return_lse: bool = False,
    batch_invariant: bool = False,
    row_invariant: bool = False,
    tf32: bool = False,
    kernel: str | None = None,
    out_dtype: Literal["f32"] | None = None,
) -> Any:
    """rapt.attention as a part of JAX's programs; help(rapt.attention) tells what arguments mean.

    Arrays may be traced. Everything else is a part of the plan, and a number: a position that
    changes from call to call is the last of `kv_lengths`. `kernel` is forward's; backward has
    rapt's choice."""
    numbers = {
        "first_keys": first_keys, "offset": offset, "softcap": softcap, "scale": scale,
        "max_q_len": max_q_len, "max_kv_len": max_kv_len,
    }  # fmt: skip
    options = {name: _number(name, value) for name, value in numbers.items() if value is not None}
    truths = {
        "causal": causal, "batch_invariant": batch_invariant, "row_invariant": row_invariant,
        "tf32": tf32,
    }  # fmt: skip
    options |= {name: bool(_static(name, value)) for name, value in truths.items()}
    options |= {"window": _window(window), "out_dtype": out_dtype}
    tensors = {"q": q, "k": k, "v": v, "bias": bias, "mask": mask, "alibi": alibi, "sinks": sinks}
    indices = (q_starts, kv_starts, kv_lengths, page_table)
    tensors |= dict(zip(_INDICES, indices))
    tensors = {name: _array(name, x) for name, x in tensors.items() if x is not None}
    results = ("out", "lse") if return_lse else ("out",)
    call = Call((), results, tuple(options.items()), layout, kernel)
    out, *lse = _attention(call, tensors)
    found = [out, *lse] if jnp.ndim(q) == 4 else [x[0] for x in (out, *lse)]
    return tuple(found) if return_lse else found[0]


def _static(name: str, value: Any) -> Any:
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{name} is traced, and is a part of rapt's plan: give a number, or make it static "
            "(jax.jit(..., static_argnames=...)); a position that changes is the last of kv_lengths"
        )
    return value


def _number(name: str, value: Any) -> Any:
    value = _static(name, value)
    if name not in ("softcap", "scale"):
        return operator.index(value)
    return value if isinstance(value, int) else float(value)  # floats do not hold every int


def _window(window: Any) -> Any:
    if not isinstance(window, (tuple, list)):
        return None if window is None else _number("window", window)
    return tuple(None if bound is None else _number("window", bound) for bound in window)


def _array(name: str, x: Any) -> Any:
    """As the primitive takes it: rows, biases and masks with four axes."""
    if name in _INDICES:
        return jnp.asarray(_indices(name, x), jnp.int32)
    if name in ("alibi", "sinks"):
        return jnp.asarray(x, jnp.float32)
    x = jnp.asarray(x)
    if name in ("q", "k", "v") and x.ndim not in (3, 4):
        raise ValueError(
            f"{name} has {x.ndim} {'axis' if x.ndim == 1 else 'axes'}; it needs four (three where "
            "there is no batch axis)"
        )
    return x[(None,) * (4 - x.ndim)]


def _indices(name: str, x: Any) -> Any:
    """Integers that int32 holds: others are an error, or in JAX's arrays, which may be traced, the
    nearest of these."""
    x = x if isinstance(x, jax.Array) else np.asarray(x)
    if not x.size:  # of whatever type: there are none
        return x.astype(np.int32)
    if x.dtype.kind not in "iu":
        raise ValueError(f"{name} is {x.dtype}; it takes integers")
    if isinstance(x, jax.Array):
        return x if x.dtype == np.int32 else clamped(x)
    return integers(name, x)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(call: Call, tensors: dict[str, Any]) -> list[Any]:
    return bind(call, tensors)


def _forward(call: Call, primals: dict[str, Any]) -> Any:
    tensors = {name: primal.value for name, primal in primals.items()}
    wanted = {n: None for n in ("bias", "alibi", "sinks") if n in primals and primals[n].perturbed}
    out, lse = bind(call._replace(results=("out", "lse")), tensors)
    return [out, lse][: len(call.results)], (tensors, out, lse, wanted)


def _backward(call: Call, kept: Any, cotangents: list[Any]) -> Any:
    tensors, out, lse, wanted = kept
    given = {name: None for name in tensors}  # no gradient
    dout, dlse, *_ = [*(None if isinstance(x, SymbolicZero) else x for x in cotangents), None]
    rows = {"out": out, "lse": lse, "dout": jnp.zeros_like(out) if dout is None else dout}
    rows |= {} if dlse is None else {"dlse": dlse}
    results = ("q", "k", "v", *(name for name in wanted if name != "sinks"))
    call = call._replace(results=tuple(f"d{name}" for name in results), kernel=None)
    given |= zip(results, bind(call, tensors | rows))
    if "sinks" in wanted:
        given["sinks"] = _sinks_gradient(tensors["sinks"], call.layout, **rows)
    return (given,)


def _sinks_gradient(sinks: Any, layout: str, out: Any, lse: Any, dout: Any, dlse: Any = 0.0) -> Any:
    """A sink is a key whose value is zero. Not asked of rapt, which sums over the batch: vmap has
    sinks of its own for each of what it folds into one."""
    delta = jnp.sum(out.astype(jnp.float32) * dout.astype(jnp.float32), axis=-1)
    delta = (delta if layout == "bhsd" else delta.swapaxes(1, 2)) - dlse
    return -jnp.sum(jnp.exp(sinks[:, None] - lse) * delta, axis=(0, 2))  # (batch, head, row)


_attention.defvjp(_forward, _backward, symbolic_zeros=True)


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: Literal["rapt", "xla", "cudnn"] | None = None,
    return_residual: bool = False,
) -> Any:
    """jax.nn.dot_product_attention: (batch, seq, head, dim), or without batch; query i is at key i.

    `scale` may be an array of one number, traced or learned; q is multiplied by it. `implementation`
    "xla" or "cudnn" is JAX's own. A row that sees no key is zero, where XLA's is the mean of all
    values, and its residual is -inf."""
    if implementation not in (None, "rapt"):
        more = {"return_residual": True} if return_residual else {}
        return jax.nn.dot_product_attention(
            query, key, value, bias, mask, scale=scale, is_causal=is_causal,
            query_seq_lengths=query_seq_lengths, key_value_seq_lengths=key_value_seq_lengths,
            local_window_size=local_window_size, implementation=implementation, **more,
        )  # fmt: skip
    window = local_window_size
    left, right = window if isinstance(window, (tuple, list)) else (window, window)
    if is_causal:
        right = 0 if right is None else min(right, 0)
    if bias is not None and jnp.result_type(bias) != jnp.result_type(query):
        bias = jnp.asarray(bias, jnp.float32)
    q, k = _array("q", query), _array("k", key)
    query_lengths = _lengths("query_seq_lengths", query_seq_lengths, len(q), q.shape[1])
    key_lengths = _lengths("key_value_seq_lengths", key_value_seq_lengths, len(q), k.shape[1])
    if isinstance(scale, (jax.Array, np.ndarray)):
        q, scale = _scaled(q, scale), 1.0
    found = attention(
        q, k, value, bias=bias, mask=mask, scale=scale, window=(left, right), offset=0,
        kv_lengths=key_lengths, return_lse=return_residual,
    )  # fmt: skip
    out, lse = found if return_residual else (found, None)
    results = [_padded(out, query_lengths, 0)]
    if return_residual:
        residual = jax.lax.stop_gradient(jnp.swapaxes(lse, 1, 2)).astype(out.dtype)
        results.append(_padded(residual, query_lengths, -jnp.inf))
    results = results if jnp.ndim(query) == 4 else [x[0] for x in results]
    return tuple(results) if return_residual else results[0]


def _lengths(name: str, lengths: Any, batch: int, most: int) -> Any:
    """(batch,), from 0 to `most`."""
    if lengths is None:
        return None
    lengths = _indices(name, lengths)
    if lengths.shape != (batch,):
        raise ValueError(
            f"{name} has shape {lengths.shape}; it takes {(batch,)}, a length for each sequence"
        )
    return jnp.clip(jnp.asarray(lengths), 0, most)


def _padded(x: Any, lengths: Any, padding: float) -> Any:
    """(batch, seq, …): what is in rows from their sequence's length on is `padding`."""
    if lengths is None:
        return x
    in_use = jnp.arange(x.shape[1]) < lengths[:, None]
    return jnp.where(in_use.reshape(*x.shape[:2], *[1] * (x.ndim - 2)), x, padding)


def _scaled(q: Any, scale: Any) -> Any:
    """q times a number that a plan cannot hold, because it is not known yet."""
    if scale.size != 1:
        raise ValueError(f"scale has shape {scale.shape}; it is one number")
    product = q.astype(jnp.float32) * scale.reshape(()).astype(jnp.float32)
    return product.astype(q.dtype)
