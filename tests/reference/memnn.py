# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.pooling import attention_weights


def store(ids: Sequence[int], num_slots: int) -> list[int | None]:
    """Weston et al. 2015, §2, Eq. 1: event after event replaces what its slot held."""
    slots: list[int | None] = [None] * num_slots
    for place, key in enumerate(ids):
        slots[key % num_slots] = place
    return slots


def supports(
    question: np.ndarray,
    scored: np.ndarray,
    chosen: np.ndarray,
    count: int,
    gated: bool,
) -> tuple[np.ndarray, list[int], list[float]]:
    """§3.1, Eq. 2 to 4: q after all choices, the choices, and p of each.

    Args:
        question: x (dim,).
        scored: y of the memories (n, dim), time included.
        chosen: z of the memories (n, dim).
        count: Number of choices.
        gated: Whether a chosen memory is multiplied by its soft-max weight.
    """
    q, places, by_choice = question, [], []
    for _ in range(count if len(scored) else 0):
        scores = [q @ y for y in scored]
        best = max(range(len(scores)), key=scores.__getitem__)
        p = attention_weights(np.array(scores), "softmax")[best] if gated else 1.0
        q = q + p * chosen[best]
        places.append(best)
        by_choice.append(p)
    return q, places, by_choice


def fact_loss(scores: np.ndarray, fact: int, margin: float) -> float:
    """§3.1, Eq. 6 or 7 for one question: Σ over the other memories."""
    others = [score for place, score in enumerate(scores) if place != fact]
    return sum(max(0.0, margin - scores[fact] + score) for score in others)


def ranking_loss(
    scores: Sequence[float], labels: Sequence[int], margin: float, negatives: int
) -> float:
    """§3.1, Eq. 8 with drawn responses those of the next rows: mean over pairs."""
    hinges = []
    for row in range(len(scores)):
        for apart in range(1, negatives + 1):
            other = (row + apart) % len(scores)
            if labels[row] != labels[other]:
                better, worse = (row, other) if labels[row] else (other, row)
                hinges.append(max(0.0, margin - scores[better] + scores[worse]))
    return sum(hinges) / max(len(hinges), 1)
