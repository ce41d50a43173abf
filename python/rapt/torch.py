"""PyTorch's attention by rapt: the function one calls with PyTorch alone, with its signature and
its meaning. FlashAttention's functions are here too (they are in `rapt/flash_attn.py`).

    from rapt.torch import scaled_dot_product_attention
    with rapt.torch.sdpa(): ...        # or under every call of PyTorch's own

They are differentiable, once, in the tensors that have gradients in PyTorch, slopes and sinks too."""

from __future__ import annotations

import torch

from ._rapt import attention as plain_attention
from ._torch_autograd import refuse_tangents, with_contiguous_last_axis
from ._torch_dropout import dropout_options
from ._torch_kinds import check_kinds, check_numbers
from ._torch_mode import InsteadOfTorch
from ._torch_op import attention, nobody_watches
from .flash_attn import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache

__all__ = [
    "flash_attn_func", "flash_attn_varlen_func", "flash_attn_with_kvcache",
    "scaled_dot_product_attention", "sdpa",
]  # fmt: skip


def sdpa() -> InsteadOfTorch:
    """Inside `with rapt.torch.sdpa():`, or a function under `@rapt.torch.sdpa()`, every
    torch.nn.functional.scaled_dot_product_attention of this thread is rapt's, however it is called
    from Python; nn.MultiheadAttention's too. What rapt does not do goes to PyTorch, and is logged
    once for each reason (logging.getLogger("rapt"))."""
    return InsteadOfTorch(scaled_dot_product_attention)


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention: (..., head, seq, dim); is_causal lets query
    i see keys 0 to i; a boolean mask says True for what takes part, a float mask is added. dropout_p is
    rounded to a multiple of 1/256; which pairs it drops follows from PyTorch's generator."""
    if not isinstance(query, torch.Tensor):
        check_kinds(query=query)
    if not query.is_meta and torch.is_autocast_enabled(query.device.type):
        query, key, value, attn_mask = autocast(query, key, value, attn_mask)
    if attn_mask is None and dropout_p == 0 and nobody_watches(query, key, value):
        if query.dim() == key.dim() == value.dim() == 4 and (
            enable_gqa or query.size(1) == key.size(1)
        ):
            try:  # as most calls are; whatever else they are is found out below
                return plain_attention(
                    query, key, value, causal=is_causal, offset=0 if is_causal else None,
                    scale=scale, layout="bhsd",
                )  # fmt: skip
            except (ValueError, NotImplementedError, RuntimeError):
                pass
    check_kinds(query=query, key=key, value=value)
    if attn_mask is not None:
        check_kinds(attn_mask=attn_mask)
    if scale is not None:
        check_numbers(scale=scale)
    refuse_tangents(query=query, key=key, value=value, attn_mask=attn_mask)
    if is_causal and attn_mask is not None:
        raise RuntimeError("both is_causal and attn_mask are given; give one of them")
    query, key, value, attn_mask, shape = _with_four_axes(query, key, value, attn_mask, enable_gqa)
    if attn_mask is not None:
        attn_mask = attn_mask if attn_mask.stride(-1) in (0, 1) else attn_mask.contiguous()
        attn_mask = attn_mask.resolve_neg()
    boolean = attn_mask is not None and attn_mask.dtype == torch.bool
    out = attention(
        query,
        key,
        value,
        bias=None if boolean else attn_mask,
        mask=attn_mask if boolean else None,
        causal=is_causal,
        offset=0 if is_causal else None,
        scale=scale,
        layout="bhsd",
        **dropout_options(dropout_p, query),
    )
    return out if out.shape[:-1] == shape else out.reshape(*shape, out.shape[-1])


def autocast(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    """As PyTorch casts what its own attention gets: floats, but for f64."""
    dtype = torch.get_autocast_dtype(tensors[0].device.type)
    return [
        tensor.to(dtype)
        if tensor is not None and tensor.is_floating_point() and tensor.dtype != torch.float64
        else tensor
        for tensor in tensors
    ]


def _with_four_axes(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    enable_gqa: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Size]:
    """(batch, head, seq, dim): missing axes have size 1, axes before the heads become one, and
    what PyTorch would broadcast is expanded, which copies nothing but a mask whose axes before the
    heads have no common stride. With the result's shape, but for its last axis."""
    tensors = [query, key, value]
    shared = 3 if enable_gqa else 2  # axes at the end that need not agree
    leading = [tensor.shape[:-shared] for tensor in tensors]
    if query.dim() < 2 or key.dim() < 2 or value.dim() < 2:
        raise RuntimeError(
            f"query, key and value have {query.dim()}, {key.dim()} and {value.dim()} axes; each "
            "needs two at least, (sequence, dim)"
        )
    axes = max(query.dim(), key.dim(), value.dim())
    if axes != 4 or leading[0] != leading[1] or leading[0] != leading[2]:
        tensors = [t[(None,) * (max(axes, 4) - t.dim())] for t in tensors]
        common = torch.broadcast_shapes(*(tensor.shape[:-shared] for tensor in tensors))
        tensors = [t.expand(*common, *t.shape[-shared:]) for t in tensors]
    query, key, value = tensors
    if mask is not None:
        _check_mask(mask, (*query.shape[:-1], key.shape[-2]))
    shape = query.shape[query.dim() - axes : -1]
    if axes > 4:
        if mask is not None and mask.dim() > 3:
            mask = mask.expand(*query.shape[:-3], *mask.shape[-3:]).flatten(0, -4)
        query, key, value = (tensor.flatten(0, -4) for tensor in tensors)
    query, key, value = map(with_contiguous_last_axis, (query, key, value))
    return query, key, value, mask, shape


def _check_mask(mask: torch.Tensor, scores: tuple[int, ...]) -> None:
    """As PyTorch takes it: a mask may lack axes of the scores, and add none."""
    fits = mask.dim() <= len(scores) and all(
        size in (1, full) for size, full in zip(reversed(mask.shape), reversed(scores))
    )
    if not fits:
        raise RuntimeError(
            f"attn_mask is {tuple(mask.shape)}, which does not broadcast to the scores, "
            f"{tuple(scores)}: (..., head, query, key)"
        )
