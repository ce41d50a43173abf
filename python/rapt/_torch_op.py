"""rapt as operators of PyTorch: `torch.ops.rapt.attention`, which torch.compile keeps whole and fake
tensors pass through, `torch.ops.rapt.attention_with_lse`, and `torch.ops.rapt.attention_backward`,
which autograd calls (`rapt/_torch_autograd.py`). Their arguments are those of `rapt.attention` and
`rapt.attention_backward`, by their other names (`lengths`, `dropout_p`) too; tensors have a contiguous
last axis."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad

from . import _rapt, _torch_fake
from ._torch_autograd import may_record, with_derivatives

_OPTIONS = """Tensor? bias=None, Tensor? mask=None, Tensor? alibi=None, Tensor? sinks=None,
    Tensor? q_starts=None, Tensor? kv_starts=None, Tensor? kv_lengths=None, Tensor? page_table=None,
    Tensor? lengths=None, Tensor? seed=None, bool causal=False, SymInt? left=None, SymInt? right=None, SymInt first_keys=0,
    SymInt? offset=None, float? scale=None, float softcap=0.0, float? dropout=None, float? dropout_p=None, SymInt? max_q_len=None,
    SymInt? max_kv_len=None, str layout='bshd'"""
_ARGUMENTS = f"(Tensor q, Tensor k, Tensor v, *, {_OPTIONS})"
_BACKWARD_ARGUMENTS = f"""(Tensor q, Tensor k, Tensor v, *, Tensor out, Tensor lse, Tensor dout,
    Tensor? dlse=None, {_OPTIONS}, bool dbias=False, bool dsinks=False, bool dalibi=False)"""

_GRADIENTS = ", ".join(["Tensor"] * 6)


def _call(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, left=None, right=None, **rest: Any
) -> Any:
    return _rapt.attention(q, k, v, window=(left, right), **rest)


def _call_with_lse(*tensors: torch.Tensor, **rest: Any) -> Any:
    return _call(*tensors, return_lse=True, **rest)


def _call_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, left=None, right=None, **rest: Any
) -> tuple[torch.Tensor, ...]:
    """dq, dk, dv, dbias, dsinks and dalibi; empty where not wanted, as operators have no optional
    results."""
    gradients = _rapt.attention_backward(q, k, v, window=(left, right), **rest)
    return tuple(q.new_empty(0) if gradient is None else gradient for gradient in gradients)


_library = torch.library.Library("rapt", "DEF")
for _name, _signature, _function in [
    ("attention", f"{_ARGUMENTS} -> Tensor", _call),
    ("attention_with_lse", f"{_ARGUMENTS} -> (Tensor, Tensor)", _call_with_lse),
    ("attention_backward", f"{_BACKWARD_ARGUMENTS} -> ({_GRADIENTS})", _call_backward),
]:
    _library.define(_name + _signature, tags=[torch.Tag.needs_fixed_stride_order])
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _function, _key)
    torch.library.register_fake(f"rapt::{_name}", getattr(_torch_fake, _name), lib=_library)
    _library.impl(_name, with_derivatives(_name, _function), "Autograd", with_keyset=True)


def is_traced() -> bool:
    """Whether a compiler, tracer, dispatch mode or transform (such as vmap) stands between the caller
    and the numbers."""
    return bool(
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state()
        or torch._C._functorch.peek_interpreter_stack()
    )


def nobody_watches(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
    """Whether these are plain tensors, and no compiler, tracer, mode, transform or graph of gradients
    wants to see the operator."""
    return type(q) is type(k) is type(v) is torch.Tensor and not (
        q.is_meta
        or is_traced()
        or torch._C._len_torch_function_stack()
        or forward_ad._current_level >= 0
        or ((q.requires_grad or k.requires_grad or v.requires_grad) and torch.is_grad_enabled())
    )


def _logits(options: dict[str, Any]) -> tuple[torch.Tensor | None, ...]:
    return options.get("bias"), options.get("alibi"), options.get("sinks")


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, left=None, right=None, **options: Any
) -> torch.Tensor:
    """The operator; past the dispatcher, which takes longer than a small attention, where nobody
    watches."""
    if nobody_watches(q, k, v) and not may_record(*_logits(options)):
        return _rapt.attention(q, k, v, window=(left, right), **options)
    return torch.ops.rapt.attention.default(q, k, v, left=left, right=right, **options)


def attention_with_lse(*tensors: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    watched = torch.ops.rapt.attention_with_lse.default
    unwatched = nobody_watches(*tensors) and not may_record(*_logits(options))
    run = _call_with_lse if unwatched else watched
    return run(*tensors, **options)
