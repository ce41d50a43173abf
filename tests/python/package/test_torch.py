"""rapt.torch on CPU tensors: PyTorch's function against PyTorch's own, as an operator of torch."""

import numpy as np
import pytest

import plain
import rapt

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
from torch.nn import functional  # noqa: E402

from rapt import _libraries  # noqa: E402
from rapt.torch import scaled_dot_product_attention  # noqa: E402


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def tensors(*sizes, dtype=torch.float32):
    return [torch.randn(size).to(dtype) for size in sizes]


def usual(dtype=torch.float32):
    return tensors((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 6), dtype=dtype)


MASK = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(1)) < 0.5
MASK[0, 0, 1] = False  # a row that sees nothing
FLOAT_MASK = torch.randn(4, 5, 7, generator=torch.Generator().manual_seed(2))
CALLS = {
    "nothing else": {},
    "is_causal starts at the first key": {"is_causal": True},
    "a scale": {"scale": 0.3},
    "a negative scale": {"scale": -0.3},
    "a scale of 0": {"scale": 0.0},
    "a boolean mask": {"attn_mask": MASK},
    "a boolean mask of two axes": {"attn_mask": MASK[1, 0]},
    "an expanded mask": {"attn_mask": MASK.expand(2, 4, 5, 7)},
    "a mask for keys alone": {"attn_mask": MASK[:, :, :1].expand(2, 1, 5, 7)},
    "a transposed mask": {"attn_mask": MASK.transpose(2, 3).contiguous().transpose(2, 3)},
    "a float mask": {"attn_mask": FLOAT_MASK},
    "a float mask of minus infinities": {"attn_mask": torch.where(MASK, 0.0, float("-inf"))},
}


@pytest.mark.parametrize("call", CALLS)
def test_the_result_is_pytorchs(call):
    q, k, v = usual()
    got = scaled_dot_product_attention(q, k, v, **CALLS[call])
    want = functional.scaled_dot_product_attention(q, k, v, **CALLS[call])
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)


SHAPES = {
    "no batch": [(4, 5, 8), (4, 7, 8), (4, 7, 8)],
    "one head": [(5, 8), (7, 8), (7, 8)],
    "two batch axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8)],
    "a shared batch": [(2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)],
    "shared heads": [(2, 4, 5, 8), (2, 1, 7, 8), (2, 1, 7, 8)],
    "keys with more axes": [(2, 4, 5, 8), (3, 2, 4, 7, 8), (3, 2, 4, 7, 8)],
    "heads of keys alone": [(5, 8), (4, 7, 8), (4, 7, 8)],
}


@pytest.mark.parametrize("name", SHAPES)
def test_any_number_of_axes(name):
    q, k, v = tensors(*SHAPES[name])
    got = scaled_dot_product_attention(q, k, v)
    want = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)


# Sizes of query, of key and value, and of a mask.
MASK_SHAPES = {
    "all axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 5, 7)],
    "a mask of the inner batch": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (1, 3, 1, 5, 7)],
    "a mask of the outer batch": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 1, 1, 1, 7)],
    "four of five axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (3, 4, 5, 7)],
    "four of five axes, one head": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (3, 1, 5, 7)],
    "three of five axes": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (4, 5, 7)],
    "one axis more than a query without batch": [(4, 5, 8), (4, 7, 8), (1, 4, 5, 7)],
    "one axis more than the query, as the keys": [
        (2, 4, 5, 8), (3, 2, 4, 7, 8), (3, 2, 4, 5, 7),
    ],
}  # fmt: skip
NOT_MASK_SHAPES = {
    "a fifth axis of size 1": [(2, 4, 5, 8), (2, 4, 7, 8), (1, 2, 4, 5, 7)],
    "a fifth axis": [(2, 4, 5, 8), (2, 4, 7, 8), (3, 1, 1, 5, 7)],
    "a sixth axis": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (1, 2, 3, 4, 5, 7)],
    "the outer batch for the inner": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 4, 5, 7)],
    "both batches in one": [(2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (6, 4, 5, 7)],
    "a batch of its own": [(1, 4, 5, 8), (1, 4, 7, 8), (3, 4, 5, 7)],
    "queries of its own": [(2, 4, 1, 8), (2, 4, 7, 8), (2, 4, 5, 7)],
}


