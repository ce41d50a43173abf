"""The pages in docs/ that lead into rapt: every block of code on them works as it stands.

The first program of a page is compiled by the page's own commands; the fragments after it go on in its
main(). Shell lines of cli.md run in one folder, in order. Programs of rust.md are doctests of the crate;
what it says about a project of one's own is tried here. python.md and jax.md are tried with the package,
in package/test_python_pages.py."""

import os
import re
import subprocess
import sys

import pytest


def blocks(source_dir, page, language):
    text = (source_dir / "docs" / page).read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_no_block_is_of_a_kind_that_nobody_runs(source_dir):
    for page, languages in {
        "cpp.md": {"sh", "cpp", "text", "cmake"},
        "c.md": {"sh", "c", "text"},
        "cli.md": {"sh"},
        "rust.md": {"sh", "rust", "rust,no_run"},
    }.items():
        fences = re.findall(r"^```(.*)$", (source_dir / "docs" / page).read_text(), re.MULTILINE)
        assert set(fences[::2]) == languages and set(fences[1::2]) == {""}, page


def bash(lines, folder, **environment):
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines], cwd=folder, capture_output=True, text=True,
        env=os.environ | environment, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, f"{lines}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def compile_and_run(source_dir, prefix, page, folder):
    """The page's commands from the compiler's on, in a folder that has hello.c or hello.cpp."""
    (commands,) = blocks(source_dir, page, "sh")
    at = re.search(r"^(cc|c\+\+) ", commands, re.MULTILINE).start()
    (description,) = prefix.rglob("rapt.pc")
    return bash(commands[at:], folder, PKG_CONFIG_PATH=str(description.parent))


def joined(program, fragments):
    """The fragments at the end of the program's main()."""
    head, closing = program.rsplit("}", 1)
    assert closing.strip() == ""
    return "\n".join([head, *fragments, "}"])


@pytest.mark.parametrize("page, language", [("cpp.md", "cpp"), ("c.md", "c")])
def test_programs_of_a_page_run(source_dir, prefix, tmp_path, page, language):
    program, *fragments = blocks(source_dir, page, language)
    (expected,) = blocks(source_dir, page, "text")
    source = tmp_path / f"hello.{language}"
    source.write_text(program)
    assert compile_and_run(source_dir, prefix, page, tmp_path).split() == expected.split()
    source.write_text(joined(program, fragments))
    printed = compile_and_run(source_dir, prefix, page, tmp_path)
    assert printed.startswith(expected.strip()) and "cpu.naive" in printed


def test_cmake_lines_find_rapt(source_dir, prefix, tmp_path):
    program, *_ = blocks(source_dir, "cpp.md", "cpp")
    (lines,) = blocks(source_dir, "cpp.md", "cmake")
    (tmp_path / "hello.cpp").write_text(program)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(hello CXX)\nadd_executable(hello hello.cpp)\n"
        + lines
    )
    configure = f"cmake -S . -B build -G Ninja -DCMAKE_PREFIX_PATH={prefix}"
    printed = bash(f"{configure} && cmake --build build && build/hello", tmp_path)
    assert printed.endswith("0 0.5 1 1.5 ")


def test_lines_for_the_shell_run_in_order(source_dir, program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    path = f"{program.parent}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    printed = [
        bash(lines, folder, PATH=path, XDG_CACHE_HOME=str(folder / "cache"))
        for lines in blocks(source_dir, "cli.md", "sh")
    ]
    assert "* cpu." in printed[0] and "beside before.json" in "".join(printed)
    for name in ["out.npy", "windowed.npy", "before.json", "before.csv", "tuning.txt"]:
        assert (folder / name).stat().st_size > 0, name


@pytest.mark.skipif(not os.environ.get("RAPT_CARGO"), reason="there is no cargo")
def test_a_rust_project_of_ones_own_finds_an_installed_rapt(source_dir, prefix, tmp_path):
    (commands,) = blocks(source_dir, "rust.md", "sh")
    (tmp_path / "rapt").symlink_to(source_dir)
    tools = os.path.dirname(os.environ["RAPT_CARGO"])
    (description,) = prefix.rglob("rapt.pc")
    environment = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "CARGO_HOME": str(tmp_path / "home"),
        "CARGO_NET_OFFLINE": "true",
        "PKG_CONFIG_PATH": str(description.parent),
    }
    bash(commands.split("\n", 1)[1], tmp_path, **environment)  # all but building rapt
    project = tmp_path / "hello"
    (project / "src/main.rs").write_text(blocks(source_dir, "rust.md", "rust")[0])
    (project / "build.rs").write_text(blocks(source_dir, "rust.md", "rust,no_run")[0])
    assert bash("cargo run --quiet", project, **environment) == "2\n"
    assert str(prefix) in bash("readelf --dynamic target/debug/hello", project)
