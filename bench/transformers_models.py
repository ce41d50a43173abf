"""Hugging Face models with rapt's attention beside `sdpa` and `eager`: prefill and decoding.

    python bench/transformers_models.py --device cuda --dtype bfloat16 --json models.json

The models have random weights, built from configs like those of small Llama, Gemma 2 and GPT-2
models; nothing is downloaded. Implementations take turns, and a time is the median of the turns.
The difference is that of the last token's logits from those of `eager`, relative to their norm."""

import argparse
import copy
import json
import statistics
import time

import torch
import transformers

import rapt.transformers


def configs():
    common = {"vocab_size": 4096, "num_hidden_layers": 8}
    yield "llama", transformers.LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_attention_heads=16, num_key_value_heads=4,
        max_position_embeddings=8192, **common,
    )  # fmt: skip
    yield "gemma2", transformers.Gemma2Config(
        hidden_size=1024, intermediate_size=2816, num_attention_heads=8, num_key_value_heads=4,
        head_dim=128, max_position_embeddings=8192, sliding_window=512, **common,
    )  # fmt: skip
    yield "gpt2", transformers.GPT2Config(
        vocab_size=4096, n_embd=1024, n_layer=8, n_head=16, n_positions=8192, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip


def timed(device, function):
    """Seconds, and what the function gives."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = function()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def measure(config, options):
    """By implementation: seconds of prefill and of a decoded token, and its logits."""
    ids = torch.randint(0, 4096, (1, options.prompt), device=options.device)
    models, times, logits = {}, {}, {}
    # PyTorch's function cannot cap scores.
    capped = getattr(config, "attn_logit_softcapping", None)
    for name in ["eager", "rapt"] if capped else ["eager", "sdpa", "rapt"]:
        torch.manual_seed(0)
        own = copy.deepcopy(config)  # a model keeps its config, and the implementation in it
        model = transformers.AutoModelForCausalLM.from_config(own, attn_implementation=name)
        models[name] = model.to(options.device, getattr(torch, options.dtype)).eval()
        times[name] = []
    settings = {"do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}
    for _ in range(options.rounds):
        for name, model in models.items():
            prefill, result = timed(options.device, lambda model=model: model(ids))
            logits[name] = result.logits[0, -1].float()
            tokens = {"min_new_tokens": options.tokens + 1, "max_new_tokens": options.tokens + 1}
            whole, _ = timed(
                options.device, lambda model=model: model.generate(ids, **settings, **tokens)
            )
            times[name].append((prefill, (whole - prefill) / options.tokens))
    for name, rounds in times.items():
        prefill, token = (statistics.median(column) for column in zip(*rounds))
        difference = (logits[name] - logits["eager"]).norm() / logits["eager"].norm()
        yield {
            "implementation": name, "prefill_seconds": prefill, "token_seconds": token,
            "difference": difference.item(),
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "bfloat16"])
    parser.add_argument("--prompt", type=int, default=1024, help="tokens of the prompt")
    parser.add_argument("--tokens", type=int, default=16, help="tokens to decode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()
    rapt.transformers.register()
    rows = []
    print(f"{'model':8} {'attention':10} {'prefill':>11} {'a token':>11} {'difference':>11}")
    with torch.inference_mode():
        for name, config in configs():
            for row in measure(config, options):
                rows.append({"model": name, **row})
                prefill, token = (1e3 * row[f"{part}_seconds"] for part in ["prefill", "token"])
                print(
                    f"{name:8} {row['implementation']:10} {prefill:8.2f} ms {token:8.2f} ms "
                    f"{row['difference']:11.1e}"
                )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({**vars(options), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
