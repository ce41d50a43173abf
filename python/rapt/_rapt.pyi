"""Types of the compiled module. An array is anything that speaks DLPack: NumPy's, PyTorch's,
JAX's, CuPy's. New arrays are of q's library, on q's device; nothing is copied."""

from typing import Any, Literal, Protocol, TypeVar

from ._gradients import Gradients

class Array(Protocol):
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[Any, int]: ...

A = TypeVar("A", bound=Array)
Layout = Literal["bshd", "bhsd"]
Indices = Array | list[int] | list[list[int]] | tuple[int, ...]
Numbers = Array | list[float] | list[list[float]] | tuple[float, ...]
Window = int | tuple[int | None, int | None] | None

def attention(
    q: A,
    k: A,
    v: A,
    *,
    causal: bool = False,
    window: Window = None,
    first_keys: int = 0,
    offset: int | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi: Numbers | None = None,
    softcap: float = 0.0,
    sinks: Numbers | None = None,
    dropout: float = 0.0,
    dropout_p: float | None = None,
    seed: Indices | None = None,
    scale: float | None = None,
    q_starts: Indices | None = None,
    kv_starts: Indices | None = None,
    kv_lengths: Indices | None = None,
    page_table: Indices | None = None,
    max_q_len: int | None = None,
    max_kv_len: int | None = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    batch_invariant: bool = False,
    row_invariant: bool = False,
    tf32: bool = False,
    kernel: str | None = None,
    out: Any = None,
    out_dtype: Literal["f32"] | None = None,
) -> Any:
    """softmax(Q Kᵀ · scale + bias) V, exactly.

    q, k, v      (batch, seq, head, dim), float32, float16 or bfloat16, any strides with a
                 contiguous last axis; (batch, head, seq, dim) with layout="bhsd". Without a batch
                 axis: one sequence, or packed ones. Fewer kv heads than heads are shared evenly.
    causal       no key after the query's position
    window       keys before the position: a number, or (left, right) where None is unbounded
    first_keys   of a sequence, that a window's left bound does not hide (StreamingLLM's sinks)
    offset       position of query 0 among the keys; by default the last query meets the last key
    bias, mask   broadcast to (batch, head, seq q, seq kv); float32 or q's type, bool (True: attend)
    alibi        float32 slopes: head, or (batch, head)
    sinks        float32 logits without a value, one a head
    softcap      scores become softcap · tanh(score / softcap); 0: none
    dropout      probability that a pair is dropped, rounded to a multiple of 1/256; others then count
                 1 / (1 − that). Which ones follows from the seed and the pair alone (`dropout_p` is
                 the same)
    seed         of dropout: two int64, a seed and an offset, on a GPU in its memory; other integers,
                 and lists, are copied
    scale        any finite number; 1/√dim unless given
    q_starts, kv_starts   batch + 1: where packed sequences start, with the total at the end
    kv_lengths   batch: how many keys of each sequence are in use (`lengths` is the same)
    page_table   (batch, pages of a sequence): k and v are (page, slot, head, dim)
                 These are int32; other integers, and lists, are copied.
    max_q_len, max_kv_len   of one packed or paged sequence; by default what can be
    return_lse   also the log-sum-exp of each row: float32, (batch, head, seq)
    batch_invariant   a row's bits do not depend on what else is in the batch
    row_invariant     nor on other queries, keys that it does not see, pages and packing: a token has
                 the same bits in prefill and in decode
    tf32         single TF32 products allowed for float32
    kernel       by name, as in rapt.kernels(); by default the fastest by estimate
    out          where to write: an array, or with return_lse a pair; not read-only; out itself of
                 q's type or float32
    out_dtype    "f32": a new result is float32 whatever q is; by default of q's type

    On a GPU the work goes into the stream that q's library uses now. While rapt computes, the GIL
    is released; on the CPU Ctrl-C ends a long call. Faults are ValueError, NotImplementedError (no
    kernel takes it), LookupError (no such kernel or device), MemoryError or RuntimeError."""

def attention_backward(
    q: A,
    k: A,
    v: A,
    *,
    out: A,
    lse: A,
    dout: A,
    dlse: A | None = None,
    causal: bool = False,
    window: Window = None,
    first_keys: int = 0,
    offset: int | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi: Numbers | None = None,
    softcap: float = 0.0,
    sinks: Numbers | None = None,
    dropout: float = 0.0,
    dropout_p: float | None = None,
    seed: Indices | None = None,
    scale: float | None = None,
    q_starts: Indices | None = None,
    kv_starts: Indices | None = None,
    kv_lengths: Indices | None = None,
    max_q_len: int | None = None,
    max_kv_len: int | None = None,
    layout: Layout = "bshd",
    batch_invariant: bool = False,
    row_invariant: bool = False,
    tf32: bool = False,
    kernel: str | None = None,
    dq: A | None = None,
    dk: A | None = None,
    dv: A | None = None,
    dbias: Array | bool = False,
    dsinks: Array | bool = False,
    dalibi: Array | bool = False,
    out_dtype: Literal["f32"] | None = None,
) -> Gradients:
    """The gradients of attention(), with its arguments.

    out, lse     what attention() gave for these arguments, with return_lse=True; lse may cover more
                 keys than k has, as in one step of a ring
    dout, dlse   gradients of out and lse, of their shapes; without dlse nothing came from lse
    dq, dk, dv   where to write: an array of q's type or float32; by default a new one
    dbias, dsinks, dalibi   True for a new array, or one to write to; dbias is summed where bias is
                 broadcast, and has size 1 there
    out_dtype    "f32": new gradients are float32 whatever q is

    Every sum has one order: the same arguments give the same bits. Pages have no backward."""

