"""Every family of models that the installed transformers has, as small as its config allows: two
layers, four heads of eight, a vocabulary of 97, random weights."""

import copy
import inspect
import itertools
import re

import torch
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

VOCABULARY = 97
MOST_PARAMETERS = 14_000_000  # of a model that counts as small

_SIZES = {
    VOCABULARY: "vocab_size",
    128: "max_position_embeddings n_positions max_source_positions max_target_positions max_seq_len",
    64: """intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim n_inner d_inner
        ffn_hidden_size
        moe_intermediate_size shared_expert_intermediate_size dim_feedforward""",
    32: """hidden_size d_model n_embd dim embed_dim embedding_size encoder_hidden_size
        decoder_hidden_size projection_dim attention_hidden_size out_hidden_size hidden_dim emb_dim
        word_embed_proj_dim image_size""",
    16: "q_lora_rank kv_lora_rank mamba_d_state ssm_state_size state_size dt_rank",
    8: """head_dim d_kv qk_nope_head_dim v_head_dim qk_rope_head_dim linear_key_head_dim
        linear_value_head_dim attention_head_dim mamba_d_head mamba_head_dim patch_size""",
    6: "sliding_window attention_window_size",
    4: """num_attention_heads n_head n_heads encoder_attention_heads decoder_attention_heads num_heads
        rotary_dim num_experts n_routed_experts num_local_experts moe_num_experts
        linear_num_value_heads linear_num_key_heads""",
    2: """num_hidden_layers n_layer n_layers encoder_layers decoder_layers num_layers depth
        num_decoder_layers num_encoder_layers num_key_value_heads n_head_kv num_kv_heads
        decoder_num_key_value_heads encoder_num_key_value_heads num_experts_per_tok moe_topk
        top_k_experts n_group topk_group moe_top_k""",
    0: "pad_token_id bos_token_id eos_token_id decoder_start_token_id",
}
_SIZE_OF = {name: size for size, names in _SIZES.items() for name in names.split()}


def names():
    return list(CONFIG_MAPPING.keys())


# What else a family needs to be small.
_OTHERS = {"gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 6}}

# Families whose rotary angles are of time, height and width, however many of each their config says.
_THREE_ANGLES = re.compile("qwen2_vl|qwen2_5_vl|glm4v|glm46v|glm_image|glm_ocr|glmga|hunyuan|paddleocr")


def small_config(name):
    return _small(CONFIG_MAPPING[name], name)


def _small(config_class, name):
    full = config_class()
    defaults = full.to_dict()
    options = {}
    for key, value in defaults.items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if key in _SIZE_OF and (number or key == "head_dim"):
            options[key] = _SIZE_OF[key]
        elif key in ("layer_types", "layers_block_type") and isinstance(value, list):
            kinds = list(dict.fromkeys(value))
            options[key] = (kinds * 2)[:2]
        elif key in ("rope_parameters", "rope_scaling"):
            if "mrope_section" in (value or {}) or _THREE_ANGLES.match(name):
                rope = value or {"rope_type": "default", "rope_theta": 10000.0}
                options[key] = {**rope, "mrope_section": [2, 1, 1]}
    if "kv_lora_rank" in options:  # keys of every head come from one latent vector
        options.pop("num_key_value_heads", None)
        options["num_key_value_heads"] = options.get("num_attention_heads", 4)
    for part in getattr(config_class, "sub_configs", None) or {}:
        if getattr(full, part, None) is not None:
            options[part] = _small(type(getattr(full, part)), name)
    return config_class(**options | _OTHERS.get(name, {}))


def model_class(config):
    """What the family is for: generating text if it can, hidden states if it cannot."""
    for mapping in (
        auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_MASKED_LM_MAPPING,
        auto.MODEL_MAPPING,
    ):
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, (list, tuple)) else found
    return None


def is_small(model_type, config):
    with torch.device("meta"):
        made = model_type(copy.deepcopy(config))
    return sum(parameter.numel() for parameter in made.parameters()) <= MOST_PARAMETERS


def model(model_type, config, implementation):
    """The same weights whatever the implementation; large enough that scores differ from each other."""
    config = copy.deepcopy(config)
    config._attn_implementation = implementation
    torch.manual_seed(0)
    made = model_type(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                spread = 0.6 / parameter.shape[-1] ** 0.5
                parameter.copy_(spread * torch.randn(parameter.shape, generator=generator))
    return made


def inputs(model):
    """What forward() may want, as keywords: a family takes one of these, if any, which is the first
    that it does not refuse. Text comes alone before it comes with images or sounds."""
    taken = inspect.signature(model.forward).parameters
    generator = torch.Generator().manual_seed(3)

    def numbers(*shape):
        return torch.randn(shape, generator=generator)

    text, decoder = {}, {}
    if "input_ids" in taken:
        ids = torch.randint(3, VOCABULARY - 3, (2, 12), generator=generator)
        text = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "bbox" in taken:
            text["bbox"] = torch.zeros(2, 12, 4, dtype=torch.long)
    if "decoder_input_ids" in taken:
        decoder["decoder_input_ids"] = torch.randint(3, VOCABULARY - 3, (2, 12), generator=generator)
    more = [{"pixel_values": numbers(*shape)} for shape in _images(model.config)]
    more += [{"input_features": numbers(*shape)} for shape in _spectra(model.config)]
    more += [{"input_values": numbers(2, 4000)}]
    more = [given for given in more if given.keys() <= taken.keys()]
    first = [{}] if text else []
    for given, beside in itertools.product(first + more, [text, {}] if text else [{}]):
        if given | beside:
            yield from ([given | beside | decoder] if decoder else []) + [given | beside]


def _images(config):
    size, channels = _setting(config, "image_size", 32), _setting(config, "num_channels", 3)
    image = (channels, size, size)
    return [(2, *image), (2, _setting(config, "num_frames", 4), *image), (1, 1, *image)]


def _spectra(config):
    """(batch, time, frequency), or frequency before time."""
    times = (64, 2 * _setting(config, "max_source_positions", 50))
    widths = {_setting(config, name, 80) for name in ("num_mel_bins", "feature_size", "input_dim")}
    for time, width in itertools.product(times, sorted(widths | {80, 128, 160})):
        yield from ((2, time, width), (2, width, time))


def _setting(config, name, default):
    """A number of a config or of one of its parts; of pairs the first."""
    parts = (getattr(config, part, None) for part in getattr(config, "sub_configs", None) or {})
    for each in (config, *parts):
        value = getattr(each, name, None)
        value = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(value, int):
            return value
    return default


def padded(given):
    """The same with padding at the left of the second sequence; as it is where there is no mask."""
    if "attention_mask" not in given:
        return given
    mask = given["attention_mask"].clone()
    mask[1, :4] = 0
    return given | {"attention_mask": mask}
