# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models import memnn
from models.layers.masking import length_mask
from models.layers.memory_slots import NOTHING, MarginRanking, SupportingMemories, store
from pipeline import batches
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import make, random_batch, randomise, reference_layers
from tests.reference import memnn as reference
from tests.reference.memn2n import with_time
from tests.reference.mlp import mlp

SMALL = {"embedding_dim": 3, "hidden_units": (7, 4), "activation": "prelu"}


def recalled(model, row, history):
    """What the reference answers, and what each event weighs in each choice."""
    layer, length, dim = model.memories[history.name], row.length(history), model.dim

    def part(rows, index):
        return rows[..., index * dim : (index + 1) * dim]

    question = sum(part(row.target(c), 0) for c in history.channels if c.target)
    events = sum(row.vectors(c.name, c.table, length) for c in history.channels)
    scored, chosen = part(events, 1), part(events, 2)
    if layer.time is not None:
        scored = with_time(scored, layer.time.numpy())
    remain = list(range(length))
    if model.num_slots:
        hashed = next(c for c in history.channels if c.target)
        ids = [int(key) for key in row.batch[hashed.name][row.row, :length]]
        remain = [place for place in reference.store(ids, model.num_slots) if place is not None]
    gated = layer.gating == "probability"
    answer, places, by_choice = reference.supports(
        question, scored[remain], chosen[remain], layer.num_supports, gated
    )
    weights = np.zeros((layer.num_supports, row.batch[history.channels[0].name].shape[1]))
    for choice, (place, p) in enumerate(zip(places, by_choice, strict=True)):
        weights[choice, remain[place]] = p
    return answer - question, weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_supports": 3, "gating": "none", "temporal_encoding": False},
        {"num_slots": 3},
        {"num_slots": 50, "num_supports": 1},
    ],
)
def test_memnn_equals_the_reference(options, float64):
    model = make("memnn", **SMALL, **options)
    randomise(model)
    batch = random_batch(5, longest=7)

    def logit(i):
        row = EmbeddedRow(model, batch, i)
        answers = [recalled(model, row, history)[0] for history in model.schema.histories]
        parts = [*row.plain_parts(), *answers, row.numbers()]
        return mlp(np.concatenate(parts), reference_layers(model.mlp)).item()

    assert_equals_reference(model, batch, logit)
    weights = model.history_weights(batch)
    for history in model.schema.histories:
        expected = [recalled(model, EmbeddedRow(model, batch, i), history)[1] for i in range(5)]
        np.testing.assert_array_equal(weights[history.name].numpy() > 0, np.array(expected) > 0)
        np.testing.assert_allclose(weights[history.name], expected, atol=1e-12)


def test_the_newest_event_of_each_slot_remains():
    ids = tf.constant([[7, 4, 3, 9, 6, 3], [7, 4, 3, 0, 0, 0], [0] * 6])
    mask = length_mask(tf.constant([6, 2, 0]), 6)
    held = store(ids, mask, 3)
    np.testing.assert_array_equal(held, [[5, 1, NOTHING], [NOTHING, 1, NOTHING], [NOTHING] * 3])
    np.testing.assert_array_equal(held[0] >= 0, [s is not None for s in reference.store(ids[0], 3)])


def test_compiled_slots_equal_plain_ones():
    model = make("memnn", num_slots=4)
    batch = random_batch(5, longest=1000)
    compiled = tf.function(lambda: model(batch), jit_compile=True)()
    np.testing.assert_allclose(compiled, model(batch), rtol=1e-4, atol=1e-5)


