# SPDX-License-Identifier: Apache-2.0
"""Rows of histories in chunks of similar lengths, as most places of a batch are padding."""

import tensorflow as tf


class Chunks:
    """A batch of histories, sorted by length, longest first, and cut into chunks of one size.

    A chunk is worked on as far as its longest history goes. Of histories of up to 50 events, 20 in
    the mean, 60 % of the places are padding; cut into 16 chunks, 5 % are.

    Args:
        real: Float or bool (batch, items); a row ends at the last place that is not 0.
        most: Chunks at most, a power of 2.
        least_rows: Rows of a chunk at least.

    Attributes:
        count: Number of chunks; 1 where the shape is not known before the graph runs.
        ends: Length of the longest row of each chunk, int32 (count,), longest first.
        items: Places of a row.
    """

    def __init__(self, real: tf.Tensor, most: int, least_rows: int) -> None:
        rows, items = real.shape
        self.count = _chunks(rows, most, least_rows) if rows and items else 1
        self.items = tf.shape(real)[1] if items is None else items
        places = tf.range(1, self.items + 1)
        ends = tf.reduce_max(tf.where(tf.cast(real, tf.bool), places, 0), axis=1)
        self._order = self._inverse = None
        if self.count > 1:
            self._order = tf.argsort(ends, direction="DESCENDING")
            self._inverse = tf.argsort(self._order)
            ends = tf.gather(ends, self._order)
        self.ends = tf.reduce_max(tf.reshape(ends, [self.count, -1]), axis=1)

    def by_chunk(self, array: tf.Tensor) -> tf.Tensor:
        """Return (batch, …) as (chunks, rows, …)."""
        if self._order is None:
            return array[tf.newaxis]
        sizes = [self.count, array.shape[0] // self.count, *array.shape[1:]]
        return tf.reshape(tf.gather(array, self._order), sizes)

    def joined(self, array: tf.Tensor) -> tf.Tensor:
        """Reverse `by_chunk`."""
        if self._inverse is None:
            return array[0]
        rows = self.count * array.shape[1]
        return tf.gather(tf.reshape(array, [rows, *array.shape[2:]]), self._inverse)


def _chunks(rows: int, most: int, least_rows: int) -> int:
    """Return into how many chunks of one size to cut so many rows."""
    count = most
    while count > 1 and (rows % count or rows // count < least_rows):
        count //= 2
    return count
