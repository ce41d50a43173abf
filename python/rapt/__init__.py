"""Exact attention, softmax(Q Kᵀ · scale + bias) V, and its gradients, on CPUs and GPUs.

    out = rapt.attention(q, k, v, causal=True)     # NumPy, PyTorch, JAX, CuPy: (batch, seq, head, dim)

`rapt.torch` stands in for PyTorch's and FlashAttention's functions, `rapt.jax` is for JAX's compiled
programs, `rapt.transformers.register()` puts rapt under Hugging Face's models, and `python -m
rapt.report` draws benchmark results."""

from ._gradients import Gradients
from ._rapt import (
    Candidate,
    Device,
    Explanation,
    Kernel,
    Plan,
    attention,
    attention_backward,
    devices,
    explain,
    kernels,
    merge,
    plan,
    problem,
    version,
)

__version__ = version()
__all__ = [
    "Candidate", "Device", "Explanation", "Gradients", "Kernel", "Plan", "attention",
    "attention_backward", "devices", "explain", "kernels", "merge", "plan", "problem", "version",
]  # fmt: skip
