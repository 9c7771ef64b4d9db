# SPDX-License-Identifier: Apache-2.0
"""How strongly each embedding row of a batch is pulled towards zero."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from features.schema import FeatureSchema
from pipeline.batches import read_batches
from pipeline.config_train import TrainConfig

_ROWS = 16_384
"""Rows counted at a time."""


def table_penalties(
    config: TrainConfig, schema: FeatureSchema, train: Path
) -> Mapping[str, float | np.ndarray]:
    """Return λ by table: one number, or with `table_l2_by_count` λ / n_j for each row j.

    Args:
        config: Says λ and whether to divide.
        schema: Features that the model uses.
        train: Folder of the encoded training rows, which are counted if need be.

    References:
        Zhou et al., Deep Interest Network for Click-Through Rate Prediction, KDD 2018, §5.1,
        Eq. 4 to 6, where n_j is the number of training rows that hold id j.
    """
    penalty = config.table_l2
    by_table = penalty if isinstance(penalty, dict) else {t.name: penalty for t in schema.tables}
    if not config.table_l2_by_count or not any(by_table.values()):
        return by_table
    counts = rows_with_each_id(train, schema)
    # an id of no training row is in no batch
    return {
        name: (strength / np.maximum(counts[name], 1)).astype(np.float32)
        for name, strength in by_table.items()
    }


def rows_with_each_id(folder: Path, schema: FeatureSchema) -> dict[str, np.ndarray]:
    """Return how many rows of a folder hold each id, int64 (rows of the table,), by table.

    A row counts once however many columns of a table, or places of a list, hold the id.

    Args:
        folder: With Parquet files as `ingest` writes them.
        schema: Features to read.
    """
    counts = {table.name: np.zeros(table.rows, np.int64) for table in schema.tables}
    for batch in read_batches(folder, schema, _ROWS, carry=()):
        for name, found in counts.items():
            columns = [batch[key] for key, table in schema.id_columns() if table == name]
            ids = np.concatenate([column.reshape(len(column), -1) for column in columns], axis=1)
            ids.sort(axis=1)
            first = np.ones(ids.shape, bool)
            first[:, 1:] = ids[:, 1:] != ids[:, :-1]
            values, times = np.unique(ids[first], return_counts=True)
            found[values] += times
    return counts
