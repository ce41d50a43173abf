"""attn_implementation="rapt" over every family of models in transformers that can be built small: each
one either gives what "eager" gives, gradients too, or is refused with a sentence."""

import collections
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed; rapt does not need it")
transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed; rapt does not need it"
)

import families  # noqa: E402
import rapt.transformers  # noqa: E402

TOLERANCE = 5e-5  # of the largest value


@pytest.fixture(autouse=True)
def quiet():
    rapt.transformers.register()
    transformers.logging.set_verbosity_error()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # models this small only wait for each other's threads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    torch.set_num_threads(threads)


def states(model, config, padded):
    given, real = families.inputs(config, type(model), padded)
    torch.manual_seed(0)  # some choose patches at random
    result = model(**given)[0]
    # What a padding token sees is nobody's business.
    return result[real] if real is not None and result.shape[:2] == real.shape else result


def gradients(model, config):
    """Of every parameter, in a row."""
    result = states(model, config, padded=True)
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(7))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad((result * weights).sum(), parameters, allow_unused=True)
    return torch.cat([gradient.flatten() for gradient in found if gradient is not None])


def generated(model, config, padded, cache):
    given, _ = families.inputs(config, type(model), padded)
    given.pop("decoder_input_ids", None)
    result = model.generate(
        **given, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0,
        output_logits=True, return_dict_in_generate=True, cache_implementation=cache,
        disable_compile=True,
    )  # fmt: skip
    return torch.stack(result.logits)


def generates(model_type, config):
    """An encoder that is not told to be a decoder (BERT) does not, whatever its class could."""
    return (
        model_type.can_generate()
        and model_type.main_input_name == "input_ids"
        and (config.is_encoder_decoder or getattr(config, "is_decoder", None) is not False)
    )


def uses(model_type, config):
    """What is done with a model: a name, and how."""
    yield "training", gradients
    for padded in (False, True):
        text = "padded" if padded else "whole"
        yield f"{text} prompt", lambda m, c, p=padded: states(m, c, p)
        for cache in (None, "static") if generates(model_type, config) else ():
            name = f"{text} prompt, {cache or 'dynamic'} cache"
            yield name, lambda m, c, p=padded, k=cache: generated(m, c, p, k)


def outcome(name):
    """How a family fares: words, and a sentence where something is wrong."""
    try:
        config = families.small_config(name)
        model_type = families.model_class(config)
        if model_type is None:
            return ["without a model of text or images"], None
        if not families.is_small(model_type, config):
            return ["not small"], None
        eager = families.model(model_type, config, "eager")
        states(eager, config, False)
    except Exception:  # this config, or this input, is not how the family is used
        return ["not built"], None
    try:
        ours = families.model(model_type, config, "rapt")
    except ValueError as error:
        if 'attn_implementation="rapt"' in str(error):
            return ["refused"], None
        return ["wrong"], f"{name}: {error}"
    except Exception as error:
        return ["wrong"], f"{name}: {type(error).__name__}: {error}"
    words = ["matched"]
    for use, run in uses(model_type, config):
        try:
            want = run(eager, config)
        except Exception:
            continue
        try:
            got = run(ours, config)
        except Exception as error:
            return ["wrong"], f"{name}, {use}: {type(error).__name__}: {error}"
        words += ["trained"] if run is gradients else ["generated"] if "cache" in use else []
        error = (got - want).abs().max() / want.abs().max()
        if not error <= TOLERANCE and not want.isnan().any():
            return ["wrong"], f"{name}, {use}: {error:.1e} of the largest value from eager"
    return set(words), None


def test_every_family_matches_eager_attention_or_is_refused(capsys):
    counts, faults = collections.Counter(), []
    for name in families.names():
        words, fault = outcome(name)
        counts.update(words)
        faults += [fault] if fault else []
    with capsys.disabled():
        print("\nfamilies of transformers: " + ", ".join(f"{n} {w}" for w, n in counts.items()))
    assert not faults, "\n".join(faults)
    assert counts["matched"] > 150 and counts["trained"] > 150
    assert counts["generated"] > 100 and counts["refused"] > 20
