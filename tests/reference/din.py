# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.mlp import Layer, mlp
from tests.reference.pooling import attention_weights


def activation_unit(query: np.ndarray, key: np.ndarray, layers: Sequence[Layer]) -> float:
    """a(q, k) = MLP([q; k; q - k; q ⊙ k]) of one event, built as the plain concatenation."""
    compared = key[: len(query)]
    return mlp(np.concatenate([query, key, query - compared, query * compared]), layers).item()


def user_vector(
    query: np.ndarray, events: np.ndarray, layers: Sequence[Layer], normalisation: str = "none"
) -> tuple[np.ndarray, np.ndarray]:
    """DIN paper, Eq. 3: Σ_j a(e_j, v_A) e_j of one row's real events (n, dim), and the weights."""
    scores = np.array([activation_unit(query, event, layers) for event in events])
    weights = attention_weights(scores, normalisation)
    total = np.zeros(events.shape[1])
    for weight, event in zip(weights, events, strict=True):
        total = total + weight * event
    return total, weights


def embedding_mlp_logit(parts: Sequence[np.ndarray], layers: Sequence[Layer]) -> float:
    """DIN paper, §4.2: the MLP of one row's vectors side by side."""
    return mlp(np.concatenate(parts), layers).item()
