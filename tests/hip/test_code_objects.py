"""What the HIP compiler made of the kernels, for every architecture: nothing here runs on a GPU, so
the instructions are looked at. Reads the objects of the build."""

import functools
import os
import pathlib
import re
import struct
import subprocess

import pytest

OBJECTS = sorted(pathlib.Path(os.environ["RAPT_HIP_OBJECTS"]).glob("*.hip.o"))
ARCHITECTURES = os.environ["RAPT_HIP_ARCHITECTURES"].split(",")
TOOLS = pathlib.Path(os.environ["RAPT_HIP_TOOLS"])  # LLVM's, of the compiler's version

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
WIDE_LOAD = r"global_load_(dwordx4|b128)"
WIDE_STORE = r"global_store_(dwordx4|b128)"
# The compiler's way around a wide load, where part of it could be shared with something else.
SPLIT_LOAD = r"global_load_(dwordx3|b96)"
WIDE_SHARED_LOAD = r"ds_(read|load)_b128"
WIDE_SHARED_STORE = r"ds_(write|store)_b128"
THREAD_MEMORY = r"scratch_(load|store)|buffer_(load|store)"
# Scalar registers that did not suffice, kept in a vector register.
SPILLED_SCALAR = r"v_(read|write)lane_b32"
# Packed and dual instructions do two.
MULTIPLY_ADD = r"v_(pk_|dual_)?(fma|fmac|mac)_(f32|mix)"


