"""A small GPT learns the bytes of a text, with rapt's attention, with PyTorch's, and with rapt's once
more, all from one seed: losses beside each other, and whether rapt's two runs have the same bits.

    python train_gpt.py                      300 steps on the CPU, in f32
    python train_gpt.py --device cuda        on a GPU, in bf16 (autocast)
"""

import argparse
import os
import pathlib
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS: the same bits every run

import torch
from torch.nn import functional

from rapt.torch import scaled_dot_product_attention

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Block(torch.nn.Module):
    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.to_qkv = torch.nn.Linear(width, 3 * width)
        self.to_out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        # (batch, seq, width) -> three of (batch, head, seq, dim)
        qkv = self.to_qkv(self.norms[0](x)).unflatten(2, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        x = x + self.to_out(self.attend(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Gpt(torch.nn.Module):
    def __init__(self, attend, tokens=256, length=128, width=128, heads=2, layers=2):
        super().__init__()
        self.embedding = torch.nn.Embedding(tokens, width)
        torch.nn.init.normal_(self.embedding.weight, std=0.1)
        self.positions = torch.nn.Parameter(torch.randn(length, width) / 10)
        self.blocks = torch.nn.Sequential(*(Block(width, heads, attend) for _ in range(layers)))
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, tokens)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions[: ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def batches(text, steps, length, seed, device):
    """Of 8 pieces of the text each, (8, length + 1): the same ones for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        firsts = torch.randint(len(text) - length - 1, (8,), generator=generator)
        yield torch.stack([text[first : first + length + 1] for first in firsts]).to(device)


def train(model, pieces, device, learning_rate=3e-3):
    """The loss of every step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    losses = []
    for ids in pieces:
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            logits = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


def run(attend, options, text):
    torch.manual_seed(options.seed)
    model = Gpt(attend).to(options.device)
    begin = time.perf_counter()
    pieces = batches(text, options.steps, len(model.positions), options.seed, options.device)
    losses = train(model, pieces, options.device)
    return losses, list(model.parameters()), time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    torch.use_deterministic_algorithms(True)
    text = b"".join(path.read_bytes() for path in sorted(DOCS.glob("*.md")))
    text = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    by_rapt, weights, rapt_time = run(scaled_dot_product_attention, options, text)
    by_torch, weights_by_torch, torch_time = run(functional.scaled_dot_product_attention, options, text)
    again, weights_again, _ = run(scaled_dot_product_attention, options, text)

    print(f"{'step':>5} {'rapt':>9} {'PyTorch':>9}")
    for step in sorted({*range(0, options.steps, 30), options.steps - 1}):
        print(f"{step + 1:5} {by_rapt[step].item():9.5f} {by_torch[step].item():9.5f}")
    differences = [(one - other).abs().max().item() for one, other in zip(weights, weights_by_torch)]
    print(f"losses differ by at most {(by_rapt - by_torch).abs().max().item():.2g}")
    print(f"weights differ in the end by at most {max(differences):.2g}")
    print(f"seconds: {rapt_time:.1f} with rapt, {torch_time:.1f} with PyTorch's attention")
    same = torch.equal(by_rapt, again) and all(map(torch.equal, weights, weights_again))
    print(f"a second run with rapt has the same bits, losses and weights: {same}")


if __name__ == "__main__":
    main()
