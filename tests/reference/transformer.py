# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Head = tuple[np.ndarray, np.ndarray, np.ndarray]


class Attention(NamedTuple):
    """W^Q, W^K, W^V of each head, and W^O; they act from the right."""

    heads: Sequence[Head]
    output: np.ndarray


class Feed(NamedTuple):
    """Both feed-forward layers, and the slope of what lies between them below zero."""

    kernel_1: np.ndarray
    bias_1: np.ndarray
    kernel_2: np.ndarray
    bias_2: np.ndarray
    slope: float


class Norm(NamedTuple):
    """Scale and shift of a layer normalisation."""

    gamma: np.ndarray
    beta: np.ndarray


class Block(NamedTuple):
    """An encoder's block with one attention, a decoder's with two."""

    attentions: Sequence[Attention]
    feed: Feed
    norms: Sequence[Norm]
    order: str


def layer_norm(x: np.ndarray, norm: Norm) -> np.ndarray:
    """Ba et al. 2016, Eq. 4, with ε = 1e-6, of one token."""
    return (x - x.mean()) / np.sqrt(x.var() + 1e-6) * norm.gamma + norm.beta


def attend(
    query: np.ndarray, keys: np.ndarray, attention: Attention
) -> tuple[np.ndarray, np.ndarray]:
    """Vaswani et al. 2017, Eq. 1 and §3.2.2: one query, the keys (n, dim) that it may see."""
    joined, weights = [], np.zeros((len(attention.heads), len(keys)))
    for h, (w_q, w_k, w_v) in enumerate(attention.heads):
        head = np.zeros(w_v.shape[1])
        if len(keys):
            scores = np.array([(query @ w_q) @ (key @ w_k) for key in keys]) / w_q.shape[1] ** 0.5
            powers = np.exp(scores - scores.max())
            weights[h] = powers / powers.sum()
        for weight, key in zip(weights[h], keys, strict=True):
            head = head + weight * (key @ w_v)
        joined.append(head)
    return np.concatenate(joined) @ attention.output, weights


def feed_forward(x: np.ndarray, feed: Feed) -> np.ndarray:
    """Vaswani et al. 2017, Eq. 2, of one token."""
    hidden = x @ feed.kernel_1 + feed.bias_1
    hidden = np.where(hidden > 0, hidden, feed.slope * hidden)
    return hidden @ feed.kernel_2 + feed.bias_2


def apply_block(
    tokens: np.ndarray, block: Block, causal: bool, encoded: np.ndarray | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Vaswani et al. 2017, §3.1, of one row's real tokens; `encoded` is what a decoder sees.

    Returns the tokens and each token's weights (heads, what it saw) of the last attention.
    """
    weights: list[np.ndarray] = []

    def among(x: np.ndarray, attention: Attention) -> np.ndarray:
        found = [attend(x[i], x[: i + 1] if causal else x, attention) for i in range(len(x))]
        weights[:] = [w for _, w in found]
        return np.array([vector for vector, _ in found]).reshape(x.shape)

    def across(x: np.ndarray, attention: Attention) -> np.ndarray:
        found = [attend(token, encoded, attention) for token in x]
        weights[:] = [w for _, w in found]
        return np.array([vector for vector, _ in found])

    parts = [lambda x: among(x, block.attentions[0])]
    if encoded is not None:
        parts.append(lambda x: across(x, block.attentions[1]))
    parts.append(lambda x: np.array([feed_forward(t, block.feed) for t in x]).reshape(x.shape))
    for part, norm in zip(parts, block.norms, strict=True):

        def normed(x: np.ndarray, norm: Norm = norm) -> np.ndarray:
            return np.array([layer_norm(token, norm) for token in x]).reshape(x.shape)

        tokens = (
            tokens + part(normed(tokens)) if block.order == "pre" else normed(tokens + part(tokens))
        )
    return tokens, weights


def encode(
    tokens: np.ndarray, blocks: Sequence[Block], last: Norm | None = None, causal: bool = False
) -> tuple[np.ndarray, list[np.ndarray]]:
    """A stack of encoder blocks over one row's real tokens (n, dim), and the last attention."""
    weights: list[np.ndarray] = []
    for block in blocks:
        tokens, weights = apply_block(tokens, block, causal)
    return _normed(tokens, last), weights


def decode(
    tokens: np.ndarray, encoded: np.ndarray, blocks: Sequence[Block], last: Norm | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """A stack of decoder blocks, causal among their own tokens, and the attention to `encoded`."""
    weights: list[np.ndarray] = []
    for block in blocks:
        tokens, weights = apply_block(tokens, block, causal=True, encoded=encoded)
    return _normed(tokens, last), weights


def _normed(tokens: np.ndarray, norm: Norm | None) -> np.ndarray:
    if norm is None:
        return tokens
    return np.array([layer_norm(token, norm) for token in tokens]).reshape(tokens.shape)
