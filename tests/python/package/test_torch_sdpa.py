"""with rapt.torch.sdpa(): what it reaches, and what goes to PyTorch."""

import logging
import threading

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")

from torch.nn import functional  # noqa: E402
from torch.nn.attention.bias import causal_lower_right  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as by_name  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import rapt.torch  # noqa: E402
from rapt import _torch_mode  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch.manual_seed(0)
    _torch_mode._warn.cache_clear()


@pytest.fixture
def calls(monkeypatch):
    """How rapt was called."""
    made = []
    attend = rapt.torch.scaled_dot_product_attention

    def counted(*args, **kwargs):
        made.append((args, kwargs))
        return attend(*args, **kwargs)

    monkeypatch.setattr(rapt.torch, "scaled_dot_product_attention", counted)
    return made


def heads(**options):
    return torch.randn(2, 4, 5, 8, **options)  # (batch, head, seq, dim)


def rows(x):
    return x.transpose(1, 2).flatten(2)  # (batch, seq, 32)


def multi_head(x, training=False, **options):
    torch.manual_seed(1)
    x = rows(x)
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True).train(training)
    return module(x, x, x, **options)[0]


def encoder_layer(x):
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(32, 4, batch_first=True).eval()
    with torch.inference_mode():
        return layer(rows(x))


CALLS = {
    "functional": lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True),
    "the name": lambda x: by_name(x, x, x, scale=0.3),
    "keywords": lambda x: by_name(query=x, key=x, value=x, attn_mask=torch.ones(5, 5).tril()),
    "MultiheadAttention": lambda x: multi_head(x, need_weights=False),
    "in training": lambda x: multi_head(x, training=True, need_weights=False),
    "TransformerEncoderLayer": lambda x: encoder_layer(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_inside_is_rapts_and_none_outside(name, calls, caplog):
    x = heads()
    want = CALLS[name](x)
    assert not calls
    with rapt.torch.sdpa():
        got = CALLS[name](x)
    assert len(calls) == 1 and not caplog.records
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)
    CALLS[name](x)
    assert len(calls) == 1


def test_it_decorates_functions(calls):
    x = heads()

    @rapt.torch.sdpa()
    def attend(x, deeper):
        """Calls itself, and fails at last."""
        out = by_name(x, x, x)
        assert deeper, out
        return attend(x, deeper - 1) if deeper > 1 else out

    torch.testing.assert_close(attend(x, 3), by_name(x, x, x), rtol=0, atol=2e-6)
    assert len(calls) == 3 and attend.__name__ == "attend"
    with pytest.raises(AssertionError):
        attend(x, 0)
    by_name(x, x, x)
    assert len(calls) == 4


def test_a_transformers_model_on_sdpa_is_on_rapt(calls):
    pytest.importorskip("transformers", reason="transformers is not installed")
    import models

    model = models.model("llama", "sdpa")
    ids, mask = models.prompt(padded=True)
    with torch.no_grad():
        want = model(ids, attention_mask=mask).logits
        with rapt.torch.sdpa():
            got = model(ids, attention_mask=mask).logits
    assert len(calls) == model.config.num_hidden_layers
    torch.testing.assert_close(got[mask.bool()], want[mask.bool()], rtol=0, atol=2e-5)


def test_gradients_are_pytorchs(calls):
    x = heads(requires_grad=True)
    module = torch.nn.MultiheadAttention(32, 4, batch_first=True)

    def gradients():
        out = module(*[rows(x)] * 3, need_weights=False)[0]
        return torch.autograd.grad(out.square().sum(), (x, *module.parameters()))

    want = gradients()
    with rapt.torch.sdpa():
        got = gradients()
    assert calls
    for one, other in zip(got, want):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5)


def dropped_out(x):
    torch.manual_seed(2)
    return by_name(x, x, x, dropout_p=0.999)


def of_nested(x):
    sequences = [row.transpose(0, 1) for row in x]
    nested = torch.nested.nested_tensor(sequences, layout=torch.jagged).transpose(1, 2)
    return by_name(nested, nested, nested).values()


ELSEWHERE = {
    "dropout_p is 0.999": dropped_out,
    "query is torch.float64": lambda x: by_name(*[x.double()] * 3),
    "CausalBias": lambda x: by_name(x, x, x, attn_mask=causal_lower_right(5, 5)),
    "nested tensor": of_nested,
    "need_weights=False": multi_head,
}


