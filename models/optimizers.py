# SPDX-License-Identifier: Apache-2.0
"""Row-wise optimisers for embedding tables: a step touches only the rows that a batch holds.

Gradients of an id that occurs several times in a batch are summed before they are squared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import tensorflow as tf


class RowOptimizer(Protocol):
    """How the rows of a batch change, given their summed gradients."""

    @property
    def slot_values(self) -> Sequence[float]:
        """Initial value of each slot that is kept per weight."""

    def update(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Return the new packed rows, float32 (unique ids, width * (1 + slots)).

        Args:
            rows: Packed rows `weights | slots`, float32 (unique ids, width * (1 + slots)).
            gradients: Summed gradient of each row, float32 (unique ids, width).
            step: Number of this step, from 1, float32 scalar.
        """


@dataclass(frozen=True)
class RowAdam:
    """Adam on the rows of a batch only ("lazy" Adam).

    m ← β₁m + (1-β₁)g;  v ← β₂v + (1-β₂)g²;  w ← w - η·√(1-β₂ᵗ)/(1-β₁ᵗ)·m/(√v + ε)

    References:
        Kingma & Ba, Adam: A Method for Stochastic Optimization, ICLR 2015, Algorithm 1 and the
        reordered form at the end of §2.
    Differs from the paper: rows without an id in the batch keep weights, m and v as they are
        (the paper decays all of them each step); t counts all steps, not a row's own.
    """

    learning_rate: float = 1e-3
    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-8

    @property
    def slot_values(self) -> tuple[float, float]:
        """First and second moment start at 0."""
        return (0.0, 0.0)

    def update(self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Return `w | m | v` after one step; see `RowOptimizer.update`."""
        weights, first, second = tf.split(rows, 3, axis=1)
        first = first + (1.0 - self.beta_1) * (gradients - first)
        second = second + (1.0 - self.beta_2) * (tf.square(gradients) - second)
        correction = tf.sqrt(1.0 - self.beta_2**step) / (1.0 - self.beta_1**step)
        change = self.learning_rate * correction * first / (tf.sqrt(second) + self.epsilon)
        return tf.concat([weights - change, first, second], axis=1)
