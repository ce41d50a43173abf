#!/usr/bin/env python3
"""Times gradients on a GPU: rapt's and those of PyTorch's backends, in turns in one process, each
through autograd. A turn is a few calls in a row, so that the host launches ahead as it does in
training; their tensors are more than a cache holds.

    bench/peers/gpu_backward.py [--rounds 15] [--lengths 512 2048 8192 16384] [--dims 64 128]

bf16, heads · dim = 2048, batch · seq = 16384; medians in Tflop/s by 2.5 times forward's operations, of
which a causal mask leaves half.
"""

import argparse
import statistics

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch_gpu import EventClock

import rapt.torch

WIDTH, ROWS = 2048, 16384
CALLS_IN_A_ROW = 5
BACKENDS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def by_backend(backend):
    def attend(q, k, v, is_causal):
        with sdpa_kernel(backend):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    return attend


def gradients_of(attend, inputs, dout, is_causal):
    """Calls that make dq, dk and dv, forward having run."""
    out = attend(*inputs, is_causal=is_causal)

    def row():
        for _ in range(CALLS_IN_A_ROW):
            torch.autograd.grad(out, inputs, dout, retain_graph=True)

    return row


def race(clock, dim, length, is_causal, rounds):
    """Tflop/s by contender."""
    batch, heads = ROWS // length, WIDTH // dim
    q, k, v, dout = (
        torch.randn(batch, length, heads, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        for _ in range(4)
    )
    inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
    contenders = {"rapt": rapt.torch.scaled_dot_product_attention}
    contenders |= {name: by_backend(backend) for name, backend in BACKENDS.items()}
    calls = {
        name: gradients_of(attend, inputs, dout, is_causal) for name, attend in contenders.items()
    }
    times = {name: [] for name in calls}
    for turn in range(rounds + 3):
        for name, call in calls.items():
            seconds = clock.once(call) / CALLS_IN_A_ROW
            if turn >= 3:  # the first ones warm up
                times[name].append(seconds)
    flops = 2.5 * 4 * batch * heads * length**2 * dim / (2 if is_causal else 1)
    return {name: flops / statistics.median(all_times) / 1e12 for name, all_times in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192, 16384])
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 128])
    arguments = parser.parse_args()
    clock = EventClock(torch, "cuda")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; full / causal, Tflop/s")
    for dim in arguments.dims:
        for length in arguments.lengths:
            full, causal = (race(clock, dim, length, c, arguments.rounds) for c in (False, True))
            cells = [f"{name} {full[name]:4.0f} / {causal[name]:4.0f}" for name in full]
            print(f"d{dim:<4} s{length:<6} {'   '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
