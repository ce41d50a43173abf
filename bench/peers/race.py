"""rapt and its peers on one problem, in turn, round after round, so that what disturbs a shared
machine disturbs all of them. A side's time is the median of its rounds' medians; a ratio is taken
within each round, and their median counts."""

from __future__ import annotations

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable

from problem import Problem

MOST_SAMPLES = 1000
# A peer so many times slower than the fastest in the first round does not run again: it cannot win.
HOPELESS = 3.0
# Memory-bound problems rotate through inputs of at least this many bytes, and this many times the
# caches.
ROTATE_BYTES = 640 << 20
ROTATE_CACHES = 2.5


@dataclasses.dataclass
class Contender:
    """A peer's way to solve the problem: `call` does it once, within `context`."""

    name: str
    config: str = ""
    refusal: str = ""  # why it cannot; it is not called then
    call: Callable[[], object] = lambda: None
    context: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext


class Times:
    """What one side took."""

    def __init__(self) -> None:
        self.medians: list[float] = []  # one a round
        self.least = float("inf")
        self.samples = 0

    def add_round(self, median: float, least: float, samples: int) -> None:
        self.medians.append(median)
        self.least = min(self.least, least)
        self.samples += samples

    def seconds(self) -> float:
        return statistics.median(self.medians)


def samples_of(timed_once: Callable[[], float], seconds: float) -> list[float]:
    """As `rapt bench` does: for the time allowed, but not fewer than three unless each takes longer
    than that by itself."""
    samples: list[float] = []
    spent = 0.0
    while len(samples) < MOST_SAMPLES:
        samples.append(timed_once())
        spent += samples[-1]
        if spent >= seconds and (len(samples) >= 3 or samples[0] > seconds):
            break
    return samples


def sample(call, seconds: float, clock=time.perf_counter) -> list[float]:
    """The seconds of each call, after one to warm up."""

    def timed_once() -> float:
        start = clock()
        call()
        return clock() - start

    call()
    return samples_of(timed_once, seconds)


def rotate_bytes(report: dict) -> float:
    """Bytes of inputs to rotate through: 0 unless rapt's own benchmark did."""
    if report["rows"][0]["bound"] != "memory":
        return 0
    return max(ROTATE_BYTES, ROTATE_CACHES * report["devices"][0]["cache_bytes"])


def timed(row: dict, times: Times) -> dict:
    seconds = times.seconds()
    return row | {
        "seconds": seconds,
        "seconds_min": times.least,
        "samples": times.samples,
        "gflops": row["flops"] / seconds * 1e-9,
        "gbps": row["bytes"] / seconds * 1e-9,
        "roof_fraction": row["roof_seconds"] / seconds,
    }


def peer_row(rapt_row: dict, problem: Problem, contender: Contender) -> dict:
    """A row of the same fields, with nothing measured yet. The roof is the machine's."""
    row = {"peer" if name == "kernel" else name: value for name, value in rapt_row.items()}
    unknown = ["seconds", "seconds_min", "replay_seconds", "launch_seconds"]
    unknown += ["gflops", "gbps", "roof_fraction", "workspace_bytes"]
    unknown += ["error", "error_bound", "speedup", "ratio", "ratios"]
    return row | dict.fromkeys(unknown) | {
        "peer": contender.name,
        "config": contender.config,
        "chosen": False,
        "status": f"refused: {contender.refusal}" if contender.refusal else "ok",
        "samples": 0,
        "flops": problem.flops(),
        "bytes": problem.bytes(),
        "intensity": problem.flops() / problem.bytes(),
    }


def mark_fastest(rows: list[dict]) -> None:
    """`chosen` is the peer to beat: the one with the least ratio."""
    ran = [row for row in rows if row["ratio"] is not None]
    if ran:
        min(ran, key=lambda row: row["ratio"])["chosen"] = True


def hopeful(contenders: list[Contender], times: dict[str, Times]) -> list[Contender]:
    fastest = min((times[each.name].least for each in contenders), default=0)
    return [each for each in contenders if times[each.name].least <= HOPELESS * fastest]


def with_ratios(row: dict, peer: Times, rapt: Times) -> dict:
    # A peer that stopped running has the first round only.
    ratios = [theirs / ours for theirs, ours in zip(peer.medians, rapt.medians)]
    return timed(row, peer) | {"ratio": statistics.median(ratios), "ratios": ratios}


def race(problem: Problem, rapt, peers, rounds: int, seconds: float, sample=sample) -> dict:
    """rapt's report on the problem: the row of the kernel it chooses, with its times over all
    rounds, and a row for each contender of the peers."""
    kernel = rapt.chosen_kernel(problem.text)
    report = rapt.bench(problem.text, kernel, 0)
    contenders = peers.contenders(problem, rotate_bytes(report))
    running = [each for each in contenders if not each.refusal]
    peer_times = {each.name: Times() for each in running}
    rapt_times, rapt_rows = Times(), []
    for turn in range(rounds):
        for each in running:
            with each.context():
                samples = sample(each.call, seconds)
            peer_times[each.name].add_round(statistics.median(samples), min(samples), len(samples))
        row = rapt.bench(problem.text, kernel, seconds)["rows"][0]
        rapt_times.add_round(row["seconds"], row["seconds_min"], row["samples"])
        rapt_rows.append(row)
        if turn == 0:
            running = hopeful(running, peer_times)

    rapt_row = next((row for row in rapt_rows if row["status"] != "ok"), rapt_rows[0])
    rows = [peer_row(rapt_row, problem, each) for each in contenders]
    rows = [
        with_ratios(row, peer_times[row["peer"]], rapt_times) if row["status"] == "ok" else row
        for row in rows
    ]
    mark_fastest(rows)
    return report | {"rows": [timed(rapt_row, rapt_times), *rows]}
