# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from features.schema import CategoricalList
from models.layers.masking import (
    length_mask,
    masked_max,
    masked_mean,
    masked_softmax,
    masked_sum,
    pool_list,
    weighted_mean,
    weighted_sum,
)
from tests.reference.pooling import attention_weights, pool

A, B = [1.0, 0.0], [0.0, 1.0]
NONE = [0.0, 0.0]
POOLS = [masked_sum, masked_mean, masked_max]


def test_mask_is_true_at_the_first_places():
    mask = length_mask(tf.constant([0, 2, 3]), 3)
    np.testing.assert_array_equal(mask, [[0, 0, 0], [1, 1, 0], [1, 1, 1]])


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_softmax_is_over_real_items_only(dtype):
    scores = tf.constant([[0.0, np.log(3.0), 50.0], [7.0, 8.0, 9.0]], dtype)
    weights = masked_softmax(scores, length_mask(tf.constant([2, 0]), 3))
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, [[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]], atol=1e-3)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_softmax_is_finite_at_the_ends_of_the_number_range(dtype):
    scores = tf.constant([[dtype.max, dtype.min, 0.0], [dtype.max, dtype.max, dtype.max]], dtype)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = masked_softmax(scores, length_mask(tf.constant([3, 0]), 3))
        total = tf.reduce_sum(weights * weights)
    np.testing.assert_array_equal(weights, [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert np.isfinite(tape.gradient(total, scores)).all()


@settings(deadline=None, max_examples=30)
@given(
    scores=st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=6),
    length=st.integers(0, 6),
)
def test_softmax_equals_the_one_without_padding(scores, length):
    length = min(length, len(scores))
    row = tf.constant([scores], tf.float32)
    weights = masked_softmax(row, length_mask(tf.constant([length]), len(scores)))
    expected = np.zeros(len(scores))
    expected[:length] = attention_weights(np.array(scores[:length]), "softmax")
    np.testing.assert_allclose(weights[0], expected, rtol=1e-5, atol=1e-6)


def test_mean_divides_by_real_items_not_by_places():
    outputs = tf.constant([[[1.0], [3.0], [9.0], [9.0]]])
    assert masked_mean(outputs, length_mask(tf.constant([2]), 4)).numpy().item() == 2.0


def test_pooling_by_hand():
    items = tf.constant([[[1.0, -5.0], [3.0, -7.0], [99.0, 99.0]]])
    mask = length_mask(tf.constant([2]), 3)
    np.testing.assert_array_equal(masked_sum(items, mask), [[4.0, -12.0]])
    np.testing.assert_array_equal(masked_mean(items, mask), [[2.0, -6.0]])
    np.testing.assert_array_equal(masked_max(items, mask), [[3.0, -5.0]])


@pytest.mark.parametrize("pooling", POOLS)
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
def test_pooling_nothing_gives_zero_and_ignores_what_lies_in_padding(pooling, dtype):
    items = tf.fill([2, 3, 2], tf.constant(np.inf, dtype))
    with tf.GradientTape() as tape:
        tape.watch(items)
        pooled = pooling(items, length_mask(tf.constant([0, 0]), 3))
    np.testing.assert_array_equal(pooled, [NONE, NONE])
    np.testing.assert_array_equal(tape.gradient(pooled, items), np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    ("ids", "weights", "mean", "total"),
    [
        ([0, 1], [0.5, 1.5], [0.25, 0.75], [0.5, 1.5]),
        ([0, 1], [0.5, -0.5], [0.5, -0.5], [0.5, -0.5]),  # which add up to 0
        ([0], [-3.0], [-1.0, 0.0], [-3.0, 0.0]),
        ([0, 1], None, [0.5, 0.5], [1.0, 1.0]),
        ([], [], NONE, NONE),
        ([], None, NONE, NONE),
        ([0], [0.0], NONE, NONE),
    ],
)
def test_lists_pool_by_their_weights(ids, weights, mean, total):
    # FEA-11
    padding = 3 - len(ids)
    rows = tf.constant([[[A, B][i] for i in ids] + [[7.0, 7.0]] * padding])
    batch = {"tags_length": tf.constant([len(ids)])}
    if weights is not None:
        batch["tags_weight"] = tf.constant([weights + [9.0] * padding])
    feature = CategoricalList(name="tags", table="tag", max_items=3, weighted=weights is not None)
    for pooling, expected in (("mean", mean), ("sum", total)):
        with tf.GradientTape() as tape:
            tape.watch([rows, *batch.values()])
            pooled = pool_list(feature, rows, batch, pooling)
        np.testing.assert_allclose(pooled, [expected])
        slopes = tape.gradient(pooled, [rows, batch.get("tags_weight", rows)])
        assert all(np.isfinite(slope).all() for slope in slopes)


def test_weighted_pooling_equals_the_reference():
    random = np.random.default_rng(2)
    items, weights = random.normal(size=(5, 7, 3)), random.uniform(-1, 1, size=(5, 7))
    for function, how in ((weighted_sum, "sum"), (weighted_mean, "mean")):
        expected = [pool(*row, how) for row in zip(items, weights, strict=True)]
        np.testing.assert_allclose(function(tf.constant(items), tf.constant(weights)), expected)
