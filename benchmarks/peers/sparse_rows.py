# SPDX-License-Identifier: Apache-2.0
"""The data set as a sparse matrix, as libffm and its kin take it."""

import numpy as np
from runner import Rows
from scipy import sparse


def matrix(rows: Rows, field_size: int) -> sparse.csr_matrix:
    """Return rows as one sparse matrix, ids one-hot and then the numbers."""
    count, fields = rows.ids.shape
    numbers = rows.numbers.shape[1]
    places = rows.ids + field_size * np.arange(fields)
    last = np.tile(np.arange(numbers) + fields * field_size, (count, 1))
    indices = np.concatenate([places, last], axis=1).astype(np.int32)
    values = np.concatenate([np.ones((count, fields), np.float32), rows.numbers], axis=1)
    starts = np.arange(count + 1) * (fields + numbers)
    shape = (count, fields * field_size + numbers)
    return sparse.csr_matrix((values.ravel(), indices.ravel(), starts), shape)


def field_ids(rows: Rows, field_size: int) -> np.ndarray:
    """Return the field of every column of `matrix`."""
    fields, numbers = rows.ids.shape[1], rows.numbers.shape[1]
    return np.concatenate([np.repeat(np.arange(fields), field_size), fields + np.arange(numbers)])
