"""The package on an NVIDIA GPU: PyTorch's CUDA tensors in their streams, in graphs and under
torch.compile, JAX and CuPy through DLPack. Without a GPU everything here is skipped."""

import numpy as np
import pytest

import plain
import rapt

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
if not any(device.backend == "cuda" for device in rapt.devices()):
    pytest.skip("rapt sees no CUDA device here", allow_module_level=True)

from torch.nn import functional  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from rapt.torch import (  # noqa: E402
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    scaled_dot_product_attention,
)

BOUNDS = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def tensors(q=(2, 8, 200, 64), kv=(2, 8, 200, 64), dtype=torch.bfloat16):
    return [torch.randn(size, device="cuda").to(dtype) for size in (q, kv, kv)]


def exact(q, k, v, **options):
    return functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), **options)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"scale": 0.2}, {"scale": -0.2}], ids=str
)
def test_the_result_is_exact_attention(dtype, options):
    q, k, v = tensors(dtype=dtype)
    got = scaled_dot_product_attention(q, k, v, **options)
    assert got.device == q.device and got.dtype == dtype
    torch.testing.assert_close(got.double(), exact(q, k, v, **options), rtol=0, atol=BOUNDS[dtype])


@pytest.mark.parametrize("backend", [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION])
@pytest.mark.parametrize("causal", [False, True])
def test_the_result_is_that_of_torchs_own_backends(backend, causal):
    q, k, v = tensors()
    got = scaled_dot_product_attention(q, k, v, is_causal=causal)
    with sdpa_kernel(backend):
        want = functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
    torch.testing.assert_close(got, want, rtol=0, atol=2 * BOUNDS[q.dtype])


def test_masks_and_grouped_heads():
    q, k, v = tensors((2, 8, 33, 64), (2, 2, 70, 64), torch.float32)
    mask = torch.rand(2, 1, 33, 70, device="cuda") < 0.5
    for attn_mask in [mask, torch.where(mask, 0.5, float("-inf"))]:
        got = scaled_dot_product_attention(q, k, v, attn_mask, enable_gqa=True)
        wide = attn_mask if attn_mask.dtype == torch.bool else attn_mask.double()
        want = exact(q, k, v, attn_mask=wide, enable_gqa=True)
        torch.testing.assert_close(got.double(), want, rtol=0, atol=1e-5)


def test_work_goes_into_the_current_stream():
    q, k, v = tensors((1, 16, 2048, 64), (1, 16, 2048, 64), torch.float32)
    want = exact(q, k, v)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # what follows in this stream waits; other streams do not
        doubled = q * 2
        out = scaled_dot_product_attention(doubled, k, v, scale=1 / 16)
        assert not stream.query()  # nobody waited for the device
    stream.synchronize()
    torch.testing.assert_close(out.double(), want, rtol=0, atol=1e-5)


def test_streams_do_not_share_scratch_memory():
    calls = []
    for seed in range(2):
        torch.manual_seed(seed)
        calls.append(tensors((1, 16, 1, 128), (1, 16, 4096, 128)))
    assert rapt.plan(*calls[0], layout="bhsd").workspace_bytes > 0
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in calls]
    outs = []
    for _ in range(20):
        for stream, call in zip(streams, calls):
            with torch.cuda.stream(stream):
                outs.append(scaled_dot_product_attention(*call))
    torch.cuda.synchronize()
    for i, call in enumerate(calls):
        for out in outs[i::2]:
            assert torch.equal(out, outs[i])
        torch.testing.assert_close(outs[i].double(), exact(*call), rtol=0, atol=BOUNDS[out.dtype])


