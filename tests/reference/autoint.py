# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np


def interacting_layer(
    fields: np.ndarray,
    heads: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
    residual: np.ndarray,
) -> np.ndarray:
    """Song et al. 2019, Eq. 5 to 8, of one row: fields (fields, dim).

    Matrices (W_Q, W_K, W_V) of each head act from the right, `e @ W`, as does the residual's.
    """
    attended = []
    for e in fields:
        of_heads = []
        for query, key, value in heads:
            scores = np.array([np.dot(e @ query, other @ key) for other in fields])
            powers = np.exp(scores - scores.max())
            weights = powers / powers.sum()
            of_heads.append(sum(w * (o @ value) for w, o in zip(weights, fields, strict=True)))
        attended.append(np.maximum(np.concatenate(of_heads) + e @ residual, 0.0))
    return np.array(attended)
