# SPDX-License-Identifier: Apache-2.0
"""Attention of long sequences, some queries at a time, whose memory does not grow with T²."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from models.layers.masking import masked_softmax

MAX_WEIGHTS = 2**25
"""How many attention weights may exist at once: 128 MiB in float32."""


class Seen(NamedTuple):
    """What queries see, and what of it is dropped.

    Attributes:
        mask: bool (batch, items), True at real items.
        causal: Whether query i sees items 0 … i only.
        dropout_rate: Share of the weights dropped, in [0, 1).
        seed: Of what is dropped, two int32; not needed without dropout.
    """

    mask: tf.Tensor
    causal: bool
    dropout_rate: float = 0.0
    seed: tf.Tensor | None = None

    def visible(self, first: tf.Tensor | int, count: int) -> tf.Tensor:
        """Return where `count` queries from `first` on may look, bool (batch, 1, 1 or count, T)."""
        mask = self.mask[:, tf.newaxis, tf.newaxis]
        if not self.causal:
            return mask
        places = first + tf.range(count)
        return mask & (tf.range(tf.shape(mask)[-1]) <= places[:, tf.newaxis])

    def kept(self, block: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
        """Return what a block's weights are multiplied by: 0, or more than 1."""
        seed = tf.cast(self.seed, tf.int32) + tf.stack([0, block])
        drawn = tf.random.stateless_uniform(tf.shape(like), seed)
        return tf.cast(drawn >= self.dropout_rate, like.dtype) / (1.0 - self.dropout_rate)


def queries_at_once(shape: Sequence[int | None], items: int | None) -> int | None:
    """Return how many queries to take at once, or None for all of them.

    Args:
        shape: Of the queries, (batch, heads, queries, any).
        items: Number of keys. Where a number is not known before the graph runs, all are taken.
    """
    rows, heads, queries, _ = shape
    if not rows or not heads or not queries or not items:
        return None
    at_once = max(MAX_WEIGHTS // (rows * heads * items), 1)
    return at_once if at_once < queries else None


def blocked_attention(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, seen: Seen, at_once: int
) -> tf.Tensor:
    """Return soft-max(Q Kᵀ) V, float (batch, heads, queries, width).

    Weights exist for `at_once` queries at a time. The way back computes them again, so that it
    costs as much memory as the way there, and about half as much time more.

    Args:
        query: Q, scaled, float (batch, heads, queries, width).
        key: K, float (batch, heads, items, width).
        value: V, float (batch, heads, items, width).
        seen: What is masked and dropped.
        at_once: Queries of a block.
    """
    queries = query.shape[2]
    blocks = -(-queries // at_once)

    def weights_of(q: tf.Tensor, k: tf.Tensor, block: tf.Tensor) -> tf.Tensor:
        scores = tf.matmul(q, k, transpose_b=True)  # (B, H, C, T)
        return masked_softmax(scores, seen.visible(block * at_once, at_once))

    @tf.custom_gradient
    def attend(
        q: tf.Tensor, k: tf.Tensor, v: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
        def step(block: tf.Tensor, found: Any) -> tuple[tf.Tensor, Any]:
            weights = weights_of(q[block], k, block)
            if seen.dropout_rate:
                weights *= seen.kept(block, weights)
            return block + 1, found.write(block, tf.matmul(weights, v))

        found = tf.TensorArray(v.dtype, blocks, element_shape=q.shape[1:])
        _, found = tf.while_loop(lambda block, _: block < blocks, step, (0, found))

        def backwards(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
            # sums over many blocks, in float32 at least
            wide = v.dtype if v.dtype.size >= 4 else tf.float32

            def back(
                block: tf.Tensor, of_q: Any, of_k: tf.Tensor, of_v: tf.Tensor
            ) -> tuple[tf.Tensor, Any, tf.Tensor, tf.Tensor]:
                weights = weights_of(q[block], k, block)
                slope = tf.matmul(upstream[block], v, transpose_b=True)
                used = weights
                if seen.dropout_rate:
                    kept = seen.kept(block, weights)
                    used, slope = weights * kept, slope * kept
                mean = tf.reduce_sum(weights * slope, axis=-1, keepdims=True)
                of_scores = weights * (slope - mean)
                of_q = of_q.write(block, tf.matmul(of_scores, k))
                of_k += tf.cast(tf.matmul(of_scores, q[block], transpose_a=True), wide)
                of_v += tf.cast(tf.matmul(used, upstream[block], transpose_a=True), wide)
                return block + 1, of_q, of_k, of_v

            of_q = tf.TensorArray(q.dtype, blocks, element_shape=q.shape[1:])
            start = (0, of_q, tf.zeros(k.shape, wide), tf.zeros(v.shape, wide))
            _, of_q, of_k, of_v = tf.while_loop(lambda block, *_: block < blocks, back, start)
            return of_q.stack(), tf.cast(of_k, k.dtype), tf.cast(of_v, v.dtype)

        return found.stack(), backwards

    rows, heads, _, width = query.shape
    padded = tf.pad(query, [[0, 0], [0, 0], [0, blocks * at_once - queries], [0, 0]])
    by_block = tf.reshape(padded, [rows, heads, blocks, at_once, width])
    attended = attend(tf.transpose(by_block, (2, 0, 1, 3, 4)), key, value)
    joined = tf.reshape(tf.transpose(attended, (1, 2, 0, 3, 4)), padded.shape)
    return joined[:, :, :queries]
