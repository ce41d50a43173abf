"""`rapt bench`: its table, its JSON and its CSV. What the times are is nobody's business here."""

import csv
import json
import re

import pytest
from command_line import Rapt

FIELDS = [
    "problem", "device", "kernel", "config", "chosen", "status", "estimate_seconds",
    "seconds", "seconds_min", "seconds_spread", "replay_seconds", "launch_seconds", "samples", "flops", "bytes", "gflops", "gbps",
    "roof_seconds", "roof_fraction", "bound", "intensity", "workspace_bytes", "error",
    "error_bound", "speedup",
]  # fmt: skip
SMALL = "b1 h2 s33 d16 f32 causal"
OTHER = "b1 h2 q1 kv9 d16 f32"
TOO_LARGE = "b1 h64 s4000000000 d64 f32"  # more tensors than any memory holds


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def rapt(program, cache):
    return Rapt(program, cache)


@pytest.fixture(scope="module")
def files(rapt, tmp_path_factory):
    """One run over a small problem and one that no kernel can run."""
    folder = tmp_path_factory.mktemp("bench")
    table = rapt.ok(
        "bench", SMALL, TOO_LARGE, "--seconds", "0",
        "--json", folder / "rows.json", "--csv", folder / "rows.csv",
    )  # fmt: skip
    return table, json.loads((folder / "rows.json").read_text()), folder / "rows.csv"


def row_of(report, problem, kernel):
    (row,) = [row for row in report["rows"] if (row["problem"], row["kernel"]) == (problem, kernel)]
    return row


def test_json_says_where_it_comes_from(files):
    _, report, _ = files
    assert list(report) == ["schema", "rapt", "date", "command", "devices", "rows"]
    assert report["schema"] == 1
    assert report["command"] == f'rapt bench "{SMALL}" "{TOO_LARGE}" --seconds 0'
    (device,) = report["devices"]
    assert device["backend"] == "cpu"
    assert device["f32_flops"] > 0 and device["read_bandwidth"] > 0
    for name, limit in device["nominal"].items():
        assert limit >= 0 and name in device


def test_a_row_has_every_field_and_they_agree(files):
    _, report, _ = files
    row = row_of(report, SMALL, "cpu.naive")
    assert list(row) == FIELDS
    assert row["status"] == "ok"
    assert row["flops"] == 2 * 2 * 16 * 2 * (33 * 34 / 2)
    assert row["bytes"] == 4 * 33 * 2 * 16 * 4
    assert row["intensity"] == pytest.approx(row["flops"] / row["bytes"])
    assert row["gflops"] == pytest.approx(row["flops"] / row["seconds"] * 1e-9)
    assert row["roof_fraction"] == pytest.approx(row["roof_seconds"] / row["seconds"])
    assert 0 < row["seconds_min"] <= row["seconds"]
    assert 0 < row["error"] < row["error_bound"]
    assert row["workspace_bytes"] >= 33 * 33 * 2 * 4
    assert row["speedup"] == 1


def test_a_row_has_the_estimate_of_the_config_that_ran(rapt, files, tmp_path):
    _, report, _ = files
    explained = json.loads(rapt.ok("explain", SMALL, "--json"))["candidates"]
    estimates = {candidate["kernel"]: candidate["seconds"] for candidate in explained}
    for row in report["rows"]:
        expected = estimates[row["kernel"]] if row["problem"] == SMALL else None
        assert row["estimate_seconds"] == expected
    path = tmp_path / "rows.json"
    long = "b1 q1 kv1024 d64 f32"
    named = ["--device", "emu", "--kernel", "emu.split_kv", "--config", "splits=1"]
    rapt.ok("bench", long, *named, "--seconds", "0", "--json", path)
    (row,) = json.loads(path.read_text())["rows"]
    candidates = json.loads(rapt.ok("explain", long, *named, "--json"))["candidates"]
    (chosen,) = [candidate for candidate in candidates if candidate["chosen"]]
    assert row["config"] == "splits=1" and row["estimate_seconds"] == chosen["seconds"]


def test_one_kernel_of_a_problem_is_the_choice(files):
    _, report, _ = files
    rows = [row for row in report["rows"] if row["problem"] == SMALL]
    assert [row["status"] for row in rows if row["chosen"]] == ["ok"]


