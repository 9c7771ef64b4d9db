# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from typing import Literal

import keras
import numpy as np
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import FieldConfig, FieldModel, problems_of_vectors
from models.layers.embeddings import EmbeddingTables
from models.layers.fields import FieldLinearAndVectors, LinearAndVectors
from models.layers.interactions import VectorsThenLinear, pair_products, upper_triangle


class FwFMConfig(FieldConfig):
    """Options of `FwFM`."""

    linear_term: Literal["field_vectors", "weights"] = Field(
        "field_vectors",
        description="What a value adds by itself: the product of its vector with a vector of its "
        "field (the paper's FiLV), or a weight of its own (FM's).",
    )


class FwFM(FieldModel):
    """Field-weighted factorisation machine: each pair of fields has a strength.

    ŷ = w_0 + Σ_i <v_i, w_{F(i)}> x_i + Σ_{i<j} r_{F(i)F(j)} <v_i, v_j> x_i x_j

    over fields i with x_i as in `FM`; with `linear_term: weights` the linear part is FM's,
    Σ_i w_i x_i, and with all r = 1 it is FM.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Pan et al., Field-weighted Factorization Machines for Click-Through Rate Prediction in
        Display Advertising, WWW 2018, §3.2 (pairs) and §3.3 (linear terms).
    Differs from the paper: r starts at 1, where the pairs are FM's. Items of one list form no pairs
        among themselves.
    """

    forms_pairs = True
    pair_weight_name = "strength"

    def __init__(
        self, schema: FeatureSchema, config: FwFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        if config.linear_term == "weights":
            self.linear_columns = 1
            layer, width = LinearAndVectors, config.embedding_dim + 1
            initializer = VectorsThenLinear(config.initial_stddev)
        else:
            layer, width = FieldLinearAndVectors, config.embedding_dim
            initializer = keras.initializers.RandomNormal(stddev=config.initial_stddev)
        self.embeddings = EmbeddingTables(self.schema, width, initializer, slot_values)
        self.fields = layer(
            self.schema,
            config.embedding_dim,
            initializer,
            config.list_pooling,
            config.numeric_input,
        )
        count = len(self.fields.rows.names)
        # the upper triangle is used
        self.strengths = self.add_weight(name="strengths", shape=(count, count), initializer="ones")

    @staticmethod
    def parameter_formula(config: FwFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        if config.linear_term == "weights":
            return "(R + N) (k + 1) + D + 1 + F F"
        return "(R + N) k + F k + D + 1 + F F"

    @staticmethod
    def problems(schema: FeatureSchema, config: FwFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("fwfm", schema, config)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, vectors, _ = self.fields(embedded, batch)
        fields = tf.stack(vectors)  # (F, B, D)
        upper = np.triu(np.ones(self.strengths.shape), 1)
        strengths = tf.convert_to_tensor(self.strengths) * upper
        # Σ_j r_ij v_j of all fields i in one product: (F, F) · (F, B D)
        partners = tf.reshape(strengths @ tf.reshape(fields, (len(vectors), -1)), tf.shape(fields))
        return linear + tf.reduce_sum(fields * partners, axis=(0, 2))

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        return {"pairs": self.strengths * pair_products(vectors)}

    def pair_weights(self, batch: Tensors) -> tf.Tensor:
        """Return r_ij, the same for every row, float (batch, fields, fields), 0 unless i < j."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        rows = tf.shape(vectors[0])[0]
        strengths = upper_triangle(tf.convert_to_tensor(self.strengths))
        return tf.tile(strengths[tf.newaxis], (rows, 1, 1))
