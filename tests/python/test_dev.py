"""./dev says one line about packages that it installs, and shows the package manager's own words where
that fails."""

import shutil
import subprocess

TOOLS = ["bash", "dirname", "nproc", "env", "mktemp", "cat", "rm", "grep"]


def dev(folder, source_dir, package_manager):
    """`./dev bench` on a machine that lacks everything, with this as its apt-get."""
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool))
    programs = {"apt-get": package_manager, "sudo": 'shift\nexec "$@"'}
    for name, text in programs.items():
        program = folder / name
        program.write_text(f"#!/usr/bin/env bash\n{text}\n")
        program.chmod(0o755)
    copy = folder / "clone"
    copy.mkdir()
    shutil.copy(source_dir / "dev", copy)
    return subprocess.run(
        [copy / "dev", "bench"], capture_output=True, text=True, env={"PATH": str(folder)}
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
