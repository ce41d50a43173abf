"""Sentences for whatever else there is than PyTorch's dense tensors."""

from __future__ import annotations

import torch
from torch.nn.attention.bias import CausalBias


def check_kinds(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor is None:
            raise TypeError(f"{name} is None; it is a tensor")
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{name} is a {type(tensor).__module__}.{type(tensor).__name__}; rapt.torch takes "
                f"tensors: give torch.as_tensor({name}), or call rapt.attention, which takes arrays of "
                "other libraries as they are"
            )
        if isinstance(tensor, CausalBias):  # what it holds says nothing
            raise NotImplementedError(
                f"{name} is a torch.nn.attention.bias.CausalBias; give is_causal=True, or call "
                "flash_attn_func(causal=True), which aligns at the last key"
            )
        if tensor.is_nested:
            raise NotImplementedError(
                f"{name} is a nested tensor; pack its sequences and call flash_attn_varlen_func, or "
                f"pad them: torch.nested.to_padded_tensor({name}, 0.0), with a mask"
            )
        if tensor.layout != torch.strided:
            raise NotImplementedError(
                f"{name} is sparse ({tensor.layout}); rapt takes dense tensors: give "
                f"{name}.to_dense()"
            )
