# SPDX-License-Identifier: Apache-2.0
"""From the distinct rows of a batch to its ids, and from gradients of ids to those of rows."""

from collections.abc import Callable, Sequence

import tensorflow as tf

SEGMENT_SUM_UP_TO = 64
"""Numbers per row up to which TensorFlow's own segment sum is the fastest."""
CSR_FROM = 32
"""Numbers per row from which `SparseTensorDenseMatMul` takes two to four times as long as CSR."""


def take_rows(rows: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """Return rows[places], (…, width).

    Args:
        rows: (rows, width).
        places: int32 (…).
    """
    return take_columns(rows, places)[0]


@tf.custom_gradient
def take_columns(
    rows: tf.Tensor, *places: tf.Tensor
) -> tuple[list[tf.Tensor], Callable[..., list[tf.Tensor | None]]]:
    """Return rows[places] of each of several `places`; see `take_rows`.

    All of them have one sum on the way back, as `segment_sum` makes it.
    """

    def backwards(*upstream: tf.Tensor) -> list[tf.Tensor | None]:
        width = rows.shape[1]
        flat = [tf.reshape(gradient, [-1, width]) for gradient in upstream]
        of_rows = [tf.reshape(column, [-1]) for column in places]
        return [
            segment_sum(_joined(flat), _joined(of_rows), tf.shape(rows)[0]),
            *(None for _ in places),
        ]

    return [tf.gather(rows, column) for column in places], backwards


def segment_sum(values: tf.Tensor, places: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Return the sum of the values of each place, (rows, width).

    Wide rows are summed as the product with a sparse matrix of ones, in half the time.

    Args:
        values: (values, width).
        places: Of each value, int32 (values,).
        rows: Number of places.
    """
    if values.shape[1] <= SEGMENT_SUM_UP_TO or values.dtype != tf.float32:
        return tf.math.unsorted_segment_sum(values, places, rows)
    count = tf.size(places, tf.int64)
    which = tf.stack([tf.range(count), tf.cast(places, tf.int64)], axis=1)
    shape = tf.stack([count, tf.cast(rows, tf.int64)])
    return _product(tf.SparseTensor(which, tf.ones([count]), shape), values, transpose=True)


def _joined(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    return tensors[0] if len(tensors) == 1 else tf.concat(tensors, axis=0)


@tf.custom_gradient
def sum_of_rows(
    rows: tf.Tensor, places: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
    """Return Σ_i rows[places[:, i]], (batch, width), as the product with a sparse matrix of ones.

    Args:
        rows: (rows, width).
        places: int32 (batch, fields).
    """
    batch, fields = tf.unstack(tf.shape(places, tf.int64))
    flat = tf.cast(tf.reshape(places, [-1]), tf.int64)
    which = tf.stack([tf.repeat(tf.range(batch), fields), flat], axis=1)
    shape = tf.stack([batch, tf.shape(rows, tf.int64)[0]])
    ones = tf.SparseTensor(which, tf.ones([batch * fields], rows.dtype), shape)

    def backwards(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        return _product(ones, upstream, transpose=True), None

    return _product(ones, rows), backwards


def _product(sparse: tf.SparseTensor, dense: tf.Tensor, transpose: bool = False) -> tf.Tensor:
    """Return the product of a sparse matrix, or of its transpose, with a dense one.

    Args:
        sparse: (left, middle), or (middle, left) to transpose.
        dense: (middle, width), of the same type, float32 or float64.
        transpose: Whether to transpose the sparse one.
    """
    if dense.shape[1] < CSR_FROM:
        return tf.sparse.sparse_dense_matmul(sparse, dense, adjoint_a=transpose)
    csr = tf.raw_ops.SparseTensorToCSRSparseMatrix(
        indices=sparse.indices, values=sparse.values, dense_shape=sparse.dense_shape
    )
    return tf.raw_ops.SparseMatrixMatMul(a=csr, b=dense, transpose_a=transpose)
