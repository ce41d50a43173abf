"""What rapt's operators give for tensors without memory: fake ones, and those on the meta device. Their
types and sizes are looked at as rapt looks at them where there is memory; a size that a compiler does
not know yet passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_TYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_AXES = ("batch", "seq", "head", "dim")
_PAIRS = ("batch", "head", "q", "kv")


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    _check_call(q, k, v, **options)
    return q.new_empty((*q.shape[:-1], v.shape[-1]))


def attention_with_lse(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, layout: str = "bshd", **options: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    out = attention(q, k, v, layout=layout, **options)
    return out, q.new_empty(_lse_shape(q, layout), dtype=torch.float32)


def attention_backward(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, layout: str = "bshd", **rest: Any
) -> tuple[torch.Tensor, ...]:
    _check_call(q, k, v, layout=layout, **rest)
    out, dout, dlse = rest["out"], rest["dout"], rest.get("dlse")
    if out.dtype != torch.float32:
        _check_type("out", out, q.dtype)
    _check_type("dout", dout, out.dtype)
    for name, rows in (("out", out), ("dout", dout)):
        _check_sizes(name, rows.shape, (*q.shape[:-1], v.shape[-1]), _axes_of(rows, layout))
    axes = ("batch", "head", "seq")[4 - q.dim() :]
    for name, numbers in (("lse", rest["lse"]), ("dlse", dlse)):
        if numbers is not None:
            _check_type(name, numbers, torch.float32)
            _check_sizes(name, numbers.shape, _lse_shape(q, layout), axes)
    gradients = [tensor.new_empty(tensor.shape) for tensor in (q, k, v)]
    for name in ("bias", "sinks", "alibi"):
        wanted = rest.get(f"d{name}")
        gradients.append(_sum_like(rest[name]) if wanted else q.new_empty(0))
    return tuple(gradients)


def _sum_like(tensor: torch.Tensor) -> torch.Tensor:
    """One number for each that lies in memory."""
    sizes = zip(tensor.shape, tensor.stride())
    return tensor.new_empty([1 if step == 0 else size for size, step in sizes])


def _lse_shape(q: torch.Tensor, layout: str) -> list[int]:
    shape = list(q.shape[:-1])
    if layout == "bshd":
        shape[-2:] = reversed(shape[-2:])
    return shape


def _check_call(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, layout: str = "bshd", **options: Any
) -> None:
    others = {name: x for name, x in options.items() if isinstance(x, torch.Tensor)}
    _check_devices(q, k=k, v=v, **others)
    if q.dtype not in _TYPES:
        raise ValueError(
            f"q is {_type_name(q.dtype)}; rapt computes in float32, float16 and bfloat16: convert it "
            "first"
        )
    _check_type("k", k, q.dtype)
    _check_type("v", v, q.dtype)
    batch, q_len, heads, dim = _rows("q", q, layout)
    keys, values = _rows("k", k, layout), _rows("v", v, layout)
    paged = others.get("page_table")
    _check_sizes("k", keys, (batch if paged is None else None, None, None, dim))
    _check_sizes("v", values, (*keys[:3], None))
    if _certain(keys[2] == 0) or _certain(heads % keys[2] != 0):
        raise ValueError(
            f"{heads} heads cannot share {keys[2]} kv heads evenly; heads must be a multiple of kv heads"
        )
    kv_len = keys[1] if paged is None else paged.shape[-1] * keys[1]
    if "q_starts" in others:
        batch = others["q_starts"].shape[0] - 1
    q_len = q_len if options.get("max_q_len") is None else options["max_q_len"]
    kv_len = kv_len if options.get("max_kv_len") is None else options["max_kv_len"]
    _check_pairs(others, q.dtype, (batch, heads, q_len, kv_len))
    for name in ("alibi", "sinks"):
        if name in others:
            _check_type(name, others[name], torch.float32)
            _check_sizes(name, others[name].shape[-1:], (heads,), ("head",))
    for name in ("kv_lengths", "lengths"):
        if name in others:
            _check_sizes(name, others[name].shape, (batch,), ("batch",))


def _check_devices(q: torch.Tensor, **others: torch.Tensor) -> None:
    """One tensor on the meta device would make all of the call meta."""
    for name, tensor in others.items():
        if tensor.device != q.device:
            raise ValueError(
                f"{name} lies on {tensor.device} and q on {q.device}; copy one of them to the other's "
                "device first"
            )


def _check_pairs(
    others: dict[str, torch.Tensor], dtype: torch.dtype, scores: Sequence[int]
) -> None:
    bias, mask = others.get("bias"), others.get("mask")
    if bias is not None and bias.dtype != torch.float32:
        _check_type("bias", bias, dtype)
    if mask is not None and mask.dtype not in (torch.bool, torch.uint8):
        raise ValueError(
            f"mask is {_type_name(mask.dtype)}; it is bool, True where a pair may attend: convert it, or "
            "give what is added to scores as bias"
        )
    for name, tensor in (("bias", bias), ("mask", mask)):
        shape = () if tensor is None else tensor.shape
        for axis, size, full in zip(reversed(_PAIRS), reversed(shape), reversed(scores)):
            if _certain(size != full) and _certain(size != 1):
                raise ValueError(
                    f"{name}'s {axis} axis has size {size}; it must be {full} or 1 (broadcast)"
                )


def _check_type(name: str, tensor: torch.Tensor, wanted: torch.dtype) -> None:
    if tensor.dtype != wanted:
        raise ValueError(
            f"{name} is {_type_name(tensor.dtype)}; the problem wants {_type_name(wanted)}"
        )


def _check_sizes(
    name: str,
    sizes: Sequence[int],
    wanted: Sequence[int | None],
    axes: Sequence[str] = _AXES,
) -> None:
    if len(sizes) != len(wanted):
        raise ValueError(f"{name} has {len(sizes)} axes; it needs {len(wanted)}")
    for axis, size, want in zip(axes, sizes, wanted):
        if want is not None and _certain(size != want):
            raise ValueError(f"{name}'s {axis} axis has size {size}; the problem wants {want}")


def _axes_of(rows: torch.Tensor, layout: str) -> Sequence[str]:
    axes = _AXES if layout == "bshd" else ("batch", "head", "seq", "dim")
    return axes[4 - rows.dim() :]


def _rows(name: str, tensor: torch.Tensor, layout: str) -> tuple[int, ...]:
    """(batch, seq, head, dim)."""
    if tensor.dim() not in (3, 4):
        raise ValueError(
            f"{name} has {tensor.dim()} axes; it needs four (three where there is no batch axis)"
        )
    outer, first, second, dim = (1,) * (4 - tensor.dim()) + tuple(tensor.shape)
    return (outer, first, second, dim) if layout == "bshd" else (outer, second, first, dim)


def _type_name(dtype: torch.dtype) -> str:
    return _TYPES.get(dtype, str(dtype).removeprefix("torch."))


def _certain(condition: bool | torch.SymBool) -> bool:
    """Whether it holds for every size that a compiler's symbols may have; it learns nothing by this."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)
