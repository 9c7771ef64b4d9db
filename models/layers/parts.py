# SPDX-License-Identifier: Apache-2.0
"""Layers whose intermediate results are large, computed for a few rows at a time."""

from collections.abc import Callable, Sequence

import tensorflow as tf

Function = Callable[..., tf.Tensor]
Gradients = Callable[..., Sequence[tf.Tensor]]

FEWEST_ROWS, MOST_ROWS = 8, 32
"""Of a part: enough for a product of matrices, few enough for the cache of a core."""


def in_parts(
    function: Function,
    rows: Sequence[tf.Tensor],
    constants: Sequence[tf.Tensor],
    weights: Sequence[tf.Tensor],
    gradients: Gradients | None = None,
) -> tf.Tensor:
    """Return function(*rows, *constants, *weights), computed for a few rows at a time.

    Parts are computed again on the way back, so that what lies between input and result is never
    kept and does not leave the cache. A GPU takes the whole batch at once, and so does a graph
    that is made for batches of any size.

    Args:
        function: Returns one tensor with the rows on its first axis.
        rows: Tensors with the rows on their first axis.
        constants: The same, but nobody asks for their gradients.
        weights: Tensors that all rows share.
        gradients: Returns the gradients of rows and weights, given rows, constants, the gradient of
            the result, and weights; found by TensorFlow when left out.
    """
    split = _part_size(rows[0].shape[0])
    of_part = gradients or _by_tape(function, len(rows), len(constants))

    @tf.custom_gradient
    def compute(*tensors: tf.Tensor) -> tuple[tf.Tensor, Gradients]:
        mine, shared = tensors[: len(rows)], tensors[len(rows) :]

        def backwards(upstream: tf.Tensor) -> list[tf.Tensor]:
            results = _map(
                lambda *part: tuple(of_part(*part, *shared)),
                (*mine, *constants, upstream),
                split,
                [tensor.dtype for tensor in tensors],
            )
            of_rows = [_joined(result) for result in results[: len(rows)]]
            return [*of_rows, *(tf.reduce_sum(result, 0) for result in results[len(rows) :])]

        (result,) = _map(
            lambda *part: (function(*part, *shared),),
            (*mine, *constants),
            split,
            [mine[0].dtype],
        )
        return _joined(result), backwards

    return compute(*rows, *weights)


def _part_size(batch: int | None) -> int | None:
    """Return the largest size of equal parts, or None where the batch goes through at once."""
    if batch is None or tf.config.list_physical_devices("GPU"):
        return None
    sizes = [size for size in range(FEWEST_ROWS, MOST_ROWS + 1) if batch % size == 0]
    return sizes[-1] if sizes else None


def _map(
    function: Callable[..., tuple[tf.Tensor, ...]],
    tensors: Sequence[tf.Tensor],
    size: int | None,
    dtypes: Sequence[tf.DType],
) -> tuple[tf.Tensor, ...]:
    """Return the function's results for each part, stacked on a new first axis."""
    if size is None:
        return tuple(result[tf.newaxis] for result in function(*tensors))
    parts = tuple(tf.reshape(t, (-1, size, *t.shape[1:])) for t in tensors)
    return tf.map_fn(lambda part: function(*part), parts, fn_output_signature=tuple(dtypes))


def _joined(parts: tf.Tensor) -> tf.Tensor:
    return tf.reshape(parts, (-1, *parts.shape[2:]))


def _by_tape(function: Function, rows: int, constants: int) -> Gradients:
    def gradients(*tensors: tf.Tensor) -> Sequence[tf.Tensor]:
        before, upstream = tensors[: rows + constants], tensors[rows + constants]
        weights = tensors[rows + constants + 1 :]
        sources = (*before[:rows], *weights)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            result = function(*before, *weights)
        return tape.gradient(result, sources, upstream, unconnected_gradients="zero")

    return gradients
