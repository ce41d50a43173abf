"""Hugging Face's models with attn_implementation="rapt" against "eager", on the CPU."""

import logging

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


@pytest.mark.parametrize("name", models.CONFIGS)
def test_a_model_trains_as_with_eager(name):
    ids, mask = models.prompt(padded=True)
    labels = ids.clone()
    labels[1, :5] = -100  # what padding would have to guess, too
    made = {kind: models.model(name, kind) for kind in ("eager", "rapt")}
    for model in made.values():
        model(ids, attention_mask=mask, labels=labels).loss.backward()
    for want, got in zip(made["eager"].parameters(), made["rapt"].parameters()):
        torch.testing.assert_close(got.grad, want.grad, rtol=1e-4, atol=2e-6)


def test_a_model_trains_under_autocast():
    ids, mask = models.prompt()
    gradients = {}
    for kind in ("sdpa", "rapt"):
        model = models.model("llama", kind).train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(ids, attention_mask=mask, labels=ids).loss
        loss.backward()
        gradients[kind] = [parameter.grad for parameter in model.parameters()]
    for got, want in zip(gradients["rapt"], gradients["sdpa"]):
        torch.testing.assert_close(got, want, rtol=0, atol=0.05 * float(want.abs().max()))


def test_autocast_casts_what_a_model_left_in_f32():
    q, k, v = torch.randn(3, 2, 4, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out, _ = rapt.transformers.attention_forward(torch.nn.Module(), q, k, v.bfloat16(), None)
    assert out.dtype == torch.bfloat16


def test_a_model_in_training_drops_out():
    ids, mask = models.prompt()
    model = models.model("gpt2", "rapt").train()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Dropout) and not name.endswith("attn_dropout"):
            module.p = 0.0
    torch.manual_seed(1)
    first, second = (model(ids, attention_mask=mask).logits for _ in range(2))
    assert not torch.equal(first, second)


def test_a_model_past_the_attention_interface_is_refused_when_it_is_made():
    import transformers

    config = transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=1, n_head=4)
    config._attn_implementation = "rapt"
    sentence = "BloomForCausalLM does not go through transformers' attention interface; use \"eager\""
    with pytest.raises(ValueError, match=sentence):
        transformers.BloomForCausalLM(config)


def test_a_model_past_the_attention_interface_keeps_eager_where_rapt_is_set(caplog, monkeypatch):
    import transformers

    monkeypatch.setattr(logging.getLogger("transformers"), "propagate", True)
    config = transformers.BloomConfig(vocab_size=97, hidden_size=32, n_layer=1, n_head=4)
    model = transformers.BloomForCausalLM(config)
    model.set_attn_implementation("rapt")
    assert model.config._attn_implementation == "eager"
    assert "does not support setting its attention implementation" in caplog.text


def test_a_part_past_the_attention_interface_is_refused_where_it_is_asked_for():
    import transformers

    config = transformers.SplinterConfig(
        vocab_size=97, hidden_size=32, num_hidden_layers=1, num_attention_heads=4
    )
    config._attn_implementation = "eager"
    model = transformers.SplinterModel(config)
    with pytest.raises(ValueError, match="SplinterModel does not say"):
        model.set_attn_implementation("rapt")
    assert model.config._attn_implementation == "eager"


def test_keys_that_a_model_chooses_for_each_query_are_refused():
    q = torch.zeros(1, 2, 3, 8)
    with pytest.raises(NotImplementedError, match="Identity chooses keys for each query"):
        rapt.transformers.attention_forward(
            torch.nn.Identity(), q, q, q, None, indices=torch.zeros(1, 3, 2, dtype=torch.int32)
        )
