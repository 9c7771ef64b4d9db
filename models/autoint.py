# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import (
    DeepFieldConfig,
    VectorFieldModel,
    problems_of_vectors,
    squeeze_logits,
)
from models.layers.mlp import MLP, Units
from models.layers.regularisation import l2_penalty
from models.limits import Repeats, Several, Width


class AutoIntConfig(DeepFieldConfig):
    """Options of `AutoInt`."""

    interacting_layers: Repeats = Field(3, description="Number of interacting layers.")
    num_heads: Several = Field(2, description="Heads of each interacting layer.")
    head_dim: Width = Field(32, description="Width of each head.")
    dropout_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of attention weights, and of the MLP's hidden values, dropped in "
        "training.",
    )
    attention_l2: float = Field(
        0.0, ge=0, description="λ of the penalty λ/2·|W|² on each matrix of the interacting layers."
    )
    hidden_units: Units = Field(
        (), description="Width of each hidden layer of an MLP beside the heads: AutoInt+ if any."
    )


class AutoInt(VectorFieldModel):
    """AutoInt: fields attend to each other, layer after layer.

    ŷ = wᵀ [ẽ_1; …; ẽ_F] + b  ( + MLP([e_1; …; e_F]) with `hidden_units`: AutoInt+ )

    where e_i = x_i v_i with x_i as in `FM`, and ẽ_i is what the interacting layers make of it.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Song et al., AutoInt: Automatic Feature Interaction Learning via Self-Attentive Neural
        Networks, CIKM 2019, §4.3 to §4.5; §5.5 for AutoInt+.
    Differs from the paper: a list is pooled as the Config says (the paper: mean). Dense numbers, if
        any, enter the MLP only.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "L": "interacting_layers",
        "W": "num_heads · head_dim",
    }

    def __init__(
        self, schema: FeatureSchema, config: AutoIntConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.interacting = [
            InteractingLayer(
                config.num_heads, config.head_dim, config.dropout_rate, config.attention_l2
            )
            for _ in range(config.interacting_layers)
        ]
        self.output_layer = keras.layers.Dense(1)
        self.mlp = None
        if config.hidden_units:
            self.mlp = MLP(config, output_units=1)

    @staticmethod
    def parameter_formula(config: AutoIntConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        deep = " + M(X)" if config.hidden_units else ""
        return f"(R + N) k + 4 k W + (L - 1) 4 W W + F W + 1{deep}"

    @staticmethod
    def problems(schema: FeatureSchema, config: AutoIntConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        problems = problems_of_vectors("autoint", schema, config)
        if schema.numeric and config.numeric_input == "dense" and not config.hidden_units:
            problems.append(
                "autoint: with `numeric_input: dense` numbers enter the MLP, and there is none; "
                "give it `hidden_units:` or make numbers fields"
            )
        return problems

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        vectors, numbers = self.fields(embedded, batch)
        fields = tf.stack(vectors, axis=1)  # (B, F, D)
        for layer in self.interacting:
            fields = layer(fields, training=training)
        side_by_side = tf.reshape(fields, (-1, fields.shape[1] * fields.shape[2]))
        logits = squeeze_logits(self.output_layer(side_by_side), vectors[0].dtype)
        if self.mlp:
            deep = self.mlp(tf.concat([*vectors, *numbers], axis=1), training=training)
            logits += squeeze_logits(deep, logits.dtype)
        return logits


class InteractingLayer(keras.layers.Layer):
    """Multi-head self-attention over fields, with a residual connection.

    α_ik = soft-max over k of <W_Q e_i, W_K e_k>;    ẽ_i = Σ_k α_ik W_V e_k per head, side by side;
    ReLU(ẽ_i + W_Res e_i)

    Args:
        num_heads: Number of heads.
        head_dim: Width of each head.
        dropout_rate: Share of α dropped in training, in [0, 1).
        l2: λ of the penalty λ/2·|W|² on each matrix, part of `losses`.

    Call arguments:
        fields: e, float (batch, fields, dim).
        training: Whether dropout is on.

    Returns:
        Float (batch, fields, num_heads * head_dim).

    References:
        Song et al., AutoInt, CIKM 2019, §4.4, Eq. 5 to 8.
    Differs from the paper: nothing.
    """

    def __init__(
        self, num_heads: int, head_dim: int, dropout_rate: float = 0.0, l2: float = 0.0
    ) -> None:
        super().__init__()
        self.penalty = l2_penalty(l2)
        self.num_heads = num_heads
        self.dropout = keras.layers.Dropout(dropout_rate)
        self.width = num_heads * head_dim

    def build(self, fields_shape: Sequence[int | None]) -> None:
        """Create W_Q, W_K, W_V and W_Res."""
        shape = (fields_shape[-1], self.width)
        self.query, self.key, self.value, self.residual = (
            self.add_weight(
                name=f"{name}_kernel",
                shape=shape,
                initializer="glorot_uniform",
                regularizer=self.penalty,
            )
            for name in ("query", "key", "value", "residual")
        )

    def call(self, fields: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Let fields attend to each other; see the class."""
        weights = (self.query, self.key, self.value, self.residual)
        # one product for all four: (B, F, D) · (D, 4 H U)
        projected = tf.tensordot(
            fields, tf.concat([tf.convert_to_tensor(w) for w in weights], 1), 1
        )
        *parts, residual = tf.split(projected, 4, axis=-1)
        heads = zip(*(tf.split(part, self.num_heads, axis=-1) for part in parts), strict=True)
        attended = []
        for query, key, value in heads:
            attention = tf.nn.softmax(tf.matmul(query, key, transpose_b=True))  # (B, F, F)
            attended.append(self.dropout(attention, training=training) @ value)
        return tf.nn.relu(tf.concat(attended, axis=-1) + residual)
