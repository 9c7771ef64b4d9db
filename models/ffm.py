# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from pydantic import Field

from features.schema import FeatureSchema
from models.ctr_model import CTRModel, Tensors, stack_numeric
from models.fields import FieldConfig, problems_of_fields
from models.layers.distinct_rows import sum_of_rows, take_rows
from models.layers.embeddings import EmbeddingTables
from models.layers.interactions import FieldRows, VectorsThenLinear, upper_triangle
from models.limits import Width


class FFMConfig(FieldConfig):
    """Options of `FFM`."""

    embedding_dim: Width = Field(
        4, description="Length k of each vector; an id has one per field, F · k + 1 numbers."
    )
    initial_stddev: float = Field(
        0.03, gt=0, description="Standard deviation of the vectors' coordinates at the start."
    )
    scale_instances: bool = Field(
        False,
        description="Whether a row's pair sum is divided by its Σ x²; its linear part is not.",
    )


class Prepared(NamedTuple):
    """What `FFM` computes of the distinct rows of a batch, U of them.

    Attributes:
        rows: The rows themselves, (U, F k + 1), for lists; of width 0 where there are none.
        to_ids: Vectors for id fields, (U, C k).
        to_others: <v_{i,f_n}, v_{n,f_i}> of each numeric field n, then w_i, (U, turns, N + 1): one
            turn for each categorical field i that reads the row's table.
    """

    rows: tf.Tensor
    to_ids: tf.Tensor
    to_others: tf.Tensor


