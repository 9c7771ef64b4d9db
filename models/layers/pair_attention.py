# SPDX-License-Identifier: Apache-2.0
"""Attention over all pairs of fields."""

from collections.abc import Sequence
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from models.layers.masking import masked_softmax
from models.layers.parts import in_parts


class PairAttention(keras.layers.Layer):
    """Pools the products of all pairs of fields by attention.

    a'_ij = h·ReLU(W (e_i ⊙ e_j) + b);    a = soft-max of a' over pairs
    f = Σ_{i<j} a_ij e_i ⊙ e_j

    A tensor of all pairs, (batch, F (F - 1) / 2, dim), is larger than any cache, and each pass over
    it is paid in memory traffic. So a few rows at a time go through the whole layer, and through
    all of it again on the way back, which makes it 2.2 times as fast on a CPU.

    Args:
        attention_units: Width of b and h, at least 1.
        l2: λ of the penalty λ |W|², which is one of the layer's `losses`; 0 for none.
        dropout_rate: Share of the coordinates of e_i ⊙ e_j dropped in training, in [0, 1).

    Call arguments:
        vectors: e_i of each of F fields, float (batch, dim); at least one.
        active: bool (batch, F), True at fields that have a value: pairs of two of them take
            attention, all others get none.
        training: Whether dropout is on.

    Returns:
        f, float (batch, dim); 0 for a row without a pair.

    References:
        Xiao et al., Attentional Factorization Machines, IJCAI 2017, §3.1, Eq. 4 and 5; §3.2 for
        dropout "on the pair-wise interaction layer" and the penalty.
    Differs from the paper: nothing.
    """

    def __init__(self, attention_units: int, l2: float = 0.0, dropout_rate: float = 0.0) -> None:
        # float32 whatever the policy: a soft-max over hundreds of pairs
        super().__init__(dtype=keras.config.floatx())
        self.units = attention_units
        self.l2 = l2
        self.dropout_rate = dropout_rate
        self.seed_generator = keras.random.SeedGenerator() if dropout_rate else None

    def build(self, vectors_shape: Sequence[Sequence[int | None]], *_: object) -> None:
        """Create W, b and h."""
        shape = (vectors_shape[0][-1], self.units)
        self.kernel = self.add_weight(
            name="kernel",
            shape=shape,
            initializer="glorot_uniform",
            regularizer=keras.regularizers.L2(self.l2) if self.l2 else None,
        )
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")
        self.projection = self.add_weight(
            name="projection", shape=shape[1:], initializer="glorot_uniform"
        )

    def call(
        self, vectors: Sequence[tf.Tensor], active: tf.Tensor, training: bool = False
    ) -> tf.Tensor:
        """Pool the pairs; see the class."""
        if len(vectors) == 1:
            return tf.zeros_like(vectors[0])
        fields = tf.concat(vectors, axis=1)
        rate, constants = 0.0, [active]
        if training and self.seed_generator:
            rate, rows = self.dropout_rate, tf.shape(fields)[0]
            # a part draws by the seed of its first row, on the way back again the same
            constants.append(tf.random.stateless_uniform(
                (rows, 2), self.seed_generator.next(), None, None, tf.int32
            ))  # fmt: skip
        pool, gradients = partial(_pool, rate), partial(_gradients, rate)
        return in_parts(pool, (fields,), constants, self._tensors(), gradients)

    def weights_of_pairs(self, vectors: Sequence[tf.Tensor], active: tf.Tensor) -> tf.Tensor:
        """Return a_ij, float (batch, F, F), 0 unless i < j; arguments as in a call."""
        count = len(vectors)
        if count == 1:
            return tf.zeros((tf.shape(active)[0], 1, 1), vectors[0].dtype)
        products = _products(tf.concat(vectors, axis=1), count)
        _, weights = _attend(products, active, *self._tensors())
        first, second, real = _circle(count)
        places = np.full((count, count), len(first))  # the place that is added below holds 0
        low, high = np.minimum(first, second)[real], np.maximum(first, second)[real]
        places[low, high] = np.flatnonzero(real)
        return tf.gather(tf.pad(weights, [[0, 0], [0, 1]]), places, axis=1)

    def _tensors(self) -> list[tf.Tensor]:
        return [tf.convert_to_tensor(w) for w in (self.kernel, self.bias, self.projection)]


