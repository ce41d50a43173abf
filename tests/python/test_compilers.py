"""What users compile, by every compiler that is here: the headers without a warning, and the files that
compilers have been at odds about. README.md names the oldest compilers."""

import os
import shutil
import subprocess

import pytest

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
NAMES = ["g++", *(f"g++-{n}" for n in range(11, 16)), *(f"clang++-{n}" for n in range(14, 22))]
FOUND = {os.path.realpath(path): name for name in NAMES if (path := shutil.which(name))}
COMPILERS = list(FOUND.values())  # each once, whatever it is called
USE = """#include <rapt/rapt.hpp>
rapt::Options options() { return {.window = {.left = 99}}; }
rapt::Config config() { return {.values = {{"splits", 2}}}; }
"""


def compile_with(compiler, folder, source_dir, text, standard="c++20"):
    source = folder / "source.cpp"
    source.write_text(text)
    include = [f"-I{source_dir}", f"-I{source_dir}/include"]
    command = [compiler, f"-std={standard}", *WARNINGS, *include, "-fsyntax-only", source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "text",
    [
        USE,
        *(f'#include "src/{name}.cpp"\n' for name in ["core/text", "cpu/naive"]),
    ],
)
def test_it_compiles_without_a_warning(compiler, text, source_dir, tmp_path):
    result = compile_with(compiler, tmp_path, source_dir, text)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_an_older_standard_gets_a_sentence_first(compiler, source_dir, tmp_path):
    result = compile_with(compiler, tmp_path, source_dir, USE, "c++17")
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert "rapt/rapt.hpp needs C++20: compile with -std=c++20" in errors[0], result.stderr
