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
        kind: "learned", one weight vector per rank, or "sinusoidal", times one learned number.
        max_ranks: Of learned ones, how many there are; older events share the last one.
        initial_scale: Of learned ones, the standard deviation of their coordinates at the start;
            of sinusoidal ones, the number that they are multiplied by at the start.

    Call arguments:
        ranks: int32 (…), 0 or more, as of `recency_ranks`.

    Returns:
        Float (…, dim).

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.5, for both kinds.
    Differs from the paper: sinusoids are scaled. There they join embeddings of about their own
        size; beside smaller ones they would be all that a model sees.
    """

    def __init__(
        self, dim: int, kind: Positions, max_ranks: int, initial_scale: float = 0.1
    ) -> None:
        super().__init__()
        self.dim = dim
        self.kind = kind
        self.max_ranks = max_ranks
        self.initial_scale = initial_scale

    def build(self, ranks_shape: Sequence[int | None]) -> None:
        """Create the vectors, or the number that sinusoids are multiplied by."""
        if self.kind == "learned":
            normal = keras.initializers.RandomNormal(stddev=self.initial_scale)
            shape = (self.max_ranks, self.dim)
            self.vectors = self.add_weight(name="vectors", shape=shape, initializer=normal)
        else:
            start = keras.initializers.Constant(self.initial_scale)
            self.scale = self.add_weight(name="scale", shape=(), initializer=start)

    def call(self, ranks: tf.Tensor) -> tf.Tensor:
        """Return the vectors of ranks; see the class."""
        if self.kind == "sinusoidal":
            waves = sinusoidal(ranks, self.dim, self.variable_dtype)
            return tf.cast(waves * self.scale, self.compute_dtype)
        places = tf.minimum(ranks, self.max_ranks - 1)[..., tf.newaxis]
        # unlike tf.gather's, its gradient is a plain tensor, as those of other weights are
        return tf.gather_nd(tf.convert_to_tensor(self.vectors), places)