def _circle(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the two fields of every place (F // 2 · F,), and which places are pairs.

    Fields stand in a circle, and each meets the one that is 1, 2, … F // 2 places ahead: these are
    all pairs once, but for an even F, where the second half of the last round repeats the first.
    In this order products are whole slices times whole slices, forwards and backwards.
    """
    ahead = np.repeat(np.arange(1, count // 2 + 1), count)
    first = np.tile(np.arange(count), count // 2)
    return first, (first + ahead) % count, (2 * ahead < count) | (2 * first < count)


def _products(fields: tf.Tensor, count: int) -> tf.Tensor:
    """Return e_i ⊙ e_j in the order of `_circle`, (B, F // 2, F D), of fields side by side."""
    dim = fields.shape[1] // count
    rounds = [fields * tf.roll(fields, -ahead * dim, 1) for ahead in range(1, count // 2 + 1)]
    return tf.stack(rounds, axis=1)


def _kept(rate: float, seeds: Sequence[tf.Tensor], shape: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return what dropout multiplies by: 0, or 1 / (1 - rate)."""
    drawn = tf.random.stateless_uniform(shape, seeds[0][0])
    return tf.where(drawn >= rate, tf.cast(1 / (1 - rate), dtype), 0.0)


def _attend(
    products: tf.Tensor,
    active: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    projection: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return W (e_i ⊙ e_j) + b, (B, P U), and a, (B, P), of products (B, F // 2, F D)."""
    count, (dim, units) = active.shape[1], kernel.shape
    pairs = count // 2 * count
    hidden = tf.reshape(tf.reshape(products, (-1, dim)) @ kernel, (-1, pairs * units))
    hidden += tf.tile(bias, [pairs])  # XLA makes faster loops of (B, P U) than of (B, P, U)
    scored = tf.nn.relu(hidden) * tf.tile(projection, [pairs])
    scores = tf.reduce_sum(tf.reshape(scored, (-1, pairs, units)), axis=2)
    both = tf.reshape(_products(tf.cast(active, scores.dtype), count), (-1, pairs)) > 0
    return hidden, masked_softmax(scores, both & _circle(count)[2])


def _pool(rate: float, fields: tf.Tensor, active: tf.Tensor, *rest: tf.Tensor) -> tf.Tensor:
    """Return Σ a_ij e_i ⊙ e_j, (B, D); rest are seeds, if coordinates are dropped, W, b and h."""
    *seeds, kernel, bias, projection = rest
    products = _products(fields, active.shape[1])
    if rate:
        products *= _kept(rate, seeds, tf.shape(products), products.dtype)
    _, attention = _attend(products, active, kernel, bias, projection)
    pairs = tf.reshape(products, (-1, attention.shape[1], kernel.shape[0]))
    return tf.reduce_sum(pairs * attention[..., tf.newaxis], axis=1)


def _gradients(
    rate: float, fields: tf.Tensor, active: tf.Tensor, *rest: tf.Tensor
) -> tuple[tf.Tensor, ...]:
    """Return the gradients of fields, W, b and h; rest are seeds, that of `_pool`, W, b and h."""
    *seeds, upstream, kernel, bias, projection = rest
    count, (dim, units) = active.shape[1], kernel.shape
    products, kept = _products(fields, count), None
    if rate:
        kept = _kept(rate, seeds, tf.shape(products), products.dtype)
        products *= kept
    hidden, attention = _attend(products, active, kernel, bias, projection)
    pairs = attention.shape[1]
    products = tf.reshape(products, (-1, pairs, dim))
    of_attention = tf.reduce_sum(products * upstream[:, tf.newaxis], axis=2)
    mean = tf.reduce_sum(attention * of_attention, axis=1, keepdims=True)
    of_scores = attention * (of_attention - mean)  # the soft-max backwards
    spread = tf.reshape(tf.repeat(of_scores, units, axis=1), (-1, pairs * units))
    # without the factor h, which comes in where it is cheap
    of_hidden = tf.reshape(tf.where(hidden > 0, spread, 0.0), (-1, units))
    of_kernel = tf.matmul(tf.reshape(products, (-1, dim)), of_hidden, transpose_a=True)
    of_bias = tf.reduce_sum(of_hidden, axis=0)
    # Σ ReLU(u) g = Σ u (u > 0) g with u = W p + b: no further pass over the pairs
    of_projection = tf.reduce_sum(kernel * of_kernel, axis=0) + bias * of_bias
    of_products = tf.matmul(of_hidden, kernel * projection, transpose_b=True)
    of_products = tf.reshape(of_products, (-1, pairs, dim))
    of_products += attention[..., tf.newaxis] * upstream[:, tf.newaxis]
    of_products = tf.reshape(of_products, (-1, count // 2, count * dim))
    if kept is not None:
        of_products *= kept
    of_fields = _gradient_of_products(fields, of_products, dim)
    return of_fields, of_kernel * projection, of_bias * projection, of_projection


def _gradient_of_products(fields: tf.Tensor, upstream: tf.Tensor, dim: int) -> tf.Tensor:
    """Return what the gradient of `_products`, (B, F // 2, F D), makes of the fields, (B, F D)."""
    gradients = []
    for i, part in enumerate(tf.unstack(upstream, axis=1)):
        ahead = (i + 1) * dim
        gradients += [part * tf.roll(fields, -ahead, 1), tf.roll(part * fields, ahead, 1)]
    return tf.add_n(gradients)
