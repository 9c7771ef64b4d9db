# SPDX-License-Identifier: Apache-2.0
from typing import NamedTuple

import numpy as np


class Gate(NamedTuple):
    """W, U and b of one gate; they act from the right."""

    kernel: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(
    event: np.ndarray,
    state: np.ndarray,
    gates: dict[str, Gate],
    attention: float | None = None,
    kind: str = "gru",
) -> np.ndarray:
    """One step of Zhou et al. 2019, Eq. 2 to 5, or of its AIGRU, AGRU or AUGRU."""
    if kind == "aigru":
        event = attention * event

    def total(name: str) -> np.ndarray:
        return event @ gates[name].kernel + gates[name].bias

    reset = _sigmoid(total("reset") + state @ gates["reset"].recurrent)
    candidate = np.tanh(total("candidate") + reset * (state @ gates["candidate"].recurrent))
    if kind == "agru":
        return (1 - attention) * state + attention * candidate
    update = _sigmoid(total("update") + state @ gates["update"].recurrent)
    if kind == "augru":
        update = attention * update
    return (1 - update) * state + update * candidate


def states(
    events: np.ndarray,
    gates: dict[str, Gate],
    attention: np.ndarray | None = None,
    kind: str = "gru",
    initial: np.ndarray | None = None,
) -> np.ndarray:
    """h_1 … h_n of one row's real events (n, dim)."""
    units = gates["reset"].recurrent.shape[0]
    state = np.zeros(units) if initial is None else initial
    found = []
    for t, event in enumerate(events):
        state = step(event, state, gates, None if attention is None else attention[t], kind)
        found.append(state)
    return np.array(found).reshape(len(events), units)
