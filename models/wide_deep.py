# SPDX-License-Identifier: Apache-2.0
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import Tensors
from models.fields import DeepFieldModel, SideBySideConfig, problems_of_fields
from models.layers.mlp import Units
from models.limits import Width


class WideDeepConfig(SideBySideConfig):
    """Options of `WideDeep`."""

    embedding_dim: Width = Field(32, description="Length of each field's vector.")
    hidden_units: Units = Field(
        (1024, 512, 256), description="Width of each hidden layer of the MLP."
    )


class WideDeep(DeepFieldModel):
    """Wide & Deep: a linear model and an MLP on embeddings, trained together.

    ŷ = w_0 + Σ_i w_i x_i + MLP([v_1; …; v_F; numbers])

    over the values i of the row's categorical features, lists and numbers. Crosses of features are
    features of their own: declare them where the features are declared.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Cheng et al., Wide & Deep Learning for Recommender Systems, DLRS 2016, §3.1 to §3.3, Eq. 3;
        the sizes are those of its Fig. 4.
    Differs from the paper: both parts see all features and have one optimiser each for tables and
        for layers (the paper: FTRL for the wide part, AdaGrad for the deep one).
    """

    @staticmethod
    def parameter_formula(config: WideDeepConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return f"{DeepFieldModel.parameter_formula(config)} + M(X)"

    @staticmethod
    def problems(schema: FeatureSchema, config: WideDeepConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_fields("wide_deep", schema, config.numeric_input != "none")

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        wide, vectors, numbers = self.fields(embedded, batch)
        return wide + self.deep(vectors, numbers, training)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts beside the linear ones; see `CTRModel.terms`."""
        _, vectors, numbers = self.fields(self.embeddings(batch), batch)
        return {"mlp": self.deep(vectors, numbers, training=False)}
