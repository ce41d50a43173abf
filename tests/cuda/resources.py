"""What ptxas said of each CUDA kernel of a build (cmake/keep_resources.sh keeps it beside the
objects), and what of it is recorded in resources.txt. This records it anew:

    cmake --build build/release --target rapt_record_resources
"""

import os
import pathlib
import re
import subprocess
from dataclasses import dataclass

RECORD = pathlib.Path(__file__).with_name("resources.txt")
SOURCES = pathlib.Path(__file__).resolve().parents[2] / "src"
# Folders of objects, which lie in them as sources do in src.
OBJECTS = [pathlib.Path(folder) for folder in os.environ["RAPT_CUDA_OBJECTS"].split(os.pathsep)]
COMPILER = os.environ["RAPT_CUDA_COMPILER_VERSION"]
COLUMNS = ["registers", "spilled", "stack", "shared"]


@dataclass(frozen=True)
class Kernel:
    architecture: str
    name: str

    def __str__(self):
        return f"{self.architecture} {self.name}"


def object_of(source):
    """The object of a source file; where there is none, in the first folder."""
    objects = [folder / f"{source}.o" for folder in OBJECTS]
    return next((path for path in objects if path.exists()), objects[0])


def reports():
    """By source file: what ptxas said, or None where nothing was kept."""
    result = {}
    for path in sorted(SOURCES.glob("cuda/**/*.cu")):
        source = path.relative_to(SOURCES)
        report = object_of(source).with_suffix(".o.resources")
        result[source] = report.read_text() if report.exists() else None
    return result


def readable(symbols):
    """Kernels as one names them: templates with their configs, few namespaces and no arguments."""
    demangled = subprocess.run(
        ["c++filt"], input="\n".join(symbols), check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in demangled:
        name = re.sub(r"^void |\brapt::|\b(cuda|gpu)::|\bTarget, ", "", name)
        name = re.sub(
            r"\b\w+::(?=\w*Config\{)|\([\w:]+\)(?=-?\d)", "", name
        )  # and types of enumerators
        entry = re.match(r"(?:\w+::)*entry<(.*)>\(.*\)$", name)
        yield (entry[1] if entry else name.split("(")[0]).strip()


def parse(report):
    """By kernel: bytes and registers as in COLUMNS. Spilled are the bytes stored and loaded."""
    found = []
    for part in re.split(r"Compiling entry function ", report)[1:]:
        symbol, architecture = re.match(r"'(\w+)' for '(\w+)'", part).groups()
        memory = re.search(
            rf"properties for {symbol}\n +(\d+) bytes stack frame, (\d+) bytes spill stores, "
            r"(\d+) bytes spill loads",
            part,
        )
        stack, stored, loaded = map(int, memory.groups())
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        shared = re.search(r"(\d+) bytes smem", part)
        figures = (registers, stored + loaded, stack, int(shared[1]) if shared else 0)
        found.append((architecture, symbol, figures))
    names = readable([symbol for _, symbol, _ in found])
    return {Kernel(row[0], name): row[2] for row, name in zip(found, names, strict=True)}


def built():
    """All kernels of the build."""
    result = {}
    for report in reports().values():
        result.update(parse(report or ""))
    return result


def recorded():
    """The compiler of the record, and its kernels."""
    lines = RECORD.read_text().splitlines()
    compiler = next(line.split()[-1] for line in lines if line.startswith("# nvcc"))
    result = {}
    for line in lines:
        if line and not line.startswith("#"):
            architecture, *figures, name = line.split(maxsplit=1 + len(COLUMNS))
            result[Kernel(architecture, name)] = tuple(map(int, figures))
    return compiler, result


def record():
    lines = [
        "# By kernel: registers of a thread, bytes spilled, of stack and of static shared memory.",
        "# Written by: cmake --build build/release --target rapt_record_resources",
        f"# nvcc {COMPILER}",
        "# architecture " + " ".join(COLUMNS) + " kernel",
    ]
    for kernel, figures in sorted(built().items(), key=lambda item: str(item[0])):
        cells = " ".join(f"{figure:4}" for figure in figures)
        lines.append(f"{kernel.architecture:7} {cells}  {kernel.name}")
    RECORD.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    record()
