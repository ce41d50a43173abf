"""PyTorch's CPU attention beside `rapt bench`, on the same problems, interleaved in one run.

    python3 bench/peers/cpu_peers.py [PROBLEM...] [--threads N] [--json FILE]

A line for each side. rapt runs the kernel it chooses; the peer to beat is marked *. The speedup is
rapt's over the peer: the median of the rounds' ratios, and their range.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import pathlib
import shlex
import sys

from problem import Refusal, parse
from race import race
from rapt_program import RaptProgram
from torch_cpu import TorchCpu

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROBLEMS = [
    "b1 h16 s2048 d64 f32",
    "b1 h16 s2048 d64 f32 causal",
    "b1 h8 s4096 d128 f32 causal",
    "b1 h16 s2048 d64 bf16",
    "b1 h16 s2048 d64 bf16 causal",
    "b1 h8 s4096 d128 bf16",
    "b1 h8 s4096 d128 bf16 causal",
    "b1 h32/8 q1 kv8192 d128 bf16",
    "b1 h32/8 q1 kv32768 d128 bf16",
    "b1 h32/8 q1 kv32768 d128 f32",
    "b512 h16 q1 kv2 d128 f32",
    "b1 h4 s64 d2048 f32",
    "b1 h4 s64 d8192 f32",
]
SUCCESS, FAILED_CHECK, WRONG_INPUT = 0, 1, 2


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 1")
    return int(text)


def duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of seconds from 0 to 3600")
    return seconds


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=PROBLEMS)
    parser.add_argument(
        "--rapt",
        type=pathlib.Path,
        default=ROOT / "build/release/cli/rapt",
        help="the program; default: build/release/cli/rapt",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        help="of each side; default: every processor this process may use",
    )
    parser.add_argument("--rounds", type=positive, default=5, help="default: 5")
    parser.add_argument(
        "--seconds", type=duration, default=0.5, help="for each side in each round; default: 0.5"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows")
    return parser.parse_args(arguments)


def command_of(options: argparse.Namespace) -> str:
    """The command that measures the same again, wherever the program and the report lie."""
    problems = [] if options.problems == PROBLEMS else options.problems
    line = ["python3", "bench/peers/cpu_peers.py", *problems, "--threads", str(options.threads)]
    line += ["--rounds", str(options.rounds), "--seconds", f"{options.seconds:g}"]
    return shlex.join(line)


def table_header(report: dict) -> str:
    device, peer = report["devices"][0], report["rows"][-1]
    columns = f"{'time':>13} {'Gflop/s':>9} {'GB/s':>8} {'of roof':>8}   rapt's speedup"
    return f"{device['name']}, {device['threads']} threads, {peer['config']}\n{'':20}{columns}"


def table_line(row: dict) -> str:
    name = f"{'*' if 'peer' in row and row['chosen'] else ' '} {row.get('peer') or row['kernel']}"
    if row["seconds"] is None:
        return f"{name:20} {row['status']}"
    line = f"{name:20} {row['seconds'] * 1e3:9.3f} ms {row['gflops']:9.1f} {row['gbps']:8.2f}"
    line += f" {100 * row['roof_fraction']:6.1f} %"
    if "peer" in row:
        ratios = row["ratios"]
        spread = f"{min(ratios):.2f} to {max(ratios):.2f}" if len(ratios) > 1 else "one round"
        line += f"   {row['ratio']:.2f} × ({spread})"
    return line if row["status"] == "ok" else f"{line}\n    {row['status']}"


def table_of(rows: list[dict]) -> str:
    return "\n".join([rows[0]["problem"], *map(table_line, rows)])


def measure(options: argparse.Namespace, make_peers) -> int:
    problems = [parse(text) for text in options.problems]
    if options.json and not options.json.resolve().parent.is_dir():
        raise Refusal(f"cannot write '{options.json}': its folder does not exist")
    rapt = RaptProgram(options.rapt, "--threads", options.threads)
    peers = make_peers(options.threads)
    now = datetime.datetime.now(datetime.timezone.utc)
    provenance = {"date": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "command": command_of(options)}
    rows: list[dict] = []
    for problem in problems:
        report = race(problem, rapt, peers, options.rounds, options.seconds)
        if not rows:
            print(table_header(report))
        rows += report["rows"]
        print(table_of(report["rows"]), flush=True)
        if options.json:  # after every problem: a run that is cut short keeps what it has
            text = json.dumps(report | provenance | {"rows": rows}, indent=1, ensure_ascii=False)
            options.json.write_text(text + "\n")
    return FAILED_CHECK if any(row["status"].startswith("wrong") for row in rows) else SUCCESS


def main(arguments: list[str] | None = None, make_peers=TorchCpu) -> int:
    try:
        return measure(options_of(arguments), make_peers)
    except (Refusal, OSError) as error:
        print(f"cpu_peers: {error}", file=sys.stderr)
        return WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
