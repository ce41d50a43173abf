"""How rapt makes arrays and finds streams of libraries other than NumPy, which is served in C++
(`python/module/array.cpp`).

An adapter is made when an array of its library is first seen. It has `empty`, which makes what rapt
writes to, and `stream`, which tells where the library works now, unless DLPack's exchange API does.
Where what rapt writes to is not what the caller gets, `finished` turns one into the other; `read_only`
says that arrays of the library must not be written to. `refuse` raises an error for an array that is
more than its memory, or has none of its own, or none in one place."""

from __future__ import annotations

import contextlib
import numbers
from typing import Any

from . import _rapt


def _device(array: Any) -> str:
    kind, index = array.__dlpack_device__()
    return {2: f"cuda:{index}", 13: f"cuda:{index}", 10: f"hip:{index}"}.get(int(kind), "cpu")


class Torch:
    """What the exchange API makes is foreign to PyTorch's allocator, whose `record_stream` passes
    it over; so PyTorch's own function makes it."""

    def __init__(self, array_type: type) -> None:
        import torch

        self._torch = torch
        self._types = {
            "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": torch.uint8,
        }  # fmt: skip
        self.is_grad_enabled = torch.is_grad_enabled
        self.is_negative = torch.Tensor.is_neg
        self.forward_mode = vars(torch.autograd.forward_ad)

    def refuse(self, name: str, tensor: Any) -> None:
        from ._torch_autograd import refuse_gradients
        from ._torch_kinds import check_kinds

        check_kinds(**{name: tensor})
        if tensor.is_meta:
            raise ValueError(
                f"{name} lies on the meta device: it has sizes, and no numbers; give a tensor with "
                "memory (rapt.torch's functions and operators take meta tensors)"
            )
        refuse_gradients(**{name: tensor})
        if tensor.is_neg():
            raise ValueError(
                f"{name} has its negative bit set: it is minus what lies in its memory; pass "
                f"{name}.resolve_neg()"
            )

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(
            shape, dtype=self._types.get(dtype, like.dtype), device=like.device
        )

    def stream(self, array: Any) -> int:
        """Asked of versions before 2.10, which have no exchange API."""
        return self._torch.cuda.current_stream(array.device).cuda_stream


class CuPy:
    def __init__(self, array_type: type) -> None:
        import cupy

        self._cupy = cupy
        self._types = {"f32": "float32", "f16": "float16", "u8": "uint8"}

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        with like.device:
            return self._cupy.empty(shape, self._types.get(dtype, like.dtype))

    def stream(self, array: Any) -> int:
        with array.device:  # each has a current stream of its own
            return self._cupy.cuda.get_current_stream().ptr


class Jax:
    """JAX's arrays cannot be written to, so rapt's own memory becomes one when it is filled."""

    read_only = True

    def __init__(self, array_type: type) -> None:
        import jax

        if issubclass(array_type, jax.core.Tracer):
            raise TypeError(
                "an array is traced (by jax.jit, grad or vmap) and has no numbers yet; call "
                "rapt.jax.attention, which is for JAX's compiled programs"
            )
        self.finished = jax.dlpack.from_dlpack

    def refuse(self, name: str, array: Any) -> None:
        devices = len(array.sharding.device_set)
        if devices > 1:
            raise NotImplementedError(
                f"{name} is sharded over {devices} devices, and rapt computes on one; call "
                "rapt.jax.attention inside jax.shard_map(..., check_vma=False), over batch or heads"
            )

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return _rapt.Memory(_device(like), shape, dtype)

    def stream(self, array: Any) -> int:
        return 0


class Other:
    """Whatever else speaks DLPack: the caller gives `out`, and work is done in the default stream."""

    def empty(self, like: Any, shape: tuple[int, ...], dtype: str) -> Any:
        if len(shape) == 1:  # workspace
            return _rapt.Memory(_device(like), shape, dtype)
        raise ValueError(
            f"rapt cannot make an array of type {type(like).__module__}.{type(like).__name__}; "
            "give the array to write to as out (with return_lse: a pair)"
        )

    def stream(self, array: Any) -> int:
        return 0


_ADAPTERS = {"torch": Torch, "cupy": CuPy, "jax": Jax, "jaxlib": Jax}


def adapter(array_type: type) -> Any:
    """The adapter for arrays of a type."""
    for base in array_type.__mro__:
        library = str(base.__module__).partition(".")[0]
        if library in _ADAPTERS:
            return _ADAPTERS[library](array_type)
    return Other()


