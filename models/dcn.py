# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import SideBySideConfig, VectorFieldModel, problems_of_fields, squeeze_logits
from models.layers.mlp import MLP
from models.layers.regularisation import l2_penalty
from models.limits import MOST_REPEATS, Width


class DCNConfig(SideBySideConfig):
    """Options of `DCN`."""

    cross_layers: int = Field(2, ge=0, le=MOST_REPEATS, description="Number of cross layers.")
    rank: Width | None = Field(
        None, description="Rank of the cross layers' matrices; full when left out."
    )
    cross_l2: float = Field(0.0, ge=0, description="λ of the penalty λ/2·|W|² on each cross layer.")
    structure: Literal["stacked", "parallel"] = Field(
        "stacked",
        description="Whether the MLP takes what the cross layers return, or the same as they take.",
    )


class DCN(VectorFieldModel):
    """Deep & cross network, version 2: layers that multiply all inputs by mixtures of all inputs.

    x_0 = [x_1 v_1; …; x_F v_F; numbers];    x_{l+1} = x_0 ⊙ (W_l x_l + b_l) + x_l
    stacked:  ŷ = MLP(x_L);    parallel:  ŷ = w [x_L; MLP(x_0)] + b

    With `rank` r, W_l = U_l V_l with r numbers between them.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Wang et al., DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
        Learning to Rank Systems, WWW 2021, §3.2, Eq. 1; §3.3; §3.4 for both structures; §3.5 for
        the low rank, of its mixtures the one with one expert and no nonlinearity.
    Differs from the paper: all vectors have one length (the paper lets it differ by feature).
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "L": "cross_layers",
        "r": "rank",
    }

    def __init__(
        self, schema: FeatureSchema, config: DCNConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.cross = [
            CrossLayer(config.cross_l2)
            if config.rank is None
            else LowRankCrossLayer(config.rank, config.cross_l2)
            for _ in range(config.cross_layers)
        ]
        self.mlp = MLP(config)
        self.is_stacked = config.structure == "stacked"
        self.output_layer = keras.layers.Dense(1)

    @staticmethod
    def parameter_formula(config: DCNConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        matrices = "X X" if config.rank is None else "2 r X"
        head = "M(X)" if config.structure == "stacked" else "M(X) + X"
        return f"(R + N) k + L ({matrices} + X) + {head}"

    @staticmethod
    def problems(schema: FeatureSchema, config: DCNConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_fields("dcn", schema, config.numeric_input != "none")

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        vectors, numbers = self.fields(embedded, batch)
        inputs = tf.concat([*vectors, *numbers], axis=1)
        crossed = inputs
        for layer in self.cross:
            crossed = layer(inputs, crossed)
        if self.is_stacked:
            outputs = self.mlp(crossed, training=training)
        else:
            deep = self.mlp(inputs, training=training)
            outputs = tf.concat([tf.cast(crossed, deep.dtype), deep], axis=1)
        return squeeze_logits(self.output_layer(outputs), inputs.dtype)


class CrossLayer(keras.layers.Layer):
    """x_{l+1} = x_0 ⊙ (W x_l + b) + x_l.

    Args:
        l2: λ of the penalty λ/2·|W|², part of `losses`.

    Call arguments:
        inputs: x_0, float (batch, width).
        crossed: x_l, float (batch, width).

    Returns:
        x_{l+1}, float (batch, width).

    References:
        Wang et al., DCN V2, WWW 2021, §3.2, Eq. 1.
    Differs from the paper: nothing.
    """

    def __init__(self, l2: float = 0.0) -> None:
        super().__init__()
        self.penalty = l2_penalty(l2)

    def build(self, inputs_shape: Sequence[int | None], *_: object) -> None:
        """Create W and b."""
        self.dense = keras.layers.Dense(inputs_shape[-1], kernel_regularizer=self.penalty)
        self.dense.build(inputs_shape)

    def call(self, inputs: tf.Tensor, crossed: tf.Tensor) -> tf.Tensor:
        """Apply the layer; see the class."""
        return inputs * self.dense(crossed) + crossed


class LowRankCrossLayer(keras.layers.Layer):
    """x_{l+1} = x_0 ⊙ (U (V x_l) + b) + x_l.

    Args:
        rank: Numbers between V and U, at least 1.
        l2: λ of the penalty λ/2·(|U|² + |V|²), part of `losses`.

    Call arguments and returns: see `CrossLayer`.

    References:
        Wang et al., DCN V2, WWW 2021, §3.5.
    Differs from the paper: nothing.
    """

    def __init__(self, rank: int, l2: float = 0.0) -> None:
        super().__init__()
        self.penalty = l2_penalty(l2)
        self.down = keras.layers.Dense(rank, use_bias=False, kernel_regularizer=self.penalty)

    def build(self, inputs_shape: Sequence[int | None], *_: object) -> None:
        """Create V, U and b."""
        self.down.build(inputs_shape)
        self.up = keras.layers.Dense(inputs_shape[-1], kernel_regularizer=self.penalty)
        self.up.build((*inputs_shape[:-1], self.down.units))

    def call(self, inputs: tf.Tensor, crossed: tf.Tensor) -> tf.Tensor:
        """Apply the layer; see the class."""
        return inputs * self.up(self.down(crossed)) + crossed
