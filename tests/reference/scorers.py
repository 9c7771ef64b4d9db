# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.pooling import attention_weights


def general(query: np.ndarray, key: np.ndarray, kernel: np.ndarray) -> float:
    """Luong et al. 2015, Eq. 8: q W k."""
    total = 0.0
    for i, q in enumerate(query):
        for j, k in enumerate(key):
            total += q * kernel[i, j] * k
    return total


def additive(
    query: np.ndarray,
    query_kernel: np.ndarray,
    keys: Sequence[tuple[np.ndarray, np.ndarray]],
    projection: np.ndarray,
) -> float:
    """Bahdanau et al. 2015, §A.1.2: v · tanh(W_s s + Σ W_f f) of parts f of a key and their W_f.

    A key of one part is the paper's; event, rank and gap are with locations on two axes.
    """
    total = np.zeros(len(projection))
    for u in range(len(projection)):
        total[u] = np.dot(query, query_kernel[:, u])
        for part, kernel in keys:
            total[u] += np.dot(part, kernel[:, u])
    return float(np.dot(projection, np.tanh(total)))


def multi_head_pooling(
    query: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    heads: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]],
    normalisation: str = "softmax",
) -> tuple[np.ndarray, np.ndarray]:
    """Vaswani et al. 2017, §3.2.2, for one query: keys (n, dim), values (n, values' dim).

    Each head has (W^Q, W^K, W^V, its rows of W^O). Returns the joined heads and their weights.
    """
    joined, all_weights = np.zeros(heads[0][3].shape[1]), []
    for w_q, w_k, w_v, w_o in heads:
        scores = np.array([np.dot(query @ w_q, key @ w_k) / np.sqrt(w_q.shape[1]) for key in keys])
        weights = attention_weights(scores, normalisation)
        head = np.zeros(w_v.shape[1])
        for weight, value in zip(weights, values, strict=True):
            head = head + weight * (value @ w_v)
        joined = joined + head @ w_o
        all_weights.append(weights)
    return joined, np.array(all_weights)
