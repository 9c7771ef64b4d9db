# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import CTRModel, Tensors, stack_numeric
from models.fields import FieldConfig
from models.layers.embeddings import EmbeddingTables
from models.layers.interactions import FieldRows, VectorsThenLinear, upper_triangle
from models.lr import problems_of_fields


class FFMConfig(FieldConfig):
    """Options of `FFM`."""

    embedding_dim: int = Field(
        4, ge=1, description="Length k of each vector; an id has one per field, F · k + 1 numbers."
    )
    initial_stddev: float = Field(
        0.1, gt=0, description="Standard deviation of the vectors' coordinates at the start."
    )
    scale_instances: bool = Field(
        False,
        description="Whether a row's pair sum is divided by its Σ x²; its linear part is not.",
    )


class FFM(CTRModel):
    """Field-aware factorisation machine: a value has one vector for each field it may meet.

    ŷ = w_0 + Σ_i w_i x_i + s Σ_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j

    over fields i with x_i as in `FM`; s is 1, or 1 / Σ_i x_i² with `scale_instances` (a list counts
    each of its items there). A row of a table holds `v_{·,1} … v_{·,F} | w`, F k + 1 numbers: the
    first vectors are those for categorical and list fields, then those for numeric fields.

    Args:
        schema: Declared features; `config.features` picks from them. No history among those.
        config: The options.
        slot_values: Initial optimiser slots of the embedding rows.

    Call arguments and returns: see `CTRModel`.

    Raises:
        ValueError: The features do not fit; the message is that of `problems`.

    References:
        Juan et al., Field-aware Factorization Machines for CTR Prediction, RecSys 2016, §3, Eq. 4;
        scaling rows to unit length and the initial values are in its §3.1.
    Differs from the paper: w_0 and the linear part, which it leaves out. Items of one list form no
        pairs among themselves, so that v_{i,f_i} is unused: libffm counts it, and so does the row.
        Vectors start at N(0, initial_stddev²), not uniform in [0, 1/√k]: positive vectors add up
        to large logits, which a few epochs of Adagrad undo but a single one of Adam does not.
    """

    def __init__(
        self, schema: FeatureSchema, config: FFMConfig, slot_values: Sequence[float] = ()
    ) -> None:
        super().__init__(schema, config, slot_values)
        self.linear_columns = 1
        self.dim = config.embedding_dim
        self.scale_instances = config.scale_instances
        self.num_ids = len(self.schema.categorical) + len(self.schema.lists)
        self.num_numeric = len(self.schema.numeric) if config.numeric_input == "fields" else 0
        width = (self.num_ids + self.num_numeric) * self.dim + 1  # v_{·,1} … v_{·,F} | w
        initializer = VectorsThenLinear(config.initial_stddev)
        self.embeddings = EmbeddingTables(self.schema, width, initializer, slot_values)
        self.fields = FieldRows(
            self.schema, width, initializer, config.list_pooling, self.num_numeric > 0
        )
        self.bias = self.add_weight(name="bias", shape=(), initializer="zeros")
        self.has_dense = config.numeric_input == "dense" and bool(self.schema.numeric)
        if self.has_dense:
            self.dense_weights = self.add_weight(
                name="dense_weights", shape=(len(self.schema.numeric), 1), initializer="zeros"
            )

    @staticmethod
    def parameter_formula(config: FFMConfig) -> str:
        """Return the number of weights as a formula; see `CTRModel.parameter_formula`."""
        return "(R + N) (F k + 1) + D + 1"

    @staticmethod
    def problems(schema: FeatureSchema, config: FFMConfig) -> list[str]:
        """Return what does not fit, in plain words; empty if all does."""
        return problems_of_fields("ffm", schema, config.numeric_input == "fields")

    def logits(self, embedded: Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`."""
        rows = self.fields.rows_of_ids(embedded, batch)
        # tf.split and not slices: its gradient is one concatenation instead of padded sums
        sizes = [self.num_ids * self.dim, self.num_numeric * self.dim, 1]
        parts = [tf.split(row, sizes, axis=1) for row in rows]
        to_ids, to_numbers, weights = map(list, zip(*parts, strict=True)) if parts else ([], [], [])
        pairs = [field_aware_pair_sum(to_ids, self.dim)] if to_ids else []
        if self.num_numeric:
            numbers = tf.cast(stack_numeric(self.schema, batch), self.dtype)
            vectors, weights_of_numbers = tf.split(self.fields.numeric_rows, [-1, 1], axis=1)
            weights.append(numbers @ weights_of_numbers)
            pairs.append(self._pairs_with_numbers(to_numbers, vectors, numbers))
        elif self.has_dense:
            numbers = tf.cast(stack_numeric(self.schema, batch), self.dtype)
            weights.append(numbers @ self.dense_weights)
        pair_sum = tf.add_n(pairs)
        if self.scale_instances:
            squares = self.fields.squared_values(batch, pair_sum.dtype)
            pair_sum = tf.math.divide_no_nan(pair_sum, tf.reduce_sum(squares, axis=1))
        return self.bias + tf.squeeze(tf.add_n(weights), axis=1) + pair_sum

    def terms(self, batch: Tensors) -> dict[str, tf.Tensor]:
        """Return the parts of the logit; see `CTRModel.terms`."""
        rows = tf.stack(self.fields(self.embeddings(batch), batch), axis=1)  # (B, F, F D + 1)
        vectors, linear = tf.split(rows, [-1, 1], axis=2)
        each = tf.reshape(vectors, (-1, rows.shape[1], rows.shape[1], self.dim))
        products = tf.reduce_sum(each * tf.transpose(each, (0, 2, 1, 3)), axis=3)
        pairs = upper_triangle(products)
        if self.scale_instances:
            squares = self.fields.squared_values(batch, pairs.dtype)
            total = tf.reduce_sum(squares, axis=1)[:, tf.newaxis, tf.newaxis]
            pairs = tf.math.divide_no_nan(pairs, total)
        linear = tf.squeeze(linear, axis=2)
        if self.has_dense:
            numbers = tf.cast(stack_numeric(self.schema, batch), self.dtype)
            linear = tf.concat([linear, numbers * self.dense_weights[:, 0]], axis=1)
        bias = tf.fill([tf.shape(linear)[0]], self.bias)
        return {"bias": bias, "linear": linear, "pairs": pairs}

    @property
    def linear_names(self) -> tuple[str, ...]:
        """Names of the linear terms: fields, then dense numbers."""
        dense = (number.name for number in self.schema.numeric if self.has_dense)
        return (*self.field_names, *dense)

    @property
    def field_names(self) -> tuple[str, ...]:
        """Names of the fields."""
        return self.fields.names

    def _pairs_with_numbers(
        self, ids: Sequence[tf.Tensor], numeric: tf.Tensor, numbers: tf.Tensor
    ) -> tf.Tensor:
        """Return the sum over pairs of which one or both fields are numeric, (batch,).

        The vectors of a numeric field are the same in every row, so that its part needs no tensor
        with fields on two axes: Σ_n x_n (Σ_i <v_{i,f_n}, v_{n,f_i}> x_i + Σ_{m<n} <…> x_m).

        Args:
            ids: x_i [v_{i,f_n} of every numeric field n] of each other field i, (batch, N dim).
            numeric: [v_{n,f} of every field f] of each numeric field n, (N, F dim).
            numbers: x_n, (batch, N).
        """
        count = self.num_numeric
        each = tf.reshape(numeric, (count, -1, self.dim))  # (N, F, D)
        among = each[:, self.num_ids :]
        products = tf.reduce_sum(among * tf.transpose(among, (1, 0, 2)), axis=2)
        partners = numbers @ (products * np.triu(np.ones((count, count)), 1))
        if ids:
            theirs = tf.reshape(
                tf.transpose(each[:, : self.num_ids], (1, 0, 2)), (self.num_ids, -1)
            )  # (C, N D)
            met = tf.add_n([vectors * theirs[i] for i, vectors in enumerate(ids)])
            partners += tf.reduce_sum(tf.reshape(met, (-1, count, self.dim)), axis=2)
        return tf.reduce_sum(numbers * partners, axis=1)


def field_aware_pair_sum(vectors: Sequence[tf.Tensor], dim: int) -> tf.Tensor:
    """Return Σ_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j, (batch,).

    The tensor of all vectors times its own transpose over fields: XLA makes one loop of it, which
    is several times as fast as gathering the pairs.

    Args:
        vectors: x_i [v_{i,1} … v_{i,F}] of each field i, (batch, F dim); F of them.
        dim: Length of each vector.
    """
    fields = len(vectors)
    each = tf.reshape(tf.concat(vectors, axis=1), (-1, fields, fields, dim))  # (B, F, F, D)
    once = np.triu(np.ones((fields, fields)), 1)[:, :, np.newaxis]
    return tf.reduce_sum(each * tf.transpose(each, (0, 2, 1, 3)) * once, axis=(1, 2, 3))