@pytest.mark.parametrize("boolean", [False, True])
@pytest.mark.parametrize("name", MASK_SHAPES)
def test_a_mask_may_lack_axes_of_the_scores(name, boolean):
    query, keys, mask = MASK_SHAPES[name]
    q, k, v, mask = tensors(query, keys, keys, mask)
    mask = mask > 0 if boolean else mask
    got = scaled_dot_product_attention(q, k, v, mask)
    want = functional.scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", NOT_MASK_SHAPES)
def test_a_mask_adds_no_axes_to_the_scores(name):
    query, keys, mask = NOT_MASK_SHAPES[name]
    q, k, v, mask = tensors(query, keys, keys, mask)
    with pytest.raises(RuntimeError):
        functional.scaled_dot_product_attention(q, k, v, mask)
    with pytest.raises(RuntimeError, match="does not broadcast to the scores"):
        scaled_dot_product_attention(q, k, v, mask)


def test_grouped_heads_only_where_enabled():
    q, k, v = tensors((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
    got = scaled_dot_product_attention(q, k, v, enable_gqa=True)
    want = functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)
    with pytest.raises(RuntimeError):
        scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("dtype, bound", [(torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)])
def test_sixteen_bits(dtype, bound):
    q, k, v = usual(dtype)
    got = scaled_dot_product_attention(q, k, v, is_causal=True)
    want = functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), is_causal=True
    )
    assert got.dtype == dtype
    torch.testing.assert_close(got.double(), want, rtol=0, atol=bound)


def test_any_strides():
    q, k, v = usual()
    views = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k)]
    last_axis_apart = v.transpose(2, 3).contiguous().transpose(2, 3)
    got = scaled_dot_product_attention(*views, last_axis_apart)
    torch.testing.assert_close(got, functional.scaled_dot_product_attention(q, k, v))


def test_what_rapt_does_not_do_is_an_error():
    q, k, v = usual()
    with pytest.raises(NotImplementedError, match="dropout_p is 0.999"):
        scaled_dot_product_attention(q, k, v, dropout_p=0.999)
    scaled_dot_product_attention(q, k, v, dropout_p=0)
    with pytest.raises(RuntimeError, match="is_causal and attn_mask"):
        scaled_dot_product_attention(q, k, v, MASK, is_causal=True)


def test_a_tensor_that_requires_grad_is_refused_where_no_gradient_would_be_recorded():
    q, k, v = usual()
    k.requires_grad_()
    with pytest.raises(NotImplementedError, match="k requires grad.*torch.no_grad.*k.detach"):
        rapt.attention(q, k, v, layout="bhsd")
    with torch.inference_mode():
        rapt.attention(q, k, v, layout="bhsd")


def test_the_operator_is_registered_as_torch_wants_it():
    q, k, v = usual()
    options = {"layout": "bhsd", "causal": True}
    torch.library.opcheck(torch.ops.rapt.attention.default, (q, k, v), options)
    torch.library.opcheck(torch.ops.rapt.attention_with_lse.default, (q, k, v), options)


def test_the_operator_sees_the_first_keys_beside_a_window():
    q, k, v = usual()
    key, position = torch.arange(7), torch.arange(5)[:, None] + 2
    visible = (key <= position) & ((key >= position - 1) | (key < 2))
    got = torch.ops.rapt.attention(q, k, v, layout="bhsd", causal=True, left=1, first_keys=2)
    wanted = functional.scaled_dot_product_attention(q, k, v, attn_mask=visible)
    torch.testing.assert_close(got, wanted)


def test_compile_keeps_the_operator_whole():
    q, k, v = usual()
    graphs = []

    def backend(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    def step(q, k, v):
        return scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    torch.testing.assert_close(compiled(q, k, v), step(q, k, v))
    calls = [node for node in graphs[0].graph.nodes if "rapt.attention" in str(node.target)]
    assert len(graphs) == 1 and len(calls) == 1


def test_a_traced_module_holds_the_operator():
    q, k, v = usual()
    traced = torch.fx.experimental.proxy_tensor.make_fx(
        lambda *tensors: scaled_dot_product_attention(*tensors)
    )(q, k, v)
    assert any("rapt.attention" in str(node.target) for node in traced.graph.nodes)
    torch.testing.assert_close(traced(2 * q, k, v), scaled_dot_product_attention(2 * q, k, v))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_maps_the_operator():
    q, k, v = tensors((3, 2, 4, 5, 8), (3, 2, 4, 7, 8), (3, 2, 4, 7, 6))
    got = torch.vmap(scaled_dot_product_attention)(q, k, v)
    want = functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)


