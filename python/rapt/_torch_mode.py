"""Puts a function under every call of PyTorch's scaled_dot_product_attention inside a `with`, or
inside a function that it decorates, in the thread that entered it. What the function does not do goes to PyTorch, and says so in the log
`rapt`, once for each reason."""

from __future__ import annotations

import contextlib
import functools
import logging
import types
from typing import Any, Callable

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from ._rapt import devices

_REFUSALS = (ValueError, NotImplementedError, RuntimeError, LookupError, TypeError)
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@functools.lru_cache(maxsize=1024)
def _warn(reason: str) -> None:
    logging.getLogger("rapt").warning("attention goes to PyTorch: %s", reason)


@torch.compiler.assume_constant_result  # a compiler calls it when it looks at a program
def _say_once(reason: str) -> None:
    _warn(reason)


class InsteadOfTorch(TorchFunctionMode, contextlib.ContextDecorator):
    def __init__(self, attend: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self._attend = attend
        gpus = any(device.backend in ("cuda", "hip") for device in devices())
        self._places = ("cpu", "meta", "cuda") if gpus else ("cpu", "meta")

    def __torch_function__(self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is functional.scaled_dot_product_attention:
            return self._attention(*args, **kwargs)
        if func is functional.multi_head_attention_forward:
            return self._multi_head_attention(*args, **kwargs)
        return func(*args, **kwargs)

    def _attention(self, query: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        # A compiler's tensors are only described, and rapt would refuse when the program runs.
        if query.dtype not in _DTYPES:
            reason = f"query is {query.dtype}; rapt computes in float32, float16 and bfloat16"
        elif query.device.type not in self._places:
            reason = f"query lies on {query.device.type}, where rapt has no kernels here"
        else:
            try:
                return self._attend(query, *args, **kwargs)
            except _REFUSALS as refusal:
                reason = str(refusal)
        _say_once(reason)
        return functional.scaled_dot_product_attention(query, *args, **kwargs)

    def _multi_head_attention(self, *args: Any, **kwargs: Any) -> Any:
        """A mode does not see what functions written in Python call; so its body runs with other
        globals, under which it does not ask for modes again."""
        seen = []

        def attention(*args: Any, **kwargs: Any) -> torch.Tensor:
            seen.append(True)
            return self._attention(*args, **kwargs)

        function = functional.multi_head_attention_forward
        names = vars(functional) | {
            "scaled_dot_product_attention": attention,
            "has_torch_function": lambda tensors: False,
        }
        body = types.FunctionType(function.__code__, names, argdefs=function.__defaults__)
        result = body(*args, **kwargs)
        if not seen:
            _say_once(
                "torch.nn.MultiheadAttention returns its weights, and computes them without "
                "scaled_dot_product_attention; call it with need_weights=False"
            )
        return result
