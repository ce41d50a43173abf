"""The rapt program: what it prints where, its exit codes, and what it says to wrong input."""

import json
import os
import re
import subprocess

import pytest

from command_line import Rapt

PROBLEM = "b2 h32/8 q1 kv8192 d128 bf16 causal page16"
COMMANDS = ["devices", "kernels", "explain", "bench", "verify", "run", "tune", "help", "completion"]
SHARED = ["--device", "--kernel", "--config", "--threads"]
# The shared options that a command does not take.
WITHOUT = {
    "devices": {"--kernel", "--config"}, "kernels": {"--config", "--threads"},
    "tune": {"--config"}, "help": set(SHARED), "completion": set(SHARED),
}  # fmt: skip


@pytest.fixture
def rapt(program, tmp_path):
    return Rapt(program, tmp_path / "cache")


def test_help_of_the_program_names_every_command(rapt):
    text = rapt.ok("--help")
    for command in COMMANDS:
        assert f"\n  {command} " in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_names_the_shared_options_that_it_takes(rapt, command):
    text = rapt.ok(command, "--help")
    assert text == rapt.ok("help", command)
    for option in SHARED:
        takes = option not in WITHOUT.get(command, set())
        assert (f"\n  {option} " in text) == takes, option
        if not takes:
            shell = ["bash"] if command == "completion" else []
            sentence = rapt.fails(command, *shell, option, "1")
            assert sentence == f"{command} has no option {option}; see rapt {command} --help"


def test_defaults_in_the_help_are_those_of_the_command(rapt):
    for command, kernel in {
        "bench": "every kernel that rapt may choose", "verify": "every kernel of the device",
        "explain": "RAPT_KERNEL, else rapt's choice", "run": "RAPT_KERNEL, else rapt's choice",
        "tune": "every kernel that rapt may choose",
    }.items():  # fmt: skip
        text = rapt.ok(command, "--help").split("\n  --kernel KERNEL")[1]
        assert re.search("Default: (.*)", text)[1] == kernel, command
    for command in set(COMMANDS) - {c for c in COMMANDS if "--threads" in WITHOUT.get(c, ())}:
        (line,) = [line for line in rapt.ok(command, "--help").splitlines() if "--threads N" in line]
        assert line.endswith("processors that this process may use, or its container's quota if that is less")
    assert "Show this chip only: cpu, cuda:0 or hip:0. Default: all" in rapt.ok("devices", "--help")


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify", "s4 d8", "--cases", "3"], ["verify", "s4 d8", "--for", "1s"],
        ["verify", "--cases", "3", "--for", "1s"],
        ["bench", "s4 d8", "--chosen", "--within", "2"],
        ["bench", "s4 d8", "--kernel", "cpu.flash", "--chosen"],
        ["bench", "s4 d8", "--kernel", "cpu.flash", "--within", "2"],
    ],
)  # fmt: skip
def test_options_that_would_be_ignored_are_refused(rapt, arguments):
    assert "excludes" in rapt.fails(*arguments)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_paragraphs_of_the_help_leave_it_to_the_terminal_where_they_break(rapt, command):
    text = rapt.ok(*command.split(), "--help")
    assert not re.search(r"^\S.*\n[a-z].*", text, re.MULTILINE)


@pytest.mark.parametrize("command", ["bench", "verify", "tune", "kernels"])
def test_a_kernel_of_another_device_says_which_before_anything_is_done(rapt, command):
    problem = [] if command == "kernels" else ["s8 d8"]
    assert rapt.fails(command, *problem, "--device", "cpu", "--kernel", "emu.flash") == (
        "emu.flash runs on emu, not on cpu: give --device emu:0"
    )
    assert rapt.fails(command, *problem, "--device", "emu", "--kernel", "cpu.flash") == (
        "cpu.flash runs on cpu, not on emu:0: give --device cpu"
    )


