"""Gradients through rapt.torch on CPU tensors, against those of PyTorch's own attention in f64."""

import pathlib
import runpy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import rapt.torch  # noqa: E402
from rapt.torch import (  # noqa: E402
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    scaled_dot_product_attention,
)

EXAMPLE = runpy.run_path(
    str(pathlib.Path(__file__).resolve().parents[3] / "examples" / "python" / "train_gpt.py")
)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def leaves(*sizes, dtype=torch.float32):
    return [torch.randn(size).to(dtype).requires_grad_() for size in sizes]


def usual():
    return leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6))


def gradients(function, tensors):
    """Of a sum of the result with weights of its own each."""
    result = function(*tensors)
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(7))
    return torch.autograd.grad((result * weights.to(result.dtype)).sum(), tensors)


def assert_equal(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other):
        assert torch.equal(a, b)


def assert_gradients_are_pytorchs(tensors, bound=3e-6, **options):
    """tensors are query, key, value and perhaps a float mask."""
    got = gradients(lambda *t: scaled_dot_product_attention(*t, **options), tensors)
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    want = gradients(lambda *t: functional.scaled_dot_product_attention(*t, **options), wide)
    for tensor, gradient, exact in zip(tensors, got, want):
        assert gradient.dtype == tensor.dtype
        torch.testing.assert_close(gradient.double(), exact, rtol=0, atol=bound)


MASK = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.5
MASK[0, 0, 1] = False  # a row that sees nothing
CALLS = {
    "nothing else": {},
    "is_causal starts at the first key": {"is_causal": True},
    "a scale": {"scale": 0.3},
    "a boolean mask": {"attn_mask": MASK},
    "a boolean mask of two axes": {"attn_mask": MASK[1, 0]},
    "a float mask of minus infinities": {"attn_mask": torch.where(MASK, 0.0, float("-inf"))},
}


@pytest.mark.parametrize("call", CALLS)
def test_gradients_are_pytorchs(call):
    assert_gradients_are_pytorchs(usual(), **CALLS[call])


