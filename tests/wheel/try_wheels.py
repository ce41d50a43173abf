"""Tries the wheels in build/wheels as users would: each Python here installs the one it would get into
an empty environment, runs the README's lines and the `rapt` program, and has nothing of a toolkit or of
PyTorch at hand. The one for aarch64 does so under qemu, with a Python from Debian's packages. What was
not tried is said, and a wheel that no Python tried, or a Python that tried no wheel, is a failure."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from wheel import FOLDER, KINDS, VERSIONS, find_python  # noqa: E402

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
CODE = {"elf": {"sm_80", "sm_90a"}, "ptx": {"sm_80"}}  # as cuobjdump lists it, of the kind `cuda`
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


def check_gpu_code(module: pathlib.Path) -> None:
    import nvidia  # what packages of NVIDIA's have in common

    folders = map(pathlib.Path, nvidia.__path__)
    (tool,) = (tool for folder in folders for tool in folder.glob("cu*/bin/cuobjdump"))
    for form, wanted in CODE.items():
        chips = set(re.findall(r"\.(sm_\w+)\.", run(tool, f"--list-{form}", module)))
        if chips != wanted:
            sys.exit(f"{module} has {form} for {sorted(chips)}, not for {sorted(wanted)}")


def try_native(kind: str, version: str, python: str, wheel: pathlib.Path) -> str:
    folder = FOLDER / "environments" / f"{kind}-{version}"
    run(python, "-m", "venv", "--clear", folder)
    run(folder / "bin/pip", "install", "--quiet", wheel, **network_settings())
    check_kernels(kind, run(folder / "bin/python", "-c", IMPORT))
    if kind == "cuda":
        (module,) = folder.glob("lib/python*/site-packages/rapt/_rapt.*.so")
        check_gpu_code(module)
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
    built = {wheel for kind in KINDS for wheel in (FOLDER / kind).glob("*.whl")}
    if not built:
        sys.exit("there are no wheels in build/wheels: ./dev wheel builds them")
    pythons = {version: find_python(version) for version in PYTHONS}
    tried_wheels, tried_pythons = set(), set()
    for kind in ["x86_64", "cuda"]:
        for version, python in pythons.items():
            wheel = wheel_for(kind, version)
            if not python:
                print(f"not tried: {kind} in Python {version}, which is not here with venv")
            elif not wheel:
                print(f"not tried: {kind} in Python {version}, for which no wheel was built")
            else:
                found = try_native(kind, version, python, wheel)
                print(f"{wheel.name}, Python {version}: {found}", end="", flush=True)
                tried_wheels.add(wheel)
                tried_pythons.add(version)
    if wheel := wheel_for("aarch64", "3.13"):
        print(f"{wheel.name}, under qemu: {try_aarch64(wheel)}", end="")
        tried_wheels.add(wheel)
    else:
        print("not tried: aarch64, of which no wheel was built")
    missed = [f"no Python tried {wheel}" for wheel in sorted(built - tried_wheels)]
    here = {version for version, python in pythons.items() if python}
    missed += [f"Python {version} tried no wheel" for version in sorted(here - tried_pythons)]
    if missed:
        sys.exit("\n".join(missed))


if __name__ == "__main__":
    main()
