"""How rapt makes arrays and finds streams of libraries that DLPack's exchange API does not cover.

NumPy, and PyTorch from 2.10 on, are served in C++ (`python/module/array.cpp`); this is for the
rest. An adapter has three functions: `empty` makes what rapt writes to, `finished` turns that into
what the caller gets, `stream` tells where the library works now."""

from __future__ import annotations

from typing import Any

from . import _rapt


def _device(array: Any) -> str:
    kind, index = array.__dlpack_device__()
    return {2: f"cuda:{index}", 13: f"cuda:{index}", 10: f"hip:{index}"}.get(int(kind), "cpu")


class Torch:
    """PyTorch before 2.10."""

    @staticmethod
    def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        import torch

        types = {
            "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8,
        }  # fmt: skip
        return torch.empty(shape, dtype=types[dtype], device=like.device)

    @staticmethod
    def finished(like: Any, array: Any) -> Any:
        return array

    @staticmethod
    def stream(array: Any) -> int:
        import torch

        return torch.cuda.current_stream(array.device).cuda_stream


class CuPy:
    @staticmethod
    def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        import cupy

        types = {"f32": "float32", "f16": "float16", "u8": "uint8"}
        with like.device:
            return cupy.empty(shape, types.get(dtype, like.dtype))

    @staticmethod
    def finished(like: Any, array: Any) -> Any:
        return array

    @staticmethod
    def stream(array: Any) -> int:
        import cupy

        return cupy.cuda.get_current_stream().ptr


class Jax:
    """JAX's arrays cannot be written to, so rapt's own memory becomes one when it is filled."""

    @staticmethod
    def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return _rapt.Memory(_device(like), shape, dtype)

    @staticmethod
    def finished(like: Any, array: Any) -> Any:
        import jax

        return jax.dlpack.from_dlpack(array)

    @staticmethod
    def stream(array: Any) -> int:
        return 0


class Other:
    """Whatever else speaks DLPack: the caller gives `out`, and work is done in the default stream."""

    @staticmethod
    def empty(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        if len(shape) == 1:  # workspace
            return _rapt.Memory(_device(like), shape, dtype)
        raise ValueError(
            f"rapt cannot make an array of type {type(like).__module__}.{type(like).__name__}; "
            "give the array to write to as out (with return_lse: a pair)"
        )

    @staticmethod
    def finished(like: Any, array: Any) -> Any:
        return array

    @staticmethod
    def stream(array: Any) -> int:
        return 0


_ADAPTERS = {"torch": Torch, "cupy": CuPy, "jax": Jax, "jaxlib": Jax}


def adapter(array_type: type) -> Any:
    """The adapter for arrays of a type."""
    for base in array_type.__mro__:
        library = base.__module__.partition(".")[0]
        if library in _ADAPTERS:
            return _ADAPTERS[library]
    return Other
