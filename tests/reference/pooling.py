# SPDX-License-Identifier: Apache-2.0
import numpy as np


def pool(items: np.ndarray, weights: np.ndarray, how: str) -> np.ndarray:
    """Σ w e, or Σ w e / Σ w, of the real items of one row: items (n, dim), weights (n,)."""
    total = np.zeros(items.shape[-1])
    for item, weight in zip(items, weights, strict=True):
        total = total + weight * item
    if how == "sum":
        return total
    return total / weights.sum() if weights.sum() else total


def attention_weights(scores: np.ndarray, normalisation: str) -> np.ndarray:
    """Weights of the real items of one row, scores (n,)."""
    match normalisation:
        case "softmax":
            powers = np.exp(scores - scores.max(initial=0.0))
            return powers / powers.sum() if len(powers) else powers
        case "sigmoid":
            return 1 / (1 + np.exp(-scores))
        case _:
            return scores
