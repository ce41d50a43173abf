"""How rapt makes arrays and finds streams of libraries other than NumPy, which is served in C++
(`python/module/array.cpp`).

An adapter is made when an array of its library is first seen. It has `empty`, which makes what rapt
writes to, and `stream`, which tells where the library works now, unless DLPack's exchange API does.
Where what rapt writes to is not what the caller gets, `finished` turns one into the other; `read_only`
says that arrays of the library must not be written to. `refuse` raises an error for an array that is
more than its memory, or has none of its own, in the one library that has such."""

from __future__ import annotations

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


def converted(name: str, given: Any, like: Any) -> Any:
    """An array as rapt takes it, of q's library and on q's device, from a list or tuple of numbers, or
    from integers that are not int32 (a seed's: int64); None from anything else."""
    import numpy as np

    library = type(given).__module__.partition(".")[0]
    if isinstance(given, (list, tuple)):
        if name == "seed" and all(isinstance(number, int) for number in given):
            given = [number % 2**64 for number in given]  # NumPy would make floats of large ones
            return _like(integers(name, np.array(given, np.uint64)), like)
        numbers = np.asarray(given)
        if name in _INTEGERS and (numbers.dtype.kind in "iu" or not numbers.size):
            return _like(integers(name, numbers), like)
        if name in _LOGITS and numbers.dtype.kind in "fiu":
            return _like(numbers.astype(np.float32), like)
        if name == "mask" and numbers.dtype == bool:
            return _like(numbers, like)
        kind = "integers" if name in _INTEGERS else "bools" if name == "mask" else "numbers"
        raise ValueError(f"{name} is a {type(given).__name__} of something else than {kind}")
    if name not in _INTEGERS or library not in ("numpy", "torch", "cupy", "jax", "jaxlib"):
        return None
    if library == "torch":
        torch = _torch()
        wanted = torch.int64 if name == "seed" else torch.int32
        others = {torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8} - {wanted}
        if given.dtype not in others:
            return None
        return (given if name == "seed" else _fitting(name, given)).to(wanted)
    return integers(name, given) if given.dtype.kind in "iu" else None


def _torch() -> Any:
    import torch

    return torch


def integers(name: str, numbers: Any) -> Any:
    """An array of integers of NumPy, CuPy or JAX in the type that rapt takes."""
    if name == "seed":
        return numbers.astype("int64")
    return _fitting(name, numbers).astype("int32")


_LEAST, _MOST = -(2**31), 2**31 - 1  # of int32


def _fitting(name: str, numbers: Any) -> Any:
    """Integers that int32 holds. Where looking at them would wait for a GPU, others become the
    nearest of these, which kernels clamp further; on the CPU they are an error."""
    import numpy as np

    if _device(numbers) != "cpu":
        return clamped(numbers)
    seen = np.asarray(numbers)  # outside of what a compiler traces
    for number in (int(seen.min()), int(seen.max())) if seen.size else ():
        if not _LEAST <= number <= _MOST:
            raise ValueError(f"{name} has {number}; numbers are from {_LEAST} to {_MOST}")
    return numbers


def clamped(numbers: Any) -> Any:
    """Each integer as the nearest that int32 holds."""
    import numpy as np

    kind = np.iinfo(str(numbers.dtype).replace("torch.", ""))
    return numbers.clip(max(kind.min, _LEAST), min(kind.max, _MOST))


def _like(numbers: Any, like: Any) -> Any:
    library = type(like).__module__.partition(".")[0]
    if library == "torch":
        return _torch().as_tensor(numbers, device=like.device)
    if library == "cupy":
        import cupy

        with like.device:
            return cupy.asarray(numbers)
    if library in ("jax", "jaxlib"):
        import jax

        return jax.device_put(numbers, next(iter(like.devices())))
    return numbers