def test_memory_that_another_stream_still_reads_is_not_used_again():
    q, k, v = tensors()
    out = scaled_dot_product_attention(q, k, v)
    want, address = out.clone(), out.data_ptr()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        read = out.clone()
    out.record_stream(side)
    del out
    others = [torch.zeros_like(want) for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    torch.cuda.synchronize()
    assert torch.equal(read, want)


def test_results_and_scratch_memory_are_in_the_allocators_statistics():
    q, k, v = tensors((1, 16, 1, 128), (1, 16, 4096, 128))
    plan = rapt.plan(q, k, v, layout="bhsd")
    assert plan.workspace_bytes > 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    out = plan.run(q, k, v)
    held = torch.cuda.memory_allocated() - before
    most = torch.cuda.max_memory_allocated() - before
    assert out.untyped_storage().resizable()  # memory of others cannot be
    assert held == out.nbytes  # a multiple of the allocator's 512 bytes
    assert most >= out.nbytes + plan.workspace_bytes


def halves(dtype=torch.float32, sizes=((2, 8, 33, 64), (2, 8, 70, 64))):
    """Two partial results (out, lse) in f32 of a problem of `dtype`, and what they make together."""
    q, k, v = (x.float() for x in tensors(*sizes, dtype=dtype))
    keys = slice(30), slice(30, None)
    parts = [
        rapt.attention(q, k[:, :, at], v[:, :, at], layout="bhsd", return_lse=True) for at in keys
    ]
    scores = q.double() @ k.double().transpose(2, 3) / q.shape[-1] ** 0.5
    return parts, (exact(q, k, v), scores.logsumexp(-1))


def close(got, want, bound):
    for tensor, wanted in zip(got, want):
        torch.testing.assert_close(tensor.double(), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
def test_partials_of_f32_merge_into_a_result_of_any_type(dtype):
    (first, second), want = halves(dtype)
    merged = rapt.merge(first, second, layout="bhsd")
    assert all(tensor.is_cuda and tensor.dtype == torch.float32 for tensor in merged)
    assert all(tensor.untyped_storage().resizable() for tensor in merged)
    close(merged, want, 1e-5)
    into = torch.empty_like(merged[0], dtype=dtype), torch.empty_like(merged[1])
    assert rapt.merge(first, second, layout="bhsd", out=into)[0] is into[0]
    assert torch.equal(into[0], merged[0].to(dtype)) and torch.equal(into[1], merged[1])
    rapt.merge(first, second, layout="bhsd", out=first)
    assert torch.equal(first[0], merged[0]) and torch.equal(first[1], merged[1])


def test_merge_works_in_the_current_stream():
    (first, second), want = halves()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late = tuple(tensor.clone() for tensor in first)
        merged = rapt.merge(late, second, layout="bhsd")
        assert not stream.query()  # nobody waited for the device
    stream.synchronize()
    close(merged, want, 1e-5)


def test_a_graph_that_captured_merge_merges_again():
    (first, second), _ = halves()
    rapt.merge(first, second, layout="bhsd")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        merged = rapt.merge(first, second, layout="bhsd")
    (other, _), _ = halves()
    for tensor, new in zip(first, other):
        tensor.copy_(new)
    graph.replay()
    torch.cuda.synchronize()
    want = rapt.merge(first, second, layout="bhsd")
    assert torch.equal(merged[0], want[0]) and torch.equal(merged[1], want[1])


@pytest.mark.parametrize("name", ["first.lse", "second.out", "result.lse"])
def test_merge_refuses_tensors_of_two_devices(name):
    (first, second), _ = halves()
    arrays = {"first": first, "second": second, "result": tuple(map(torch.empty_like, first))}
    side, which = name.split(".")
    out, lse = arrays[side]
    arrays[side] = (out.cpu(), lse) if which == "out" else (out, lse.cpu())
    with pytest.raises(ValueError, match=f"{name} lies on cpu and first.out on cuda:0"):
        rapt.merge(arrays["first"], arrays["second"], layout="bhsd", out=arrays["result"])


@pytest.mark.parametrize("queries, keys", [(200, 200), (1, 3000)])
def test_a_graph_that_captured_it_computes_again_on_new_data(queries, keys):
    q, k, v = tensors((2, 8, queries, 64), (2, 8, keys, 64))
    plan = rapt.plan(q, k, v, layout="bhsd")
    out_of_plan = torch.empty_like(q)
    scaled_dot_product_attention(q, k, v)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = scaled_dot_product_attention(q, k, v)
        plan.run(q, k, v, out=out_of_plan)
    for _ in range(2):
        q.copy_(torch.randn_like(q))
        graph.replay()
        torch.cuda.synchronize()
        want = exact(q, k, v)
        torch.testing.assert_close(out.double(), want, rtol=0, atol=BOUNDS[q.dtype])
        torch.testing.assert_close(out_of_plan, out)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compile_keeps_it_whole(mode):
    q, k, v = tensors()

    def step(q, k, v):
        return scaled_dot_product_attention(q * 2, k, v, is_causal=True) + 1

    compiled = torch.compile(step, fullgraph=True, mode=mode)
    with torch.inference_mode():
        for _ in range(3):  # recorded, captured, replayed
            torch.testing.assert_close(compiled(q, k, v).clone(), step(q, k, v), rtol=0, atol=2e-2)


needs_backward = pytest.mark.skipif(
    not any(k.backend == "cuda" and k.operation == "backward" for k in rapt.kernels()),
    reason="no CUDA kernel of this build computes backward",
)


def gradients(function, q, k, v):
    leaves = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    return torch.autograd.grad(function(*leaves).square().sum(), leaves)


@needs_backward
@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_exact_attention_and_twice_the_same(dtype, causal):
    q, k, v = tensors(dtype=dtype)

    def attend(q, k, v):
        return scaled_dot_product_attention(q, k, v, is_causal=causal)

    got = gradients(attend, q, k, v)
    want = gradients(lambda *t: exact(*t, is_causal=causal), q, k, v)
    for one, other in zip(got, want):
        assert one.dtype == dtype
        worst = 8 * BOUNDS[dtype] * float(other.abs().max())
        torch.testing.assert_close(one.double(), other.double(), rtol=0, atol=worst)
    for one, other in zip(got, gradients(attend, q, k, v)):
        assert torch.equal(one, other)


@needs_backward
def test_gradients_in_a_graph_are_computed_again_on_new_data():
    sample = tuple(tensor.requires_grad_() for tensor in tensors())
    graphed = torch.cuda.make_graphed_callables(scaled_dot_product_attention, sample)
    for _ in range(2):
        q, k, v = tensors()
        want = gradients(scaled_dot_product_attention, q, k, v)
        for one, other in zip(gradients(graphed, q, k, v), want):
            assert torch.equal(one, other)


@needs_backward
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_gradients_are_the_same(mode):
    q, k, v = tensors()
    compiled = torch.compile(scaled_dot_product_attention, fullgraph=True, mode=mode)
    want = gradients(scaled_dot_product_attention, q, k, v)
    for _ in range(3):  # recorded, captured, replayed
        got = [gradient.clone() for gradient in gradients(compiled, q, k, v)]
        for one, other in zip(got, want):
            torch.testing.assert_close(one, other, rtol=0, atol=2e-2)


def test_flash_attention_functions():
    q, k, v = (x.transpose(1, 2).contiguous() for x in tensors(dtype=torch.float32))
    want = exact(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)
    torch.testing.assert_close(
        flash_attn_func(q, k, v, causal=True).double(), want, rtol=0, atol=1e-5
    )
    starts = torch.tensor([0, 200, 400], dtype=torch.int32, device="cuda")
    packed = flash_attn_varlen_func(
        *(x.flatten(0, 1) for x in (q, k, v)), starts, starts, 200, 200, causal=True
    )
    torch.testing.assert_close(packed.double(), want.flatten(0, 1), rtol=0, atol=1e-5)
    cache = [torch.zeros(2, 256, 8, 64, device="cuda") for _ in range(2)]
    decoded = flash_attn_with_kvcache(q, *cache, k, v, cache_seqlens=0, causal=True)
    torch.testing.assert_close(decoded.double(), want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("new", [0, 1])
def test_more_keys_than_the_block_table_holds_are_an_error_and_the_device_lives_on(new):
    q, k, v = tensors((2, 1, 8, 64), (2, 1, 8, 64))
    caches = [torch.randn(4, 256, 8, 64, device="cuda", dtype=q.dtype) for _ in range(2)]
    table = torch.tensor([[0], [2]], dtype=torch.int32, device="cuda")
    appended = {"k": k, "v": v} if new else {}

    def call(longest):
        lengths = torch.tensor([5, longest], dtype=torch.int32, device="cuda")
        return flash_attn_with_kvcache(
            q, *caches, cache_seqlens=lengths, block_table=table, **appended
        )

    with pytest.raises(RuntimeError, match="block_table has room for 1 pages of 256 keys"):
        call(257 - new)
    out = call(256 - new)
    keys, values = (cache[2:3].transpose(1, 2) for cache in caches)
    want = exact(q[1:].transpose(1, 2), keys, values).transpose(1, 2)
    torch.testing.assert_close(out[1:].double(), want, rtol=0, atol=BOUNDS[q.dtype])


@pytest.mark.parametrize("paged", [False, True])
def test_new_keys_that_do_not_fit_stay_inside_the_cache_under_graph_replay(paged):
    q, k, v = tensors((1, 1, 8, 64), (1, 1, 8, 64))
    memory = torch.randn(2, 5, 16, 8, 64, device="cuda", dtype=q.dtype)
    caches = memory[:, 1:2]  # with neighbours on both sides
    lengths = torch.tensor([3], dtype=torch.int32, device="cuda")
    table = torch.zeros(1, 1, dtype=torch.int32, device="cuda") if paged else None

    def step():
        return flash_attn_with_kvcache(
            q, *caches, k, v, cache_seqlens=lengths, block_table=table, causal=True
        )

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    before = memory.clone()
    for length in [-1, 16, 1 << 30]:
        lengths.fill_(length)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(memory[:, [0, 2, 3, 4]], before[:, [0, 2, 3, 4]])
        last = 0 if length < 0 else 15
        assert torch.equal(caches[0][0, last], k[0, 0]) and torch.equal(caches[1][0, last], v[0, 0])


def test_tensors_of_two_devices_are_refused():
    q, k, v = tensors()
    with pytest.raises(ValueError, match="k lies on cpu and q on cuda:0"):
        rapt.attention(q, k.cpu(), v, layout="bhsd")


def test_jax_arrays_on_the_gpu(random):
    jax = pytest.importorskip("jax", reason="JAX is not installed; rapt does not need it")
    if jax.default_backend() != "gpu":
        pytest.skip("this JAX has no GPU")
    arrays = plain.inputs(random)
    q, k, v = map(jax.numpy.asarray, arrays)
    out = rapt.attention(q * 2, k, v, causal=True, scale=0.25)
    assert isinstance(out, jax.Array) and out.devices() == q.devices()
    want = plain.attention(arrays[0] * 2, *arrays[1:], plain.causal(5, 7), scale=0.25)[0]
    np.testing.assert_allclose(out, want, rtol=0, atol=1e-5)
    parts = [
        rapt.attention(q, k[:, at], v[:, at], return_lse=True) for at in (slice(3), slice(3, 7))
    ]
    merged = rapt.merge(*parts)
    for got, want in zip(merged, plain.attention(*arrays)):
        assert isinstance(got, jax.Array) and got.devices() == q.devices()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="result.out is read-only"):
        rapt.merge(*parts, out=parts[0])


def test_cupy_arrays_in_a_stream_of_their_own(random):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed; rapt does not need it")
    arrays = plain.inputs(random)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        q, k, v = map(cupy.asarray, arrays)
        out, lse = rapt.attention(q, k, v, causal=True, return_lse=True)
        assert isinstance(out, cupy.ndarray)
        got = out.get(), lse.get()
        merged = rapt.merge(
            *(
                rapt.attention(q, k[:, at], v[:, at], return_lse=True)
                for at in (slice(3), slice(3, 7))
            )
        )
        assert isinstance(merged[0], cupy.ndarray)
        whole = [array.get() for array in merged]
        stream.synchronize()
    for array, want in zip(whole, plain.attention(*arrays)):
        np.testing.assert_allclose(array, want, rtol=0, atol=1e-5)
    for array, want in zip(got, plain.attention(*arrays, plain.causal(5, 7))):
        np.testing.assert_allclose(array, want, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_transformers_models_give_eagers_logits(name, dtype):
    pytest.importorskip("transformers", reason="transformers is not installed")
    import models
    import rapt.transformers

    rapt.transformers.register()
    bound = {torch.float32: 5e-5, torch.bfloat16: 0.1}[dtype]
    for padded in [False, True]:
        ids, mask = models.prompt("cuda", padded)
        eager, ours = (models.model(name, kind, "cuda", dtype) for kind in ["eager", "rapt"])
        with torch.inference_mode():
            want, got = (m(ids, attention_mask=mask).logits[mask.bool()] for m in (eager, ours))
        torch.testing.assert_close(got, want, rtol=0, atol=bound)
        if dtype == torch.float32:
            want_tokens, want = models.generated(eager, ids, mask)
            got_tokens, got = models.generated(ours, ids, mask)
            assert torch.equal(got_tokens, want_tokens)
            torch.testing.assert_close(got, want, rtol=0, atol=bound)
