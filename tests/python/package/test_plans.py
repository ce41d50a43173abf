"""Plans, problems, explanations and what there is to list."""

import pickle

import numpy as np
import pytest

import plain
import rapt


def test_a_problem_is_the_string_that_the_program_takes(random):
    q, k, v = plain.inputs(random)
    text = rapt.problem(q, k, v, causal=True, window=3, return_lse=True)
    assert text == "b2 h4/2 q5 kv7 d8 f32 causal window3 lse"


def test_a_plan_from_arrays_runs_on_arrays_like_them(random):
    q, k, v = plain.inputs(random)
    plan = rapt.plan(q, k, v, causal=True, return_lse=True, kernel="cpu.flash")
    assert plan.kernel == "cpu.flash" and plan.device == "cpu"
    assert plan.problem == "b2 h4/2 q5 kv7 d8 f32 causal lse"
    for _ in range(2):
        q, k, v = plain.inputs(random)
        out, lse = plan.run(q, k, v)
        want_out, want_lse = plain.attention(q, k, v, plain.causal(5, 7))
        np.testing.assert_allclose(out, want_out, atol=2e-6)
        np.testing.assert_allclose(lse, want_lse, atol=2e-6)


def test_a_plan_from_a_string_takes_a_kernel_and_a_config(random):
    plan = rapt.Plan("b2 h4/2 q5 kv7 d8 f32", kernel="cpu.split_kv", config="chunk=512")
    assert plan.config == "chunk=512"
    q, k, v = plain.inputs(random)
    np.testing.assert_allclose(plan.run(q, k, v), plain.attention(q, k, v)[0], atol=2e-6)


def test_a_plan_pickles(random):
    arrays = heads_first(*plain.inputs(random))
    plan = rapt.plan(*arrays, layout="bhsd", causal=True, kernel="cpu.split_kv")
    again = pickle.loads(pickle.dumps(plan))
    for name in ("problem", "device", "kernel", "config", "layout", "workspace_bytes"):
        assert getattr(again, name) == getattr(plan, name)
    np.testing.assert_array_equal(again.run(*arrays), plan.run(*arrays))


def test_strings_know_arguments_by_their_names_and_by_older_ones():
    plan = rapt.Plan("b2 h4 q1 kv8 d8 lengths12 sink")
    assert plan.problem == "b2 h4 q1 kv8 d8 f32 sinks kv_lengths12"
    with pytest.raises(ValueError, match="'lengths12' at character 30.*it stands there twice"):
        rapt.Plan("b2 h4 q1 kv8 d8 kv_lengths12 lengths12")


def heads_first(*arrays):
    return [np.ascontiguousarray(array.swapaxes(1, 2)) for array in arrays]


@pytest.mark.parametrize("dense", [True, False])
def test_a_plan_runs_in_the_layout_it_was_made_with(random, dense):
    arrays = plain.inputs(random)
    q, k, v = heads_first(*arrays) if dense else (x.swapaxes(1, 2) for x in arrays)
    plan = rapt.plan(q, k, v, layout="bhsd", return_lse=True)
    assert plan.layout == "bhsd"
    out, lse = plan.run(q, k, v)
    want_out, want_lse = plain.attention(*arrays)
    np.testing.assert_allclose(out.swapaxes(1, 2), want_out, atol=2e-6)
    np.testing.assert_allclose(lse, want_lse, atol=2e-6)
    again = plan.run(q, k, v, layout="bhsd")[0]  # said again
    np.testing.assert_array_equal(again, out)


def test_a_plan_from_a_string_runs_in_the_layout_of_its_token(random):
    arrays = plain.inputs(random)
    want = plain.attention(*arrays)[0]
    plan = rapt.Plan("b2 h4/2 q5 kv7 d8 f32 bhsd")
    assert plan.layout == "bhsd" and rapt.Plan("b2 h4/2 q5 kv7 d8 f32").layout == "bshd"
    out = plan.run(*heads_first(*arrays))
    np.testing.assert_allclose(out.swapaxes(1, 2), want, atol=2e-6)


def test_a_plan_refuses_other_arrays(random):
    q, k, v = plain.inputs(random)
    plan = rapt.plan(q, k, v)
    with pytest.raises(ValueError, match="k's seq axis has size 6; the problem wants 7"):
        plan.run(q, k[:, 1:], v[:, 1:])


def test_what_a_plan_does_not_take_is_told_by_its_name(random):
    q, k, v = plain.inputs(random)
    plan = rapt.plan(q, k, v)
    start = "^rapt.Plan.run.. got an unexpected keyword argument "
    with pytest.raises(TypeError, match=f"{start}'dout'; it is backward's: the plan is of forward"):
        plan.run(q, k, v, dout=q)
    with pytest.raises(TypeError, match=f"{start}'causal'; it is a part of the plan"):
        plan.run(q, k, v, causal=True)
    with pytest.raises(TypeError, match=f"{start}'biass'; did you mean 'bias'"):
        plan.run(q, k, v, biass=None)
    with pytest.raises(TypeError, match="^rapt.plan.. got .* 'dbias'; .*: give dout, too"):
        rapt.plan(q, k, v, dbias=True)
    with pytest.raises(TypeError, match="^rapt.attention.. got .* 'dout'; .* rapt.attention_backward"):
        rapt.attention(q, k, v, dout=q)
    backward = {"out": q, "lse": q[:, :, :, 0].swapaxes(1, 2), "dout": q}
    with pytest.raises(TypeError, match=f"{start}'window'; it is a part of the plan"):
        rapt.plan(q, k, v, **backward).run(q, k, v, **backward, window=3)


def test_an_explanation_names_the_choice_and_the_refusals():
    explanation = rapt.explain("b1 h16 s2048 d64 f32")
    assert explanation.kernel == "cpu.flash" and explanation.device == "cpu"
    by_kernel = {candidate.kernel: candidate for candidate in explanation.candidates}
    assert by_kernel["cpu.flash"].chosen and by_kernel["cpu.flash"].seconds > 0
    assert "bf16" in by_kernel["cpu.flash_amx"].refusal
    assert "chosen: cpu.flash" in str(explanation)
    named = rapt.explain("b1 h16 s2048 d64 f32", kernel="cpu.naive")
    assert named.kernel == "cpu.naive"
    with pytest.raises(ValueError, match="h16x"):
        rapt.explain("b1 h16x s2048 d64 f32")


def test_devices_and_kernels_are_listed():
    devices = {str(device): device for device in rapt.devices()}
    assert devices["cpu"].backend == "cpu" and devices["cpu"].threads >= 1
    assert isinstance(devices["cpu"].features, list)
    kernels = {kernel.name: kernel for kernel in rapt.kernels()}
    assert kernels["cpu.oracle"].by_name_only and kernels["cpu.flash"].backend == "cpu"
    operations = [kernels[name].operation for name in ("cpu.naive", "cpu.naive_backward")]
    assert operations == ["forward", "backward"]
    assert all(kernel.summary for kernel in kernels.values())


def test_the_environment_is_obeyed_by_calls_that_were_seen_before(random, monkeypatch, capfd):
    q, k, v = plain.inputs(random)
    rapt.attention(q, k, v)
    monkeypatch.setenv("RAPT_KERNEL", "cpu.naive")
    monkeypatch.setenv("RAPT_LOG", "1")
    rapt.attention(q, k, v)
    assert "cpu.naive" in capfd.readouterr().err
    monkeypatch.setenv("RAPT_KERNEL", "cpu.nothing")
    with pytest.raises(LookupError, match="^RAPT_KERNEL is wrong: there is no kernel .cpu.nothing."):
        rapt.attention(q, k, v)
