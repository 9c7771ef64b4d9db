# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.pooling import attention_weights


def answer(
    question: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    matrices: Sequence[np.ndarray],
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Miller et al. 2016, §3.1: q_{H+1} and p of every hop.

    Args:
        question: q_1 (dim,).
        keys: Of the real memories, (n, dim).
        values: Likewise.
        matrices: R_j of every hop, applied to rows from the right.
    """
    q, by_hop = question, []
    for matrix in matrices:
        p = attention_weights(np.array([q @ key for key in keys]), "softmax")
        o = np.zeros(len(q))
        for weight, value in zip(p, values, strict=True):
            o = o + weight * value
        q = (q + o) @ matrix
        by_hop.append(p)
    return q, by_hop


def sharing(events: Sequence[Sequence[int]], asked: Sequence[int], most: int) -> list[int]:
    """Places of the events that share an id > 1 with the question, field by field, newest first."""
    found = [
        place
        for place, ids in enumerate(events)
        if any(a == b and a > 1 for a, b in zip(ids, asked, strict=True))
    ]
    return found[::-1][:most]


def near(
    keys: np.ndarray, question: np.ndarray, normals: np.ndarray, distance: int, most: int
) -> list[int]:
    """Places of the keys on the question's side of all but `distance` hyperplanes, newest first."""
    found = []
    for place, key in enumerate(keys):
        apart = sum((key @ n >= 0) != (question @ n >= 0) for n in normals.T)
        if apart <= distance:
            found.append(place)
    return found[::-1][:most]
