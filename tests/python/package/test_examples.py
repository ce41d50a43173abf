"""The examples in Python run and give what they say; so do the README's lines and the ladder."""

import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest

import plain
import readme_lines


def run_example(source_dir, name, *options):
    script = source_dir / "examples" / "python" / name
    result = subprocess.run(
        [sys.executable, script, *options], capture_output=True, text=True, check=False, env=os.environ
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def load_ladder(source_dir):
    path = source_dir / "examples" / "python" / "ladder.py"
    spec = importlib.util.spec_from_file_location("ladder", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def differences(text):
    """The numbers at the ends of lines that tell a difference."""
    return [float(line.split()[-1]) for line in text.splitlines() if "differ" in line]


def test_the_lines_of_the_readme():
    names = {}
    exec(readme_lines.lines(), names)
    q, k, v, out = (names[name] for name in ["q", "k", "v", "out"])
    want = plain.attention(q, k, v, plain.causal(1024, 1024))[0]
    np.testing.assert_allclose(out, want, rtol=0, atol=5e-6)


def test_numpy_arrays(source_dir):
    text = run_example(source_dir, "numpy_arrays.py")
    assert max(differences(text)) < 1e-5 and "chosen:" in text


def test_decode(source_dir):
    assert max(differences(run_example(source_dir, "decode.py"))) < 1e-5


def test_torch_model(source_dir):
    pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
    assert max(differences(run_example(source_dir, "torch_model.py"))) < 1e-5


def test_jax_model(source_dir):
    pytest.importorskip("jax", reason="JAX is not installed; rapt does not need it")
    found = differences(run_example(source_dir, "jax_model.py"))
    assert len(found) == 2 and max(found) < 1e-5


def test_training_a_gpt(source_dir):
    pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
    text = run_example(source_dir, "train_gpt.py", "--steps", "3")
    assert max(differences(text)) < 1e-3 and text.endswith("losses and weights: True\n")


def test_transformers_model(source_dir):
    pytest.importorskip("transformers", reason="transformers is not installed")
    assert "the same tokens as sdpa: True" in run_example(source_dir, "transformers_model.py")


def test_the_ladder_checks_itself(source_dir):
    text = run_example(source_dir, "ladder.py")
    assert "Each step gives what the step before gave." in text


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries, keys", [(1, 1), (5, 33), (33, 5), (70, 70), (0, 4), (4, 0)])
def test_every_step_of_the_ladder_is_attention(source_dir, random, queries, keys, causal):
    ladder = load_ladder(source_dir)
    q, k = (random.standard_normal((n, 8)) for n in (queries, keys))
    v = random.standard_normal((keys, 6))
    four = [x[None, :, None] for x in (q, k, v)]
    want = np.zeros((queries, 6))
    if keys:
        want = plain.attention(*four, plain.causal(queries, keys) if causal else None)[0][0, :, 0]
    for step in ladder.STEPS:
        np.testing.assert_allclose(step(q, k, v, causal), want, atol=1e-12, err_msg=step.__name__)


def test_the_ladder_notices_a_wrong_step(source_dir, monkeypatch):
    ladder = load_ladder(source_dir)
    wrong = [ladder.basic, lambda q, k, v, causal: ladder.tiled(q, k, v, causal) * 1.001]
    wrong[1].__name__ = "wrong"
    monkeypatch.setattr(ladder, "STEPS", wrong)
    with pytest.raises(SystemExit, match="wrong differs by"):
        ladder.check(10, 10, 4, 4, causal=False)
