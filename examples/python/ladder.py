"""The ladder in NumPy: attention from the plain way to the one that GPUs decode with, one idea a
step. Each step gives what the step before gave, and `python ladder.py` checks that it does.

    basic      all scores at once                                    cpu.naive, cuda.naive
    tiled      scores a tile at a time, softmax once a row is there   cuda.shared
    online     softmax while the keys go by: no score matrix          cpu.flash, cuda.flash
    buffers    the same in fixed buffers, as a GPU block holds them   src/gpu/flash.hpp
    split_kv   chunks of keys at the same time, then a reduction      cpu.split_kv, cuda.split_kv

One head is enough to see it all: q is (queries, dim), k is (keys, dim), v is (keys, value dim), and
every step takes `causal`, where the last query meets the last key. docs/ladder.md tells the same of
the C++ and GPU kernels, with what each step gained."""

import numpy as np


def visible(rows, columns, queries, keys, causal):
    """Which keys (columns) each query (row) may attend to: (rows, columns)."""
    if not causal:
        return np.ones((len(rows), len(columns)), bool)
    position = rows + keys - queries  # of each query among the keys
    return columns[None, :] <= position[:, None]


# Step 1: basic.
#
# The formula as it is written: scores, softmax over each row, weights times values. Every score is
# stored, and read three times: a sequence of 8192 needs 256 MiB of them for each head.


