# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tensorflow as tf

from models.optimizers import RowAdagrad, RowAdam, RowFTRL, RowSGD
from tests.reference import optimizers as reference

ALL = tf.constant(1.0)
TOUCHED = [[0, 2], [2], [1, 2, 4], [0, 4]]


def run(optimizer, start, steps, factors=(1.0,) * 4):
    """Packed rows after the steps."""
    slots = [np.full_like(start, value) for value in optimizer.slot_values]
    packed = np.concatenate([start, *slots], axis=1)
    for t, (gradients, factor) in enumerate(zip(steps, factors, strict=True), start=1):
        rows = list(gradients)
        packed[rows] = optimizer.update(
            tf.constant(packed[rows]),
            tf.constant(np.stack([gradients[r] for r in rows]), tf.float32),
            tf.constant(t, tf.float32),
            tf.constant(factor),
        ).numpy()
    return packed


@pytest.mark.parametrize(
    ("optimizer", "expected"),
    [
        (RowAdam(0.05), lambda w, s: reference.lazy_adam(w, s, rate=0.05)),
        (RowAdagrad(0.05, 0.3), lambda w, s: reference.adagrad(w, s, 0.05, 0.3)),
        (RowFTRL(0.2, 1.5, 0.1, 0.3), lambda w, s: reference.ftrl(w, s, 0.2, 1.5, 0.1, 0.3)[:1]),
        (RowFTRL(0.2), lambda w, s: reference.ftrl(w, s, 0.2, 1.0, 0.0, 0.0)[:1]),
        (RowSGD(0.05, 0.9), lambda w, s: reference.momentum(w, s, 0.05, 0.9)),
        (RowSGD(0.05), lambda w, s: reference.momentum(w, s, 0.05, 0.0)[:1]),
    ],
)
def test_row_optimizers_equal_their_papers_on_the_rows_they_touch(optimizer, expected):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((5, 3)).astype(np.float32)
    start[2] = 0.0  # FTRL starts here in its paper
    steps = [{row: rng.standard_normal(3) for row in rows} for rows in TOUCHED]
    found = run(optimizer, start, steps)
    right = np.concatenate(expected(start, steps), axis=1)
    np.testing.assert_allclose(found[:, : right.shape[1]], right, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(found[3, :3], start[3])  # no batch holds it


def test_first_step_moves_by_the_learning_rate():
    packed = tf.constant([[1.0, 0.0, 0.0]])
    updated = RowAdam(0.1).update(packed, tf.constant([[7.0]]), tf.constant(1.0), ALL)
    # m/√v of a first step is ±1 whatever the gradient
    np.testing.assert_allclose(updated[0, 0], 0.9, rtol=1e-5)


def test_ftrl_by_hand():
    # w = 0, g = 3: σ = 3/0.5 = 6, z = 3, n = 9; w = -(3 - 1) / ((1 + 3)/0.5 + 2) = -0.2
    updated = RowFTRL(0.5, 1.0, l1=1.0, l2=2.0).update(
        tf.constant([[0.0, 0.0, 0.0]]), tf.constant([[3.0]]), tf.constant(1.0), ALL
    )
    np.testing.assert_allclose(updated, [[-0.2, 3.0, 9.0]], rtol=1e-6)


def test_a_schedule_moves_ftrl_s_rate_and_not_its_weights():
    start = np.array([[0.5, -0.2, 0.0]], np.float32)
    gradients = [{0: np.array([1.0, -0.5, 0.3])}] * 2
    for factors in ([0.1, 1.0], [1.0, 0.01]):
        packed = run(RowFTRL(0.2), start, gradients, factors)
        # at a new rate, a step without gradients leaves weights as they are
        for factor in (5.0, 0.2):
            still = RowFTRL(0.2).update(
                tf.constant(packed), tf.zeros((1, 3)), tf.constant(3.0), tf.constant(factor)
            )
            np.testing.assert_allclose(still[:, :3], packed[:, :3], rtol=1e-5)


def test_ftrl_sets_weak_weights_to_exactly_zero_and_keeps_starts_without_gradient():
    optimizer = RowFTRL(0.5, 1.0, l1=1.0)
    packed = tf.constant([[0.0, 0.25] + [0.0] * 4])
    updated = optimizer.update(packed, tf.constant([[0.5, 0.0]]), tf.constant(1.0), ALL)
    np.testing.assert_allclose(updated[0, :2], [0.0, 0.25], atol=0)


@pytest.mark.parametrize(
    "optimizer", [RowAdam(0.1), RowAdagrad(0.1), RowFTRL(0.1, l1=0.1), RowSGD(0.1, 0.9), RowSGD()]
)
def test_padding_rows_stay_zero(optimizer):
    steps = [{0: np.zeros(2)}] * 4
    np.testing.assert_array_equal(run(optimizer, np.zeros((1, 2), np.float32), steps)[0, :2], 0)


@pytest.mark.parametrize("optimizer", [RowAdam, RowAdagrad, RowSGD])
def test_the_factor_of_a_schedule_scales_the_learning_rate(optimizer):
    rng = np.random.default_rng(0)
    start = rng.standard_normal((1, 3)).astype(np.float32)
    steps = [{0: rng.standard_normal(3)} for _ in range(4)]
    halved = run(optimizer(0.1), start, steps, (0.5,) * 4)
    np.testing.assert_allclose(halved, run(optimizer(0.05), start, steps), rtol=1e-6)
