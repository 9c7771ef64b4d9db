# SPDX-License-Identifier: Apache-2.0
"""Gated recurrent units over events of which some are padding, and their attention variants."""

from collections.abc import Sequence
from typing import ClassVar

import keras
import tensorflow as tf

from models.layers.recurrence import GateWeights, gated_recurrence

Shape = Sequence[int | None]


class Recurrent(keras.layers.Layer):
    """What the units below share: their weights, and the states of a whole sequence.

    Args:
        units: Width of the state, at least 1.
    """

    gates: ClassVar[tuple[str, ...]] = ("update", "reset", "candidate")

    def __init__(self, units: int) -> None:
        super().__init__()
        self.supports_masking = True  # or Keras warns that a mask is lost
        self.units = units

    def create_weights(self, dim: int | None) -> None:
        """Create W, U and b of all gates, side by side, for inputs of width `dim`."""
        width = len(self.gates) * self.units
        self.kernel = self.add_weight(
            name="kernel", shape=(dim, width), initializer="glorot_uniform"
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, width), initializer="orthogonal"
        )
        self.bias = self.add_weight(name="bias", shape=(width,), initializer="zeros")

    def states(
        self, inputs: tf.Tensor, weights: tf.Tensor, initial: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return h_1 … h_T, float (batch, items, units), and the last of them (batch, units).

        Args:
            inputs: i, float (batch, items, dim).
            weights: What multiplies the share of a state that a step replaces, float
                (batch, items): 0 at padding keeps the state.
            initial: h_0, float (batch, units); zero when left out.
        """
        if initial is None:
            initial = tf.zeros((tf.shape(inputs)[0], self.units), inputs.dtype)
        gates = GateWeights(
            *map(tf.convert_to_tensor, (self.kernel, self.recurrent_kernel, self.bias))
        )
        return gated_recurrence(inputs, weights, initial, gates)


class GRU(Recurrent):
    """Gated recurrent unit.

    u_t = σ(W^u i_t + U^u h_{t-1} + b^u);    r_t = σ(W^r i_t + U^r h_{t-1} + b^r);
    h̃_t = tanh(W^h i_t + r_t ⊙ U^h h_{t-1} + b^h);    h_t = (1 - u_t) ⊙ h_{t-1} + u_t ⊙ h̃_t

    Args:
        units: Width of the state, at least 1.

    Call arguments:
        inputs: i, float (batch, items, dim).
        mask: bool (batch, items), True at real items; padding keeps the state.
        initial: h_0, float (batch, units); zero when left out.

    Returns:
        The states, float (batch, items, units), which mean nothing at padding, and the state after
        all real items, float (batch, units).

    References:
        Cho et al., Learning Phrase Representations using RNN Encoder-Decoder, EMNLP 2014, §2.3;
        in the form of Zhou et al., Deep Interest Evolution Network for Click-Through Rate
        Prediction, AAAI 2019, Eq. 2 to 5.
    Differs from the paper: nothing; Cho et al. reset the state before its product with U^h, and
        their update gate says what stays.
    """

    def build(self, inputs_shape: Shape) -> None:
        """Create the weights."""
        self.create_weights(inputs_shape[-1])

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor, initial: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return all states and the last; see the class."""
        return self.states(inputs, tf.cast(mask, inputs.dtype), initial)


class AttentionRecurrent(Recurrent):
    """A recurrent unit whose steps are weighted by attention.

    Args:
        units: Width of the state, at least 1.

    Call arguments:
        inputs: i, float (batch, items, dim).
        attention: a, float (batch, items).
        mask: bool (batch, items), True at real items; padding keeps the state.

    Returns:
        The states, float (batch, items, units), which mean nothing at padding, and the state after
        all real items, float (batch, units).
    """

    def build(self, inputs_shape: Shape, attention_shape: Shape) -> None:
        """Create the weights."""
        self.create_weights(inputs_shape[-1])

    def call(
        self, inputs: tf.Tensor, attention: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return all states and the last; see the class."""
        return self.states(inputs, tf.where(mask, attention, 0.0))


class AUGRU(AttentionRecurrent):
    """GRU with attentional update gate: an event that matters little changes little.

    ũ_t = a_t u_t;    h_t = (1 - ũ_t) ⊙ h_{t-1} + ũ_t ⊙ h̃_t, the rest as in `GRU`

    With a_t = 1 it is `GRU`, with a_t = 0 the state stays.

    Args, call arguments and returns: see `AttentionRecurrent`.

    References:
        Zhou et al., DIEN, AAAI 2019, "Interest Evolving Layer", the equations of AUGRU.
    Differs from the paper: nothing.
    """


class AGRU(AttentionRecurrent):
    """Attention-based GRU: attention takes the place of the update gate.

    h_t = (1 - a_t) h_{t-1} + a_t h̃_t, the rest as in `GRU` without u_t

    Args, call arguments and returns: see `AttentionRecurrent`.

    References:
        Zhou et al., DIEN, AAAI 2019, "Interest Evolving Layer", the equation of AGRU.
    Differs from the paper: nothing.
    """

    gates = ("reset", "candidate")


class AIGRU(AttentionRecurrent):
    """GRU with attentional input: i_t ← a_t i_t, the rest as in `GRU`.

    Args, call arguments and returns: see `AttentionRecurrent`.

    References:
        Zhou et al., DIEN, AAAI 2019, "Interest Evolving Layer", the equation of AIGRU.
    Differs from the paper: nothing.
    """

    def call(
        self, inputs: tf.Tensor, attention: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return all states and the last; see the class."""
        weighted = inputs * attention[..., tf.newaxis]
        return self.states(weighted, tf.cast(mask, inputs.dtype))
