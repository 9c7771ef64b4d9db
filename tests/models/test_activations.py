# SPDX-License-Identifier: Apache-2.0
import keras
import numpy as np
import pytest
import tensorflow as tf

from models.layers.activations import Dice, PReLU, activation_layer
from models.layers.mlp import MLP, MLPOptions
from tests.models.examples import reference_layers
from tests.reference import mlp as reference

ROWS = np.random.default_rng(1).normal(size=(6, 4, 3)).astype(np.float32) * 3 + 1
REAL = np.arange(4) < np.array([4, 2, 0, 1, 3, 4])[:, None]


def made(layer):
    layer.build((None, 3))
    layer.alpha.assign([0.0, 0.25, -1.0])
    return layer


def test_prelu_by_hand():
    outputs = made(PReLU())(tf.constant([[2.0, 2.0, 2.0], [-2.0, -2.0, -2.0]]))
    np.testing.assert_array_equal(outputs, [[2.0, 2.0, 2.0], [0.0, -0.5, 2.0]])


def test_dice_uses_batch_statistics_in_training():
    real = ROWS[REAL]
    outputs = made(Dice())(ROWS, mask=tf.constant(REAL), training=True)
    expected = reference.dice(real, [0.0, 0.25, -1.0], real.mean(axis=0), real.var(axis=0))
    np.testing.assert_allclose(outputs.numpy()[REAL], expected, rtol=1e-5, atol=1e-6)


def test_dice_uses_moving_averages_in_inference():
    dice = made(Dice())
    dice.mean.assign([1.0, 2.0, 3.0])
    dice.variance.assign([4.0, 0.0, 1.0])
    expected = reference.dice(ROWS, [0.0, 0.25, -1.0], dice.mean.numpy(), dice.variance.numpy())
    np.testing.assert_allclose(dice(ROWS), expected, rtol=1e-5, atol=1e-6)


def test_dice_averages_the_first_batches_evenly_and_then_forgets():
    dice = made(Dice(momentum=0.5))
    means = []
    for value in (2.0, 4.0, 8.0):
        dice(tf.constant([[value] * 3, [value + 2.0] * 3]), training=True)
        means.append(dice.mean.numpy()[0])
    assert means == [3.0, 4.0, 6.5]  # (3 + 5) / 2, then half of 4 and half of 9
    assert dice.variance.numpy()[0] == 1.0


def test_dice_learns_nothing_from_a_batch_of_padding():
    dice = made(Dice())
    dice(ROWS, training=True)
    before = [variable.numpy() for variable in dice.variables]
    with tf.GradientTape() as tape:
        outputs = dice(ROWS, mask=tf.zeros((6, 4), tf.bool), training=True)
    assert np.isfinite(outputs).all()
    assert np.isfinite(tape.gradient(outputs, dice.alpha.value)).all()
    for variable, value in zip(dice.variables, before, strict=True):
        np.testing.assert_array_equal(variable, value)


def test_dice_is_finite_when_a_unit_never_changes():
    inputs = tf.fill([5, 3], 1e4)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = made(Dice())(inputs, training=True)
    assert np.isfinite(outputs).all()
    assert np.isfinite(tape.gradient(outputs, inputs)).all()


def test_dice_keeps_its_averages_in_full_precision(half_precision):
    dice = made(Dice())
    outputs = dice(tf.constant([[6e4] * 3, [-6e4] * 3], tf.float16), training=True)
    assert outputs.dtype == tf.float16
    assert np.isfinite(outputs).all()
    np.testing.assert_allclose(dice.variance, [3.6e9] * 3, rtol=1e-3)  # half stops at 65504


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh"])
def test_plain_activations_are_those_of_keras(name):
    expected = getattr(keras.activations, name)(ROWS)
    np.testing.assert_array_equal(activation_layer(name)(ROWS), expected)


@pytest.mark.parametrize("activation", ["relu", "prelu", "dice"])
def test_mlp_equals_the_reference(activation):
    layer = MLP(
        MLPOptions(hidden_units=(5, 2), activation=activation, dropout_rate=0.9), output_units=1
    )
    inputs = np.random.default_rng(4).normal(size=(7, 3)).astype(np.float32)
    layer(inputs)
    random = np.random.default_rng(5)
    for variable in layer.weights:
        variable.assign(
            random.uniform(0.1, 1.0, variable.shape) - 0.4 * ("kernel" in variable.path)
        )
    layers = reference_layers(layer)
    expected = [reference.mlp(row, layers) for row in inputs]
    np.testing.assert_allclose(layer(inputs), expected, rtol=1e-5, atol=1e-6)


def test_mlp_without_hidden_layers_is_linear():
    layer = MLP(MLPOptions(hidden_units=()), output_units=2)
    inputs = tf.constant([[1.0, 2.0, 3.0]])
    expected = layer(inputs) * 2.0  # biases start at 0
    np.testing.assert_allclose(layer(inputs * 2.0), expected, rtol=1e-6)


def test_batch_norm_and_dropout_act_in_training_only():
    layer = MLP(MLPOptions(hidden_units=(16,), dropout_rate=0.5, batch_norm=True))
    inputs = ROWS[:, 0]
    np.testing.assert_array_equal(layer(inputs), layer(inputs))
    trained = layer(inputs, training=True).numpy()
    assert (trained == 0).mean() > 0.5  # half by dropout, about half of the rest by ReLU
    np.testing.assert_allclose(layer(inputs[:1]), layer(inputs)[:1], rtol=1e-5, atol=1e-6)
