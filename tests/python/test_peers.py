"""`bench/peers`: PyTorch beside rapt, tested without PyTorch. Its side is played by contenders that
do nothing, rapt's by the program itself or by a script of times."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "peers"))
import cpu_peers
from command_line import Rapt
from problem import Problem, Refusal, parse
from race import MOST_SAMPLES, Contender, race, rotate_bytes, sample

# One of each: grouped heads, unequal lengths, causal, each type, both layouts.
SMALL = [
    "b2 h4/2 q3 kv17 d8 bf16",
    "b1 h2 s33 d16 f32 causal",
    "b3 h2 s5 d8 f16 bhsd",
    "b2 h4/2 q3 kv17 d8 bf16 backward",
]
ROW = {
    "problem": "b1 h1 s4 d2 f32", "device": "cpu", "kernel": "cpu.scripted", "config": "tile=4",
    "chosen": True, "status": "ok", "seconds": None, "seconds_min": None, "samples": 0,
    "flops": 128.0, "bytes": 128.0, "gflops": None, "gbps": None, "roof_seconds": 0.5,
    "roof_fraction": None, "bound": "compute", "intensity": 1.0, "workspace_bytes": 64.0,
    "error": 1e-7, "error_bound": 4e-6, "speedup": None,
}  # fmt: skip


class ScriptedRapt:
    """Rounds whose medians are `medians`, after the untimed first bench."""

    def __init__(self, medians, status="ok", bound="compute", cache_bytes=0):
        self.medians = [9e9, *medians]
        self.last_status = status
        self.bound = bound
        self.devices = [{"cache_bytes": cache_bytes}]

    def chosen_kernel(self, problem):
        return "cpu.scripted"

    def bench(self, problem, kernel, seconds):
        assert kernel == "cpu.scripted"
        median = self.medians.pop(0)
        times = {"seconds": median, "seconds_min": median / 2, "samples": 7}
        status = "ok" if self.medians else self.last_status
        row = ROW | times | {"status": status, "bound": self.bound}
        return {"schema": 1, "devices": self.devices, "rows": [row]}


class ScriptedPeers:
    """Contenders that take turns in `samples`: by name, the samples of each round."""

    def __init__(self, samples, refusals=()):
        self.samples = samples
        self.refusals = dict(refusals)
        self.rotated = None

    def contenders(self, problem, rotate_bytes):
        self.rotated = rotate_bytes
        return [
            Contender(name, "version=1", self.refusals.get(name, ""), lambda name=name: name)
            for name in [*self.samples, *self.refusals]
        ]

    def sample(self, call, seconds):
        return self.samples[call()].pop(0)


def run_race(rapt, peers, rounds):
    return race(parse(ROW["problem"]), rapt, peers, rounds, 0.5, sample=peers.sample)


class IdlePeers:
    """Stands for PyTorch in whole runs of the command."""

    def __init__(self, threads):
        self.threads = threads

    def contenders(self, problem, rotate_bytes):
        return [Contender("idle", f"threads={self.threads}"), Contender("shy", refusal="too far")]


@pytest.fixture(scope="module", autouse=True)
def environment(tmp_path_factory):
    """The program's own cache folder, and none of the user's settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ["RAPT_KERNEL", "RAPT_THREADS", "RAPT_LOG"]:
            patch.delenv(name, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def report(environment, program, tmp_path_factory):
    path = tmp_path_factory.mktemp("peers") / "rows.json"
    options = ["--rapt", str(program), "--rounds", "2", "--seconds", "0", "--threads", "1"]
    code = cpu_peers.main([*SMALL, *options, "--json", str(path)], IdlePeers)
    assert code == cpu_peers.SUCCESS
    return json.loads(path.read_text())


def refusal_of(text):
    with pytest.raises(Refusal) as refusal:
        parse(text)
    return str(refusal.value)


def test_a_problem_string_is_read_in_any_order():
    text = "causal bf16 d64 s2048 h32/8 b3"
    assert parse(text) == Problem(text, 2048, 2048, 64, 3, 32, 8, "bf16", True)


def test_backward_is_five_products_instead_of_two():
    forward, backward = parse("b2 h4/2 q3 kv17 d8 bf16"), parse("b2 h4/2 q3 kv17 d8 bf16 backward")
    assert backward.backward and backward.flops() == 2.5 * forward.flops()


def test_batch_heads_and_type_may_be_left_out():
    assert parse("q1 kv9 d4") == Problem("q1 kv9 d4", 1, 9, 4, 1, 1, 1, "f32", False)


@pytest.mark.parametrize(
    "token", ["window128", "d192/128", "page16", "varlen", "b0", "h4/0", "s-1", "lse", "f64", "x"]
)
def test_what_peers_cannot_be_asked_is_refused_by_name(token):
    text = f"b1 h4 s16 d8 {token}"
    assert f"cannot compare '{token}' of '{text}'" in refusal_of(text)


@pytest.mark.parametrize("text, lacks", [("h4 d8", "s or q"), ("q1 d8", "s or kv"), ("s4", "d")])
def test_a_missing_size_is_named(text, lacks):
    assert f"'{text}' lacks {lacks};" in refusal_of(text)


def test_causal_with_unequal_lengths_is_refused_because_pytorch_aligns_it_otherwise():
    assert "3 queries and 9 keys" in refusal_of("q3 kv9 d8 causal")


def test_every_default_problem_can_be_compared(program, tmp_path):
    for text in cpu_peers.PROBLEMS:
        parse(text)
        Rapt(program, tmp_path).ok("explain", text)


def test_sampling_stops_after_the_time_allowed():
    calls = []
    ticks = iter(range(1000))
    samples = sample(lambda: calls.append(1), 5, clock=lambda: next(ticks))
    assert samples == [1] * 5
    assert len(calls) == 6  # one to warm up


def test_sampling_takes_three_unless_one_exceeds_the_time_allowed():
    ticks = iter([0, 2, 2, 5, 5, 6])
    assert sample(lambda: None, 2, clock=lambda: next(ticks)) == [2, 3, 1]
    ticks = iter([0, 3])
    assert sample(lambda: None, 2, clock=lambda: next(ticks)) == [3]


def test_sampling_is_bounded_however_short_a_call_is():
    assert len(sample(lambda: None, 5, clock=lambda: 0)) == MOST_SAMPLES


def test_times_are_medians_of_rounds_and_ratios_are_taken_within_rounds():
    # The second round is disturbed on both sides, the third on rapt's alone.
    rapt = ScriptedRapt([1.0, 10.0, 4.0])
    peers = ScriptedPeers({"steady": [[1, 2, 90], [30, 30], [2, 4]]})
    own, peer = run_race(rapt, peers, 3)["rows"]
    assert (own["seconds"], own["seconds_min"], own["samples"]) == (4, 0.5, 21)
    assert (own["gflops"], own["gbps"]) == (32e-9, 32e-9)
    assert own["roof_fraction"] == 0.125
    assert (peer["seconds"], peer["seconds_min"], peer["samples"]) == (3, 1, 7)
    assert peer["ratios"] == [2, 3, 0.75]
    assert peer["ratio"] == 2


def test_the_fastest_peer_is_marked():
    peers = ScriptedPeers({"slower": [[3], [3]], "faster": [[2], [2]]}, {"unable": "no"})
    rows = run_race(ScriptedRapt([1.0, 1.0]), peers, 2)["rows"]
    assert [row["peer"] for row in rows[1:] if row["chosen"]] == ["faster"]


def test_a_hopeless_peer_runs_in_the_first_round_only():
    # Its best counts: a disturbed one is not hopeless.
    peers = ScriptedPeers({"slow": [[7, 8]], "fast": [[2], [6]], "disturbed": [[6, 9, 9], [2]]})
    rows = run_race(ScriptedRapt([2.0, 1.0]), peers, 2)["rows"]
    assert [row["ratios"] for row in rows[1:]] == [[3.75], [1, 6], [4.5, 2]]


def test_a_wrong_result_of_any_round_stays_in_the_row():
    peers = ScriptedPeers({"steady": [[1], [1]]})
    own, peer = run_race(ScriptedRapt([1.0, 1.0], status="wrong: out"), peers, 2)["rows"]
    assert own["status"] == "wrong: out"
    assert peer["status"] == "ok"


def test_peers_rotate_their_inputs_where_rapt_does():
    peers = ScriptedPeers({"steady": [[1]]})
    run_race(ScriptedRapt([1.0], bound="compute"), peers, 1)
    assert peers.rotated == 0
    rapt = ScriptedRapt([], bound="memory", cache_bytes=1 << 20)
    assert rotate_bytes(rapt.bench("", "cpu.scripted", 0)) == 640 << 20
    rapt = ScriptedRapt([], bound="memory", cache_bytes=1 << 30)
    assert rotate_bytes(rapt.bench("", "cpu.scripted", 0)) == 2.5 * (1 << 30)


def test_the_report_has_the_schema_of_rapt_bench(report):
    assert list(report) == ["schema", "rapt", "date", "command", "devices", "rows"]
    options = "--threads 1 --rounds 2 --seconds 0"
    problems = " ".join(f"'{text}'" for text in SMALL)
    assert report["command"] == f"python3 bench/peers/cpu_peers.py {problems} {options}"
    assert report["devices"][0]["threads"] == 1
    own, idle, shy = report["rows"][:3]
    fields = ["peer" if name == "kernel" else name for name in own] + ["ratio", "ratios"]
    assert list(idle) == list(shy) == fields
    assert (own["status"], own["chosen"], own["samples"]) == ("ok", True, 2)


def test_a_peer_row_holds_what_is_known_of_it_and_null_elsewhere(report):
    own, idle, shy = report["rows"][:3]
    assert (idle["peer"], idle["config"], idle["status"]) == ("idle", "threads=1", "ok")
    assert (idle["chosen"], len(idle["ratios"])) == (True, 2)
    for name in ["workspace_bytes", "error", "error_bound", "speedup"]:
        assert own[name] is not None or name == "speedup"
        assert idle[name] is None
    assert shy["status"] == "refused: too far"
    for name in ["seconds", "seconds_min", "gflops", "gbps", "roof_fraction", "ratio", "ratios"]:
        assert shy[name] is None
    assert (shy["samples"], shy["chosen"]) == (0, False)


def test_peers_count_the_work_as_rapt_does(report):
    assert [row["problem"] for row in report["rows"]] == [text for text in SMALL for _ in range(3)]
    for start in range(0, len(report["rows"]), 3):
        own, *peers = report["rows"][start : start + 3]
        for peer in peers:
            for name in ["flops", "bytes", "intensity", "roof_seconds", "bound"]:
                assert peer[name] == own[name], (own["problem"], name)


def test_the_table_shows_both_sides_and_the_speedup():
    peers = ScriptedPeers({"steady": [[2], [3]]}, {"unable": "it is far"})
    rows = run_race(ScriptedRapt([1.0, 1.0]), peers, 2)["rows"]
    heading, own, steady, unable = cpu_peers.table_of(rows).splitlines()
    assert heading == ROW["problem"]
    assert own.split()[:3] == ["cpu.scripted", "1000.000", "ms"]
    assert steady.startswith("* steady")
    assert steady.endswith("2.50 × (2.00 to 3.00)")
    assert unable.endswith("refused: it is far")


def sentence_of(capsys, arguments, make_peers=IdlePeers):
    """What a run that cannot start says: one line on stderr, nothing on stdout."""
    assert cpu_peers.main(arguments, make_peers) == cpu_peers.WRONG_INPUT
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("cpu_peers: ") and err.count("\n") == 1
    return err


def test_without_pytorch_there_is_one_sentence(capsys, monkeypatch, program):
    monkeypatch.setitem(sys.modules, "torch", None)
    sentence = sentence_of(capsys, [SMALL[0], "--rapt", str(program)], cpu_peers.TorchCpu)
    assert "PyTorch cannot be imported" in sentence and "pip install torch" in sentence


def test_a_missing_program_is_named(capsys, tmp_path):
    path = str(tmp_path / "rapt")
    assert f"cannot run rapt at '{path}'" in sentence_of(capsys, [SMALL[0], "--rapt", path])


def test_what_rapt_refuses_is_said_in_its_words(capsys, program):
    sentence = sentence_of(capsys, ["b1 h3/2 s4 d8 f32", "--rapt", str(program)])
    assert "3" in sentence and "2" in sentence and "heads" in sentence


def test_a_report_that_cannot_be_written_fails_before_measuring(capsys, tmp_path):
    path = str(tmp_path / "missing" / "rows.json")
    arguments = [SMALL[0], "--rapt", "/nobody", "--json", path]
    assert f"cannot write '{path}'" in sentence_of(capsys, arguments)


@pytest.mark.parametrize(
    "option", [["--rounds", "0"], ["--threads", "x"], ["--seconds", "-1"], ["--seconds", "nan"]]
)
def test_options_out_of_range_are_refused_by_value(capsys, option):
    with pytest.raises(SystemExit) as exit_status:
        cpu_peers.main([SMALL[0], *option], IdlePeers)
    assert exit_status.value.code == 2
    assert f"'{option[1]}' is not a" in capsys.readouterr().err


def test_a_wrong_result_fails_the_command(capsys, monkeypatch, broken_program):
    monkeypatch.setenv("RAPT_KERNEL", "cpu.wrong_value")
    arguments = ["b1 h2 s33 d16 f32", "--rapt", str(broken_program), "--seconds", "0"]
    assert cpu_peers.main(arguments, IdlePeers) == cpu_peers.FAILED_CHECK
    assert "wrong: out[sequence 0" in capsys.readouterr().out
