"""Attention over NumPy arrays, in place and with its log-sum-exp, and what rapt says about it."""

import numpy as np

import rapt

random = np.random.default_rng(0)
q = random.standard_normal((2, 128, 8, 64), dtype=np.float32)  # (batch, seq, head, dim)
k, v = random.standard_normal((2, 2, 256, 2, 64), dtype=np.float32)  # fewer kv heads: shared

out = rapt.attention(q, k, v, causal=True)
print("out", out.shape, out.dtype)

# Twice the same, over two halves of the keys, merged.
halves = [
    rapt.attention(q, k[:, keys], v[:, keys], return_lse=True)
    for keys in (slice(0, 100), slice(100, 256))
]
merged, lse = rapt.merge(*halves)
whole = rapt.attention(q, k, v)
print("merged halves differ from the whole by", np.abs(merged - whole).max())

# Who computes it, and who else could.
print(rapt.explain(rapt.problem(q, k, v, causal=True)))
