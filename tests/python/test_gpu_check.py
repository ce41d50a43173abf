"""`tools/gpu_check.py`, with the CPU in place of a GPU."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import gpu_check

SMALL = "b1 h2 s33 d16 f32 causal"


@pytest.fixture(autouse=True)
def environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "")  # no compute-sanitizer
    monkeypatch.setitem(gpu_check.SUITES, "wide", [SMALL])


def run(program, path, *arguments):
    options = ["--rapt", program, "--device", "cpu", "--seconds", "0", "--json", path]
    return gpu_check.main(list(map(str, [*arguments, *options])))


def test_the_parts_that_are_named_go_into_one_file(program, tmp_path, capsys):
    path = tmp_path / "check.json"
    assert run(program, path, "wide", "verify", "--cases", "2") == gpu_check.SUCCESS
    result = json.loads(path.read_text())
    assert result["rapt"].startswith("rapt ") and result["device"] == "cpu"
    assert {name: part["status"] for name, part in result["parts"].items()} == {
        "verify": "passed", "wide": "passed",
    }  # fmt: skip
    assert any("cpu.flash" in line for line in result["parts"]["verify"]["output"])
    (row,) = [row for row in result["reports"]["wide"]["rows"] if row["chosen"]]
    table = capsys.readouterr().out
    assert f"{SMALL} " in table and row["kernel"] in table and "verify" in table


def test_a_wrong_kernel_fails_its_parts_and_the_others_go_on(broken_program, tmp_path, monkeypatch):
    monkeypatch.setitem(gpu_check.SUITES, "wide", [SMALL, "--kernel", "cpu.wrong_value"])
    path = tmp_path / "check.json"
    arguments = ["verify", "wide", "ladder", "--cases", "1"]
    monkeypatch.setitem(gpu_check.SUITES, "ladder", [SMALL])
    assert run(broken_program, path, *arguments) == gpu_check.FAILED_CHECK
    parts = json.loads(path.read_text())["parts"]
    assert parts["ladder"]["status"] == "passed"
    assert parts["verify"]["status"].startswith("failed: exit code 1")
    assert "repeat: rapt verify" in parts["verify"]["status"]
    assert parts["wide"]["status"].startswith("failed: ") and SMALL in parts["wide"]["status"]


def test_what_is_not_here_is_skipped_and_said(program, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu_check.os, "access", lambda path, mode: False)
    path = tmp_path / "check.json"
    assert run(program, path, "sanitize") == gpu_check.SUCCESS
    assert "skipped: compute-sanitizer is not here" in capsys.readouterr().out


def test_the_tests_of_the_backend_are_a_part(program, tmp_path, capsys):
    tests = tmp_path / "tests"
    path = tmp_path / "check.json"
    for text, status, code in [
        ("echo all well", "passed", gpu_check.SUCCESS),
        ("echo wrong bits; exit 1", "failed: exit code 1", gpu_check.FAILED_CHECK),
        ("echo '[  SKIPPED ] one'", "skipped: the tests found no GPU", gpu_check.SUCCESS),
    ]:
        tests.write_text(f"#!/bin/sh\n{text}\n")
        tests.chmod(0o755)
        assert run(program, path, "graph", "--tests", tests) == code
        assert json.loads(path.read_text())["parts"]["graph"]["status"].startswith(status)
    assert run(program, path, "graph", "--tests", tmp_path / "none") == gpu_check.SUCCESS
    assert "none is not here; build the tests" in capsys.readouterr().out


def test_a_device_that_is_not_there_is_one_sentence_and_no_part_runs(program, tmp_path, capsys):
    arguments = ["--rapt", str(program), "--device", "cuda:99", "--json", str(tmp_path / "x.json")]
    assert gpu_check.main(arguments) == gpu_check.WRONG_INPUT
    out, err = capsys.readouterr()
    assert out == "" and "cuda" in err
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("arguments", [["nothing"], ["--build", "90a", "--rapt", "x"]])
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(SystemExit) as exit_status:
        gpu_check.main(arguments)
    assert exit_status.value.code == gpu_check.WRONG_INPUT


def test_the_table_shows_the_best_peer_beside_the_choice():
    row = {
        "problem": SMALL, "kernel": "cuda.flash", "chosen": True, "seconds": 2e-5,
        "replay_seconds": 1e-5, "gflops": 2000.0, "gbps": 3000.0, "roof_fraction": 0.5,
    }  # fmt: skip
    peer = {"problem": SMALL, "peer": "torch-math-bshd", "seconds": 4e-5, "ratio": 2.0}
    slower = peer | {"peer": "torch-flash-bshd", "chosen": False, "replay_seconds": 2e-5}
    peers = [row, peer | {"chosen": True, "replay_seconds": 3e-5}, slower]
    _, line = gpu_check.table({"wide": {"rows": [row]}, "peers": {"rows": peers}}).splitlines()
    assert line.startswith(SMALL) and "cuda.flash" in line
    assert "torch-math-bshd 0.0400 ms, 2.00 ×; replayed 0.0200 ms, 2.00 ×" in line