def test_help_on_problems_lists_the_tokens_of_the_docs(rapt, source_dir):
    docs = (source_dir / "docs" / "architecture.md").read_text()
    table = docs.split("\n## Problem strings\n")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    in_docs = {token for cell in cells for code in re.findall("`([^`]+)`", cell) for token in code.split()}
    lines = rapt.ok("help", "problem").split("\ntoken ")[1].splitlines()[1:]
    listed = {token for line in lines for token in re.split("  +", line)[0].split()}
    assert {re.match("[a-z-]+", token)[0] for token in listed} == {
        re.match("[a-z-]+", token)[0] for token in in_docs
    } | {"bshd"}


@pytest.mark.parametrize("topic", ["benhc", "problems"])
def test_help_on_something_else_names_what_there_is(rapt, topic):
    meant = {"benhc": "bench", "problems": "problem"}[topic]
    assert rapt.fails("help", topic).startswith(
        f"there is no help on '{topic}' (did you mean {meant}?); there is on problem, man, devices"
    )


def test_version_is_one_line(rapt):
    word, number = rapt.ok("--version").split()
    assert word == "rapt" and number.count(".") == 2


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "a command is missing; there are devices, kernels"),
        (["think"], "'think' is not a command; there are devices, kernels"),
        (["explain"], "problem is required; see rapt explain --help"),
        (["kernels", "--loud"], "--loud; see rapt kernels --help"),
        (["kernels", "more"], "kernels takes no 'more'; see rapt kernels --help"),
        (["--device", "cpu", "kernels"], "options stand behind their command: rapt kernels"),
        (["explain", PROBLEM, "--threads", "many"], "--threads = many"),
        (["explain", PROBLEM, "--threads", "0"], "--threads is 0; it must be from 1 to 1024"),
        (["explain", PROBLEM, "--threads", "-3"], "--threads is -3; it must be from 1 to 1024"),
        (["explain", PROBLEM, "--threads", "1025"], "it must be from 1 to 1024"),
        (["explain", PROBLEM, "--device", "tpu"], "'tpu' is not a device; write cpu"),
        (["explain", PROBLEM, "--device", "cuda:77"], "cuda"),
        (["explain", PROBLEM, "--device", "cuda:0", "--threads", "2"], "--threads is for the CPU"),
        (["explain", PROBLEM, "--kernel", "cpu.magic"], "there is no kernel 'cpu.magic'; there are"),
        (["explain", PROBLEM, "--kernel", "flash"], "'flash' (did you mean cpu.flash?); there are"),
        (["explain", PROBLEM, "--kernel", "cpu.falsh"], "'cpu.falsh' (did you mean cpu.flash?)"),
        (["bnech"], "'bnech' is not a command (did you mean bench?); there are"),
        (["bench", "--secnods", "1"], "no option --secnods (did you mean --seconds?); see rapt bench"),
        (["bench", "lader"], "(did you mean ladder?)"),
        (["bench", "b1", "s16", "d8", "casual"], "cannot read 'casual' at character 11 of the problem"),
        (["tune", "s16 d8 windw12"], "no token has this form (did you mean window128?); tokens are b2"),
        (["verify", "s16"], "incomplete: it needs a head dim, as in d128; tokens are b2 h32 h32/8 s2048"),
        (["verify", "--cases", "0"], "--cases: '0' is not a whole number from 1 to 1000000000; see"),
        (["verify", "--seed", "-1"], "--seed: '-1' is not a whole number from 0 to 18446744073709551615"),
        (["verify", "--seed", "18446744073709551616"], "--seed: '18446744073709551616' is not a whole"),
        (["tune", "s4 d8", "--seconds", "nan"], "--seconds: 'nan' is not a number from 0 to 3600; see"),
        (["bench", "s8 d8", "--config", "rows=48"], "--config requires --kernel; see rapt bench --help"),
        (["explain", PROBLEM, "--config", "tile"], "cannot read 'tile' of the config"),
        (["explain", PROBLEM, "--config", "no_such_key=1"], "no config key 'no_such_key'"),
        (["explain", "b2 h32/7 s16 d8 f32"], "32 heads cannot share 7 kv heads evenly"),
        (["explain", "b2 h32 s16 d8 f32 soon"], "soon"),
        (["explain", "b2 b2 h32 s16 d8 f32"], "b2"),
        (["explain", ""], "problem"),
        (["explain", "b99999999999999999999 h1 s1 d1 f32"], "b99999999999999999999"),
        (["explain", "b1 h1 s4 d4 f32 \u2603"], "\u2603"),
    ],
)
def test_a_wrong_command_line_is_refused_in_one_sentence(rapt, arguments, expected):
    assert expected in rapt.fails(*arguments)


