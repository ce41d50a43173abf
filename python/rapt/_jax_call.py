"""rapt as a primitive of JAX, which compiled programs call by XLA's foreign-function interface
(`python/module/xla_calls.cpp`). A `Call` is what is static; tensors are operands, by name.

Shapes and types are checked when a call is traced. When it is lowered for a platform, a plan for
that platform says the kernel, and the workspace, which becomes a buffer of the compiled program.
vmap folds its axis into the batch."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from . import _rapt

TARGET = "rapt_attention"  # XLA's name of the custom call
_PLATFORMS = {"cpu": ("cpu", "cpu"), "CUDA": ("cuda", "cuda:0")}  # JAX's name, rapt's device

_PACKED = {"q_starts", "kv_starts", "page_table"}
_ROWS = ("q", "k", "v")


class Call(NamedTuple):
    """`options` are keywords of rapt.attention. In a folded call a q, k or v of one sequence stands
    for all of `batch`."""

    names: tuple[str, ...]  # of the operands
    results: tuple[str, ...]  # of "out", "lse"; or "dq", "dk", "dv", "dbias", "dalibi"
    options: tuple[tuple[str, Any], ...]
    layout: str
    kernel: str | None = None
    batch: int | None = None

    def shape_of(self, name: str, avals: dict[str, Any]) -> tuple[tuple[int, ...], Any]:
        """Of a result: its shape and type."""
        q = avals["q"]
        batch = q.shape[0] if self.batch is None else self.batch
        if name == "out":
            dtype = jnp.float32 if dict(self.options).get("out_dtype") else q.dtype
            return (batch, *q.shape[1:-1], avals["v"].shape[-1]), dtype
        if name == "lse":
            heads, rows = (q.shape[1], q.shape[2])[:: 1 if self.layout == "bhsd" else -1]
            return (batch, heads, rows), jnp.float32
        primal = avals[name[1:]]
        if name[1:] in _ROWS and self.batch is not None:
            return (batch, *primal.shape[1:]), primal.dtype
        return primal.shape, primal.dtype

    def problem(self, avals: dict[str, Any]) -> str:
        """The problem string; a ValueError where tensors do not fit together."""
        arrays = {}
        for name, aval in avals.items():
            for_all = self.batch is not None and name in _ROWS and aval.shape[0] == 1
            shape = (self.batch, *aval.shape[1:]) if for_all else aval.shape
            arrays[name] = _imagined(name, shape, aval.dtype, for_all)
        options = dict(self.options)
        if "out" not in self.results:
            options.pop("out_dtype", None)
            if options.pop("row_invariant", False):  # forward's alone
                options["batch_invariant"] = True
            options |= {name: True for name in self.results if name in ("dbias", "dalibi")}
        return _rapt.problem(
            **arrays, **options, layout=self.layout, return_lse="lse" in self.results
        )


_memory = np.zeros(128, np.uint8)
_memory = _memory[-_memory.ctypes.data % 64 :][:64]  # as aligned as XLA's


def _imagined(name: str, shape: tuple[int, ...], dtype: Any, for_all: bool) -> Any:
    """A dense array that is only described: nothing of it is read."""
    dtype = np.dtype(dtype)
    if not all(isinstance(size, int) for size in shape):
        raise NotImplementedError(
            f"{name} is {shape}, with a size that is not known; rapt plans for sizes: export with "
            "shapes that are numbers"
        )
    if dtype.kind == "V" and dtype.name != "bfloat16":
        raise ValueError(f"{name} is {dtype.name}; rapt takes float32, float16 and bfloat16")
    strides = [dtype.itemsize] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * shape[axis]
    if for_all:
        strides[0] = 0
    return np.lib.stride_tricks.as_strided(_memory[: dtype.itemsize].view(dtype), shape, strides)


def bind(call: Call, tensors: dict[str, Any]) -> list[Any]:
    """The results of a call. Rows have four axes, biases and masks too."""
    call = call._replace(names=tuple(tensors))
    return _primitive.bind(*tensors.values(), call=call)


_primitive = jax.extend.core.Primitive(TARGET)
_primitive.multiple_results = True


@functools.partial(jax.jit, static_argnames="call")
def _run(*operands: Any, call: Call) -> list[Any]:
    return _primitive.bind(*operands, call=call)


_primitive.def_impl(_run)


@_primitive.def_abstract_eval
def _abstract(*avals: Any, call: Call) -> list[Any]:
    by_name = dict(zip(call.names, avals))
    call.problem(by_name)
    return [jax.core.ShapedArray(*call.shape_of(name, by_name)) for name in call.results]


def _refuse_sharding(context: Any) -> None:
    """A program for several devices would gather every tensor on each of them."""
    devices = getattr(context, "num_devices", 1)
    mesh = getattr(context, "mesh", None)
    if mesh is not None:
        devices = np.prod([mesh.shape[axis] for axis in set(mesh.axis_names) - context.manual_axes])
    if devices > 1:
        raise NotImplementedError(
            f"rapt's attention is part of a program that is sharded over {int(devices)} devices, "
            "and rapt computes on one; call it inside jax.shard_map(..., check_vma=False), over "
            "batch or heads"
        )


def _lower(ctx: Any, *operands: Any, call: Call, device: str) -> Any:
    _refuse_sharding(ctx.module_context.axis_context)
    problem = call.problem(dict(zip(call.names, ctx.avals_in)))
    plan = _rapt.Plan(problem, device=device, kernel=call.kernel)
    # XLA's buffers may be less aligned than a workspace.
    workspace = jax.core.ShapedArray((plan.workspace_bytes + 64,), jnp.uint8)
    ctx = ctx.replace(avals_out=[*ctx.avals_out, workspace])
    texts = {
        "problem": problem, "kernel": plan.kernel, "config": plan.config, "layout": call.layout,
        "operands": " ".join(call.names), "results": " ".join(call.results),
    }  # fmt: skip
    *results, _ = jax.ffi.ffi_lowering(TARGET)(ctx, *operands, **texts)
    return results


for _platform, _handler in _rapt.xla_handlers().items():
    _name, _device = _PLATFORMS[_platform]
    jax.ffi.register_ffi_target(TARGET, _handler, platform=_platform)
    mlir.register_lowering(_primitive, functools.partial(_lower, device=_device), platform=_name)


def _refuse_derivative(*args: Any, **params: Any) -> Any:
    raise NotImplementedError(
        "rapt's attention is differentiated twice, or in forward mode, and has reverse-mode "
        "gradients alone; compute this part with jax.nn.dot_product_attention"
    )


ad.primitive_jvps[_primitive] = _refuse_derivative


def _batched(operands: Any, axes: Any, *, call: Call) -> Any:
    """vmap. What has no batch axis of its own to fold the new one into is computed one by one."""
    shared = {n: x for n, x, axis in zip(call.names, operands, axes) if axis is None}
    mapped = {
        name: jnp.moveaxis(x, axis, 0)
        for name, x, axis in zip(call.names, operands, axes)
        if axis is not None
    }
    if "sinks" in mapped or not _PACKED.isdisjoint(call.names):
        results = jax.lax.map(lambda each: bind(call, {**shared, **each}), mapped)
    else:
        results = _folded_call(mapped, shared, call)
    return results, [0] * len(results)


def _folded_call(mapped: dict[str, Any], shared: dict[str, Any], call: Call) -> list[Any]:
    count = next(iter(mapped.values())).shape[0]
    shapes = {n: x.shape for n, x in shared.items()} | {n: x.shape[1:] for n, x in mapped.items()}
    batch = shapes["q"][0] if call.batch is None else call.batch

    def folded(name: str, x: Any) -> Any:
        """(count · batch, …); or as it is, where one stands for all."""
        stands_for_all = name in (*_ROWS, "bias", "mask") and not (
            name == "bias" and "dbias" in call.results
        )
        if name == "sinks" or (name in shared and x.shape[0] == 1 and stands_for_all):
            return x
        if name == "alibi" and len(shapes[name]) == 1:
            x = jnp.expand_dims(x, -2)
        x = x[None] if name in shared else x
        whole = jnp.broadcast_to(x, (count, batch, *x.shape[2:]))
        return whole.reshape(count * batch, *x.shape[2:])

    def unfolded(name: str, x: Any) -> Any:
        """(count, …), summed where one had stood for all."""
        x = x.reshape(count, batch, *x.shape[1:])
        if name == "dalibi" and len(shapes["alibi"]) == 1:
            return x.sum(1)
        if name == "dbias" and shapes["bias"][0] != batch:
            return x.sum(1, keepdims=True)
        return x

    tensors = {name: folded(name, x) for name, x in {**mapped, **shared}.items()}
    results = bind(call._replace(batch=count * batch), tensors)
    return [unfolded(name, x) for name, x in zip(call.results, results)]


batching.primitive_batchers[_primitive] = _batched
