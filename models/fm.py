# SPDX-License-Identifier: Apache-2.0
import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import FieldConfig, problems_of_vectors
from models.layers.interactions import pair_products
from models.summed_fields import Summed, SummedFieldModel


class FMConfig(FieldConfig):
    """Options of `FM`."""


class FM(SummedFieldModel):
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

    forms_pairs = True

    @staticmethod
    def problems(schema: FeatureSchema, config: FMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("fm", schema, config)

    @staticmethod
    def squares(vectors: tf.Tensor) -> tf.Tensor:
        """Return the sum of squares (rows, 1) of vectors (rows, k): s = 1, as pairs are summed."""
        return tf.reduce_sum(tf.square(vectors), axis=1, keepdims=True)

    def logits(self, embedded: Summed | Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, pairs = self.linear_and_pairs(embedded, batch)
        return linear + tf.squeeze(pairs, axis=1)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        return {"pairs": pair_products(vectors)}
