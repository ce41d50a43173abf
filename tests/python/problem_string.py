"""A second reading of problem strings, written from their table of tokens and sharing nothing with
the library's own. The field names are those of rapt::Problem."""

import dataclasses
import re

import numpy as np

ELEMENT_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
IN_LAYOUT = ["q", "k", "v", "out", "dout", "dq", "dk", "dv"]
PAIRS = ["bias", "mask", "dbias"]


@dataclasses.dataclass
class ScoreTensor:
    """A bias or a mask."""

    dtype: str
    varies: list  # axes (b, h, q, k); False where broadcast
    stride: list = None  # of (b, h, q)


@dataclasses.dataclass
class Problem:
    backward: bool = False
    dtype: str = "f32"
    out_dtype: str = None
    batch: int = 1
    heads: int = 1
    kv_heads: int = 1
    q_len: int = None
    kv_len: int = None
    total_q: int = None
    total_kv: int = None
    qk_dim: int = None
    v_dim: int = None
    varlen: bool = False
    lengths: bool = False
    page_size: int = 0
    left: int = None
    right: int = None
    first_keys: int = 0
    offset: int = None
    scale: float = None
    softcap: float = 0.0
    bias: ScoreTensor = None
    mask: ScoreTensor = None
    alibi: bool = False
    alibi_per_sequence: bool = False
    sinks: bool = False
    dropout: float = 0.0
    lse: bool = False
    batch_invariant: bool = False
    row_invariant: bool = False
    tf32: bool = False
    q: list = None  # strides of (batch, seq, head)
    k: list = None
    v: list = None
    out: list = None
    lse_stride: list = None  # of (batch, head, seq)
    dq_dtype: str = None
    dk_dtype: str = None
    dv_dtype: str = None
    dbias: ScoreTensor = None
    dlse: bool = False
    dsinks: bool = False
    dalibi: bool = False
    dout: list = None  # as q
    dq: list = None
    dk: list = None
    dv: list = None
    dlse_stride: list = None  # as lse_stride
    alignment: int = None

    def shapes(self):
        """Sizes of the tensors. A pool of pages may have any number of them; 2 stands for it."""
        queries = [1, self.total_q] if self.varlen else [self.batch, self.q_len]
        keys = [1, self.total_kv] if self.varlen else [self.batch, self.kv_len]
        if self.page_size:
            keys = [2, self.page_size]
        shapes = {
            "q": [*queries, self.heads, self.qk_dim],
            "k": [*keys, self.kv_heads, self.qk_dim],
            "v": [*keys, self.kv_heads, self.v_dim],
            "out": [*queries, self.heads, self.v_dim],
            "lse": [queries[0], self.heads, queries[1], 1],
        }
        if self.backward:
            shapes |= {f"d{name}": shapes[name] for name in ["q", "k", "v", "out"]}
        if self.dlse:
            shapes["dlse"] = shapes["lse"]
        full = [self.batch, self.heads, self.q_len, self.kv_len]
        for name in PAIRS:
            if tensor := getattr(self, name):
                shapes[name] = [n if varies else 1 for n, varies in zip(full, tensor.varies)]
        return shapes


def _f32(text):
    return float(np.float32(text))


def _set(**values):
    """A reader of a token: sets fields from what its pattern matched."""

    def read(problem, *groups):
        for name, value in values.items():
            setattr(problem, name, value(*groups) if callable(value) else value)

    return read


def _score_tensor(name, default_type):
    def read(problem, axes, dtype=None):
        varies = [] if axes == "1" else list(axes)
        tensor = ScoreTensor(dtype or default_type, [axis in varies for axis in "bhqk"])
        setattr(problem, name, tensor)

    return read


def _two(name, other):
    """`h32/8` or `h32`."""

    def read(problem, first, second):
        setattr(problem, name, int(first))
        setattr(problem, other, int(second or first))

    return read


def _window(problem, left, right, first_keys):
    if left:
        problem.left = int(left)
    if right:
        problem.right = int(right)
    if first_keys:
        problem.first_keys = int(first_keys)


def _varlen(problem, queries, keys):
    problem.varlen = True
    if queries:
        problem.total_q = int(queries)
        problem.total_kv = int(keys or queries)


def _lengths(problem, total):
    problem.lengths = True
    if total:
        problem.total_kv = int(total)


def _backward(problem, more):
    problem.backward = problem.lse = True
    wanted = (more or "").split(",")
    if "bias" in wanted:
        problem.dbias = ScoreTensor(None, None)
    problem.dsinks, problem.dalibi = "sinks" in wanted, "alibi" in wanted


def _gradient_type(problem, name, dtype):
    if name == "dbias":
        problem.dbias.dtype = dtype
    else:
        setattr(problem, f"{name}_dtype", dtype)


