# SPDX-License-Identifier: Apache-2.0
"""What models of fields share: options, tables and the linear part."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import CTRModel, ModelConfig, Tensors
from models.layers.embeddings import EmbeddingTables
from models.layers.fields import (
    FieldLinearAndVectors,
    FieldVectors,
    LinearAndVectors,
    NumericInput,
)
from models.layers.interactions import VectorsThenLinear
from models.layers.masking import ListPooling
from models.layers.mlp import MLP, MLPOptions, Units
from models.limits import Width


class FieldConfig(ModelConfig):
    """Options of every model that has a vector per field."""

    embedding_dim: Width = Field(16, description="Length of each field's vector.")
    initial_stddev: float = Field(
        0.01, gt=0, description="Standard deviation of the vectors' coordinates at the start."
    )
    list_pooling: ListPooling = Field(
        "sum",
        description="How a list enters: the mean (Σ w e / Σ |w|), sum or largest of its items.",
    )
    numeric_input: NumericInput = Field(
        "fields",
        description="How numbers enter: as fields, each its value times a vector of its own; "
        "dense, as they are, into the linear part and the MLP where the model has them; or none.",
    )


class DeepFieldConfig(FieldConfig, MLPOptions):
    """Options of models of fields with an MLP."""

    hidden_units: Units = Field(
        (400, 400, 400), description="Width of each hidden layer of the MLP."
    )


class SideBySideConfig(DeepFieldConfig):
    """Options of models whose layers take all vectors and numbers side by side."""

    list_pooling: ListPooling = Field(
        "mean",
        description="How a list enters: the mean (Σ w e / Σ |w|), sum or largest of its items.",
    )
    numeric_input: NumericInput = Field(
        "dense",
        description="How numbers enter: dense, as they are, beside the vectors; as fields, each "
        "its value times a vector of its own; or none.",
    )


class FieldModel(CTRModel):
    """A model whose logit is a linear part of its `fields` and `interactions` between them."""

    fields: LinearAndVectors | FieldLinearAndVectors

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts of the logit; see `CTRModel.terms`."""
        terms = self.fields.linear_terms(self.embeddings(batch), batch)
        linear = {"bias": tf.fill([tf.shape(terms)[0]], self.fields.bias), "linear": terms}
        return linear | self.interactions(batch)

    def interactions(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts of the logit beside the linear ones, as `CTRModel.terms`."""
        raise NotImplementedError

    @property
    def linear_names(self) -> tuple[str, ...]:
        """Names of the linear terms."""
        return self.fields.names

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return self.fields.rows.names


class LinearFieldModel(FieldModel):
    """A model that starts from `w_0 + Σ_i w_i x_i` and the fields' vectors x_i v_i.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.
    """

    def __init__(
        self, schema: FeatureSchema, config: FieldConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.linear_columns = 1
        dim, initializer = config.embedding_dim, VectorsThenLinear(config.initial_stddev)
        self.embeddings = EmbeddingTables(self.schema, dim + 1, initializer, slot_values)  # v | w
        self.fields = LinearAndVectors(
            self.schema, dim, initializer, config.list_pooling, config.numeric_input
        )

    @staticmethod
    def parameter_formula(config: Any) -> str:
        """Return the weights of tables and linear part; see `CTRModel.parameter_formula`."""
        return "(R + N) (k + 1) + D + 1"


class DeepFieldModel(LinearFieldModel):
    """A `LinearFieldModel` with an MLP that takes the fields' vectors and the dense numbers.

    Args, call arguments, returns and errors: see `LinearFieldModel`.
    """

    def __init__(
        self, schema: FeatureSchema, config: DeepFieldConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.mlp = MLP(config, output_units=1)

    def deep(
        self, vectors: Sequence[tf.Tensor], numbers: Sequence[tf.Tensor], training: bool
    ) -> tf.Tensor:
        """Return what the MLP makes of vectors and numbers, (batch,)."""
        outputs = self.mlp(tf.concat([*vectors, *numbers], axis=1), training=training)
        return squeeze_logits(outputs, self.dtype)


class VectorFieldModel(CTRModel):
    """A model that starts from the fields' vectors x_i v_i alone.

    Args, call arguments, returns and errors: see `LinearFieldModel`.
    """

    def __init__(
        self, schema: FeatureSchema, config: FieldConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        dim = config.embedding_dim
        initializer = keras.initializers.RandomNormal(stddev=config.initial_stddev)
        self.embeddings = EmbeddingTables(self.schema, dim, initializer, slot_values)
        self.fields = FieldVectors(
            self.schema, dim, initializer, config.list_pooling, config.numeric_input
        )


def problems_of_fields(kind: str, schema: FeatureSchema, use_numeric: bool = True) -> list[str]:
    """Return what keeps a model of fields from a schema: histories, or no field at all.

    Args:
        kind: The model's, for the message.
        schema: Features of the model.
        use_numeric: Whether numeric features are fields.
    """
    others = ", ".join(f.name for f in schema.features if f not in schema.histories)
    problems = [
        f"{kind} takes no history feature: `{history.name}`; leave it out with "
        f"`features: [{others}]` or use base or din"
        for history in schema.histories
    ]
    if not (schema.categorical or schema.lists or (use_numeric and schema.numeric)):
        wanted = "a categorical, list or numeric feature"
        if schema.numeric:  # which `use_numeric` keeps out
            wanted = "a categorical or list feature, or make numbers fields by `numeric_input:`"
        problems.append(f"{kind} has no field: give it {wanted}")
    return problems


def problems_of_vectors(kind: str, schema: FeatureSchema, config: FieldConfig) -> list[str]:
    """Return what keeps a model that needs a field with a vector from a schema.

    Args:
        kind: The model's, for the message.
        schema: Features of the model.
        config: Says whether numbers are fields.
    """
    return problems_of_fields(kind, schema, config.numeric_input == "fields")


def squeeze_logits(outputs: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the outputs of a last linear layer, (batch, 1), as logits (batch,) of full precision.

    Args:
        outputs: Of any float type.
        dtype: Of the logits.
    """
    return tf.cast(tf.squeeze(outputs, axis=1), dtype)
