# SPDX-License-Identifier: Apache-2.0
import numpy as np


def lr_logit(bias: float, weights: np.ndarray, values: np.ndarray) -> float:
    """w_0 + Σ_i w_i x_i of one row."""
    return bias + sum(w * x for w, x in zip(weights, values, strict=True))
