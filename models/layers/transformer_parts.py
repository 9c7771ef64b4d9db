# SPDX-License-Identifier: Apache-2.0
"""The parts of transformer blocks, but for attention."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import keras
import tensorflow as tf

from models.layers.activations import Elementwise
from models.layers.multi_head import MultiHeadAttention
from models.layers.scorers import Shape

Order = Literal["post", "pre"]
Feed = Literal["relu", "leaky_relu"]


@dataclass(frozen=True)
class BlockOptions:
    """What the blocks of a stack are made of.

    Attributes:
        num_heads: Heads of each attention, at least 1.
        units: Width inside the feed-forward layers, at least 1.
        order: Where normalisations stand; see `Residual`.
        activation: Inside the feed-forward layers.
        dropout_rate: Share dropped in training of attention weights, of what is inside the
            feed-forward layers, and of what each part of a block adds, in [0, 1).
    """

    num_heads: int = 1
    units: int = 64
    order: Order = "post"
    activation: Feed = "relu"
    dropout_rate: float = 0.0

    def attention(self, dim: int) -> MultiHeadAttention:
        """Return a new attention for tokens of width `dim`; heads of dim / num_heads, rounded up.

        Args:
            dim: Width of the tokens.
        """
        return MultiHeadAttention(self.num_heads, -(-dim // self.num_heads), self.dropout_rate)

    def feed_forward(self) -> "FeedForward":
        """Return new feed-forward layers."""
        return FeedForward(self.units, self.activation, self.dropout_rate)

    def residual(self) -> "Residual":
        """Return a new surrounding of one part."""
        return Residual(self.order, self.dropout_rate)


class FeedForward(keras.layers.Layer):
    """The same two layers for every token: f(x W_1 + b_1) W_2 + b_2.

    Args:
        units: Width between the two, at least 1.
        activation: f.
        dropout_rate: Share of the values between the two dropped in training, in [0, 1).

    Call arguments:
        tokens: x, float (batch, items, dim).
        training: Whether dropout is on.

    Returns:
        Float (batch, items, dim).

    References:
        Vaswani et al., NIPS 2017, §3.3, Eq. 2.
    Differs from the paper: there is a dropout between the layers, as in the authors' code.
    """

    def __init__(self, units: int, activation: Feed = "relu", dropout_rate: float = 0.0) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(units)
        self.activation = Elementwise(activation)
        self.dropout = keras.layers.Dropout(dropout_rate)

    def build(self, tokens_shape: Shape) -> None:
        """Create both layers."""
        self.outer = keras.layers.Dense(tokens_shape[-1])
        self.inner.build(tokens_shape)
        self.outer.build((*tokens_shape[:-1], self.inner.units))

    def call(self, tokens: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Apply both layers; see the class."""
        hidden = self.activation(self.inner(tokens))
        return self.outer(self.dropout(hidden, training=training))


class Residual(keras.layers.Layer):
    """What surrounds a part of a block: x + f(x), normalised.

    "post": LayerNorm(x + dropout(f(x)));    "pre": x + dropout(f(LayerNorm(x)))

    Args:
        order: Where the normalisation stands.
        dropout_rate: Share of f(x) dropped in training, in [0, 1).

    Call arguments:
        tokens: x, float (batch, items, dim).
        part: f.
        training: Whether dropout is on.

    Returns:
        Float (batch, items, dim).

    References:
        "post": Vaswani et al., NIPS 2017, §3.1 and §5.4. "pre": Xiong et al., On Layer
        Normalization in the Transformer Architecture, ICML 2020, Table 1.
    Differs from the paper: nothing.
    """

    def __init__(self, order: Order, dropout_rate: float = 0.0) -> None:
        super().__init__()
        self.order = order
        self.norm = layer_norm()
        self.dropout = keras.layers.Dropout(dropout_rate)

    def build(self, tokens_shape: Shape) -> None:
        """Create the normalisation's weights."""
        self.norm.build(tokens_shape)

    def call(
        self, tokens: tf.Tensor, *, part: Callable[[tf.Tensor], tf.Tensor], training: bool = False
    ) -> tf.Tensor:
        """Apply f and what surrounds it; see the class."""
        if self.order == "pre":
            return tokens + self.dropout(part(self.norm(tokens)), training=training)
        return self.norm(tokens + self.dropout(part(tokens), training=training))


def layer_norm(gain: float = 1.0) -> keras.layers.Layer:
    """Return a layer normalisation (Ba et al. 2016, Eq. 4) with ε = 1e-6 under the root.

    Args:
        gain: Where its γ starts.
    """
    start = keras.initializers.Constant(gain)
    return keras.layers.LayerNormalization(epsilon=1e-6, gamma_initializer=start)
