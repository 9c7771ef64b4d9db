# SPDX-License-Identifier: Apache-2.0
import numpy as np


def sinusoidal(position: int, dim: int) -> np.ndarray:
    """Vaswani et al. 2017, §3.5."""
    encoding = np.zeros(dim)
    for i in range(dim):
        angle = position / 10000 ** (2 * (i // 2) / dim)
        encoding[i] = np.sin(angle) if i % 2 == 0 else np.cos(angle)
    return encoding
