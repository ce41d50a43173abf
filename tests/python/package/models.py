"""Small transformers models with random weights, built from their configs: a Llama (grouped heads),
a Gemma 2 (soft cap, sliding window in every other layer, its own scale) and a GPT-2."""

import torch
import transformers

VOCABULARY = 97


def llama():
    return transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip


def gemma2():
    return transformers.Gemma2Config(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
        sliding_window=6, attn_logit_softcapping=2.0, query_pre_attn_scalar=40,
    )  # fmt: skip


def gpt2():
    return transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=128, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip


CONFIGS = {"llama": llama, "gemma2": gemma2, "gpt2": gpt2}


def model(name, implementation, device="cpu", dtype=torch.float32):
    """The same weights whatever the implementation."""
    torch.manual_seed(0)
    config = CONFIGS[name]()
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=implementation)
    return made.to(device=device, dtype=dtype).eval()


def prompt(device="cpu", padded=False):
    """Token ids (2, 12) and their mask; the second sequence has 4 padding tokens at the left."""
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(1, VOCABULARY, (2, 12), generator=generator).to(device)
    mask = torch.ones_like(ids)
    if padded:
        mask[1, :4] = 0
    return ids, mask


def generated(model, ids, mask, tokens=8):
    """Greedy generation with a cache: the tokens, and the logits of each step."""
    result = model.generate(
        ids, attention_mask=mask, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False,
        output_logits=True, return_dict_in_generate=True, pad_token_id=0,
    )  # fmt: skip
    return result.sequences, torch.stack(result.logits)
