# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


def dice(s: np.ndarray, alpha: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """DIN paper, Eq. 9: p(s) s + (1 - p(s)) α s, with ε = 1e-8."""
    z = (s - mean) / np.sqrt(variance + 1e-8)
    p = (1 + np.tanh(z / 2)) / 2  # the sigmoid of z without overflow
    return p * s + (1 - p) * alpha * s


class Layer(NamedTuple):
    """f(x W + b); without f linear."""

    kernel: np.ndarray
    bias: np.ndarray
    function: Callable[[np.ndarray], np.ndarray] = lambda s: s


def mlp(x: np.ndarray, layers: Sequence[Layer]) -> np.ndarray:
    """One vector through the layers."""
    for layer in layers:
        x = layer.function(x @ layer.kernel + layer.bias)
    return x
