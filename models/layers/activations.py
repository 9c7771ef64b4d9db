# SPDX-License-Identifier: Apache-2.0
"""Activations with weights of their own, and the names that configs give to all of them."""

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

Activation = Literal["relu", "leaky_relu", "prelu", "dice", "sigmoid", "tanh"]


def activation_layer(name: Activation) -> "ActivationLayer":
    """Return a new layer of that activation."""
    match name:
        case "dice":
            return Dice()
        case "prelu":
            return PReLU()
        case _:
            return Elementwise(name)


class ActivationLayer(keras.layers.Layer):
    """An activation of units, which may learn and may look at the whole batch.

    Call arguments:
        inputs: Float (…, units).
        mask: bool (…), True at real items; None: all real.
        training: Whether batch statistics are on.

    Returns:
        The same shape. At padding the values mean nothing.
    """

    def __init__(self) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost


class Elementwise(ActivationLayer):
    """An activation without weights; mask and training change nothing.

    Args:
        function: Its Keras name, such as "relu"; "leaky_relu" has the slope 0.2 below zero.
    """

    def __init__(self, function: str) -> None:
        super().__init__()
        self.function = keras.activations.get(function)

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Apply the activation; see the class."""
        return self.function(inputs)


class PReLU(ActivationLayer):
    """A rectifier whose slope below zero is learnt, one per unit; mask and training change nothing.

    f(s) = max(s, 0) + α min(s, 0)

    References:
        He et al., Delving Deep into Rectifiers, ICCV 2015, §2.1, Eq. 1.
    Differs from the paper: α starts at 0, where it is ReLU, not at 0.25.
    """

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create α."""
        self.alpha = self.add_weight(name="alpha", shape=input_shape[-1:], initializer="zeros")

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Apply the activation; see the class."""
        return tf.maximum(inputs, 0.0) + self.alpha * tf.minimum(inputs, 0.0)


class Dice(ActivationLayer):
    """An activation that bends where the data are, one α per unit.

    f(s) = p(s) s + (1 - p(s)) α s,    p(s) = σ((s - E[s]) / √(Var[s] + ε))

    E and Var are those of the batch in training, and their moving averages otherwise.

    Args:
        momentum: Of the moving averages, in [0, 1). Until 1 / (1 - momentum) batches are seen
            they are plain averages, so that a short training does not score with the averages'
            starting values.
        epsilon: ε > 0.

    Call arguments and returns: see `ActivationLayer`; padding enters neither E nor Var.

    References:
        Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, §5.2,
        Eq. 9, with its ε = 1e-8.
    Differs from the paper: nothing; it gives neither the momentum nor the start of α, here 0.
    """

    def __init__(self, momentum: float = 0.99, epsilon: float = 1e-8) -> None:
        super().__init__()
        self.momentum = momentum
        self.epsilon = epsilon

    def build(self, input_shape: Sequence[int | None]) -> None:
        """Create α and the moving averages."""
        units = input_shape[-1:]
        self.alpha = self.add_weight(name="alpha", shape=units, initializer="zeros")
        # autocast=False: half precision holds neither ε nor a slow average
        self.mean = self.add_weight(
            name="mean", shape=units, initializer="zeros", trainable=False, autocast=False
        )
        self.variance = self.add_weight(
            name="variance", shape=units, initializer="ones", trainable=False, autocast=False
        )
        self.batches = self.add_weight(
            name="batches", shape=(), initializer="zeros", trainable=False, autocast=False
        )

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        """Apply the activation; see the class."""
        s = tf.cast(inputs, self.variable_dtype)
        mean, variance = self._batch_moments(s, mask) if training else (self.mean, self.variance)
        p = tf.cast(tf.sigmoid((s - mean) * tf.math.rsqrt(variance + self.epsilon)), inputs.dtype)
        return inputs * (p + (1.0 - p) * self.alpha)

    def _batch_moments(self, s: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        real = tf.ones_like(s[..., :1]) if mask is None else tf.cast(mask[..., None], s.dtype)
        axes = list(range(s.shape.rank - 1))
        count = tf.reduce_sum(real)
        divisor = tf.maximum(count, 1.0)
        mean = tf.reduce_sum(real * s, axes) / divisor
        variance = tf.reduce_sum(real * tf.square(s - mean), axes) / divisor
        # a batch of empty histories has no statistics to average
        seen = tf.cast(count > 0, s.dtype)
        self.batches.assign_add(seen)
        rate = seen * tf.maximum(1.0 / tf.maximum(self.batches, 1.0), 1.0 - self.momentum)
        self.mean.assign_add(rate * (mean - self.mean))
        self.variance.assign_add(rate * (variance - self.variance))
        return mean, variance
