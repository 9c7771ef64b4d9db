# SPDX-License-Identifier: Apache-2.0
"""Time of one training step: models against table sizes and history lengths.

    python benchmarks/train_step.py fm --rows 100000 1000000 10000000
    python benchmarks/train_step.py din --threads 1

Prints a line per size: milliseconds (median), examples per second, and peak memory.
`tab`: 26 Zipf categorical fields and 13 numbers; `beh`: candidate item and category, a history of
1 to 50 events of both. One thread unless told otherwise, as figures of other systems are.
"""

import argparse
import os
import resource
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from features.schema import Categorical, Channel, FeatureSchema, History, Numeric, Table
from models.optimizers import RowAdam
from models.registry import MODELS, build, check
from pipeline.batches import compact
from pipeline.train_step import TrainStep

FIELDS, NUMBERS, ITEMS, MAX_ITEMS = 26, 13, 100_000, 50


def tab_schema(rows: int) -> FeatureSchema:
    """26 categorical fields with `rows` ids in all, and 13 numbers."""
    tables = tuple(Table(name=f"c{i}", rows=max(rows // FIELDS, 4)) for i in range(FIELDS))
    fields = [Categorical(name=table.name, table=table.name) for table in tables]
    return FeatureSchema(
        tables=tables, features=(*fields, *(Numeric(name=f"n{i}") for i in range(NUMBERS)))
    )


def beh_schema(rows: int) -> FeatureSchema:
    """User, candidate item and category, and a history of 50 (item, category) events."""
    tables = (
        Table(name="user", rows=50_000),
        Table(name="item", rows=rows),
        Table(name="category", rows=1_000),
    )
    channels = tuple(Channel(name=f"h_{n}", table=n, target=n) for n in ("item", "category"))
    fields = [Categorical(name=table.name, table=table.name) for table in tables]
    history = History(name="h", channels=channels, max_items=MAX_ITEMS)
    return FeatureSchema(tables=tables, features=(*fields, history))


def make_batch(schema: FeatureSchema, size: int, rng: np.random.Generator) -> dict:
    """Random ids (Zipf), numbers and histories of 1 … 50 events, mean 20.5."""
    sizes = {table.name: table.rows for table in schema.tables}

    def ids(table: str, shape: tuple[int, ...]) -> np.ndarray:
        drawn = rng.zipf(1.2, shape) - 1
        return (3 + drawn % (sizes[table] - 3)).astype(np.int32)

    batch = {
        "label": (rng.random(size) < 0.2).astype(np.int8),
        "weight": np.ones(size, np.float32),
    }
    for feature in schema.categorical:
        batch[feature.name] = ids(feature.table, (size,))
    for feature in schema.numeric:
        batch[feature.name] = rng.standard_normal(size).astype(np.float32)
    for history in schema.histories:
        lengths = np.clip(rng.gamma(2.5, 8.2, size), 1, MAX_ITEMS).astype(np.int32)
        real = np.arange(MAX_ITEMS) < lengths[:, None]
        for channel in history.channels:
            batch[channel.name] = np.where(real, ids(channel.table, real.shape), 0).astype(np.int32)
        batch[f"{history.name}_length"] = lengths
    return batch


def measure(kind: str, rows: int, batch_size: int, steps: int, xla: bool) -> None:
    """Print the time of a step of one model at one table size."""
    keras.utils.set_random_seed(1)
    config = MODELS[kind].config()
    of_histories = kind == "base" or check(kind, tab_schema(rows), config)
    schema = (beh_schema if of_histories else tab_schema)(rows)
    optimizer = RowAdam()
    model = build(kind, schema, config, tuple(optimizer.slot_values))
    rng = np.random.default_rng(1)
    batches = [make_batch(schema, batch_size, rng) for _ in range(8)]
    model.build_from({k: tf.constant(v[:2]) for k, v in batches[0].items()})
    step = TrainStep(model, optimizer, keras.optimizers.Adam(1e-3), xla=xla)
    times = []
    for i in range(steps + 3):
        started = time.perf_counter()
        batch = compact(batches[i % len(batches)], model, 16)
        float(step(batch, i + 1))
        times.append(time.perf_counter() - started)
    median = statistics.median(times[3:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{kind} rows={rows:,} batch={batch_size} xla={xla}: {median * 1e3:.1f} ms/step "
        f"(min {min(times[3:]) * 1e3:.1f}), {batch_size / median:,.0f} examples/s, "
        f"peak {peak:.2f} GiB",
        flush=True,
    )


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=list(MODELS))
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-xla", action="store_true")
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(arguments.threads)
    for rows in arguments.rows:
        measure(arguments.kind, rows, arguments.batch, arguments.steps, not arguments.no_xla)


if __name__ == "__main__":
    main()
