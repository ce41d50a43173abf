#!/usr/bin/env python3
"""Checks and times rapt on one GPU in one call, leaves everything in one JSON file, and prints a
short table last.

    tools/gpu_check.py [PART...] [--rapt PROGRAM | --build ARCH] [--device cuda:0] [--json FILE]

Parts, all unless some are named:

    verify     every kernel of the device against the oracle, on random problems of forward and of
               backward
    sanitize   the same on a few small problems under compute-sanitizer: memcheck, racecheck,
               synccheck
    graph      the tests of the CUDA backend: plans captured in a graph and replayed with grown
               lengths, the same bits in a hundred replays
    limits     `rapt devices --measure`
    tiny_kv wide scaling ladder decode prefill types features backward
               `rapt bench` on that suite; of the last four only the kernel that rapt chooses
    peers      rapt and PyTorch in turns on the problems of the suites that ran, features and
               backward left out, or on its own list

A part that needs what is not there (compute-sanitizer, the tests, PyTorch) is skipped and says so.
Exit code 0, 1 if a part failed, 2 if none could be started.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUCCESS, FAILED_CHECK, WRONG_INPUT = 0, 1, 2

SUITES = {
    "tiny_kv": ["tiny_kv_gpu"],
    "wide": ["wide"],
    "scaling": ["scaling"],
    "ladder": ["ladder"],
    "decode": ["decode_gpu"],
    "prefill": ["prefill_gpu", "--chosen"],
    "types": ["types_gpu", "--chosen"],
    "features": ["features_gpu", "--chosen"],
    "backward": ["backward_gpu", "--chosen"],
}
SANITIZERS = ["memcheck", "racecheck", "synccheck"]
# Small, and together of every feature and for every kernel.
SANITIZED = [
    "b2 h4/2 s70 d64 f32 causal lse",
    "b1 h2 s130 d128 bf16",
    "b70 h2 s64 d128 bf16",  # more tiles of queries than multiprocessors
    "b1 h2 s130 d128 f32",
    "b1 h2 s70 d256 f32 causal",
    "b2 h2 q70 kv90 d100/36 f32 align4 kv_lengths page7",
    "b1 h2 s33 d40 bf16 window16 softcap30 alibi sinks",
    "b3 h8/2 q3 kv200 d64 f16 kv_lengths page16",
    "b4 h2 s40 d32 f32 causal varlen",
    "b1 h2 s20 d300 f32 bias:hqk mask:bqk",
    "b40 h4 q1 kv2 d128 f16 bhsd",
    "b2 h4/2 q150 kv300 d64 bf16 causal backward dlse",
    "b1 h2 s140 d128 f16 dropout0.2 alibi sinks backward:sinks",
    "b2 h2 s70 d64 f32 causal varlen bias:hqk backward:bias",
]
PARTS = ["verify", "sanitize", "graph", "limits", *SUITES, "peers"]
SECONDS_OF_PART = 240  # before it is ended


class Skipped(Exception):
    """Why a part cannot run here."""


class Failed(Exception):
    """Why a part is not as it should be."""


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=" ".join(PARTS))
    parser.add_argument("--rapt", type=pathlib.Path, help="default: build/gpu/cli/rapt")
    parser.add_argument(
        "--tests", type=pathlib.Path, help="default: tests/rapt_cuda_tests in the program's build"
    )
    parser.add_argument("--build", metavar="ARCH", help="build it first, e.g. for 90a-real")
    parser.add_argument("--device", default="cuda:0", help="default: cuda:0")
    parser.add_argument("--cases", type=int, default=200, help="of verify; default: 200")
    parser.add_argument(
        "--seconds", type=float, default=0.1, help="of each kernel on each problem; default: 0.1"
    )
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("gpu_check.json"))
    options = parser.parse_args(arguments)
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"'{unknown[0]}' is not a part; there are {', '.join(PARTS)}")
    if options.build and options.rapt:
        parser.error("--build makes the program and --rapt names one; give one of them")
    options.parts = options.parts or PARTS
    options.rapt = (options.rapt or ROOT / "build/gpu/cli/rapt").absolute()
    beside = options.rapt.parent.parent / "tests/rapt_cuda_tests"
    options.tests = (options.tests or beside).absolute()
    return options


def build(architecture: str) -> None:
    for tool in ("cmake", "ninja", "nvcc"):
        if not shutil.which(tool) and not (tool == "nvcc" and os.environ.get("CUDACXX")):
            raise Failed(f"--build needs {tool}, which is not in PATH")
    folder = ROOT / "build/gpu"
    configure = ["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DRAPT_CUDA=ON", "-DRAPT_HIP=OFF", "-DRAPT_BUILD_TESTS=OFF"]
    configure += [f"-DRAPT_CUDA_ARCHITECTURES={architecture}"]
    for command in (configure, ["cmake", "--build", folder, "--target", "rapt"]):
        if subprocess.run(command, stdout=sys.stderr, check=False).returncode != 0:
            raise Failed(f"the build for {architecture} failed")


class Check:
    """One call: the program on one device, and what came of each part."""

    def __init__(self, options: argparse.Namespace, folder: pathlib.Path):
        self.options = options
        self.folder = folder
        self.reports: dict[str, dict] = {}  # of bench and peers, by part

    def run(self, command: list, good=(0,), seconds: float = SECONDS_OF_PART) -> str:
        """What a command prints. Standard error comes along where it fails."""
        environment = os.environ | {"RAPT_TUNING": ""}  # the estimates choose
        environment.pop("RAPT_KERNEL", None)
        try:
            result = subprocess.run(
                [str(word) for word in command], env=environment, timeout=seconds, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise Failed(f"cannot run {command[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"not done after {seconds:.0f} s: {command[0]}") from error
        if result.returncode not in good:
            lines = (result.stdout + result.stderr).strip().splitlines()
            raise Failed("\n".join([f"exit code {result.returncode}", *lines[-40:]]))
        return result.stdout

    def rapt(self, *arguments, good=(0,)) -> str:
        return self.run([self.options.rapt, *arguments, "--device", self.options.device], good)

    def verify(self) -> dict:
        cases = ["verify", "--cases", self.options.cases]
        output = self.rapt(*cases) + self.rapt(*cases, "--backward")
        return {"cases": self.options.cases, "output": output.splitlines()}

    def sanitize(self) -> dict:
        sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
        if not os.access(sanitizer, os.X_OK):
            raise Skipped("compute-sanitizer is not here")
        outputs = {}
        for tool in SANITIZERS:
            command = [sanitizer, "--tool", tool, "--error-exitcode", "9", self.options.rapt]
            command += ["verify", *SANITIZED, "--device", self.options.device]
            outputs[tool] = self.run(command).splitlines()
        return {"problems": SANITIZED, "outputs": outputs}

    def graph(self) -> dict:
        if not os.access(self.options.tests, os.X_OK):
            raise Skipped(f"{self.options.tests} is not here; build the tests, or give --tests")
        # Graphs in a process of their own, in which nothing has run before it is captured.
        lines = []
        for tests in ("CudaGraph.*", "-CudaGraph.*"):
            lines += self.run([self.options.tests, f"--gtest_filter={tests}"]).splitlines()
        if any("[  SKIPPED ]" in line for line in lines):
            raise Skipped("the tests found no GPU")
        return {"output": lines}

    def limits(self) -> dict:
        return {"devices": json.loads(self.rapt("devices", "--measure", "--json"))}

    def bench(self, part: str) -> dict:
        path = self.folder / f"{part}.json"
        arguments = ["bench", *SUITES[part], "--seconds", f"{self.options.seconds:g}"]
        self.rapt(*arguments, "--json", path, good=(SUCCESS, FAILED_CHECK))
        self.reports[part] = json.loads(path.read_text())
        wrong = [
            f"{row['problem']}: {row['kernel']} {row['status']}"
            for row in self.reports[part]["rows"]
            if row["status"].startswith("wrong")
        ]
        if wrong:
            raise Failed("\n".join(wrong))
        return {}

    def peers(self) -> dict:
        if importlib.util.find_spec("torch") is None:
            raise Skipped("this Python has no PyTorch")
        path = self.folder / "peers.json"
        command = [sys.executable, ROOT / "bench/peers/gpu_peers.py", "--json", path]
        command += ["--device", self.options.device, "--rapt", self.options.rapt]
        command += ["--seconds", f"{self.options.seconds:g}"]
        raced = [part for part in SUITES if part in self.reports]
        raced = [part for part in raced if part not in ("features", "backward")]
        command += [SUITES[part][0] for part in raced]
        self.run(command, good=(SUCCESS, FAILED_CHECK))
        self.reports["peers"] = json.loads(path.read_text())
        return {}

    def part(self, name: str) -> dict:
        start = time.monotonic()
        try:
            result = self.bench(name) if name in SUITES else getattr(self, name)()
            status = "passed"
        except Skipped as reason:
            result, status = {}, f"skipped: {reason}"
        except Failed as reason:
            result, status = {}, f"failed: {reason}"
        return {"status": status, "seconds": round(time.monotonic() - start, 1), **result}


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.4f}"


def beside_peers(row: dict, peers: list[dict]) -> str:
    """The peers to beat: the fastest one, and the least replayed time of any."""
    chosen = next((peer for peer in peers if peer["chosen"]), None)
    if not chosen:
        return ""
    line = f"{chosen['peer']} {milliseconds(chosen['seconds'])} ms, {chosen['ratio']:.2f} ×"
    replayed = min((peer["replay_seconds"] for peer in peers if peer["replay_seconds"]), default=0)
    if replayed and row["replay_seconds"]:
        speedup = replayed / row["replay_seconds"]
        line += f"; replayed {milliseconds(replayed)} ms, {speedup:.2f} ×"
    return line


def table(reports: dict[str, dict]) -> str:
    """A line for each problem: the chosen kernel, and the best peer where there is one."""
    peers = [row for row in reports.get("peers", {"rows": []})["rows"] if "peer" in row]
    lines = [
        f"{'problem':42} {'kernel':18} {'ms':>9} {'replayed':>9} {'Tflop/s':>8} {'TB/s':>6} "
        f"{'roof':>5}  peer to beat, rapt's speedup"
    ]
    for row in (row for part in SUITES for row in reports.get(part, {"rows": []})["rows"]):
        if not row["chosen"] or row["seconds"] is None:
            continue
        line = f"{row['problem']:42} {row['kernel']:18} {milliseconds(row['seconds']):>9} "
        line += f"{milliseconds(row['replay_seconds']):>9} {row['gflops'] / 1e3:8.2f} "
        line += f"{row['gbps'] / 1e3:6.2f} {100 * row['roof_fraction']:3.0f} %  "
        line += beside_peers(row, [peer for peer in peers if peer["problem"] == row["problem"]])
        lines.append(line.rstrip())
    return "\n".join(lines) if len(lines) > 1 else ""


def check(options: argparse.Namespace) -> int:
    if options.build:
        build(options.build)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    result = {"schema": 1, "date": now, "device": options.device, "parts": {}}
    with tempfile.TemporaryDirectory() as folder:
        run = Check(options, pathlib.Path(folder))
        result["rapt"] = run.run([options.rapt, "--version"]).strip()
        run.rapt("explain", "b1 h1 s16 d64 f32", good=(0, 1))  # the device is there
        for name in [part for part in PARTS if part in options.parts]:
            print(f"gpu_check: {name}", file=sys.stderr, flush=True)
            part = result["parts"][name] = run.part(name)
            if part["status"] != "passed":
                print(f"gpu_check: {name} {part['status']}", file=sys.stderr, flush=True)
            # After every part: a call that is cut short keeps what it has.
            text = json.dumps(result | {"reports": run.reports}, indent=1, ensure_ascii=False)
            options.json.write_text(text + "\n")
    if lines := table(run.reports):
        print(lines)
    for name, part in result["parts"].items():
        print(f"{name:10} {part['seconds']:6.1f} s  {part['status'].splitlines()[0]}")
    failed = any(part["status"].startswith("failed") for part in result["parts"].values())
    return FAILED_CHECK if failed else SUCCESS


def main(arguments: list[str] | None = None) -> int:
    try:
        return check(options_of(arguments))
    except (Failed, OSError) as error:
        print(f"gpu_check: {error}", file=sys.stderr)
        return WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
