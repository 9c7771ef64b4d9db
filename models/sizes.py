# SPDX-License-Identifier: Apache-2.0
"""How large a model is, counted before it is built."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from features.schema import FeatureSchema, length_key, weight_key
from models.ctr_model import ModelConfig
from models.registry import build

SYMBOLS: Mapping[str, str] = {
    "R": "rows of all tables, the reserved ids included",
    "k": "embedding_dim",
    "F": "fields: categorical and list features, and numbers with `numeric_input: fields`",
    "N": "numbers that are fields",
    "D": "numbers that enter as they are, with `numeric_input: dense`",
    "X": "F k + D",
    "M(n)": "weights of the MLP from n inputs over hidden_units to one output: (inputs + 1) · "
    "units of each layer; 1 more per hidden unit with dice or prelu, 2 more with batch_norm",
}
"""What the letters in a `CTRModel.parameter_formula` mean, beside the model's own."""


@dataclass(frozen=True)
class ModelSize:
    """Numbers of trained weights; the slots of optimisers are not counted.

    Attributes:
        tables: Rows of each table.
        width: Weights in a row.
        linear_columns: How many of those belong to the linear part.
        dense: Weights outside the tables.
    """

    tables: Mapping[str, int]
    width: int
    linear_columns: int
    dense: int

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(self.tables.values())

    @property
    def vectors(self) -> int:
        """Weights of the vectors in all tables."""
        return self.rows * (self.width - self.linear_columns)

    @property
    def linear(self) -> int:
        """Weights of the linear part in all tables."""
        return self.rows * self.linear_columns

    @property
    def total(self) -> int:
        """All weights."""
        return self.rows * self.width + self.dense


def size_of(kind: str, schema: FeatureSchema, config: ModelConfig) -> ModelSize:
    """Count the weights of a model without making one of them.

    The model is built into a graph that never runs, where a variable is a shape.

    Args:
        kind: One of `models.registry.MODELS`.
        schema: Declared features; `config.features` picks from them.
        config: The kind's Config.

    Raises:
        ValueError: There is no such kind, or the features do not fit.
    """
    with tf.Graph().as_default():
        model = build(kind, schema, config)
        model.build_from(empty_batch(model.schema))
        tables = {table.name: table.rows for table in model.embeddings.tables}
        shapes = [variable.shape for variable in model.trainable_variables]
        dense = sum(int(np.prod(shape, dtype=np.int64)) for shape in shapes)
        return ModelSize(tables, model.embeddings.width, model.linear_columns, dense)


def empty_batch(schema: FeatureSchema) -> dict[str, tf.Tensor]:
    """Return a batch of one row of padding, for its shapes."""
    columns: dict[str, tuple[tuple[int, ...], tf.DType]] = {}
    for feature in schema.features:
        match feature.kind:
            case "categorical":
                columns[feature.name] = (), tf.int32
            case "numeric":
                columns[feature.name] = (), tf.float32
            case "list":
                columns[feature.name] = (feature.max_items,), tf.int32
                columns[length_key(feature.name)] = (), tf.int32
                if feature.weighted:
                    columns[weight_key(feature.name)] = (feature.max_items,), tf.float32
            case "history":
                columns[length_key(feature.name)] = (), tf.int32
                for channel in feature.channels:
                    columns[channel.name] = (feature.max_items,), tf.int32
    return {key: tf.zeros((1, *shape), dtype) for key, (shape, dtype) in columns.items()}
