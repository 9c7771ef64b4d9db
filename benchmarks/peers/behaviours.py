# SPDX-License-Identifier: Apache-2.0
"""The planted data set `beh`, users with histories, that runners of din, dien and bst train on.

    python benchmarks/peers/behaviours.py --rows 100000 --out build/peers/beh_100000.npz

50,000 users, `rows` items in 1,000 categories, Zipf (exponent 1.1). A row has a candidate and 1 to
50 past events, 20 in the mean, each an item and its category; half of them are of one category,
which is the candidate's in half of the rows. The click's logit is planted:

    z = b + q_item + s · min(c, 4) / 4,    c the past events of the candidate's category

so that the AUC of z on the test rows is the best that a model can have.
"""

import argparse
from pathlib import Path

import numpy as np
from data import FIRST_ID, zipf
from sequence_task import BEST_LOGIT, LABEL, Columns, Schema, write_task

USERS, CATEGORIES, MAX_ITEMS = 50_000, 1_000, 50
TRAIN_ROWS, TEST_ROWS = 100_000, 20_000
EXPONENT, ENOUGH = 1.1, 4
QUALITY_STDDEV, STRENGTH, BIAS = 0.5, 2.5, -2.5
DIM, HIDDEN_UNITS = 16, (200, 80)


def make(rows: int, seed: int = 1) -> tuple[Schema, dict[str, Columns]]:
    """Return the data set: what its columns are, and the columns of train and test.

    Args:
        rows: Items.
        seed: Of everything that is drawn.
    """
    rng = np.random.default_rng(seed)
    size = TRAIN_ROWS + TEST_ROWS
    each = rows // CATEGORIES
    lengths = np.clip(rng.gamma(2.5, 8.2, size), 1, MAX_ITEMS).astype(np.int32)
    real = np.arange(MAX_ITEMS) < lengths[:, None]
    favourite = rng.integers(CATEGORIES, size=size)
    category = zipf(rng, EXPONENT, CATEGORIES, size)
    category = np.where(rng.random(size) < 0.5, favourite, category)
    past = zipf(rng, EXPONENT, CATEGORIES, real.size).reshape(real.shape)
    past = np.where(rng.random(real.shape) < 0.5, favourite[:, None], past)
    item = category * each + zipf(rng, EXPONENT, each, size)
    past_items = past * each + zipf(rng, EXPONENT, each, real.size).reshape(real.shape)
    matches = np.sum(real & (past == category[:, None]), axis=1)
    logits = BIAS + rng.normal(0, QUALITY_STDDEV, rows)[item]
    logits += STRENGTH * np.minimum(matches, ENOUGH) / ENOUGH
    columns = {
        "user": rng.integers(USERS, size=size) + FIRST_ID,
        "item": item + FIRST_ID,
        "category": category + FIRST_ID,
        "past_item": np.where(real, past_items + FIRST_ID, 0),
        "past_category": np.where(real, past + FIRST_ID, 0),
        "past_length": lengths,
        LABEL: rng.random(size) < 1 / (1 + np.exp(-logits)),
    }
    columns = {name: array.astype(np.int32) for name, array in columns.items()}
    columns[BEST_LOGIT] = logits.astype(np.float32)
    parts = {"train": slice(None, TRAIN_ROWS), "test": slice(TRAIN_ROWS, None)}
    schema = Schema(
        fields={
            "user": USERS + FIRST_ID,
            "item": rows + FIRST_ID,
            "category": CATEGORIES + FIRST_ID,
        },
        lists={},
        channels={"past_item": "item", "past_category": "category"},
        length="past_length",
        max_items=MAX_ITEMS,
        embedding_dim=DIM,
        hidden_units=HIDDEN_UNITS,
    )
    return schema, {
        part: {name: array[chosen] for name, array in columns.items()}
        for part, chosen in parts.items()
    }


def main() -> None:
    """Write the data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    write_task(arguments.out, *make(arguments.rows))


if __name__ == "__main__":
    main()
