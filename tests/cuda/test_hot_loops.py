"""The machine code of the CUDA kernels, on a machine that may have no GPU: the innermost loops that
multiply work in registers. What only some turns of a loop do, such as setting sums aside, may use memory.
Reads the objects of the build with cuobjdump and nvdisasm, which tests/python/requirements.txt has
where nvcc comes without them."""

import concurrent.futures
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import resources

MATRIX_PRODUCT = r"\b(HGMMA|HMMA)\b"
MULTIPLY_ADD = r"\bFFMA2?\b"
PRODUCTS = r"Flash<|Tiled(Scores|Out)<.*Config\{64,"
THREAD_MEMORY = r"\b(LDL|STL)\b"  # where spilled registers are, and arrays that found no registers


def tools():
    """The search path with NVIDIA's disassemblers on it."""
    folders = []
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else []:
        folders += map(str, pathlib.Path(folder).glob("cu*/bin"))
    path = os.pathsep.join([os.environ["PATH"], *folders])
    for tool in ["cuobjdump", "nvdisasm"]:
        if not shutil.which(tool, path=path):
            pytest.skip(f"{tool} is missing: pip install nvidia-cuda-{tool}")
    return path


class Kernel:
    """Instructions by address, and the loops they form."""

    def __init__(self, name, listing):
        self.name = name
        lines = re.findall(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?) ;", listing, re.M)
        self.code = [(int(address, 16), instruction) for address, instruction in lines]
        self.blocks, self.edges = self._graph()

    def _graph(self):
        """Basic blocks by their first instruction's index, and where each goes on."""
        index = {address: i for i, (address, _) in enumerate(self.code)}
        jumps = {}
        for i, (_, instruction) in enumerate(self.code):
            target = re.search(r"\b(?:BRA|CALL)\S* .*?0x([0-9a-f]+)\b", instruction)
            ends = re.search(r"\b(BRA|EXIT|RET|BRX)\b", instruction)
            if target or ends:
                goes_on = "CALL" in instruction or instruction.startswith("@")
                goes_on = goes_on or re.search(r"BRA\.DIV|BRA\S* !?U?P\d", instruction)
                to = [index[int(target[1], 16)]] if target and int(target[1], 16) in index else []
                jumps[i] = to + ([i + 1] if goes_on else [])
        starts = sorted({0, *(i + 1 for i in jumps), *(i for to in jumps.values() for i in to)})
        starts = [start for start in starts if start < len(self.code)]
        blocks = dict(zip(starts, [*starts[1:], len(self.code)]))
        edges = {start: jumps.get(end - 1, [end]) for start, end in blocks.items()}
        return blocks, {a: [b for b in to if b in blocks] for a, to in edges.items()}

    def count(self, pattern, blocks):
        return sum(
            bool(re.search(pattern, self.code[i][1]))
            for start in blocks
            for i in range(start, self.blocks[start])
        )

    def size(self, blocks):
        return sum(self.blocks[start] - start for start in blocks)

    def loops_of(self, pattern, at_least, blocks=None):
        """The innermost loops, as sets of blocks, that have so many instructions of a kind."""
        within = set(self.blocks) if blocks is None else blocks
        found = []
        for loop in cycles(within, self.edges):
            if self.count(pattern, loop) < at_least:
                continue
            inner = self.loops_of(pattern, at_least, loop - self.entries(loop))
            found += inner or [loop]
        return found

    def entries(self, loop):
        found = {b for a in self.blocks if a not in loop for b in self.edges[a] if b in loop}
        return found or {min(loop)}

    def every_turn(self, pattern, loop):
        """How many instructions of a kind one meets whichever way one goes round the loop."""
        entries = self.entries(loop)
        with_them = {block for block in loop if self.count(pattern, {block})}
        ways_around = {block: cycles(loop - {block}, self.edges) for block in with_them}
        return self.count(
            pattern,
            {b for b in with_them if not any(way & entries for way in ways_around[b])},
        )


def cycles(nodes, edges):
    """Sets of nodes that reach each other: strongly connected components, as Tarjan finds them."""
    order, low, stack, result = {}, {}, [], []
    for root in sorted(nodes):
        if root in order:
            continue
        work = [(root, iter(edges[root]))]
        order[root] = low[root] = len(order)
        stack.append(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in nodes:
                    continue
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    work.append((target, iter(edges[target])))
                    break
                if target in stack:
                    low[node] = min(low[node], order[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    at = stack.index(node)
                    component = set(stack[at:])
                    del stack[at:]
                    if len(component) > 1 or node in edges[node]:
                        result.append(component)
    return result


def disassemble(source):
    path = resources.object_of(source)
    environment = {**os.environ, "PATH": tools()}
    listing = subprocess.run(
        ["cuobjdump", "-sass", path], env=environment, check=True, capture_output=True, text=True
    ).stdout
    pieces = re.split(r"Function : (\S+)\n", listing)
    names = resources.readable(pieces[1::2])
    return [Kernel(name, piece) for name, piece in zip(names, pieces[2::2], strict=True)]


@pytest.fixture(scope="module")
def kernels():
    tools()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [k for found in pool.map(disassemble, resources.reports()) for k in found]


def check(kernel, pattern, at_least, most, one_in=0):
    """`most` accesses a turn, or one in so many instructions where that is more."""
    loops = kernel.loops_of(pattern, at_least)
    assert loops, f"{kernel.name} has no loop of products"
    for loop in loops:
        accesses = kernel.every_turn(THREAD_MEMORY, loop)
        allowed = max(most, kernel.size(loop) // one_in if one_in else 0)
        assert accesses <= allowed, f"{kernel.name}: {accesses} accesses to a thread's memory a turn"


def test_loops_on_tensor_cores_keep_sums_and_products_in_registers(kernels):
    chosen = [kernel for kernel in kernels if kernel.count(MATRIX_PRODUCT, kernel.blocks)]
    assert any("BF16" in kernel.name for kernel in chosen)
    for kernel in chosen:
        # A few addresses, and what scores beyond dot products keep beside them in long loops; spilled
        # sums are dozens.
        check(kernel, MATRIX_PRODUCT, 1, most=8, one_in=250)


def test_loops_of_multiply_adds_work_in_registers(kernels):
    chosen = [kernel for kernel in kernels if re.match(PRODUCTS, kernel.name)]
    assert any(kernel.name.startswith("Flash<") for kernel in chosen)
    for kernel in chosen:
        check(kernel, MULTIPLY_ADD, 16, most=0)


@pytest.mark.parametrize("instruction, accesses", [("NOP", 0), ("LDL R2, [R1]", 1)])
def test_memory_is_seen_where_every_turn_of_a_loop_touches_it(instruction, accesses):
    code = ["STL [R1], R2", "HGMMA.64x64x16.F32 R8, R4", "@P0 BRA 0x60", instruction]
    code += ["@P1 BRA 0x10", "EXIT", "STL [R1], R2", "BRA 0x30"]  # out of line: not in every turn
    listing = "".join(f"        /*{16 * i:04x}*/   {line} ;\n" for i, line in enumerate(code))
    (loop,) = (kernel := Kernel("a kernel", listing)).loops_of(MATRIX_PRODUCT, 1)
    assert kernel.count(THREAD_MEMORY, kernel.blocks) == 2 + accesses
    assert kernel.every_turn(THREAD_MEMORY, loop) == accesses
