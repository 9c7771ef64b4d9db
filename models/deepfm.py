# SPDX-License-Identifier: Apache-2.0
import tensorflow as tf

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import (
    DeepFieldConfig,
    DeepFieldModel,
    problems_of_vectors,
)
from models.layers.interactions import pair_products, pairwise_sum


class DeepFMConfig(DeepFieldConfig):
    """Options of `DeepFM`."""


class DeepFM(DeepFieldModel):
    """DeepFM: a factorisation machine and an MLP on the same vectors.

    ŷ = w_0 + Σ_i w_i x_i + Σ_{i<j} <v_i, v_j> x_i x_j + MLP([x_1 v_1; …; x_F v_F])

    over fields i with x_i as in `FM`.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Guo et al., DeepFM: A Factorization-Machine based Neural Network for CTR Prediction,
        IJCAI 2017, §2.1, Eq. 1 to 4.
    Differs from the paper: w_0; dense numbers, if any, stand beside the vectors; no dropout by
        default (the paper: 0.5). Items of one list form no pairs among themselves.
    """

    @staticmethod
    def parameter_formula(config: DeepFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{DeepFieldModel.parameter_formula(config)} + M(X)"

    @staticmethod
    def problems(schema: FeatureSchema, config: DeepFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("deepfm", schema, config)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, vectors, numbers = self.fields(embedded, batch)
        pairs = tf.reduce_sum(pairwise_sum(vectors), axis=1)
        return linear + pairs + self.deep(vectors, numbers, training)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, numbers = self.fields(self.embeddings(batch), batch)
        return {"pairs": pair_products(vectors), "mlp": self.deep(vectors, numbers, training=False)}
