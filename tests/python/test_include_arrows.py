"""Who may include whom. The folders depend on each other in one direction only, and the public
headers on the standard library alone."""

import pathlib
import re

import pytest

# What a kernel in a folder of its own may include.
CUDA_KERNEL = {
    "src/cuda/ptx", "src/cuda", "src/gpu", "src/portable", "src/semantics", "src/core",
}
# Folder -> the folders it may include besides itself and the public headers.
ARROWS = {
    "include": set(),
    "src/semantics": set(),
    "src/core": {"src/semantics"},
    "src/oracle": {"src/semantics", "src/core"},
    "src/cpu": {"src/semantics", "src/core"},
    "src/gpu": {"src/semantics"},
    "src/portable": {"src/gpu", "src/semantics", "src/core"},
    "src/cuda": {"src/cuda/ptx", "src/gpu", "src/portable", "src/semantics", "src/core"},
    "src/cuda/ptx": {"src/gpu", "src/semantics"},
    "src/cuda/hopper": {"src/cuda/ptx", "src/cuda", "src/gpu", "src/semantics", "src/core"},
    "src/cuda/flash_mma": CUDA_KERNEL,
    "src/cuda/flash_mma_backward": CUDA_KERNEL,
    "src/cuda/flash_wgmma": CUDA_KERNEL | {"src/cuda/hopper"},
    "src/cuda/flash_wgmma_backward": CUDA_KERNEL | {"src/cuda/hopper"},
    "src/cuda/flash_wgmma_f32": CUDA_KERNEL | {"src/cuda/hopper"},
    "src/hip": {"src/gpu", "src/portable", "src/semantics", "src/core"},
    "src/emulator": {"src/gpu", "src/portable", "src/semantics", "src/core"},
    "src/library": {
        "src/semantics", "src/core", "src/oracle", "src/cpu", "src/cuda", "src/hip", "src/emulator",
    },
    "src/verify": {"src/library", "src/oracle", "src/core", "src/semantics"},
    "cli": {"src/verify"},
    "python": set(),
}
# Single files that a folder may include besides.
FILES = {
    "cli": {
        "src/core/closest.hpp", "src/core/problem_tokens.hpp",
        "src/core/rates.hpp", "src/core/stream_clock.hpp", "src/core/text.hpp",
        "src/core/tuning_file.hpp", "src/core/user_folder.hpp", "src/cpu/thread_pool.hpp",
        "src/cpu/amx.hpp", "src/library/registry.hpp", "src/library/selection.hpp",
    },
    "src/emulator": {"src/cpu/thread_pool.hpp"},
    "src/gpu": {"rapt/dtype.hpp"},
}
# Compiled for GPUs too, so only what a device compiler has: these C headers, no C++ library.
DEVICE_FOLDERS = {"src/semantics", "src/gpu"}
DEVICE_HEADERS = {"stdint.h", "math.h"}
# Packages, and what may include them: nothing of an installed library.
THIRD_PARTY = {
    "fmt/": {"src/verify", "cli"},
    "CLI/": {"src/verify", "cli"},
    "nlohmann/": {"src/verify", "cli"},
    "boost/": {"src/emulator"},
    "nanobind/": {"python"},
}
STANDARD_HEADER = re.compile(r"[a-z_0-9]+|std(def|int)\.h")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".hip"}


