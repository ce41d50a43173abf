"""`bench/peers/gpu_peers.py`, tested without a GPU and without PyTorch: rapt's side is the program
on the CPU or a script of times, PyTorch's are contenders that a scripted clock times."""

import json
import pathlib
import sys
import types

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import gpu_peers
from problem import parse
from race import Contender
from test_peers import ROW
from torch_gpu import flash_attention_3

SMALL = ["b2 h4/2 q3 kv17 d8 bf16", "b1 h2 s33 d16 f32 causal"]
SHORT = ROW | {
    "seconds": 20e-6, "seconds_min": 19e-6, "replay_seconds": 10e-6, "launch_seconds": 15e-6,
    "gflops": 1.0, "gbps": 1.0, "roof_fraction": 0.5,
}  # fmt: skip


class ScriptedClock:
    """Calls return what they take: seconds with a cold cache, replayed, launched."""

    def __init__(self):
        self.colds = []  # the calls that `once` timed

    def once(self, call):
        self.colds.append(call())
        return call()[0]

    def replayed(self, call):
        return call()[1]

    def launched(self, call):
        return call()[2]


class ScriptedPeers:
    def __init__(self, times, refusals=()):
        self.times = times
        self.refusals = dict(refusals)
        self.clock = ScriptedClock()

    def __call__(self, device):
        self.device = device
        return self

    def contenders(self, problem):
        for name, times in self.times.items():
            yield Contender(name, "version=1", call=lambda times=times: times)
        for name, refusal in self.refusals.items():
            yield Contender(name, "version=1", refusal)


def compare(peers, rapt_row=SHORT):
    return gpu_peers.compare(parse(rapt_row["problem"]), rapt_row, peers, 1e-4)


def test_speedups_are_taken_for_each_way_of_timing():
    (row,) = compare(ScriptedPeers({"steady": (40e-6, 30e-6, 60e-6)}))
    assert (row["ratio"], row["replay_ratio"], row["launch_ratio"]) == pytest.approx((2, 3, 4))
    assert row["ratios"] == [row["ratio"]]


def test_long_runs_are_timed_in_a_row_only_where_rapts_was():
    (row,) = compare(ScriptedPeers({"slow": (60e-6, 50e-6, 70e-6)}))
    assert (row["replay_seconds"], row["launch_seconds"]) == (50e-6, 70e-6)
    once = SHORT | {"replay_seconds": None, "launch_seconds": None}
    (row,) = compare(ScriptedPeers({"slow": (60e-6, 50e-6, 70e-6)}), once)
    assert (row["seconds"], row["replay_seconds"], row["launch_seconds"]) == (60e-6, None, None)
    assert (row["replay_ratio"], row["launch_ratio"]) == (None, None)
    (row,) = compare(ScriptedPeers({"fast": (40e-6, 30e-6, 50e-6)}), once)
    assert (row["replay_seconds"], row["replay_ratio"]) == (30e-6, None)


def test_calls_that_cannot_be_captured_have_no_replayed_time():
    (row,) = compare(ScriptedPeers({"wild": (40e-6, None, 60e-6)}))
    assert (row["replay_seconds"], row["replay_ratio"]) == (None, None)
    assert row["launch_ratio"] == pytest.approx(4)


def test_the_fastest_peer_is_marked_and_a_refusal_stays_without_times():
    peers = ScriptedPeers({"slower": (3e-4, 0, 0), "faster": (2e-4, 0, 0)}, {"unable": "too far"})
    rows = compare(peers)
    assert [row["peer"] for row in rows if row["chosen"]] == ["faster"]
    assert rows[2]["status"] == "refused: too far"
    assert rows[2]["seconds"] is None and rows[2]["ratio"] is None


def test_a_peer_that_cannot_win_is_timed_three_times_only():
    peers = ScriptedPeers({"fast": (1e-5, 0, 0), "slow": (4e-5, 0, 0)})
    fast, slow = compare(peers)
    assert slow["samples"] == 3
    assert fast["samples"] == 10  # of 1e-4 s


def test_a_suite_stands_for_its_problems_and_none_comes_twice():
    wide = gpu_peers.problems_of(["wide"])
    assert "b1 h4 s16 d512 f32" in wide and not any(line.startswith("#") for line in wide)
    assert gpu_peers.problems_of([*SMALL, "wide", SMALL[0]]) == [*SMALL, *wide]


def test_rapt_runs_the_kernel_it_chooses_before_the_peers(program, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = tmp_path / "rows.json"
    options = ["--rapt", program, "--device", "cpu", "--seconds", "0", "--json", path]
    peers = ScriptedPeers({"steady": (1e-3, 0, 0)})
    problems = [*SMALL, "s4 d2 page16"]
    assert gpu_peers.main([*problems, *map(str, options)], peers) == gpu_peers.SUCCESS
    assert peers.device == "cpu"
    assert "cannot compare 'page16'" in capsys.readouterr().out
    report = json.loads(path.read_text())
    assert list(report) == ["schema", "rapt", "date", "command", "devices", "rows"]
    assert [row["problem"] for row in report["rows"]] == [text for text in SMALL for _ in range(2)]
    own, peer = report["rows"][:2]
    ratios = ["ratio", "ratios", "replay_ratio", "launch_ratio"]
    assert list(peer) == ["peer" if name == "kernel" else name for name in own] + ratios
    assert peer["flops"] == own["flops"] and peer["bytes"] == own["bytes"]


def test_a_suite_that_does_not_exist_is_wrong_input(capsys, program):
    arguments = ["wdie", "--rapt", str(program), "--device", "cpu"]
    assert gpu_peers.main(arguments, ScriptedPeers({})) == gpu_peers.WRONG_INPUT
    assert "wdie" in capsys.readouterr().out


def sentence_of(capsys, arguments, make_peers):
    assert gpu_peers.main(list(map(str, arguments)), make_peers) == gpu_peers.WRONG_INPUT
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("gpu_peers: ") and err.count("\n") == 1
    return err


def test_without_pytorch_there_is_one_sentence(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert "PyTorch cannot be imported" in sentence_of(capsys, [], gpu_peers.TorchGpu)


def test_a_missing_device_is_said_in_rapts_words(capsys, program):
    arguments = [SMALL[0], "--rapt", program, "--device", "cuda:99"]
    assert "cuda" in sentence_of(capsys, arguments, ScriptedPeers({}))


def test_flash_attention_3_is_a_peer_only_where_its_package_is(monkeypatch):
    forward = object()
    torch = types.SimpleNamespace(ops=types.SimpleNamespace(flash_attn_3=types.SimpleNamespace()))
    torch.ops.flash_attn_3.fwd = forward
    monkeypatch.setitem(sys.modules, "flash_attn_3", None)
    assert flash_attention_3(torch) is None
    package = types.ModuleType("flash_attn_3")
    package._C = types.ModuleType("flash_attn_3._C")
    monkeypatch.setitem(sys.modules, "flash_attn_3", package)
    monkeypatch.setitem(sys.modules, "flash_attn_3._C", package._C)
    assert flash_attention_3(torch) is forward
