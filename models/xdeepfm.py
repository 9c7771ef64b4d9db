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
    DeepFieldModel,
    problems_of_vectors,
)
from models.layers.mlp import Units
from models.layers.parts import in_parts
from models.layers.regularisation import l2_penalty


class XDeepFMConfig(DeepFieldConfig):
    """Options of `XDeepFM`."""

    hidden_units: Units = Field((400, 400), description="Width of each hidden layer of the MLP.")
    cin_units: Units = Field(
        (32, 32, 32),
        min_length=1,
        description="Feature maps of each layer of the compressed interaction network; time grows "
        "with fields · maps · maps of the layer before.",
    )
    cin_l2: float = Field(
        0.0, ge=0, description="λ of the penalty λ/2·|W|² on each layer of that network."
    )


class XDeepFM(DeepFieldModel):
    """xDeepFM: products of fields of growing degree, an MLP and a linear part.

    ŷ = w_0 + Σ_i w_i x_i + MLP([x_1 v_1; …; x_F v_F]) + wᵀ p⁺

    over fields i with x_i as in `FM`; p⁺ is what `CompressedInteraction` returns.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Lian et al., xDeepFM: Combining Explicit and Implicit Feature Interactions for Recommender
        Systems, KDD 2018, §3.1 and §3.2.
    Differs from the paper: 32 feature maps per layer (the paper: 100 to 200, at 10 to 40 times the
        cost). Dense numbers, if any, stand beside the vectors in the MLP.
    """

    symbols: ClassVar[Mapping[str, str]] = {
        "h1, h2 …": "cin_units",
    }

    def __init__(
        self, schema: FeatureSchema, config: XDeepFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.interaction = CompressedInteraction(config.cin_units, config.cin_l2)
        self.output_layer = keras.layers.Dense(1, use_bias=False, dtype=keras.config.floatx())

    @staticmethod
    def parameter_formula(config: XDeepFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        maps = [f"h{i}" for i in range(1, len(config.cin_units) + 1)]
        matrices = " + ".join(f"F {a} {b}" for a, b in zip(["F", *maps], maps, strict=False))
        return (
            f"{DeepFieldModel.parameter_formula(config)} + M(X) + {matrices} + {' + '.join(maps)}"
        )

    @staticmethod
    def problems(schema: FeatureSchema, config: XDeepFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("xdeepfm", schema, config)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, vectors, numbers = self.fields(embedded, batch)
        explicit = self.output_layer(self.interaction(tf.stack(vectors, axis=1)))
        return linear + tf.squeeze(explicit, axis=1) + self.deep(vectors, numbers, training)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, numbers = self.fields(self.embeddings(batch), batch)
        explicit = self.output_layer(self.interaction(tf.stack(vectors, axis=1)))
        products = tf.squeeze(explicit, axis=1)
        return {"products": products, "mlp": self.deep(vectors, numbers, training=False)}


class CompressedInteraction(keras.layers.Layer):
    """The compressed interaction network: maps of degree 2, 3, …, each summed to one number.

    X^k_h = Σ_i Σ_j W^{k,h}_ij X^{k-1}_i ⊙ X^0_j;    p^k_h = Σ_d X^k_hd;    p⁺ = [p^1; …; p^K]

    Args:
        units: Feature maps of each layer, at least one layer.
        l2: λ of the penalty λ/2·|W|² on each W, part of `losses`.

    Call arguments:
        fields: X^0, float (batch, fields, dim).

    Returns:
        p⁺, float (batch, sum of units).

    References:
        Lian et al., xDeepFM, KDD 2018, §3.1, Eq. 6 and 7; no activation, as its §4.4 finds best.
    Differs from the paper: nothing.
    """

    def __init__(self, units: Sequence[int], l2: float = 0.0) -> None:
        super().__init__(dtype=keras.config.floatx())  # sums of many products
        self.penalty = l2_penalty(l2)
        self.units = tuple(units)

    def build(self, fields_shape: Sequence[int | None]) -> None:
        """Create W of each layer: a matrix for each field j, one below the other."""
        fields = fields_shape[1]
        self.kernels = [
            self.add_weight(
                name=f"kernel_{k}",
                shape=(fields, below, maps),
                initializer="glorot_uniform",
                regularizer=self.penalty,
            )
            for k, (below, maps) in enumerate(zip((fields, *self.units), self.units, strict=False))
        ]

    def call(self, fields: tf.Tensor) -> tf.Tensor:
        """Multiply and sum; see the class."""
        return in_parts(
            _interact, (fields,), (), [tf.convert_to_tensor(kernel) for kernel in self.kernels]
        )


def _interact(fields: tf.Tensor, *kernels: tf.Tensor) -> tf.Tensor:
    """Return p⁺ (B, sum of units) of X^0 (B, F, D) and W of each layer (F, maps below, maps)."""
    first = tf.transpose(fields, (0, 2, 1))  # (B, D, F)
    maps, sums, (_, dim, count) = first, [], first.shape
    for kernel in kernels:
        # Σ_i W_ij X_i for every j in one product: (B D, H) · (H, F H'), then times X^0_j
        side_by_side = tf.reshape(tf.transpose(kernel, (1, 0, 2)), (kernel.shape[1], -1))
        mixed = tf.reshape(maps, (-1, kernel.shape[1])) @ side_by_side
        mixed = tf.reshape(mixed, (-1, dim, count, kernel.shape[2]))
        maps = tf.reduce_sum(mixed * first[..., tf.newaxis], axis=2)  # (B, D, H')
        sums.append(tf.reduce_sum(maps, axis=1))
    return tf.concat(sums, axis=1)