_INDICES = ("q_starts", "kv_starts", "kv_lengths", "lengths", "page_table")
_LOGITS = ("alibi", "sinks", "bias")
_INTEGERS = (*_INDICES, "seed")
# Of PyTorch; its versions before 2.3 lack some.
_INTEGER_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def converted(name: str, given: Any, like: Any) -> Any:
    """An array as rapt takes it, of q's library and on q's device, from a list or tuple of numbers, or
    from integers that are not int32 (a seed's: int64); None from anything else."""
    if isinstance(given, (list, tuple)):
        return _like(_of_list(name, given), like)
    if name == "seed" and isinstance(given, numbers.Integral):
        raise ValueError(
            f"seed is {int(given)}; a seed is two integers, a seed and an offset: give "
            f"[{int(given)}, 0]"
        )
    library = _library(given)
    if name not in _INTEGERS or library not in ("numpy", "torch", "cupy", "jax", "jaxlib"):
        return None
    if library == "torch":
        torch = _torch()
        wanted = torch.int64 if name == "seed" else torch.int32
        others = {getattr(torch, kind, None) for kind in _INTEGER_TYPES} - {wanted}
        if given.dtype not in others:
            return None
        return (given if name == "seed" else _fitting(name, given)).to(wanted)
    return integers(name, given) if given.dtype.kind in "iu" else None


def _of_list(name: str, given: Any) -> Any:
    """NumPy's array of a list or tuple of numbers."""
    import numpy as np

    if name == "seed" and all(isinstance(number, numbers.Integral) for number in given):
        given = [int(number) % 2**64 for number in given]  # NumPy would make floats of large ones
        return integers(name, np.array(given, np.uint64))
    kind = "integers" if name in _INTEGERS else "bools" if name == "mask" else "numbers"
    try:
        array = np.asarray(given)
    except ValueError:
        raise ValueError(
            f"{name} is a {type(given).__name__} whose rows are not of one length; it takes {kind}, "
            "as many in each row"
        ) from None
    if name in _INTEGERS and array.dtype.kind in "fO":  # NumPy's for large integers, and for none
        exact = np.array(given, object)
        if all(isinstance(number, numbers.Integral) for number in exact.flat):
            return integers(name, exact)
    if name in _INTEGERS and array.dtype.kind in "iu":
        return integers(name, array)
    if name in _LOGITS and array.dtype.kind in "fiu":
        return array.astype(np.float32)
    if name == "mask" and array.dtype == bool:
        return array
    raise ValueError(f"{name} is a {type(given).__name__} of something else than {kind}")


def _library(array: Any) -> str:
    return str(type(array).__module__).partition(".")[0]


def _torch() -> Any:
    import torch

    return torch


def integers(name: str, array: Any) -> Any:
    """An array of integers of NumPy, CuPy or JAX in the type that rapt takes."""
    if name != "seed":
        return _fitting(name, array).astype("int32")
    with _jax_in_64_bits() if _library(array) in ("jax", "jaxlib") else contextlib.nullcontext():
        return array.astype("int64")


def _jax_in_64_bits() -> Any:
    """JAX makes 32 bits of 64 elsewhere, unless its user has asked for them."""
    import jax

    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64(True)


_LEAST, _MOST = -(2**31), 2**31 - 1  # of int32


def _fitting(name: str, array: Any) -> Any:
    """Integers that int32 holds. Where looking at them would wait for a GPU, others become the
    nearest of these, which kernels clamp further; on the CPU they are an error."""
    import numpy as np

    if _device(array) != "cpu":
        return clamped(array)
    seen = np.asarray(array)  # outside of what a compiler traces
    for number in (int(seen.min()), int(seen.max())) if seen.size else ():
        if not _LEAST <= number <= _MOST:
            raise ValueError(f"{name} has {number}; numbers are from {_LEAST} to {_MOST}")
    return array


def clamped(array: Any) -> Any:
    """Each integer as the nearest that int32 holds."""
    import numpy as np

    if _library(array) == "torch":  # which computes little with unsigned ones
        is_large = array.dtype == getattr(_torch(), "uint64", None)
        array = array.to(_torch().int64)
        # What int64 does not hold has become negative.
        array = array.masked_fill(array < 0, _MOST) if is_large else array
    kind = np.iinfo(str(array.dtype).replace("torch.", ""))
    return array.clip(max(kind.min, _LEAST), min(kind.max, _MOST))


def _like(array: Any, like: Any) -> Any:
    library = _library(like)
    if library == "torch":
        return _torch().as_tensor(array, device=like.device)
    if library == "cupy":
        import cupy

        with like.device:
            return cupy.asarray(array)
    if library in ("jax", "jaxlib"):
        import jax

        with _jax_in_64_bits():
            return jax.device_put(array, next(iter(like.devices())))
    return array