def test_wrong_threads_in_the_environment_are_refused(rapt):
    assert "RAPT_THREADS is 'x'" in rapt.fails("devices", RAPT_THREADS="x")


@pytest.mark.parametrize("command", ["explain", "verify", "bench"])
def test_unknown_vector_instructions_in_the_environment_are_refused(rapt, command):
    sentence = rapt.fails(command, "b1 h2 s5 d4 f32", RAPT_SIMD="sse9")
    assert sentence == "RAPT_SIMD is 'sse9'; it can be scalar, avx2, avx512, neon or sve"


@pytest.mark.parametrize("kernel", ["cpu.flash", "cpu.split_kv", "cpu.tiny_kv"])
def test_every_chip_can_do_without_vector_instructions(rapt, kernel):
    for problem in ["b2 h4/2 q33 kv9 d20 f16 causal lse", "b1 h1 q1 kv9 d64 bf16"]:
        shown = rapt.ok("verify", problem, "--kernel", kernel, RAPT_SIMD="scalar")
        assert f"{kernel} " in shown and " 1 passed " in shown


def test_a_reader_that_leaves_early_is_no_crash(rapt):
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [rapt.program, "kernels"], stdout=writer, stderr=subprocess.PIPE, env=rapt.environment,
        timeout=60, check=False,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("arguments", [["kernels"], ["bench", "s8 d8", "--runs", "1"]])
def test_results_that_cannot_be_written_are_an_error(rapt, arguments):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [rapt.program, *arguments], stdout=full, stderr=subprocess.PIPE, env=rapt.environment,
            timeout=60, check=False,
        )
    assert result.returncode == 2
    assert result.stderr == b"rapt: cannot write the results: No space left on device\n"


def test_kernels_marks_those_used_by_name_only(rapt):
    kernels = {kernel["name"]: kernel for kernel in json.loads(rapt.ok("kernels", "--json"))}
    assert kernels["cpu.oracle"]["by_name_only"] and not kernels["cpu.naive"]["by_name_only"]
    lines = {line.split()[0]: line for line in rapt.ok("kernels").splitlines()}
    assert lines.keys() == kernels.keys() | {"kernel"}
    for name, kernel in kernels.items():
        assert ("by name only" in lines[name]) == kernel["by_name_only"]
        assert kernel["summary"] in lines[name]


def test_kernels_can_be_narrowed_down(rapt):
    one = json.loads(rapt.ok("kernels", "--json", "--kernel", "cpu.naive"))
    assert [kernel["name"] for kernel in one] == ["cpu.naive"]
    on_cpu = json.loads(rapt.ok("kernels", "--json", "--device", "cpu"))
    assert {kernel["backend"] for kernel in on_cpu} == {"cpu"}


def test_explain_shows_every_kernel_and_one_choice(rapt):
    explanation = json.loads(rapt.ok("explain", PROBLEM, "--json"))
    kernels = json.loads(rapt.ok("kernels", "--json", "--device", "cpu"))
    assert explanation["problem"] == PROBLEM
    forward = [kernel["name"] for kernel in kernels if kernel["operation"] == "forward"]
    assert [c["kernel"] for c in explanation["candidates"]] == forward
    assert [c["kernel"] for c in explanation["candidates"] if c["chosen"]] == [
        explanation["kernel"]
    ]
    for candidate in explanation["candidates"]:
        if candidate["refusal"] is None:
            assert candidate["seconds"] > 0 and candidate["bound"]
    text = rapt.ok("explain", PROBLEM)
    assert f"chosen: {explanation['kernel']} (least estimate)" in text
    for candidate in explanation["candidates"]:
        assert candidate["kernel"] in text


@pytest.fixture
def chips(rapt):
    """The chips by name: those of a build with CUDA."""
    if "cuda." not in rapt.ok("kernels"):
        pytest.skip("this build has no CUDA backend")
    return rapt


