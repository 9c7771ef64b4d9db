# SPDX-License-Identifier: Apache-2.0
import numpy as np


def pair_vector(vectors: np.ndarray) -> np.ndarray:
    """Σ_{i<j} e_i ⊙ e_j of one row by the double loop, vectors (fields, dim)."""
    total = np.zeros(vectors.shape[1])
    for j in range(len(vectors)):
        for i in range(j):
            total += vectors[i] * vectors[j]
    return total


def square_of_sum_form(vectors: np.ndarray) -> np.ndarray:
    """½ ((Σ e)² - Σ e²), Rendle 2010, Lemma 3.1."""
    return (vectors.sum(axis=0) ** 2 - (vectors**2).sum(axis=0)) / 2


def fm_logit(bias: float, weights: np.ndarray, vectors: np.ndarray, values: np.ndarray) -> float:
    """Rendle 2010, Eq. 1, of one row: weights and values (fields,), vectors (fields, dim)."""
    logit = bias + (weights * values).sum()
    for j in range(len(values)):
        for i in range(j):
            logit += np.dot(vectors[i], vectors[j]) * values[i] * values[j]
    return logit
