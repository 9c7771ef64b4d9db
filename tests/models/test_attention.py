# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers.attention import ActivationUnit, AttentionPooling
from models.layers.masking import length_mask
from models.layers.scorers import DotScorer, ScaledDotScorer
from tests.models.examples import reference_function, reference_layers
from tests.reference import din as reference
from tests.reference.mlp import Layer
from tests.reference.pooling import attention_weights

RANDOM = np.random.default_rng(8)
QUERY = RANDOM.normal(size=(5, 3))
KEYS = RANDOM.normal(size=(5, 4, 3))
WIDE_KEYS = RANDOM.normal(size=(5, 4, 7))
LENGTHS = np.array([0, 1, 2, 3, 4], np.int32)
MASK = length_mask(tf.constant(LENGTHS), 4)


def unit(keys, activation="dice", attention_units=(6, 2)):
    """An activation unit with random weights, and its layers for the reference."""
    scorer = ActivationUnit(attention_units, activation)
    scorer(tf.constant(QUERY), tf.constant(keys), mask=MASK)
    for variable in scorer.weights:
        variable.assign(
            RANDOM.uniform(0.1, 1.0, variable.shape) - 0.4 * ("kernel" in variable.path)
        )
    first = Layer(scorer.kernel.numpy(), scorer.bias.numpy(), reference_function(scorer.activation))
    return scorer, [first, *reference_layers(scorer.rest)]


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
@pytest.mark.parametrize(("scorer", "scale"), [(DotScorer, 1.0), (ScaledDotScorer, 3**-0.5)])
def test_dot_attention_equals_the_reference(scorer, scale, normalisation, float64):
    pooled, weights = AttentionPooling(scorer(), normalisation)(
        tf.constant(QUERY), tf.constant(KEYS), MASK, tf.constant(WIDE_KEYS), return_weights=True
    )
    for row, length in enumerate(LENGTHS):
        scores = KEYS[row, :length] @ QUERY[row] * scale
        expected = attention_weights(scores, normalisation)
        np.testing.assert_allclose(weights[row, :length], expected)
        np.testing.assert_array_equal(weights[row, length:], 0.0)
        np.testing.assert_allclose(pooled[row], expected @ WIDE_KEYS[row, :length], atol=1e-12)