def run(tool, *arguments):
    command = [TOOLS / tool, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def code_objects(path, folder):
    """The ELF files inside an object's bundle, by architecture."""
    bundle = folder / "bundle"
    run("llvm-objcopy", f"--dump-section=.hip_fatbin={bundle}", path, folder / "rest")
    data = bundle.read_bytes()
    assert data.startswith(MAGIC)
    (count,) = struct.unpack_from("<Q", data, len(MAGIC))
    at = len(MAGIC) + 8
    result = {}
    for _ in range(count):
        offset, size, length = struct.unpack_from("<QQQ", data, at)
        entry = data[at + 24 : at + 24 + length].decode()
        at += 24 + length
        if entry.startswith("hip"):
            code = folder / entry
            code.write_bytes(data[offset : offset + size])
            result[entry.rsplit("-", 1)[1]] = code
    return result


class Kernel:
    def __init__(self, architecture, name, notes, code):
        self.architecture, self.name, self.code = architecture, name, code
        self.facts = {key: int(value) for key, value in re.findall(r"\.(\w+): +(\d+)$", notes, re.M)}

    def count(self, pattern):
        return len(re.findall(rf"^\t{pattern}", self.code, re.M))

    def loops(self):
        """The instructions of each innermost loop: from a label to a branch back to it."""
        lines = self.code.splitlines()
        labels = {m[1]: i for i, line in enumerate(lines) if (m := re.search(r"<(L\d+)>:$", line))}
        spans = []
        for i, line in enumerate(lines):
            branch = re.match(r"\ts_c?branch\S* (L\d+)", line)
            if branch and labels[branch[1]] < i:
                spans.append((labels[branch[1]], i))
        for first, last in spans:
            if not any(first <= a and b <= last and (a, b) != (first, last) for a, b in spans):
                yield "\n".join(lines[first:last])

    def __repr__(self):
        return f"{self.architecture}: {self.name}"


@functools.cache
def kernels(folder):
    result = []
    for path in OBJECTS:
        for architecture, code in code_objects(path, folder).items():
            notes = run("llvm-readelf", "--notes", code)
            listing = run("llvm-objdump", "-d", "--no-show-raw-insn", "--symbolize-operands", code)
            pieces = re.split(r"^\w+ <(_Z\S+)>:$", listing, flags=re.M)
            functions = dict(zip(pieces[1::2], pieces[2::2], strict=True))
            described = {
                re.search(r"^    \.name: +(\S+)$", part, re.M)[1]: part
                for part in re.split(r"^  - \.a", notes, flags=re.M)[1:]
            }
            names = run("llvm-cxxfilt", *described).splitlines()
            for (symbol, part), name in zip(described.items(), names, strict=True):
                name = re.sub(r"rapt::(\w+::)?|^void |\(.*", "", name)
                result.append(Kernel(architecture, name, part, functions[symbol]))
    return result


@pytest.fixture(scope="session")
def all_kernels(tmp_path_factory):
    return kernels(tmp_path_factory.mktemp("code"))


def named(kernels, pattern):
    found = [kernel for kernel in kernels if re.search(pattern, kernel.name)]
    assert {kernel.architecture for kernel in found} == set(ARCHITECTURES)
    return found


PLAIN_TINY_KV = r"TinyKv<.*\{\d+, true\}"
PLAIN_SPLIT_KV = r"SplitKvPartial<.*\{\d+, \d+, true\}"
FLASH = r"\bFlash<"
MERGE = r"\bMerge<"


def test_every_architecture_has_the_same_kernels(all_kernels):
    assert len(OBJECTS) == 9
    names = {a: [k.name for k in all_kernels if k.architecture == a] for a in ARCHITECTURES}
    assert len(names[ARCHITECTURES[0]]) > 50
    for architecture in ARCHITECTURES:
        assert sorted(names[architecture]) == sorted(names[ARCHITECTURES[0]])


def test_waves_have_64_lanes_on_cdna_and_32_on_rdna(all_kernels):
    for kernel in all_kernels:
        expected = 64 if kernel.architecture.startswith("gfx9") else 32
        assert kernel.facts["wavefront_size"] == expected, kernel


def test_every_access_says_which_memory_it_means(all_kernels):
    for kernel in all_kernels:
        assert kernel.count(r"flat_") == 0, kernel


@pytest.mark.parametrize("pattern", [PLAIN_TINY_KV, PLAIN_SPLIT_KV, FLASH, MERGE])
def test_hot_kernels_read_16_bytes_at_a_time(all_kernels, pattern):
    for kernel in named(all_kernels, pattern):
        assert kernel.count(WIDE_LOAD) > 0 and kernel.count(SPLIT_LOAD) == 0, kernel


@pytest.mark.parametrize("pattern", [PLAIN_TINY_KV, PLAIN_SPLIT_KV, MERGE])
def test_memory_bound_kernels_write_16_bytes_at_a_time(all_kernels, pattern):
    for kernel in named(all_kernels, pattern):
        assert kernel.count(WIDE_STORE) > 0, kernel


@pytest.mark.parametrize("pattern", [PLAIN_SPLIT_KV, FLASH, r"TiledScores<"])
def test_shared_memory_is_accessed_16_bytes_at_a_time(all_kernels, pattern):
    for kernel in named(all_kernels, pattern):
        assert kernel.count(WIDE_SHARED_LOAD) > 0 and kernel.count(WIDE_SHARED_STORE) > 0, kernel


@pytest.mark.parametrize(
    "pattern", [PLAIN_TINY_KV, PLAIN_SPLIT_KV, FLASH, MERGE, r"Tiled(Scores|Out)<"]
)
def test_hot_kernels_have_registers_enough(all_kernels, pattern):
    for kernel in named(all_kernels, pattern):
        # Tiles of eight rows leave a few values in memory that their loop does not always need.
        largest = re.search(r"SplitKvConfig\{\d+, 8,", kernel.name)
        assert kernel.facts["vgpr_spill_count"] <= (16 if largest else 0), kernel


def test_tiny_kv_keeps_everything_in_registers(all_kernels):
    for kernel in named(all_kernels, PLAIN_TINY_KV):
        assert kernel.facts["private_segment_fixed_size"] == 0, kernel
        assert kernel.facts["group_segment_fixed_size"] == 0, kernel
        assert kernel.facts["sgpr_spill_count"] == 0, kernel


@pytest.mark.parametrize("pattern", [FLASH, r"Tiled(Scores|Out)<.*Config\{64,"])
def test_loops_of_products_work_from_shared_memory_and_registers_alone(all_kernels, pattern):
    for kernel in named(all_kernels, pattern):
        products = [loop for loop in kernel.loops() if len(re.findall(MULTIPLY_ADD, loop)) >= 16]
        assert products, kernel
        for loop in products:
            assert re.search(WIDE_SHARED_LOAD, loop), kernel
            assert not re.search(f"{THREAD_MEMORY}|{SPILLED_SCALAR}", loop), kernel
