# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.mlp import Layer, mlp


def gated(inputs: np.ndarray, context: np.ndarray, layers: Sequence[Layer]) -> np.ndarray:
    """Mao et al. 2023, feature selection of one row: 2 σ(MLP(c)) ⊙ e."""
    return 2.0 / (1.0 + np.exp(-mlp(context, layers))) * inputs


def bilinear_fusion(
    first: np.ndarray,
    second: np.ndarray,
    bias: float,
    weights: tuple[np.ndarray, np.ndarray],
    matrices: np.ndarray,
) -> float:
    """Mao et al. 2023, multi-head bilinear fusion of one row; matrices (heads, d_1/k, d_2/k)."""
    logit = bias + np.dot(weights[0], first) + np.dot(weights[1], second)
    heads = len(matrices)
    for h, matrix in enumerate(matrices):
        ours = np.split(first, heads)[h]
        theirs = np.split(second, heads)[h]
        for a in range(len(ours)):
            for b in range(len(theirs)):
                logit += ours[a] * matrix[a, b] * theirs[b]
    return logit
