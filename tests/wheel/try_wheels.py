"""Tries the wheels in build/wheels as users would: each Python here installs the one it would get into
an empty environment, runs the README's lines and the `rapt` program, and has nothing of a toolkit or of
PyTorch at hand. The one for aarch64 does so under qemu, with a Python from Debian's packages."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from wheel import FOLDER, VERSIONS, find_python  # noqa: E402

LINES = ROOT / "tests" / "python" / "readme_lines.py"
BENCH = ["bench", "b1 h4 s256 d64 f32", "--seconds", "0.05"]
IMPORT = """import sys, rapt
names = {kernel.name.split(".")[0] for kernel in rapt.kernels()}
assert not {"torch", "jax"} & set(sys.modules)
print(*sorted(names))"""


def run(*command, **environment: str) -> str:
    """Output of a command in an environment of next to nothing."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(FOLDER / "home"), **environment}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")
    return result.stdout


def network_settings() -> dict[str, str]:
    """What the environment says of the way to packages."""
    words = ("pip_", "http_proxy", "https_proxy", "ssl_cert")
    return {name: value for name, value in os.environ.items() if name.lower().startswith(words)}


def wheel_for(kind: str, version: str) -> pathlib.Path | None:
    """From 3.12 on one wheel is for all."""
    tag = "cp" + min(version, VERSIONS[-1]).replace(".", "")
    return next((FOLDER / kind).glob(f"rapt-*-{tag}-*.whl"), None)


def check_kernels(kind: str, printed: str) -> None:
    wanted = "cpu cuda" if kind == "cuda" else "cpu"
    if printed.split() != wanted.split():
        sys.exit(f"the wheel {kind} has kernels of {printed.strip()}, not of {wanted}")


def try_native(kind: str, version: str, python: str, wheel: pathlib.Path) -> str:
    folder = FOLDER / "environments" / f"{kind}-{version}"
    run(python, "-m", "venv", "--clear", folder)
    run(folder / "bin/pip", "install", "--quiet", wheel, **network_settings())
    check_kernels(kind, run(folder / "bin/python", "-c", IMPORT))
    run(folder / "bin/rapt", *BENCH)
    return run(folder / "bin/python", LINES)


def debian_for_aarch64() -> pathlib.Path:
    """A folder with Debian's Python 3.13 for aarch64, unpacked and not installed."""
    folder = FOLDER / "debian-aarch64"
    if not (folder / "usr/bin/python3.13").exists():
        command = ["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase"]
        run(*command, "--include=python3", "trixie", folder, **network_settings())
        for package in (folder / "var/cache/apt/archives").glob("*.deb"):
            run("dpkg-deb", "--extract", package, folder)
    return folder


def try_aarch64(wheel: pathlib.Path) -> str:
    system, packages = debian_for_aarch64(), FOLDER / "environments" / "aarch64"
    run("rm", "-rf", packages)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", packages]
    for glibc in ["2_17", "2_27", "2_28"]:  # rapt's and NumPy's
        install += ["--platform", f"manylinux_{glibc}_aarch64"]
    run(*install, "--python-version", "3.13", "--only-binary", ":all:", wheel, **network_settings())
    emulator = ["qemu-aarch64", "-L", system]
    python = [*emulator, system / "usr/bin/python3.13"]
    environment = {"PYTHONPATH": str(packages), "PYTHONHOME": str(system / "usr")}
    check_kernels("aarch64", run(*python, "-c", IMPORT, **environment))
    run(*emulator, packages / "bin/rapt", *BENCH)
    return run(*python, LINES, **environment)


def main() -> None:
    tried = 0
    for kind in ["x86_64", "cuda"]:
        for version in ["3.10", "3.11", "3.12", "3.13"]:
            wheel, python = wheel_for(kind, version), find_python(version)
            if wheel and python:
                print(f"{wheel.name}, Python {version}: {try_native(kind, version, python, wheel)}", end="")
                tried += 1
    if wheel := wheel_for("aarch64", "3.13"):
        print(f"{wheel.name}, under qemu: {try_aarch64(wheel)}", end="")
        tried += 1
    if not tried:
        sys.exit("there are no wheels in build/wheels, or no Python for them: ./dev wheel builds them")


if __name__ == "__main__":
    main()
