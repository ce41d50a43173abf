"""What a call from Python costs beside the kernel, on problems so small that it shows.

    python bench/python_overhead.py --rapt build/release/cli/rapt --json overhead.json

A time is the least of many repeats of a loop of calls. The kernel alone is what `rapt bench` gives
for the same problem (its least time; on a GPU the time of a launch among many); overhead is the
difference. On a GPU calls are launched one after the other and waited for at the end of a loop: a
time is the host's, which the device follows."""

import argparse
import datetime
import json
import pathlib
import platform
import subprocess
import sys
import tempfile
import timeit

import numpy as np

import rapt

SHAPE = (1, 1, 1, 8)  # (batch, seq, head, dim)


def least(function, calls, finish=lambda: None):
    """Seconds of one call."""
    loops = (timeit.timeit(function, setup=finish, number=calls) for _ in range(400))
    return min(loops) / calls


def kernel_seconds(program, problem, device):
    """The kernel alone, or None without the program."""
    if not program:
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "bench.json"
        command = [program, "bench", problem, "--chosen", "--device", device, "--json", file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        row = json.loads(file.read_text())["rows"][0]
    return row.get("launch_seconds") or row["seconds_min"]


def numpy_calls():
    q, k, v = (np.zeros(SHAPE, np.float32) for _ in range(3))
    out, plan = np.empty_like(q), rapt.plan(q, k, v)
    yield "cpu", "rapt.attention, NumPy", lambda: rapt.attention(q, k, v)
    yield "cpu", "rapt.attention, NumPy, out", lambda: rapt.attention(q, k, v, out=out)
    yield "cpu", "Plan.run, NumPy, out", lambda: plan.run(q, k, v, out=out)


def torch_calls(device):
    import torch

    from rapt.torch import scaled_dot_product_attention

    backend = "cuda:0" if device == "cuda" else "cpu"
    q, k, v = (torch.zeros(SHAPE, device=device) for _ in range(3))
    out, plan = torch.empty_like(q), rapt.plan(q, k, v)
    own = torch.nn.functional.scaled_dot_product_attention
    yield backend, f"rapt.attention, torch {device}", lambda: rapt.attention(q, k, v)
    yield backend, f"Plan.run, torch {device}, out", lambda: plan.run(q, k, v, out=out)
    yield backend, f"rapt.torch SDPA, {device}", lambda: scaled_dot_product_attention(q, k, v)
    yield backend, f"torch.ops.rapt.attention, {device}", lambda: torch.ops.rapt.attention(q, k, v)
    yield backend, f"torch's own SDPA, {device}", lambda: own(q, k, v)


def all_calls():
    yield from numpy_calls()
    try:
        import torch
    except ImportError:
        print("PyTorch is not installed: its rows are missing", file=sys.stderr)
        return
    yield from torch_calls("cpu")
    if torch.cuda.is_available() and any(d.backend == "cuda" for d in rapt.devices()):
        yield from torch_calls("cuda")


def machine():
    """What the numbers hold for."""
    modules = {name: sys.modules[name] for name in ["numpy", "torch"] if name in sys.modules}
    versions = {name: module.__version__ for name, module in modules.items()}
    return {
        "rapt": rapt.__version__,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "devices": [device.name for device in rapt.devices()],
        "versions": {"python": platform.python_version(), **versions},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rapt", help="the rapt program, for the time of the kernel alone")
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()
    problem = rapt.problem(*(np.zeros(SHAPE, np.float32) for _ in range(3)))
    kernels, rows = {}, []
    print(f"{problem}\n{'call':36} {'a call':>10} {'kernel':>10} {'overhead':>10}")
    for device, name, call in all_calls():
        if device not in kernels:
            kernels[device] = kernel_seconds(options.rapt, problem, device)
        finish = (lambda: None) if device == "cpu" else sys.modules["torch"].cuda.synchronize
        call()
        seconds, kernel = least(call, 100, finish), kernels[device]
        beyond = None if kernel is None or name.startswith("torch's") else seconds - kernel
        rows.append({"call": name, "seconds": seconds, "kernel": kernel, "overhead": beyond})
        cells = [f"{x * 1e6:7.2f} µs" if x is not None else "–" for x in (seconds, kernel, beyond)]
        print(f"{name:36} " + " ".join(f"{cell:>10}" for cell in cells))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**machine(), "problem": problem, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
