"""Hugging Face's models with attn_implementation="rapt" against "eager", on the CPU."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
pytest.importorskip("transformers", reason="transformers is not installed; rapt does not need it")

import models  # noqa: E402
import rapt.transformers  # noqa: E402


@pytest.fixture(autouse=True, scope="module")
def registered():
    rapt.transformers.register()


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", models.CONFIGS)
def test_logits_are_those_of_eager_attention(name, padded):
    ids, mask = models.prompt(padded=padded)
    with torch.inference_mode():
        want = models.model(name, "eager")(ids, attention_mask=mask).logits
        got = models.model(name, "rapt")(ids, attention_mask=mask).logits
    real = mask.bool()  # what a padding token sees is nobody's business
    torch.testing.assert_close(got[real], want[real], rtol=0, atol=2e-5)


@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", models.CONFIGS)
def test_generation_with_a_cache_is_that_of_eager_attention(name, padded):
    ids, mask = models.prompt(padded=padded)
    want_tokens, want = models.generated(models.model(name, "eager"), ids, mask)
    got_tokens, got = models.generated(models.model(name, "rapt"), ids, mask)
    torch.testing.assert_close(got, want, rtol=0, atol=2e-5)
    assert torch.equal(got_tokens, want_tokens)


@pytest.mark.parametrize("name", models.CONFIGS)
def test_rapt_computes_every_layer_of_the_models_that_ask_for_it(name, monkeypatch):
    calls = []

    def counted(*tensors, attention=rapt.transformers.attention, **options):
        calls.append(options)
        return attention(*tensors, **options)

    monkeypatch.setattr(rapt.transformers, "attention", counted)
    ids, mask = models.prompt()
    with torch.inference_mode():
        models.model(name, "eager")(ids, attention_mask=mask)
        assert not calls
        models.model(name, "rapt")(ids, attention_mask=mask)
    assert len(calls) == 2
    assert name != "gemma2" or all(call["softcap"] == 2.0 for call in calls)


def test_a_model_in_training_is_told_the_way_out():
    ids, mask = models.prompt()
    with pytest.raises(NotImplementedError, match="torch.no_grad"):
        models.model("llama", "rapt")(ids, attention_mask=mask)