def test_a_tangent_is_an_error_too():
    q, k, v = usual()
    with pytest.raises(NotImplementedError, match="query has a tangent.*unpack_dual"):
        torch.func.jvp(lambda query: scaled_dot_product_attention(query, k, v), (q,), (q,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v, v)
        with pytest.raises(NotImplementedError, match="value has a tangent"):
            scaled_dot_product_attention(q, k, dual)
        scaled_dot_product_attention(q, k, v)


OPERATORS = {
    "rapt.attention": rapt.attention,
    "the operator": lambda *tensors: torch.ops.rapt.attention(*tensors),
    "the operator with lse": lambda *tensors: torch.ops.rapt.attention_with_lse(*tensors),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_no_tangent_is_dropped(name):
    q, k, v = tensors((2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8))
    operator = OPERATORS[name]
    with pytest.raises(NotImplementedError, match="k has a tangent.*unpack_dual"):
        torch.func.jvp(lambda key: operator(q, key, v), (k,), (k,))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v, v)
        with pytest.raises(NotImplementedError, match="v has a tangent"):
            operator(q, k, dual)
        operator(q, k, v)


def test_no_derivative_of_rapt_attention_is_dropped():
    q, k, v, bias = tensors((2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8), (4, 5, 7))
    with pytest.raises(NotImplementedError, match="k requires grad"):
        torch.func.grad(lambda key: rapt.attention(q, key, v).sum())(k)
    with pytest.raises(NotImplementedError, match="bias requires grad"):
        rapt.attention(q, k, v, bias=bias.clone().requires_grad_())
    for call in [rapt.attention, torch.ops.rapt.attention]:
        with pytest.raises(NotImplementedError, match="bias has a tangent"):
            torch.func.jvp(lambda bias: call(q, k, v, bias=bias), (bias,), (bias,))


def negative(tensor):
    """The same numbers, as minus what lies in the memory: what PyTorch makes of conjugates."""
    view = torch._neg_view(-tensor)
    assert view.is_neg() and torch.equal(view, tensor)
    return view


def test_a_negative_bit_is_refused_with_the_way_out():
    q, k, v = tensors((2, 5, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8))
    for name, call in {
        "q": lambda: rapt.attention(negative(q), k, v),
        "v": lambda: rapt.plan(q, k, v).run(q, k, negative(v)),
        "out": lambda: rapt.attention(q, k, v, out=torch._neg_view(torch.zeros_like(q))),
        "bias": lambda: rapt.attention(q, k, v, bias=negative(torch.ones(5, 7))),
    }.items():
        with pytest.raises(ValueError, match=f"{name} has its negative bit set.*resolve_neg"):
            call()
    out, lse = rapt.attention(q, k, v, return_lse=True)
    with pytest.raises(ValueError, match="second.out has its negative bit set"):
        rapt.merge((out, lse), (negative(out), lse))


def test_a_negative_bit_is_obeyed_as_pytorch_does():
    q, k, v = usual()
    want = functional.scaled_dot_product_attention(q, k, v, FLOAT_MASK)
    got = scaled_dot_product_attention(q, negative(k), negative(v), negative(FLOAT_MASK))
    torch.testing.assert_close(got, want, rtol=0, atol=2e-6)
    got = torch.ops.rapt.attention(negative(q), k, negative(v), layout="bhsd")
    assert torch.equal(got, rapt.attention(q, k, v, layout="bhsd"))
    conjugate = torch.complex(q, -k[:, :, :5]).conj()  # whose imaginary part is k, by its bit
    assert conjugate.imag.is_neg()
    got = scaled_dot_product_attention(conjugate.imag, k, v)
    torch.testing.assert_close(got, scaled_dot_product_attention(k[:, :, :5], k, v))


def test_complex_numbers_are_refused_conjugate_or_not():
    q, k, v = usual()
    for complex_q in [torch.complex(q, q), torch.complex(q, q).conj()]:
        with pytest.raises(ValueError, match="q is complex64"):
            rapt.attention(complex_q, k, v, layout="bhsd")


def test_a_mode_sees_the_operator():
    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    seen = []
    with Mode():
        scaled_dot_product_attention(*usual())
    assert any("rapt.attention" in name for name in seen)


def test_autocast_casts_as_pytorch_does():
    q, k, v = usual()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = scaled_dot_product_attention(q, k.bfloat16(), v, FLOAT_MASK)
        want = functional.scaled_dot_product_attention(q, k.bfloat16(), v, FLOAT_MASK)
    assert got.dtype == want.dtype == torch.bfloat16
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize("axes", [3, 1])
def test_keys_without_the_queries_axes_are_not_taken_for_grouped_heads(axes):
    q, k, v = tensors((1, 4, 5, 8), (2, 4, 8)[-axes:], (2, 4, 8)[-axes:])
    with pytest.raises((RuntimeError, ValueError)):
        scaled_dot_product_attention(q, k, v)


def test_fake_tensors_have_the_right_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        q, k, v = (mode.from_tensor(x) for x in usual(torch.bfloat16))
        out, lse = torch.ops.rapt.attention_with_lse(q, k, v, layout="bhsd")
    assert out.shape == (2, 4, 5, 6) and out.dtype == torch.bfloat16
    assert lse.shape == (2, 4, 5) and lse.dtype == torch.float32


@pytest.mark.parametrize("number", [2**32 + 7, -(2**32) + 7, -(2**63)])
def test_wide_lengths_do_not_wrap_around(random, number, monkeypatch):
    q, k, v = (torch.from_numpy(array) for array in plain.inputs(random))
    want = rapt.attention(q, k, v, kv_lengths=[7, 4])
    assert torch.equal(rapt.attention(q, k, v, kv_lengths=torch.tensor([7, 4])), want)
    with pytest.raises(ValueError, match=f"kv_lengths has {number}; numbers are from"):
        rapt.attention(q, k, v, kv_lengths=torch.tensor([7, number]))
    # On a GPU, where nobody looks at them; a kernel there clamps what the CPU refuses.
    monkeypatch.setattr(_libraries, "_device", lambda array: "cuda:0")
    nearest = max(-(2**31), min(number, 2**31 - 1))
    with pytest.raises(ValueError, match=f"kv_lengths.* {nearest}"):
        rapt.attention(q, k, v, kv_lengths=torch.tensor([7, number]))


@pytest.mark.parametrize("place", ["cpu", "cuda:0"])
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "uint64"])
def test_integers_of_any_size_are_lengths_and_seeds(random, monkeypatch, dtype, place):
    q, k, v = (torch.from_numpy(array) for array in plain.inputs(random))
    numbers = torch.tensor([7, 4], dtype=getattr(torch, dtype))
    want = rapt.attention(q, k, v, dropout=0.3, seed=[7, 4], kv_lengths=[7, 4])
    monkeypatch.setattr(_libraries, "_device", lambda array: place)
    got = rapt.attention(q, k, v, dropout=0.3, seed=numbers, kv_lengths=numbers)
    assert torch.equal(got, want)
    if place != "cpu":  # nobody looks at them, and the kernel here refuses the nearest
        most = np.iinfo(dtype).max
        numbers[1] = most
        with pytest.raises(ValueError, match=f"kv_lengths.* {min(most, 2**31 - 1)}"):
            rapt.attention(q, k, v, kv_lengths=numbers)