# A number; a real number as the shortest decimal that gives the same f32, maybe with an exponent.
N = r"(-?\d+)"
X = r"([-+.e\d]+)"
TOKENS = {
    f"b{N}": _set(batch=int),
    rf"h{N}(?:/{N})?": _two("heads", "kv_heads"),
    f"s{N}": _set(q_len=int, kv_len=int),
    f"q{N}": _set(q_len=int),
    f"kv{N}": _set(kv_len=int),
    rf"d{N}(?:/{N})?": _two("qk_dim", "v_dim"),
    "(f32|f16|bf16)": _set(dtype=str),
    "out:(f32|f16|bf16)": _set(out_dtype=str),
    "causal": _set(right=0),
    rf"window(?=.){N}?(?::{N})?(?:\+{N})?": _window,
    f"offset{N}": _set(offset=int),
    "bias:([bhqk]+|1)(?::(f32))?": _score_tensor("bias", None),
    "mask:([bhqk]+|1)": _score_tensor("mask", "u8"),
    "alibi": _set(alibi=True),
    "alibi:b": _set(alibi=True, alibi_per_sequence=True),
    f"softcap{X}": _set(softcap=_f32),
    "sinks": _set(sinks=True),
    f"dropout{X}": _set(dropout=lambda p: int(256 * _f32(p) + 0.5) / 256),
    rf"varlen(?:{N}(?:/{N})?)?": _varlen,
    f"kv_lengths{N}?": _lengths,
    f"page{N}": _set(page_size=int),
    "bshd|bhsd": _set(),
    f"(q|k|v|out|lse|bias|mask|dq|dk|dv|dout|dlse|dbias)@{N},{N},{N}": _set(),
    f"scale{X}": _set(scale=_f32),
    "lse": _set(lse=True),
    f"align{N}": _set(alignment=int),
    "batch-invariant": _set(batch_invariant=True),
    "batch-invariant:rows": _set(batch_invariant=True, row_invariant=True),
    "tf32": _set(tf32=True),
}
BACKWARD_TOKENS = {
    "backward(?::([a-z,]+))?": _backward,
    "dlse": _set(dlse=True),
    "(dq|dk|dv|dbias):(f32|f16|bf16)": _gradient_type,
}


def _without_idle_axes(strides, shape):
    return [0 if 0 in shape or n == 1 else stride for n, stride in zip(shape, strides)]


def _dense(shape, order):
    """Strides of the first three axes when `order`, from the slowest to the fastest, is dense."""
    strides, step = [0] * 4, 1
    for axis in reversed(order):
        strides[axis] = step
        step *= shape[axis]
    return _without_idle_axes(strides[:3], shape)


def _fill_totals(problem, tokens):
    packed_keys = problem.varlen and not problem.page_size
    has_kv_total = packed_keys or any(re.fullmatch(r"kv_lengths\d+", token) for token in tokens)
    if problem.total_q is None:
        problem.total_q = problem.batch * problem.q_len
    if problem.total_kv is None or not has_kv_total:
        problem.total_kv = problem.batch * problem.kv_len


def _fill_strides(problem, tokens):
    layout = [0, 2, 1, 3] if "bhsd" in tokens else [0, 1, 2, 3]
    written = dict(token.split("@") for token in tokens if "@" in token)
    strides = {}
    for name, shape in problem.shapes().items():
        if name in written:
            strides[name] = _without_idle_axes([int(n) for n in written[name].split(",")], shape)
        else:
            strides[name] = _dense(shape, layout if name in IN_LAYOUT else [0, 1, 2, 3])
    for name in IN_LAYOUT:
        setattr(problem, name, strides.get(name, [0, 0, 0]))
    problem.lse_stride = strides["lse"] if problem.lse else [0, 0, 0]
    problem.dlse_stride = strides.get("dlse", [0, 0, 0])
    for name in PAIRS:
        if tensor := getattr(problem, name):
            tensor.stride = strides[name]


def _fill_alignment(problem):
    """16 bytes at most, and no more than every stride allows."""
    types = {"out": problem.out_dtype, "dout": problem.out_dtype}
    types |= {name: getattr(problem, f"{name}_dtype") for name in ["dq", "dk", "dv"]}
    widest = 16
    for name in IN_LAYOUT:
        for stride in getattr(problem, name):
            while stride * ELEMENT_BYTES[types.get(name) or problem.dtype] % widest:
                widest //= 2
    problem.alignment = min(problem.alignment or widest, widest)


def parse(text):
    problem = Problem()
    tokens = text.split()
    for token in tokens:
        matches = [
            (re.fullmatch(pattern, token), read)
            for pattern, read in (TOKENS | BACKWARD_TOKENS).items()
        ]
        readers = [(match, read) for match, read in matches if match]
        if len(readers) != 1:
            raise ValueError(f"{len(readers)} tokens have the form of '{token}' in '{text}'")
        match, read = readers[0]
        read(problem, *match.groups())
    problem.out_dtype = problem.out_dtype or problem.dtype
    full = [problem.batch, problem.heads, problem.q_len, problem.kv_len]
    for tensor in [problem.bias, problem.mask]:
        if tensor:
            tensor.dtype = tensor.dtype or problem.dtype
            tensor.varies = [varies and n != 1 for varies, n in zip(tensor.varies, full)]
    if problem.backward:
        for name in ["dq_dtype", "dk_dtype", "dv_dtype"]:
            setattr(problem, name, getattr(problem, name) or problem.dtype)
    if problem.dbias:
        problem.dbias.dtype = problem.dbias.dtype or problem.bias.dtype
        problem.dbias.varies = problem.bias.varies
    if problem.scale is None:
        problem.scale = _f32(1 / np.sqrt(problem.qk_dim))
    _fill_totals(problem, tokens)
    _fill_strides(problem, tokens)
    _fill_alignment(problem)
    return problem
