"""PyTorch's attention on a GPU: every backend that accepts a problem, and FlashAttention-3 where its
package is installed, in both layouts, timed as `rapt bench` times its kernels."""

from __future__ import annotations

import contextlib
import statistics
import warnings

from problem import Problem, Refusal
from race import Contender

CLEARED_BYTES = 256 << 20  # overwritten before each run, so that it finds a cold cache
RUNS_IN_A_ROW, ROWS = 20, 15


class EventClock:
    """Seconds on the GPU, between events around the work."""

    def __init__(self, torch, device: str):
        self._torch = torch
        self._scratch = torch.empty(CLEARED_BYTES, dtype=torch.uint8, device=device)
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def once(self, call) -> float:
        """Of one call with a cold cache."""
        self._scratch.zero_()
        return self._between_events(call)

    def launched(self, call) -> float:
        """Of one of many calls in a row."""

        def row():
            for _ in range(RUNS_IN_A_ROW):
                call()

        return self._median_of_rows(row)

    def replayed(self, call) -> float | None:
        """The same from a captured graph; None where the calls cannot be captured."""
        graph = self._torch.cuda.CUDAGraph()
        try:
            with self._torch.cuda.graph(graph):
                for _ in range(RUNS_IN_A_ROW):
                    call()
            return self._median_of_rows(graph.replay)
        except RuntimeError:
            self._torch.cuda.synchronize()
            return None

    def _median_of_rows(self, row) -> float:
        row()  # to warm up
        times = [self._between_events(row) for _ in range(ROWS)]
        return statistics.median(times) / RUNS_IN_A_ROW

    def _between_events(self, work) -> float:
        self._begin.record()
        work()
        self._end.record()
        self._end.synchronize()
        return self._begin.elapsed_time(self._end) * 1e-3


def flash_attention_3(torch):
    """Its forward on (batch, length, heads, dim), or None where `flash_attn_3` cannot be imported."""
    try:
        import flash_attn_3._C  # noqa: F401
    except ImportError:
        return None
    return torch.ops.flash_attn_3.fwd


class TorchGpu:
    def __init__(self, device: str):
        try:
            import torch
            from torch.nn import attention
        except ImportError as error:
            raise Refusal(
                f"PyTorch cannot be imported ({error}); run this with a Python that has it, e.g. "
                "after `python3 -m pip install torch`"
            ) from error
        if not torch.cuda.is_available():
            raise Refusal("PyTorch finds no GPU here; see what `rapt devices` finds")
        self._torch = torch
        self._device = device.replace("hip:", "cuda:")  # as PyTorch calls AMD's GPUs too
        torch.cuda.set_device(self._device)
        self._sdpa_kernel = attention.sdpa_kernel
        self._backends = {
            "cudnn": attention.SDPBackend.CUDNN_ATTENTION,
            "flash": attention.SDPBackend.FLASH_ATTENTION,
            "efficient": attention.SDPBackend.EFFICIENT_ATTENTION,
            "math": attention.SDPBackend.MATH,
        }
        self._flash3 = flash_attention_3(torch)
        self._dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        self.config = f"torch={torch.__version__},cudnn={torch.backends.cudnn.version()}"
        self.clock = EventClock(torch, self._device)

    def contenders(self, problem: Problem):
        """One after the other: what one has allocated is free for the next."""
        for layout in ("bshd", "bhsd"):
            self._torch.cuda.empty_cache()
            inputs = [
                self._tensor(problem, problem.heads, problem.q_len, layout),
                self._tensor(problem, problem.kv_heads, problem.kv_len, layout),
                self._tensor(problem, problem.kv_heads, problem.kv_len, layout),
            ]
            for name in self._backends:
                yield self._sdpa(problem, inputs, layout, name)
            if self._flash3:
                yield self._flash_attention_3(problem, inputs, layout)

    def _sdpa(self, problem: Problem, inputs: list, layout: str, name: str) -> Contender:
        attend = self._torch.nn.functional.scaled_dot_product_attention
        options = {"is_causal": problem.causal, "enable_gqa": problem.heads != problem.kv_heads}
        contender = Contender(
            name=f"torch-{name}-{layout}",
            config=self.config,
            call=lambda: attend(*inputs, **options),
            context=lambda: self._using(name),
        )
        return self._tried(contender)

    def _flash_attention_3(self, problem: Problem, inputs: list, layout: str) -> Contender:
        inputs = [tensor.transpose(1, 2) for tensor in inputs]
        contender = Contender(
            name=f"flash3-{layout}",
            config=self.config,
            call=lambda: self._flash3(*inputs, is_causal=problem.causal),
        )
        return self._tried(contender)

    def _tried(self, contender: Contender) -> Contender:
        """It with its refusal, if it has one."""
        try:
            with contender.context(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a refusal also warns, in many words
                contender.call()
                self._torch.cuda.synchronize()
        except RuntimeError as error:  # out of memory included
            contender.refusal = str(error).splitlines()[0]
        return contender

    @contextlib.contextmanager
    def _using(self, name: str):
        with self._torch.no_grad(), self._sdpa_kernel(self._backends[name]):
            yield

    def _tensor(self, problem: Problem, heads: int, length: int, layout: str):
        """(batch, heads, length, dim), as PyTorch wants it, lying in memory as `layout` says."""
        middle = (heads, length) if layout == "bhsd" else (length, heads)
        tensor = self._torch.randn(
            problem.batch, *middle, problem.dim,
            dtype=self._dtypes[problem.dtype], device=self._device,
        )  # fmt: skip
        return tensor if layout == "bhsd" else tensor.transpose(1, 2)
