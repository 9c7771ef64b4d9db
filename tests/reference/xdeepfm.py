# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np


def compressed_interaction(fields: np.ndarray, kernels: Sequence[np.ndarray]) -> np.ndarray:
    """Lian et al. 2018, Eq. 6 and 7, of one row: p⁺ of X^0 = fields (fields, dim).

    kernels[k][j, i, h] = W^{k,h}_ij, the weight of X^{k-1}_i ⊙ X^0_j in map h.
    """
    maps, sums = fields, []
    for kernel in kernels:
        new = np.zeros((kernel.shape[2], fields.shape[1]))
        for h in range(kernel.shape[2]):
            for i in range(len(maps)):
                for j in range(len(fields)):
                    new[h] += kernel[j, i, h] * maps[i] * fields[j]
        maps = new
        sums.append(maps.sum(axis=1))
    return np.concatenate(sums)
