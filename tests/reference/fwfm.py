# SPDX-License-Identifier: Apache-2.0
import numpy as np


def fwfm_pairs(vectors: np.ndarray, strengths: np.ndarray) -> float:
    """Pan et al. 2018, §3.2, of one row: Σ_{i<j} r_ij <v_i, v_j> x_i x_j, vectors of x_i v_i."""
    total = 0.0
    for j in range(len(vectors)):
        for i in range(j):
            total += strengths[i, j] * np.dot(vectors[i], vectors[j])
    return total
