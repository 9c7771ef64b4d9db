# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.pooling import attention_weights
from tests.reference.recurrent import Gate, states
from tests.reference.scorers import general


def interest(
    query: np.ndarray,
    events: np.ndarray,
    extractor: dict[str, Gate],
    kernel: np.ndarray,
    evolution: dict[str, Gate],
    kind: str,
) -> tuple[np.ndarray, np.ndarray]:
    """h'_T of one row's real events (n, dim), and a: Zhou et al. 2019, interest layers."""
    interests = states(events, extractor)
    scores = np.array([general(query, state, kernel) for state in interests])
    weights = attention_weights(scores, "softmax")
    if not len(events):
        return np.zeros(interests.shape[1]), weights
    return states(interests, evolution, weights, kind)[-1], weights


def next_event_loss(
    rows: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]],
) -> float:
    """Zhou et al. 2019, Eq. 6, as a mean over events: each row's h, e and negatives."""

    def log_sigmoid(x: float) -> float:
        return -np.logaddexp(0, -x)

    losses = []
    for row_states, events, negatives in rows:
        for t in range(len(events) - 1):
            loss = -log_sigmoid(row_states[t] @ events[t + 1])
            if len(negatives):
                loss -= np.mean(
                    [log_sigmoid(-(row_states[t] @ negative)) for negative in negatives]
                )
            losses.append(loss)
    return float(np.mean(losses)) if losses else 0.0
