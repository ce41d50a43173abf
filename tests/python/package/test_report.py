"""`python -m rapt.report`: the page is looked at in a browser that has no network."""

import json
import re
import shutil
import subprocess
import sys

import pytest

pytest.importorskip("plotly", reason="plotly is not installed; it is the extra rapt[report]")

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
        files[-1].write_text(content if isinstance(content, str) else json.dumps(content))
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


@pytest.mark.parametrize(
    "content, sentence",
    [
        ("not JSON", "is not what `rapt bench --json` writes"),
        ("[1, 2]", "is not what `rapt bench --json` writes"),
        ('{"rows": []}', "is not what `rapt bench --json` writes"),
        (json.dumps(report([])), "nothing to draw"),
    ],
)
def test_other_files_get_a_sentence(tmp_path, content, sentence):
    result, page = make(tmp_path, content)
    assert result.returncode == 2 and sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1 and not page.exists()
