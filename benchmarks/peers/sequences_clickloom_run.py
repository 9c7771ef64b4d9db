# SPDX-License-Identifier: Apache-2.0
"""Ours: din, dien and bst as the registry builds them, the pipeline's step and its defaults.

python benchmarks/peers/sequences_clickloom_run.py din build/peers/beh_100000.npz
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from runner import Steps
from sequence_task import ATTENTION_UNITS, MODELS, Schema, read_task, train_and_report

from features.schema import LABEL, WEIGHT, Categorical, Channel, FeatureSchema, History, Table
from models.registry import MODELS as ENTRIES
from models.registry import build
from pipeline.batches import compact, pad_batch
from pipeline.config_train import TrainConfig
from pipeline.optimizers import dense_optimizer, table_optimizer
from pipeline.score import Scorer
from pipeline.train_step import TrainStep

PLACES_PARTS = 16  # as in training


def feature_schema(schema: Schema) -> FeatureSchema:
    """Return the features as our models take them: fields and one history."""
    tables = tuple(Table(name=name, rows=rows) for name, rows in schema.fields.items())
    fields = (Categorical(name=name, table=name) for name in schema.fields)
    channels = tuple(
        Channel(name=channel, table=field, target=field)
        for channel, field in schema.channels.items()
    )
    name = schema.length.removesuffix("_length")
    history = History(name=name, channels=channels, max_items=schema.max_items)
    return FeatureSchema(tables=tables, features=(*fields, history))


def main() -> None:
    """Train, score and report."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    task = read_task(MODELS)
    keras.utils.set_random_seed(task.seed)
    train = TrainConfig() if task.rate is None else TrainConfig(learning_rate=task.rate)
    schema, rows = feature_schema(task.schema), table_optimizer(train)
    options = {
        "embedding_dim": task.schema.embedding_dim,
        "hidden_units": task.schema.hidden_units,
    }
    if task.model == "din":
        options["attention_units"] = ATTENTION_UNITS
    model = build(
        task.model, schema, ENTRIES[task.model].config(**options), tuple(rows.slot_values)
    )
    arrays = task.inputs("train")
    arrays |= {LABEL: task.parts["train"][LABEL].astype(np.int8)}
    arrays |= {WEIGHT: np.ones(len(arrays[LABEL]), np.float32)}
    model.build_from({name: tf.constant(array[:2]) for name, array in arrays.items()})
    step = TrainStep(model, rows, dense_optimizer(train))
    scorer = Scorer(model, schema, task.batch_size)
    steps, rng = Steps(), np.random.default_rng(task.seed)

    def train_epoch() -> None:
        order = rng.permutation(len(arrays[LABEL]))
        for start in range(0, len(order), task.batch_size):
            chosen = order[start : start + task.batch_size]
            batch = pad_batch({name: a[chosen] for name, a in arrays.items()}, task.batch_size)
            float(step(compact(batch, model, PLACES_PARTS), len(steps.times)))
            steps()

    def score(part: str) -> np.ndarray:
        columns, size = task.inputs(part), task.batch_size
        return np.concatenate(
            [
                scorer({name: a[start : start + size] for name, a in columns.items()})
                for start in range(0, len(task.labels(part)), size)
            ]
        )

    train_and_report("clickloom", task, steps, train_epoch, score)


if __name__ == "__main__":
    main()
