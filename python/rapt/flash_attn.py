"""FlashAttention's functions by rapt, with the signatures and conventions of its version 2: tensors
are (batch, seq, head, dim), a causal mask and a window align the last query with the last key, and
-1 is an unbounded side of the window. Gradients have the same bits on every run, whether or not they
are to be `deterministic`. What rapt does not do is an error that says so."""

from __future__ import annotations

import operator
from typing import Any

import torch

from ._torch_autograd import refuse_gradients, with_contiguous_last_axis
from ._torch_dropout import dropout_options, signed_weights
from ._torch_kinds import check_indices, check_kinds, check_numbers, is_whole, kind_of
from ._torch_op import attention, attention_with_lse, is_traced


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
    """out, or with return_attn_probs (out, lse, S_dmask): None without dropout, else for tests, since it
    holds every pair, e^(score − the row's largest), negative where the pair is dropped."""
    check_kinds(q=q, k=k, v=v)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    dropout = dropout_options(dropout_p, q)
    result = _run(q, k, v, return_attn_probs, **options, **dropout)
    if not (return_attn_probs and dropout):
        return result
    with torch.no_grad():
        return (*result[:2], signed_weights(q, k, **options, **dropout))


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
    check_kinds(q=q, k=k, v=v)
    check_indices(1, cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    if block_table is not None:
        check_indices(2, block_table=block_table)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    weighed = dict(options)
    if block_table is None:
        options["kv_starts"] = cu_seqlens_k
    else:
        options["kv_lengths"] = cu_seqlens_k.diff()
        options["page_table"] = block_table
    options.update(q_starts=cu_seqlens_q, max_q_len=max_seqlen_q, max_kv_len=max_seqlen_k)
    dropout = dropout_options(dropout_p, q)
    result = _run(q, k, v, return_attn_probs, **options, **dropout)
    if not (return_attn_probs and dropout):
        return result
    if block_table is not None:
        raise NotImplementedError("return_attn_probs with dropout_p takes no block_table: leave one out")
    with torch.no_grad():
        lengths = {"q_lengths": cu_seqlens_q.diff(), "kv_lengths": cu_seqlens_k.diff()}
        padded = (_padded(q, cu_seqlens_q, max_seqlen_q), _padded(k, cu_seqlens_k, max_seqlen_k))
        return (*result[:2], signed_weights(*padded, **lengths, **weighed, **dropout))


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
    """Attends to the cache; k and v, if given, and cache_seqlens with them, are first written behind
    what is in it. As in FlashAttention, it has no backward."""
    check_kinds(q=q, k_cache=k_cache, v_cache=v_cache)
    check_kinds(**{name: new for name, new in (("k", k), ("v", v)) if new is not None})
    refuse_gradients(q=q, k_cache=k_cache, v_cache=v_cache, k=k, v=v)
    _refuse(rotary_cos=rotary_cos, rotary_sin=rotary_sin, cache_leftpad=cache_leftpad)
    options = _options(softmax_scale, causal, window_size, softcap, alibi_slopes)
    batch = q.shape[0]
    lengths = _lengths(cache_seqlens)
    _check_appended(k, v, lengths)
    # A cache of whole sequences that are picked by index is one whose pages hold a sequence each.
    table = block_table
    if block_table is not None:
        check_indices(2, block_table=block_table)
    if cache_batch_idx is not None:
        if block_table is not None:
            raise ValueError("both cache_batch_idx and block_table are given; give one of them")
        check_indices(1, cache_batch_idx=cache_batch_idx)
        if cache_batch_idx.shape[0] != batch:
            raise ValueError(
                f"cache_batch_idx is of {cache_batch_idx.shape[0]} sequences and q of {batch}; give "
                "one index for each"
            )
        table = cache_batch_idx.reshape(batch, 1)
    if lengths is not None:
        _check_room(lengths, 0 if k is None else k.shape[1], k_cache, table, block_table)
    if isinstance(lengths, int):
        lengths = torch.full((batch,), lengths, dtype=torch.int32, device=q.device)
    if k is not None:
        _append((k_cache, v_cache), (k, v), lengths, table)
        lengths = lengths + k.shape[1]
    if lengths is not None:
        options["kv_lengths"] = lengths
    if table is not None:
        options["page_table"] = table
    result = _run(q, k_cache, v_cache, return_softmax_lse, **options)
    return result[:2] if return_softmax_lse else result


def _lengths(cache_seqlens: int | torch.Tensor | None) -> int | torch.Tensor | None:
    if isinstance(cache_seqlens, torch.Tensor):
        check_indices(1, cache_seqlens=cache_seqlens)
    elif cache_seqlens is not None and not isinstance(cache_seqlens, int):
        if not is_whole(cache_seqlens):
            raise TypeError(
                f"cache_seqlens is {kind_of(cache_seqlens)}; it is a whole number, or a tensor of "
                "int32 with one for each sequence"
            )
        return operator.index(cache_seqlens)
    return cache_seqlens


def _check_appended(
    k: torch.Tensor | None, v: torch.Tensor | None, lengths: int | torch.Tensor | None
) -> None:
    parts = {"k": k, "v": v, "cache_seqlens": lengths}
    missing = [name for name, part in parts.items() if part is None]
    if missing and (k is not None or v is not None):
        raise ValueError(
            f"{'v' if k is None else 'k'} is given without {' and '.join(missing)}; appending needs "
            "all three of k, v and cache_seqlens"
        )


def _check_room(
    lengths: int | torch.Tensor,
    new: int,
    cache: torch.Tensor,
    table: torch.Tensor | None,
    block_table: torch.Tensor | None,
) -> None:
    """That the cache has room for each sequence and its new keys, as far as the host knows. Lengths
    on a device are read back, which waits for it, only where there is a block_table, as
    FlashAttention does; not while a graph is captured or a compiler looks on."""
    room = cache.shape[1] * (1 if table is None else table.shape[1])
    least, most = 0, 0
    if isinstance(lengths, int):
        least = most = lengths
    elif lengths.numel() > 0 and _may_read(lengths, waits=block_table is not None):
        least, most = map(int, lengths.cpu().aminmax())
    if least < 0:
        raise RuntimeError(f"cache_seqlens has {least}; lengths are 0 or more")
    if most + new <= room:
        return
    more = f" and k brings {new} more" if new else ""
    if block_table is None:
        raise RuntimeError(
            f"k_cache has room for {room} keys of a sequence; cache_seqlens has {most}{more}: make "
            "a longer cache"
        )
    raise RuntimeError(
        f"block_table has room for {block_table.shape[1]} pages of {cache.shape[1]} keys of a "
        f"sequence; cache_seqlens has {most}{more}: give it more columns"
    )


def _may_read(tensor: torch.Tensor, waits: bool) -> bool:
    if is_traced():
        return False
    return not tensor.is_cuda or (waits and not torch.cuda.is_current_stream_capturing())


def _append(
    caches: tuple[torch.Tensor, torch.Tensor],
    new: tuple[torch.Tensor, torch.Tensor],
    lengths: torch.Tensor,
    table: torch.Tensor | None,
) -> None:
    """Writes new keys and values, (batch, new, head, dim), into the caches, behind each sequence's
    length."""
    batch = lengths.shape[0]
    named = {"k": new[0], "v": new[1]} | ({} if table is not None else {"k_cache": caches[0]})
    for name, tensor in named.items():
        if tensor.shape[0] != batch:
            raise ValueError(f"{name} has {tensor.shape[0]} sequences; the lengths are of {batch}")
    if caches[0].shape[:2] != caches[1].shape[:2]:
        raise ValueError(
            f"k_cache is {tuple(caches[0].shape)} and v_cache {tuple(caches[1].shape)}; their first "
            "two axes must be the same"
        )
    places = _places(caches[0], new[0].shape[1], lengths, table)
    for cache, rows in zip(caches, new):
        cache[places] = rows.to(cache.dtype)


def _places(
    cache: torch.Tensor, new: int, lengths: torch.Tensor, table: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where new keys go, behind each sequence's length: its page or sequence, and the row there, both
    (batch, new). Lengths and pages that nobody could look at are brought into the cache: wrong data
    gives a wrong result, never a wrong access."""
    page_size = cache.shape[1]
    position = lengths.long()[:, None] + torch.arange(new, device=cache.device)
    if table is None:
        sequence = torch.arange(cache.shape[0], device=cache.device)[:, None]
        return sequence.expand_as(position), position.clamp(0, page_size - 1)
    position = position.clamp(0, table.shape[1] * page_size - 1)
    page = table.long().gather(1, position // page_size)
    return page.clamp(0, cache.shape[0] - 1), position % page_size


def _options(
    scale: float | None,
    causal: bool,
    window: tuple[int, int],
    softcap: float,
    slopes: torch.Tensor | None,
) -> dict[str, Any]:
    check_numbers(softcap=softcap)
    if scale is not None:
        check_numbers(softmax_scale=scale)
    if slopes is not None:
        check_kinds(alibi_slopes=slopes)
    if getattr(window, "ndim", 0) == 1:  # a tensor, or an array
        window = window.tolist()
    is_pair = isinstance(window, (tuple, list)) and len(window) == 2
    if not is_pair or not all(is_whole(side) for side in window):
        raise TypeError(
            f"window_size is {window!r}; it is a pair of whole numbers (left, right), where -1 is "
            "unbounded: give (-1, -1) for none"
        )
    left, right = (None if side < 0 else side for side in window)
    return {
        "causal": causal,
        "left": left,
        "right": None if causal else right,  # what lies after the position is not seen anyway
        "softcap": softcap,
        "scale": scale,
        "alibi": slopes,
    }


def _padded(packed: torch.Tensor, starts: torch.Tensor, longest: int) -> torch.Tensor:
    """(total, head, dim) as (batch, longest, head, dim), with zeros behind each sequence."""
    if packed.shape[0] == 0:  # no row stands for those behind
        return packed.new_zeros(starts.shape[0] - 1, longest, *packed.shape[1:])
    place = starts[:-1, None] + torch.arange(longest, device=packed.device)
    inside = place < starts[1:, None]
    return packed[place.clamp(max=packed.shape[0] - 1).long()] * inside[:, :, None, None]


def _refuse(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise NotImplementedError(
                f"{name} is given, and rapt does not do it: leave it out, or apply it before"
            )


def _run(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, with_lse: bool, **options: Any) -> Any:
    tensors = map(with_contiguous_last_axis, (q, k, v))
    if not with_lse:
        return attention(*tensors, **options)
    return (*attention_with_lse(*tensors, **options), None)
