# SPDX-License-Identifier: Apache-2.0
"""Row-wise optimisers for embedding tables: a step touches only the rows that a batch holds.

Gradients of an id that occurs several times in a batch are summed before they are squared. Rows
without an id in the batch keep weights and slots to the bit; where a paper decays them each step,
ours does not.
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

    def update(
        self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Return the new packed rows, float32 (unique ids, width * (1 + slots)).

        Args:
            rows: Packed rows `weights | slots`, float32 (unique ids, width * (1 + slots)).
            gradients: Summed gradient of each row, float32 (unique ids, width).
            step: Number of this step, from 1, float32 scalar.
            rate_factor: What a schedule makes of the learning rate, float32 scalar; 1 is all.
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

    def update(
        self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Return `w | m | v` after one step; see `RowOptimizer.update`."""
        weights, first, second = tf.split(rows, 3, axis=1)
        first = first + (1.0 - self.beta_1) * (gradients - first)
        second = second + (1.0 - self.beta_2) * (tf.square(gradients) - second)
        correction = tf.sqrt(1.0 - self.beta_2**step) / (1.0 - self.beta_1**step)
        rate = self.learning_rate * rate_factor * correction
        change = rate * first / (tf.sqrt(second) + self.epsilon)
        return _packed(weights - change, first, second)


@dataclass(frozen=True)
class RowAdagrad:
    """Adagrad with diagonal matrices: n ← n + g²;  w ← w - η·g/√n.

    References:
        Duchi, Hazan & Singer, Adaptive Subgradient Methods for Online Learning and Stochastic
        Optimization, JMLR 12, 2011, §1.1, Eq. 1 (diagonal case).
    Differs from the paper: n starts at `initial_accumulator`, which must be above 0.
    """

    learning_rate: float = 1e-2
    initial_accumulator: float = 0.1

    @property
    def slot_values(self) -> tuple[float]:
        """The sum of squares starts at `initial_accumulator`."""
        return (self.initial_accumulator,)

    def update(
        self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Return `w | n` after one step; see `RowOptimizer.update`."""
        del step
        weights, squares = tf.split(rows, 2, axis=1)
        squares = squares + tf.square(gradients)
        change = self.learning_rate * rate_factor * gradients * tf.math.rsqrt(squares)
        return _packed(weights - change, squares)


@dataclass(frozen=True)
class RowFTRL:
    """FTRL-proximal, which sets weights that matter little to exactly 0.

    σ = (√(n + g²) - √n) / η;  z ← z + g - σw;  n ← n + g²
    w = 0 where |z| ≤ λ₁, else -(z - sign(z)λ₁) / ((β + √n)/η + λ₂)

    References:
        McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013, §3.1, Algorithm 1.
    Differs from the paper: a weight may start at another value than 0, as vectors must, and η may
        change by a schedule; so z of a weight other than 0 is worked out anew each step, as what
        the last line makes that weight of. At one η that is the z that was kept.
    """

    learning_rate: float = 0.05
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    @property
    def slot_values(self) -> tuple[float, float]:
        """Both z and n start at 0."""
        return (0.0, 0.0)

    def update(
        self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Return `w | z | n` after one step; see `RowOptimizer.update`."""
        del step
        weights, sums, squares = tf.split(rows, 3, axis=1)
        rate = self.learning_rate * rate_factor
        new_squares = squares + tf.square(gradients)
        root, new_root = tf.sqrt(squares), tf.sqrt(new_squares)
        # the z of which the closed form, at this step's rate, makes this weight: it starts where
        # the weight does, and a schedule moves rates and not weights
        based = -weights * ((self.beta + root) / rate + self.l2) - tf.sign(weights) * self.l1
        sums = tf.where(weights != 0.0, based, sums)
        sums = sums + gradients - (new_root - root) / rate * weights
        shrunk = sums - tf.clip_by_value(sums, -self.l1, self.l1)
        solved = -shrunk / ((self.beta + new_root) / rate + self.l2)
        weights = tf.where(new_squares > 0.0, solved, weights)
        return _packed(weights, sums, new_squares)


@dataclass(frozen=True)
class RowSGD:
    """Stochastic gradient descent: m ← μm + g;  w ← w - η·m. Without momentum it keeps no slot.

    References:
        Sutskever, Martens, Dahl & Hinton, On the Importance of Initialization and Momentum in Deep
        Learning, ICML 2013, §2, Eq. 1 and 2 (classical momentum).
    Differs from the paper: η stands outside m, so that a schedule acts at once, as in most
        libraries.
    """

    learning_rate: float = 1e-2
    momentum: float = 0.0

    @property
    def slot_values(self) -> tuple[float, ...]:
        """The velocity starts at 0."""
        return (0.0,) if self.momentum else ()

    def update(
        self, rows: tf.Tensor, gradients: tf.Tensor, step: tf.Tensor, rate_factor: tf.Tensor
    ) -> tf.Tensor:
        """Return `w | m` or `w` after one step; see `RowOptimizer.update`."""
        del step
        rate = self.learning_rate * rate_factor
        if not self.momentum:
            return rows - rate * gradients
        weights, velocity = tf.split(rows, 2, axis=1)
        velocity = self.momentum * velocity + gradients
        return _packed(weights - rate * velocity, velocity)


def _packed(*parts: tf.Tensor) -> tf.Tensor:
    """Return weights and slots, (unique ids, width) each, side by side.

    As `tf.concat` on axis 1 has them; compiled code makes this form in two thirds of the time.
    """
    width = len(parts) * parts[0].shape[1]
    return tf.reshape(tf.stack(parts, axis=1), (-1, width))
