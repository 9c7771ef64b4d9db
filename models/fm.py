# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import CTRModel, ModelConfig, Tensors
from models.layers.embeddings import EmbeddingTables
from models.layers.interactions import FieldRows, VectorsThenLinear, pairwise_sum
from models.layers.masking import ListPooling
from models.lr import problems_of_fields


class FMConfig(ModelConfig):
    """Options of `FM`."""

    embedding_dim: int = Field(16, ge=1, description="Length of each vector v.")
    initial_stddev: float = Field(
        0.01, gt=0, description="Standard deviation of the vectors' coordinates at the start."
    )
    list_pooling: ListPooling = Field(
        "sum", description="Whether a list enters as the sum or the mean of its weighted items."
    )
    use_numeric: bool = Field(True, description="Whether numeric features are fields.")


class FM(CTRModel):
    """Factorisation machine of degree 2.

    ŷ = w_0 + Σ_i w_i x_i + Σ_{i<j} <v_i, v_j> x_i x_j

    over fields i: a categorical feature has x = 1 and the v, w of its value; a numeric feature
    has its number and a v, w of its own; a list has Σ_t (weight v)_t and Σ_t (weight w)_t.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Rendle, Factorization Machines, ICDM 2010, §III-A, Eq. 1 and Lemma 3.1.
    Differs from the paper: items of one list form no pairs among themselves; with
        `list_pooling: mean` x sums to 1 over a list, as in its Fig. 1.
    """

    def __init__(
        self, schema: FeatureSchema, config: FMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.dim = config.embedding_dim
        width = self.dim + 1  # v | w
        initializer = VectorsThenLinear(config.initial_stddev)
        self.embeddings = EmbeddingTables(self.schema, width, initializer, slot_values)
        self.fields = FieldRows(
            self.schema, width, initializer, config.list_pooling, config.use_numeric
        )
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")

    @staticmethod
    def problems(schema: FeatureSchema, config: FMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_fields("fm", schema, config.use_numeric)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        rows = self.fields(embedded, batch)
        linear = tf.add_n([row[:, self.dim] for row in rows])
        pairs = pairwise_sum([row[:, : self.dim] for row in rows])
        return self.bias + linear + tf.reduce_sum(pairs, axis=1)
