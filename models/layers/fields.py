# SPDX-License-Identifier: Apache-2.0
"""Fields as vectors: what the interactions of a model start from."""

from collections.abc import Mapping
from typing import Literal

import keras
import tensorflow as tf

from features.schema import FeatureSchema
from models.layers.interactions import FieldRows
from models.layers.masking import ListPooling

NumericInput = Literal["fields", "dense", "none"]
"""How numbers enter: each as a field of its own, as they are beside the vectors, or not at all."""


class FieldInputs(keras.layers.Layer):
    """What the layers of this module share: rows of the fields, and dense numbers.

    Args:
        schema: The features; histories are none of the fields.
        embedding_dim: Length of each vector.
        initializer: Of the vectors of numeric fields.
        list_pooling: How a list becomes one vector.
        numeric_input: "fields": a number is a field, its x times a vector of its own; "dense": it
            enters as it is; "none": it is left out.

    Call arguments:
        embedded: Looked-up rows by batch key, float (batch, dim) or (batch, items, dim).
        batch: Numbers, lengths and item weights by batch key.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        embedding_dim: int,
        initializer: keras.initializers.Initializer,
        list_pooling: ListPooling,
        numeric_input: NumericInput,
    ) -> None:
        super().__init__(dtype=keras.config.floatx())  # as FieldRows
        self.rows = FieldRows(
            schema, embedding_dim, initializer, list_pooling, numeric_input == "fields"
        )
        self.dense = schema.numeric if numeric_input == "dense" else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the vectors' fields and then of the dense numbers."""
        return (*self.rows.names, *(number.name for number in self.dense))

    def inputs(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return the rows, list of float (batch, dim), and the numbers, list of (batch, 1)."""
        return self.rows(embedded, batch), self.numbers(batch)

    def numbers(self, batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Return the dense numbers alone, list of float (batch, 1)."""
        return [tf.cast(batch[n.name], self.dtype)[:, tf.newaxis] for n in self.dense]


class FieldVectors(FieldInputs):
    """One vector x_i v_i per field, and the numbers that enter as they are.

    Args, call arguments: see `FieldInputs`.

    Returns:
        The vectors, list of float (batch, dim), and the dense numbers, list of float (batch, 1).
    """

    def call(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Return vectors and numbers; see the class."""
        return self.inputs(embedded, batch)


class LinearAndVectors(FieldInputs):
    """The linear part w_0 + Σ_i w_i x_i, and what `FieldVectors` returns.

    Rows of id tables hold `v | w`; dense numbers have a weight each. All w start at 0.

    Args, call arguments: see `FieldInputs`; `embedding_dim` is the length of v alone, and
    `initializer` makes rows `v | w`.

    Returns:
        The linear part, float (batch,); vectors and dense numbers as `FieldVectors`.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        embedding_dim: int,
        initializer: keras.initializers.Initializer,
        list_pooling: ListPooling,
        numeric_input: NumericInput,
    ) -> None:
        super().__init__(schema, embedding_dim + 1, initializer, list_pooling, numeric_input)
        self.dim = embedding_dim
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")
        if self.dense:
            self.weights_of_numbers = self.add_weight(
                name="weights_of_numbers", shape=(len(self.dense),), initializer="zeros"
            )

    def call(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Return linear part, vectors and numbers; see the class."""
        terms, vectors, numbers = self._parts(embedded, batch)
        return self.bias + tf.squeeze(tf.add_n(terms), 1), vectors, numbers

    def linear_terms(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """Return w_i x_i of fields and dense numbers, (batch, names), by `names`."""
        return tf.concat(self._parts(embedded, batch)[0], axis=1)

    def _parts(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """Return linear terms, (batch, 1) each, vectors and dense numbers."""
        rows, numbers = self.inputs(embedded, batch)
        # tf.split and not slices: its gradient is one concatenation instead of two padded sums
        parts = [tf.split(row, [self.dim, 1], axis=1) for row in rows]
        terms = [weight for _, weight in parts]
        terms += self.terms_of_numbers(batch)
        return terms, [vector for vector, _ in parts], numbers

    def terms_of_numbers(self, batch: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Return w_i x_i of the dense numbers, list of float (batch, 1)."""
        return [x * self.weights_of_numbers[i] for i, x in enumerate(self.numbers(batch))]


class FieldLinearAndVectors(FieldInputs):
    """The linear part w_0 + Σ_i <v_i, w_{F(i)}> x_i with a vector w per field, and the vectors.

    Rows of id tables hold v; dense numbers have a weight each. All w start at 0.

    Args, call arguments: see `FieldInputs`.

    Returns:
        As `LinearAndVectors`.

    References:
        Pan et al., Field-weighted Factorization Machines, WWW 2018, §3.3 ("FiLV").
    Differs from the paper: nothing.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        embedding_dim: int,
        initializer: keras.initializers.Initializer,
        list_pooling: ListPooling,
        numeric_input: NumericInput,
    ) -> None:
        super().__init__(schema, embedding_dim, initializer, list_pooling, numeric_input)
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")
        self.weights_of_fields = self.add_weight(
            name="weights_of_fields",
            shape=(len(self.rows.names) * embedding_dim + len(self.dense), 1),
            initializer="zeros",
        )

    def call(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor], list[tf.Tensor]]:
        """Return linear part, vectors and numbers; see the class."""
        vectors, numbers = self.inputs(embedded, batch)
        linear = tf.concat([*vectors, *numbers], axis=1) @ self.weights_of_fields
        return self.bias + tf.squeeze(linear, 1), vectors, numbers

    def linear_terms(
        self, embedded: Mapping[str, tf.Tensor], batch: Mapping[str, tf.Tensor]
    ) -> tf.Tensor:
        """Return <v_i, w_{F(i)}> x_i of fields and w x of dense numbers, by `names`."""
        vectors, numbers = self.inputs(embedded, batch)
        inputs = [*vectors, *numbers]
        weights = tf.split(
            tf.convert_to_tensor(self.weights_of_fields), [i.shape[1] for i in inputs]
        )
        return tf.concat([i @ w for i, w in zip(inputs, weights, strict=True)], axis=1)
