"""`python -m rapt.report`: the page is looked at in a browser that has no network."""

import json
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("plotly", reason="plotly is not installed; it is the extra rapt[report]")

from rapt import _results  # noqa: E402

DEVICE = {
    "name": "A Chip", "device": "cpu", "backend": "cpu", "threads": 2, "features": "",
    "f32_flops": 2e11, "matrix_flops": 0.0, "read_bandwidth": 2.5e10,
}  # fmt: skip


def row(problem, seconds, **changes):
    rate = 1 / seconds if seconds else None
    return {
        "problem": problem, "device": "cpu", "kernel": "cpu.flash", "chosen": True, "status": "ok",
        "seconds": seconds, "gflops": rate, "gbps": rate, "roof_fraction": 0.5,
        "bound": "compute", "intensity": 100.0, "speedup": 3.0,
    } | changes  # fmt: skip


@pytest.mark.parametrize("threads, words", [(1, "1 thread"), (2, "2 threads")])
def test_a_machine_is_called_by_its_threads(threads, words):
    assert _results._machine(DEVICE | {"threads": threads}).name == f"A Chip, {words}"


def test_machines_of_one_name_are_told_apart_by_their_caches():
    machine = _results._machine(DEVICE | {"cache_bytes": 256 << 20})
    assert machine.name == "A Chip, 256 MiB cache, 2 threads"


def report(rows):
    return {"schema": 1, "date": "2026-01-01", "command": "c", "devices": [DEVICE], "rows": rows}


def peer(problem, seconds):
    row_of_peer = row(problem, seconds, peer="torch-flash", chosen=False, speedup=None)
    del row_of_peer["kernel"]
    return row_of_peer


ROWS = [
    row("b1 h1 s128 d64 f32", 0.01),
    row("b1 h1 s256 d64 f32", 0.02),
    row("b1 h1 s128 d64 f32", 0.05, kernel="cpu.naive", chosen=False, speedup=1.0),
    row("b1 h1 s128 d64 f32", None, kernel="cpu.tiny_kv", status="refused: too many keys"),
    peer("b1 h1 s128 d64 f32", 0.03),
]


