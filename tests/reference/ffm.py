# SPDX-License-Identifier: Apache-2.0
import numpy as np


def ffm_logit(
    bias: float,
    weights: np.ndarray,
    vectors: np.ndarray,
    values: np.ndarray,
    squares: np.ndarray | None = None,
) -> float:
    """Juan et al. 2016, Eq. 4, of one row, with a linear part in front.

    weights and values (fields,), vectors[i, j] = v_{i,f_j} (fields, fields, k). With `squares`,
    what each field adds to |x|², the pair sum is divided by their sum (its §3.1).
    """
    pairs = 0.0
    for j in range(len(values)):
        for i in range(j):
            pairs += np.dot(vectors[i, j], vectors[j, i]) * values[i] * values[j]
    if squares is not None:
        pairs = pairs / squares.sum() if squares.sum() else 0.0
    return bias + np.dot(weights, values) + pairs
