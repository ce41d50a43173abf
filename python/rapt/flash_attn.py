"""FlashAttention's functions by rapt, with the signatures and conventions of its version 2: tensors
are (batch, seq, head, dim), a causal mask and a window align the last query with the last key, and
-1 is an unbounded side of the window. What rapt does not do is an error that says so."""

from __future__ import annotations

from typing import Any

import torch

from ._torch_op import (
    attention,
    attention_with_lse,
    refuse_gradients,
    with_contiguous_last_axis,
)


def flash_attn_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Any:
    """out, or (out, lse, None) with return_attn_probs: rapt never holds the probabilities."""
    refuse_gradients(q=q, k=k, v=v)
    _refuse(dropout_p=dropout_p)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    return _run(q, k, v, return_attn_probs, **options)


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: torch.Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: torch.Tensor | None = None,
) -> Any:
    """q is (total, head, dim), and so are k and v; with a block_table they are pages."""
    refuse_gradients(q=q, k=k, v=v)
    _refuse(dropout_p=dropout_p)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    if block_table is None:
        options["kv_starts"] = cu_seqlens_k
    else:
        options["lengths"] = cu_seqlens_k.diff().to(torch.int32)
        options["page_table"] = block_table
    options.update(q_starts=cu_seqlens_q, max_q_len=max_seqlen_q, max_kv_len=max_seqlen_k)
    return _run(q, k, v, return_attn_probs, **options)


def flash_attn_with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor | None = None,
    v: torch.Tensor | None = None,
    rotary_cos: torch.Tensor | None = None,
    rotary_sin: torch.Tensor | None = None,
    cache_seqlens: int | torch.Tensor | None = None,
    cache_batch_idx: torch.Tensor | None = None,
    cache_leftpad: torch.Tensor | None = None,
    block_table: torch.Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    rotary_interleaved: bool = True,
    alibi_slopes: torch.Tensor | None = None,
    num_splits: int = 0,
    return_softmax_lse: bool = False,
) -> Any:
    """Attends to the cache; k and v, if given, are first written behind what is in it."""
    refuse_gradients(q=q, k_cache=k_cache, v_cache=v_cache, k=k, v=v)
    _refuse(rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_leftpad=cache_leftpad)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    batch = q.shape[0]
    # A cache of whole sequences that are picked by index is one whose pages hold a sequence each.
    table = block_table
    if cache_batch_idx is not None:
        if block_table is not None:
            raise ValueError("both cache_batch_idx and block_table are given; give one of them")
        table = cache_batch_idx.to(torch.int32).reshape(batch, 1)
    lengths = cache_seqlens
    if isinstance(lengths, int):
        lengths = torch.full((batch,), lengths, dtype=torch.int32, device=q.device)
    if k is not None:
        if v is None or lengths is None:
            raise ValueError("k is given without v and cache_seqlens; appending needs all three")
        _append(k_cache, k, lengths, table)
        _append(v_cache, v, lengths, table)
        lengths = lengths + k.shape[1]
    if lengths is not None:
        options["lengths"] = lengths.to(torch.int32)
    if table is not None:
        options["page_table"] = table
    result = _run(q, k_cache, v_cache, return_softmax_lse, **options)
    return result[:2] if return_softmax_lse else result


def _append(
    cache: torch.Tensor, new: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor | None
) -> None:
    """Writes (batch, new, head, dim) into the cache, each sequence at its length."""
    position = lengths.long()[:, None] + torch.arange(new.shape[1], device=new.device)
    if table is None:
        outer = torch.arange(new.shape[0], device=new.device)[:, None].expand_as(position)
    else:
        outer = table.long().gather(1, position // cache.shape[1])
        position = position % cache.shape[1]
    cache[outer, position] = new.to(cache.dtype)


def _options(
    scale: float | None,
    causal: bool,
    window: tuple[int, int],
    softcap: float,
    slopes: torch.Tensor | None,
) -> dict[str, Any]:
    left, right = (None if side < 0 else side for side in window)
    return {
        "causal": causal,
        "left": left,
        "right": None if causal else right,  # what lies after the position is not seen anyway
        "softcap": softcap,
        "scale": scale,
        "alibi": slopes,
    }


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None and not (isinstance(value, float) and value == 0):
            raise NotImplementedError(
                f"{name} is given, and rapt does not do it: leave it out, or apply it before"
            )


def _run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, with_lse: bool, **options: Any) -> Any:
    tensors = map(with_contiguous_last_axis, (q, k, v))
    if not with_lse:
        return attention(*tensors, **options)
    return (*attention_with_lse(*tensors, **options), None)
