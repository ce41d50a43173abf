"""The figures of a report, drawn with plotly: each function takes rows and gives a figure, or None
where the rows have nothing to show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ._results import Machine, Row, family, length

_COLORS = (
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2",
    "#bcbd22", "#7f7f7f",
)  # fmt: skip


def _colors(rows: Iterable[Row]) -> dict[str, str]:
    solvers = sorted({row.solver for row in rows})
    return {solver: _COLORS[i % len(_COLORS)] for i, solver in enumerate(solvers)}


def _groups(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _hover(row: Row) -> str:
    roof = "" if row.roof_fraction is None else f", {row.roof_fraction:.0%} of roof"
    return (
        f"{row.solver}<br>{row.problem}<br>{row.seconds * 1e3:.4g} ms, {row.gflops:.4g} Gflop/s, "
        f"{row.gbps:.4g} GB/s{roof}<br>{row.machine.name}"
    )


def _finish(figure: go.Figure, height: int, top: int = 30) -> go.Figure:
    figure.update_layout(
        height=height, template="plotly_white", hovermode="closest",
        margin={"l": 70, "r": 20, "t": top, "b": 60}, font={"family": "system-ui, sans-serif"},
    )  # fmt: skip
    return figure


def _fastest(rows: Iterable[Row]) -> list[Row]:
    """One row a problem, the fastest of all runs, by length."""
    groups = _groups(rows, lambda row: row.problem).values()
    fastest = [min(found, key=lambda row: row.seconds) for found in groups]
    return sorted(fastest, key=lambda row: length(row.problem))


def over_length(rows: list[Row]) -> go.Figure | None:
    """Rate and % of roof over the number of keys, a line a kernel; a menu picks the problem."""
    colors = _colors(rows)
    groups = _groups(rows, lambda row: (row.machine.name, family(row.problem)))
    groups = {
        key: found for key, found in groups.items() if len({length(r.problem) for r in found}) > 1
    }
    if not groups:
        return None
    figure = make_subplots(1, 2, subplot_titles=["rate", "% of roof"], horizontal_spacing=0.1)
    owner: list[tuple[str, str]] = []  # of each trace: the group it belongs to
    for key, found in groups.items():
        memory = sum(row.bound == "memory" for row in found) * 2 > len(found)
        for solver, of_solver in _groups(found, lambda row: row.solver).items():
            of_solver = _fastest(of_solver)
            lengths = [length(row.problem) for row in of_solver]
            rates = [row.gbps if memory else row.gflops for row in of_solver]
            roofs = [100 * (row.roof_fraction or 0) for row in of_solver]
            for column, values in [(1, rates), (2, roofs)]:
                trace = go.Scatter(
                    x=lengths, y=values, name=solver, mode="lines+markers", legendgroup=solver,
                    showlegend=column == 1, line={"color": colors[solver]}, hoverinfo="text",
                    text=[_hover(row) for row in of_solver], visible=not owner or owner[0] == key,
                )  # fmt: skip
                figure.add_trace(trace, row=1, col=column)
                owner.append(key)
    ticks = sorted({length(row.problem) for found in groups.values() for row in found})
    figure.update_xaxes(type="log", title="keys of a sequence", tickvals=ticks)
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="Gflop/s (GB/s where memory binds)", col=1)
    menu = [
        {"label": f"{problem} · {machine}", "method": "update",
         "args": [{"visible": [key == (machine, problem) for key in owner]}]}
        for machine, problem in groups
    ]  # fmt: skip
    place = {"x": 0, "xanchor": "left", "y": 1.24, "yanchor": "top"}
    figure.update_layout(updatemenus=[{"buttons": menu, **place}])
    return _finish(figure, 480, top=90)


def _roof(machine: Machine) -> list[go.Scatter]:
    lines = []
    for label, peak in [("f32", machine.f32_flops), ("matrix", machine.matrix_flops)]:
        if not peak or not machine.read_bandwidth:
            continue
        ridge = peak / machine.read_bandwidth
        x = [0.05, ridge, max(1e5, 10 * ridge)]
        y = [min(peak, at * machine.read_bandwidth) / 1e9 for at in x]
        name = f"roof: {machine.name}, {label}"
        lines.append(
            go.Scatter(x=x, y=y, name=name, mode="lines", line={"color": "#999", "dash": "dot"})
        )
    return lines


def roofline(rows: list[Row]) -> go.Figure | None:
    """Every row as a point under the best limits measured on its machine."""
    if not rows:
        return None
    figure = go.Figure()
    for runs in _groups(rows, lambda row: row.machine.name).values():
        best = max((row.machine for row in runs), key=lambda m: (m.f32_flops, m.read_bandwidth))
        figure.add_traces(_roof(best))
    colors = _colors(rows)
    for solver, found in sorted(_groups(rows, lambda row: row.solver).items()):
        shape = "x" if found[0].is_peer else "circle"
        figure.add_scatter(
            x=[row.intensity for row in found], y=[row.gflops for row in found], name=solver,
            mode="markers", marker={"color": colors[solver], "symbol": shape, "size": 7},
            text=[_hover(row) for row in found], hoverinfo="text",
        )  # fmt: skip
    figure.update_xaxes(type="log", title="intensity, flop a byte")
    figure.update_yaxes(type="log", title="Gflop/s")
    return _finish(figure, 560)


def speedups(rows: list[Row]) -> go.Figure | None:
    """Each kernel's speed over the naive one in the same run."""
    rows = [row for row in rows if row.speedup and not row.solver.endswith(".naive")]
    return _bars(rows, lambda row: row.speedup or 0.0, "× over naive")


def peers(rows: list[Row]) -> go.Figure | None:
    """Ours and others' on the same problems, as speed over the fastest peer."""
    groups = _groups(rows, lambda row: (row.machine.name, row.problem))
    shown, best = [], {}
    for key, found in groups.items():
        others = [row.seconds for row in found if row.is_peer]
        if others:
            best[key] = min(others)
            shown += [row for row in found if row.is_peer or row.chosen]
    return _bars(
        shown,
        lambda row: best[row.machine.name, row.problem] / row.seconds,
        "speed, fastest peer = 1",
    )


def _bars(rows: list[Row], value: Callable[[Row], float], title: str) -> go.Figure | None:
    if not rows:
        return None
    colors = _colors(rows)
    figure = go.Figure()
    for solver, found in sorted(_groups(rows, lambda row: row.solver).items()):
        figure.add_bar(
            y=[f"{row.problem} · {row.machine.name}" for row in found],
            x=[value(row) for row in found], name=solver, orientation="h",
            marker={"color": colors[solver]}, text=[_hover(row) for row in found],
            hoverinfo="text", textposition="none",
        )  # fmt: skip
    figure.add_vline(x=1, line={"color": "#999", "dash": "dot"})
    figure.update_xaxes(type="log", title=title)
    figure.update_yaxes(autorange="reversed", automargin=True)
    problems = len({(row.problem, row.machine.name) for row in rows})
    return _finish(figure, 160 + 20 * len(rows) // 2 + 10 * problems)
