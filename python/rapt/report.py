"""`python -m rapt.report RESULTS.json… -o report.html`: benchmark results as one page that needs no
network. The files are what `rapt bench --json` and `bench/peers` write; plotly draws them and is
the optional extra `rapt[report]`."""

from __future__ import annotations

import argparse
import html
import pathlib
import sys

from ._results import BadResults, Row, Run, read

_STYLE = """
body { font-family: system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em;
       color: #222; }
h1 { font-weight: 600; } h2 { margin: 2.2em 0 0.2em; font-weight: 600; }
p { color: #555; margin: 0.2em 0 0.6em; }
table { border-collapse: collapse; font-size: 0.85em; }
td, th { text-align: left; padding: 0.25em 1em 0.25em 0; border-bottom: 1px solid #ddd; }
code { font-size: 0.95em; }
"""


def _quantity(value: float, unit: str) -> str:
    prefix, factor = ("T", 1e12) if value >= 1e12 else ("G", 1e9)
    return f"{value / factor:.3g} {prefix}{unit}"


def _limits(run: Run) -> str:
    machine = run.machine
    parts = [
        (machine.f32_flops, "flop/s", "f32"),
        (machine.matrix_flops, "flop/s", "bf16"),
        (machine.read_bandwidth, "B/s", "read"),
    ]
    return ", ".join(f"{_quantity(value, unit)} {what}" for value, unit, what in parts if value)


def _runs_table(runs: list[Run]) -> str:
    lines = ["<table><tr><th>file</th><th>date</th><th>machine</th><th>measured limits</th></tr>"]
    for run in dict.fromkeys(runs):
        cells = [run.file, run.date, run.machine.name, _limits(run)]
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>")
    return "\n".join(lines) + "</table>"


def page(runs: list[Run], rows: list[Row]) -> str:
    """The whole page; plotly's script is part of it."""
    from plotly.offline import get_plotlyjs

    from . import _figures

    colors = _figures.colors_of(rows)
    sections = [
        ("Over the sequence length", "A line a kernel; the menu picks problem and machine. Crosses are peers.",
         _figures.over_length(rows, colors)),
        ("Roofline", "Every row under the best limits measured on its machine. Crosses are peers.",
         _figures.roofline(rows, colors)),
        ("Over naive", "Each kernel beside the naive one of the same run; the largest mark is rapt's choice.",
         _figures.speedups(rows, colors)),
        ("Beside others", "The kernel that rapt chooses, and other libraries on the same problem.",
         _figures.peers(rows, colors)),
    ]  # fmt: skip
    parts = [
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>rapt: results</title>',
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body>",
        f"<h1>rapt: results</h1><p>{len(rows)} rows.</p>",
        f"<details><summary>{len(set(runs))} runs, with the limits of their machines</summary>",
        f"{_runs_table(runs)}</details>",
    ]
    for title, text, figure in sections:
        if figure is None:
            continue
        parts.append(f"<h2>{title}</h2><p>{text}</p>")
        parts.append(figure.to_html(full_html=False, include_plotlyjs=False))
    return "\n".join([*parts, "</body></html>"])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rapt.report", description=__doc__)
    parser.add_argument("results", nargs="+", type=pathlib.Path, metavar="RESULTS.json")
    parser.add_argument("-o", "--output", type=pathlib.Path, default=pathlib.Path("report.html"))
    options = parser.parse_args(arguments)
    try:
        import plotly  # noqa: F401
    except ImportError:
        print("rapt.report: plotly is missing; run: pip install 'rapt[report]'", file=sys.stderr)
        return 2
    runs: list[Run] = []
    rows: list[Row] = []
    try:
        for path in options.results:
            more_runs, more_rows = read(path)
            runs += more_runs
            rows += more_rows
        if not rows:
            raise BadResults("the files hold no row that ended well; nothing to draw")
        options.output.write_text(page(runs, rows))
    except OSError as error:
        print(f"rapt.report: cannot write {options.output}: {error.strerror}", file=sys.stderr)
        return 2
    except BadResults as error:
        print(f"rapt.report: {error}", file=sys.stderr)
        return 2
    print(f"{len(rows)} rows in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
