"""`rapt tune`: what it stores, that selection obeys it, and what it says where it cannot. Who wins is
the machine's business; the program is the one of tests/broken, whose cpu.cheapest has three configs.
"""

import json
import re

import pytest
from command_line import Rapt

SMALL = "b1 h2 s17 d16 f32"
OTHER = "b1 h2 q1 kv17 d16 f32"
WITH_A_WRONG_KERNEL = "b1 h2 s9 d24 f32"
QUICK = ["--seconds", "0", "--threads", "2"]
CONFIGS = ["tile=64,splits=1", "tile=32,splits=1", "tile=32,splits=2"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tuning.txt"


@pytest.fixture
def rapt(broken_program, cache, file):
    """The program with RAPT_TUNING at a file that is not there yet."""
    program = Rapt(broken_program, cache)
    program.environment["RAPT_TUNING"] = str(file)
    return program


def winners(file):
    """The fields of every winner in a tuning file."""
    header, legend, *lines = file.read_text().splitlines()
    assert header == "rapt tuning 1" and legend.startswith("# rapt | backend | device | ")
    fields = [line.split(" | ") for line in lines]
    assert all(len(each) == 9 for each in fields)
    return fields


def explained(rapt, problem, *arguments, **environment):
    result = rapt("explain", problem, "--json", "--threads", "2", *arguments, **environment)
    assert result.returncode == 0, result
    return json.loads(result.stdout), result.stderr


def test_the_winner_is_stored_marked_and_obeyed(rapt, file):
    table = rapt.ok("tune", SMALL, *QUICK)
    ((version, backend, _, _, threads, problem, kernel, config, seconds),) = winners(file)
    assert rapt.ok("--version") == f"rapt {version}\n"
    assert (backend, threads, problem) == ("cpu", "2", SMALL)
    assert float(seconds) > 0
    (marked,) = re.findall(r"^\* (\S+) +(\S+=\S+)?", table, re.MULTILINE)
    assert marked == (kernel, config.replace("-", ""))
    assert f"1 of 1 problems have their winners in {file}\n" in table
    explanation, warnings = explained(rapt, SMALL)
    assert (explanation["kernel"], warnings) == (kernel, "")
    assert re.fullmatch(rf"tuned: .+ measured, {re.escape(str(file))}", explanation["reason"])


def test_every_config_races_and_refusals_are_shown(rapt):
    lines = rapt.ok("tune", SMALL, *QUICK).splitlines()
    words = [line.replace("*", " ").split() for line in lines]
    assert [line[1] for line in words if line[0] == "cpu.cheapest"] == CONFIGS
    assert sum(line[0] == "cpu.naive" for line in words) == 1
    assert any("cpu.one_query" in line and "refused: it takes one query" in line for line in lines)
    assert any(line.startswith("  by estimate: cpu.cheapest tile=64,splits=1, ") for line in lines)
    for by_name_only in ["cpu.oracle", "cpu.wrong_value"]:
        assert not any(by_name_only in line for line in lines)


def test_a_named_kernel_races_alone(rapt, file):
    table = rapt.ok("tune", SMALL, *QUICK, "--kernel", "cpu.naive")
    assert winners(file)[0][6:8] == ["cpu.naive", "-"]
    assert "by estimate: cpu.cheapest tile=64,splits=1, not in this race" in table
    assert explained(rapt, SMALL)[0]["kernel"] == "cpu.naive"
    # The bench marks what would be chosen.
    assert "* cpu.naive" in rapt.ok("bench", SMALL, *QUICK)
    assert "* cpu.cheapest" in rapt.ok("bench", SMALL, *QUICK, RAPT_TUNING="")


def test_lines_of_other_machines_and_problems_stay(rapt, file):
    rapt.ok("tune", SMALL, OTHER, *QUICK)
    mine, other_problem = winners(file)
    foreign = [*mine[:2], "another chip", *mine[3:]]
    of_another_version = ["0.0.1", *mine[1:6], "cpu.gone", "tile=3", "1"]
    lines = [" | ".join(line) for line in (foreign, of_another_version, other_problem)]
    file.write_text("\n".join(["rapt tuning 1", "# rapt | backend | device | ", *lines, ""]))
    rapt.ok("tune", SMALL, *QUICK)
    first, second, third = winners(file)
    assert (first, second) == (foreign, other_problem)
    assert third[:6] == mine[:6]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_stale_winners_are_a_warning(rapt, file):
    rapt.ok("tune", SMALL, *QUICK)
    file.write_text(re.sub(r"^\d+\.\d+\.\d+ ", "0.0.1 ", file.read_text(), flags=re.MULTILINE))
    explanation, warnings = explained(rapt, SMALL)
    assert (explanation["kernel"], explanation["reason"]) == ("cpu.cheapest", "least estimate")
    assert warnings.startswith(f"rapt: warning: the winner for '{SMALL}' in {file} is stale")
    assert "run `rapt tune` again" in warnings and warnings.count("\n") == 1
    assert rapt("bench", SMALL, SMALL, *QUICK).stderr == warnings


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"\x00\x93NUMPY", b"rapt tuning 2\n", b"rapt tuning 1\nhalf a li"]
)
def test_a_damaged_file_is_a_warning_and_is_not_overwritten(rapt, file, content):
    file.write_bytes(content)
    explanation, warnings = explained(rapt, SMALL)
    assert explanation["reason"] == "least estimate"
    assert re.fullmatch(
        rf"rapt: warning: the tuning file {file} is damaged: line \d .+; it is ignored .+\n", warnings
    )
    sentence = rapt.fails("tune", SMALL, *QUICK)
    assert sentence.startswith(f"the tuning file {file} is damaged: line ")
    assert sentence.endswith("; remove it, or give another place with --output")
    assert file.read_bytes() == content


