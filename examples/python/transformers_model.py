"""A Hugging Face model with rapt's attention. The weights are random and the model is small, so
that nothing is downloaded; `from_pretrained(name, attn_implementation="rapt")` works the same."""

import torch
import transformers

import rapt.transformers

rapt.transformers.register()

config = transformers.LlamaConfig(
    vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
    num_attention_heads=8, num_key_value_heads=2,
)  # fmt: skip
prompt = torch.arange(1, 20)[None]
tokens = {}
for implementation in ["rapt", "sdpa"]:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(
        config, attn_implementation=implementation
    ).eval()
    tokens[implementation] = model.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, do_sample=False,
        pad_token_id=0,
    )  # fmt: skip
print("rapt", tokens["rapt"][0, 19:].tolist())
print("the same tokens as sdpa:", torch.equal(tokens["rapt"], tokens["sdpa"]))
