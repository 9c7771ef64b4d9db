# SPDX-License-Identifier: Apache-2.0
from collections.abc import Mapping, Sequence
from typing import ClassVar

import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import FieldConfig, LinearFieldModel, problems_of_vectors
from models.layers.interactions import pair_products
from models.layers.pair_attention import PairAttention
from models.limits import Width


class AFMConfig(FieldConfig):
    """Options of `AFM`."""

    attention_units: Width = Field(8, description="Width of the attention network (b and h).")
    attention_l2: float = Field(
        0.0,
        ge=0,
        description="λ of the penalty λ |W|² on the attention network, added to the loss.",
    )
    dropout_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of the coordinates of pairs' products dropped in training.",
    )


class AFM(LinearFieldModel):
    """Attentional factorisation machine: pairs of fields count by what an attention network says.

    ŷ = w_0 + Σ_i w_i x_i + pᵀ Σ_{i<j} a_ij (v_i ⊙ v_j) x_i x_j,
    a'_ij = hᵀ ReLU(W (v_i ⊙ v_j) x_i x_j + b),    a = soft-max of a' over the row's pairs

    over fields i with x_i as in `FM`. Only fields with a value (x ≠ 0, lists with items) form
    pairs.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Xiao et al., Attentional Factorization Machines: Learning the Weight of Feature Interactions
        via Attention Networks, IJCAI 2017, §3.1, Eq. 2, 4, 5 and 6; §3.2 for dropout and L2.
    Differs from the paper: the attention network is 8 wide (the paper: as wide as the vectors, with
        little difference from 1 to 256). Items of one list form no pairs among themselves.
    """

    forms_pairs = True
    pair_weight_name = "attention"
    symbols: ClassVar[Mapping[str, str]] = {
        "A": "attention_units",
    }

    def __init__(
        self, schema: FeatureSchema, config: AFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.attention_layer = PairAttention(
            config.attention_units, config.attention_l2, config.dropout_rate
        )
        self.projection = self.add_weight(
            name="projection", shape=(config.embedding_dim,), initializer="ones"
        )

    @staticmethod
    def parameter_formula(config: AFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{LinearFieldModel.parameter_formula(config)} + k A + 2 A + k"

    @staticmethod
    def problems(schema: FeatureSchema, config: AFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_vectors("afm", schema, config)

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        linear, vectors, _ = self.fields(embedded, batch)
        active = self._active(batch, vectors)
        pooled = self.attention_layer(vectors, active, training=training)
        return linear + tf.linalg.matvec(pooled, self.projection)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        weights = self.attention_layer.weights_of_pairs(vectors, self._active(batch, vectors))
        return {"pairs": weights * pair_products(vectors, self.projection)}

    def pair_weights(self, batch: Tensors) -> tf.Tensor:
        """Return a_ij, float (batch, fields, fields), 0 unless i < j; see `field_names`."""
        _, vectors, _ = self.fields(self.embeddings(batch), batch)
        return self.attention_layer.weights_of_pairs(vectors, self._active(batch, vectors))

    def _active(self, batch: Tensors, vectors: Sequence[tf.Tensor]) -> tf.Tensor:
        return self.fields.rows.squared_values(batch, vectors[0].dtype) > 0
