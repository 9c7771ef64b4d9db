# SPDX-License-Identifier: Apache-2.0
"""The same FM trained by our step and by `keras.Model.fit` with Adam, in one run.

    python benchmarks/keras_fit.py --rows 1000000

26 Zipf categorical fields and 13 numbers, dim 16, batch 4,096, one thread. Keras' table is one
`keras.layers.Embedding` of vectors and weights side by side, as ours is; its pair term is the same
layer. Prints examples per second of both, after the first steps, and their ratio.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from train_step import make_batch, tab_schema

from features.schema import FeatureSchema
from models.layers.interactions import pairwise_sum
from models.optimizers import RowAdam
from models.registry import MODELS, build
from pipeline.train_step import TrainStep

DIM, BATCH = 16, 4096


class KerasFM(keras.Model):
    """FM on one stacked id matrix (batch, fields) and numbers (batch, numbers)."""

    def __init__(self, rows: int, numbers: int) -> None:
        super().__init__()
        initializer = keras.initializers.RandomNormal(stddev=0.01)
        self.table = keras.layers.Embedding(rows, DIM + 1, embeddings_initializer=initializer)
        self.numeric = self.add_weight(shape=(numbers, DIM + 1), initializer=initializer)
        self.bias = self.add_weight(shape=(), initializer="zeros")

    def call(self, inputs: dict[str, tf.Tensor]) -> tf.Tensor:
        fields = tf.concat(
            [self.table(inputs["ids"]), inputs["numbers"][..., None] * self.numeric], axis=1
        )
        vectors = tf.unstack(fields[..., :DIM], axis=1)
        linear = tf.reduce_sum(fields[..., DIM], axis=1)
        return self.bias + linear + tf.reduce_sum(pairwise_sum(vectors), axis=1)


def stacked(schema: FeatureSchema, batch: dict) -> tuple[dict, np.ndarray]:
    """Return a batch as Keras' model takes it: one id matrix, offsets added."""
    offsets = np.cumsum([0, *(table.rows for table in schema.tables)])[:-1]
    ids = np.stack([batch[f.name] for f in schema.categorical], axis=1) + offsets
    numbers = np.stack([batch[f.name] for f in schema.numeric], axis=1)
    return {"ids": ids.astype(np.int32), "numbers": numbers}, batch["label"].astype(np.float32)


class Steps(keras.callbacks.Callback):
    """Notes when each step of `fit` ended."""

    def on_train_begin(self, logs: dict | None = None) -> None:
        self.times = [time.perf_counter()]

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        self.times.append(time.perf_counter())


def keras_speed(schema: FeatureSchema, batches: list[dict], xla: bool) -> float:
    """Return the examples per second of `fit`, the median step counted."""
    model = KerasFM(sum(table.rows for table in schema.tables), len(schema.numeric))
    loss = keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, jit_compile=xla)
    data = tf.data.Dataset.from_generator(
        lambda: (stacked(schema, batch) for batch in batches),
        output_signature=(
            {
                "ids": tf.TensorSpec((BATCH, len(schema.categorical)), tf.int32),
                "numbers": tf.TensorSpec((BATCH, len(schema.numeric)), tf.float32),
            },
            tf.TensorSpec((BATCH,), tf.float32),
        ),
    ).prefetch(2)
    steps = Steps()
    model.fit(data, epochs=1, verbose=0, callbacks=[steps])
    return float(BATCH / np.median(np.diff(steps.times)[2:]))


def our_speed(schema: FeatureSchema, batches: list[dict]) -> float:
    """Return the examples per second of our step, the median step counted."""
    optimizer = RowAdam()
    config = MODELS["fm"].config(embedding_dim=DIM)
    model = build("fm", schema, config, tuple(optimizer.slot_values))
    model.build_from({k: tf.constant(v[:2]) for k, v in batches[0].items()})
    step = TrainStep(model, optimizer, keras.optimizers.Adam(1e-3))
    times = []
    for number, batch in enumerate(batches):
        started = time.perf_counter()
        float(step(batch, number + 1))
        times.append(time.perf_counter() - started)
    return float(BATCH / np.median(times[2:]))


def main() -> None:
    """Measure both and print their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    schema, rng = tab_schema(arguments.rows), np.random.default_rng(1)
    batches = [make_batch(schema, BATCH, rng) for _ in range(arguments.steps)]
    ours = our_speed(schema, batches)
    for xla in (False, True):
        theirs = keras_speed(schema, batches, xla)
        print(
            f"rows={arguments.rows:,}: ours {ours:,.0f} examples/s, keras fit (xla={xla}) "
            f"{theirs:,.0f} examples/s, ratio {ours / theirs:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