@pytest.mark.parametrize("empty", ["b0 s4 d4", "b2 q0 kv4 d4", "b2 q4 kv0 d4", "b0 s4 d4 backward"])
def test_a_problem_of_nothing_has_estimates(rapt, empty):
    for candidate in json.loads(rapt.ok("explain", empty, "--json"))["candidates"]:
        assert candidate["refusal"] or candidate["seconds"] is not None, candidate


def test_explain_takes_a_chip_that_is_not_here(chips):
    explanation = json.loads(chips.ok("explain", PROBLEM, "--device", "a100", "--json"))
    assert explanation["device"] == "NVIDIA A100-SXM4-80GB"
    assert explanation["nominal"]
    assert explanation["kernel"].startswith("cuda.")
    for candidate in explanation["candidates"]:
        if candidate["kernel"].startswith("cuda.flash_wgmma"):
            assert "this is sm_80" in candidate["refusal"]
    assert chips.ok("explain", PROBLEM, "--device", "sm_80", "--json") == chips.ok(
        "explain", PROBLEM, "--device", "a100", "--json"
    )
    assert "nothing was measured on sm_80" in chips.ok("explain", PROBLEM, "--device", "sm_80")
    assert not json.loads(chips.ok("explain", PROBLEM, "--device", "h200", "--json"))["nominal"]
    assert "rtx5090 (sm_120)" in chips.ok("explain", "--help")


@pytest.mark.parametrize("command", ["bench", "verify", "tune", "devices"])
def test_nothing_but_explain_takes_a_chip_that_is_not_here(chips, command):
    problem = [] if command == "devices" else [PROBLEM]
    sentence = chips.fails(command, *problem, "--device", "h200")
    assert "only `rapt explain` takes chips that are not here; write cpu, cuda:0 or hip:0" in sentence


def test_a_build_without_chips_says_so(rapt):
    sentence = rapt.fails("explain", PROBLEM, "--device", "a1000")
    assert "'a1000' is not a device; write cpu, cuda:0 or hip:0; " in sentence
    with_cuda = "cuda." in rapt.ok("kernels")
    assert ("chips that need not be here: " in sentence) == with_cuda
    assert ("this build has no CUDA backend, and so no chips by name" in sentence) != with_cuda


def test_a_problem_need_not_be_quoted(rapt, tmp_path):
    assert rapt.ok("explain", *PROBLEM.split()) == rapt.ok("explain", PROBLEM)
    words = ["b2", "h4/2", "q3", "kv9", "d8", "f16", "causal"]
    assert rapt.ok("verify", *words) == rapt.ok("verify", " ".join(words))
    report = json.loads(rapt("bench", *words, "s4 d8", "--seconds", "0", "--json", "-").stdout)
    assert list(dict.fromkeys(row["problem"] for row in report["rows"])) == [
        " ".join(words), "b1 h1 s4 d8 f32",
    ]  # fmt: skip
    assert report["command"] == f'rapt bench "{" ".join(words)}" "s4 d8" --seconds 0'
    tuning = tmp_path / "tuning.txt"
    rapt.ok("tune", *words, "--seconds", "0", "--output", tuning)
    assert f"| {' '.join(words)} |" in tuning.read_text()


def problems_timed(rapt, *arguments):
    report = json.loads(rapt("bench", *arguments, "--seconds", "0", "--json", "-").stdout)
    return list(dict.fromkeys(row["problem"] for row in report["rows"]))


@pytest.mark.parametrize("token", ["backward", "causal"])
def test_a_token_that_is_a_suite_or_a_file_too_belongs_to_the_problem_before_it(
    rapt, token, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "causal").write_text("s3 d4\n")
    words, problem = ["b1", "h1", "s8", "d8", token], f"b1 h1 s8 d8 f32 {token}"
    assert problems_timed(rapt, *words) == [problem]
    assert rapt.ok("verify", *words) == rapt.ok("verify", problem)
    rapt.ok("tune", *words, "--seconds", "0", "--output", tmp_path / "tuning.txt")
    assert f"| {problem} |" in (tmp_path / "tuning.txt").read_text()
    assert problems_timed(rapt, "s8 d8", "causal") == ["b1 h1 s8 d8 f32", "b1 h1 s3 d4 f32"]


