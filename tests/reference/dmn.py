# SPDX-License-Identifier: Apache-2.0
from typing import NamedTuple

import numpy as np

from tests.reference.pooling import attention_weights


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + e⁻ˣ)."""
    return 1 / (1 + np.exp(-x))


class GRU(NamedTuple):
    """W (width, 3 units), U (units, 3 units) and b (3 units,), each of z, r, h side by side."""

    w: np.ndarray
    u: np.ndarray
    b: np.ndarray

    def __call__(self, x: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Kumar et al. 2016, §2.1, Eq. 1 to 4."""
        n = len(h)
        z = sigmoid(x @ self.w[:, :n] + h @ self.u[:, :n] + self.b[:n])
        r = sigmoid(x @ self.w[:, n : 2 * n] + h @ self.u[:, n : 2 * n] + self.b[n : 2 * n])
        new = np.tanh(x @ self.w[:, 2 * n :] + r * (h @ self.u[:, 2 * n :]) + self.b[2 * n :])
        return z * h + (1 - z) * new


class Gate(NamedTuple):
    """W^(b), W^(1), b^(1), W^(2), b^(2)."""

    wb: np.ndarray
    w1: np.ndarray
    b1: np.ndarray
    w2: np.ndarray
    b2: float

    def score(self, c: np.ndarray, m: np.ndarray, q: np.ndarray) -> float:
        """§2.3, Eq. 5 and 6, before the sigmoid: z is built as the plain concatenation."""
        bilinear = [[c @ self.wb @ q], [c @ self.wb @ m]]
        z = np.concatenate([c, m, q, c * q, c * m, np.abs(c - q), np.abs(c - m), *bilinear])
        return float(self.w2 @ np.tanh(z @ self.w1 + self.b1) + self.b2)


class DMN(NamedTuple):
    """All modules."""

    inputs: GRU
    question: GRU
    gate: Gate
    attention: GRU
    memory: GRU
    answer: GRU

    def __call__(
        self, v: np.ndarray, events: np.ndarray, episodes: int, normalisation: str = "sigmoid"
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """§2: the answer, and the gates of every episode, from real events (n, width)."""
        nothing = np.zeros(len(self.inputs.u))
        facts, state = [], nothing
        for event in events:
            state = self.inputs(event, state)
            facts.append(state)
        q = m = self.question(v, nothing)
        by_episode = []
        for _ in range(episodes):
            scores = np.array([self.gate.score(c, m, q) for c in facts])
            gates = attention_weights(scores, normalisation)
            h = nothing
            for g, c in zip(gates, facts, strict=True):
                h = g * self.attention(c, h) + (1 - g) * h  # Eq. 7
            m = self.memory(h, m)  # Eq. 8: the episode is the last state
            by_episode.append(gates)
        return self.answer(q, m), by_episode
