"""The figures of a report, drawn with plotly: each function takes rows and the color of each solver,
and gives a figure, or None where the rows have nothing to show."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import plotly.graph_objects as go
from plotly.colors import qualitative
from plotly.subplots import make_subplots

from ._results import Machine, Row, family, length

Colors = dict[str, str]

# The dark ones first: most reports need no others.
_COLORS = (*qualitative.Dark24, *qualitative.Alphabet)


def colors_of(rows: Iterable[Row]) -> Colors:
    """A color for each solver of a report, for all its figures."""
    solvers = sorted({row.solver for row in rows})
    return {solver: _COLORS[i % len(_COLORS)] for i, solver in enumerate(solvers)}


def power_name(exponent: int) -> str:
    """2 to that power as people say it: 1/4, 512, 32 k."""
    if exponent < 0:
        return f"1/{2**-exponent}"
    unit = min(exponent // 10, 4)
    return f"{2 ** (exponent - 10 * unit)}{['', ' k', ' M', ' G', ' T'][unit]}"


def _powers_of_two(values: Iterable[float]) -> dict[str, Any]:
    """A logarithmic axis over these values: ticks at powers of two, some dozen of them."""
    positive = [value for value in values if value > 0] or [1.0]
    first, last = math.floor(math.log2(min(positive))), math.ceil(math.log2(max(positive)))
    step = (last - first) // 18 + 1
    exponents = range(first - first % step, last + 1, step)
    return {
        "type": "log", "tickvals": [2.0**exponent for exponent in exponents],
        "ticktext": [power_name(exponent) for exponent in exponents],
    }  # fmt: skip


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


def _symbol(row: Row) -> str:
    return "x" if row.is_peer else "circle"


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


def over_length(rows: list[Row], colors: Colors) -> go.Figure | None:
    """Rate and % of roof over the number of keys, a line a kernel; a menu picks the problem."""
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
                    marker={"symbol": _symbol(of_solver[0])},
                    text=[_hover(row) for row in of_solver], visible=not owner or owner[0] == key,
                )  # fmt: skip
                figure.add_trace(trace, row=1, col=column)
                owner.append(key)
    lengths = [length(row.problem) for found in groups.values() for row in found]
    figure.update_xaxes(title="keys of a sequence", **_powers_of_two(lengths))
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
    for label, peak in [("f32", machine.f32_flops), ("bf16", machine.matrix_flops)]:
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


def roofline(rows: list[Row], colors: Colors) -> go.Figure | None:
    """Every row as a point under the best limits measured on its machine."""
    if not rows:
        return None
    figure = go.Figure()
    for runs in _groups(rows, lambda row: row.machine.name).values():
        best = max((row.machine for row in runs), key=lambda m: (m.f32_flops, m.read_bandwidth))
        figure.add_traces(_roof(best))
    for solver, found in sorted(_groups(rows, lambda row: row.solver).items()):
        figure.add_scatter(
            x=[row.intensity for row in found], y=[row.gflops for row in found], name=solver,
            mode="markers", marker={"color": colors[solver], "symbol": _symbol(found[0]), "size": 7},
            text=[_hover(row) for row in found], hoverinfo="text",
        )  # fmt: skip
    intensities = [row.intensity for row in rows]
    figure.update_xaxes(title="intensity, flop a byte", **_powers_of_two(intensities))
    figure.update_yaxes(type="log", title="Gflop/s")
    return _finish(figure, 560)


def speedups(rows: list[Row], colors: Colors) -> go.Figure | None:
    """Each kernel's speed over the naive one in the same run."""
    naive = (".naive", ".naive_backward")
    rows = [row for row in rows if row.speedup and not row.solver.endswith(naive)]
    return _dots(rows, lambda row: row.speedup or 0.0, "× over naive", colors)


def peers(rows: list[Row], colors: Colors) -> go.Figure | None:
    """Ours and others' on the same problems, as speed over the fastest peer."""
    groups = _groups(rows, lambda row: (row.machine.name, row.problem))
    shown, best = [], {}
    for key, found in groups.items():
        others = [row.seconds for row in found if row.is_peer]
        if others:
            best[key] = min(others)
            shown += [row for row in found if row.is_peer or row.chosen]
    return _dots(
        shown,
        lambda row: best[row.machine.name, row.problem] / row.seconds,
        "speed, fastest peer = 1",
        colors,
    )


def _dots(
    rows: list[Row], value: Callable[[Row], float], title: str, colors: Colors
) -> go.Figure | None:
    """A line a problem with a mark for each solver, its best run; a menu picks the machine."""
    if not rows:
        return None
    figure = go.Figure()
    machines = _groups(rows, lambda row: row.machine.name)

    def problems(machine: str) -> list[str]:
        return list(dict.fromkeys(row.problem for row in machines[machine]))

    # The page keeps the height of the machine that is shown first: that of the most problems.
    machines = dict(sorted(machines.items(), key=lambda each: -len(problems(each[0]))))
    owner: list[str] = []  # of each trace: its machine
    for machine, of_machine in machines.items():
        for solver, found in sorted(_groups(of_machine, lambda row: row.solver).items()):
            groups = _groups(found, lambda row: row.problem).values()
            best = [max(same, key=value) for same in groups]
            figure.add_scatter(
                y=[row.problem for row in best], x=[value(row) for row in best], name=solver,
                mode="markers", visible=machine == next(iter(machines)),
                marker={
                    "color": colors[solver], "symbol": _symbol(found[0]),
                    "size": [13 if row.chosen and not row.is_peer else 8 for row in best], "opacity": 0.85,
                },
                text=[_hover(row) for row in best], hoverinfo="text",
            )  # fmt: skip
            owner.append(machine)

    def height(machine: str) -> int:
        return 190 + 19 * len(problems(machine))

    menu = [
        {"label": machine, "method": "update",
         "args": [{"visible": [each == machine for each in owner]},
                  {"height": height(machine), "yaxis.categoryarray": problems(machine),
                   "yaxis.range": [len(problems(machine)) - 0.5, -0.5]}]}
        for machine in machines
    ]  # fmt: skip
    first = next(iter(machines))
    figure.add_vline(x=1, line={"color": "#999", "dash": "dot"})
    figure.update_xaxes(title=title, **_powers_of_two(value(row) for row in rows))
    figure.update_yaxes(
        range=[len(problems(first)) - 0.5, -0.5], categoryorder="array", automargin=True,
        categoryarray=problems(first), tickfont={"size": 11}, dtick=1,
    )  # fmt: skip
    # In pixels above the plot, whose height the menu changes.
    place = {"x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 12}}
    figure.update_layout(updatemenus=[{"buttons": menu, **place}])
    return _finish(figure, height(first), top=80)
