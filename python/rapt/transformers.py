"""rapt under Hugging Face's models:

import rapt.transformers
rapt.transformers.register()
model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="rapt")
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import Any

import torch

from ._torch_autograd import with_contiguous_last_axis
from ._torch_dropout import dropout_options
from ._torch_op import attention
from .torch import autocast


_registered: set[str] = set()


def register(name: str = "rapt") -> None:
    """Makes rapt an attention implementation of transformers. Masks are those of its `sdpa`:
    boolean, and left out where plain causality says the same. A model whose attention does not go
    through transformers' attention interface would misread them: it is refused with a ValueError when
    it is made. When set_attn_implementation() names rapt, such a model keeps `eager`, with
    transformers' warning, or is refused."""
    from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, attention_mask)
    if not _registered:
        _refuse_other_models(PreTrainedModel)
    _registered.add(name)


def _refuse_other_models(base: type) -> None:
    """transformers asks a model about each implementation where it is made or changed, and knows
    of no way for an implementation to ask the model."""
    transformers_check = base.get_correct_attn_implementation

    @functools.wraps(transformers_check)
    def check(self: Any, requested_attention: str | None, *rest: Any, **options: Any) -> str:
        if requested_attention in _registered:
            reason = refusal(type(self))
            if reason:
                raise ValueError(
                    f'attn_implementation="{requested_attention}": {type(self).__name__} {reason}; '
                    'use "eager" for it, or for it alone where it is a part of a model: '
                    f'{{"": "{requested_attention}", "its_config": "eager"}}'
                )
        return transformers_check(self, requested_attention, *rest, **options)

    base.get_correct_attn_implementation = check


# Code that looks at the implementation's name knows some names, and rapt's is not among them.
_CHOOSES_BY_NAME = re.compile(
    r"_ATTENTION_CLASSES\[\w+\._attn_implementation\]|_attn_implementation (in \(|== \"sdpa\")"
)


def refusal(model: type) -> str | None:
    """Why rapt cannot compute the attention of a class of models; None: it can. What the class says
    of itself is what transformers goes by, too."""
    if not model._can_set_attn_implementation():
        return "does not go through transformers' attention interface"
    # What sdpa does not do and rapt does (soft caps, sinks) leaves a model to flash and flex; a model
    # that hands on all there is to know about its attention says so besides.
    other = model._supports_attention_backend and (
        model._supports_flash_attn or model._supports_flex_attn
    )
    if not (model._supports_sdpa or other):
        return "does not say that its attention can be computed by any fused implementation"
    if _CHOOSES_BY_NAME.search(inspect.getsource(sys.modules[model.__module__])):
        return "chooses its attention by the names of the implementations that it knows"
    return None


def attention_mask(
    *args: Any, config: Any = None, allow_is_causal_skip: bool = True, **options: Any
) -> torch.Tensor | None:
    """sdpa's mask. It is left out only where attention_forward() will know that it was causal: layers
    of a config that sees both ways say that they are not."""
    from transformers.masking_utils import sdpa_mask

    both_ways = bool(getattr(config, "use_bidirectional_attention", False))
    skip = allow_is_causal_skip and not both_ways
    return sdpa_mask(*args, config=config, allow_is_causal_skip=skip, **options)


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
    cache: Any = None,
    indices: torch.Tensor | None = None,
    block_indices: torch.Tensor | None = None,
    **unused: Any,
) -> tuple[torch.Tensor, None]:
    """query, key and value are (batch, head, seq, dim), the result is (batch, seq, head, dim)."""
    if indices is not None or block_indices is not None:
        raise NotImplementedError(
            f"{type(module).__name__} chooses keys for each query (sparse attention), which rapt does "
            'not take as indices; use attn_implementation="eager" for this model'
        )
    if type(cache).__name__ == "PagedAttentionCache":
        raise NotImplementedError(
            "rapt does not read the paged cache of transformers' continuous batching; use "
            'attn_implementation="sdpa" for it, or generate()'
        )
    if not query.is_meta and torch.is_autocast_enabled(query.device.type):
        query, key, value, attention_mask = autocast(query, key, value, attention_mask)
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
        **dropout_options(dropout, query),
    )
    return out, None
