# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.fm import pair_vector
from tests.reference.mlp import Layer, mlp


def deepfm_logit(
    linear: float, vectors: np.ndarray, numbers: np.ndarray, layers: Sequence[Layer]
) -> float:
    """Guo et al. 2017, Eq. 1 to 4, of one row before the sigmoid.

    The linear part, vectors of x_i v_i (fields, dim), numbers that enter the MLP as they are.
    """
    inputs = np.concatenate([vectors.reshape(-1), numbers])
    return linear + pair_vector(vectors).sum() + mlp(inputs, layers).item()
