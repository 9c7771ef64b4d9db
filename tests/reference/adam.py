"""Adam on the rows of a batch, from Kingma & Ba 2015, Algorithm 1, applied to some rows only."""

import numpy as np


def lazy_adam(weights, steps, rate=1e-3, beta_1=0.9, beta_2=0.999, epsilon=1e-8):
    """Apply steps of {row: summed gradient} to float64 weights (rows, width)."""
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
