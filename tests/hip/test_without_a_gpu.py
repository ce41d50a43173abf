"""The program with the HIP backend, on a machine that may have no AMD GPU and no driver for one."""

import json
import os
import subprocess


def rapt(*arguments):
    return subprocess.run(
        [os.environ["RAPT_PROGRAM"], *arguments], capture_output=True, text=True, check=False
    )


def test_the_portable_kernels_are_listed_under_their_names_on_hip():
    listed = json.loads(rapt("kernels", "--json").stdout)
    names = {kernel["name"] for kernel in listed if kernel["backend"] == "hip"}
    portable = {"naive", "shared", "flash", "flash_wide", "split_kv", "tiny_kv"}
    portable |= {"naive_backward", "flash_backward"}
    assert names == {f"hip.{kernel}" for kernel in portable}


def test_the_cpu_goes_on_working_beside_the_code_for_gpus():
    result = rapt("verify", "--device", "cpu", "b1 h2 s65 d64 f32 causal")
    assert result.returncode == 0, result.stderr


def test_a_gpu_that_is_not_there_is_one_sentence():
    result = rapt("verify", "--device", "hip:4095", "b1 h2 s65 d64 f32")
    assert result.returncode != 0
    assert "hip:4095" in result.stderr and len(result.stderr.strip().splitlines()) == 1
