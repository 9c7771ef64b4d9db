# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np

from tests.reference.fm import pair_vector
from tests.reference.mlp import Layer, mlp


def nfm_logit(linear: float, vectors: np.ndarray, layers: Sequence[Layer]) -> float:
    """He & Chua 2017, Eq. 7, of one row: linear part, vectors of x_i v_i (fields, dim)."""
    return linear + mlp(pair_vector(vectors), layers).item()