def test_tensors_are_taken_without_a_copy(random):
    arrays = plain.inputs(random)
    q, k, v = (torch.from_numpy(array) for array in arrays)
    out = torch.zeros(2, 5, 4, 8)
    assert rapt.attention(q, k, v, out=out) is out
    np.testing.assert_array_equal(out.numpy(), rapt.attention(*arrays))
    assert isinstance(rapt.attention(q, k, v), torch.Tensor)


def test_results_are_memory_of_pytorchs_own():
    q, k, v = usual()
    pair = rapt.attention(q, k, v, layout="bhsd", return_lse=True)
    results = {
        "attention": pair,
        "a plan": [rapt.plan(q, k, v, layout="bhsd").run(q, k, v)],
        "merge": rapt.merge(pair, pair, layout="bhsd"),
        "scaled_dot_product_attention": [scaled_dot_product_attention(q, k, v)],
    }
    for name, tensors_of_it in results.items():
        for tensor in tensors_of_it:  # memory of others cannot be resized
            assert tensor.untyped_storage().resizable(), name


def test_merged_halves_are_the_whole():
    q, k, v = usual(torch.bfloat16)
    wide = [x.float() for x in (q, k, v)]
    parts = [
        rapt.attention(wide[0], *(x[:, :, at] for x in wide[1:]), layout="bhsd", return_lse=True)
        for at in (slice(3), slice(3, 7))
    ]
    out, lse = rapt.merge(*parts, layout="bhsd")
    want = functional.scaled_dot_product_attention(*wide)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, want, rtol=0, atol=2e-6)
    into = torch.empty_like(out, dtype=torch.bfloat16), torch.empty_like(lse)
    assert rapt.merge(*parts, layout="bhsd", out=into)[0] is into[0]
    assert torch.equal(into[0], out.bfloat16()) and torch.equal(into[1], lse)


