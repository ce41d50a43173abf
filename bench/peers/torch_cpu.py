"""PyTorch's attention on the CPU: every backend that accepts a problem, in both layouts, so that
its best is what rapt is compared with."""

from __future__ import annotations

import contextlib
import itertools
import warnings

from problem import Problem, Refusal
from race import Contender

MOST_INPUT_SETS = 256


class TorchCpu:
    def __init__(self, threads: int):
        try:
            import torch
            from torch.nn import attention
        except ImportError as error:
            raise Refusal(
                f"PyTorch cannot be imported ({error}); run this with a Python that has it, e.g. "
                "after `python3 -m pip install torch`"
            ) from error
        torch.set_num_threads(threads)
        self._torch = torch
        self._sdpa_kernel = attention.sdpa_kernel
        self._backends = {
            "flash": attention.SDPBackend.FLASH_ATTENTION,
            "math": attention.SDPBackend.MATH,
        }
        self._dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        self.config = f"torch={torch.__version__},isa={torch.backends.cpu.get_cpu_capability()}"

    def contenders(self, problem: Problem, rotate_bytes: float) -> list[Contender]:
        result = []
        for layout in ("bshd", "bhsd"):
            sets = self._input_sets(problem, layout, rotate_bytes)
            for name in self._backends:
                result.append(self._contender(problem, sets, layout, name))
        return result

    def _contender(self, problem: Problem, sets: list, layout: str, name: str) -> Contender:
        attend = self._torch.nn.functional.scaled_dot_product_attention
        options = {"is_causal": problem.causal, "enable_gqa": problem.heads != problem.kv_heads}
        turn = itertools.cycle(sets)

        def forward(tensors):
            return attend(*tensors, **options)

        contender = Contender(
            name=f"torch-{name}-{layout}",
            config=self.config,
            call=lambda: forward(next(turn)),
            context=lambda: self._using(name, gradients=problem.backward),
        )
        try:
            with contender.context(), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a refusal also warns, in many words
                contender.call()
                if problem.backward:
                    contender.call = self._gradients(forward, sets)
        except RuntimeError as error:
            contender.refusal = str(error).splitlines()[0]
        return contender

    def _gradients(self, forward, sets):
        """A call that goes from dout back to dq, dk and dv of the next inputs, through what forward kept
        of them."""
        graphs = []
        for tensors in sets:
            for tensor in tensors:
                tensor.requires_grad_()
            out = forward(tensors)
            graphs.append((out, tensors, self._torch.randn_like(out)))
        turn = itertools.cycle(graphs)
        return lambda: self._torch.autograd.grad(*next(turn), retain_graph=True)

    @contextlib.contextmanager
    def _using(self, name: str, gradients: bool):
        with self._torch.set_grad_enabled(gradients), self._sdpa_kernel(self._backends[name]):
            yield

    def _input_sets(self, problem: Problem, layout: str, rotate_bytes: float) -> list:
        """Sets of (q, k, v), as many as exceed `rotate_bytes`; one where nothing rotates."""
        first = [
            self._tensor(problem, problem.heads, problem.q_len, layout),
            self._tensor(problem, problem.kv_heads, problem.kv_len, layout),
            self._tensor(problem, problem.kv_heads, problem.kv_len, layout),
        ]
        size = sum(tensor.nbytes for tensor in first)
        more = min(MOST_INPUT_SETS, int(rotate_bytes // size))
        return [first] + [[tensor.clone() for tensor in first] for _ in range(more)]

    def _tensor(self, problem: Problem, heads: int, length: int, layout: str):
        """(batch, heads, length, dim), as PyTorch wants it, lying in memory as `layout` says."""
        middle = (heads, length) if layout == "bhsd" else (length, heads)
        tensor = self._torch.randn(
            problem.batch, *middle, problem.dim, dtype=self._dtypes[problem.dtype]
        )
        return tensor if layout == "bhsd" else tensor.transpose(1, 2)
