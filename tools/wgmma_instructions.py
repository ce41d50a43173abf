#!/usr/bin/env python3
"""Writes src/cuda/ptx/wgmma_instructions.cuh: an asm statement for each wgmma that kernels use.

The instruction names every register of its result, n / 2 of them in a thread, and asm statements
number their operands. No template can count those, so a program does:

    tools/wgmma_instructions.py

To have another shape, add its n to the lists below.
"""

import pathlib

HEADER = pathlib.Path(__file__).resolve().parents[1] / "src/cuda/ptx/wgmma_instructions.cuh"

# By element: PTX's type, k, and the n for which A lies in shared memory, or in registers.
SHAPES = {
    "F16": ("f16", 16, {32, 40, 64, 80, 96, 112, 128}, {32, 64, 96, 128, 192, 256}),
    "BF16": ("bf16", 16, {32, 40, 64, 80, 96, 112, 128}, {32, 64, 96, 128, 192, 256}),
    "float": ("tf32", 8, set(), {32, 64, 128}),
}

START = """\
// The wgmma instructions, for wgmma.cuh, which tells what they do. Written by
// tools/wgmma_instructions.py.
#pragma once

#include <stdint.h>

#include "src/gpu/target.hpp"

namespace rapt::cuda::ptx {

// Of D (64, n) += A (64, k) · B (k, n): from_shared() has A in shared memory, from_registers() in
// registers. Matrices in shared memory are given by their descriptors.
template <class Element, int n>
struct WgmmaInstruction;

// clang-format off
// Eight columns of D.
#define RAPT_SUMS(j) "+f"(d[j][0]), "+f"(d[j][1]), "+f"(d[j][2]), "+f"(d[j][3])
"""

END = """
#undef RAPT_SUMS
// clang-format on

}  // namespace rapt::cuda::ptx
"""


def statement(n, k, types, operands, options, inputs):
    """The asm statement. `operands` are those after D and `options` what follows them in the
    instruction, with {i} for the i-th of the inputs."""
    first = n // 2
    numbers = [f"%{i}" for i in range(first)]
    at = [f"%{first + i}" for i in range(len(inputs))]
    lines = ["asm volatile("]
    add = at[[name for _, name in inputs].index("int{add}")]
    lines.append(f'    "{{.reg .pred add; setp.ne.b32 add, {add}, 0;"')
    lines.append(f'    "wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{types}.{types} {{"')
    texts = [",".join(numbers[i : i + 16]) for i in range(0, first, 16)]
    lines += [f'    "{text},"' for text in texts[:-1]] + [f'    "{texts[-1]}"']
    lines.append(f'    "}}, {operands.format(*at)}, add, 1, 1{options.format(*at)};}}"')
    sums = [f"RAPT_SUMS({j})" for j in range(n // 8)]
    groups = [", ".join(sums[i : i + 6]) for i in range(0, len(sums), 6)]
    lines += ["    : " + ",\n          ".join(groups)]
    lines.append("    : " + ", ".join(f'"{kind}"({name})' for kind, name in inputs) + ");")
    return lines


def instruction(element, n):
    types, k, shared, registers = SHAPES[element]
    d = f"float (&d)[{n // 8}][4]"
    lines = ["", "template <>", f"struct WgmmaInstruction<{element}, {n}> {{"]
    if n in shared:
        arguments = f"{d}, uint64_t a, uint64_t b, bool add"
        lines.append("  template <int a_is_mn_major = 0, int b_is_mn_major = 0>")
        lines.append(f"  RAPT_DEVICE static void from_shared({arguments}) {{")
        inputs = [("l", "a"), ("l", "b"), ("r", "int{add}")]
        inputs += [("n", "a_is_mn_major"), ("n", "b_is_mn_major")]
        lines += ["    " + x for x in statement(n, k, types, "{0}, {1}", ", {3}, {4}", inputs)]
        lines.append("  }")
    if n in registers:
        inputs = [("r", f"a[{i}]") for i in range(4)] + [("l", "b"), ("r", "int{add}")]
        options = ""
        if element != "float":  # has no other layout than K-major
            lines.append("  template <int b_is_mn_major = 0>")
            inputs.append(("n", "b_is_mn_major"))
            options = ", {6}"
        lines.append(
            f"  RAPT_DEVICE static void from_registers({d}, const uint32_t (&a)[4], uint64_t b,\n"
            "                                         bool add) {"
        )
        body = statement(n, k, types, "{{{0},{1},{2},{3}}}, {4}", options, inputs)
        lines += ["    " + x for x in body]
        lines.append("  }")
    return lines + ["};"]


def header():
    lines = []
    for element, (_, _, shared, registers) in SHAPES.items():
        for n in sorted(shared | registers):
            lines += instruction(element, n)
    return START + "\n".join(lines) + "\n" + END


if __name__ == "__main__":
    HEADER.write_text(header())
