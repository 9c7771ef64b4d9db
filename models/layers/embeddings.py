# SPDX-License-Identifier: Apache-2.0
"""Embedding tables, stacked in one variable so that a step costs one gather and one scatter."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import keras
import tensorflow as tf

from features.schema import MOST_ROWS, PADDING, FeatureSchema, Table


class EmbeddingTables(keras.layers.Layer):
    """Every embedding table of a model, rows of all tables stacked in one variable.

    A row holds the weights of one id, `width` numbers, followed by the slots that a row-wise
    optimiser keeps for them: `weights | slot 1 | slot 2 …`, so that one gather and one scatter
    serve a whole training step whatever the size of the tables. Row 0 of each table belongs to
    padding: it is zero and stays zero.

    Args:
        schema: Features to look up; every id column is looked up in its table.
        width: Numbers per id, at least 1.
        initializer: Of the weights; slots start at `slot_values`.
        slot_values: Initial value of each optimiser slot; empty for a model that only predicts.

    Call arguments:
        batch: The id tensors by batch key, int32 (batch,) or (batch, items).

    Returns:
        Dict of the same keys, float32 (batch, width) or (batch, items, width).

    Raises:
        ValueError: More rows in all than int32 can count.
    """

    def __init__(
        self,
        schema: FeatureSchema,
        width: int,
        initializer: keras.initializers.Initializer,
        slot_values: Sequence[float] = (),
    ) -> None:
        super().__init__(name="embeddings", dtype=keras.config.floatx())
        self.columns = tuple(schema.id_columns())
        self.tables = schema.tables
        self.width = width
        self.initializer = initializer
        self.slot_values = tuple(slot_values)
        sizes = [table.rows for table in self.tables]
        starts = [0, *accumulate(sizes)]
        self.offsets = {table.name: starts[i] for i, table in enumerate(self.tables)}
        self.num_rows = starts[-1]
        if self.num_rows > MOST_ROWS:
            largest = max(self.tables, key=lambda table: table.rows)
            raise ValueError(
                f"tables have {self.num_rows:,} rows in all, of which `{largest.name}` "
                f"{largest.rows:,}; ids are int32, so that {MOST_ROWS:,} are the most: give "
                "the feature fewer hash_buckets, or a higher min_count"
            )
        self.packed = self.add_weight(
            name="packed",
            shape=(self.num_rows, width * (1 + len(self.slot_values))),
            initializer="zeros",
            trainable=False,  # row-wise optimisers write it; Keras optimisers must not
        )
        self._fill()

    def _fill(self) -> None:
        """Set the initial values column by column: a whole second copy could be too much."""
        columns = [self._initial_weights(), *self.slot_values]
        for slot, value in enumerate(columns):
            if slot == 0 or value != 0.0:
                part = slice(slot * self.width, (slot + 1) * self.width)
                shape = (self.num_rows, self.width)
                self.packed.value[:, part].assign(tf.broadcast_to(value, shape))

    def _initial_weights(self) -> tf.Tensor:
        weights = self.initializer((self.num_rows, self.width), dtype=self.packed.dtype)
        padding = tf.constant(list(self.offsets.values()), tf.int32)[:, None]
        zeros = tf.zeros((len(self.offsets), self.width), weights.dtype)
        return tf.tensor_scatter_nd_update(weights, padding, zeros)

    def call(self, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Look up every id column; see the class."""
        return self.look_up(batch, dict(self.columns))

    def look_up(self, batch: Mapping[str, tf.Tensor], keys: Iterable[str]) -> dict[str, tf.Tensor]:
        """Look up some of the id columns; see the class.

        Args:
            batch: Holds them.
            keys: Their batch keys.
        """
        tables = dict(self.columns)
        return {
            key: self.gather(batch[key] + self.offsets[tables[key]])[..., : self.width]
            for key in keys
        }

    def gather(self, row_ids: tf.Tensor) -> tf.Tensor:
        """Return packed rows, float32 (…, width * (1 + slots)), of stacked row numbers (…)."""
        # of the TensorFlow variable: a gather of Keras' variable reads, and so copies, all rows
        return tf.gather(self.packed.value, row_ids)

    def row_ids(self, batch: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Return the stacked row of every id of the batch, int32 (all ids of all columns,).

        Padding of every table maps to row `offset`, which `is_padding` recognises.
        """
        flat = [tf.reshape(batch[key], [-1]) + self.offsets[table] for key, table in self.columns]
        return tf.concat(flat, axis=0) if flat else tf.zeros([0], tf.int32)

    def is_padding(self, row_ids: tf.Tensor) -> tf.Tensor:
        """Return which stacked rows are a table's padding row, bool of the same shape."""
        starts = tf.constant([*self.offsets.values()], tf.int32) + PADDING
        return tf.equal(tf.gather(starts, self.table_of(row_ids)), row_ids)

    def table_of(self, row_ids: tf.Tensor) -> tf.Tensor:
        """Return the place in `tables` of each stacked row's table, int32 of the same shape."""
        starts = tf.constant([*self.offsets.values()], tf.int32)  # ascending, as they were stacked
        return tf.searchsorted(starts, row_ids, side="right") - 1

    def by_column(self, flat: tf.Tensor, batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Cut a tensor with one entry per id, in the order of `row_ids`, into the batch's columns.

        Args:
            flat: (all ids of all columns, …).
            batch: The batch that `row_ids` was called on; its shapes must be static.
        """
        if not self.columns:  # a model of numbers only
            return {}
        shapes = [batch[key].shape for key, _ in self.columns]
        parts = tf.split(flat, [shape.num_elements() for shape in shapes])
        return {
            key: tf.reshape(part, [*shape, *flat.shape[1:]])
            for (key, _), part, shape in zip(self.columns, parts, shapes, strict=True)
        }

    def table_weights(self, table: Table) -> tf.Tensor:
        """Return the weights of one table, float32 (rows, width), without optimiser slots."""
        start = self.offsets[table.name]
        return self.packed[start : start + table.rows, : self.width]