def folder_of(path):
    """The folder of ARROWS that a path, written from the root of the repository, lies in."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] != "src":
        return parts[0]
    return "/".join(parts[: 3 if parts[1] == "cuda" and len(parts) > 3 else 2])


def faults(path, text):
    """What is wrong with the includes of one file."""
    folder = folder_of(path)
    if folder not in ARROWS:
        return [f"{path}: {folder} is a new folder: give it its arrows in this test"]
    found = []
    for name in INCLUDE.findall(text):
        if name.startswith(("src/", "cli/", "python/", "rapt/")):
            target = "include" if name.startswith("rapt/") else folder_of(name)
            allowed = ARROWS[folder] | {folder}
            if folder not in DEVICE_FOLDERS:
                allowed.add("include")
            if target not in allowed and name not in FILES.get(folder, ()):
                found.append(f"{path}: {name}: {folder} may not include {target}")
        elif name.startswith(tuple(THIRD_PARTY)):
            if folder not in THIRD_PARTY[name[: name.index("/") + 1]]:
                found.append(f"{path}: {name}: the library needs no third-party package")
        elif folder in DEVICE_FOLDERS:
            if name not in DEVICE_HEADERS:
                found.append(f"{path}: {name}: {folder} may include {DEVICE_HEADERS} only")
        elif folder == "include":
            if not STANDARD_HEADER.fullmatch(name):
                found.append(f"{path}: {name} is not a standard header")
        elif name.endswith(".hpp"):
            found.append(f"{path}: {name} is not written from the root of the repository")
    return found


def source_files(source_dir):
    for top in ["include", "src", "cli", "python"]:
        for path in sorted((source_dir / top).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path


def test_every_include_follows_an_arrow(source_dir):
    files = list(source_files(source_dir))
    assert len(files) > 20
    found = []
    for path in files:
        found += faults(path.relative_to(source_dir).as_posix(), path.read_text())
    assert not found, "\n".join(found)


def is_device_header(path):
    return path.endswith(".cuh") or path.startswith("src/gpu/")


def reached(path, texts):
    """All headers of ours that a file includes, by way of others too: each with the file that
    includes it."""
    found, left = {}, [path]
    while left:
        at = left.pop()
        for name in INCLUDE.findall(texts[at]):
            header = f"include/{name}" if name.startswith("rapt/") else name
            if header in texts and header not in found:
                found[header] = at
                left.append(header)
    return found


def heavy_headers(texts):
    """Device headers that reach the public API, and by way of which file."""
    return [
        f"{path}: reaches rapt/rapt.hpp through {found['include/rapt/rapt.hpp']}"
        for path in texts
        if is_device_header(path)
        and "include/rapt/rapt.hpp" in (found := reached(path, texts))
    ]


def test_no_device_header_reaches_the_public_api(source_dir):
    texts = {
        path.relative_to(source_dir).as_posix(): path.read_text()
        for path in source_files(source_dir)
    }
    assert sum(map(is_device_header, texts)) > 40
    assert not heavy_headers(texts)


def test_a_device_header_that_reaches_the_public_api_is_caught():
    texts = {
        "include/rapt/rapt.hpp": "",
        "src/cuda/check.hpp": '#include "rapt/rapt.hpp"',
        "src/cuda/launcher.cuh": '#include "src/cuda/check.hpp"',
        "src/cuda/target.cuh": '#include "src/gpu/target.hpp"',
        "src/gpu/target.hpp": "#include <stdint.h>",
    }
    assert heavy_headers(texts) == [
        "src/cuda/launcher.cuh: reaches rapt/rapt.hpp through src/cuda/check.hpp"
    ]


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/cpu/naive.cpp", '#include "src/library/registry.hpp"'),
        ("src/cuda/ptx/tma.cuh", '#include "src/cuda/hopper/pipeline.cuh"'),
        ("src/cuda/ptx/tma.cuh", '#include "src/cuda/target.cuh"'),
        ("src/cuda/hopper/pipeline.cuh", '#include "src/cuda/flash_wgmma/parameters.hpp"'),
        ("src/cuda/flash_mma/b16_32.cu", '#include "src/cuda/flash_wgmma/softmax.cuh"'),
        ("src/cuda/flash_mma/b16_32.cu", '#include "src/cuda/hopper/pipeline.cuh"'),
        ("src/cuda/flash_wgmma_f32/storage.cuh", '#include "src/cuda/flash_wgmma/work_tile.cuh"'),
        ("src/cuda/flash_wgmma/kernel.cuh", '#include "src/cuda/flash_wgmma_f32/pieces.cuh"'),
        ("src/cuda/device.cpp", '#include "src/cuda/flash_wgmma/tile_config.hpp"'),
        ("src/cuda/new/kernel.cuh", '#include "src/cuda/target.cuh"'),
        ("src/library/registry.cpp", '#include "src/cuda/hopper/pipeline.cuh"'),
        ("src/gpu/launch.hpp", '#include "rapt/rapt.hpp"'),
        ("src/core/text.cpp", '#include "src/cpu/device.hpp"'),
        ("src/core/text.cpp", '  #  include "src/oracle/oracle.hpp"'),
        ("src/semantics/score.hpp", "#include <cmath>"),
        ("src/semantics/score.hpp", '#include "rapt/rapt.hpp"'),
        ("src/core/text.cpp", "#include <fmt/format.h>"),
        ("src/library/plan.cpp", '#include "src/verify/conformance.hpp"'),
        ("src/library/plan.cpp", '#include "registry.hpp"'),
        ("src/library/plan.cpp", "#include <boost/context/fiber.hpp>"),
        ("src/emulator/block.cpp", '#include "src/cpu/device.hpp"'),
        ("src/new/file.cpp", "#include <vector>"),
        ("include/rapt/rapt.hpp", "#include <fmt/format.h>"),
        ("include/rapt/rapt.hpp", "#include <cuda_runtime_api.h>"),
        ("include/rapt/rapt.hpp", '#include "src/core/text.hpp"'),
        ("cli/main.cpp", '#include "src/cpu/device.hpp"'),
        ("cli/main.cpp", '#include "src/core/layout.hpp"'),
        ("cli/main.cpp", '#include "src/library/tuning.hpp"'),
        ("python/module/module.cpp", '#include "src/core/text.hpp"'),
        ("src/core/text.cpp", "#include <nanobind/nanobind.h>"),
    ],
)
def test_a_forbidden_include_is_caught(path, line):
    assert len(faults(path, f"// A file.\n{line}\nint x;\n")) == 1


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/cpu/naive.cpp", '#include "src/core/call.hpp"'),
        ("src/core/text.cpp", '#include "rapt/rapt.hpp"'),
        ("src/semantics/score.hpp", "#include <math.h>"),
        ("include/rapt/rapt.h", "#include <stdint.h>"),
        ("include/rapt/rapt.hpp", "#include <string_view>"),
        ("src/emulator/fibers.hpp", "#include <boost/context/fiber.hpp>"),
        ("src/emulator/launcher.cpp", '#include "src/cpu/thread_pool.hpp"'),
        ("cli/main.cpp", "#include <fmt/format.h>"),
        ("cli/main.cpp", '#include "src/verify/conformance.hpp"'),
        ("cli/main.cpp", '#include "src/core/text.hpp"'),
        ("cli/main.cpp", '#include "src/core/tuning_file.hpp"'),
        ("python/module/module.cpp", "#include <nanobind/nanobind.h>"),
        ("python/module/module.cpp", '#include "python/module/request.hpp"'),
        ("src/cuda/hopper/pipeline.cuh", '#include "src/cuda/ptx/barrier.cuh"'),
        ("src/cuda/flash_wgmma/kernel.cuh", '#include "src/cuda/hopper/pipeline.cuh"'),
        ("src/library/registry.cpp", '#include "src/cuda/kernels.hpp"'),
        ("src/gpu/launch.hpp", '#include "rapt/dtype.hpp"'),
    ],
)
def test_an_allowed_include_passes(path, line):
    assert faults(path, line) == []
