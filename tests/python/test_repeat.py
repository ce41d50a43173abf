"""A line that a failing check prints can be pasted back: it repeats the failure, with a program
whose kernels are wrong on purpose (tests/broken)."""

import re
import shlex
import subprocess

import pytest

FAILURE = re.compile(r"^FAILED (\S+)\n  (.+)\n  repeat: (rapt verify .+)$", re.MULTILINE)


def run(program, arguments):
    return subprocess.run([str(program), *arguments], capture_output=True, text=True)


def pasted(line):
    """The arguments of a printed command, as a shell would read them."""
    name, *arguments = shlex.split(line)
    assert name == "rapt"
    return arguments


def with_kernel(arguments, kernel):
    at = arguments.index("--kernel") + 1
    return [*arguments[:at], kernel, *arguments[at + 1 :]]


@pytest.mark.parametrize(
    "kernel", ["cpu.wrong_value", "cpu.wrong_lse", "cpu.writes_past_out", "cpu.depends_on_threads"]
)
def test_a_printed_line_repeats_the_failure_and_passes_with_a_sound_kernel(broken_program, kernel):
    first = run(broken_program, ["verify", "--cases", "5", "--seed", "3", "--kernel", kernel])
    assert first.returncode == 1, first.stdout + first.stderr
    failures = FAILURE.findall(first.stdout)
    assert failures and len(failures) == first.stdout.count("FAILED"), first.stdout
    for failed_kernel, sentence, line in failures:
        assert failed_kernel == kernel
        again = run(broken_program, pasted(line))
        assert again.returncode == 1, f"{line}\n{again.stdout}{again.stderr}"
        assert FAILURE.findall(again.stdout) == [(kernel, sentence, line)], again.stdout
        sound = run(broken_program, with_kernel(pasted(line), "cpu.naive"))
        assert sound.returncode == 0, f"{line}\n{sound.stdout}{sound.stderr}"