def make(tmp_path, *contents):
    files = []
    for number, content in enumerate(contents):
        files.append(tmp_path / f"{number}.json")
        text = content if isinstance(content, (str, bytes)) else json.dumps(content)
        files[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
    page = tmp_path / "report.html"
    command = [sys.executable, "-m", "rapt.report", *files, "-o", page]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result, page


@pytest.fixture
def browser():
    for name in ["chromium", "chromium-browser", "google-chrome"]:
        if path := shutil.which(name):
            return path
    pytest.skip("there is no Chromium here to look at the page with")


def look(browser, page, tmp_path):
    """The page's elements once its scripts have run, and what they complained of."""
    command = [
        browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
        f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=30000", page.as_uri(),
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    complaints = [line for line in result.stderr.splitlines() if ":CONSOLE" in line]
    return result.stdout, complaints


def test_a_browser_without_network_shows_every_plot(browser, tmp_path):
    result, page = make(tmp_path, report(ROWS))
    assert (result.returncode, result.stderr) == (0, "")
    elements, complaints = look(browser, page, tmp_path)
    assert complaints == []
    assert len(re.findall(r'<div[^>]*class="[^"]*js-plotly-plot', elements)) == 4
    assert elements.count('class="main-svg"') >= 4
    for title in ["Over the sequence length", "Roofline", "Over naive", "Beside others"]:
        assert f"<h2>{title}</h2>" in elements
    points = re.findall(r'<path class="point"', elements)
    assert len(points) >= 8  # 4 rows on the roofline, and those over the length


def test_a_script_error_would_be_seen(browser, tmp_path):
    _, page = make(tmp_path, report(ROWS))
    page.write_text(page.read_text() + "<script>nothing.there()</script>")
    _, complaints = look(browser, page, tmp_path)
    assert any("nothing is not defined" in line for line in complaints)


def test_the_page_loads_nothing(tmp_path):
    _, page = make(tmp_path, report(ROWS))
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text())
    assert not [tag for tag in tags if "src=" in tag or "href=" in tag]


def test_reports_put_together_are_read(tmp_path):
    result, _ = make(tmp_path, {"reports": {"a": report(ROWS[:1]), "b": report(ROWS[1:])}})
    assert result.stdout.startswith("4 rows")


def test_the_recorded_results_can_be_drawn(source_dir, tmp_path):
    files = sorted((source_dir / "bench" / "results").glob("*.json"))
    result, _ = make(tmp_path, *(file.read_text() for file in files))
    assert (result.returncode, result.stderr) == (0, "")


def figures(contents, tmp_path):
    """The figures of a page, as plotly is given them: a list of traces and a layout for each."""
    result, page = make(tmp_path, contents)
    assert result.returncode == 0, result
    found = re.findall(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*", page.read_text())
    decoder, text, places = json.JSONDecoder(), page.read_text(), []
    for call in found:
        start = text.index(call) + len(call)
        traces, end = decoder.raw_decode(text, start)
        layout, _ = decoder.raw_decode(text, end + re.match(r",\s*", text[end:]).end())
        places.append((traces, layout))
    assert len(places) == 4
    return places


def test_a_solver_has_one_color_and_one_name_in_every_figure(tmp_path):
    """Also where a figure leaves solvers out, as those over naive and beside others do."""
    rows = ROWS + [row("b1 h1 s128 d64 f32", 0.02 + i, kernel=f"cpu.z{i}", chosen=False) for i in range(20)]
    colors = {}
    for traces, _ in figures(report(rows), tmp_path):
        for trace in traces:
            if trace["name"].startswith("roof"):
                continue
            color = trace.get("line", {}).get("color") or trace["marker"]["color"]
            colors.setdefault(trace["name"], set()).add(color)
    assert colors.keys() == {"cpu.flash", "cpu.naive", "torch-flash", *(f"cpu.z{i}" for i in range(20))}
    assert all(len(found) == 1 for found in colors.values())
    assert len(set.union(*colors.values())) == len(colors)


def test_axes_have_powers_of_two_as_people_say_them(tmp_path):
    rows = [row(f"b1 h1 s{2**n} d64 f32", 0.01, speedup=2.0 ** (n - 12)) for n in range(9, 18)]
    (_, lengths), (_, roof), (_, naive), _ = figures(report(rows + [peer(rows[0]["problem"], 1)]), tmp_path)
    ticks = dict(zip(lengths["xaxis"]["ticktext"], lengths["xaxis"]["tickvals"], strict=True))
    assert ticks["512"] == 512 and ticks["1 k"] == 1024 and ticks["32 k"] == 32768
    assert ticks["128 k"] == 2**17 and len(ticks) == 9
    assert {"1/8", "1", "32"} <= set(naive["xaxis"]["ticktext"])
    assert "64" in roof["xaxis"]["ticktext"]


def test_older_names_of_tokens_do_not_make_another_problem(tmp_path):
    rows = [row("b1 h1 s128 d64 f32 sink lengths64", 0.01), row("b1 h1 s128 d64 f32 sinks kv_lengths64", 0.02)]
    (tmp_path / "old.json").write_text(json.dumps(report(rows)))
    _, read = _results.read(tmp_path / "old.json")
    assert {row.problem for row in read} == {"b1 h1 s128 d64 f32 sinks kv_lengths64"}


def test_many_results_over_naive_have_a_line_for_each_problem(tmp_path):
    many = [f"b{batch} h1 s128 d64 f32" for batch in range(1, 101)]
    rows = [row(problem, 0.01, speedup=speedup) for problem in many for speedup in (2.0, 3.0)]
    rows.append(peer(many[0], 1))
    _, _, (traces, layout), _ = figures(report(rows + [row("b1 h1 s256 d64 f32", 1)]), tmp_path)
    (trace,) = traces
    assert sorted(set(trace["y"])) == sorted([*many, "b1 h1 s256 d64 f32"])
    assert len(trace["y"]) == 101 and set(trace["x"]) == {3.0}, "the best run of each"
    assert layout["height"] < 25 * 101


def test_naive_kernels_are_not_drawn_over_themselves(tmp_path):
    problem = "b1 h1 s128 d64 f32 backward"
    rows = ROWS + [
        row(problem, 0.05, kernel="cpu.naive_backward", chosen=False, speedup=1.0),
        row(problem, 0.01, kernel="cpu.flash_backward", speedup=5.0),
    ]
    _, _, (traces, _), _ = figures(report(rows), tmp_path)
    assert {trace["name"] for trace in traces} == {"cpu.flash", "cpu.flash_backward"}


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("not JSON", "is not what `rapt bench --json` writes: it is not JSON from line 1, column 1 on"),
        ("[1, 2]", "is not what `rapt bench --json` writes"),
        ('{"rows": []}', "is not what `rapt bench --json` writes: it has no 'devices'"),
        (b"\x93NUMPY\xff", "is not what `rapt bench --json` writes: it is not text"),
        ("[" * 100000, "is not what `rapt bench --json` writes: it is nested too deeply"),
        (json.dumps(report([row("s1 d1", 1.0) | {"seconds": "fast"}])), "a row's seconds is 'fast', not a number"),
        (json.dumps(report([])), "nothing to draw"),
    ],
)
def test_other_files_get_a_sentence(tmp_path, content, sentence):
    result, page = make(tmp_path, content)
    assert result.returncode == 2 and sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not page.exists()


def test_a_file_that_is_not_there_or_cannot_be_written_gets_a_sentence(tmp_path):
    command = [sys.executable, "-m", "rapt.report"]
    result = subprocess.run([*command, tmp_path / "no.json"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == f"rapt.report: cannot read {tmp_path}/no.json: No such file or directory\n"
    good = tmp_path / "good.json"
    good.write_text(json.dumps(report(ROWS)))
    result = subprocess.run(
        [*command, good, "-o", tmp_path / "no" / "report.html"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert result.stderr.startswith(f"rapt.report: cannot write {tmp_path}/no/report.html: No such file")