def basic(q, k, v, causal=False):
    queries, keys = len(q), len(k)
    scores = q @ k.T / np.sqrt(q.shape[1])  # (queries, keys)
    seen = visible(np.arange(queries), np.arange(keys), queries, keys, causal)
    scores = np.where(seen, scores, -np.inf)
    # e^s overflows for large s, and softmax does not change if all scores of a row move alike.
    largest = scores.max(axis=1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(axis=1, keepdims=True)
    return (weights @ v) / np.where(total > 0, total, 1)  # a row that sees nothing: zeros


# Step 2: tiled.
#
# A processor multiplies much faster than it reads memory. So both products work on tiles that fit
# the fast memory (a cache, a GPU's shared memory): a tile of queries meets a tile of keys, and each
# element that was read is used once for every row of the other tile. Rows of scores still exist,
# a tile of queries at a time: softmax needs the largest score and the sum of a whole row.


def tiled(q, k, v, causal=False, query_tile=16, key_tile=32):
    queries, keys = len(q), len(k)
    scale = 1 / np.sqrt(q.shape[1])
    out = np.zeros((queries, v.shape[1]))
    for first_query in range(0, queries, query_tile):
        rows = np.arange(first_query, min(first_query + query_tile, queries))
        scores = np.full((len(rows), keys), -np.inf)
        for first_key in range(0, keys, key_tile):
            columns = np.arange(first_key, min(first_key + key_tile, keys))
            seen = visible(rows, columns, queries, keys, causal)
            scores[:, columns] = np.where(seen, q[rows] @ k[columns].T * scale, -np.inf)
        largest = scores.max(axis=1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
        total = weights.sum(axis=1, keepdims=True)
        for first_key in range(0, keys, key_tile):
            columns = np.arange(first_key, min(first_key + key_tile, keys))
            out[rows] += weights[:, columns] @ v[columns]
        out[rows] /= np.where(total > 0, total, 1)
    return out


# Step 3: online softmax.
#
# Softmax does not need a whole row at once. Keep, for each row, a reference m (the largest score so
# far), the sum l of the weights e^(s - m) and the weighted sum O of values. When a tile raises m,
# what was summed up relative to the old m is multiplied by e^(old m - new m):
#
#     m' = max(m, max of the tile)      r = e^(m - m')
#     l' = l r + sum of e^(s - m')      O' = O r + e^(s - m') V
#
# One pass over the keys, and of the scores only one tile exists at any time. This is the idea of
# FlashAttention. Tiles that no row of the block may see are skipped, so causal costs half.


def online(q, k, v, causal=False, query_tile=16, key_tile=32):
    queries, keys = len(q), len(k)
    scale = 1 / np.sqrt(q.shape[1])
    out = np.zeros((queries, v.shape[1]))
    for first_query in range(0, queries, query_tile):
        rows = np.arange(first_query, min(first_query + query_tile, queries))
        reference, total, weighted = empty_state(len(rows), v.shape[1])
        for first_key in range(0, keys, key_tile):
            columns = np.arange(first_key, min(first_key + key_tile, keys))
            seen = visible(rows, columns, queries, keys, causal)
            if not seen.any():
                continue
            scores = np.where(seen, q[rows] @ k[columns].T * scale, -np.inf)
            raised = np.maximum(reference, scores.max(axis=1))
            shift = np.where(np.isinf(raised), 0, raised)  # -inf - -inf is not a number
            rescale = np.exp(reference - shift)
            weights = np.exp(scores - shift[:, None])
            total = total * rescale + weights.sum(axis=1)
            weighted = weighted * rescale[:, None] + weights @ v[columns]
            reference = raised
        out[rows] = weighted / np.where(total > 0, total, 1)[:, None]
    return out


def empty_state(rows, dim):
    """(m, l, O) of rows that have seen no key."""
    return np.full(rows, -np.inf), np.zeros(rows), np.zeros((rows, dim))


# Step 4: fixed buffers.
#
# A block of a GPU has some tens of KiB of shared memory, allocated before it starts, whose sizes do
# not depend on the problem. It loads whole tiles: rows past the end are filled with zeros, and what
# must not count is masked in the scores, not by the shape of an array. K and V take turns in one
# buffer, since the scores are done with K when V is wanted; P, the weights, get a buffer too, since
# the threads that made them are not the ones that need them. (m, l, O) live in registers. After each
# write to a buffer the block waits for all its threads: the points marked "barrier".


class Block:
    """The memory of one block: nothing else is allocated while it runs."""

    def __init__(self, dim, value_dim, query_tile=16, key_tile=32):
        self.q_tile = np.empty((query_tile, dim))  # shared memory
        self.kv_tile = np.empty((key_tile, max(dim, value_dim)))
        self.weights = np.empty((query_tile, key_tile))
        self.reference = np.empty(query_tile)  # registers
        self.total = np.empty(query_tile)
        self.weighted = np.empty((query_tile, value_dim))

    @staticmethod
    def load(buffer, source, first):
        """Rows of the source from `first` on, zeros behind its end; gives the used part."""
        rows = max(0, min(len(buffer), len(source) - first))
        part = buffer[:, : source.shape[1]]
        part[:rows] = source[first : first + rows]
        part[rows:] = 0
        return part

    def run(self, q, k, v, out, first_query, causal):
        queries, keys = len(q), len(k)
        rows = first_query + np.arange(len(self.q_tile))
        q_tile = self.load(self.q_tile, q, first_query)
        self.reference[:], self.total[:], self.weighted[:] = -np.inf, 0, 0
        last_position = min(rows[-1], queries - 1) + keys - queries
        end = min(keys, last_position + 1) if causal else keys  # beyond, no row sees a key
        for first_key in range(0, end, len(self.kv_tile)):
            k_tile = self.load(self.kv_tile, k, first_key)
            # barrier: q and k are there
            np.matmul(q_tile, k_tile.T, out=self.weights)
            self.softmax(rows, first_key, queries, keys, causal, 1 / np.sqrt(q.shape[1]))
            # barrier: all are done with k, the weights are there
            v_tile = self.load(self.kv_tile, v, first_key)
            # barrier: v is there
            self.weighted += self.weights @ v_tile
            # barrier: all are done with v and the weights
        stored = min(len(rows), queries - first_query)
        total = np.where(self.total > 0, self.total, 1)
        out[first_query : first_query + stored] = (self.weighted / total[:, None])[:stored]

    def softmax(self, rows, first_key, queries, keys, causal, scale):
        """Scores become weights in place; (m, l, O) move to the new reference."""
        columns = first_key + np.arange(len(self.kv_tile))
        seen = visible(rows, columns, queries, keys, causal) & (columns < keys)
        self.weights[:] = np.where(seen, self.weights * scale, -np.inf)
        raised = np.maximum(self.reference, self.weights.max(axis=1))
        shift = np.where(np.isinf(raised), 0, raised)
        rescale = np.exp(self.reference - shift)
        np.exp(self.weights - shift[:, None], out=self.weights)
        self.total[:] = self.total * rescale + self.weights.sum(axis=1)
        self.weighted *= rescale[:, None]
        self.reference[:] = raised


def buffers(q, k, v, causal=False):
    out = np.empty((len(q), v.shape[1]))
    block = Block(q.shape[1], v.shape[1])
    for first_query in range(0, len(q), len(block.q_tile)):  # on a GPU: all at the same time
        block.run(q, k, v, out, first_query, causal)
    return out


# Step 5: split-KV, and its reduction.
#
# While text is generated there is one query and a long cache of keys: one block would walk over all
# of them while the rest of the GPU is idle. So the keys are cut into chunks, a block each, and each
# gives its (m, l, O). The second kernel brings them to the largest m and adds them up. It is the
# formula of step 3 once more, between chunks instead of tiles, in any order: rapt.merge() does the
# same with (out, lse), where lse = m + log l.


def attend_chunk(q, k, v, chunk, causal, scale):
    """(m, l, O) of all queries over one chunk of the keys."""
    rows = np.arange(len(q))
    seen = visible(rows, chunk, len(q), len(k), causal)
    scores = np.where(seen, q @ k[chunk].T * scale, -np.inf)
    reference = scores.max(axis=1)
    weights = np.exp(scores - np.where(np.isinf(reference), 0, reference)[:, None])
    return reference, weights.sum(axis=1), weights @ v[chunk]


def reduce_chunks(parts):
    reference = np.max([m for m, _, _ in parts], axis=0)
    shift = np.where(np.isinf(reference), 0, reference)
    shares = [np.exp(m - shift) for m, _, _ in parts]
    total = sum(share * l for share, (_, l, _) in zip(shares, parts))
    weighted = sum(share[:, None] * o for share, (_, _, o) in zip(shares, parts))
    return weighted / np.where(total > 0, total, 1)[:, None]


def split_kv(q, k, v, causal=False, chunk_keys=64):
    scale = 1 / np.sqrt(q.shape[1])
    starts = range(0, len(k), chunk_keys)
    parts = [  # on a GPU: all at the same time
        attend_chunk(q, k, v, np.arange(start, min(start + chunk_keys, len(k))), causal, scale)
        for start in starts
    ]
    return reduce_chunks(parts) if parts else np.zeros((len(q), v.shape[1]))


STEPS = [basic, tiled, online, buffers, split_kv]


def check(queries, keys, dim, value_dim, causal, seed=0):
    """The largest difference of each step from the one before."""
    random = np.random.default_rng(seed)
    q = 3 * random.standard_normal((queries, dim))
    k = random.standard_normal((keys, dim))
    v = random.standard_normal((keys, value_dim))
    results = [step(q, k, v, causal) for step in STEPS]
    differences = [np.abs(b - a).max(initial=0) for a, b in zip(results, results[1:])]
    for step, difference in zip(STEPS[1:], differences):
        if not difference < 1e-12:
            raise SystemExit(
                f"{step.__name__} differs by {difference:.3g} from the step before, for "
                f"{queries} queries, {keys} keys, dims {dim} and {value_dim}, causal {causal}"
            )
    return differences


def main():
    problems = [(100, 100, 64, 64), (1, 1000, 64, 64), (37, 150, 16, 24), (50, 20, 8, 8)]
    print("queries keys dim  causal  " + "  ".join(f"{step.__name__:>9}" for step in STEPS[1:]))
    for queries, keys, dim, value_dim in problems:
        for causal in [False, True]:
            differences = check(queries, keys, dim, value_dim, causal)
            numbers = "  ".join(f"{difference:9.1e}" for difference in differences)
            print(f"{queries:7} {keys:4} {dim:3}  {causal!s:6}  {numbers}")
    print("Each step gives what the step before gave.")


if __name__ == "__main__":
    main()
