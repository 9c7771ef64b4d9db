# SPDX-License-Identifier: Apache-2.0
"""Optimisers on the rows of a batch, from their papers, applied to some rows only.

Each takes float weights (rows, width) and steps of {row: summed gradient (width,)}, and returns
the weights and slots after the last step.
"""

import numpy as np


def lazy_adam(weights, steps, rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    """Kingma & Ba 2015, Algorithm 1: weights, first and second moment."""
    weights = weights.astype(np.float64).copy()
    first, second = np.zeros_like(weights), np.zeros_like(weights)
    for t, gradients in enumerate(steps, start=1):
        for row, gradient in gradients.items():
            first[row] = beta_1 * first[row] + (1 - beta_1) * gradient
            second[row] = beta_2 * second[row] + (1 - beta_2) * gradient**2
            # the form at the end of §2: epsilon is added to the uncorrected root
            rate_t = rate * np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
            weights[row] -= rate_t * first[row] / (np.sqrt(second[row]) + epsilon)
    return weights, first, second


def adagrad(weights, steps, rate, initial):
    """Duchi et al. 2011, the diagonal case: weights and sum of squares."""
    weights = weights.astype(np.float64).copy()
    squares = np.full_like(weights, initial)
    for gradients in steps:
        for row, gradient in gradients.items():
            squares[row] += gradient**2
            weights[row] -= rate * gradient / np.sqrt(squares[row])
    return weights, squares


def ftrl(weights, steps, rate, beta, l1, l2):
    """McMahan et al. 2013, Algorithm 1, by coordinate: weights, z and n.

    z starts where the weight's closed form gives the starting weight.
    """
    weights = weights.astype(np.float64).copy()
    z = -weights * (beta / rate + l2) - np.sign(weights) * l1
    n = np.zeros_like(weights)
    for gradients in steps:
        for row, gradient in gradients.items():
            for i, g in enumerate(gradient):
                if g == 0 and n[row, i] == 0:
                    continue  # no gradient has arrived
                sigma = (np.sqrt(n[row, i] + g**2) - np.sqrt(n[row, i])) / rate
                z[row, i] += g - sigma * weights[row, i]
                n[row, i] += g**2
                if abs(z[row, i]) <= l1:
                    weights[row, i] = 0.0
                else:
                    top = z[row, i] - np.sign(z[row, i]) * l1
                    weights[row, i] = -top / ((beta + np.sqrt(n[row, i])) / rate + l2)
    return weights, z, n


def momentum(weights, steps, rate, mu):
    """Sutskever et al. 2013, §2, with the rate outside the velocity: weights and velocity."""
    weights = weights.astype(np.float64).copy()
    velocity = np.zeros_like(weights)
    for gradients in steps:
        for row, gradient in gradients.items():
            velocity[row] = mu * velocity[row] + gradient
            weights[row] -= rate * velocity[row]
    return weights, velocity
