# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers import blocked_attention as blocked_module
from models.layers import by_length
from models.layers.blocked_attention import Seen, blocked_attention
from models.layers.masking import length_mask, masked_mean, masked_softmax
from models.layers.multi_head import MultiHeadAttention
from models.layers.transformer import Decoder, Encoder
from models.layers.transformer_parts import BlockOptions
from tests.models.against_reference import assert_layer_equals_reference
from tests.models.transformers import blocks_of, norm_of
from tests.reference import transformer as reference

RANDOM = np.random.default_rng(9)
LENGTHS = np.array([3, 0, 4, 1], np.int32)
MASK = length_mask(tf.constant(LENGTHS), 4)
TOKENS = RANDOM.normal(size=(4, 4, 5))


def real(encoded):
    """What comes out at real items; padding means nothing."""
    return tf.where(MASK[..., tf.newaxis], encoded, 0.0)


@pytest.mark.parametrize("least_rows", [1, 32])  # in chunks of one row, or as they come
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_encoder_equals_the_reference(order, causal, least_rows, float64, monkeypatch):
    monkeypatch.setattr(by_length, "LEAST_ROWS", least_rows)
    activation = "relu" if causal else "leaky_relu"
    # a stack is a stack whatever its layers are
    layer = Encoder(2 if causal else 1, BlockOptions(3, 4, order, activation), causal)

    def expected(tokens):
        result = np.zeros_like(tokens)
        for row, length in enumerate(LENGTHS):
            result[row, :length], _ = reference.encode(
                tokens[row, :length], blocks_of(layer), norm_of(layer.last_norm), causal
            )
        return result

    assert_layer_equals_reference(
        layer, (TOKENS,), expected, lambda tokens: real(layer(tokens, MASK))
    )
    _, weights = layer(TOKENS, MASK, return_weights=True)
    for row, length in enumerate(LENGTHS):
        _, expected = reference.encode(
            TOKENS[row, :length], blocks_of(layer), norm_of(layer.last_norm), causal
        )
        for place, of_token in enumerate(expected):
            seen = of_token.shape[1]
            np.testing.assert_allclose(weights[row, :, place, :seen], of_token, rtol=1e-8)
            assert not weights[row, :, place, seen:].numpy().any()


@pytest.mark.parametrize("order", ["pre", "post"])
def test_decoder_equals_the_reference(order, float64):
    layer = Decoder(2 if order == "pre" else 1, BlockOptions(2, 3, order))

    def expected(tokens, encoded):
        return np.array(
            [
                reference.decode(x, z[:n], blocks_of(layer), norm_of(layer.last_norm))[0]
                for x, z, n in zip(tokens, encoded, LENGTHS, strict=True)
            ]
        )

    assert_layer_equals_reference(
        layer,
        (RANDOM.normal(size=(4, 3, 5)), RANDOM.normal(size=(4, 4, 2))),
        expected,
        lambda tokens, encoded: layer(tokens, encoded, MASK)[0],
    )


def test_without_positions_order_changes_nothing_but_what_is_causal_sees_it(float64):
    reverse = tf.reverse_sequence(tf.constant(TOKENS), LENGTHS, seq_axis=1, batch_axis=0)
    for causal in (False, True):
        layer = Encoder(1, BlockOptions(2, 3), causal)
        means = [masked_mean(layer(tokens, MASK), MASK) for tokens in (TOKENS, reverse)]
        assert np.allclose(*means, rtol=1e-9) != causal


def test_a_causal_encoder_does_not_see_what_comes_later(float64):
    layer = Encoder(2, BlockOptions(2, 3, "pre"), causal=True)
    changed = np.array(TOKENS)
    changed[:, 2:, 0] += 1.0  # of all numbers alike, a normalisation would not see it
    before, after = (layer(tokens, MASK).numpy() for tokens in (TOKENS, changed))
    np.testing.assert_array_equal(before[2, :2], after[2, :2])
    assert not np.allclose(before[2, 2:], after[2, 2:])


def test_mean_over_outputs_leaves_padding_out():
    """SEQ-03: outputs 1 and 3, two places of padding."""
    outputs = tf.constant([[[1.0], [3.0], [0.0], [0.0]]])
    assert masked_mean(outputs, length_mask(tf.constant([2]), 4)).numpy().item() == 2.0


def test_who_sees_nothing_gets_nothing():
    layer = MultiHeadAttention(2, 3)
    tokens = tf.constant(TOKENS, tf.float32)
    outputs, weights = layer(tokens, tokens, MASK, return_weights=True)
    assert not outputs[1].numpy().any()
    np.testing.assert_allclose(tf.reduce_sum(weights, axis=-1)[0], np.ones((2, 4)), rtol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_blocks_of_queries_equal_all_at_once(causal, rate, float64):
    query, key, value = (tf.constant(RANDOM.normal(size=(4, 2, 4, 3))) for _ in range(3))
    seen = Seen(MASK, causal, rate, tf.constant([5, 6]))
    factors = RANDOM.normal(size=(4, 2, 4, 3))

    def plain(q, k, v):
        weights = masked_softmax(tf.matmul(q, k, transpose_b=True), seen.visible(0, 4))
        if rate:  # what blocks of 3 drop
            drops = [seen.kept(block, weights[:, :, :3]) for block in range(2)]
            weights *= tf.concat(drops, axis=2)[:, :, :4]
        return tf.matmul(weights, v)

    def in_blocks(q, k, v):
        return blocked_attention(q, k, v, seen, at_once=3)

    found = []
    for attend in (plain, in_blocks, tf.function(in_blocks, jit_compile=True)):
        with tf.GradientTape() as tape:
            tape.watch((query, key, value))
            outputs = attend(query, key, value)
            total = tf.reduce_sum(outputs * factors)
        found.append([outputs, *tape.gradient(total, (query, key, value))])
        # linear in the values: the way back drops what the way there dropped
        np.testing.assert_allclose(tf.reduce_sum(found[-1][-1] * value), total, rtol=1e-9)
    if rate:
        found.pop()  # compiled, it draws other numbers
    for expected, *others in zip(*found, strict=True):
        for other in others:
            np.testing.assert_allclose(other, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rate", [0.0, 0.5])
def test_long_sequences_are_attended_to_in_blocks(rate, monkeypatch):
    layer = Encoder(2, BlockOptions(2, 3, dropout_rate=rate), causal=True)
    expected = layer(TOKENS, MASK)
    monkeypatch.setattr(blocked_module, "MAX_WEIGHTS", 4 * 2 * 4 * 3)
    assert blocked_module.queries_at_once((4, 2, 4, 3), 4) == 3
    np.testing.assert_allclose(real(layer(TOKENS, MASK)), real(expected), rtol=1e-5, atol=1e-6)
    dropped = layer(TOKENS, MASK, training=True)
    assert np.allclose(real(dropped), real(expected), atol=1e-6) == (rate == 0)


def test_an_encoder_starts_at_the_size_that_is_asked_for():
    encoded = Encoder(2, BlockOptions(2, 4, "pre"), last_gain=0.1)(TOKENS, MASK)
    # a normalised token has a mean square of 1, times γ²
    size = np.sqrt(np.mean(np.square(encoded[MASK]), axis=1))
    np.testing.assert_allclose(size, 0.1, rtol=1e-3)
