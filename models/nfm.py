# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import (
    DeepFieldConfig,
    problems_of_vectors,
    squeeze_logits,
)
from models.layers.mlp import MLP, Units, batch_norm_layer
from models.summed_fields import Summed, SummedFieldModel


class NFMConfig(DeepFieldConfig):
    """Options of `NFM`."""

    hidden_units: Units = Field((64,), description="Width of each hidden layer.")
    pooling_dropout_rate: float = Field(
        0.0, ge=0, lt=1, description="Share of the pooled vector's coordinates dropped in training."
    )


class NFM(SummedFieldModel):
    """Neural factorisation machine: the sum of all pairs, kept as a vector, goes through an MLP.

    ŷ = w_0 + Σ_i w_i x_i + MLP(Σ_{i<j} x_i v_i ⊙ x_j v_j)

    over fields i with x_i as in `FM`. Without hidden layers and with ones as last weights it is FM.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        He & Chua, Neural Factorization Machines for Sparse Predictive Analytics, SIGIR 2017,
        §3.1, Eq. 2, 3 and 5 to 7; §3.3 for dropout and batch normalisation, both also of the
        pooled vector.
    Differs from the paper: dropout and batch normalisation are off by default, and vectors of 16
        (the paper: both on, 64). Dense numbers, if any, stand beside the pooled vector. Items of
        one list form no pairs among themselves.
    """

    forms_pairs = True

    def __init__(
        self, schema: FeatureSchema, config: NFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.norm = batch_norm_layer() if config.batch_norm else None
        self.dropout = keras.layers.Dropout(config.pooling_dropout_rate)
        self.mlp = MLP(config, output_units=1)

    @staticmethod
    def parameter_formula(config: NFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        norm = " + 2 k" if config.batch_norm else ""
        return f"{SummedFieldModel.parameter_formula(config)} + M(k + D){norm}"

    @staticmethod
    def problems(schema: FeatureSchema, config: NFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("nfm", schema, config)

    def logits(self, embedded: Summed | Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, pooled = self.linear_and_pairs(embedded, batch)
        return linear + self._deep(pooled, batch, training)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, pooled = self.linear_and_pairs(self.embeddings(batch), batch)
        return {"mlp": self._deep(pooled, batch, training=False)}

    def _deep(self, pooled: tf.Tensor, batch: Tensors, training: bool) -> tf.Tensor:
        if self.norm:
            pooled = self.norm(pooled, training=training)
        pooled = tf.cast(self.dropout(pooled, training=training), self.dtype)
        inputs = tf.concat([pooled, *self.fields.numbers(batch)], axis=1)
        outputs = self.mlp(inputs, training=training)
        return squeeze_logits(outputs, self.dtype)
