# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers.masking import length_mask
from models.layers.positions import RecencyEncoding, recency_ranks, sinusoidal
from tests.reference import positions as reference


def test_ranks_count_from_the_newest_event_whatever_the_padding():
    ranks = recency_ranks(length_mask(tf.constant([0, 1, 3]), 4)).numpy()
    assert ranks[1, :1].tolist() == [0]
    assert ranks[2, :3].tolist() == [2, 1, 0]
    wider = recency_ranks(length_mask(tf.constant([0, 1, 3]), 50)).numpy()
    np.testing.assert_array_equal(wider[:, :4], ranks)


@pytest.mark.parametrize("dim", [1, 4, 7])
def test_sinusoidal_encodings_equal_the_reference(dim, float64):
    ranks = tf.constant([[0, 1, 2], [999, 5, 17]])
    expected = [[reference.sinusoidal(p, dim) for p in row] for row in ranks.numpy()]
    np.testing.assert_allclose(sinusoidal(ranks, dim, tf.float64), expected, atol=1e-12)
    layer = RecencyEncoding(dim, "sinusoidal", 2, initial_scale=0.25)
    np.testing.assert_allclose(layer(ranks), np.multiply(expected, 0.25), atol=1e-12)
    layer.scale.assign(3.0)
    np.testing.assert_allclose(layer(ranks), np.multiply(expected, 3.0), atol=1e-12)


def test_learned_encodings_are_rows_by_rank_and_old_events_share_the_last():
    layer = RecencyEncoding(3, "learned", 2)
    ranks = tf.constant([[5, 1, 0]])
    found = layer(ranks).numpy()[0]
    np.testing.assert_array_equal(found, layer.vectors.numpy()[[1, 1, 0]])
