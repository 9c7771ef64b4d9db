# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.layers.masking import length_mask
from models.layers.memory_episodes import DynamicMemory, GatedGRU
from tests.models.against_reference import EmbeddedRow, assert_equals_reference
from tests.models.examples import make, random_batch, randomise, reference_layers
from tests.reference import dmn as reference
from tests.reference.mlp import mlp

SMALL = {"embedding_dim": 3, "hidden_units": (7, 4), "activation": "prelu", "memory_units": 4,
         "gate_units": 5}  # fmt: skip


def modules(layer):
    """The reference with the layer's weights."""

    def gru(module):
        weights = (module.kernel, module.recurrent_kernel, module.bias)
        return reference.GRU(*(weight.numpy() for weight in weights))

    # a step from state 0: whatever U and r are
    units = layer.input_gru.units
    kernel, bias = (
        np.insert(weight.numpy(), [units] * units, 0.5, axis=-1)
        for weight in (layer.question_kernel, layer.question_bias)
    )
    gate = layer.gate
    weights = (gate.bilinear, gate.kernel, gate.bias, gate.projection, gate.offset)
    return reference.DMN(
        gru(layer.input_gru),
        reference.GRU(kernel, np.ones((units, 3 * units)), bias),
        reference.Gate(*(weight.numpy() for weight in weights)),
        gru(layer.attention_gru),
        gru(layer.memory_gru),
        gru(layer.answer_gru),
    )


def recalled(model, row, history):
    layer = model.memories[history.name]
    question = np.concatenate([row.target(c) for c in history.channels if c.target])
    events = row.events(history, history.channels)
    return modules(layer)(question, events, layer.num_episodes, layer.gate_normalisation)


@pytest.mark.parametrize("options", [{}, {"num_episodes": 1, "gate_normalisation": "softmax"}])
def test_dmn_equals_the_reference(options, float64):
    model = make("dmn", **SMALL, **options)
    randomise(model)
    batch = random_batch(4)

    def logit(i):
        row = EmbeddedRow(model, batch, i)
        answers = [recalled(model, row, history)[0] for history in model.schema.histories]
        parts = [*row.plain_parts(), *answers, row.numbers()]
        return mlp(np.concatenate(parts), reference_layers(model.mlp)).item()

    assert_equals_reference(model, batch, logit)
    weights = model.history_weights(batch)
    for history in model.schema.histories:
        for i in range(4):
            row = EmbeddedRow(model, batch, i)
            length = row.length(history)
            expected = np.array(recalled(model, row, history)[1])
            np.testing.assert_allclose(weights[history.name][i, :, :length], expected, atol=1e-12)
            np.testing.assert_array_equal(weights[history.name][i, :, length:], 0.0)


def test_a_gru_step_by_hand(float64):
    """All weights 0 but b of the new state: z = 1/2, so that h moves half-way to tanh(b)."""
    layer = GatedGRU(1)
    states = [[[0.0], [0.0], [0.0]]]
    gates = tf.constant([[1.0, 0.0, 0.5]], tf.float64)
    layer(tf.constant(states, tf.float64), gates, tf.constant([[1.0]], tf.float64))
    for weight in layer.weights:
        weight.assign(tf.zeros_like(weight))
    layer.bias.assign([0.0, 0.0, np.arctanh(0.5)])
    ours, last = layer(tf.constant(states, tf.float64), gates, tf.constant([[1.0]], tf.float64))
    # 1 -> 0.75; kept; half of the way to 0.625
    np.testing.assert_allclose(ours[0, :, 0], [0.75, 0.75, 0.6875])
    np.testing.assert_allclose(last, [[0.6875]])


@pytest.mark.parametrize("normalisation", ["softmax", "sigmoid"])
def test_the_only_filled_slot_takes_all_attention_in_every_episode(normalisation):
    question, only = tf.constant([[1.0, -1.0]]), tf.ones([1, 1, 2])
    layer = DynamicMemory(3, 3, 4, normalisation)
    layer(question, only, tf.constant([[True]]))
    layer.gate.projection.assign(tf.zeros(4))
    # loops are slow outside a graph, and a graph takes long to make: one for all numbers of places
    signature = [tf.TensorSpec([1, None, 2]), tf.TensorSpec([1, None], tf.bool)]
    graph = tf.function(lambda inputs, mask: layer(question, inputs, mask), signature)
    for offset in (0.0, 2.0):
        layer.gate.offset.assign(offset)
        alone, _ = layer(question, only, tf.constant([[True]]))
        expected = 1.0 if normalisation == "softmax" else 1 / (1 + np.exp(-offset))
        for places in (1, 50, 500):
            inputs = tf.pad(only, [[0, 0], [0, places - 1], [0, 0]])
            answer, gates = graph(inputs, length_mask(tf.constant([1]), places))
            np.testing.assert_allclose(gates[0, :, 0], [expected] * 3, rtol=1e-6)
            assert not np.any(gates[0, :, 1:])
            np.testing.assert_allclose(answer, alone, rtol=1e-6)


def test_a_thousand_events_train_in_one_loop_of_the_graph():
    layer = DynamicMemory(4, 2, 3)
    random = np.random.default_rng(1)
    question = tf.constant(random.normal(size=(2, 3)), tf.float32)
    sizes = {}

    def step(inputs, mask):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(layer(question, inputs, mask)[0] ** 2)
        return tape.gradient(loss, inputs)

    for items in (10, 1000):
        inputs = tf.constant(random.normal(size=(2, items, 3)), tf.float32)
        mask = length_mask(tf.constant([items, 7]), items)
        layer(question, inputs[:, :2], mask[:, :2])
        compiled = tf.function(step, jit_compile=True)
        operations = compiled.get_concrete_function(inputs, mask).graph.get_operations()
        # zeros are stored when they are few, and filled in when they are many
        sizes[items] = sum(op.type not in {"Const", "Fill"} for op in operations)
    assert sizes[10] == sizes[1000]
    slope = compiled(inputs, mask)
    assert np.isfinite(slope).all()
    assert np.any(slope[0, -1])  # that of the first of a thousand is below float32
    assert not np.any(slope[1, 7:])
