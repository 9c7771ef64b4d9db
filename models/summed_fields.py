# SPDX-License-Identifier: Apache-2.0
"""Models that see of their fields only sums over all of them."""

from typing import NamedTuple

import tensorflow as tf

from models.ctr_model import Tensors, stack_numeric
from models.fields import LinearFieldModel
from models.layers.distinct_rows import sum_of_rows


class Summed(NamedTuple):
    """What a `SummedFieldModel` takes of the ids of a batch.

    Attributes:
        ids: Sum over the categorical fields of `SummedFieldModel.summands`, float64 (batch, …).
        lists: Rows of lists' items by batch key, (batch, items, k + 1).
    """

    ids: tf.Tensor
    lists: Tensors


class SummedFieldModel(LinearFieldModel):
    """A `LinearFieldModel` to which fields matter only in Σ_i w_i x_i, Σ_i x_i v_i and squares.

    Training squares each distinct row once, and adds rows up as it looks them up: the vectors of
    single fields are never written, which halves a step of FM. As in `pairwise_sum`, sums are in
    float64.

    Args, call arguments, returns and errors: see `LinearFieldModel`.
    """

    @staticmethod
    def squares(vectors: tf.Tensor) -> tf.Tensor:
        """Return what matters of the squares of vectors (rows, k): all, (rows, k), or a sum."""
        return tf.square(vectors)

    def prepare(self, rows: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return rows, and what is summed of them; see `CTRModel.prepare`."""
        return rows, self._summands(rows)

    def take(self, prepared: tuple[tf.Tensor, tf.Tensor], places: Tensors) -> Summed | Tensors:
        """Return the sums over the ids of a batch; see `CTRModel.take`."""
        rows, summands = prepared
        lists = {feature.name: places[feature.name] for feature in self.schema.lists}
        lists = super().take(rows, lists)
        if not self.schema.categorical:
            return lists
        ids = tf.stack([places[feature.name] for feature in self.schema.categorical], axis=1)
        return Summed(sum_of_rows(summands, ids), lists)

    def linear_and_pairs(
        self, embedded: Summed | Tensors, batch: Tensors
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the linear part (batch,) and Σ_{i<j} x_i v_i ⊙ x_j v_j, (batch, k) or its sum.

        Args:
            embedded: Rows by batch key, or what `take` returned.
            batch: The batch.
        """
        fields, sums = self.fields.rows, []
        if isinstance(embedded, Summed):
            sums.append(embedded.ids)
            rows = fields.rows_of_lists(embedded.lists, batch)
        else:
            rows = fields.rows_of_ids(embedded, batch)
        sums += [self._summands(row) for row in rows]
        sums += [self._sum_of_numbers(batch)] if fields.numeric else []
        total = tf.add_n(sums)
        vectors, linear, squares = tf.split(total, [self.fields.dim, 1, -1], axis=1)
        pairs = (self.squares(vectors) - squares) / 2
        terms = [tf.cast(linear, self.dtype), *self.fields.terms_of_numbers(batch)]
        return self.fields.bias + tf.squeeze(tf.add_n(terms), 1), tf.cast(pairs, self.dtype)

    def _sum_of_numbers(self, batch: Tensors) -> tf.Tensor:
        """Return the sum of `_summands` over numeric fields, (batch, …), as two products."""
        numbers = tf.cast(stack_numeric(self.schema, batch), tf.float64)
        once, squares = tf.split(
            self._summands(self.fields.rows.numeric_rows), [self.fields.dim + 1, -1], axis=1
        )
        return tf.concat([numbers @ once, tf.square(numbers) @ squares], axis=1)

    def _summands(self, rows: tf.Tensor) -> tf.Tensor:
        """Return `v | w | squares(v)` of rows `v | w`, float64."""
        rows = tf.cast(rows, tf.float64)
        return tf.concat([rows, self.squares(rows[:, :-1])], axis=1)
