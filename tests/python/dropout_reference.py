"""Which pairs dropout keeps, in NumPy, written from docs/numerics.md and sharing nothing with the
library. Philox4x32-10 is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

import numpy as np

_MASK = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Four words for each counter. counter: four arrays of words, key: two words."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k = [int(word) for word in key]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]),
            second & _MASK,
            (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]),
            first & _MASK,
        ]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def _words(number):
    number = int(number) % 2**64
    return number & 0xFFFFFFFF, number >> 32


def dropped_of_256(probability):
    return int(256 * probability + 0.5)


def kept(seed, probability, sequence, head, q_len, kv_len):
    """(q_len, kv_len): whether a pair is kept. seed: (seed, offset)."""
    dropped = dropped_of_256(probability)
    stream = philox((*_words(seed[1]), sequence, head), _words(seed[0]))
    i, j = np.arange(q_len)[:, None], np.arange(kv_len)[None, :]
    row = i // 32 * 8 + i % 8 + 0 * j
    column = j // 32 * 8 + j % 8 + 0 * i
    words = np.stack(philox((row, 0 * row, column, 0 * column), [int(w) for w in stream[:2]]))
    word = np.take_along_axis(words, (i // 8 % 4 + 0 * j)[None], axis=0)[0]
    byte = word >> (8 * (j // 8 % 4)).astype(np.uint64) & np.uint64(0xFF)
    return byte >= dropped


def factors(seed, probability, sequence, head, q_len, kv_len, real=np.float64):
    """Z: (q_len, kv_len), 1 / (1 − p) where a pair is kept, with the p that was rounded; else 0."""
    pairs = kept(seed, probability, sequence, head, q_len, kv_len)
    return np.where(pairs, real(256) / real(256 - dropped_of_256(probability)), real(0))