SHAPES = {
    "no batch": [(4, 5, 8), (4, 7, 8), (4, 7, 8)],
    "one head": [(5, 8), (7, 8), (7, 8)],
    "two batch axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8)],
    "a shared batch": [(2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)],
    "shared heads": [(2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)],
    "a bias of all axes": [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (2, 4, 5, 7)],
    "a bias of the heads": [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (4, 1, 7)],
    "a bias of the keys": [(2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (7,)],
    "a bias of two batch axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8), (3, 1, 5, 7)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_for_any_shapes(name):
    assert_gradients_are_pytorchs(leaves(*SHAPES[name]), 1e-5)


def test_gradients_of_grouped_heads_are_summed():
    tensors = leaves((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    assert_gradients_are_pytorchs(tensors, enable_gqa=True)


@pytest.mark.parametrize("dtype, bound", [(torch.float16, 1e-2), (torch.bfloat16, 6e-2)])
def test_gradients_of_sixteen_bits(dtype, bound):
    tensors = leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (5, 7), dtype=dtype)
    assert_gradients_are_pytorchs(tensors, bound)


def test_an_expanded_bias_has_the_gradient_of_each_of_its_parts():
    q, k, v, bias = leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (5, 7))
    expanded = bias.expand(2, 4, 5, 7)
    got = gradients(lambda mask: scaled_dot_product_attention(q, k, v, mask), [expanded])[0]
    copied = gradients(
        lambda mask: scaled_dot_product_attention(q, k, v, mask), [expanded.contiguous()]
    )[0]
    assert torch.equal(got, copied)
    of_parts = gradients(
        lambda bias: scaled_dot_product_attention(q, k, v, bias.expand(2, 4, 5, 7)), [bias]
    )[0]
    assert torch.equal(of_parts, got.sum(dim=(0, 1)))


@pytest.mark.parametrize("wanted", range(4))
def test_only_what_requires_grad_has_a_gradient(wanted):
    tensors = leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (5, 7))
    whole = gradients(scaled_dot_product_attention, tensors)
    for i, tensor in enumerate(tensors):
        tensor.requires_grad_(i == wanted)
    assert_equal(
        gradients(lambda _: scaled_dot_product_attention(*tensors), tensors[wanted : wanted + 1]),
        whole[wanted : wanted + 1],
    )


def test_a_gradient_may_come_with_any_strides():
    tensors = usual()
    want = torch.autograd.grad(scaled_dot_product_attention(*tensors), tensors, torch.ones(2, 4, 5, 6))
    summed = scaled_dot_product_attention(*tensors).sum()  # one number for all
    assert_equal(torch.autograd.grad(summed, tensors), want)
    apart = torch.ones(2, 4, 6, 5).transpose(2, 3)
    assert_equal(
        torch.autograd.grad(scaled_dot_product_attention(*tensors), tensors, apart), want
    )


FEATURES = {
    "lse": {},
    "a window and first keys": {"causal": True, "left": 1, "first_keys": 2},
    "a soft cap": {"softcap": 2.0},
    "kv_lengths": {"kv_lengths": torch.tensor([4, 7], dtype=torch.int32)},
    "sinks, slopes and a bias": {"sinks": (4,), "alibi": (2, 4), "bias": (4, 5, 7)},
}


@pytest.mark.filterwarnings("ignore:Input #")
@pytest.mark.parametrize("name", FEATURES)
def test_gradients_are_what_differences_say(name):
    options = dict(FEATURES[name])
    sizes = {key: size for key, size in options.items() if isinstance(size, tuple)}
    tensors = leaves((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 6), *sizes.values())

    def call(q, k, v, *others):
        logits = dict(zip(sizes, others))
        return torch.ops.rapt.attention_with_lse(q, k, v, **(options | logits))

    torch.autograd.gradcheck(call, tensors, eps=2e-2, atol=4e-3, rtol=4e-3)


def test_flash_attn_func_has_the_same_gradients_deterministic_or_not():
    q, k, v = leaves((2, 5, 4, 8), (2, 7, 2, 8), (2, 7, 2, 8))
    slopes = torch.rand(4).requires_grad_()
    options = {"causal": True, "window_size": (3, -1), "softcap": 5.0}
    runs = [
        gradients(
            lambda q, k, v, slopes: flash_attn_func(
                q, k, v, alibi_slopes=slopes, deterministic=deterministic, **options
            ),
            (q, k, v, slopes),
        )
        for deterministic in (False, True, True)
    ]
    assert_equal(runs[0], runs[1])
    assert_equal(runs[1], runs[2])
    assert all(gradient.abs().max() > 0 for gradient in runs[0])


def test_packed_sequences_have_the_gradients_of_each():
    q, k, v = leaves((5, 4, 8), (7, 2, 8), (7, 2, 8))
    q_starts, kv_starts = [0, 2, 5], [0, 4, 7]

    def packed(q, k, v):
        starts = [torch.tensor(starts, dtype=torch.int32) for starts in (q_starts, kv_starts)]
        return flash_attn_varlen_func(q, k, v, *starts, 3, 4, causal=True)

    def each(q, k, v):
        results = []
        for i in range(2):
            mine = slice(q_starts[i], q_starts[i + 1])
            keys = slice(kv_starts[i], kv_starts[i + 1])
            results.append(flash_attn_func(q[None, mine], k[None, keys], v[None, keys], causal=True))
        return torch.cat(results, dim=1)[0]

    for one, other in zip(gradients(packed, (q, k, v)), gradients(each, (q, k, v))):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_where_there_is_no_backward_its_sentence_comes_from_backward():
    q, k, v = leaves((1, 4, 8), (2, 4, 4, 8), (2, 4, 4, 8))
    starts = torch.tensor([0, 1], dtype=torch.int32), torch.tensor([0, 6], dtype=torch.int32)
    table = torch.tensor([[0, 1]], dtype=torch.int32)
    out = flash_attn_varlen_func(q, k, v, *starts, 1, 8, block_table=table)
    with pytest.raises((ValueError, NotImplementedError), match="pages"):
        out.sum().backward()
    with pytest.raises(NotImplementedError, match="k_cache requires grad.*torch.no_grad"):
        flash_attn_with_kvcache(torch.randn(2, 1, 4, 8), k, v, cache_seqlens=3)


def test_a_second_backward_is_refused_and_a_graph_for_it_is_not():
    tensors = usual()
    out = scaled_dot_product_attention(*tensors)
    first = torch.autograd.grad(out.square().sum(), tensors, create_graph=True)
    assert_equal(first, gradients_of_squares(tensors))
    with pytest.raises(NotImplementedError, match="differentiated twice.*SDPBackend.MATH.*outside"):
        first[0].sum().backward()


def test_a_second_backward_goes_where_the_sentence_says():
    def twice(tensors):
        with sdpa_kernel(SDPBackend.MATH):
            out = functional.scaled_dot_product_attention(*tensors)
        first = torch.autograd.grad(out.square().sum(), tensors, create_graph=True)
        first[0].sum().backward()

    tensors = usual()
    twice(tensors)
    assert all(tensor.grad.isfinite().all() for tensor in tensors)
    with rapt.torch.sdpa(), pytest.raises(NotImplementedError, match="outside of rapt.torch.sdpa"):
        twice(tensors)


def gradients_of_squares(tensors):
    return torch.autograd.grad(scaled_dot_product_attention(*tensors).square().sum(), tensors)


def test_the_operators_are_registered_as_torch_wants_them():
    q, k, v, bias = leaves((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8), (1, 4, 5, 7))
    options = {"layout": "bhsd", "bias": bias}
    for operator in [torch.ops.rapt.attention.default, torch.ops.rapt.attention_with_lse.default]:
        torch.library.opcheck(operator, (q, k, v), options)
    with torch.no_grad():
        out, lse = torch.ops.rapt.attention_with_lse(q, k, v, **options)
    plain = [tensor.detach() for tensor in (q, k, v)]
    more = {"out": out, "lse": lse, "dout": out, "bias": bias.detach(), "dbias": True}
    torch.library.opcheck(torch.ops.rapt.attention_backward.default, plain, options | more)


def test_compiled_gradients_are_the_same():
    tensors = leaves((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8), (5, 7))

    def step(q, k, v, bias):
        return scaled_dot_product_attention(q * 2, k, v, bias).square()

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert_equal(gradients(compiled, tensors), gradients(step, tensors))


def test_checkpointed_gradients_are_the_same():
    from torch.utils.checkpoint import checkpoint

    want = gradients(scaled_dot_product_attention, usual())
    for reentrant in (False, True):
        torch.manual_seed(0)
        tensors = usual()
        out = checkpoint(scaled_dot_product_attention, *tensors, use_reentrant=reentrant)
        weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(7))
        (out * weights).sum().backward()
        assert_equal([tensor.grad for tensor in tensors], want)