@pytest.mark.parametrize("reason", ELSEWHERE)
def test_what_rapt_does_not_do_goes_to_pytorch_and_is_logged_once(reason, caplog):
    x = heads()
    want = ELSEWHERE[reason](x)
    with rapt.torch.sdpa():
        for _ in range(2):
            torch.testing.assert_close(ELSEWHERE[reason](x), want, rtol=0, atol=0)
    (record,) = caplog.records
    assert record.name == "rapt" and record.levelno == logging.WARNING
    assert record.getMessage().startswith("attention goes to PyTorch: ")
    assert reason in record.getMessage()


def test_each_reason_is_logged(caplog):
    x = heads()
    with rapt.torch.sdpa():
        for p in (0.9985, 0.999, 0.9985):
            by_name(x, x, x, dropout_p=p)
    assert [record.args[0].split(";")[0] for record in caplog.records] == [
        "dropout_p is 0.9985",
        "dropout_p is 0.999",
    ]


def test_wrong_arguments_are_pytorchs_errors():
    x = heads()
    with pytest.raises(RuntimeError) as alone:
        by_name(x, x[:, :3], x)
    with rapt.torch.sdpa(), pytest.raises(RuntimeError) as inside:
        by_name(x, x[:, :3], x)
    assert str(inside.value) == str(alone.value)


def test_another_thread_is_not_reached(calls):
    x = heads()
    with rapt.torch.sdpa():
        thread = threading.Thread(target=lambda: by_name(x, x, x))
        thread.start()
        thread.join()
    assert not calls


def test_a_checkpoint_is_recomputed_by_rapt_where_its_context_says_so(calls):
    x = heads(requires_grad=True)

    def loss():
        return checkpoint(
            lambda x: by_name(x, x, x), x, use_reentrant=False,
            context_fn=lambda: (rapt.torch.sdpa(), rapt.torch.sdpa()),
        ).square().sum()  # fmt: skip

    (got,) = torch.autograd.grad(loss(), x)
    assert len(calls) == 2
    wide = x.detach().double().requires_grad_()
    (want,) = torch.autograd.grad(by_name(wide, wide, wide).square().sum(), wide)
    torch.testing.assert_close(got.double(), want, rtol=0, atol=2e-5)


class Recorded:
    """A backend of torch.compile that keeps the graphs it sees."""

    def __init__(self):
        self.targets = []

    def __call__(self, module, inputs):
        self.targets += [str(node.target) for node in module.graph.nodes]
        return module.forward


def test_torch_compile_sees_the_operator_inside_and_not_outside():
    x, graphs = heads(), Recorded()
    attend = torch.compile(lambda x: by_name(x, x, x) + 1, backend=graphs, fullgraph=True)
    with rapt.torch.sdpa():
        got = attend(x)
    assert graphs.targets.count("rapt.attention.default") == 1
    torch.testing.assert_close(got, attend(x), rtol=0, atol=2e-6)
    assert graphs.targets.count("rapt.attention.default") == 1


def test_torch_compile_sees_the_operator_inside_a_function_that_is_decorated():
    x, graphs = heads(), Recorded()

    @rapt.torch.sdpa()
    def attend(x):
        return by_name(x, x, x) + 1

    got = torch.compile(attend, backend=graphs)(x)
    assert graphs.targets.count("rapt.attention.default") == 1
    torch.testing.assert_close(got, by_name(x, x, x) + 1, rtol=0, atol=2e-6)


def test_under_torch_compile_too_other_types_go_to_pytorch(caplog):
    x = heads().double()
    attend = torch.compile(lambda x: by_name(x, x, x) + 1, backend="eager", fullgraph=True)
    with rapt.torch.sdpa():
        got = attend(x)
    torch.testing.assert_close(got, by_name(x, x, x) + 1)
    assert [record.name for record in caplog.records if record.name == "rapt"] == ["rapt"]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_keeps_the_operator(strict):
    class Module(torch.nn.Module):
        def forward(self, x):
            return functional.scaled_dot_product_attention(x, x, x)

    with rapt.torch.sdpa():
        program = torch.export.export(Module(), (heads(),), strict=strict)
    targets = [str(node.target) for node in program.graph.nodes]
    assert targets.count("rapt.attention.default") == 1
    assert not any("scaled_dot" in target for target in targets)