def test_choices_by_hand(float64):
    """The first choice leads to the second: x finds memory 1, which finds memory 0."""
    layer = SupportingMemories(2, temporal=False, gating="none")
    scored = tf.constant([[[0.0, 5.0], [1.0, 0.0], [0.5, 0.5]]], tf.float64)
    supports = tf.constant([[[7.0, 8.0], [-1.0, 1.0], [0.0, 0.0]]], tf.float64)
    q, chosen, weights = layer(
        tf.constant([[1.0, 0.0]], tf.float64), scored, supports, tf.ones([1, 3], bool)
    )
    np.testing.assert_array_equal(chosen, [[1, 0]])
    np.testing.assert_array_equal(weights[0], [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(q, [[7.0, 9.0]])  # (1, 0) + (-1, 1) + (7, 8)


@pytest.mark.parametrize("places", [1, 50, 500])
@pytest.mark.parametrize("score", [-2.0, 0.0, 2.0])
def test_the_only_filled_slot_is_chosen_with_weight_1(places, score):
    memories = tf.pad(tf.ones([2, 1, 2]), [[0, 0], [0, places - 1], [0, 0]])
    mask = length_mask(tf.constant([1, 0]), places)
    layer = SupportingMemories(3, temporal=False)
    q, chosen, weights = layer(tf.constant([[score, 0.0]] * 2), memories, memories, mask)
    np.testing.assert_array_equal(chosen, [[0] * 3, [NOTHING] * 3])
    np.testing.assert_array_equal(weights[0, :, 0], [1.0] * 3)
    np.testing.assert_array_equal(q, [[score + 3.0, 3.0], [score, 0.0]])


def test_supporting_facts_are_chosen_in_training_and_rank_above_others(float64):
    random = np.random.default_rng(4)
    layer = SupportingMemories(2, max_items=3, gating="none", margin=0.7)
    x, y, z = (random.normal(size=size) for size in ((4, 3), (4, 5, 3), (4, 5, 3)))
    lengths = [5, 4, 3, 0]
    facts = np.array([[2, 0], [3, 3], [NOTHING, 1], [NOTHING, NOTHING]], np.int32)
    tensors = (tf.constant(x), tf.constant(y), tf.constant(z), length_mask(tf.constant(lengths), 5))
    _, chosen, _ = layer(*tensors, facts=tf.constant(facts), training=True)
    own = np.argmax([x[2] @ row for row in with_time(y[2, :3], layer.time.numpy())])
    np.testing.assert_array_equal(chosen, [[2, 0], [3, 3], [own, 1], [NOTHING] * 2])
    losses = [[], []]
    for row in range(3):
        aged, q = with_time(y[row, : lengths[row]], layer.time.numpy()), x[row]
        for hop in range(2):
            if facts[row, hop] >= 0:
                scores = np.array([q @ memory for memory in aged])
                losses[hop].append(reference.fact_loss(scores, facts[row, hop], 0.7))
            q = q + z[row, chosen[row, hop]]
    expected = sum(np.mean(part) for part in losses)
    np.testing.assert_allclose(layer.losses[0], expected)
    layer(*tensors, facts=tf.constant(facts))
    assert not layer.losses


def test_ranking_loss_compares_clicked_rows_with_others():
    assert (memnn.LABEL, memnn.WEIGHT) == (batches.LABEL, batches.WEIGHT)
    scores, labels = [0.3, -0.2, 0.5, 0.35, 0.0], [1, 0, 0, 1, 1]
    layer = MarginRanking(2.0, margin=0.1, negatives=2)
    ours = layer(tf.constant(scores), tf.constant(labels), tf.ones(5))
    np.testing.assert_allclose(ours, scores)
    expected = 2.0 * reference.ranking_loss(scores, labels, 0.1, 2)
    np.testing.assert_allclose(layer.losses[0], expected, rtol=1e-6)
    layer(tf.constant(scores), tf.constant(labels), tf.zeros(5))
    np.testing.assert_array_equal(layer.losses[0], 0.0)


def test_ranking_loss_is_added_in_training_alone():
    model = make("memnn", ranking_loss=1.0)
    batch = random_batch(6) | {"label": tf.constant([0, 1] * 3), "weight": tf.ones(6)}
    embedded = model.embeddings(batch)
    for _ in range(2):  # the loss of one call, not of all so far
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            model.logits(embedded, batch, training=True)
            (loss,) = model.losses
        assert np.any(tape.gradient(loss, embedded)["item"])
    model(batch)
    assert not model.losses
    model(random_batch(6), training=True)  # nor has a batch without labels one
    assert not model.losses
