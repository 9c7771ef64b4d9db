# SPDX-License-Identifier: Apache-2.0
"""Where an event stands: its rank by recency, and encodings of ranks."""

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

Positions = Literal["learned", "sinusoidal"]


def recency_ranks(mask: tf.Tensor) -> tf.Tensor:
    """Return how many newer real items each item has, int32 (batch, items): the newest has 0.

    A rank does not depend on padding, and of two histories the newest events have equal ranks.

    Args:
        mask: bool (batch, items), True at real items, which stand oldest first.
    """
    return tf.cumsum(tf.cast(mask, tf.int32), axis=1, exclusive=True, reverse=True)


def sinusoidal(ranks: tf.Tensor, dim: int, dtype: tf.DType) -> tf.Tensor:
    """Return PE(p, 2i) = sin(p / 10000^(2i/dim)) and PE(p, 2i+1) = cos(same), (…, dim).

    Args:
        ranks: p, int32 (…).
        dim: Width of the encoding; an odd one ends with a sine.
        dtype: Of the result.

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.5.
    Differs from the paper: p counts from the newest event where a caller gives recency ranks.
    """
    pairs = -(-dim // 2)
    frequencies = 10000.0 ** (-2.0 * tf.range(pairs, dtype=dtype) / dim)
    angles = tf.cast(ranks, dtype)[..., tf.newaxis] * frequencies
    waves = tf.stack([tf.sin(angles), tf.cos(angles)], axis=-1)
    shape = tf.concat([tf.shape(ranks), [2 * pairs]], axis=0)
    return tf.ensure_shape(tf.reshape(waves, shape)[..., :dim], [*ranks.shape, dim])


class RecencyEncoding(keras.layers.Layer):
    """A vector for each place by recency, which says nothing of the event itself.

    Args:
        dim: Width of the vectors.
        kind: "learned", one weight vector per rank, or "sinusoidal", without weights.
        max_ranks: Of learned ones, how many there are; older events share the last one.
        initial_stddev: Of learned ones, the standard deviation of their coordinates at the start.

    Call arguments:
        ranks: int32 (…), 0 or more, as of `recency_ranks`.

    Returns:
        Float (…, dim).
    """

    def __init__(
        self, dim: int, kind: Positions, max_ranks: int, initial_stddev: float = 0.1
    ) -> None:
        super().__init__()
        self.dim = dim
        self.kind = kind
        self.max_ranks = max_ranks
        self.initializer = keras.initializers.RandomNormal(stddev=initial_stddev)

    def build(self, ranks_shape: Sequence[int | None]) -> None:
        """Create the vectors, if they are learned."""
        if self.kind == "learned":
            self.vectors = self.add_weight(
                name="vectors", shape=(self.max_ranks, self.dim), initializer=self.initializer
            )

    def call(self, ranks: tf.Tensor) -> tf.Tensor:
        """Return the vectors of ranks; see the class."""
        if self.kind == "sinusoidal":
            return tf.cast(sinusoidal(ranks, self.dim, self.variable_dtype), self.compute_dtype)
        places = tf.minimum(ranks, self.max_ranks - 1)[..., tf.newaxis]
        # unlike tf.gather's, its gradient is a plain tensor, as those of other weights are
        return tf.gather_nd(tf.convert_to_tensor(self.vectors), places)
