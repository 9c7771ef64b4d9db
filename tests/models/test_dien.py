# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import tensorflow as tf

from features.schema import LABEL, WEIGHT
from models.layers.masking import length_mask
from models.layers.next_event import NextEventLoss
from models.optimizers import RowAdam
from models.registry import MODELS, build
from pipeline.train_step import TrainStep
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import SCHEMA, make, random_batch, randomise, reference_layers
from tests.models.test_recurrent import gates_of
from tests.reference import dien as reference
from tests.reference.din import embedding_mlp_logit

SMALL = {"embedding_dim": 2, "hidden_units": (5,), "activation": "prelu"}


def random_histories(rows, items, ids, seed):
    """Ids from 2 on, one fewer than `ids` of them, and lengths from 0 to all places."""
    random = np.random.default_rng(seed)
    lengths = random.integers(0, items + 1, rows)
    mask = np.arange(items) < lengths[:, None]
    return np.where(mask, random.integers(2, ids + 1, (rows, items)), 0).astype(np.int32), mask


@pytest.mark.parametrize("evolution", ["augru", "agru", "aigru"])
def test_dien_equals_the_reference(evolution, float64):
    model = make("dien", evolution=evolution, **SMALL)
    randomise(model)
    batch = random_batch(4)
    weights = model.event_weights(batch)

    def interest(row, history):
        name = history.name
        return reference.interest(
            row.query(history),
            row.events(history),
            gates_of(model.extractors[name]),
            model.scorers[name].kernel.numpy(),
            gates_of(model.evolutions[name]),
            evolution,
        )

    def logit(index):
        row = EmbeddedRow(model, batch, index)
        histories = [interest(row, history)[0] for history in SCHEMA.histories]
        parts = [*row.plain_parts(), *histories, row.numbers()]
        return embedding_mlp_logit(parts, reference_layers(model.mlp))

    assert_equals_reference(model, batch, logit)
    for index in range(4):
        row = EmbeddedRow(model, batch, index)
        for history in SCHEMA.histories:
            expected = interest(row, history)[1]
            found = weights[history.name][index].numpy()
            np.testing.assert_allclose(found[: len(expected)], expected, rtol=1e-9)
            assert not found[len(expected) :].any()


@pytest.mark.parametrize("rows", [1, 2, 40])
def test_negatives_are_real_events_that_are_never_in_the_history(rows):
    """Few ids, so that most draws have to be refused."""
    layer = NextEventLoss(num_negatives=11)
    usable_draws = 0
    for ids_in_all in (3, 4, 6):
        for seed in range(10):
            ids, mask = random_histories(rows, 5, ids_in_all, seed)
            places, usable = layer.draw(tf.constant(ids), tf.constant(mask))
            for row in range(rows):
                drawn = ids.reshape(-1)[places[row].numpy()[usable[row].numpy()]]
                assert mask.reshape(-1)[places[row].numpy()[usable[row].numpy()]].all()
                assert not set(drawn) & set(ids[row][mask[row]])
                usable_draws += len(drawn)
    assert usable_draws > 0 or rows == 1


def test_each_event_of_other_rows_is_drawn_about_as_often():
    layer = NextEventLoss(num_negatives=3000)
    keras.utils.set_random_seed(0)
    ids = tf.constant([[2, 3, 0], [4, 4, 5], [0, 0, 0]])
    mask = length_mask(tf.constant([2, 3, 0]), 3)
    places, usable = (array.numpy() for array in layer.draw(ids, mask))
    assert set(places[0][usable[0]]) == {3, 4, 5}
    assert set(places[1][usable[1]]) == {0, 1}
    counts = np.bincount(places[2], minlength=9)[[0, 1, 3, 4, 5]]
    np.testing.assert_allclose(counts / 3000, 0.2, atol=0.04)
    assert usable[2].all()


def test_loss_equals_the_reference_and_its_finite_differences(float64):
    random = np.random.default_rng(2)
    ids, mask = random_histories(6, 4, 7, 3)
    layer = NextEventLoss(weight=0.3, num_negatives=5)
    places, usable = (array.numpy() for array in layer.draw(tf.constant(ids), tf.constant(mask)))
    layer.draw = lambda *_: (tf.constant(places), tf.constant(usable))
    states, events = random.normal(size=(2, 6, 4, 3))
    assert usable.any()
    assert not usable.all()

    def expected(states, events):
        flat = events.reshape(-1, 3)
        return 0.3 * reference.next_event_loss(
            [(states[i][mask[i]], events[i][mask[i]], flat[places[i][usable[i]]]) for i in range(6)]
        )

    tensors = [tf.constant(states), tf.constant(events)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        loss = layer(*tensors, tf.constant(ids), tf.constant(mask))
    np.testing.assert_allclose(loss, expected(states, events), rtol=1e-10)
    assert layer.losses == [loss]
    for slope, *way in zip(tape.gradient(loss, tensors), (1, 0), (0, 1), strict=True):
        direction = random.normal(size=states.shape)
        ends = [
            expected(*(a + s * 1e-6 * w * direction for a, w in zip((states, events), way)))  # noqa: B905
            for s in (1, -1)
        ]
        difference = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(tf.reduce_sum(slope * direction), difference, rtol=1e-6)


@pytest.mark.parametrize("items", [1, 5])
def test_a_batch_without_a_next_event_has_no_loss_and_finite_gradients(items):
    states = tf.ones((3, items, 2))
    for length in (0, 1):
        mask = length_mask(tf.fill([3], length), items)
        with tf.GradientTape() as tape:
            tape.watch(states)
            loss = NextEventLoss()(states, states, tf.fill([3, items], 2), mask)
        assert float(loss) == 0.0
        assert not tf.convert_to_tensor(tape.gradient(loss, states)).numpy().any()


@pytest.mark.parametrize("xla", [False, True])
def test_a_training_step_lowers_both_losses_at_changing_shapes(xla):
    optimizer = RowAdam()
    # to compile two histories takes twice as long and shows no more
    schema = SCHEMA.select(("item", "category", "price", "clicks")) if xla else SCHEMA
    model = build("dien", schema, MODELS["dien"].config(**SMALL), optimizer.slot_values)
    model.build_from(random_batch(2))
    step = TrainStep(model, optimizer, keras.optimizers.Adam(0.01), xla=xla)
    batches = [
        {k: v.numpy() for k, v in random_batch(16, longest=longest).items()}
        | {LABEL: np.arange(16) % 2, WEIGHT: np.ones(16, np.float32)}
        for longest in (3, 5)
    ]
    losses = [[float(step(batch, i + 1)) for batch in batches] for i in range(12)]
    assert np.isfinite(losses).all()
    assert (np.array(losses[-1]) < losses[0]).all()
    # ln 2 of the labels, and 2 ln 2 of each history that has to tell events apart
    expected = (1 + 2 * len(schema.histories)) * np.log(2)
    np.testing.assert_allclose(losses[0], expected, rtol=0.1)
    assert not make("dien", auxiliary_weight=0.0, **SMALL).next_event