def test_so_many_runs_are_timed_after_so_many_that_are_not(rapt, tmp_path):
    path = tmp_path / "rows.json"
    result = rapt(
        "bench", SMALL, "--kernel", "cpu.naive", "--runs", "4", "--warmup", "3", "--json", path,
        RAPT_LOG="1",
    )  # fmt: skip
    report = json.loads(path.read_text())
    (row,) = report["rows"]
    assert row["samples"] == 4 and row["seconds_spread"] >= 0
    assert result.stderr.count("rapt: run ") == 1 + 3 + 4  # the first is compared with the oracle
    assert report["command"] == f'rapt bench "{SMALL}" --kernel cpu.naive --warmup 3 --runs 4'


def test_a_single_run_has_no_spread(files):
    table, report, _ = files
    assert row_of(report, SMALL, "cpu.naive")["samples"] == 1
    assert row_of(report, SMALL, "cpu.naive")["seconds_spread"] is None
    assert re.search(r"cpu.naive +\S+ +\S+ .s +- ", table), table


def test_one_thread_is_one(rapt):
    one = ["--threads", "1"]
    table = rapt.ok("bench", SMALL, "--kernel", "cpu.naive", "--runs", "1", *one)
    assert ", 1 thread: " in table.splitlines()[0]
    assert rapt.ok("devices", *one).count("measured, 1 thread") == 1


