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
        ids: Sum of `v | w | squares(v)` over the categorical fields, float64 (batch, k + 1 + s),
            where s is the width of `SummedFieldModel.squares`.
        lists: Rows `v | w` of lists' items by batch key, float (batch, items, k + 1).
    """

    ids: tf.Tensor
    lists: Tensors


class SummedFieldModel(LinearFieldModel):
    """A `LinearFieldModel` to which fields matter only in Σ_i w_i x_i, Σ_i x_i v_i and squares.

    Training squares each distinct row once, and adds rows up as it looks them up, so that the
    vectors of single fields are never written. Sums are in float64 for the reason that
    `pairwise_sum` gives.

    Args, call arguments, returns and errors: see `LinearFieldModel`.
    """

    @staticmethod
    def squares(vectors: tf.Tensor) -> tf.Tensor:
        """Return what matters of the squares of vectors (rows, k), (rows, s): here all, s = k."""
        return tf.square(vectors)

    def prepare(self, rows: tf.Tensor, ids: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return rows `v | w`, and what is summed of them; see `CTRModel.prepare`."""
        return rows, self._summands(rows)

    def take(self, prepared: tuple[tf.Tensor, tf.Tensor], places: Tensors) -> Summed | Tensors:
        """Return the sums over the ids of a batch; see `CTRModel.take`."""
        rows, summands = prepared
        places_of_lists = {feature.name: places[feature.name] for feature in self.schema.lists}
        lists = super().take(rows, places_of_lists)
        if not self.schema.categorical:
            return lists
        ids = tf.stack([places[feature.name] for feature in self.schema.categorical], axis=1)
        return Summed(sum_of_rows(summands, ids), lists)

    def linear_and_pairs(
        self, embedded: Summed | Tensors, batch: Tensors
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the linear part (batch,) and Σ_{i<j} x_i v_i ⊙ x_j v_j, (batch, s).

        By Rendle 2010, Lemma 3.1, the latter is ½ (squares(Σ_i x_i v_i) - Σ_i squares(x_i v_i)).

        Args:
            embedded: Rows by batch key, or what `take` returned.
            batch: The batch.
        """
        inputs, sums = self.fields.rows, []
        if isinstance(embedded, Summed):
            sums.append(embedded.ids)
            rows = inputs.rows_of_lists(embedded.lists, batch)
        else:
            rows = inputs.rows_of_ids(embedded, batch)
        sums += [self._summands(row) for row in rows]
        if inputs.numeric:
            sums.append(self._sum_of_numbers(batch))
        vectors, linear, squares = tf.split(tf.add_n(sums), [self.fields.dim, 1, -1], axis=1)
        pairs = (self.squares(vectors) - squares) / 2
        terms = [tf.cast(linear, self.dtype), *self.fields.terms_of_numbers(batch)]
        return self.fields.bias + tf.squeeze(tf.add_n(terms), 1), tf.cast(pairs, self.dtype)

    def _sum_of_numbers(self, batch: Tensors) -> tf.Tensor:
        """Return the sum of `_summands` over numeric fields, (batch, k + 1 + s), as two products.

        Squares of x v are x² times those of v.
        """
        numbers = tf.cast(stack_numeric(self.schema, batch), tf.float64)  # (batch, numbers)
        rows, squares = tf.split(
            self._summands(self.fields.rows.numeric_rows), [self.fields.dim + 1, -1], axis=1
        )
        return tf.concat([numbers @ rows, tf.square(numbers) @ squares], axis=1)

    def _summands(self, rows: tf.Tensor) -> tf.Tensor:
        """Return `v | w | squares(v)`, float64 (rows, k + 1 + s), of rows `v | w`."""
        rows = tf.cast(rows, tf.float64)
        return tf.concat([rows, self.squares(rows[:, :-1])], axis=1)
