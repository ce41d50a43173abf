"""The manual page and the shells' completions know every command and option, and the shells take
them. zsh and fish are asked where they are installed."""

import re
import shutil
import subprocess

import pytest
from command_line import Rapt


@pytest.fixture
def rapt(program, tmp_path):
    return Rapt(program, tmp_path)


def options_of(rapt):
    """Each command's options, from its help."""
    commands = re.findall(r"^  (\w+)  ", rapt.ok("--help").split("Commands:")[1], re.MULTILINE)
    assert {"bench", "help", "completion"} < set(commands)
    return {
        command: set(re.findall(r"^  (?:-\w,)?(--\w+)", rapt.ok(command, "--help"), re.MULTILINE))
        for command in commands
    }


def test_the_manual_page_has_every_command_option_and_token(rapt):
    page = rapt.ok("help", "man")
    for command, options in options_of(rapt).items():
        section = page.split(f".SS {command}\n")[1].split("\n.S")[0].replace("\\-", "-")
        assert options and all(f"\\fB{option}\\fR" in section for option in options), command
    for line in rapt.ok("help", "problem").split("\ntoken ")[1].splitlines()[1:]:
        assert re.split("  +", line)[0] in page.replace("\\-", "-")


def test_the_manual_page_fills_paragraphs_and_keeps_lists(rapt):
    footer = rapt.ok("help", "man").split(".SS bench\n")[1].split("\n.SS ")[0].split("\nSuites:\n")[1]
    assert footer.startswith(".nf\n  backward ") and footer.count(".nf\n") == 1
    assert re.search(r"\n  wide .*\n\.fi\n\.PP\n\* marks the kernel", footer)


def test_groff_has_nothing_to_say_against_the_manual_page(rapt):
    if not shutil.which("groff"):
        pytest.skip("there is no groff here")
    result = subprocess.run(
        ["groff", "-man", "-ww", "-Kutf8", "-Tutf8"], input=rapt.ok("help", "man"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert result.stderr == "" and "exact attention on CPUs" in result.stdout


def completed(rapt, *words):
    """What bash offers for the last of the words."""
    script = rapt.ok("completion", "bash") + (
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _rapt; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    folder = rapt.program.rsplit("/", 1)[0]
    result = subprocess.run(
        ["bash", "-c", script, "bash", "rapt", *words], capture_output=True, text=True, check=True,
        env=rapt.environment | {"PATH": f"{folder}:/usr/bin:/bin"}, timeout=60,
    )  # fmt: skip
    assert result.stderr == ""
    return result.stdout.split()


def test_bash_completes_commands_options_and_values(rapt):
    for command, options in options_of(rapt).items():
        assert completed(rapt, command[:-1]) == [command]
        assert options <= set(completed(rapt, command, "--"))
    assert completed(rapt, "bench", "la") == ["ladder"]
    assert completed(rapt, "bench", "--kernel", "cpu.fl") == [
        "cpu.flash", "cpu.flash_amx", "cpu.flash_bf16",
        "cpu.flash_backward", "cpu.flash_amx_backward", "cpu.flash_bf16_backward",
    ]  # fmt: skip
    assert completed(rapt, "run", "--layout", "bs") == ["bshd"]
    assert completed(rapt, "explain", "--device", "c") == ["cpu", "cuda:0"]
    assert completed(rapt, "help", "pr") == ["problem"]
    assert completed(rapt, "completion", "z") == ["zsh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_every_option_and_can_read_the_script(rapt, shell, tmp_path):
    script = rapt.ok("completion", shell)
    for command, options in options_of(rapt).items():
        if shell == "fish":
            lines = [line for line in script.splitlines() if f"from {command}'" in line]
            missing = [option for option in options if not any(f" -l {option[2:]} " in line for line in lines)]
        else:
            section = script.split(f"\n    {command})\n")[1].split(";;")[0]
            missing = [option for option in options if f"'{option}[" not in section]
        assert not missing, command
    if shutil.which(shell):
        path = tmp_path / "script"
        path.write_text(script)
        result = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
        assert (result.returncode, result.stderr) == (0, "")


def test_fish_completes_with_the_script(rapt, tmp_path):
    if not shutil.which("fish"):
        pytest.skip("there is no fish here")
    (tmp_path / "rapt.fish").write_text(rapt.ok("completion", "fish"))
    folder = rapt.program.rsplit("/", 1)[0]

    def offered(line):
        return subprocess.run(
            ["fish", "-c", f"source {tmp_path}/rapt.fish; complete -C '{line}'"], text=True,
            capture_output=True, check=True,
            env=rapt.environment | {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(tmp_path)},
        ).stdout  # fmt: skip

    assert offered("rapt ben").startswith("bench\t")
    assert "--seconds\t" in offered("rapt bench --sec")
    assert "cpu.flash" in offered("rapt bench --kernel cpu.fl")
