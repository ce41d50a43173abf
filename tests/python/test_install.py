"""An installed rapt serves a separate project, through CMake and through pkg-config, linked to the
archive and to the shared library."""

import json
import os
import shutil
import subprocess

import pytest


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def installed_file(prefix, name):
    found = [path for path in prefix.rglob(name)]
    assert len(found) == 1, f"{name}: {found}"
    return found[0]


def needed_libraries(executable):
    lines = run("readelf", "--dynamic", executable).splitlines()
    return [line for line in lines if "NEEDED" in line]


def check_consumer(executable, linkage, environment=None):
    linked_to_shared = any("librapt.so.0" in line for line in needed_libraries(executable))
    assert linked_to_shared == (linkage == "shared")
    assert run(executable, env=environment) == "2 3\n"


def test_the_install_holds_headers_libraries_program_suites_and_documents(prefix, source_dir):
    headers = ["rapt.hpp", "dtype.hpp", "rapt.h", "version.h"]
    documents = ["LICENSE", "README.md", "numerics.md"]
    for name in [*headers, *documents, "librapt.a", "librapt.so", "raptConfig.cmake", "rapt.pc"]:
        installed_file(prefix, name)
    assert (prefix / "bin" / "rapt").is_file()
    suites = {path.name for path in (source_dir / "bench" / "suites").iterdir()}
    assert suites and suites == {path.name for path in (prefix / "share/rapt/suites").iterdir()}


def test_the_program_comes_with_its_manual_page_and_completions(prefix):
    program = prefix / "bin" / "rapt"
    for name, command in {
        "man/man1/rapt.1": ["help", "man"],
        "bash-completion/completions/rapt": ["completion", "bash"],
        "zsh/site-functions/_rapt": ["completion", "zsh"],
        "fish/vendor_completions.d/rapt.fish": ["completion", "fish"],
    }.items():
        assert (prefix / "share" / name).read_text() == run(program, *command)


def test_the_shared_library_exports_rapt_only(prefix):
    library = installed_file(prefix, "librapt.so")
    lines = run("nm", "--dynamic", "--defined-only", "--demangle", library).splitlines()
    names = [line.split(maxsplit=2)[2] for line in lines]
    of_the_standard_library = ("std::", "void std::", "typeinfo", "vtable", "bool std::")
    strangers = [
        name
        for name in names
        if "rapt" not in name and not name.startswith(of_the_standard_library)
    ]
    assert names and not strangers


def test_what_is_installed_needs_no_headers_of_others(prefix):
    for path in prefix.rglob("*"):
        if path.suffix in {".h", ".hpp", ".cmake", ".pc"}:
            text = path.read_text().lower()
            assert "hwy" not in text and "highway" not in text, path
    archive = installed_file(prefix, "librapt.a")
    undefined = run("nm", "--undefined-only", "--demangle", archive)
    assert "std::" in undefined and "hwy::" not in undefined


def test_the_installed_libraries_know_nothing_of_the_emulator(prefix):
    for name in ["librapt.a", "librapt.so"]:
        symbols = run("nm", "--demangle", installed_file(prefix, name))
        assert "rapt::cpu_naive" in symbols
        assert "rapt::emulator" not in symbols and "emu_backend" not in symbols, name
    for path in [prefix / "bin" / "rapt", installed_file(prefix, "librapt.so")]:
        assert not any("boost" in line for line in needed_libraries(path)), path
    for path in prefix.rglob("*.cmake"):
        assert "boost" not in path.read_text().lower(), path


def test_the_shared_library_needs_nothing_of_gpus(prefix):
    needed = needed_libraries(installed_file(prefix, "librapt.so"))
    assert needed and not any("cu" in line or "hip" in line for line in needed), needed
    for path in prefix.rglob("*.cmake"):
        assert "find_dependency(CUDA" not in path.read_text() and "hip" not in path.read_text(), path


@pytest.mark.parametrize("linkage", ["static", "shared"])
def test_a_project_finds_rapt_through_cmake(prefix, source_dir, tmp_path, linkage):
    run(
        "cmake", "-S", source_dir / "tests/consumer", "-B", tmp_path, "-G", "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}", f"-DRAPT_LINKAGE={linkage}",
    )
    run("cmake", "--build", tmp_path)
    check_consumer(tmp_path / "consumer_cpp", linkage)
    check_consumer(tmp_path / "consumer_c", linkage)


@pytest.mark.parametrize("linkage", ["static", "shared"])
@pytest.mark.parametrize("source", ["main.cpp", "main.c"])
def test_a_project_finds_rapt_through_pkg_config(prefix, source_dir, tmp_path, linkage, source):
    folder = installed_file(prefix, "rapt.pc").parent
    environment = {**os.environ, "PKG_CONFIG_PATH": str(folder)}
    arguments = ["--static"] if linkage == "static" else []
    flags = run("pkg-config", *arguments, "--cflags", "--libs", "rapt", env=environment).split()
    compiler = ["c++", "-std=c++20"] if source == "main.cpp" else ["cc", "-std=c11"]
    executable = tmp_path / "consumer"
    run(*compiler, source_dir / "tests/consumer" / source, "-o", executable, *flags)
    library_folder = {"LD_LIBRARY_PATH": str(folder.parent)} if linkage == "shared" else {}
    check_consumer(executable, linkage, {**os.environ, **library_folder})


def test_the_installed_program_runs_where_it_was_moved(prefix):
    assert "cpu.naive" in run(prefix / "bin" / "rapt", "kernels")


def test_inside_another_project_rapt_brings_libraries_only(source_dir, tmp_path):
    project = tmp_path / "project"
    shutil.copytree(source_dir / "tests/consumer", project)
    lists = project / "CMakeLists.txt"
    text = lists.read_text()
    found = "find_package(rapt 0.1 REQUIRED)"
    assert found in text
    lists.write_text(text.replace(found, f"add_subdirectory({source_dir} rapt)"))
    build = tmp_path / "build"
    run("cmake", "-S", project, "-B", build, "-G", "Ninja", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON")
    commands = json.loads((build / "compile_commands.json").read_text())
    optimised = {entry["file"]: " -O3 " in entry["command"] for entry in commands}
    assert all(is_fast == ("/src/" in file) for file, is_fast in optimised.items()), optimised
    assert not any("src/cuda" in file or "src/hip" in file for file in optimised)
    targets = run("ninja", "-C", build, "-t", "targets", "all")
    assert "librapt.a" in targets and "consumer_c" in targets
    assert "rapt_unit_tests" not in targets and "cli/" not in targets