@pytest.mark.parametrize("command", ["bench", "verify", "tune"])
def test_words_of_several_problems_are_to_be_quoted(rapt, command):
    sentence = rapt.fails(command, "b1", "h1", "s8", "d8", "b2", "h1", "s8", "d8")
    assert sentence == (
        "'b2' does not go with \"b1 h1 s8 d8\", which has such a token already; "
        "quote each problem where there are several"
    )


@pytest.mark.parametrize("problems", [["s8 d8", "s16 d16"], ["s8", "d8", "s16", "d16"]], ids=str)
def test_explain_takes_one_problem(rapt, problems):
    sentence = rapt.fails("explain", *problems)
    assert sentence.startswith('explain takes one problem, and "s8 d8 s16 d16" has tokens of several;')


def test_naming_a_kernel_makes_it_the_choice(rapt):
    by_option = json.loads(rapt.ok("explain", PROBLEM, "--json", "--kernel", "cpu.oracle"))
    assert (by_option["kernel"], by_option["reason"]) == ("cpu.oracle", "named by the caller")
    by_environment = json.loads(rapt.ok("explain", PROBLEM, "--json", RAPT_KERNEL="cpu.oracle"))
    assert by_environment["kernel"] == "cpu.oracle"
    assert "RAPT_KERNEL" in by_environment["reason"]


@pytest.mark.parametrize("command", ["bench", "verify", "tune"])
def test_a_wrong_kernel_in_the_environment_is_refused_by_all_who_race_kernels(rapt, command):
    sentence = rapt.fails(command, "s4 d8", RAPT_KERNEL="naive")
    assert sentence.startswith(
        "RAPT_KERNEL is wrong: there is no kernel 'naive' (did you mean cpu.naive?); there are cpu."
    )


@pytest.mark.parametrize("command", ["explain", "bench", "verify", "tune"])
def test_a_kernel_of_another_backend_in_the_environment_is_refused(rapt, command):
    result = rapt(command, PROBLEM, RAPT_KERNEL="emu.flash")
    assert result.returncode == 2
    assert result.stderr == "rapt: emu.flash (named by RAPT_KERNEL) runs on emu, not on cpu\n"


def test_a_wrong_kernel_in_the_environment_is_an_error_beside_the_table(rapt):
    result = rapt("explain", PROBLEM, RAPT_KERNEL="cpu.magic")
    assert result.returncode == 2
    assert result.stderr.startswith("rapt: RAPT_KERNEL is wrong: there is no kernel 'cpu.magic'")
    assert "cpu.naive" in result.stdout and "chosen" not in result.stdout


def test_devices_lists_the_cpu_without_measuring(rapt, tmp_path):
    (cpu,) = json.loads(rapt.ok("devices", "--device", "cpu", "--threads", "1", "--json"))
    assert (cpu["device"], cpu["backend"], cpu["threads"]) == ("cpu", "cpu", 1)
    assert cpu["name"] and cpu["memory_bytes"] > 0 and cpu["nominal"]["f32_flops"] > 0
    assert cpu["measured"] is None
    assert not (tmp_path / "cache").exists()
    text = rapt.ok("devices")
    assert text.startswith("cpu: ") and "rapt devices --measure" in text


def measured(rapt, *arguments):
    result = rapt("devices", "--device", "cpu", "--json", *arguments)
    assert result.returncode == 0, result
    (cpu,) = json.loads(result.stdout)
    return cpu["measured"], result.stderr


