"""Sentences for whatever else there is than PyTorch's dense tensors, and than numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.attention.bias import CausalBias


def kind_of(value: Any) -> str:
    """None, "a list", "a numpy.ndarray"."""
    if value is None:
        return "None"
    module, name = str(type(value).__module__), type(value).__name__
    name = name if module == "builtins" else f"{module}.{name}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def check_kinds(**tensors: torch.Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor is None:
            raise TypeError(f"{name} is None; it is a tensor")
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(
                f"{name} is {kind_of(tensor)}; rapt.torch takes tensors: give "
                f"torch.as_tensor({name}), or call rapt.attention, which takes arrays of other "
                "libraries as they are"
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


def check_indices(axes: int, **tensors: torch.Tensor) -> None:
    """For lengths, starts and tables."""
    check_kinds(**tensors)
    for name, tensor in tensors.items():
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
            raise ValueError(f"{name} is {tensor.dtype}; it takes integers: give {name}.int()")
        if tensor.dim() != axes:
            raise ValueError(
                f"{name} has {tensor.dim()} {'axis' if tensor.dim() == 1 else 'axes'}; it needs {axes}"
            )


def is_whole(number: Any) -> bool:
    """Whether it is one integer: of Python, of NumPy, or one that a compiler does not know yet."""
    if isinstance(number, int):
        return True
    return hasattr(number, "__index__") and getattr(number, "ndim", 0) == 0


def check_numbers(**numbers: float) -> None:
    for name, number in numbers.items():
        if not isinstance(number, (int, float)) and not hasattr(number, "__float__"):
            raise TypeError(f"{name} is {kind_of(number)}; it is a number")
