"""PyTorch's GPU attention beside `rapt bench`, on the same problems in one call.

    python3 bench/peers/gpu_peers.py [SUITE|PROBLEM...] [--device cuda:0] [--json FILE]

Problem by problem, rapt first and the peers right after it: a chip that is hot lowers its clock,
and what is timed minutes apart cannot be compared. A line for each side: events around one run with
a cold cache; for short runs also one of many in a row, replayed from a graph and launched one by
one. rapt runs the kernel it chooses; the peer to beat is marked *. The speedups are rapt's over the
peer in these three.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import pathlib
import shlex
import statistics
import sys

from cpu_peers import FAILED_CHECK, ROOT, SUCCESS, WRONG_INPUT, duration
from problem import Problem, Refusal, parse
from race import HOPELESS, Contender, Times, mark_fastest, peer_row, samples_of, timed
from rapt_program import RaptProgram
from torch_gpu import TorchGpu

SUITES = ["tiny_kv_gpu", "wide", "scaling", "decode_gpu", "prefill_gpu", "types_gpu"]
SHORT_RUN = 50e-6  # seconds; as in rapt bench
IN_A_ROW = {"replay_ratio": "replay_seconds", "launch_ratio": "launch_seconds"}


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("problems", nargs="*", metavar="SUITE|PROBLEM", default=SUITES)
    parser.add_argument(
        "--rapt",
        type=pathlib.Path,
        default=ROOT / "build/release/cli/rapt",
        help="the program; default: build/release/cli/rapt",
    )
    parser.add_argument("--device", default="cuda:0", help="default: cuda:0")
    parser.add_argument(
        "--seconds", type=duration, default=0.1, help="for each side; default: 0.1"
    )
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write the rows")
    return parser.parse_args(arguments)


def command_of(options: argparse.Namespace) -> str:
    """The command that measures the same again, wherever the program and the report lie."""
    problems = [] if options.problems == SUITES else options.problems
    line = ["python3", "bench/peers/gpu_peers.py", *problems, "--device", options.device]
    return shlex.join([*line, "--seconds", f"{options.seconds:g}"])


def problems_of(names: list[str]) -> list[str]:
    """Each problem once; a suite's are in its file."""
    found: dict[str, None] = {}
    for name in names:
        suite = ROOT / "bench/suites" / f"{name}.txt"
        lines = suite.read_text().splitlines() if suite.is_file() else [name]
        found |= dict.fromkeys(line for line in lines if line and not line.startswith("#"))
    return list(found)


@dataclasses.dataclass
class MeasureOptions:
    seconds: float
    in_a_row: bool  # as rapt was timed, however long a run takes
    best: float  # of the peers so far: one that cannot win is timed three times only


def measured(row: dict, contender: Contender, clock, options: MeasureOptions) -> dict:
    """The row of a peer with its times."""
    with contender.context():
        samples = [clock.once(contender.call) for _ in range(3)]
        hopeful = min(samples) <= HOPELESS * options.best
        if hopeful:
            samples = samples_of(lambda: clock.once(contender.call), options.seconds)
        times = Times()
        times.add_round(statistics.median(samples), min(samples), len(samples))
        row = timed(row, times)
        if row["seconds"] < SHORT_RUN or (hopeful and options.in_a_row):
            row["replay_seconds"] = clock.replayed(contender.call)
            row["launch_seconds"] = clock.launched(contender.call)
    return row


def ratio(peer_row: dict, rapt_row: dict, field: str) -> float | None:
    theirs, ours = peer_row[field], rapt_row[field]
    return theirs / ours if theirs and ours else None


def with_ratios(row: dict, rapt_row: dict) -> dict:
    own = ratio(row, rapt_row, "seconds")
    in_a_row = {name: ratio(row, rapt_row, field) for name, field in IN_A_ROW.items()}
    return row | {"ratio": own, "ratios": None if own is None else [own]} | in_a_row


def compare(problem: Problem, rapt_row: dict, peers, seconds: float) -> list[dict]:
    """The rows of all peers on one problem."""
    rows = []
    options = MeasureOptions(seconds, rapt_row["replay_seconds"] is not None, float("inf"))
    for contender in peers.contenders(problem):
        row = peer_row(rapt_row, problem, contender)
        if not contender.refusal:
            row = measured(row, contender, peers.clock, options)
            options.best = min(options.best, row["seconds_min"])
        rows.append(with_ratios(row, rapt_row))
    mark_fastest(rows)
    return rows


def in_a_row(row: dict) -> str:
    times = [row[field] for field in IN_A_ROW.values()]
    return " ".join("        -" if time is None else f"{time * 1e6:6.1f} µs" for time in times)


def table_header(report: dict) -> str:
    columns = f"{'time':>12} {'replayed':>9} {'launched':>9} {'Tflop/s':>8} {'TB/s':>6} {'of roof':>8}"
    return f"{report['devices'][0]['name']}\n{'':24}{columns}   rapt's speedups"


def table_line(row: dict) -> str:
    name = f"{'*' if 'peer' in row and row['chosen'] else ' '} {row.get('peer') or row['kernel']}"
    if row["seconds"] is None:
        return f"{name:24} {row['status']}"
    line = f"{name:24} {row['seconds'] * 1e3:8.4f} ms {in_a_row(row)} {row['gflops'] / 1e3:8.2f}"
    line += f" {row['gbps'] / 1e3:6.3f} {100 * row['roof_fraction']:6.1f} %"
    if row.get("ratio") is not None:
        speedups = [row["ratio"], *(row[name] for name in IN_A_ROW)]
        line += "   " + ", ".join(f"{each:.2f} ×" for each in speedups if each is not None)
    return line if row["status"] == "ok" else f"{line}\n    {row['status']}"


def measure(options: argparse.Namespace, make_peers) -> int:
    if options.json and not options.json.resolve().parent.is_dir():
        raise Refusal(f"cannot write '{options.json}': its folder does not exist")
    peers = make_peers(options.device)
    rapt = RaptProgram(options.rapt, "--device", options.device)
    now = datetime.datetime.now(datetime.timezone.utc)
    provenance = {"date": now.strftime("%Y-%m-%dT%H:%M:%SZ"), "command": command_of(options)}
    rows: list[dict] = []
    for text in problems_of(options.problems):
        try:
            problem = parse(text)
            if problem.backward:
                raise Refusal("gpu_backward.py races gradients")
        except Refusal as refusal:
            print(f"{text}\n  {refusal}")
            continue
        report = rapt.bench_chosen(text, options.seconds)
        if not rows:
            print(table_header(report))
        (rapt_row,) = report["rows"]
        of_problem = [rapt_row, *compare(problem, rapt_row, peers, options.seconds)]
        rows += of_problem
        print("\n".join([rapt_row["problem"], *map(table_line, of_problem)]), flush=True)
        if options.json:  # after every problem: a run that is cut short keeps what it has
            written = report | provenance | {"rows": rows}
            options.json.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    if not rows:
        raise Refusal("none of these is a problem that peers can be timed on, or a suite")
    return FAILED_CHECK if any(row["status"].startswith("wrong") for row in rows) else SUCCESS


def main(arguments: list[str] | None = None, make_peers=TorchGpu) -> int:
    try:
        return measure(options_of(arguments), make_peers)
    except (Refusal, OSError) as error:
        print(f"gpu_peers: {error}", file=sys.stderr)
        return WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
