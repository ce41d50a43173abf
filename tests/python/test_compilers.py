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
WITH_LIBCXX = [
    f"{name} -stdlib=libc++" for name in COMPILERS if name[:8] == "clang++-" and int(name[8:]) >= 19
]
USE = """#include <rapt/rapt.hpp>
rapt::Options options() { return {.window = {.left = 99}}; }
rapt::Config config() { return {.values = {{"splits", 2}}}; }
"""


def has_library(compiler):
    command = [*compiler.split(), "-x", "c++", "-fsyntax-only", "-"]
    return subprocess.run(command, input=b"#include <version>\n", capture_output=True).returncode == 0


def compile_with(compiler, folder, source_dir, text, standard="c++20"):
    if not has_library(compiler):
        pytest.skip(f"there is no library for {compiler}")
    source = folder / "source.cpp"
    source.write_text(text)
    include = [f"-I{source_dir}", f"-I{source_dir}/include"]
    command = [*compiler.split(), f"-std={standard}", *WARNINGS, *include, "-fsyntax-only", source]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("compiler", COMPILERS + WITH_LIBCXX)
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


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("library", ["_LIBCPP_VERSION 180100", "_GLIBCXX_RELEASE 10"])
def test_an_older_standard_library_gets_a_sentence_first(compiler, library, source_dir, tmp_path):
    name = library.split()[0]
    pretend = f"#include <version>\n#undef {name}\n#define {library}\n"
    result = compile_with(compiler, tmp_path, source_dir, pretend + '#include "src/core/text.hpp"\n')
    errors = [line for line in result.stderr.splitlines() if "error" in line]
    assert "rapt needs libstdc++ 11, libc++ 19 or newer" in errors[0], result.stderr


def test_an_older_compiler_gets_a_sentence_from_cmake(source_dir, tmp_path):
    compiler = tmp_path / "g++-10"
    compiler.write_text('#!/bin/sh\nexec g++ -U__GNUC__ -D__GNUC__=10 "$@"\n')
    compiler.chmod(0o755)
    result = subprocess.run(
        ["cmake", "-G", "Ninja", "-S", source_dir, "-B", tmp_path / "build",
         f"-DCMAKE_CXX_COMPILER={compiler}"], capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode != 0
    assert f"{compiler} is GNU 10." in " ".join(result.stderr.split()), result.stderr
    assert "rapt needs g++ 11, clang 14 or newer" in " ".join(result.stderr.split())


@pytest.mark.skipif("clang++-19" not in COMPILERS, reason="there is no clang++-19")
def test_an_fmt_for_another_library_gets_a_sentence_from_cmake(source_dir, tmp_path):
    if not has_library("clang++-19 -stdlib=libc++"):
        pytest.skip("there is no libc++")
    configure = ["cmake", "-G", "Ninja", "-S", source_dir, "-B", tmp_path / "build"]
    configure += ["-DCMAKE_CXX_COMPILER=clang++-19", "-DCMAKE_CXX_FLAGS=-stdlib=libc++"]
    result = subprocess.run(configure, capture_output=True, text=True)
    assert result.returncode != 0
    sentence = "the fmt that is here does not link with libc++"
    assert sentence in " ".join(result.stderr.split()), result.stderr
    library = ["-DRAPT_BUILD_CLI=OFF", "-DRAPT_BUILD_TESTS=OFF"]
    assert subprocess.run([*configure, *library], capture_output=True).returncode == 0
