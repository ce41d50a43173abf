"""Gradients of rapt's operators in PyTorch. Forward keeps lse beside out, and backward is an
operator of its own, so that a compiler sees both. Gradients have no gradients, and nothing has a
tangent: both are errors, never silently zero."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.autograd import forward_ad

# What the dispatcher calls sees one level of torch.func's transforms, and so do these functions.
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

_BACKENDS = (torch._C.DispatchKey.CPU, torch._C.DispatchKey.CUDA)


def may_record(*tensors: torch.Tensor | None) -> bool:
    """Whether a graph of gradients goes through any of these."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def refuse_tangents(**tensors: torch.Tensor | None) -> None:
    """A result without its tangent would be a trap."""
    if forward_ad._current_level < 0:
        return
    for name, tensor in tensors.items():
        if tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(
                f"{name} has a tangent, and rapt has no forward-mode derivatives; pass its primal, "
                f"torch.autograd.forward_ad.unpack_dual({name}).primal"
            )


def refuse_gradients(**tensors: torch.Tensor | None) -> None:
    """For functions whose result looks differentiable and is not."""
    refuse_tangents(**tensors)
    for name, tensor in tensors.items():
        if may_record(tensor):
            raise NotImplementedError(
                f"{name} requires grad, and this function records no gradients, as "
                "rapt.torch.scaled_dot_product_attention and flash_attn_func do; call one of them, "
                f"or this under torch.no_grad() or torch.inference_mode(), or pass {name}.detach()"
            )


def with_contiguous_last_axis(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor as rapt takes it: as it is, or a copy; without a negative bit."""
    return (tensor if tensor.stride(-1) == 1 else tensor.contiguous()).resolve_neg()


def _below(name: str, keys: Any, q: Any, k: Any, v: Any, **rest: Any) -> Any:
    """The operator without its derivatives: at once where nothing lies between."""
    below = keys & torch._C._after_autograd_keyset
    if below.highestPriorityTypeId() in _BACKENDS:
        return _functions[name](q, k, v, **rest)
    with torch._C._AutoDispatchBelowAutograd():
        return getattr(torch.ops.rapt, name).default.redispatch(below, q, k, v, **rest)


class _Attention(_SingleLevelFunction):
    """out and lse. Each tensor is an argument of its own, called as `names` says."""

    @staticmethod
    def forward(ctx, keys, options, names, *tensors):
        arguments = dict(zip(names, tensors))
        wanted = dict(zip(names, ctx.needs_input_grad[3:]))
        if wanted.get("bias") and 0 in arguments["bias"].stride():
            arguments["bias"] = arguments["bias"].contiguous()  # a sum is no gradient of its parts
        out, lse = _below("attention_with_lse", keys, **arguments, **options)
        ctx.save_for_backward(*arguments.values(), out, lse)
        ctx.names, ctx.wanted, ctx.options = names, wanted, options
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, dout, dlse):
        *tensors, out, lse = ctx.saved_tensors
        arguments = dict(zip(ctx.names, tensors)) | ctx.options
        dout = torch.zeros_like(out) if dout is None else dout
        gradients = torch.ops.rapt.attention_backward(
            out=out,
            lse=lse,
            dout=with_contiguous_last_axis(dout),
            dlse=None if dlse is None else with_contiguous_last_axis(dlse),
            **arguments,
            **{f"d{name}": ctx.wanted.get(name, False) for name in ("bias", "sinks", "alibi")},
        )
        by_name = dict(zip(("q", "k", "v", "bias", "sinks", "alibi"), gradients))
        return None, None, None, *(by_name[n] if ctx.wanted[n] else None for n in ctx.names)


class _Gradients(_SingleLevelFunction):
    """The gradients of attention, for a second backward to run into."""

    @staticmethod
    def forward(ctx, keys, options, names, *tensors):
        return _below("attention_backward", keys, **dict(zip(names, tensors)), **options)

    @staticmethod
    def backward(ctx, *gradients):
        raise NotImplementedError(
            "rapt's attention is differentiated twice, and its gradients have no gradients; compute "
            "this part with torch.nn.functional.scaled_dot_product_attention under "
            "torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH), outside of "
            "rapt.torch.sdpa()"
        )


_functions: dict[str, Callable[..., Any]] = {}  # what computes each operator


def with_derivatives(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The operator that `function` computes, where autograd looks on."""
    _functions[name] = function

    def run(keys: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **rest: Any) -> Any:
        tensors = {n: value for n, value in rest.items() if isinstance(value, torch.Tensor)}
        tensors = {"q": q, "k": k, "v": v, **tensors}
        refuse_tangents(**tensors)
        if not may_record(*tensors.values()):
            return _below(name, keys, q, k, v, **rest)
        options = {n: value for n, value in rest.items() if n not in tensors}
        call = keys, options, tuple(tensors), *tensors.values()
        with enable_single_level_autograd_function():
            if name == "attention_backward":
                return _Gradients.apply(*call)
            out, lse = _Attention.apply(*call)
        return out if name == "attention" else (out, lse)

    return run