def test_autocast_gives_gradients_of_the_types_of_the_leaves():
    tensors = usual()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = gradients(scaled_dot_product_attention, tensors)
        want = gradients(functional.scaled_dot_product_attention, tensors)
    for gradient, other in zip(got, want):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, other, rtol=0, atol=3e-2)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_transforms_see_the_gradients():
    q, k, v = (tensor.detach() for tensor in usual())

    def loss(q, k, v):
        return scaled_dot_product_attention(q, k, v).square().sum()

    want = gradients_of_squares([tensor.requires_grad_() for tensor in (q, k, v)])
    q, k, v = (tensor.detach() for tensor in (q, k, v))
    assert_equal(torch.func.grad(loss, (0, 1, 2))(q, k, v), want)
    for one, other in zip(torch.vmap(torch.func.grad(loss, (0, 1, 2)))(q, k, v), want):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_results_need_no_no_grad():
    tensors = usual()
    out = scaled_dot_product_attention(*tensors)
    assert out.requires_grad
    with torch.no_grad():
        without = scaled_dot_product_attention(*tensors)
    assert not without.requires_grad and torch.equal(out, without)


def test_tensors_without_memory_have_gradients_without_memory():
    tensors = [torch.empty(2, 4, 5, 8, device="meta").requires_grad_() for _ in range(3)]
    for gradient in torch.autograd.grad(scaled_dot_product_attention(*tensors).sum(), tensors):
        assert gradient.is_meta and gradient.shape == (2, 4, 5, 8)


def small_gpt(attend):
    """The model of examples/python/train_gpt.py, smaller."""
    torch.manual_seed(5)
    return EXAMPLE["Gpt"](attend, tokens=17, length=24, width=32, heads=4, layers=2)


def counting_by_three(count):
    return (torch.arange(count)[:, None] + torch.arange(25) * 3) % 17


def losses(attend, steps=30):
    return EXAMPLE["train"](small_gpt(attend), [counting_by_three(8)] * steps, "cpu", 1e-2)


def test_a_small_gpt_learns_as_with_pytorchs_attention_and_twice_the_same():
    got = losses(scaled_dot_product_attention)
    want = losses(functional.scaled_dot_product_attention)
    assert got[-1] < got[0] / 4
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert torch.equal(got, losses(scaled_dot_product_attention))


def train_a_share(rank, folder):
    """In a process of its own: half of the sequences, and gradients shared with the other half's."""
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    model = small_gpt(scaled_dot_product_attention)
    share = counting_by_three(8)[rank::2]
    its_losses = EXAMPLE["train"](DistributedDataParallel(model), [share] * 5, "cpu", 1e-2)
    torch.save([its_losses, *model.state_dict().values()], f"{folder}/{rank}")
    torch.distributed.destroy_process_group()


def test_two_processes_that_share_gradients_train_as_one(tmp_path):
    torch.multiprocessing.spawn(train_a_share, (str(tmp_path),), nprocs=2)
    (one, *weights), (other, *other_weights) = (torch.load(tmp_path / rank) for rank in "01")
    assert_equal(weights, other_weights)
    alone = losses(scaled_dot_product_attention, steps=5)
    torch.testing.assert_close((one + other) / 2, alone, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(one, alone, rtol=1e-5, atol=1e-5)
