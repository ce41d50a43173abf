"""attn_implementation="rapt" over every family of models in transformers that can be built small: each
one either gives what "eager" gives, gradients too, or is refused with a sentence. Some few are no
measure: their "eager" is not their "sdpa" either."""

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
# transformers' own sdpa and eager differ in these; rapt gives what sdpa gives.
NOT_AS_EAGER = {"aimv2", "clip", "clip_text_model", "clipseg", "metaclip_2", "owlv2", "owlvit"}

# They do not go through transformers' attention interface, or choose by the names that they know.
OWN_ATTENTION = set(
    """bloom codegen convbert falcon gpt_neo gptj ibert megatron-bert mpnet mpt rembert roformer
    squeezebert xglm""".split()
)
MOST_NOT_BUILT = 200  # for want of a config, of inputs or of another package


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


def states(model, given):
    """Every tensor of a model's result, without what a padding token sees, which is nobody's
    business."""
    torch.manual_seed(0)  # some choose patches at random
    real = given["attention_mask"].bool() if "attention_mask" in given else None
    found = [x for x in model(**given).values() if torch.is_tensor(x) and x.is_floating_point()]
    per_token = [real is not None and x.shape[:2] == real.shape for x in found]
    return [x[real] if of_tokens else x for x, of_tokens in zip(found, per_token)]


def gradients(model, given):
    """Of every parameter, in a row."""
    result = torch.cat([x.flatten() for x in states(model, families.padded(given))])
    weights = torch.randn(result.shape, generator=torch.Generator().manual_seed(7))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    found = torch.autograd.grad((result * weights).sum(), parameters, allow_unused=True)
    return [torch.cat([gradient.flatten() for gradient in found if gradient is not None])]


def generated(model, given, cache):
    given = {name: x for name, x in given.items() if name != "decoder_input_ids"}
    result = model.generate(
        **given, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0,
        decoder_start_token_id=0, output_logits=True, return_dict_in_generate=True,
        cache_implementation=cache, disable_compile=True,
    )  # fmt: skip
    return [torch.stack(result.logits)]


def generates(model):
    """An encoder that is not told to be a decoder (BERT) does not, whatever its class could."""
    config = model.config
    return (
        model.can_generate()
        and model.main_input_name == "input_ids"
        and (config.is_encoder_decoder or getattr(config, "is_decoder", None) is not False)
    )


def uses(model, given):
    """What is done with a model: a name, and how."""
    yield "training", lambda m: gradients(m, given)
    for text, inputs in {"whole": given, "padded": families.padded(given)}.items():
        yield f"{text} prompt", lambda m, g=inputs: states(m, g)
        for cache in (None, "static") if generates(model) else ():
            name = f"{text} prompt, {cache or 'dynamic'} cache"
            yield name, lambda m, g=inputs, c=cache: generated(m, g, c)


def working_inputs(model):
    """The first inputs that a model takes. Where it takes none the first error says most."""
    errors = []
    for given in families.inputs(model):
        try:
            with torch.no_grad():
                if states(model, given):
                    return given
        except Exception as error:
            errors.append(error)
    raise errors[0] if errors else TypeError("takes neither text, images nor sounds")


def difference(got, want):
    """Of the largest value; of each tensor that is not NaN."""
    pairs = [(a, b) for a, b in zip(got, want, strict=True) if b.numel() and not b.isnan().any()]
    return max([float((a - b).abs().max() / b.abs().max()) for a, b in pairs if b.any()], default=0)


def outcome(name, unmeasured):
    """How a family fares: words, and a sentence where there is more to say. What its reference cannot
    do either goes to `unmeasured`."""
    reference = "sdpa" if name in NOT_AS_EAGER else "eager"
    try:
        config = families.small_config(name)
        model_type = families.model_class(config)
        if model_type is None:
            return ["without a model of text or images"], None
        if not families.is_small(model_type, config):
            return ["not small"], None
        theirs = families.model(model_type, config, reference)
        given = working_inputs(theirs)
    except Exception as error:  # this config, or these inputs, are not how the family is used
        return ["not built"], f"{name}: {type(error).__name__}: {str(error)[:100]}"
    try:
        ours = families.model(model_type, config, "rapt")
    except ValueError as error:
        if 'attn_implementation="rapt"' in str(error):
            return ["refused"], None
        return ["wrong"], f"{name}: {error}"
    except Exception as error:
        return ["wrong"], f"{name}: {type(error).__name__}: {error}"
    words = ["matched"]
    for use, run in uses(theirs, given):
        try:
            want = run(theirs)
        except Exception as error:
            unmeasured.append(f"{name}, {use}: {type(error).__name__}: {str(error)[:100]}")
            continue
        try:
            got = run(ours)
        except Exception as error:
            return ["wrong"], f"{name}, {use}: {type(error).__name__}: {error}"
        words += ["trained"] if use == "training" else ["generated"] if "cache" in use else []
        error = difference(got, want)
        if not error <= TOLERANCE:
            return ["wrong"], f"{name}, {use}: {error:.1e} of the largest value from {reference}"
    return set(words), None


def test_every_family_matches_eager_attention_or_is_refused(capsys):
    unmeasured = []
    fared = {name: outcome(name, unmeasured) for name in families.names()}
    counts = collections.Counter(word for words, _ in fared.values() for word in words)
    with capsys.disabled():
        print("\nfamilies of transformers: " + ", ".join(f"{n} {w}" for w, n in counts.items()))
        for sentence in unmeasured:
            print(f"no reference for {sentence}")
    faults = [sentence for words, sentence in fared.values() if "wrong" in words]
    assert not faults, "\n".join(faults)
    others = [sentence for words, sentence in fared.values() if "not built" in words]
    assert len(others) <= MOST_NOT_BUILT, "\n".join(others)
    refused = {name for name, (words, _) in fared.items() if "refused" in words}
    assert OWN_ATTENTION <= refused and len(refused) > 80
    assert "generated" in fared["t5"][0]
    assert counts["matched"] > 250 and counts["trained"] > 250 and counts["generated"] > 110
