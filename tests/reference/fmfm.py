# SPDX-License-Identifier: Apache-2.0
import numpy as np


def fmfm_pairs(vectors: np.ndarray, matrices: dict[tuple[int, int], np.ndarray]) -> float:
    """Sun et al. 2021, §3.1, of one row: Σ_{i<j} <v_i M_ij, v_j> x_i x_j, vectors of x_i v_i."""
    total = 0.0
    for j in range(len(vectors)):
        for i in range(j):
            total += vectors[i] @ matrices[i, j] @ vectors[j]
    return total