def test_merge_refuses_what_requires_grad():
    q, k, v = usual()
    out, lse = rapt.attention(q, k, v, layout="bhsd", return_lse=True)
    with pytest.raises(NotImplementedError, match="second.out requires grad"):
        rapt.merge((out, lse), (out.clone().requires_grad_(), lse), layout="bhsd")


def test_tensors_without_memory_have_results_without_memory():
    q, k, v = (torch.empty(2, 4, 5, 8, device="meta") for _ in range(3))
    out = scaled_dot_product_attention(q, k, v[..., :6], is_causal=True)
    assert out.is_meta and out.shape == (2, 4, 5, 6)


REFUSED = {
    "k's dim axis has size 4; the problem wants 8": lambda m: ((m, m[..., :4], m), {}),
    "k's batch axis has size 1; the problem wants 2": lambda m: ((m, m[:1], m[:1]), {}),
    "v's seq axis has size 3; the problem wants 5": lambda m: ((m, m, m[:, :3]), {}),
    "v's head axis has size 1; the problem wants 4": lambda m: ((m, m, m[:, :, :1]), {}),
    "4 heads cannot share 3 kv heads evenly": lambda m: ((m, m[:, :, :3], m[:, :, :3]), {}),
    "q is float64; rapt computes in float32": lambda m: ((m.double(),) * 3, {}),
    "k is f16; the problem wants f32": lambda m: ((m, m.half(), m), {}),
    "q has 2 axes; it needs four": lambda m: ((m[0, 0], m, m), {}),
    "bias's batch axis has size 3; it must be 2 or 1": lambda m: (
        (m, m, m), {"bias": m.new_zeros(3, 1, 1, 5)}
    ),
    "bias's kv axis has size 4; it must be 5 or 1": lambda m: (
        (m, m, m), {"bias": m.new_zeros(5, 4)}
    ),
    "mask is .*; it is bool, True where": lambda m: ((m, m, m), {"mask": m.new_zeros(5, 5)}),
    "alibi's head axis has size 3; the problem wants 4": lambda m: (
        (m, m, m), {"alibi": m.new_zeros(3)}
    ),
    "kv_lengths's batch axis has size 3; the problem wants 2": lambda m: (
        (m, m, m), {"kv_lengths": m.new_zeros(3, dtype=torch.int32)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("sentence", REFUSED)
def test_sizes_and_types_are_looked_at_without_memory_too(sentence, device):
    tensors, options = REFUSED[sentence](torch.zeros(2, 5, 4, 8, device=device))
    with pytest.raises(ValueError, match=f"^{sentence}"):
        torch.ops.rapt.attention_with_lse(*tensors, **options)


BACKWARD_REFUSED = {
    "dout's seq axis has size 3; the problem wants 5": lambda m, lse: {"dout": m[:, :3]},
    "lse's head axis has size 3; the problem wants 4": lambda m, lse: {"lse": lse[:, :3]},
    "lse is f16; the problem wants f32": lambda m, lse: {"lse": lse.half()},
    "dlse has 2 axes; ": lambda m, lse: {"dlse": lse[0]},
    "out is f16; ": lambda m, lse: {"out": m.half()},
}


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("sentence", BACKWARD_REFUSED)
def test_so_are_those_of_backward(sentence, device):
    q, lse = torch.zeros(2, 5, 4, 8, device=device), torch.zeros(2, 4, 5, device=device)
    given = {"out": q, "lse": lse, "dout": q} | BACKWARD_REFUSED[sentence](q, lse)
    with pytest.raises(ValueError, match=f"^{sentence}"):
        torch.ops.rapt.attention_backward(q, q, q, **given)


def test_pages_and_packed_queries_without_memory_have_results_without_memory():
    q, pool = torch.zeros(7, 4, 8, device="meta"), torch.zeros(9, 16, 2, 8, device="meta")
    starts, table = (torch.zeros(n, dtype=torch.int32, device="meta") for n in [(4,), (3, 2)])
    lengths = starts[:3]
    out, lse = torch.ops.rapt.attention_with_lse(
        q, pool, pool, q_starts=starts, page_table=table, kv_lengths=lengths, max_q_len=4
    )
    assert out.shape == (7, 4, 8) and lse.shape == (4, 7)


def test_sizes_that_a_compiler_does_not_know_pass_without_a_guard():
    from torch.fx.experimental.proxy_tensor import make_fx

    def call(q, k):
        return torch.ops.rapt.attention(q, k, k)

    graph = make_fx(call, tracing_mode="symbolic")(torch.zeros(2, 5, 4, 8), torch.zeros(2, 7, 4, 8))
    assert not graph.shape_env.guards
    out = graph(torch.zeros(3, 6, 4, 8), torch.zeros(3, 9, 2, 8))
    assert out.shape == (3, 6, 4, 8)


def test_whatever_is_no_dense_tensor_gets_a_sentence():
    q = torch.randn(2, 4, 5, 8)
    with pytest.raises(TypeError, match="query is a numpy.ndarray; .* torch.as_tensor.query."):
        scaled_dot_product_attention(q.numpy(), q, q)
    with pytest.raises(TypeError, match="value is a numpy.ndarray"):
        scaled_dot_product_attention(q, q, q.numpy())
    for requires_grad in (False, True):
        q.requires_grad_(requires_grad)
        for name, value in [("dropout_p", None), ("dropout_p", "0.1"), ("scale", "x")]:
            with pytest.raises(TypeError, match=f"^{name} is (None|a str); it is a number$"):
                scaled_dot_product_attention(q, q, q, **{name: value})
    q = q.detach()
    with pytest.raises(NotImplementedError, match="key is sparse .* give key.to_dense"):
        scaled_dot_product_attention(q, q.to_sparse(), q)
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.randn(4, 3), torch.randn(5, 3)], layout=layout)
        with pytest.raises(NotImplementedError, match="query is a nested tensor; pack"):
            scaled_dot_product_attention(nested, nested, nested)


def test_none_is_no_tensor():
    q = torch.randn(2, 4, 5, 8)
    for name in ("query", "key", "value"):
        tensors_of_it = {"query": q, "key": q, "value": q} | {name: None}
        with pytest.raises(TypeError, match=f"{name} is None; it is a tensor"):
            scaled_dot_product_attention(**tensors_of_it)


def test_integers_are_no_element_type():
    q = torch.randn(2, 4, 5, 8)
    for dtype, name in [(torch.int32, "int32"), (torch.int64, "int64"), (torch.bool, "bool")]:
        for call in (rapt.attention, scaled_dot_product_attention):
            with pytest.raises(ValueError, match=f"^q is {name}; rapt computes in .* convert it"):
                call(*[q.to(dtype)] * 3)


WITHOUT_MEMORY = {
    "is sparse": lambda x: x.to_sparse(),
    "is a nested tensor": lambda x: torch.nested.nested_tensor(list(x)),
    "lies on the meta device": lambda x: x.to("meta"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("sentence", WITHOUT_MEMORY)
def test_rapt_attention_names_a_tensor_that_shows_no_memory(sentence):
    q = torch.randn(2, 5, 4, 8)
    other, pair = WITHOUT_MEMORY[sentence](q), rapt.attention(q, q, q, return_lse=True)
    for name, call in {
        "q": lambda: rapt.attention(other, other, other),
        "v": lambda: rapt.attention(q, q, other),
        "bias": lambda: rapt.attention(q, q, q, bias=other),
        "out": lambda: rapt.attention(q, q, q, out=other),
        "first.out": lambda: rapt.merge((other, pair[1]), pair),
        "second.lse": lambda: rapt.merge(pair, (pair[0], other)),
    }.items():
        with pytest.raises((ValueError, NotImplementedError), match=f"^{name} {sentence}") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_tensors_without_memory_are_not_mixed_with_others():
    q = torch.randn(2, 4, 5, 8)
    meta = q.to("meta")
    for tensors_of_it in [(meta, q, q), (meta, meta, q), (meta, meta, meta, q[0, :, :, :5])]:
        with pytest.raises(ValueError, match="lies on cpu and q on meta; copy one of them"):
            scaled_dot_product_attention(*tensors_of_it)
    with pytest.raises(ValueError, match="k lies on meta and q on cpu"):
        torch.ops.rapt.attention_with_lse(q, meta, q)
