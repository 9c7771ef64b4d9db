# SPDX-License-Identifier: Apache-2.0
import numpy as np


def pool(items: np.ndarray, weights: np.ndarray, how: str) -> np.ndarray:
    """Σ w e, Σ w e / Σ |w| or max w e of one row's real items (n, dim), with weights (n,)."""
    if how == "max" and len(items):
        return np.max([weight * item for weight, item in zip(weights, items, strict=True)], axis=0)
    total = np.zeros(items.shape[-1])
    for item, weight in zip(items, weights, strict=True):
        total = total + weight * item
    if how in {"sum", "max"}:
        return total
    return total / np.abs(weights).sum() if weights.any() else total


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