def test_measured_limits_are_remembered_and_a_broken_cache_is_replaced(rapt, tmp_path):
    limits, warning = measured(rapt, "--measure")
    assert warning == ""
    for rates in (limits["one_thread"], limits["all_threads"]):
        for rate in ("f32_flops", "read_bandwidth", "copy_bandwidth"):
            assert rates[rate] > 0
    assert "dispatch_seconds" in limits
    assert measured(rapt) == (limits, "")
    table = rapt.ok("devices", "--device", "cpu")
    assert "measured, 1 thread" in table and "dispatch of a job" in table

    cache = tmp_path / "cache" / "rapt" / "limits.json"
    good = json.loads(cache.read_text())
    (machine,) = good["machines"]
    assert list(cache.parent.iterdir()) == [cache]

    def with_entry(**changes):
        return json.dumps(good | {"machines": {machine: good["machines"][machine] | changes}})

    broken = {
        "not JSON": "{",
        "empty": "",
        "binary": "\x00\x93NUMPY",
        "not an object": "[1, 2]",
        "of another version": json.dumps(good | {"schema": 999}),
        "without machines": json.dumps({"schema": good["schema"]}),
        "machines of another kind": json.dumps(good | {"machines": 3}),
        "rates missing": with_entry(one_thread={}),
        "rates of another kind": with_entry(all_threads="fast"),
        "a negative rate": with_entry(one_thread=good["machines"][machine]["one_thread"]
                                      | {"read_bandwidth": -1}),
        "no threads": with_entry(threads=0),
        "a dispatch of another kind": with_entry(dispatch_seconds=None),
    }
    for what, text in broken.items():
        cache.write_text(text)
        limits, warning = measured(rapt)
        assert limits is None, what
        assert warning.startswith("rapt: the measured limits in "), what
        assert warning.count("\n") == 1, (what, warning)

    # Limits of other machines are nobody's fault, and stay.
    cache.write_text(json.dumps(good | {"machines": {"another machine": good["machines"][machine]}}))
    assert measured(rapt) == (None, "")
    limits, warning = measured(rapt, "--measure")
    assert limits and warning == ""
    assert json.loads(cache.read_text())["machines"].keys() == {"another machine", machine}


def test_a_cache_that_cannot_be_written_is_one_warning(rapt, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    limits, warning = measured(rapt, "--measure")
    assert limits
    assert warning.startswith("rapt: the measured limits are not remembered: ")
    assert warning.count("\n") == 1


def test_verify_prints_results_on_stdout_only(rapt):
    assert "cpu.naive" in rapt.ok("verify", "b1 h2 s5 d4 f32", "--kernel", "cpu.naive")


def test_random_problems_ask_for_what_the_named_kernel_computes(rapt):
    for kernel in ["cpu.naive", "cpu.naive_backward"]:
        assert " 2 passed      0 refused " in rapt.ok("verify", "--kernel", kernel, "--cases", "2")
    assert rapt.fails("verify", "--backward", "--kernel", "cpu.flash") == (
        "--backward draws problems of backward, and cpu.flash computes forward; "
        "name a kernel that computes backward, or leave --backward out"
    )


def test_a_config_that_no_problem_runs_with_is_wrong_input(rapt):
    named = ["--kernel", "cpu.flash", "--config"]
    sentence = "cpu.flash has no config key 'tile'; its config is rows="
    for problems in [["b1 h1 s8 d8"], ["--cases", "3"], ["--for", "10m"]]:
        assert rapt.fails("verify", *problems, *named, "tile=3").startswith(sentence)
    for problems in [["b1 h1 s8 d8"], ["--cases", "3"]]:
        assert rapt.fails("verify", *problems, *named, "rows=3").startswith(
            "cpu.flash cannot run with rows=3,"
        )
    assert "--config requires --kernel" in rapt.fails("verify", "s8 d8", "--config", "rows=48")


def test_problems_that_leave_a_kernel_no_such_config_are_refused(rapt):
    small, large = "b1 h1 q1 kv64 d16 f32", "b1 h1 q1 kv1024 d16 f32"
    named = ["--device", "emu", "--kernel", "emu.split_kv", "--config", "splits=2"]
    assert rapt.fails("verify", small, *named).startswith("emu.split_kv cannot run with splits=2")
    assert " 1 passed      1 refused      0 failed" in rapt.ok("verify", small, large, *named)


@pytest.mark.parametrize("command", ["verify", "bench", "tune"])
def test_a_problem_that_cannot_be_read_is_refused_by_every_command(rapt, command):
    assert "h0" in rapt.fails(command, "b1 h0 s5 d4 f32 h0")
