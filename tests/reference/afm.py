# SPDX-License-Identifier: Apache-2.0
import numpy as np


def pair_attention(
    vectors: np.ndarray, kernel: np.ndarray, bias: np.ndarray, projection: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Xiao et al. 2017, Eq. 4 and 5, of one row: the pooled vector, and a_ij for i < j.

    vectors (fields, dim) of x_i v_i, kernel (dim, units) so that W p is `p @ kernel`, bias and
    projection (units,). Fields that are all zero have no value, and form no pairs.
    """
    fields, dim = vectors.shape
    pairs, scores, products = [], [], []
    for j in range(fields):
        for i in range(j):
            if not vectors[i].any() or not vectors[j].any():
                continue
            product = vectors[i] * vectors[j]
            hidden = np.maximum(product @ kernel + bias, 0.0)
            pairs.append((i, j))
            products.append(product)
            scores.append(np.dot(projection, hidden))
    weights, pooled = np.zeros((fields, fields)), np.zeros(dim)
    if pairs:
        powers = np.exp(np.array(scores) - max(scores))
        for (i, j), product, power in zip(pairs, products, powers, strict=True):
            weights[i, j] = power / powers.sum()
            pooled = pooled + weights[i, j] * product
    return pooled, weights
