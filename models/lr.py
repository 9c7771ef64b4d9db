# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import keras
import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import CTRModel, ModelConfig, Tensors
from models.fields import problems_of_fields
from models.layers.embeddings import EmbeddingTables
from models.layers.interactions import FieldRows


class LRConfig(ModelConfig):
    """Options of `LR`: none but the features."""


class LR(CTRModel):
    """Logistic regression, the linear baseline.

    ŷ = w_0 + Σ_i w_i x_i

    with one weight per categorical value and per numeric feature; a list adds the sum of its
    items' weights, each times its item weight. All weights start at 0.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.
    """

    def __init__(
        self, schema: FeatureSchema, config: LRConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.linear_columns = 1
        zeros = keras.initializers.Zeros()
        self.embeddings = EmbeddingTables(self.schema, 1, zeros, slot_values)
        self.fields = FieldRows(self.schema, 1, zeros)
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")

    @staticmethod
    def parameter_formula(config: LRConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return "R + N + 1"

    @staticmethod
    def problems(schema: FeatureSchema, config: LRConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_fields("lr", schema)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        return self.bias + tf.squeeze(tf.add_n(self.fields(embedded, batch)), axis=1)

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts of the logit; see `CTRModel.terms`."""
        terms = tf.concat(self.fields(self.embeddings(batch), batch), axis=1)
        return {"bias": tf.fill([tf.shape(terms)[0]], self.bias), "linear": terms}

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return self.fields.names
