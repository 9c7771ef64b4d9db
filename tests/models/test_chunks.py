# SPDX-License-Identifier: Apache-2.0
import re

import numpy as np
import pytest
import tensorflow as tf

from models.layers.by_length import by_length
from models.layers.chunks import Chunks
from models.layers.masking import length_mask
from models.layers.recurrent import AUGRU

RANDOM = np.random.default_rng(12)
LENGTHS = np.array([3, 0, 5, 1, 4, 2, 5, 0], np.int32)
MASK = length_mask(tf.constant(LENGTHS), 5)


@pytest.mark.parametrize(
    ("rows", "count"), [(1, 1), (255, 1), (256, 2), (1000, 4), (4096, 16), (40960, 16)]
)
def test_chunks_have_one_size_and_are_neither_many_nor_small(rows, count):
    assert Chunks(tf.ones((rows, 3)), 16, 128).count == count


def test_chunks_of_two_rows_by_hand():
    chunks = Chunks(MASK, 4, 2)
    np.testing.assert_array_equal(chunks.ends, [5, 4, 2, 0])
    rows = chunks.by_chunk(tf.constant(LENGTHS)[:, tf.newaxis])
    np.testing.assert_array_equal(rows[..., 0], [[5, 5], [4, 3], [2, 1], [0, 0]])
    np.testing.assert_array_equal(chunks.joined(rows)[:, 0], LENGTHS)


def test_a_place_that_is_0_amid_others_does_not_end_a_row():
    chunks = Chunks(tf.constant([[0.0, 0.5, 0.0], [0.0, 0.0, 0.0]]), 1, 1)
    np.testing.assert_array_equal(chunks.ends, [2])


def test_rows_are_encoded_at_the_widths_of_their_chunks(monkeypatch):
    monkeypatch.setattr("models.layers.by_length.LEAST_ROWS", 2)
    widths = []

    def encode(tokens, mask):
        widths.append(tokens.shape[1])
        return tf.cumsum(tokens, axis=1)

    tokens = tf.constant(RANDOM.integers(9, size=(8, 5, 1)), tf.float32)
    encoded = by_length(encode, tokens, MASK)
    assert widths == [5, 4, 2, 2]  # quarters of 5, rounded up: 2, 3, 4 and 5
    expected = np.where(MASK[..., tf.newaxis], np.cumsum(tokens, axis=1), 0.0)
    np.testing.assert_array_equal(tf.where(MASK[..., tf.newaxis], encoded, 0.0), expected)


@pytest.mark.parametrize("of", ["recurrence", "by_length"])
def test_code_is_compiled_once_for_all_lengths(of, monkeypatch):
    """A tensor that XLA takes for a constant is no parameter of what it compiled."""
    monkeypatch.setattr(f"models.layers.{of}.LEAST_ROWS", 2)
    layer = AUGRU(3) if of == "recurrence" else tf.keras.layers.Dense(3)
    tokens = tf.constant(RANDOM.normal(size=(8, 5, 3)), tf.float32)
    layer(tokens, tokens[..., 0], MASK) if of == "recurrence" else layer(tokens)

    @tf.function(jit_compile=True, autograph=False)
    def slope(tokens, lengths):
        mask = length_mask(lengths, 5)
        with tf.GradientTape() as tape:
            tape.watch(tokens)
            if of == "recurrence":
                found = layer(tokens, tokens[..., 0], mask)[1]
            else:
                found = by_length(lambda part, _: layer(part), tokens, mask)
        return tape.gradient(found, tokens)

    code = slope.experimental_get_compiler_ir(tokens, tf.constant(LENGTHS))(stage="hlo")
    entry = code[code.index("ENTRY") :]
    assert len(re.findall(r"= s32\[8\]\S* parameter\(", entry)) == 1, entry
