"""rapt as an operator of PyTorch: `torch.ops.rapt.attention`, which torch.compile keeps whole and
fake tensors pass through, and `torch.ops.rapt.attention_with_lse`. Their arguments are those of
`rapt.attention`; tensors have a contiguous last axis."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.autograd import forward_ad

from . import _rapt

_ARGUMENTS = """(Tensor q, Tensor k, Tensor v, *, Tensor? bias=None, Tensor? mask=None,
    Tensor? alibi=None, Tensor? sinks=None, Tensor? q_starts=None, Tensor? kv_starts=None,
    Tensor? lengths=None, Tensor? page_table=None, bool causal=False, SymInt? left=None,
    SymInt? right=None, SymInt first_keys=0, SymInt? offset=None, float? scale=None, float softcap=0.0,
    SymInt? max_q_len=None, SymInt? max_kv_len=None, str layout="bshd")"""


def _call(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, left=None, right=None, **rest: Any
) -> Any:
    return _rapt.attention(q, k, v, window=(left, right), **rest)


def _call_with_lse(*tensors: torch.Tensor, **rest: Any) -> Any:
    return _call(*tensors, return_lse=True, **rest)


def _fake(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **rest: Any) -> torch.Tensor:
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def _fake_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, layout="bshd", **rest: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    lse_shape = list(q.shape[:-1])
    if layout == "bshd":
        lse_shape[-2:] = reversed(lse_shape[-2:])
    return _fake(q, k, v), q.new_empty(lse_shape, dtype=torch.float32)


_BACKENDS = {"CPU": torch._C.DispatchKey.CPU, "CUDA": torch._C.DispatchKey.CUDA}


def _without_derivatives(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator where derivatives are asked for, by transforms too: below, PyTorch would drop them
    silently. Where nothing lies between, `function` is called at once, which refuses them itself."""

    def run(keys: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **rest: Any) -> Any:
        below = keys & torch._C._after_autograd_keyset
        if below.highestPriorityTypeId() in _BACKENDS.values():
            return function(q, k, v, **rest)
        others = {other: rest.get(other) for other in ("bias", "alibi", "sinks")}
        refuse_gradients(q=q, k=k, v=v, **others)
        with torch._C._AutoDispatchBelowAutograd():
            return getattr(torch.ops.rapt, name).default.redispatch(below, q, k, v, **rest)

    return run


_library = torch.library.Library("rapt", "DEF")
for _name, _result, _function, _shape in [
    ("attention", "Tensor", _call, _fake),
    ("attention_with_lse", "(Tensor, Tensor)", _call_with_lse, _fake_with_lse),
]:
    _library.define(f"{_name}{_ARGUMENTS} -> {_result}", tags=[torch.Tag.needs_fixed_stride_order])
    for _key in _BACKENDS:
        _library.impl(_name, _function, _key)
    torch.library.register_fake(f"rapt::{_name}", _shape, lib=_library)
    _library.impl(_name, _without_derivatives(_name, _function), "Autograd", with_keyset=True)


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
    """Whether these are plain tensors, and no compiler, tracer, mode or transform wants to see the
    operator."""
    return type(q) is type(k) is type(v) is torch.Tensor and not (
        q.is_meta
        or is_traced()
        or torch._C._len_torch_function_stack()
        or forward_ad._current_level >= 0
    )


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, left=None, right=None, **options: Any
) -> torch.Tensor:
    """The operator; past the dispatcher, which takes longer than a small attention, where nobody
    watches."""
    if nobody_watches(q, k, v):
        return _rapt.attention(q, k, v, window=(left, right), **options)
    return torch.ops.rapt.attention.default(q, k, v, left=left, right=right, **options)


def attention_with_lse(*tensors: torch.Tensor, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
    watched = torch.ops.rapt.attention_with_lse.default
    run = _call_with_lse if nobody_watches(*tensors[:3]) else watched
    return run(*tensors, **options)


def refuse_gradients(**tensors: torch.Tensor | None) -> None:
    """rapt has no backward: a result that looks differentiable and is not would be a trap."""
    forward = forward_ad._current_level >= 0
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if forward and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(
                f"{name} has a tangent, and rapt has no derivatives yet; pass its primal, "
                f"torch.autograd.forward_ad.unpack_dual({name}).primal"
            )
        if tensor.requires_grad and torch.is_grad_enabled():
            raise NotImplementedError(
                f"{name} requires grad, and rapt has no backward yet; call it under "
                f"torch.no_grad() or torch.inference_mode(), or pass {name}.detach()"
            )


def with_contiguous_last_axis(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as rapt takes it: as it is, or a copy; without a negative bit."""
    return (tensor if tensor.stride(-1) == 1 else tensor.contiguous()).resolve_neg()
