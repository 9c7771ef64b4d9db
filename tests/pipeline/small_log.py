# SPDX-License-Identifier: Apache-2.0
"""A small generated log with its features, and the rows that `ingest` makes of it."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

PARTS = ("train", "valid", "test")
DAY = 86_400
FEATURES = {
    "item": {"kind": "categorical", "min_count": 3},
    "user": {"kind": "categorical", "hash_buckets": 50},
    "tags": {"kind": "categorical", "separator": "|", "max_items": 2},
    "price": {"kind": "numeric", "log": True, "missing_flag": True},
    "age": {"kind": "bucketed", "edges": [18, 30]},
    "hour": {"kind": "datetime", "column": "ts", "unit": "s", "part": "hour"},
    "clicks": {"kind": "history", "of": ["item"], "max_items": 3},
}


def make_log(rows=600, seed=0):
    """A log in random order: 10 days, many rows at one moment, missing values, rare items."""
    rng = np.random.default_rng(seed)
    log = pd.DataFrame(
        {
            "id": np.arange(rows),
            "ts": rng.integers(0, 10 * DAY // 600, rows) * 600,
            "user": rng.integers(0, 12, rows),
            "item": [f"i{n}" for n in rng.geometric(0.08, rows)],
            "tags": rng.choice(["", "a", "b|a", "c|b|a"], rows),
            "price": rng.lognormal(2, 1, rows).round(2),
            "age": rng.integers(10, 60, rows).astype(float),
            "y": rng.integers(0, 2, rows),
        }
    )
    log.loc[rng.random(rows) < 0.1, "price"] = np.nan
    log.loc[rng.random(rows) < 0.1, "age"] = np.nan
    return log


def read_parts(dataset):
    tables = {part: pq.read_table(dataset / part) for part in PARTS}
    frames = {part: table.to_pandas() for part, table in tables.items()}
    for part, frame in frames.items():
        frame["part"] = part
        frame["id"] = frame["key:id"].astype(int)
    return pd.concat(frames.values()).set_index("id").sort_index()
