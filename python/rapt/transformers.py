"""rapt under Hugging Face's models:

import rapt.transformers
rapt.transformers.register()
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="rapt")
"""

from __future__ import annotations

from typing import Any

import torch

from ._torch_op import attention, refuse_gradients, with_contiguous_last_axis


def register(name: str = "rapt") -> None:
    """Makes rapt an attention implementation of transformers. Masks are those of its `sdpa`:
    boolean, and left out where plain causality says the same."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)


def attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    position_bias: torch.Tensor | None = None,
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """query, key and value are (batch, head, seq, dim), the result is (batch, seq, head, dim)."""
    refuse_gradients(query=query, key=key, value=value)
    if dropout > 0:
        raise NotImplementedError(
            f"attention dropout is {dropout}; rapt computes exact attention: call model.eval()"
        )
    # One query sees all keys; more start at the first key, where there is no mask.
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    causal = bool(causal) and attention_mask is None and query.shape[2] > 1
    boolean = attention_mask is not None and attention_mask.dtype == torch.bool
    bias = None if boolean else attention_mask
    if position_bias is not None:
        bias = position_bias if bias is None else bias + position_bias
    out = attention(
        *(with_contiguous_last_axis(tensor.transpose(1, 2)) for tensor in (query, key, value)),
        bias=None if bias is None else with_contiguous_last_axis(bias),
        mask=attention_mask if boolean else None,
        sinks=None if s_aux is None else s_aux.float(),
        causal=causal,
        offset=0 if causal else None,
        scale=scaling,
        softcap=softcap or 0.0,
    )
    return out, None
