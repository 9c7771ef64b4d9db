# SPDX-License-Identifier: Apache-2.0
"""Memory that is gone through in episodes, by a GRU that a gate opens at what matters."""

from collections.abc import Sequence
from typing import Literal

import keras
import tensorflow as tf

from models.layers.masking import masked_softmax
from models.layers.recurrence import GateWeights, gated_recurrence

Shape = Sequence[int | None]
GateNormalisation = Literal["sigmoid", "softmax"]


class GatedGRU(keras.layers.Layer):
    """A GRU whose update a gate lets through: h_t = g_t GRU(x_t, h_{t-1}) + (1 - g_t) h_{t-1}.

    GRU(x, h) = z ∘ h + (1 - z) ∘ tanh(W x + r ∘ U h + b),    z, r = σ(W x + U h + b)

    With g = 1 it is a plain GRU, and g = 0, as at padding, keeps the state. One loop of the graph
    runs over time, whose size is that of one step.

    Args:
        units: Width of the state.

    Call arguments:
        inputs: Float (batch, time, width).
        gates: g, float (batch, time).
        state: h_0, float (batch, units).

    Returns:
        Every h_t, (batch, time, units), which mean nothing beyond a row's last gate other than 0,
        and the state at that gate, (batch, units).

    References:
        Kumar et al., Ask Me Anything: Dynamic Memory Networks for Natural Language Processing,
        ICML 2016, §2.1, Eq. 1 to 4, for GRU; §2.3, Eq. 7, for the gate.
    Differs from the paper: nothing.
    """

    def __init__(self, units: int) -> None:
        super().__init__(dtype=keras.config.floatx())
        self.units = units

    def build(self, inputs_shape: Shape, *_: Shape) -> None:
        """Create W, U and b of z, r and the new state, side by side."""
        width = 3 * self.units
        self.kernel = self.add_weight(
            name="kernel", shape=(inputs_shape[-1], width), initializer="glorot_uniform"
        )
        self.recurrent_kernel = self.add_weight(
            name="recurrent_kernel", shape=(self.units, width), initializer="glorot_uniform"
        )
        self.bias = self.add_weight(name="bias", shape=(width,), initializer="zeros")

    def call(
        self, inputs: tf.Tensor, gates: tf.Tensor, state: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Run over time; see the class."""
        # 1 - z = σ(-…) is the share that a step replaces
        signs = tf.repeat(tf.constant([-1.0, 1.0, 1.0], inputs.dtype), self.units)
        weights = (self.kernel, self.recurrent_kernel, self.bias)
        signed = GateWeights(*(tf.convert_to_tensor(weight) * signs for weight in weights))
        return gated_recurrence(inputs, gates, state, signed)

    def step(self, inputs: tf.Tensor, state: tf.Tensor) -> tf.Tensor:
        """Return GRU(x, h) of one step of a built layer: x (batch, width), h (batch, units)."""
        opened = tf.ones_like(inputs[:, :1])
        return self.call(inputs[:, tf.newaxis], opened, state)[1]


class EpisodeGate(keras.layers.Layer):
    """How much a fact matters to a question, given what is remembered.

    z(c, m, q) = [c, m, q, c∘q, c∘m, |c-q|, |c-m|, cᵀWq, cᵀWm];    score = w₂·tanh(W₁ z + b₁) + b₂

    W₁ is cut into its parts by those of z, so that z, nine times the facts, is never built, and
    what m does not enter is computed once for all episodes.

    Args:
        units: Width of b₁.

    Call arguments:
        facts: c, float (batch, items, dim).
        memory: m, float (batch, dim).
        constant: What `without_memory` returned for these facts and a question q (batch, dim).

    Returns:
        Scores, float (batch, items); a sigmoid makes gates of them.

    References:
        Kumar et al. 2016, §2.3, Eq. 5 and 6.
    Differs from the paper: nothing.
    """

    def __init__(self, units: int) -> None:
        super().__init__(dtype=keras.config.floatx())
        self.units = units

    def build(self, facts_shape: Shape, *_: Shape) -> None:
        """Create W, W₁, b₁, w₂ and b₂."""
        dim = facts_shape[-1]
        if dim is None:
            raise ValueError("the width of the facts must be known")
        self.parts = [dim] * 7 + [1, 1]
        glorot = {"initializer": "glorot_uniform"}
        self.bilinear = self.add_weight(name="bilinear_kernel", shape=(dim, dim), **glorot)
        self.kernel = self.add_weight(name="kernel", shape=(sum(self.parts), self.units), **glorot)
        self.bias = self.add_weight(name="bias", shape=(self.units,), initializer="zeros")
        self.projection = self.add_weight(name="projection", shape=(self.units,), **glorot)
        self.offset = self.add_weight(name="offset", shape=(), initializer="zeros")

    def without_memory(self, facts: tf.Tensor, question: tf.Tensor) -> tf.Tensor:
        """Return what of W₁ z + b₁ m does not enter, (batch, items, units); the layer is built."""
        w_c, _, w_q, w_cq, _, w_dq, _, w_wq, _ = tf.split(
            tf.convert_to_tensor(self.kernel), self.parts
        )
        compared = _compared(facts, question, w_cq, w_dq, self.bilinear, w_wq)
        own = tf.matmul(question, w_q) + self.bias
        return tf.tensordot(facts, w_c, 1) + compared + own[:, tf.newaxis]

    def call(self, facts: tf.Tensor, memory: tf.Tensor, constant: tf.Tensor) -> tf.Tensor:
        """Return scores; see the class."""
        _, w_m, _, _, w_cm, _, w_dm, _, w_wm = tf.split(
            tf.convert_to_tensor(self.kernel), self.parts
        )
        compared = _compared(facts, memory, w_cm, w_dm, self.bilinear, w_wm)
        hidden = tf.tanh(constant + compared + tf.matmul(memory, w_m)[:, tf.newaxis])
        return tf.tensordot(hidden, tf.convert_to_tensor(self.projection), 1) + self.offset


def _compared(
    facts: tf.Tensor,
    other: tf.Tensor,
    w_product: tf.Tensor,
    w_distance: tf.Tensor,
    bilinear: tf.Tensor,
    w_bilinear: tf.Tensor,
) -> tf.Tensor:
    """Return (c∘x) W_p + |c - x| W_d + (cᵀWx) w_b of x (batch, dim), (batch, items, units)."""
    x = other[:, tf.newaxis]
    match = tf.einsum("btd,bd->bt", facts, tf.matmul(other, bilinear, transpose_b=True))
    return (
        tf.tensordot(facts * x, w_product, 1)
        + tf.tensordot(tf.abs(facts - x), w_distance, 1)
        + match[..., tf.newaxis] * w_bilinear
    )


class DynamicMemory(keras.layers.Layer):
    """Goes through the facts several times, each time by what it remembers.

    c_t = GRU(x_t, c_{t-1}),    q = GRU(v, 0),    m⁰ = q
    g_tⁱ = σ(score(c_t, mⁱ⁻¹, q)),    eⁱ = h_T of `GatedGRU` over c with gates gⁱ,
    mⁱ = GRU(eⁱ, mⁱ⁻¹),    answer = GRU(q, m of the last episode)

    Args:
        units: Width of all states.
        num_episodes: 1 or more.
        gate_units: Width of the gate's hidden layer.
        gate_normalisation: "sigmoid", or "softmax" over the real items.

    Call arguments:
        question: v, float (batch, any width).
        inputs: x, float (batch, items, any width), oldest first.
        mask: bool (batch, items), True at real items, which come first.

    Returns:
        The answer (batch, units), and the gates of every episode, (batch, episodes, items), 0 at
        padding. Without items every episode is zero.

    References:
        Kumar et al., Ask Me Anything: Dynamic Memory Networks for Natural Language Processing,
        ICML 2016, §2.1 to §2.4, Eq. 1 to 8; the soft-max is that of Xiong et al., Dynamic Memory
        Networks for Visual and Textual Question Answering, ICML 2016, §3.3, Eq. 10.
    Differs from the paper: a fact is one input, not a sentence of words; the question's GRU and
        the answer's take one step, the latter without a previous word y. Episodes are as many as
        asked for; no end-of-passes fact stops them.
    """

    def __init__(
        self,
        units: int,
        num_episodes: int = 3,
        gate_units: int = 32,
        gate_normalisation: GateNormalisation = "sigmoid",
    ) -> None:
        # float32 whatever the policy: a state lives for a thousand steps
        super().__init__(dtype=keras.config.floatx())
        self.num_episodes = num_episodes
        self.gate_normalisation = gate_normalisation
        self.input_gru = GatedGRU(units)
        self.gate = EpisodeGate(gate_units)
        self.attention_gru = GatedGRU(units)
        self.memory_gru = GatedGRU(units)
        self.answer_gru = GatedGRU(units)

    def build(self, question_shape: Shape, inputs_shape: Shape, *_: Shape) -> None:
        """Create the weights of all modules."""
        facts = (*inputs_shape[:-1], self.input_gru.units)
        self.input_gru.build(inputs_shape)
        width = 2 * self.input_gru.units
        self.question_kernel = self.add_weight(
            name="question_kernel", shape=(question_shape[-1], width), initializer="glorot_uniform"
        )
        self.question_bias = self.add_weight(
            name="question_bias", shape=(width,), initializer="zeros"
        )
        for layer in (self.gate, self.attention_gru, self.memory_gru, self.answer_gru):
            layer.build(facts)

    def call(
        self, question: tf.Tensor, inputs: tf.Tensor, mask: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the answer and the gates of every episode; see the class."""
        nothing = tf.zeros([tf.shape(question)[0], self.input_gru.units], question.dtype)
        facts, _ = self.input_gru(inputs, tf.cast(mask, inputs.dtype), nothing)
        q = m = self._question(question)
        constant, by_episode = self.gate.without_memory(facts, q), []
        for _ in range(self.num_episodes):
            gates = self._gates(self.gate(facts, m, constant), mask)
            _, episode = self.attention_gru(facts, gates, nothing)
            m = self.memory_gru.step(episode, m)
            by_episode.append(gates)
        return self.answer_gru.step(q, m), tf.stack(by_episode, axis=1)

    def _question(self, question: tf.Tensor) -> tf.Tensor:
        """Return GRU(v, 0), (batch, units): a step from nothing has no use for U and r."""
        x = tf.matmul(question, tf.convert_to_tensor(self.question_kernel)) + self.question_bias
        z, new = tf.split(x, 2, axis=-1)
        return (1.0 - tf.sigmoid(z)) * tf.tanh(new)

    def _gates(self, scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        if self.gate_normalisation == "softmax":
            return masked_softmax(scores, mask)
        return tf.where(mask, tf.sigmoid(scores), 0.0)
