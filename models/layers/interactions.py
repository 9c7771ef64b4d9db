# SPDX-License-Identifier: Apache-2.0
"""Fields of a factorisation model, and what they do in pairs."""

from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from features.schema import FeatureSchema
from models.layers.masking import ListPooling, item_weights, pool_list


def pairwise_sum(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Return Σ_{i<j} e_i ⊙ e_j in O(fields · dim), (batch, dim); 0 for a single field.

    ½ ((Σ e)² - Σ e²) subtracts two numbers of nearly one size when a field is large: with one field
    at 1e4 and 25 near 1, float32 is wrong by 5 %. So it is computed in float64, which for float32
    vectors loses less than their rounding does until one field is 1e8 times all others together.

    Args:
        vectors: x_i v_i of each field, (batch, dim); at least one.

    References:
        Rendle, Factorization Machines, ICDM 2010, Lemma 3.1 (the sum in linear time);
        He & Chua, Neural Factorization Machines, SIGIR 2017, Eq. 3 (as a vector).
    """
    doubles = [tf.cast(vector, tf.float64) for vector in vectors]
    total = tf.add_n(doubles)
    squares = tf.add_n([tf.square(vector) for vector in doubles])
    return tf.cast((tf.square(total) - squares) / 2, vectors[0].dtype)


def pair_products(vectors: Sequence[tf.Tensor], weights: tf.Tensor | None = None) -> tf.Tensor:
    """Return <e_i, e_j> of every pair, (batch, fields, fields), 0 unless i < j.

    For explanations: a model adds them up in less.

    Args:
        vectors: x_i v_i of each field, (batch, dim); at least one.
        weights: Of the products' coordinates, (dim,); ones when left out.
    """
    fields = tf.stack(vectors, axis=1)  # (B, F, D)
    ours = fields if weights is None else fields * weights
    return upper_triangle(tf.matmul(ours, fields, transpose_b=True))


def upper_triangle(matrices: tf.Tensor) -> tf.Tensor:
    """Return matrices (…, fields, fields) with 0 on and below the diagonal."""
    return matrices * np.triu(np.ones(matrices.shape[-2:]), 1)


class VectorsThenLinear(keras.initializers.Initializer):
    """Rows `[v | w]` of a factorisation machine: v ~ N(0, stddev²), w = 0 in the last column.

    Args:
        stddev: Standard deviation of the vectors' coordinates.
    """

    def __init__(self, stddev: float) -> None:
        self.stddev = stddev

    def __call__(self, shape: Sequence[int], dtype: str | None = None) -> tf.Tensor:
        """Return rows of that shape."""
        rows, width = shape
        normal = keras.initializers.RandomNormal(stddev=self.stddev)
        vectors = normal((rows, width - 1), dtype=dtype)
        return tf.concat([vectors, tf.zeros((rows, 1), vectors.dtype)], axis=1)


class FieldRows(keras.layers.Layer):
    """One row x_i · r_i per field, where r_i are the weights of the value that the field has.

    A categorical field has x = 1. A list is one field, the sum, mean or largest of its items by
    their weights. A numeric field is its number times a row of the field's own.

    Args:
        schema: The fields; histories are none.
        width: Numbers per row.
        initializer: Of the numeric fields' rows.
        list_pooling: How a list becomes one row.
        use_numeric: Whether numeric features are fields.

    Call arguments:
        embedded: Looked-up rows by batch key, float (batch, width) or (batch, items, width).
        batch: Numbers, lengths and item weights by batch key.

    Returns:
        List of float (batch, width), one per field.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        width: int,
        initializer: keras.initializers.Initializer,
        list_pooling: ListPooling = "sum",
        use_numeric: bool = True,
    ) -> None:
        # float32 whatever the policy: sums over fields gain nothing from half precision
        super().__init__(dtype=keras.config.floatx())
        self.schema = schema
        self.list_pooling = list_pooling
        self.numeric = schema.numeric if use_numeric else ()
        if self.numeric:
            self.numeric_rows = self.add_weight(
                name="numeric_rows", shape=(len(self.numeric), width), initializer=initializer
            )
        self.built = True  # also for a model that takes only a part of it

    def call(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the fields' rows; see the class."""
        rows = self.rows_of_ids(embedded, batch)
        for i, number in enumerate(self.numeric):
            rows.append(batch[number.name][:, tf.newaxis] * self.numeric_rows[i])
        return rows

    def rows_of_ids(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the rows of categorical and list fields only; see the class."""
        rows = [embedded[feature.name] for feature in self.schema.categorical]
        return rows + self.rows_of_lists(embedded, batch)

    def rows_of_lists(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> list[tf.Tensor]:
        """Return the rows of list fields only; see the class."""
        return [
            pool_list(feature, embedded[feature.name], batch, self.list_pooling)
            for feature in self.schema.lists
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, in the order of their rows."""
        fields = (self.schema.categorical, self.schema.lists, self.numeric)
        return tuple(feature.name for kind in fields for feature in kind)

    def squared_values(self, batch: Mapping[str, tf.Tensor], dtype: tf.DType) -> tf.Tensor:
        """Return Σ x² of each field, (batch, fields); 0 where a field has no value.

        It is 1 for a categorical field, x² for a number, and for a list the sum over its items,
        each item's x being its weight, or its share of the weights when the list is a mean.
        """
        squares = [tf.ones_like(batch[f.name], dtype) for f in self.schema.categorical]
        for feature in self.schema.lists:
            weights = item_weights(feature, batch, tf.shape(batch[feature.name])[1], dtype)
            square = tf.reduce_sum(tf.square(weights), axis=1)
            if self.list_pooling == "mean":
                total = tf.reduce_sum(weights, axis=1)
                square = tf.math.divide_no_nan(square, tf.square(total))
            squares.append(square)
        squares += [tf.square(tf.cast(batch[f.name], dtype)) for f in self.numeric]
        return tf.stack(squares, axis=1)
