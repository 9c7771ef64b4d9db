# SPDX-License-Identifier: Apache-2.0
import numpy as np
import tensorflow as tf

from models.layers.parts import in_parts


def mixed(rows, constants, weights):
    return tf.tanh(rows @ weights) * constants


def test_values_and_gradients_are_those_of_the_whole_batch():
    random = np.random.default_rng(0)
    rows, constants, weights = (
        tf.constant(random.normal(size=shape)) for shape in ((30, 4), (30, 3), (4, 3))
    )
    results = []
    for function in (mixed, lambda *args: in_parts(mixed, args[:1], args[1:2], args[2:])):
        with tf.GradientTape() as tape:
            tape.watch((rows, weights))
            result = function(rows, constants, weights)
            loss = tf.reduce_sum(result**2)
        results.append((result, *tape.gradient(loss, (rows, weights))))
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-12, atol=1e-15)


def test_no_part_is_larger_than_a_cache_allows():
    seen = []

    def spy(rows, weights):
        seen.append(rows.shape[0])
        return rows * weights

    for count in (7, 64, 4096, 3 * 31):
        seen.clear()
        in_parts(spy, (tf.ones((count, 2)),), (), (tf.ones(2),))
        assert sum(seen) == count
        assert max(seen) <= 32


def test_batches_of_any_size_go_through_at_once():
    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def doubled(rows):
        return in_parts(lambda rows, weights: rows * weights, (rows,), (), (tf.fill([2], 2.0),))

    np.testing.assert_array_equal(doubled(tf.ones((37, 2))), np.full((37, 2), 2.0))
