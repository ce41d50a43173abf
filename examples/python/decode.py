"""A decode loop over a growing paged KV cache: one plan, run for every token.

Each step appends one key and one value a sequence, taking a fresh page where the last one is full,
and attends from one query to all keys so far. Lengths and page table are data, so the plan made
before the first token serves for the last. In the end all steps are compared with one causal
attention over the whole sequences. examples/decode.cpp is the same in C++."""

import numpy as np

import rapt

BATCH, HEADS, KV_HEADS, DIM = 2, 8, 2, 64
TOKENS, PAGE = 100, 16
PAGES = -(-TOKENS // PAGE)  # of a sequence


class Cache:
    """Pages of keys and values shared by all sequences, and who has which."""

    def __init__(self):
        self.k = np.zeros((BATCH * PAGES, PAGE, KV_HEADS, DIM), np.float32)
        self.v = np.zeros_like(self.k)
        self.lengths = np.zeros(BATCH, np.int32)
        self.table = np.full((BATCH, PAGES), -1, np.int32)
        self.next_page = 0

    def append(self, keys, values):
        """One key and one value of every sequence: (batch, kv head, dim)."""
        for sequence, length in enumerate(self.lengths):
            page, slot = divmod(int(length), PAGE)
            if slot == 0:
                self.table[sequence, page] = self.next_page
                self.next_page += 1
            self.k[self.table[sequence, page], slot] = keys[sequence]
            self.v[self.table[sequence, page], slot] = values[sequence]
        self.lengths += 1


random = np.random.default_rng(0)
q = random.standard_normal((BATCH, TOKENS, HEADS, DIM), dtype=np.float32)
k, v = random.standard_normal((2, BATCH, TOKENS, KV_HEADS, DIM), dtype=np.float32)

cache = Cache()
tensors = {"kv_lengths": cache.lengths, "page_table": cache.table}
plan = rapt.plan(q[:, :1], cache.k, cache.v, causal=True, out=np.empty_like(q)[:, :1], **tensors)
print(plan)

decoded = np.empty_like(q)
for token in range(TOKENS):
    cache.append(k[:, token], v[:, token])
    now = slice(token, token + 1)
    plan.run(q[:, now], cache.k, cache.v, out=decoded[:, now], **tensors)

whole = rapt.attention(q, k, v, causal=True)
print("decoding differs from one causal attention by", np.abs(decoded - whole).max())
