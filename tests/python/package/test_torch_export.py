"""Programs that torch.export and AOTInductor make keep rapt's operators."""

import shutil

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")

from rapt.torch import flash_attn_func, scaled_dot_product_attention  # noqa: E402


class Attention(torch.nn.Module):
    """Self-attention by both functions: (batch, seq, 32), one mask over the keys."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(32, 96)

    def forward(self, x, mask):
        q, k, v = self.project(x).unflatten(2, (3, 4, 8)).unbind(2)  # (batch, seq, head, dim)
        causal = flash_attn_func(q, k, v, causal=True, window_size=(9, 0), softcap=5.0)
        rows = (y.transpose(1, 2) for y in (q, k, v))
        out = scaled_dot_product_attention(*rows, attn_mask=mask)
        return torch.nn.functional.gelu(causal + out.transpose(1, 2))


def inputs(batch=2, length=20):
    mask = torch.ones(batch, 1, 1, length, dtype=torch.bool)
    mask[0, ..., -3:] = False
    return torch.randn(batch, length, 32), mask


@pytest.fixture(scope="module")
def module():
    torch.manual_seed(0)
    return Attention().eval()


@pytest.fixture(scope="module")
def program(module):
    batch, length = torch.export.Dim("batch"), torch.export.Dim("length")
    shapes = {"x": {0: batch, 1: length}, "mask": {0: batch, 3: length}}
    return torch.export.export(module, inputs(), dynamic_shapes=shapes)


def check(function, module):
    for sizes in ((2, 20), (3, 33), (5, 4)):
        arguments = inputs(*sizes)
        with torch.no_grad():
            torch.testing.assert_close(function(*arguments), module(*arguments), rtol=0, atol=1e-6)


def operators(program):
    return [str(node.target) for node in program.graph.nodes if "rapt" in str(node.target)]


def test_an_exported_program_calls_the_operator_with_any_sizes(module, program):
    assert operators(program) == ["rapt.attention.default"] * 2
    check(program.module(), module)


def test_it_is_there_after_decomposition_and_after_a_file(module, program, tmp_path):
    assert operators(program.run_decompositions()) == ["rapt.attention.default"] * 2
    torch.export.save(program, tmp_path / "attention.pt2")
    loaded = torch.export.load(tmp_path / "attention.pt2")
    assert operators(loaded) == ["rapt.attention.default"] * 2
    check(loaded.module(), module)


@pytest.mark.skipif(not shutil.which("c++"), reason="AOTInductor compiles C++, and there is no c++")
def test_a_program_compiled_ahead_of_time_calls_the_operator(module, program, tmp_path):
    package = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "attention.pt2")
    )
    check(torch._inductor.aoti_load_package(package), module)