@pytest.mark.parametrize("activation", ["dice", "prelu", "relu"])
@pytest.mark.parametrize("keys", [KEYS, WIDE_KEYS])
def test_activation_unit_equals_the_plain_concatenation(keys, activation, float64):
    scorer, layers = unit(keys, activation)
    scores = scorer(tf.constant(QUERY), tf.constant(keys), mask=MASK)
    expected = [
        [reference.activation_unit(query, key, layers) for key in row]
        for query, row in zip(QUERY, keys, strict=True)
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-10)


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
def test_din_pooling_equals_the_reference(normalisation):
    scorer, layers = unit(KEYS)
    query, keys = tf.constant(QUERY, tf.float32), tf.constant(KEYS, tf.float32)
    pool = AttentionPooling(scorer, normalisation)
    pooled, weights = pool(query, keys, MASK, return_weights=True)
    for row, length in enumerate(LENGTHS):
        vector, expected = reference.user_vector(
            QUERY[row], KEYS[row, :length], layers, normalisation
        )
        np.testing.assert_allclose(pooled[row], vector, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(weights[row, :length], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(pool(query, keys, MASK), pooled)


def test_padding_enters_no_statistics_of_the_activation_unit():
    scorer, _ = unit(KEYS)
    elsewhere = tf.where(MASK[..., tf.newaxis], KEYS, 1e3)
    scores = [
        scorer(tf.constant(QUERY), tf.constant(keys), mask=MASK, training=True)[MASK]
        for keys in (KEYS, elsewhere)
    ]
    np.testing.assert_allclose(*scores, rtol=1e-6)


@pytest.mark.parametrize("places", [1, 50, 500])
@pytest.mark.parametrize("score", [0.0, 2.0])
def test_the_only_filled_slot_takes_all_attention(places, score):
    # SEQ-04
    keys = tf.pad(tf.ones([1, 1, 2]), [[0, 0], [0, places - 1], [0, 0]])
    mask = length_mask(tf.constant([1]), places)
    pooled, weights = AttentionPooling(DotScorer())(
        tf.constant([[score, 0.0]]), keys, mask, return_weights=True
    )
    assert weights[0, 0] == 1.0
    np.testing.assert_array_equal(pooled, [[1.0, 1.0]])


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid", "none"])
@pytest.mark.parametrize("places", [1, 50])
def test_no_history_pools_to_zero_with_finite_gradients(places, normalisation):
    query, keys = tf.ones([3, 4]), tf.fill([3, places, 4], 100.0)
    pool = AttentionPooling(ActivationUnit((5,)), normalisation)
    mask = tf.zeros([3, places], tf.bool)
    with tf.GradientTape() as tape:
        tape.watch([query, keys])
        pooled = pool(query, keys, mask, training=True)
    np.testing.assert_array_equal(pooled, tf.zeros([3, 4]))
    for slope in tape.gradient(pooled, [query, keys, *(w.value for w in pool.trainable_weights)]):
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("activation", ["dice", "prelu"])
def test_a_new_activation_unit_lets_half_of_small_events_through(activation):
    keys = np.random.default_rng(1).normal(0, 0.01, (3, 4, 6)).astype(np.float32)
    mask = length_mask(tf.constant([4, 1, 0]), 4)
    pool = AttentionPooling(ActivationUnit((8, 4), activation), "none")
    pooled = pool(tf.constant(keys[:, 0]), tf.constant(keys), mask)
    expected = [keys[0].sum(axis=0) / 2, keys[1, 0] / 2, np.zeros(6)]
    np.testing.assert_allclose(pooled, expected, atol=1e-3)


def test_sizes_that_cannot_be_compared_are_refused():
    query, keys = tf.ones([1, 5]), tf.ones([1, 2, 3])
    with pytest.raises(ValueError, match="query of 5 with keys of 3"):
        DotScorer()(query, keys)
    with pytest.raises(ValueError, match="query of 5 is wider than its keys of 3"):
        ActivationUnit()(query, keys)


@pytest.mark.parametrize("spare", [0, 3])
@pytest.mark.parametrize("activation", ["dice", "prelu"])
def test_computing_at_real_places_only_changes_nothing(activation, spare, float64):
    scorer, layers = unit(KEYS, activation)
    places = tf.constant([*np.flatnonzero(MASK), *[0] * spare], tf.int32)
    for training in (False, True):
        results = []
        for where in (None, places):
            query, keys = tf.constant(QUERY), tf.constant(KEYS)
            # Dice moves its averages in training: both start from the same ones
            before = [variable.numpy() for variable in scorer.weights]
            with tf.GradientTape() as tape:
                tape.watch([query, keys])
                scores = scorer(query, keys, mask=MASK, places=where, training=training)
                loss = tf.reduce_sum(tf.where(MASK, scores, 0.0) ** 2)
            after = [variable.numpy() for variable in scorer.weights]
            kernels = [v.value for v in scorer.trainable_variables]
            gradients = tape.gradient(loss, [query, keys, *kernels])
            results.append([tf.where(MASK, scores, 0.0), *gradients, *after])
            for variable, value in zip(scorer.weights, before, strict=True):
                variable.assign(value)
        for everywhere, real in zip(*results, strict=True):
            np.testing.assert_allclose(real, everywhere, rtol=1e-9, atol=1e-12)
    scores = scorer(tf.constant(QUERY), tf.constant(KEYS), mask=MASK, places=places)
    expected = [
        [reference.activation_unit(query, key, layers) for key in row]
        for query, row in zip(QUERY, KEYS, strict=True)
    ]
    np.testing.assert_allclose(scores, np.where(MASK, expected, 0.0), rtol=1e-10)
