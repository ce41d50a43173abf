"""Reads what tests/oracle_dump writes: problems, their arguments and results, as raw memory."""

import dataclasses
import json
import subprocess

import numpy as np

STORED = {
    "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
    "i32": np.int32, "u8": np.uint8, "i64": np.int64,
}  # fmt: skip


@dataclasses.dataclass
class Memory:
    """One tensor and all the memory around it."""

    data: np.ndarray  # bytes
    dtype: str
    size: list
    stride: list  # in elements
    begin: int  # bytes before the first element

    def view(self):
        """The tensor as it is stored: bf16 as its 16 bits."""
        stored = np.dtype(STORED[self.dtype])
        strides = [stride * stored.itemsize for stride in self.stride]
        return np.ndarray(self.size, stored, self.data, self.begin, strides)

    def numbers(self, real=np.float64):
        """The tensor as numbers."""
        stored = self.view()
        if self.dtype == "bf16":  # the upper half of an f32
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        return stored.astype(real)


@dataclasses.dataclass
class Case:
    problem: str
    seed: int
    fields: dict
    inputs: dict  # Memory by argument name
    results: dict  # by kernel: Memory by "out" and "lse"


def cases(program, seed, *what):
    """`what`: how many random problems, or the problems themselves."""
    command = [str(part) for part in [program, seed, *what]]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        while line := process.stdout.readline():
            description = json.loads(line)
            case = Case(description["problem"], description["seed"], description["fields"], {}, {})
            for memory in description["memories"]:
                name, count = memory.pop("name"), memory.pop("bytes")
                data = np.frombuffer(bytearray(process.stdout.read(count)), np.uint8)
                assert data.size == count, f"{command} ended early"
                kernel, _, result = name.partition(" ")
                place = case.results.setdefault(kernel, {}) if result else case.inputs
                place[result or name] = Memory(data, **memory)
            yield case
    assert process.returncode == 0, f"{command} failed"
