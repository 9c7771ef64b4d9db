# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers import recurrence
from models.layers.masking import length_mask
from models.layers.recurrent import AGRU, AIGRU, AUGRU, GRU
from tests.models.against_reference import assert_layer_equals_reference
from tests.reference import recurrent as reference

RANDOM = np.random.default_rng(6)
LENGTHS = np.array([1, 5, 0, 3], np.int32)
MASK = length_mask(tf.constant(LENGTHS), 5)
INPUTS = RANDOM.normal(size=(4, 5, 3))
ATTENTION = RANDOM.uniform(size=(4, 5))
KINDS = {"augru": AUGRU, "agru": AGRU, "aigru": AIGRU}


def gates_of(layer):
    """A unit's weights by gate, for the reference."""
    parts = zip(
        *(
            np.split(weight.numpy(), len(layer.gates), axis=-1)
            for weight in (layer.kernel, layer.recurrent_kernel, layer.bias)
        ),
        strict=True,
    )
    return {name: reference.Gate(*part) for name, part in zip(layer.gates, parts, strict=True)}


@pytest.fixture(params=[1, 4])
def chunks(request, monkeypatch):
    """How many chunks the four rows are cut into."""
    monkeypatch.setattr(recurrence, "LEAST_ROWS", 4 // request.param)


def found(states, initial):
    """A row's states, 0 at padding, then the last of them."""
    last = states[-1] if len(states) else initial
    padding = np.zeros((5 - len(states), 2))
    return np.concatenate([states, padding, last[np.newaxis]])


def states_and_last(layer, *args):
    """The same of all rows by a layer."""
    states, last = layer(*args)
    real = tf.where(MASK[..., tf.newaxis], states, 0.0)
    return tf.concat([real, last[:, tf.newaxis]], axis=1)


@pytest.mark.usefixtures("float64", "chunks")
def test_gru_equals_the_reference():
    layer = GRU(2)

    def expected(inputs, initial):
        return np.array(
            [
                found(reference.states(x[:n], gates_of(layer), initial=h), h)
                for x, n, h in zip(inputs, LENGTHS, initial, strict=True)
            ]
        )

    assert_layer_equals_reference(
        layer,
        (INPUTS, RANDOM.normal(size=(4, 2))),
        expected,
        lambda inputs, initial: states_and_last(layer, inputs, MASK, initial),
    )


@pytest.mark.usefixtures("float64", "chunks")
@pytest.mark.parametrize("kind", KINDS)
def test_units_with_attention_equal_the_reference(kind):
    layer = KINDS[kind](2)

    def expected(inputs, attention):
        return np.array(
            [
                found(reference.states(x[:n], gates_of(layer), a, kind), np.zeros(2))
                for x, n, a in zip(inputs, LENGTHS, attention, strict=True)
            ]
        )

    assert_layer_equals_reference(
        layer,
        (INPUTS, ATTENTION),
        expected,
        lambda inputs, attention: states_and_last(layer, inputs, attention, MASK),
    )


def test_augru_with_attention_0_keeps_its_state_and_with_1_is_gru(float64):
    gru, augru = GRU(4), AUGRU(4)
    states = states_and_last(gru, INPUTS, MASK)
    augru(INPUTS, ATTENTION, MASK)
    for ours, theirs in zip(augru.weights, gru.weights, strict=True):
        ours.assign(theirs)
    with_1 = states_and_last(augru, INPUTS, tf.ones((4, 5)), MASK)
    np.testing.assert_allclose(with_1, states, rtol=1e-12)
    assert not states_and_last(augru, INPUTS, tf.zeros((4, 5)), MASK).numpy().any()
    pause = np.where(np.arange(5) == 2, 0.0, 1.0) * np.ones((4, 1))
    paused = augru(INPUTS, tf.constant(pause), MASK)[0].numpy()
    np.testing.assert_array_equal(paused[1, 2], paused[1, 1])
    assert not np.allclose(paused[1, 3], paused[1, 2])


def test_order_of_events_matters_and_padding_keeps_the_state(float64):
    layer = GRU(4)
    _, last = layer(INPUTS, MASK)
    _, wider = layer(
        np.pad(INPUTS, [(0, 0), (0, 3), (0, 0)], constant_values=9.0),
        length_mask(tf.constant(LENGTHS), 8),
    )
    np.testing.assert_allclose(wider, last, rtol=1e-12)
    assert not np.allclose(layer(INPUTS[:, ::-1], MASK)[1][1], last[1])


@pytest.mark.parametrize(("least_rows", "compiled_items"), [(1, 7), (1, 1000), (2, 7)])
def test_compiled_unit_equals_the_plain_one_and_does_not_grow_with_the_steps(
    least_rows, compiled_items, monkeypatch
):
    monkeypatch.setattr(recurrence, "LEAST_ROWS", least_rows)
    layer = AUGRU(3)
    inputs = tf.constant(RANDOM.normal(size=(2, compiled_items, 3)), tf.float32)
    attention = tf.constant(RANDOM.uniform(size=(2, compiled_items)), tf.float32)
    mask = length_mask(tf.constant([compiled_items, compiled_items // 2]), compiled_items)
    layer(inputs, attention, mask)

    def run(inputs, attention):
        weights = [variable.value for variable in layer.trainable_variables]
        with tf.GradientTape() as tape:
            tape.watch([inputs, attention, *weights])
            loss = tf.reduce_sum(layer(inputs, attention, mask)[1] ** 2)
        return loss, *tape.gradient(loss, [inputs, attention, *weights])

    plain = tf.function(run, autograph=False)
    compiled = tf.function(run, jit_compile=True, autograph=False)
    graph = plain.get_concrete_function(inputs, attention).graph
    nodes = len(graph.as_graph_def().node)
    assert nodes < 400, nodes
    for ours, theirs in zip(compiled(inputs, attention), plain(inputs, attention), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)  # 1000 steps of float32
