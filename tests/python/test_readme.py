"""The README's table of kernels against the sources, which say each kernel's name once."""

import re

_DEFINITION = re.compile(
    r'(?:\.name = |(?:emulated|kernel_named|flash_on|flash_backward_on)<[^"]*>\()\s*'
    r'"((?:cpu|cuda|hip|emu)\.\w+)"'
)


def test_every_kernel_is_in_the_readme(source_dir):
    files = [*source_dir.glob("src/**/*.cpp"), *source_dir.glob("src/**/*.hpp")]
    kernels = {name for file in files for name in _DEFINITION.findall(file.read_text())}
    assert {"cpu.oracle", "cuda.gemm", "hip.flash_backward", "emu.flash_mma"} <= kernels
    named = set(re.findall(r"`((?:cpu|cuda|hip|emu)\.\w+)`", (source_dir / "README.md").read_text()))
    assert named == kernels
