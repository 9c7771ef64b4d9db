# SPDX-License-Identifier: Apache-2.0
"""The planted data set `tab` that every runner trains and is tested on.

    python benchmarks/peers/data.py --rows 100000 --out build/peers/tab_100000.npz

26 categorical fields of `rows` ids in all, drawn from Zipf distributions (exponent 1.05 to 1.3 by
field), and 13 standard normal numbers. The click's logit is planted and FM-like:

    z = b + Σ_i w_i + Σ_n u_n x_n + Σ_{i<j} <v_i, v_j>

over the categorical fields, with weights and vectors (length 4) of each id's own; the click is
drawn from σ(z), so that the AUC of σ(z) on the test rows is the best that a model can have. Ids
start at 2, as in the pipeline: 0 is padding, 1 stands for a missing value.
"""

import argparse
from pathlib import Path

import numpy as np

FIELDS, NUMBERS, FIRST_ID = 26, 13, 2
TRAIN_ROWS, TEST_ROWS = 200_000, 50_000
VECTOR_DIM = 4
LINEAR_STDDEV, PAIR_STDDEV, NUMBER_STDDEV = 0.22, 0.8, 0.14  # of the three parts of z, over rows


def field_size(rows: int) -> int:
    """Return the number of ids of one field, those of padding and missing values included."""
    return max(rows // FIELDS, FIRST_ID + 2)


def zipf(rng: np.random.Generator, exponent: float, ids: int, size: int) -> np.ndarray:
    """Return draws from 0 … ids - 1 with P(k) ∝ (k + 1)^-exponent."""
    cumulative = np.cumsum(np.arange(1, ids + 1, dtype=np.float64) ** -exponent)
    return np.searchsorted(cumulative, rng.random(size) * cumulative[-1])


def make(rows: int, seed: int = 1) -> dict[str, np.ndarray]:
    """Return the data set: `ids`, `numbers`, `labels` and `best` (the planted z), train rows first.

    Args:
        rows: Ids of all fields together.
        seed: Of everything that is drawn.
    """
    rng = np.random.default_rng(seed)
    size, ids = TRAIN_ROWS + TEST_ROWS, field_size(rows) - FIRST_ID
    drawn = np.empty((size, FIELDS), np.int32)
    numbers = rng.standard_normal((size, NUMBERS), np.float32)
    logits = numbers @ rng.normal(0, NUMBER_STDDEV, NUMBERS)
    total, squares = np.zeros((size, VECTOR_DIM)), np.zeros(size)
    for i, exponent in enumerate(np.linspace(1.05, 1.3, FIELDS)):
        drawn[:, i] = zipf(rng, exponent, ids, size)
        logits += rng.normal(0, LINEAR_STDDEV, ids)[drawn[:, i]]
        vectors = rng.normal(0, 1, (ids, VECTOR_DIM))[drawn[:, i]]
        total += vectors
        squares += np.sum(vectors**2, axis=1)
    pairs = (np.sum(total**2, axis=1) - squares) / 2
    logits += PAIR_STDDEV * (pairs - pairs.mean()) / pairs.std()
    logits -= logits.mean() + 1.2
    labels = rng.random(size) < 1 / (1 + np.exp(-logits))
    return {
        "ids": drawn + FIRST_ID,
        "numbers": numbers,
        "labels": labels.astype(np.int8),
        "best": logits.astype(np.float32),
        "rows": np.array(rows),
    }


def main() -> None:
    """Write the data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez(arguments.out, **make(arguments.rows))


if __name__ == "__main__":
    main()
