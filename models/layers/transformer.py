# SPDX-License-Identifier: Apache-2.0
"""Blocks of a transformer over tokens of which some are padding, and stacks of them."""

import keras
import tensorflow as tf

from models.layers.by_length import by_length
from models.layers.scorers import Shape
from models.layers.transformer_parts import BlockOptions, layer_norm


class EncoderBlock(keras.layers.Layer):
    """Self-attention, then the feed-forward layers, each surrounded by a `Residual`.

    Args:
        options: What it is made of.
        causal: Whether tokens look at themselves and those before them only.

    Call arguments:
        tokens: Float (batch, items, dim).
        mask: bool (batch, items), True at real items.
        return_weights: Whether to return the attention as well.
        training: Whether dropout is on.

    Returns:
        The new tokens (batch, items, dim); with `return_weights` also the attention
        (batch, heads, items, items).

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.1.
    Differs from the paper: nothing; see the parts.
    """

    def __init__(self, options: BlockOptions, causal: bool = False) -> None:
        super().__init__()
        self.options = options
        self.causal = causal

    def build(self, tokens_shape: Shape) -> None:
        """Create the parts."""
        dim = tokens_shape[-1] or 0
        self.attention, self.feed_forward = (
            self.options.attention(dim),
            self.options.feed_forward(),
        )
        self.attention.build(tokens_shape, tokens_shape)
        self.feed_forward.build(tokens_shape)
        self.residuals = [self.options.residual() for _ in range(2)]
        for residual in self.residuals:
            residual.build(tokens_shape)

    def call(
        self,
        tokens: tf.Tensor,
        mask: tf.Tensor,
        *,
        return_weights: bool = False,
        training: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Return the new tokens and the attention; see the class."""
        found = []

        def attend(x: tf.Tensor) -> tf.Tensor:
            options = {"causal": self.causal, "training": training}
            if not return_weights:
                return self.attention(x, x, mask, **options)
            outputs, weights = self.attention(x, x, mask, return_weights=True, **options)
            found.append(weights)
            return outputs

        tokens = self.residuals[0](tokens, part=attend, training=training)
        tokens = self.residuals[1](
            tokens, part=lambda x: self.feed_forward(x, training=training), training=training
        )
        return (tokens, found[0]) if return_weights else tokens


class DecoderBlock(keras.layers.Layer):
    """Masked self-attention, attention to an encoded sequence, then the feed-forward layers.

    Args:
        options: What it is made of.

    Call arguments:
        tokens: Float (batch, queries, dim); none looks ahead.
        encoded: Float (batch, items, encoded dim).
        mask: bool (batch, items), True at real items of `encoded`.
        training: Whether dropout is on.

    Returns:
        The new tokens (batch, queries, dim), and the attention to the encoded sequence
        (batch, heads, queries, items).

    References:
        Vaswani et al., Attention Is All You Need, NIPS 2017, §3.1.
    Differs from the paper: nothing; see the parts.
    """

    def __init__(self, options: BlockOptions) -> None:
        super().__init__()
        self.options = options

    def build(self, tokens_shape: Shape, encoded_shape: Shape) -> None:
        """Create the parts."""
        dim = tokens_shape[-1] or 0
        self.self_attention = self.options.attention(dim)
        self.cross_attention = self.options.attention(dim)
        self.feed_forward = self.options.feed_forward()
        self.self_attention.build(tokens_shape, tokens_shape)
        self.cross_attention.build(tokens_shape, encoded_shape)
        self.feed_forward.build(tokens_shape)
        self.residuals = [self.options.residual() for _ in range(3)]
        for residual in self.residuals:
            residual.build(tokens_shape)

    def call(
        self, tokens: tf.Tensor, encoded: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the new tokens and the attention to the encoded sequence; see the class."""
        found = []

        def among(x: tf.Tensor) -> tf.Tensor:
            everywhere = tf.ones(tf.shape(x)[:2], bool)
            return self.self_attention(x, x, everywhere, causal=True, training=training)

        def across(x: tf.Tensor) -> tf.Tensor:
            outputs, weights = self.cross_attention(
                x, encoded, mask, return_weights=True, training=training
            )
            found.append(weights)
            return outputs

        def feed(x: tf.Tensor) -> tf.Tensor:
            return self.feed_forward(x, training=training)

        for residual, part in zip(self.residuals, (among, across, feed), strict=True):
            tokens = residual(tokens, part=part, training=training)
        return tokens, found[0]


class Encoder(keras.layers.Layer):
    """A stack of encoder blocks; with order "pre", their output is normalised once more.

    Rows are encoded `by_length`, unless dropout is on, which would not drop the same twice.

    Args:
        num_layers: Number of blocks, at least 1.
        options: What they are made of.
        causal: Whether tokens look at themselves and those before them only.
        last_gain: Where γ of that last normalisation starts, and so the size of the output; order
            "post" has none.

    Call arguments:
        tokens: Float (batch, items, dim).
        mask: bool (batch, items), True at real items; nobody looks at padding.
        return_weights: Whether to return the last block's attention as well.
        training: Whether dropout is on.

    Returns:
        The encoded tokens (batch, items, dim), which mean nothing at padding; with
        `return_weights` also the last block's attention (batch, heads, items, items).

    References:
        Vaswani et al., NIPS 2017, §3.1; the last normalisation: Xiong et al., ICML 2020, Table 1.
    Differs from the paper: nothing; see the parts.
    """

    def __init__(
        self, num_layers: int, options: BlockOptions, causal: bool = False, last_gain: float = 1.0
    ) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost
        self.causal = causal
        self.dropout_rate = options.dropout_rate
        self.blocks = [EncoderBlock(options, causal) for _ in range(num_layers)]
        self.last_norm = layer_norm(last_gain) if options.order == "pre" else None

    def build(self, tokens_shape: Shape) -> None:
        """Create the blocks' weights."""
        for block in self.blocks:
            block.build(tokens_shape)
        if self.last_norm:
            self.last_norm.build(tokens_shape)

    def call(
        self,
        tokens: tf.Tensor,
        mask: tf.Tensor,
        *,
        return_weights: bool = False,
        training: bool = False,
    ) -> tf.Tensor | tuple[tf.Tensor, tf.Tensor]:
        """Encode; see the class."""
        if return_weights:
            *first, last = self.blocks
            for block in first:
                tokens = block(tokens, mask, training=training)
            tokens, weights = last(tokens, mask, return_weights=True, training=training)
            return self._normalised(tokens), weights
        if training and self.dropout_rate:
            return self._encoded(tokens, mask, training=True)
        return by_length(self._encoded, tokens, mask)

    def _encoded(self, tokens: tf.Tensor, mask: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return the encoded tokens."""
        for block in self.blocks:
            tokens = block(tokens, mask, training=training)
        return self._normalised(tokens)

    def _normalised(self, tokens: tf.Tensor) -> tf.Tensor:
        return self.last_norm(tokens) if self.last_norm else tokens


class Decoder(keras.layers.Layer):
    """A stack of decoder blocks; with order "pre", their output is normalised once more.

    Args:
        num_layers: Number of blocks, at least 1.
        options: What they are made of.

    Call arguments and returns: see `DecoderBlock`, but the mask is bool (batch, items); the
        attention is the last block's.

    References:
        Vaswani et al., NIPS 2017, §3.1; the last normalisation: Xiong et al., ICML 2020, Table 1.
    Differs from the paper: nothing; see the parts.
    """

    def __init__(self, num_layers: int, options: BlockOptions) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost
        self.blocks = [DecoderBlock(options) for _ in range(num_layers)]
        self.last_norm = layer_norm() if options.order == "pre" else None

    def build(self, tokens_shape: Shape, encoded_shape: Shape) -> None:
        """Create the blocks' weights."""
        for block in self.blocks:
            block.build(tokens_shape, encoded_shape)
        if self.last_norm:
            self.last_norm.build(tokens_shape)

    def call(
        self, tokens: tf.Tensor, encoded: tf.Tensor, mask: tf.Tensor, training: bool = False
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Decode; see the class."""
        weights = None
        for block in self.blocks:
            tokens, weights = block(tokens, encoded, mask, training=training)
        return (self.last_norm(tokens) if self.last_norm else tokens), weights
