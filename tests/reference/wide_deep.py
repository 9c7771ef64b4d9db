# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.mlp import Layer, mlp


def wide_deep_logit(
    wide: float, vectors: np.ndarray, numbers: np.ndarray, layers: Sequence[Layer]
) -> float:
    """Cheng et al. 2016, Eq. 3, of one row before the sigmoid."""
    return wide + mlp(np.concatenate([vectors.reshape(-1), numbers]), layers).item()