class Met(NamedTuple):
    """What `FFM` takes of the ids of a batch.

    Attributes:
        to_ids: Vectors of the categorical fields for id fields, (batch, fields, C k).
        to_others: `Prepared.to_others`, summed over them, (batch, N + 1).
        lists: Rows of lists' items by batch key, (batch, items, F k + 1).
    """

    to_ids: tf.Tensor
    to_others: tf.Tensor
    lists: Tensors


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
        to large logits, which a few epochs of Adagrad undo but a single one of Adam does not. With
        741 pairs of fields those of deviation 0.1 are noise enough to cost 0.03 AUC after an epoch.
    """

    forms_pairs = True

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
        self.fields_of_tables, self.turns_of_fields = _turns(self.schema)
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

    def prepare(self, rows: tf.Tensor, ids: tf.Tensor) -> Prepared:
        """Return what a row brings to its fields; see `CTRModel.prepare`."""
        fields = tf.gather(self.fields_of_tables, self.embeddings.table_of(ids))  # (U, turns)
        turns = tf.tile(rows[:, tf.newaxis], [1, fields.shape[1], 1])
        to_ids, to_others = self._parts(turns, fields)
        # without lists nobody reads the rows, and compiled code would copy them
        return Prepared(rows if self.schema.lists else rows[:, :0], to_ids[:, 0], to_others)

    def take(self, prepared: Prepared, places: Tensors) -> Met | Tensors:
        """Return what the ids of a batch bring to their fields; see `CTRModel.take`."""
        lists = {feature.name: places[feature.name] for feature in self.schema.lists}
        lists = super().take(prepared.rows, lists)
        if not self.schema.categorical:
            return lists
        ids = tf.stack([places[feature.name] for feature in self.schema.categorical], axis=1)
        _, turns, width = prepared.to_others.shape
        others = tf.reshape(prepared.to_others, [-1, width])
        return Met(
            take_rows(prepared.to_ids, ids),
            sum_of_rows(others, ids * turns + self.turns_of_fields),
            lists,
        )

    def logits(self, embedded: Met | Tensors, batch: Tensors, training: bool) -> tf.Tensor:
        """Compute logits (batch,); see `CTRModel.logits`.

        Args:
            embedded: Rows by batch key, or what `take` returned.
            batch: The batch.
            training: Makes no difference.
        """
        linear, to_numbers = self.bias, 0.0
        pair_sum: tf.Tensor = 0.0
        if self.num_ids:
            to_ids, to_others = self._met(embedded, batch)
            to_numbers, weights = tf.split(to_others, [self.num_numeric, 1], axis=1)
            pair_sum += field_aware_pair_sum(to_ids, self.dim)
            linear += weights[:, 0]
        if self.num_numeric or self.has_dense:
            numbers = tf.cast(stack_numeric(self.schema, batch), self.dtype)
            weights = self.dense_weights if self.has_dense else self.fields.numeric_rows[:, -1:]
            linear += tf.squeeze(numbers @ weights, axis=1)
            if self.num_numeric:
                partners = to_numbers + numbers @ self._pairs_of_numbers()
                pair_sum += tf.reduce_sum(numbers * partners, axis=1)
        if self.scale_instances:
            squares = self.fields.squared_values(batch, pair_sum.dtype)
            pair_sum = tf.math.divide_no_nan(pair_sum, tf.reduce_sum(squares, axis=1))
        return linear + pair_sum

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

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Names of the fields that a value's vectors are for, in their order."""
        return self.fields.names

    def _met(self, embedded: Met | Tensors, batch: Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        """Return x_i v_{i,f} by id field i, (B, C, C k), and Σ_i x_i of `_parts`, (B, N + 1)."""
        fields, parts = np.arange(self.num_ids), []
        if isinstance(embedded, Met):
            parts.append((embedded.to_ids, embedded.to_others))
            rows = self.fields.rows_of_lists(embedded.lists, batch)
        else:
            rows = self.fields.rows_of_ids(embedded, batch)
        if rows:
            to_ids, to_others = self._parts(tf.stack(rows, axis=1), fields[-len(rows) :])
            parts.append((to_ids, tf.reduce_sum(to_others, axis=1)))
        to_ids, to_others = zip(*parts, strict=True)
        return tf.concat(to_ids, axis=1), tf.add_n(to_others)

    def _parts(
        self, rows: tf.Tensor, fields: tf.Tensor | np.ndarray
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return a row's vectors for id fields and what it adds to Σ_i of numbers and of weights.

        The vectors of a numeric field n are the same in every impression, so that of v_{i,f_n} only
        its product with v_{n,f_i} is ever needed: one number instead of k.

        Args:
            rows: `v_{i,1} … v_{i,F} | w_i`, (rows, fields, F k + 1).
            fields: The id fields i, int (fields,) or (rows, fields).

        Returns:
            v_{i,f} for the id fields f, (rows, fields, C k), and <v_{i,f_n}, v_{n,f_i}> for the
            numeric fields n, then w_i, (rows, fields, N + 1).
        """
        sizes = [self.num_ids * self.dim, self.num_numeric * self.dim, 1]
        to_ids, to_numbers, weights = tf.split(rows, sizes, axis=-1)
        if not self.num_numeric:
            return to_ids, weights
        theirs = tf.transpose(self._vectors_of_numbers()[:, : self.num_ids], (1, 0, 2))
        theirs = tf.gather(tf.reshape(theirs, [self.num_ids, -1]), fields)
        met = to_numbers * theirs
        met = tf.reshape(met, [-1, met.shape[1], self.num_numeric, self.dim])
        return to_ids, tf.concat([tf.reduce_sum(met, axis=-1), weights], axis=-1)

    def _vectors_of_numbers(self) -> tf.Tensor:
        """Return v_{n,f} of every numeric field n and field f, (N, F, k)."""
        return tf.reshape(self.fields.numeric_rows[:, :-1], [self.num_numeric, -1, self.dim])

    def _pairs_of_numbers(self) -> tf.Tensor:
        """Return <v_{n,f_m}, v_{m,f_n}> of numeric fields, (N, N), 0 unless n < m."""
        among = self._vectors_of_numbers()[:, self.num_ids :]
        return upper_triangle(tf.reduce_sum(among * tf.transpose(among, (1, 0, 2)), axis=2))


def field_aware_pair_sum(vectors: tf.Tensor, dim: int) -> tf.Tensor:
    """Return Σ_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j, (batch,).

    Its gradient needs no sum: it is the vectors with their two axes of fields exchanged, and 0 at
    i = j.

    Args:
        vectors: x_i [v_{i,1} … v_{i,F}] of each field i, float (batch, F, F dim).
        dim: Length of each vector.
    """
    fields = vectors.shape[1]
    apart = np.repeat(1 - np.eye(fields), dim, axis=1)  # (F, F D)

    @tf.custom_gradient
    def pair_sum(ours: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        each = tf.reshape(ours, (-1, fields, fields, dim))

        def backwards(upstream: tf.Tensor) -> tf.Tensor:
            theirs = tf.reshape(tf.transpose(each, (0, 2, 1, 3)), (-1, fields, fields * dim))
            return upstream[:, tf.newaxis, tf.newaxis] * theirs * apart

        # field by field: one product with the exchanged tensor takes compiled code twice the time
        pairs = [each[:, i, i + 1 :] * each[:, i + 1 :, i] for i in range(fields - 1)]
        zero = tf.zeros_like(ours[:, 0, 0])
        return tf.add_n([zero, *(tf.reduce_sum(pair, (1, 2)) for pair in pairs)]), backwards

    return pair_sum(vectors)


def _turns(schema: FeatureSchema) -> tuple[np.ndarray, np.ndarray]:
    """Return the categorical fields that read each table, (tables, turns), and each one's turn.

    A table with fewer of them than others repeats any field, whose turn never comes.
    """
    readers: dict[str, list[int]] = {table.name: [] for table in schema.tables}
    turns = []
    for i, feature in enumerate(schema.categorical):
        turns.append(len(readers[feature.table]))
        readers[feature.table].append(i)
    most = max([1, *map(len, readers.values())])
    fields = [places + [0] * (most - len(places)) for places in readers.values()]
    return np.array(fields, np.int32).reshape(-1, most), np.array(turns, np.int32)
