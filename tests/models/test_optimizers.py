import numpy as np
import tensorflow as tf

from models.optimizers import RowAdam
from tests.reference.adam import lazy_adam


def test_row_adam_equals_the_paper_on_the_rows_it_touches():
    rng = np.random.default_rng(0)
    start = rng.standard_normal((5, 3)).astype(np.float32)
    touched = [[0, 2], [2], [1, 2, 4], [0, 4]]
    steps = [{row: rng.standard_normal(3) for row in rows} for rows in touched]
    expected, first, second = lazy_adam(start, steps, rate=0.05)
    packed = np.concatenate([start, np.zeros((5, 6), np.float32)], axis=1)
    optimizer = RowAdam(0.05)
    for t, gradients in enumerate(steps, start=1):
        rows = list(gradients)
        updated = optimizer.update(
            tf.constant(packed[rows]),
            tf.constant(np.stack([gradients[r] for r in rows]), tf.float32),
            tf.constant(t, tf.float32),
        )
        packed[rows] = updated.numpy()
    np.testing.assert_allclose(
        packed, np.concatenate([expected, first, second], 1), rtol=1e-4, atol=1e-6
    )


def test_first_step_moves_by_the_learning_rate():
    packed = tf.constant([[1.0, 0.0, 0.0]])
    updated = RowAdam(0.1).update(packed, tf.constant([[7.0]]), tf.constant(1.0))
    # m/√v of a first step is ±1 whatever the gradient
    np.testing.assert_allclose(updated[0, 0], 0.9, rtol=1e-5)
