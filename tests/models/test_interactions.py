# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from models.layers.interactions import VectorsThenLinear, pairwise_sum
from tests.reference.fm import pair_vector, square_of_sum_form


@settings(deadline=None, max_examples=20)
@given(fields=st.integers(1, 9), dim=st.integers(1, 4), seed=st.integers(0, 99))
def test_pair_sum_equals_the_double_loop_in_any_order(fields, dim, seed):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(3, fields, dim))
    expected = [pair_vector(row) for row in vectors]
    shuffled = tf.unstack(tf.constant(vectors[:, random.permutation(fields)]), axis=1)
    np.testing.assert_allclose(pairwise_sum(shuffled), expected, atol=1e-12)
    in_linear_time = [square_of_sum_form(row) for row in vectors]
    np.testing.assert_allclose(in_linear_time, expected, rtol=1e-5, atol=1e-12)


def test_a_single_field_makes_no_pair():
    np.testing.assert_array_equal(pairwise_sum([tf.fill([2, 3], 1e8)]), np.zeros((2, 3)))


def test_a_huge_field_does_not_drown_the_others():
    vectors = np.random.default_rng(0).normal(size=(26, 16)).astype(np.float32)
    vectors[3] = 1e4
    expected = pair_vector(vectors.astype(np.float64))
    ours = pairwise_sum([tf.constant(field[np.newaxis]) for field in vectors])[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-4)
    assert np.abs(square_of_sum_form(vectors) / expected - 1).max() > 1e-3


def test_linear_weights_start_at_zero_and_vectors_do_not():
    rows = VectorsThenLinear(0.1)((500, 5)).numpy()
    assert rows[:, :4].std() == pytest.approx(0.1, rel=0.1)
    np.testing.assert_array_equal(rows[:, 4], 0.0)
