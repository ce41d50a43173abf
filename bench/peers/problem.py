"""Problem strings that other libraries can be given too: sizes, type, causal, backward, and no more. What a
problem costs at least is counted as rapt does, so that a test can tell whether both read the same
problem."""

from __future__ import annotations

import dataclasses
import re

ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
SIZES = {
    "b": ("batch",),
    "s": ("q_len", "kv_len"),
    "q": ("q_len",),
    "kv": ("kv_len",),
    "d": ("dim",),
}


class Refusal(Exception):
    """Something that cannot be compared or run, as a sentence for the user."""


@dataclasses.dataclass(frozen=True)
class Problem:
    text: str
    q_len: int
    kv_len: int
    dim: int
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    dtype: str = "f32"
    causal: bool = False
    backward: bool = False

    def flops(self) -> float:
        pairs = self.q_len * (self.q_len + 1) / 2 if self.causal else self.q_len * self.kv_len
        products = 5 if self.backward else 2
        return 2.0 * products * self.batch * self.heads * self.dim * pairs

    def bytes(self) -> float:
        """q and out, k and v, each once; backward reads dout and lse, too, and writes gradients."""
        queries = self.q_len * self.heads
        elements = 2.0 * (queries + self.kv_len * self.kv_heads) * self.dim
        row_bytes = elements * ELEMENT_BYTES[self.dtype]
        return self.batch * (2 * row_bytes + 4.0 * queries if self.backward else row_bytes)


def _read(token: str, text: str) -> dict:
    """The fields that a token sets."""
    if token in ELEMENT_BYTES:
        return {"dtype": token}
    if token in ("causal", "backward"):
        return {token: True}
    if token in ("bshd", "bhsd"):  # peers run in both layouts whatever rapt's is
        return {}
    if heads := re.fullmatch(r"h([1-9]\d*)(?:/([1-9]\d*))?", token):
        return {"heads": int(heads[1]), "kv_heads": int(heads[2] or heads[1])}
    size = re.fullmatch(r"([a-z]+)([1-9]\d*)", token)
    if size and size[1] in SIZES:
        return dict.fromkeys(SIZES[size[1]], int(size[2]))
    raise Refusal(
        f"cannot compare '{token}' of '{text}'; peers take b, h, s, q, kv and d with sizes from 1, "
        "f32, f16, bf16, causal, backward and bhsd"
    )


def parse(text: str) -> Problem:
    fields: dict = {}
    for token in text.split():
        fields |= _read(token, text)
    for name, token in {"q_len": "s or q", "kv_len": "s or kv", "dim": "d"}.items():
        if name not in fields:
            raise Refusal(f"'{text}' lacks {token}; a problem is such as \"b1 h16 s2048 d64 f32\"")
    problem = Problem(text, **fields)
    if problem.causal and problem.q_len != problem.kv_len:
        raise Refusal(
            f"cannot compare '{text}': of {problem.q_len} queries and {problem.kv_len} keys, "
            "causal aligns the last ones in rapt and the first ones in PyTorch; leave out causal, "
            "or give both one length"
        )
    return problem
