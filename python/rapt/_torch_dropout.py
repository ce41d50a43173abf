"""Dropout for the functions of PyTorch and FlashAttention: a seed from PyTorch's generator, which
forward and backward share, and for FlashAttention's `return_attn_probs` the pairs that it drops."""

from __future__ import annotations

import math
from typing import Any

import torch

from ._torch_kinds import check_numbers

_MASK = 0xFFFFFFFF


def dropout_options(probability: float, q: torch.Tensor) -> dict[str, Any]:
    """The options of rapt's operators. A captured graph and a compiled program draw anew each time, as
    they do from PyTorch's generator."""
    if probability == 0:
        return {}
    check_numbers(dropout_p=probability)
    if not 0 <= probability <= 1:
        raise ValueError(f"dropout_p is {probability}; it is a probability, from 0 to 1")
    if not 1 / 512 <= probability < 1 - 1 / 512:
        raise NotImplementedError(
            f"dropout_p is {probability}; rapt drops pairs with probabilities from 1/256 to 255/256, in "
            "steps of 1/256: give 0.0 for none"
        )
    seed = torch.randint(2**63 - 1, (2,), dtype=torch.int64, device=q.device)
    return {"dropout_p": float(probability), "seed": seed}


def signed_weights(
    q: torch.Tensor,
    k: torch.Tensor,
    *,
    seed: torch.Tensor,
    dropout_p: float,
    q_lengths: torch.Tensor | None = None,
    kv_lengths: torch.Tensor | None = None,
    scale: float | None = None,
    causal: bool = False,
    left: int | None = None,
    right: int | None = None,
    softcap: float = 0.0,
    alibi: torch.Tensor | None = None,
) -> torch.Tensor:
    """FlashAttention's S_dmask: e^(score − the row's largest), of q's type, negative where a pair is
    dropped and 0 where it is not seen, (batch, head, query, key). q and k are (batch, seq, head, dim),
    padded where there are lengths. It holds every pair: for tests."""
    heads, q_len, kv_len = q.shape[2], q.shape[1], k.shape[1]
    if kv_len == 0:  # no score is the largest
        return q.new_zeros(q.shape[0], heads, q_len, 0)
    scores = torch.einsum(
        "bihd,bjhd->bhij", q.float(), k.float().repeat_interleave(heads // k.shape[2], dim=2)
    )
    scores = scores * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    all_of = torch.full((q.shape[0],), 1, device=q.device)
    q_lengths = all_of * q_len if q_lengths is None else q_lengths.long()
    kv_lengths = all_of * kv_len if kv_lengths is None else kv_lengths.long()
    query = torch.arange(q_len, device=q.device)[:, None]
    key = torch.arange(kv_len, device=q.device)[None, :]
    position = query + (kv_lengths - q_lengths)[:, None, None]  # (batch, query, 1)
    if alibi is not None:
        slopes = alibi.expand(q.shape[0], heads)[:, :, None, None]
        scores = scores - slopes * (position - key).abs()[:, None]
    seen = (query < q_lengths[:, None, None]) & (key < kv_lengths[:, None, None])
    if causal:
        seen = seen & (key <= position)
    elif right is not None:
        seen = seen & (key <= position + right)
    if left is not None:
        seen = seen & (key >= position - left)
    scores = scores.masked_fill(~seen[:, None], -math.inf)
    largest = scores.amax(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    weights = (scores - largest).exp()
    kept = kept_pairs(seed, dropout_p, q.shape[0], heads, q_len, kv_len)
    return torch.where(kept, weights, -weights).to(q.dtype)


def kept_pairs(
    seed: torch.Tensor, dropout_p: float, batch: int, heads: int, q_len: int, kv_len: int
) -> torch.Tensor:
    """(batch, head, query, key): which pairs dropout keeps, as docs/numerics.md has it."""

    def numbers(count: int) -> torch.Tensor:
        return torch.arange(count, device=seed.device)

    sequence, head = torch.meshgrid(numbers(batch), numbers(heads), indexing="ij")
    of_head = _philox((*_words(seed[1]), sequence, head), _words(seed[0]))[:2]
    query, key = numbers(q_len)[:, None], numbers(kv_len)[None, :]
    row, column = (index // 32 * 8 + index % 8 for index in (query, key))
    none = torch.zeros_like(row)
    words = _philox((row, none, column, none), [word[:, :, None, None] for word in of_head])
    word = torch.where(
        query // 16 % 2 == 0,
        torch.where(query // 8 % 2 == 0, words[0], words[1]),
        torch.where(query // 8 % 2 == 0, words[2], words[3]),
    )
    return (word >> 8 * (key // 8 % 4) & 0xFF) >= math.floor(256 * dropout_p + 0.5)


def _words(number: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return number & _MASK, number >> 32 & _MASK


def _philox(counter: Any, key: Any) -> tuple[torch.Tensor, ...]:
    """Philox4x32-10 on words in int64, whose products wrap around."""
    a, b, c, d = counter
    first_key, second_key = key
    for _ in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = (second >> 32 & _MASK) ^ b ^ first_key, second & _MASK
        c, d = (first >> 32 & _MASK) ^ d ^ second_key, first & _MASK
        first_key, second_key = first_key + 0x9E3779B9 & _MASK, second_key + 0xBB67AE85 & _MASK
    return a, b, c, d