def test_nobody_is_told_to_remove_a_folder(rapt, tmp_path):
    _, warnings = explained(rapt, SMALL, RAPT_TUNING=str(tmp_path))
    assert warnings == (
        f"rapt: warning: the tuning file {tmp_path} is not a regular file; it is ignored as a whole: "
        "let RAPT_TUNING name another, then run `rapt tune` again\n"
    )
    assert rapt.fails("tune", SMALL, *QUICK, RAPT_TUNING=str(tmp_path)) == (
        f"the tuning file {tmp_path} is not a regular file; give another place with --output"
    )


def test_a_wrong_result_never_wins(rapt, file):
    result = rapt("tune", WITH_A_WRONG_KERNEL, *QUICK)
    assert result.returncode == 1, result
    (line,) = [each for each in result.stdout.splitlines() if "cpu.wrong_candidate" in each]
    assert "wrong: out[sequence 0, query 8, head 1, dim 23]" in line
    assert winners(file)[0][6] != "cpu.wrong_candidate"

    file.unlink()
    result = rapt("tune", WITH_A_WRONG_KERNEL, *QUICK, "--kernel", "cpu.wrong_candidate")
    assert result.returncode == 1, result
    assert "no winner" in result.stdout and not file.exists()


def test_a_problem_that_nobody_takes_has_no_winner(rapt, file):
    table = rapt.ok("tune", SMALL, *QUICK, "--kernel", "cpu.one_query")
    assert "no winner" in table and "0 of 1 problems" in table
    assert not file.exists()


def test_a_problem_that_does_not_fit_the_machine_has_no_winner_and_the_next_one_goes_on(rapt, file):
    table = rapt.ok("tune", "b10000000 h1 q1 kv1 d1000000 f32", SMALL, *QUICK)
    assert "no winner: the problem's tensors and their images take " in table
    assert "1 of 2 problems" in table
    assert [winner[5] for winner in winners(file)] == [SMALL]


def test_the_output_can_be_another_file(rapt, file, tmp_path):
    other = tmp_path / "other.txt"
    table = rapt.ok("tune", SMALL, *QUICK, "--output", other)
    assert f"to obey it, set RAPT_TUNING={other}" in table
    assert not file.exists()
    kernel = winners(other)[0][6]
    explanation, _ = explained(rapt, SMALL, RAPT_TUNING=str(other))
    assert explanation["kernel"] == kernel and explanation["reason"].startswith("tuned: ")


def test_without_an_output_the_users_config_folder_is_used(rapt, tmp_path):
    del rapt.environment["RAPT_TUNING"]
    rapt.environment["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    rapt.ok("tune", SMALL, *QUICK)
    assert winners(tmp_path / "config" / "rapt" / "tuning.txt")[0][5] == SMALL
    assert explained(rapt, SMALL)[0]["reason"].startswith("tuned: ")


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ([SMALL, "--output", "no/such/folder/tuning.txt"], "cannot write no/such/folder/tuning.txt"),
        ([SMALL, "--output", "/"], "the tuning file / is not a regular file"),
        ([SMALL, "--output", "/dev/null"], "the tuning file /dev/null is not a regular file"),
        ([SMALL, "--output", "-"], "standard output has none; give a file with --output"),
        ([SMALL, "--config", "tile=32"], "tune has no option --config; see rapt tune --help"),
        ([SMALL, "--kernel", "cpu.oracle"], "--kernel is cpu.oracle, which is never chosen"),
        ([SMALL, "--kernel", "cpu.nobody"], "there is no kernel 'cpu.nobody'"),
        ([SMALL, "--seconds", "-1"], "--seconds"),
        (["b1 h2 s33 d16 nonsense"], "cannot read 'nonsense'"),
        (["no_such_suite"], "neither a suite"),
    ],
)
def test_wrong_input_is_one_sentence(rapt, arguments, sentence):
    assert sentence in rapt.fails("tune", *arguments)


def test_no_place_for_the_winners_is_an_error(rapt):
    assert "give one with --output FILE" in rapt.fails("tune", SMALL, RAPT_TUNING="")
