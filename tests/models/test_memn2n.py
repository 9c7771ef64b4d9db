# SPDX-License-Identifier: Apache-2.0
from itertools import pairwise

import numpy as np
import pytest
import tensorflow as tf

from models.layers.masking import length_mask
from models.layers.memory_hops import EndToEndMemory, position_encoding
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import make, random_batch, randomise, reference_layers
from tests.reference import memn2n as reference
from tests.reference.mlp import mlp

SMALL = {"embedding_dim": 3, "hidden_units": (7, 4), "activation": "prelu"}


def recalled(model, row, history):
    """What the reference answers for a history of one row, and its weights."""
    layer, dim = model.memories[history.name], model.dim
    adjacent = layer.tying == "adjacent"
    places = np.ones((len(history.channels), dim))
    if model.use_positions:
        places = reference.position_encoding(*places.shape)

    def part(rows, s):
        return rows[..., s * dim : (s + 1) * dim]

    def memories(s):
        events = [
            reference.encoded([part(field, s) for field in fields], places)
            for fields in zip(
                *(row.vectors(c.name, c.table, row.length(history)) for c in history.channels),
                strict=True,
            )
        ]
        events = np.array(events).reshape(-1, dim)
        return events if layer.time is None else reference.with_time(events, layer.time.numpy()[s])

    b = 0 if adjacent else 2
    asked = [(c, place) for c, place in zip(history.channels, places, strict=True) if c.target]
    question = reference.encoded(
        [part(row.target(c), b) for c, _ in asked], np.array([place for _, place in asked])
    )
    hops = range(layer.num_hops)
    answer, weights = reference.answer(
        question,
        [memories(k if adjacent else 0) for k in hops],
        [memories(k + 1 if adjacent else 1) for k in hops],
        None if adjacent else layer.matrix.numpy(),
    )
    return answer - question, weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_hops": 1},
        {"tying": "layer_wise", "num_hops": 2},
        {"position_encoding": False, "temporal_encoding": False},
    ],
)
def test_memn2n_equals_the_reference(options, float64):
    model = make("memn2n", **SMALL, **options)
    randomise(model)
    batch = random_batch(5, longest=7)  # more events than there are ranks

    def logit(i):
        row = EmbeddedRow(model, batch, i)
        answers = [recalled(model, row, history)[0] for history in model.schema.histories]
        parts = [*row.plain_parts(), *answers, row.numbers()]
        return mlp(np.concatenate(parts), reference_layers(model.mlp)).item()

    assert_equals_reference(model, batch, logit)
    weights = model.history_weights(batch)
    for history in model.schema.histories:
        for i in range(5):
            row = EmbeddedRow(model, batch, i)
            expected = np.array(recalled(model, row, history)[1])
            length = row.length(history)
            np.testing.assert_allclose(weights[history.name][i, :, :length], expected, atol=1e-12)
            np.testing.assert_array_equal(weights[history.name][i, :, length:], 0.0)


def test_position_encoding_by_hand():
    # J = 2, d = 4: l_1 = (1 - 1/2) - (k/4)·0 = 1/2; l_2 = 0 + k/4
    np.testing.assert_allclose(position_encoding(2, 4), [[0.5] * 4, [0.25, 0.5, 0.75, 1.0]])
    np.testing.assert_allclose(position_encoding(5, 3), reference.position_encoding(5, 3))


def test_two_hops_by_hand(float64):
    """Hop 1 finds the link by its key, hop 2 the answer by what the link says."""
    layer = EndToEndMemory(num_hops=2, temporal=False)
    # sets A^1, C^1 = A^2, C^2 of: link 1 -> 2, answer of 2
    link = [[50.0, 0.0, 0.0], [-50.0, 50.0, 0.0], [0.0, 0.0, 0.0]]
    fact = [[0.0, 50.0, 0.0], [0.0, 50.0, 0.0], [0.0, 0.0, 7.0]]
    memories = tf.constant([[link, fact]], tf.float64)
    u, weights = layer(tf.constant([[1.0, 0.0, 0.0]], tf.float64), memories, tf.ones([1, 2], bool))
    np.testing.assert_allclose(weights[0, 0], [1.0, 0.0], atol=1e-12)
    # then u = (-49, 50, 0): 50·50 + 49·50 for the link, 50·50 for the fact
    np.testing.assert_allclose(weights[0, 1], [1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(u, [[-49.0, 50.0, 0.0]], atol=1e-9)


@pytest.mark.parametrize("tying", ["adjacent", "layer_wise"])
@pytest.mark.parametrize("linear", [False, True])
def test_layer_equals_the_reference(tying, linear, float64):
    random = np.random.default_rng(2)
    hops, dim, lengths = 3, 5, [0, 1, 4, 6]
    layer = EndToEndMemory(hops, 4, tying)
    sets = 4 if tying == "adjacent" else 2
    question, memories = random.normal(size=(4, dim)), random.normal(size=(4, 6, sets, dim))
    u, weights = layer(
        tf.constant(question),
        tf.constant(memories),
        length_mask(tf.constant(lengths), 6),
        linear=linear,
    )
    for row, length in enumerate(lengths):
        aged = [
            reference.with_time(memories[row, :length, s], layer.time.numpy()[s])
            for s in range(sets)
        ]
        adjacent = tying == "adjacent"
        expected, p = reference.answer(
            question[row],
            aged[:-1] if adjacent else [aged[0]] * hops,
            aged[1:] if adjacent else [aged[1]] * hops,
            None if adjacent else layer.matrix.numpy(),
            linear,
        )
        np.testing.assert_allclose(u[row], expected, rtol=1e-10)
        np.testing.assert_allclose(weights[row, :, :length], p, rtol=1e-10)
        np.testing.assert_array_equal(weights[row, :, length:], 0.0)


@pytest.mark.parametrize("places", [1, 50, 500])
@pytest.mark.parametrize("score", [0.0, 2.0])
def test_the_only_filled_slot_takes_all_attention_in_every_hop(places, score):
    # SEQ-04
    layer = EndToEndMemory(3, max_items=10)
    memories = tf.pad(tf.ones([1, 1, 4, 2]), [[0, 0], [0, places - 1], [0, 0], [0, 0]])
    mask = length_mask(tf.constant([1]), places)
    layer(tf.ones([1, 2]), memories, mask)
    layer.time.assign(tf.zeros_like(layer.time))
    u, weights = layer(tf.constant([[score, 0.0]]), memories, mask)
    np.testing.assert_array_equal(weights[0, :, 0], [1.0] * 3)
    np.testing.assert_array_equal(u, [[score + 3.0, 3.0]])


def test_empty_memories_make_older_ones_look_older():
    layer = EndToEndMemory(1, max_items=9, empty_rate=0.5)
    mask = length_mask(tf.constant([0, 1, 3, 4]), 5)
    plain = layer._ranks(mask, training=False)
    np.testing.assert_array_equal(plain[3], [3, 2, 1, 0, 0])
    seen = {tuple(layer._ranks(mask, training=True)[3, :4].numpy()) for _ in range(60)}
    assert all(a > b for ranks in seen for a, b in pairwise(ranks))
    assert {ranks[3] for ranks in seen} == {0}  # nothing lies before the newest
    assert {ranks[0] - ranks[1] for ranks in seen} == {1, 2}


def test_a_wrong_number_of_sets_is_refused():
    with pytest.raises(ValueError, match="3 hops with adjacent tying need 4 sets of memories"):
        EndToEndMemory(3)(tf.ones([1, 2]), tf.ones([1, 1, 2, 2]), tf.ones([1, 1], bool))
