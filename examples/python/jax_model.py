"""A small transformer in JAX, compiled and differentiated, on rapt and on JAX's own attention."""

import jax
import jax.numpy as jnp

from rapt.jax import dot_product_attention

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 2, 97


def parameters(key):
    def matrix(rows, columns):
        nonlocal key
        key, used = jax.random.split(key)
        return jax.random.normal(used, (rows, columns)) / rows**0.5

    def layer():
        return {
            "qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH),
            "up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH),
        }  # fmt: skip

    return {"embedding": matrix(VOCABULARY, WIDTH), "layers": [layer() for _ in range(LAYERS)]}


def normalised(x):
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6)


def logits(model, tokens, attend):
    """Of one sequence; the batch is vmap's."""
    x = model["embedding"][tokens]
    for layer in model["layers"]:
        q, k, v = jnp.split(normalised(x) @ layer["qkv"], 3, axis=-1)
        q, k, v = (y.reshape(-1, HEADS, WIDTH // HEADS) for y in (q, k, v))  # (seq, head, dim)
        x = x + attend(q, k, v, is_causal=True).reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(normalised(x) @ layer["up"]) @ layer["down"]
    return normalised(x) @ model["embedding"].T


def loss(model, batch, attend):
    predicted = jax.vmap(logits, (None, 0, None))(model, batch[:, :-1], attend)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(predicted), batch[:, 1:, None], axis=-1)
    return -chosen.mean()


model = parameters(jax.random.key(0))
batch = jax.random.randint(jax.random.key(1), (4, 65), 0, VOCABULARY)
step = jax.jit(jax.value_and_grad(loss), static_argnums=2)
with jax.default_matmul_precision("highest"):
    by_rapt = step(model, batch, dot_product_attention)
    by_jax = step(model, batch, jax.nn.dot_product_attention)
print("on", jax.devices()[0])
print("loss", by_rapt[0])
print("loss differs from JAX's by", abs(by_rapt[0] - by_jax[0]))
differences = jax.tree.map(lambda one, other: jnp.abs(one - other).max(), by_rapt[1], by_jax[1])
print("gradients differ from JAX's by at most", max(jax.tree.leaves(differences)))
