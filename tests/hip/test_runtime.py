"""The HIP runtime is loaded when an AMD GPU is asked for, and not before: with a runtime that
computes nothing, with one that is not whole, and with none."""

import json
import os
import pathlib
import shutil
import subprocess

import pytest

PROBLEM = "b1 h1 s4 d4 f32"
NAMES = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"]


def rapt(folder, *arguments, **environment):
    return subprocess.run(
        [os.environ["RAPT_PROGRAM"], *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(folder), **environment},
    )


def devices(folder):
    return json.loads(rapt(folder, "devices", "--json").stdout)


def library(folder, *source):
    """The library, under all the names that rapt looks for."""
    include = ["-idirafter", os.environ["RAPT_HIP_INCLUDE"], "-D__HIP_PLATFORM_AMD__=1"]
    built = folder / "built"
    command = ["c++", "-std=c++20", "-shared", "-fPIC", *include, *source, "-o", built]
    subprocess.run(command, check=True)
    for name in NAMES:
        shutil.copy(built, folder / name)
    return folder


@pytest.fixture(scope="module")
def fake(tmp_path_factory):
    source = pathlib.Path(__file__).with_name("fake_runtime.cpp")
    return library(tmp_path_factory.mktemp("fake"), source)


@pytest.fixture
def none(tmp_path):
    for name in NAMES:  # found before any other, and not loadable
        (tmp_path / name).write_text("")
    return tmp_path


def test_the_devices_of_a_runtime_that_is_there_are_listed(fake):
    (device,) = [d for d in devices(fake) if d["backend"] == "hip"]
    assert device["device"] == "hip:0" and device["name"] == "Fake"
    assert device["features"] == ["gfx90a", "wave64"]


def test_a_kernel_of_every_file_is_known_to_a_runtime_that_was_loaded_after_it(fake):
    forward = ["naive", "shared", "flash", "flash_wide", "split_kv", "tiny_kv"]
    for kernel in [*forward, "naive_backward", "flash_backward"]:
        problem = f"{PROBLEM} backward" if "backward" in kernel else PROBLEM
        result = rapt(fake, "verify", "--device", "hip:0", "--kernel", f"hip.{kernel}", problem)
        assert result.returncode == 1, result.stderr  # it computes nothing
        assert "launched _ZN4rapt3hip5entry" in result.stderr, (kernel, result.stderr)


def test_without_a_runtime_there_are_no_amd_gpus_and_asking_for_one_says_so(none):
    assert not any(device["backend"] == "hip" for device in devices(none))
    result = rapt(none, "verify", "--device", "hip:0", PROBLEM)
    assert result.returncode == 2
    for name in NAMES[1:]:
        assert name in result.stderr, result.stderr
    assert "this machine has 0 hip devices (no HIP runtime: none of " in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_runtime_that_lacks_functions_is_as_good_as_none(tmp_path):
    folder = library(tmp_path, "-x", "c++", "/dev/null")
    result = rapt(folder, "verify", "--device", "hip:0", PROBLEM)
    assert "the HIP runtime here lacks a function that rapt needs" in result.stderr
    assert not any(device["backend"] == "hip" for device in devices(folder))


def test_the_cpu_alone_loads_no_runtime(fake):
    verify = ["verify", "--device"]
    assert "libamdhip64" not in rapt(fake, *verify, "cpu", PROBLEM, LD_DEBUG="files").stderr
    assert "libamdhip64" in rapt(fake, *verify, "hip:0", PROBLEM, LD_DEBUG="files").stderr
