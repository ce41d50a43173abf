"""Builds rapt's wheels and says what each weighs and took: `./dev wheel [KIND...]`.

The kinds `x86_64` and `aarch64` are compiled by zig (from PyPI), whose clang and libc++ want no more
of a system than glibc 2.17. nvcc refuses libc++ on x86-64, so that the kind `cuda` is compiled by g++
and wants the glibc that g++ was made for. The C++ library is inside all of them; auditwheel looks
whether anything else is wanted. Python 3.10 and 3.11 have wheels of their own, one is for 3.12 and
everything after it. They lie in build/wheels/KIND."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "wheels"
VERSIONS = ("3.10", "3.11", "3.12")
# CMake, auditwheel and what it calls lie beside the interpreter that runs this.
ENVIRONMENT = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")


@dataclasses.dataclass(frozen=True)
class Kind:
    machine: str = "x86_64"
    zig_options: str = ""  # none: g++
    policy: str = "manylinux"  # what auditwheel must find
    defines: tuple[str, ...] = ("RAPT_CUDA=OFF",)
    versions: tuple[str, ...] = VERSIONS


KINDS = {
    # zig names every feature that a chip has not, and evex512, without which there are no vectors of
    # 512 bits, does not come with the avx512f that the kernels ask for.
    "x86_64": Kind(
        zig_options="-target x86_64-linux-gnu.2.17 -mcpu=x86_64+evex512",
        policy="manylinux_2_17_x86_64",
    ),
    # For one version a module has the machine in its name, and takes it from the Python here.
    "aarch64": Kind(
        machine="aarch64",
        zig_options="-target aarch64-linux-gnu.2.17",
        policy="manylinux_2_17_aarch64",
        versions=VERSIONS[-1:],
    ),
    # Code for sm_80 and sm_90a, and sm_80's PTX, of which drivers make code for what comes after.
    "cuda": Kind(defines=("RAPT_CUDA=ON", "RAPT_CUDA_ARCHITECTURES=80;90a-real")),
}


def fail(sentence: str) -> None:
    sys.exit(f"wheel: {sentence}")


def run(command: list, environment: dict[str, str], log: pathlib.Path) -> None:
    """What the command prints is shown if it fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        result = subprocess.run(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    if result.returncode != 0:
        sys.stderr.write(log.read_text())
        fail(f"failed: {' '.join(map(str, command))}")


def find_python(*versions: str) -> str | None:
    """An interpreter of the first of these versions that is here: from PATH, or pyenv's."""
    pyenv = pathlib.Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    for version in versions:
        test = f"import ensurepip, sys, venv; assert sys.version.startswith('{version}.')"
        found = [shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python")]
        for python in filter(None, found):
            if subprocess.run([python, "-c", test], capture_output=True).returncode == 0:
                return str(python)
    return None


def zig_compilers(options: str, folder: pathlib.Path) -> dict[str, str]:
    """Compilers with the options inside, as the environment names them. Libraries that are all headers
    come from this machine's packages, after everything of zig's own."""
    import ziglang

    zig = pathlib.Path(ziglang.__file__).parent / "zig"
    folder.mkdir(parents=True, exist_ok=True)
    # To ccache, a file that was just written is not another compiler.
    environment = {"CCACHE_COMPILERTYPE": "clang", "CCACHE_COMPILERCHECK": "content"}
    for variable, language in {"CC": "cc", "CXX": "c++"}.items():
        program = folder / f"zig-{language}"
        words = f'{zig} {language} {options} -idirafter /usr/include "$@"'
        program.write_text(f"#!/bin/sh\nexec {words}\n")
        program.chmod(0o755)
        environment[variable] = str(program)
    return environment


def cmake_defines(kind: Kind) -> list[str]:
    headers_of_fmt = ROOT / "cmake" / "cross"  # and no library of this machine's
    defines = [*kind.defines, "RAPT_HIP=OFF", f"CMAKE_MODULE_PATH={headers_of_fmt}"]
    link_options = "-s"  # no symbols
    if not kind.zig_options:
        link_options += " -static-libstdc++ -static-libgcc"
    elif kind.machine == "x86_64":  # libgcc knows the chip's features; zig's library does not
        command = ["gcc", "-print-libgcc-file-name"]
        libgcc = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        defines.append(f"CMAKE_CXX_STANDARD_LIBRARIES={libgcc}")
    defines += [f"CMAKE_{target}_LINKER_FLAGS={link_options}" for target in ("EXE", "MODULE")]
    if kind.machine != os.uname().machine:
        defines += ["CMAKE_SYSTEM_NAME=Linux", f"CMAKE_SYSTEM_PROCESSOR={kind.machine}"]
    return defines


def audited(wheel: pathlib.Path, kind: Kind, work: pathlib.Path) -> pathlib.Path:
    """The wheel under the name of the systems it runs on."""
    shutil.rmtree(work / "audited", ignore_errors=True)
    command = [sys.executable, "-m", "auditwheel", "repair", "-w", work / "audited", wheel]
    run(command, ENVIRONMENT, work / "audit.log")
    (result,) = (work / "audited").glob("*.whl")
    if kind.policy not in result.name:
        fail(f"{result.name} is not for {kind.policy}: auditwheel show {wheel} tells why")
    return result


def build(name: str, version: str, python: str) -> pathlib.Path:
    kind, work = KINDS[name], FOLDER / "work" / f"{name}-{version}"
    environment = ENVIRONMENT | {"_PYTHON_HOST_PLATFORM": f"linux-{kind.machine}"}
    if kind.zig_options:
        environment |= zig_compilers(kind.zig_options, FOLDER / "work" / name)
    else:
        environment |= {"CC": "gcc", "CXX": "g++"}
    shutil.rmtree(work / "wheel", ignore_errors=True)
    settings = [f"build-dir={work / 'build'}", "install.strip=false"]
    settings += [f"cmake.define.{define}" for define in cmake_defines(kind)]
    command = [python, "-m", "pip", "wheel", ROOT, "--no-deps", "--wheel-dir", work / "wheel"]
    run([*command, *(f"--config-settings={s}" for s in settings)], environment, work / "build.log")
    (wheel,) = (work / "wheel").glob("*.whl")
    result, folder = audited(wheel, kind, work), FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"rapt-*-cp{version.replace('.', '')}-*.whl"):
        old.unlink()
    return pathlib.Path(shutil.copy(result, folder))


def main() -> None:
    kinds = ", ".join(KINDS)
    parser = argparse.ArgumentParser(
        prog="./dev wheel", description="Build wheels into build/wheels/KIND."
    )
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{kinds}; all if none is named")
    options = parser.parse_args()
    for name in options.kinds:
        if name not in KINDS:
            parser.error(f"there is no kind '{name}'; there are {kinds}")
    for name in options.kinds or KINDS:
        for version in KINDS[name].versions:
            newer = ("3.13", "3.14") if version == VERSIONS[-1] else ()
            python = find_python(version, *newer)
            if not python:
                print(f"no wheel {name} for Python {version}, which is not here", flush=True)
                continue
            start = time.monotonic()
            wheel = build(name, version, python)
            seconds, size = time.monotonic() - start, wheel.stat().st_size / 1e6
            print(f"{wheel.relative_to(ROOT)}: {size:.1f} MB in {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
