# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import tensorflow as tf

from models.layers.attention import ActivationUnit, AttentionPooling
from models.layers.masking import length_mask
from models.layers.positions import RecencyEncoding, recency_ranks
from models.layers.scorers import (
    AdditiveScorer,
    DotScorer,
    GeneralScorer,
    MultiHeadScorer,
    ScaledDotScorer,
)
from tests.models.against_reference import assert_layer_equals_reference
from tests.reference import scorers as reference
from tests.reference.pooling import attention_weights

RANDOM = np.random.default_rng(4)
QUERY = RANDOM.normal(size=(5, 3))
KEYS = RANDOM.normal(size=(5, 4, 7))
VALUES = RANDOM.normal(size=(5, 4, 2))
LENGTHS = np.array([0, 1, 2, 3, 4], np.int32)
MASK = length_mask(tf.constant(LENGTHS), 4)
SCORERS = {
    "dot": (DotScorer, 7),
    "scaled_dot": (ScaledDotScorer, 7),
    "general": (GeneralScorer, 3),
    "additive": (lambda: AdditiveScorer(5), 3),
    "activation_unit": (lambda: ActivationUnit((5,), "relu"), 3),
    "multi_head": (lambda: MultiHeadScorer(3, 2), 3),
}


def pooled_by_reference(score, normalisation):
    """Σ a v of each row from a scorer's reference."""

    def reference_of(query, keys, values):
        result = np.zeros((len(query), values.shape[2]))
        for row, length in enumerate(LENGTHS):
            scores = np.array([score(query[row], key) for key in keys[row, :length]])
            for weight, value in zip(
                attention_weights(scores, normalisation), values[row], strict=False
            ):
                result[row] += weight * value
        return result

    return reference_of


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
def test_general_attention_equals_the_reference(normalisation, float64):
    layer = AttentionPooling(GeneralScorer(), normalisation)
    assert_layer_equals_reference(
        layer,
        (QUERY, KEYS, VALUES),
        pooled_by_reference(
            lambda q, k: reference.general(q, k, layer.scorer.kernel.numpy()), normalisation
        ),
        lambda query, keys, values: layer(query, keys, MASK, values),
    )


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
def test_additive_attention_equals_the_reference(normalisation, float64):
    layer = AttentionPooling(AdditiveScorer(5), normalisation)

    def score(query, key):
        scorer = layer.scorer
        parts = [(key, scorer.keys_kernel.numpy())]
        return reference.additive(
            query, scorer.query_kernel.numpy(), parts, scorer.projection.numpy()
        )

    assert_layer_equals_reference(
        layer,
        (QUERY, KEYS, VALUES),
        pooled_by_reference(score, normalisation),
        lambda query, keys, values: layer(query, keys, MASK, values),
    )


def test_additive_attention_with_locations_on_two_axes_equals_the_reference(float64):
    """v · tanh(W_s s + W_f1 h + W_f2 e_i + W_f3 e_j): i the recency rank, j the time gap."""
    layer = AttentionPooling(AdditiveScorer(5))
    encoding = RecencyEncoding(3, "learned", 3)
    gaps = RANDOM.normal(size=(5, 4, 2))

    def call(query, events, gaps):
        ranks = encoding(recency_ranks(MASK))
        return layer(query, tf.concat([events, ranks, gaps], axis=-1), MASK, values=events)

    def expected(query, events, gaps):
        scorer, result = layer.scorer, np.zeros((5, 7))
        w_f1, w_f2, w_f3 = np.split(scorer.keys_kernel.numpy(), [7, 10])
        for row, length in enumerate(LENGTHS):
            scores = np.zeros(length)
            for t in range(length):
                rank = encoding.vectors.numpy()[min(length - 1 - t, 2)]
                parts = [(events[row, t], w_f1), (rank, w_f2), (gaps[row, t], w_f3)]
                scores[t] = reference.additive(
                    query[row], scorer.query_kernel.numpy(), parts, scorer.projection.numpy()
                )
            weights = attention_weights(scores, "softmax")
            for weight, event in zip(weights, events[row, :length], strict=True):
                result[row] += weight * event
        return result

    assert_layer_equals_reference(layer, (QUERY, KEYS, gaps), expected, call, encoding)


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
def test_multi_head_attention_equals_the_reference(normalisation, float64):
    layer = AttentionPooling(MultiHeadScorer(3, 2), normalisation)

    def rows():
        scorer = layer.scorer
        kernels = (scorer.query_kernel, scorer.keys_kernel, layer.value_kernel)
        by_head = [[k.numpy()[:, h] for k in kernels] for h in range(3)]
        heads = [(*by_head[h], layer.output_kernel.numpy()[h]) for h in range(3)]
        return lambda query, keys, values: [
            reference.multi_head_pooling(q, k[:n], v[:n], heads, normalisation)
            for q, k, v, n in zip(query, keys, values, LENGTHS, strict=True)
        ]

    assert_layer_equals_reference(
        layer,
        (QUERY, KEYS, VALUES),
        lambda *inputs: np.array([vector for vector, _ in rows()(*inputs)]),
        lambda query, keys, values: layer(query, keys, MASK, values),
    )
    _, weights = layer(QUERY, KEYS, MASK, VALUES, return_weights=True)
    assert weights.shape == (5, 3, 4)
    for row, (_, expected) in enumerate(rows()(QUERY, KEYS, VALUES)):
        np.testing.assert_allclose(weights[row, :, : LENGTHS[row]], expected)
        np.testing.assert_array_equal(weights[row, :, LENGTHS[row] :], 0.0)


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
@pytest.mark.parametrize("name", SCORERS)
def test_padding_and_order_of_events_change_nothing_and_no_event_is_zero(name, normalisation):
    make, dim = SCORERS[name]
    keras.utils.set_random_seed(1)
    pool = AttentionPooling(make(), normalisation)
    query = tf.constant(RANDOM.normal(size=(5, dim)), tf.float32)
    keys = tf.constant(KEYS, tf.float32)
    pooled, weights = pool(query, keys, MASK, return_weights=True)
    wider = tf.pad(keys, [[0, 0], [0, 46], [0, 0]], constant_values=100.0)
    again, padded = pool(query, wider, length_mask(tf.constant(LENGTHS), 50), return_weights=True)
    np.testing.assert_allclose(again, pooled, rtol=1e-5, atol=1e-6)
    assert not padded[..., 4:].numpy().any()
    reverse = tf.reverse_sequence(keys, LENGTHS, seq_axis=1, batch_axis=0)
    np.testing.assert_allclose(pool(query, reverse, MASK), pooled, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(pooled[0], tf.zeros(7))
    total = tf.reduce_sum(weights, axis=-1).numpy()
    if normalisation == "softmax":
        np.testing.assert_allclose(total[1:], np.ones_like(total[1:]), rtol=1e-5)
