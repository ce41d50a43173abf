"""Reads the JSON of `rapt bench` and `bench/peers` into rows that can be drawn together."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from typing import Any


class BadResults(Exception):
    """A sentence about a file that holds no results."""


@dataclasses.dataclass(frozen=True)
class Machine:
    """A device as one run had it, with the limits measured then; 0 where unknown."""

    name: str
    f32_flops: float
    matrix_flops: float
    read_bandwidth: float


@dataclasses.dataclass(frozen=True)
class Row:
    """One kernel, or one peer, on one problem."""

    machine: Machine
    problem: str
    solver: str  # the kernel's name, or the peer's
    is_peer: bool
    chosen: bool
    bound: str
    seconds: float
    gflops: float
    gbps: float
    intensity: float
    roof_fraction: float | None
    speedup: float | None


@dataclasses.dataclass(frozen=True)
class Run:
    """Where rows come from."""

    file: str
    date: str
    command: str
    machine: Machine


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _machine(device: dict[str, Any]) -> Machine:
    """Processors of a family have one name, whatever their generation: their cache tells them apart."""
    threads = f", {_counted(device['threads'])}" if device.get("backend") == "cpu" else ""
    if threads and device.get("cache_bytes"):
        threads = f", {device['cache_bytes'] / 2**20:.0f} MiB cache{threads}"
    limits = [device.get(name) or 0.0 for name in ("f32_flops", "matrix_flops", "read_bandwidth")]
    return Machine(f"{device['name']}{threads}", *limits)


_NUMBERS = ("seconds", "gflops", "gbps", "intensity")
_NUMBERS_OR_NULL = ("roof_fraction", "speedup")


def _canonical(problem: str) -> str:
    """With `kv_lengths` and `sinks` where older files have `lengths` and `sink`."""
    problem = re.sub(r"(?<!\S)lengths(?=\d*(\s|$))", "kv_lengths", problem)
    return re.sub(r"(?<!\S)sink(?=\s|$)", "sinks", problem)


def _row(machine: Machine, row: dict[str, Any]) -> Row:
    for name in (*_NUMBERS, *_NUMBERS_OR_NULL):
        if row[name] is None and name in _NUMBERS_OR_NULL:
            continue
        if not isinstance(row[name], (int, float)):
            raise TypeError(f"a row's {name} is {row[name]!r}, not a number")
    return Row(
        machine=machine,
        problem=_canonical(row["problem"]),
        solver=row.get("peer") or row["kernel"],
        is_peer="peer" in row,
        chosen=bool(row["chosen"]),
        bound=row["bound"],
        seconds=row["seconds"],
        gflops=row["gflops"],
        gbps=row["gbps"],
        intensity=row["intensity"],
        roof_fraction=row["roof_fraction"],
        speedup=row["speedup"],
    )


def _fault(error: Exception) -> str:
    """What is wrong with a file, in words of files."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON from line {error.lineno}, column {error.colno} on"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error)


def read(path: pathlib.Path) -> tuple[list[Run], list[Row]]:
    """The runs of a file (one, or those that tools/gpu_check.py put together) and their rows that
    ended well."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        reports = list(content["reports"].values()) if "reports" in content else [content]
        runs, rows = [], []
        for report in reports:
            machines = {device["device"]: _machine(device) for device in report["devices"]}
            command = report.get("command", "")
            command = command if isinstance(command, str) else " ".join(command)
            for machine in machines.values():
                runs.append(Run(path.name, report.get("date", ""), command, machine))
            rows += [
                _row(machines[row["device"]], row)
                for row in report["rows"]
                if row["status"] == "ok" and row["seconds"]
            ]
    except OSError as error:
        raise BadResults(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadResults(f"{path} is not what `rapt bench --json` writes: {_fault(error)}") from error
    return runs, rows


_LENGTHS = re.compile(r"\b(s|kv)(\d+)\b")


def family(problem: str) -> str:
    """The problem with its sequence length left open: `b1 h16 s… d64 f32`."""
    return _LENGTHS.sub(lambda match: match[1] + "…", problem)


def length(problem: str) -> int:
    """The number of keys of a sequence."""
    return max((int(number) for _, number in _LENGTHS.findall(problem)), default=0)
