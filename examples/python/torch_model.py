"""rapt in a PyTorch module: one line changes, with torch.compile or without, in training too."""

import torch

from rapt.torch import scaled_dot_product_attention


class Attention(torch.nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_qkv = torch.nn.Linear(width, 3 * width)
        self.to_out = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor, attend=scaled_dot_product_attention) -> torch.Tensor:
        # (batch, seq, width) -> three of (batch, head, seq, dim)
        q, k, v = self.to_qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.to_out(attend(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
module = Attention(256, 4).to(device)
x = torch.randn(2, 100, 256, device=device)

results = []
for attend in (scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
    out = module(x, attend)
    results.append((out, *torch.autograd.grad(out.square().mean(), module.parameters())))
for by_rapt, by_torch in zip(*results):  # out, then the gradients of all weights
    print("differs from PyTorch's by", (by_rapt - by_torch).abs().max().item())
