# SPDX-License-Identifier: Apache-2.0
"""Time and memory of a training step against the length of histories.

    python benchmarks/long_histories.py
    python benchmarks/long_histories.py --models din dien --lengths 250 500 1000

Every row's history is full. Each model and length is measured in a process of its own, for its peak
memory, which includes what TensorFlow takes before any model is built. Time is processor time of a
step, so that other programs on the machine disturb it less. Prints the table of the README.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

from features.schema import Categorical, Channel, FeatureSchema, History, Table
from models.optimizers import RowAdam
from models.registry import MODELS, build
from pipeline.batches import compact
from pipeline.train_step import TrainStep

MODELS_AT = {
    "din": ("din", {}),
    "dien": ("dien", {}),
    "memn2n": ("memn2n", {}),
    "dmn": ("dmn", {}),
    "kvmemnn": ("kvmemnn", {}),
    "kvmemnn, simhash": ("kvmemnn", {"key_hashing": "simhash"}),
    "kvmemnn, same_key": ("kvmemnn", {"key_hashing": "same_key"}),
    "bst": ("bst", {}),
    "transformer": ("transformer", {}),
    "sasrec": ("sasrec", {}),
}
"""What is measured: a name, the kind of model, its options."""
ROWS = {"item": 100_000, "category": 1_000}


def long_schema(length: int) -> FeatureSchema:
    """Candidate item and category, and a history of both."""
    channels = tuple(Channel(name=f"h_{name}", table=name, target=name) for name in ROWS)
    return FeatureSchema(
        tables=tuple(Table(name=name, rows=rows) for name, rows in ROWS.items()),
        features=(
            *(Categorical(name=name, table=name) for name in ROWS),
            History(name="h", channels=channels, max_items=length),
        ),
    )


def long_batch(length: int, size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Zipf ids, and histories that are full."""
    batch = {
        "label": (rng.random(size) < 0.2).astype(np.int8),
        "weight": np.ones(size, np.float32),
        "h_length": np.full(size, length, np.int32),
    }
    for name, rows in ROWS.items():
        drawn = 3 + (rng.zipf(1.2, (size, length + 1)) - 1) % (rows - 3)
        batch[name] = drawn[:, 0].astype(np.int32)
        batch[f"h_{name}"] = drawn[:, 1:].astype(np.int32)
    return batch


def measure(name: str, length: int, batch_size: int, steps: int) -> dict[str, float]:
    """Return the milliseconds of a step and the peak memory in GiB of one model and length."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    kind, options = MODELS_AT[name]
    schema, optimizer = long_schema(length), RowAdam()
    model = build(kind, schema, MODELS[kind].config(**options), tuple(optimizer.slot_values))
    rng = np.random.default_rng(1)
    model.build_from({k: tf.constant(v[:2]) for k, v in long_batch(length, 2, rng).items()})
    step = TrainStep(model, optimizer, keras.optimizers.Adam(1e-3))
    times = []
    for number in range(1, steps + 2):
        batch = compact(long_batch(length, batch_size, rng), model, 1)
        started = time.process_time()
        float(step(batch, number))
        times.append(time.process_time() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # the first one compiles
    return {"ms": 1e3 * statistics.median(times[1:]), "peak": peak}


def main() -> None:
    """Read the arguments; measure here, or in processes of their own, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS_AT, default=list(MODELS_AT))
    parser.add_argument("--lengths", type=int, nargs="+", default=[125, 250, 500, 1000])
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    args = parser.parse_args()
    size = ["--batch", str(args.batch), "--steps", str(args.steps)]
    if args.here:
        for name in args.models:
            for length in args.lengths:
                print(json.dumps(measure(name, length, args.batch, args.steps)))
        return
    print(f"| model | {' | '.join(f'{n:,}' for n in args.lengths)} |", flush=True)
    print(f"|---{'|---' * len(args.lengths)}|", flush=True)
    for name in args.models:
        print(f"| {name} ", end="", flush=True)
        for length in args.lengths:
            command = [sys.executable, "-m", "benchmarks.long_histories", "--here", *size]
            command += ["--models", name, "--lengths", str(length)]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            found = json.loads(output.splitlines()[-1])
            print(f"| {found['ms']:,.0f} ms, {found['peak']:.1f} GiB ", end="", flush=True)
        print("|", flush=True)


if __name__ == "__main__":
    main()
