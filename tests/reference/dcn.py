# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np


def cross_network(
    inputs: np.ndarray, layers: Sequence[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Wang et al. 2021, Eq. 1, of one row, coordinate by coordinate.

    x_{l+1} = x_0 ⊙ (W_l x_l + b_l) + x_l
    """
    crossed = inputs
    for matrix, bias in layers:
        new = np.zeros_like(inputs)
        for a in range(len(inputs)):
            mixed = sum(matrix[a, b] * crossed[b] for b in range(len(inputs))) + bias[a]
            new[a] = inputs[a] * mixed + crossed[a]
        crossed = new
    return crossed