def plan(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window: Window = None,
    first_keys: int = 0,
    offset: int | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi: Numbers | None = None,
    softcap: float = 0.0,
    sinks: Numbers | None = None,
    dropout: float = 0.0,
    dropout_p: float | None = None,
    seed: Indices | None = None,
    scale: float | None = None,
    q_starts: Indices | None = None,
    kv_starts: Indices | None = None,
    kv_lengths: Indices | None = None,
    page_table: Indices | None = None,
    max_q_len: int | None = None,
    max_kv_len: int | None = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    batch_invariant: bool = False,
    row_invariant: bool = False,
    tf32: bool = False,
    kernel: str | None = None,
    out: Any = None,
    out_dtype: Literal["f32"] | None = None,
    **backward: Any,
) -> Plan:
    """A plan for arrays like these, with the arguments of attention(); with dout, and the others of
    attention_backward(), a plan of backward, whose run() takes them too."""

def problem(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    window: Window = None,
    first_keys: int = 0,
    offset: int | None = None,
    bias: Array | None = None,
    mask: Array | None = None,
    alibi: Numbers | None = None,
    softcap: float = 0.0,
    sinks: Numbers | None = None,
    dropout: float = 0.0,
    dropout_p: float | None = None,
    seed: Indices | None = None,
    scale: float | None = None,
    q_starts: Indices | None = None,
    kv_starts: Indices | None = None,
    kv_lengths: Indices | None = None,
    page_table: Indices | None = None,
    max_q_len: int | None = None,
    max_kv_len: int | None = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    batch_invariant: bool = False,
    row_invariant: bool = False,
    tf32: bool = False,
    kernel: str | None = None,
    out: Any = None,
    out_dtype: Literal["f32"] | None = None,
    **backward: Any,
) -> str:
    """The problem string of such a call, for explain(), Plan() and the rapt program."""

class Plan:
    """A problem bound to a device and a kernel, to be run many times. It pickles."""

    def __init__(
        self,
        problem: str,
        *,
        device: str = "cpu",
        kernel: str | None = None,
        config: str | None = None,
    ) -> None: ...
    @property
    def problem(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def config(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def layout(self) -> Layout:
        """Of the arrays it was made for; of a string, what its token says, bshd without one."""
    def run(
        self,
        q: A,
        k: A,
        v: A,
        *,
        bias: Array | None = None,
        mask: Array | None = None,
        alibi: Numbers | None = None,
        sinks: Numbers | None = None,
        seed: Indices | None = None,
        q_starts: Indices | None = None,
        kv_starts: Indices | None = None,
        kv_lengths: Indices | None = None,
        page_table: Indices | None = None,
        layout: Layout | None = None,
        out: Any = None,
        **backward: Any,
    ) -> Any:
        """out, or (out, lse) if the problem has lse; Gradients if it is backward. The arrays are as the plan was made for;
        layout is the plan's unless given."""

class Candidate:
    @property
    def kernel(self) -> str: ...
    @property
    def chosen(self) -> bool: ...
    @property
    def refusal(self) -> str: ...
    @property
    def config(self) -> str: ...
    @property
    def seconds(self) -> float: ...
    @property
    def bound(self) -> str: ...
    @property
    def workspace_bytes(self) -> int: ...

class Explanation:
    """str() of it is what `rapt explain` prints."""

    @property
    def problem(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def kernel(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def candidates(self) -> list[Candidate]: ...

class Device:
    @property
    def name(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def threads(self) -> int: ...
    @property
    def features(self) -> list[str]: ...

class Kernel:
    @property
    def name(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def by_name_only(self) -> bool: ...
    @property
    def operation(self) -> Literal["forward", "backward"]: ...

class Memory:
    def __init__(self, device: str, shape: tuple[int, ...], dtype: str) -> None: ...
    def __dlpack__(self, **kwargs: Any) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...

def explain(problem: str, *, device: str = "cpu", kernel: str | None = None) -> Explanation:
    """Who would take a problem, who refuses and why, and the choice."""

def devices() -> list[Device]:
    """The chips that rapt can compute on here."""

def kernels() -> list[Kernel]:
    """Every kernel of this build, on whatever chip."""

def merge(
    first: tuple[A, A], second: tuple[A, A], *, layout: Layout = "bshd", out: Any = None
) -> tuple[A, A]:
    """The attention over two disjoint sets of keys from the (out, lse) of each.

    All arrays lie on one device; on a GPU the work goes into the stream that their library uses
    now. Each out may be float32, float16 or bfloat16, whatever the others are: partials in float32
    lose nothing before the end. A new result has the types of the first; out is a pair to write to,
    which may be first or second."""

def version() -> str: ...
def xla_handlers() -> dict[str, Any]: ...
