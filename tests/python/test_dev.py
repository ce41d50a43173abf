"""./dev says one line about packages that it installs, and shows the package manager's own words where
that fails."""

import shutil
import subprocess

TOOLS = ["bash", "dirname", "nproc", "env", "mktemp", "cat", "rm", "grep"]


def dev(folder, source_dir, package_manager, *command, known="true"):
    """A command, `./dev bench` if none, on a machine that lacks everything, with an apt-cache that
    knows the packages for which `known` succeeds, and with this as its apt-get."""
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    programs = {"apt-get": package_manager, "apt-cache": known, "sudo": 'shift\nexec "$@"'}
    for name, text in programs.items():
        program = folder / name
        program.write_text(f"#!/usr/bin/env bash\n{text}\n")
        program.chmod(0o755)
    copy = folder / "clone"
    copy.mkdir()
    shutil.copy(source_dir / "dev", copy)
    return subprocess.run(
        command or [copy / "dev", "bench"], cwd=copy, capture_output=True, text=True, env={"PATH": str(folder)}
    )


def test_packages_that_install_cost_one_line(tmp_path, source_dir):
    result = dev(tmp_path, source_dir, 'for i in {1..300}; do echo "Unpacking $i"; done')
    assert result.stderr.count("installing Debian packages: ") == 1
    assert "Unpacking" not in result.stderr + result.stdout


def test_packages_that_do_not_install_show_why(tmp_path, source_dir):
    result = dev(tmp_path, source_dir, "echo 'E: Unable to locate package'; exit 100")
    assert result.returncode == 1
    assert "E: Unable to locate package" in result.stderr
    assert "dev: failed: " in result.stderr and "apt-get update" in result.stderr


def test_packages_that_a_release_lacks_are_a_word(tmp_path, source_dir):
    packages = tmp_path / "packages"
    result = dev(
        tmp_path, source_dir, f'echo "$@" >>{packages}',
        "bash", "-c", "source ./dev help && need_if_there_is g++-11 libc++-19-dev", known='[[ $2 == lib* ]]',
    )  # fmt: skip
    assert (result.returncode, result.stderr.splitlines()) == (0, [
        "dev: tests go without g++-11: this system has no such package",
        "dev: installing Debian packages: libc++-19-dev",
    ])  # fmt: skip
    assert packages.read_text().splitlines()[-1].endswith(" libc++-19-dev")
