# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.pooling import attention_weights


def position_encoding(words: int, dim: int) -> np.ndarray:
    """MemN2N paper, §4.1: l_kj = (1 - j/J) - (k/d)(1 - 2j/J), counted from 1, as (j, k)."""
    table = np.zeros((words, dim))
    for j in range(1, words + 1):
        for k in range(1, dim + 1):
            table[j - 1, k - 1] = (1 - j / words) - (k / dim) * (1 - 2 * j / words)
    return table


def encoded(words: Sequence[np.ndarray], places: np.ndarray) -> np.ndarray:
    """Σ_j l_j ∘ x_j."""
    total = np.zeros(places.shape[1])
    for word, place in zip(words, places, strict=True):
        total = total + place * word
    return total


def with_time(memories: np.ndarray, time: np.ndarray) -> np.ndarray:
    """m_i + T(i), the last memory being the newest and T(0) its; the last T serves all older."""
    aged = [
        memory + time[min(len(memories) - 1 - i, len(time) - 1)]
        for i, memory in enumerate(memories)
    ]
    return np.array(aged).reshape(memories.shape)


def answer(
    question: np.ndarray,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    matrix: np.ndarray | None = None,
    linear: bool = False,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """§2.1, Eq. 1 and 2, §2.2, Eq. 4: u^{K+1} and p of every hop.

    Args:
        question: u^1 (dim,).
        inputs: A^k of the real memories (n, dim) for each hop, time included.
        outputs: C^k likewise.
        matrix: H of layer-wise tying, applied to rows from the right.
        linear: Without soft-max.
    """
    u, by_hop = question, []
    for a, c in zip(inputs, outputs, strict=True):
        scores = np.array([u @ memory for memory in a])
        p = scores if linear else attention_weights(scores, "softmax")
        o = np.zeros(len(u))
        for weight, memory in zip(p, c, strict=True):
            o = o + weight * memory
        u = o + (u if matrix is None else u @ matrix)
        by_hop.append(p)
    return u, by_hop
