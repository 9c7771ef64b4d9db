# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers.distinct_rows import segment_sum, sum_of_rows, take_columns

WIDTHS = [1, 31, 32, 70]  # on both sides of where another product takes over


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_sums_of_rows_and_their_gradient_equal_those_by_hand(width, dtype):
    random = np.random.default_rng(width)
    rows, upstream = random.normal(size=(9, width)), random.normal(size=(5, width))
    places = random.integers(0, 8, (5, 3))  # some twice in a row of the batch, the last row never
    places[0] = 4
    given = tf.constant(rows, dtype)
    with tf.GradientTape() as tape:
        tape.watch(given)
        sums = sum_of_rows(given, tf.constant(places, tf.int32))
    expected = np.zeros_like(rows)
    np.add.at(expected, places, upstream[:, np.newaxis])
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(sums, rows[places].sum(axis=1), **close)
    found = tape.gradient(sums, given, tf.constant(upstream, dtype))
    np.testing.assert_allclose(found, expected, **close)


@pytest.mark.parametrize("width", [*WIDTHS, 64, 65])
def test_gradients_of_taken_rows_are_summed_by_row(width):
    random = np.random.default_rng(width)
    rows = tf.constant(random.normal(size=(6, width)), tf.float32)
    columns = [random.integers(0, 5, (4,)), random.integers(0, 5, (4, 3))]
    upstream = [random.normal(size=(*column.shape, width)) for column in columns]
    with tf.GradientTape() as tape:
        tape.watch(rows)
        taken = take_columns(rows, *(tf.constant(column, tf.int32) for column in columns))
    expected = np.zeros(rows.shape)
    for column, gradient in zip(columns, upstream, strict=True):
        np.add.at(expected, column, gradient)
    for column, part in zip(columns, taken, strict=True):
        np.testing.assert_array_equal(part, rows.numpy()[column])
    gradients = [tf.constant(gradient, tf.float32) for gradient in upstream]
    np.testing.assert_allclose(tape.gradient(taken, rows, gradients), expected, atol=1e-5)


def test_a_place_without_values_sums_to_zero():
    sums = segment_sum(tf.ones([2, 70]), tf.constant([3, 3]), tf.constant(5))
    np.testing.assert_array_equal(sums, [[2.0 * (place == 3)] * 70 for place in range(5)])