def test_a_quiet_bench_says_nothing_but_what_is_wrong(rapt, broken_program, cache, tmp_path):
    path = tmp_path / "rows.csv"
    assert rapt.ok("bench", SMALL, "--runs", "1", "--quiet", "--csv", path) == ""
    assert SMALL in path.read_text()
    result = Rapt(broken_program, cache)(
        "bench", SMALL, "--kernel", "cpu.wrong_value", "--runs", "1", "--quiet"
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith(f"rapt: cpu.wrong_value on {SMALL}: wrong: out[")


@pytest.fixture(scope="module")
def baseline(rapt, tmp_path_factory):
    """A report in which naive was far faster, flash far slower, and other kernels were there."""
    path = tmp_path_factory.mktemp("baseline") / "old.json"
    rapt.ok("bench", SMALL, OTHER, "--runs", "1", "--quiet", "--json", path)
    report = json.loads(path.read_text())
    factors = {"cpu.naive": 1e-6, "cpu.flash": 1e6}
    rows = [row for row in report["rows"] if row["kernel"] != "cpu.split_kv"]
    for row in rows:
        row["seconds"] = row["seconds"] and row["seconds"] * factors.get(row["kernel"], 1)
    rows.append(rows[0] | {"kernel": "cpu.gone", "problem": SMALL})
    path.write_text(json.dumps(report | {"rows": rows}))
    return path


def test_a_baseline_tells_what_changed_and_what_got_slower_fails(rapt, baseline):
    arguments = ["--runs", "1", "--quiet", "--baseline", baseline]
    result = rapt("bench", SMALL, *arguments)
    assert (result.returncode, result.stderr) == (1, "")
    counts, head, slower, faster, here, there = result.stdout.splitlines()
    assert counts.startswith(f"beside {baseline} of 20")
    assert counts.endswith(": 1 slower and 1 faster by more than 10 %, 0 about the same")
    assert head.split() == ["change", "before", "now", "kernel", "problem"]
    assert slower.split()[0].startswith("+") and slower.endswith(f"cpu.naive  {SMALL}")
    assert faster.split()[0] == "-100.0" and faster.endswith(f"cpu.flash  {SMALL}")
    assert here == f'timed only here: cpu.split_kv on "{SMALL}"'
    assert there.startswith(f'timed only in {baseline}: cpu.naive on "{OTHER}"')
    assert f'cpu.gone on "{SMALL}"' in there
    assert "cpu.split_kv on 2 problems\n" in rapt("bench", SMALL, OTHER, *arguments).stdout


def test_a_baseline_from_standard_input_is_called_so(rapt, baseline):
    with baseline.open() as report:
        result = rapt("bench", SMALL, "--runs", "1", "--quiet", "--baseline", "-", stdin=report)
    assert result.stdout.startswith("beside standard input of 20")
    with open("/dev/null") as nothing:
        result = rapt("bench", SMALL, "--baseline", "-", stdin=nothing)
    assert result.stderr.startswith("rapt: standard input is not what rapt bench --json writes:")


def test_a_threshold_decides_what_counts(rapt, baseline):
    named = ["--kernel", "cpu.flash", "--runs", "1", "--quiet", "--baseline", baseline]
    for percent, outcome in {99: "0 slower and 1 faster", 100: "0 slower and 0 faster"}.items():
        printed = rapt.ok("bench", SMALL, *named, "--threshold", percent)
        assert f"{outcome} by more than {percent} %, {percent - 99} about the same" in printed


def test_a_baseline_of_another_machine_is_a_warning(rapt, baseline, tmp_path):
    report = json.loads(baseline.read_text())
    report["devices"][0] |= {"name": "Another Chip", "threads": 999}
    other = tmp_path / "other.json"
    other.write_text(json.dumps(report))
    result = rapt("bench", SMALL, "--runs", "1", "--quiet", "--baseline", other)
    assert result.stderr.startswith(f"rapt: warning: {other} is of Another Chip, 999 threads, and")
    assert result.stderr.count("\n") == 1


def test_a_baseline_that_cannot_be_compared_is_known_before_anything_is_timed(
    rapt, baseline, tmp_path
):
    sentence = rapt.fails("bench", "b1 h9 s33 d16 f32", "--baseline", baseline)
    assert f"{baseline} has no time of these problems on cpu; it was measured by `rapt" in sentence
    sentence = rapt.fails("bench", SMALL, "--kernel", "cpu.split_kv", "--baseline", baseline)
    assert "has no time of these problems on cpu by cpu.split_kv; " in sentence
    good = json.loads(baseline.read_text())
    wrong = tmp_path / "wrong.json"
    for what, text in {
        "it is not JSON": "{",
        "a JSON array stands where an object with 'schema' is expected": "[]",
        "a JSON number stands where an object with 'schema' is expected": "3",
        "a JSON string stands where an object with 'schema' is expected": '"report"',
        "a JSON array stands where an object with 'device' is expected": json.dumps(
            good | {"devices": [[]]}
        ),
        "a JSON null stands where an object with 'status' is expected": json.dumps(
            good | {"rows": [None]}
        ),
        "key 'schema' not found": "{}",
        "its schema is 999; this rapt reads 1": json.dumps(good | {"schema": 999}),
        "type must be string": json.dumps(good | {"command": 3}),
        "cpu.gone takes 0 seconds; times are above 0": json.dumps(
            good | {"rows": [good["rows"][-1] | {"seconds": 0}]}
        ),
    }.items():
        wrong.write_text(text)
        sentence = rapt.fails("bench", SMALL, "--baseline", wrong)
        assert sentence.startswith(f"{wrong} is not what rapt bench --json writes: {what}")
    assert "cannot read no/such.json: " in rapt.fails("bench", SMALL, "--baseline", "no/such.json")


def test_a_baseline_may_have_older_names_of_tokens(rapt, tmp_path):
    path, problem = tmp_path / "old.json", "b2 h2 q1 kv9 d16 f32 sinks kv_lengths"
    named = ["--kernel", "cpu.naive", "--runs", "1", "--quiet"]
    rapt.ok("bench", problem, *named, "--json", path)
    report = path.read_text()
    assert f'"problem": "{problem}"' in report
    path.write_text(report.replace("sinks kv_lengths", "sink lengths"))
    changes = rapt("bench", problem, *named, "--baseline", path, "--threshold", "1000000").stdout
    assert changes.endswith("0 slower and 0 faster by more than 1e+06 %, 1 about the same\n")


def test_a_refusal_is_a_row_without_times(files):
    table, report, _ = files
    row = row_of(report, TOO_LARGE, "cpu.naive")
    assert list(row) == FIELDS
    assert row["status"].startswith("refused: it would store")
    assert row["seconds"] is None and row["error"] is None and row["speedup"] is None
    assert "refused: it would store" in table


def test_tensors_that_do_not_fit_the_machine_are_a_refusal(files, rapt):
    table, report, _ = files
    row = row_of(report, TOO_LARGE, "cpu.flash")
    assert row["status"].startswith("refused: the problem's tensors and their images take ")
    assert row["seconds"] is None and row["workspace_bytes"] is None
    for row in report["rows"]:
        assert row["problem"] == SMALL or row["status"].startswith("refused: ")
    assert "tensors and their images take" in rapt.fails("verify", TOO_LARGE)


def test_csv_has_the_same_rows(files):
    _, report, path = files
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == FIELDS
    assert [row["problem"] for row in rows] == [row["problem"] for row in report["rows"]]
    for written, row in zip(rows, report["rows"], strict=True):
        seconds = row["seconds"]
        assert written["seconds"] == "" if seconds is None else float(written["seconds"]) == seconds


def test_the_table_marks_the_choice_and_shows_the_roof(files):
    table, report, _ = files
    for row in report["rows"]:
        assert (f"* {row['kernel']} " in table) == any(
            row["kernel"] == other["kernel"] and other["chosen"] for other in report["rows"]
        )
    assert "roof" in table and "bound by" in table and "flop/byte" in table


def test_a_wrong_kernel_fails_the_bench(broken_program, cache):
    result = Rapt(broken_program, cache)(
        "bench", SMALL, "--kernel", "cpu.wrong_value", "--seconds", "0"
    )
    # One element of a few sampled rows is wrong: small problems are compared whole.
    assert result.returncode == 1, result
    assert "wrong: out[sequence 0, query 32, head 1, dim 15]" in result.stdout


def test_kernels_that_are_chosen_by_name_only_run_when_named(rapt):
    assert "cpu.oracle" in rapt.ok("bench", SMALL, "--kernel", "cpu.oracle", "--seconds", "0")


def test_rows_go_to_standard_output_and_the_table_to_the_other(rapt):
    lines = rapt("bench", SMALL, OTHER, "--seconds", "0", "--csv", "-")
    rows = list(csv.DictReader(lines.stdout.splitlines()))
    assert list(dict.fromkeys(row["problem"] for row in rows)) == [SMALL, OTHER]
    assert all(list(row) == FIELDS for row in rows)
    whole = rapt("bench", SMALL, OTHER, "--seconds", "0", "--json", "-")
    assert [row["kernel"] for row in json.loads(whole.stdout)["rows"]] == [
        row["kernel"] for row in rows
    ]
    for result in (lines, whole):
        assert result.returncode == 0 and "of roof" in result.stderr and OTHER in result.stderr


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--json", SMALL], f"--json takes a file to write to, and '{SMALL}' is a problem; write"),
        (["--csv", "ladder"], "--csv takes a file to write to, and 'ladder' is a suite; write"),
        (["--json", *SMALL.split()], "--json takes a file to write to, and 'b1' is a problem; write"),
        ([SMALL, "--json", "-", "--csv", "-"], "--json and --csv both go to standard output"),
        (["ladders"], "neither a suite"),
        (["b1 h2 s33 d16 nonsense"], "cannot read 'nonsense'"),
        ([SMALL, "--json", "no/such/folder/rows.json"], "no/such/folder/rows.json"),
        ([SMALL, "--seconds", "-1"], "--seconds"),
        ([SMALL, "--seconds", "1", "--runs", "1"], "--seconds excludes --runs"),
        ([SMALL, "--seconds", "nan"], "--seconds: 'nan' is not a number from 0 to 3600; see"),
        ([SMALL, "--within", "nan"], "--within: 'nan' is not a number from 1 to 1000000; see"),
        ([SMALL, "--runs", "0"], "--runs: '0' is not a whole number from 1 to 1000000; see"),
        ([SMALL, "--runs", "1.5"], "--runs: '1.5' is not a whole number"),
        ([SMALL, "--baseline", "x", "--threshold", "nan"], "--threshold: 'nan' is not a number from"),
        (["--baseline", SMALL], f"--baseline takes a file to read, and '{SMALL}' is a problem; write"),
        (["--baseline", "ladder"], "--baseline takes a file to read, and 'ladder' is a suite; write"),
        ([SMALL, "--threshold", "5"], "--threshold requires --baseline"),
        ([SMALL, "--kernel", "cpu.nobody"], "there is no kernel 'cpu.nobody'"),
    ],
)
def test_wrong_input_is_one_sentence(rapt, arguments, sentence):
    assert sentence in rapt.fails("bench", *arguments)
