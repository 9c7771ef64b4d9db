# SPDX-License-Identifier: Apache-2.0
"""What encodes histories, given them in chunks as wide as their longest row."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from models.layers.chunks import Chunks

MOST_CHUNKS, LEAST_ROWS = 64, 32
"""A batch is cut into so many chunks at most, each of so many rows at least."""
NUM_WIDTHS = 4
"""Chunks have so many widths; each is compiled by itself."""

Encode = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def by_length(encode: Encode, tokens: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Return what `encode(tokens, mask)` does, without working on most of the padding.

    Rows are sorted by length and cut into `Chunks`; each chunk is encoded at one of `NUM_WIDTHS`
    widths. The way back encodes again, chunk by chunk, so that the memory of what lies between is
    that of one chunk.

    Args:
        encode: Maps tokens (rows, items, dim) and a mask (rows, items) to (rows, items, any), each
            row by itself and the same each time: no batch statistics, no dropout.
        tokens: Float (batch, items, dim).
        mask: bool (batch, items), True at real items.

    Returns:
        Float (batch, items, any), which mean nothing at padding.
    """
    chunks = Chunks(mask, MOST_CHUNKS, LEAST_ROWS)
    if chunks.count == 1:
        return encode(tokens, mask)
    masks = chunks.by_chunk(mask)

    @tf.custom_gradient
    def compute(tokens: tf.Tensor) -> tuple[tf.Tensor, Callable[..., Any]]:
        tokens = chunks.by_chunk(tokens)

        def encoded(chunk: tf.Tensor, width: int, array: Any) -> Sequence[Any]:
            mask = tf.gather(masks, chunk)[:, :width]
            outputs = encode(tf.gather(tokens, chunk)[:, :width], mask)
            return (array.write(chunk, _padded(outputs, chunks.items)),)

        def backwards(upstream: tf.Tensor, variables: Sequence[tf.Variable] = ()) -> Any:
            upstream = chunks.by_chunk(upstream)

            def slopes(
                chunk: tf.Tensor, width: int, array: Any, *of_variables: tf.Tensor
            ) -> Sequence[Any]:
                part, mask = (tf.gather(each, chunk)[:, :width] for each in (tokens, masks))
                with tf.GradientTape() as tape:
                    tape.watch(part)
                    outputs = encode(part, mask)
                of_part, *more = tape.gradient(
                    outputs,
                    [part, *variables],
                    tf.gather(upstream, chunk)[:, :width],
                    unconnected_gradients="zero",
                )
                sums = (ours + theirs for ours, theirs in zip(of_variables, more, strict=True))
                return array.write(chunk, _padded(of_part, chunks.items)), *sums

            array = tf.TensorArray(tokens.dtype, chunks.count, element_shape=tokens.shape[1:])
            zeros = [tf.zeros_like(variable) for variable in variables]
            array, *of_variables = _over_chunks(chunks, slopes, (array, *zeros))
            return chunks.joined(array.stack()), of_variables

        array = tf.TensorArray(tokens.dtype, chunks.count)
        (array,) = _over_chunks(chunks, encoded, (array,))
        return chunks.joined(array.stack()), backwards

    return compute(tokens)


def _over_chunks(
    chunks: Chunks, body: Callable[..., Sequence[Any]], found: Sequence[Any]
) -> Sequence[Any]:
    """Return what loops over the chunks make of `found`: one loop for each width, widest first.

    Args:
        chunks: Longest first, as they are.
        body: Returns what is found after a chunk; takes its number, the width to work at, and what
            was found before.
        found: What there is before the first chunk.
    """
    widths = sorted({-(-chunks.items * part // NUM_WIDTHS) for part in range(1, NUM_WIDTHS + 1)})
    chunk = tf.constant(0)
    for narrower, width in reversed(list(zip([-1, *widths], widths, strict=False))):
        end = tf.reduce_sum(tf.cast(chunks.ends > narrower, tf.int32))

        def step(chunk: tf.Tensor, *found: Any, width: int = width) -> Sequence[Any]:
            return chunk + 1, *body(chunk, width, *found)

        def is_left(chunk: tf.Tensor, *_: Any, end: tf.Tensor = end) -> tf.Tensor:
            return chunk < end

        chunk, *found = tf.while_loop(is_left, step, (chunk, *found))
    return found


def _padded(array: tf.Tensor, items: int) -> tf.Tensor:
    """Return (rows, width, any) as (rows, items, any)."""
    return tf.pad(array, [[0, 0], [0, items - array.shape[1]], [0, 0]])
