# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf
from pydantic import Field

from features.options import Options
from models.layers.activations import Activation, activation_layer
from models.layers.regularisation import l2_penalty
from models.limits import Width

Units = tuple[Width, ...]
"""Widths of layers."""
KernelInitializer = Literal["glorot_uniform", "glorot_normal", "he_uniform", "he_normal"]


class MLPOptions(Options):
    """Options of an `MLP`, and so of every model that has one."""

    hidden_units: Units = Field((200, 80), description="Width of each hidden layer of the MLP.")
    activation: Activation = Field("relu", description="Of the MLP's hidden layers.")
    dropout_rate: float = Field(
        0.0, ge=0, lt=1, description="Share of the MLP's hidden values dropped in training."
    )
    batch_norm: bool = Field(
        False, description="Whether hidden layers are batch-normalised before their activation."
    )
    mlp_l2: float = Field(
        0.0, ge=0, description="λ of the penalty λ/2·|W|² on each layer of the MLP."
    )
    kernel_initializer: KernelInitializer = Field(
        "glorot_uniform", description="Where the MLP's matrices start."
    )


def batch_norm_layer() -> keras.layers.BatchNormalization:
    """Return batch normalisation that keeps up with short training and small inputs.

    Its running mean and variance follow within some tens of steps, where Keras' default takes
    hundreds: validations of the first epochs would judge statistics of the start. Its ε is below
    the variance of what small embeddings give, which a larger one would leave unscaled.
    """
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)


class MLP(keras.layers.Layer):
    """A stack of dense layers: x ← dropout(f(norm(x W + b))), then x W + b if asked for.

    Args:
        options: Widths, f, norm, dropout and where matrices start. "dice" and "prelu" learn weights
            of their own. The penalty λ/2·|W|² on the matrix of every layer is part of `losses`.
        output_units: Width of a last linear layer; None for none.
        output_bias: Where the biases of that layer start.

    Call arguments:
        inputs: Float (…, width).
        mask: bool (…), True at real items, which alone enter batch statistics. None: all real.
        training: Whether dropout and batch statistics are on.

    Returns:
        Float (…, output_units), or (…, hidden_units[-1]) without a linear layer.
    """

    def __init__(
        self, options: MLPOptions, output_units: int | None = None, output_bias: float = 0.0
    ) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost
        units = options.hidden_units
        kernels = {
            "kernel_initializer": options.kernel_initializer,
            "kernel_regularizer": l2_penalty(options.mlp_l2),
        }
        self.hidden = [keras.layers.Dense(width, **kernels) for width in units]
        self.norms = [batch_norm_layer() for _ in units if options.batch_norm]
        self.activations = [activation_layer(options.activation) for _ in units]
        self.dropout = keras.layers.Dropout(options.dropout_rate)
        self.output_layer = None
        if output_units:
            bias = keras.initializers.Constant(output_bias)
            self.output_layer = keras.layers.Dense(output_units, bias_initializer=bias, **kernels)

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create the weights of every layer."""
        shape = tuple(input_shape)
        for i, dense in enumerate(self.hidden):
            dense.build(shape)
            shape = (*shape[:-1], dense.units)
            if self.norms:
                self.norms[i].build(shape)
            self.activations[i].build(shape)
        if self.output_layer:
            self.output_layer.build(shape)

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Apply the stack; see the class."""
        x = inputs
        for i, dense in enumerate(self.hidden):
            x = dense(x)
            if self.norms:
                x = self.norms[i](x, mask=mask, training=training)
            x = self.activations[i](x, mask=mask, training=training)
            x = self.dropout(x, training=training)
        return self.output_layer(x) if self.output_layer else x
