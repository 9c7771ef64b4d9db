# SPDX-License-Identifier: Apache-2.0
"""Ours: models as the registry builds them, the pipeline's step, defaults but for dimensions.

python benchmarks/peers/clickloom_run.py fm build/peers/tab_100000.npz
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from runner import DIM, FFM_DIM, FIELD_NAMES, HIDDEN_UNITS, NUMBER_NAMES, Steps, read_task, report

from features.schema import Categorical, FeatureSchema, Numeric, Table
from models.registry import MODELS, build
from pipeline.batches import pad_batch
from pipeline.config_train import TrainConfig
from pipeline.optimizers import dense_optimizer, table_optimizer
from pipeline.train_step import TrainStep

OPTIONS = {
    "lr": {},
    "fm": {"embedding_dim": DIM},
    "ffm": {"embedding_dim": FFM_DIM},
    # numbers as peers take them: beside the 325 pairs of fields, and into an MLP as they are
    "afm": {"embedding_dim": DIM, "numeric_input": "dense"},
    "nfm": {"embedding_dim": DIM, "numeric_input": "dense", "hidden_units": HIDDEN_UNITS},
    "deepfm": {"embedding_dim": DIM, "numeric_input": "dense", "hidden_units": HIDDEN_UNITS},
    "dcn": {"embedding_dim": DIM, "numeric_input": "dense", "hidden_units": HIDDEN_UNITS},
}


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    keras.utils.set_random_seed(1)
    task, train = read_task(list(OPTIONS)), TrainConfig()
    tables = tuple(Table(name=name, rows=task.field_size) for name in FIELD_NAMES)
    fields = (Categorical(name=name, table=name) for name in FIELD_NAMES)
    numbers = (Numeric(name=name) for name in NUMBER_NAMES)
    schema = FeatureSchema(tables=tables, features=(*fields, *numbers))
    rows = table_optimizer(train)
    options = MODELS[task.model].config(**OPTIONS[task.model])
    model = build(task.model, schema, options, tuple(rows.slot_values))
    arrays = task.train.columns()
    arrays |= {"label": task.train.labels, "weight": np.ones(len(task.train.labels), np.float32)}
    model.build_from({name: tf.constant(array[:2]) for name, array in arrays.items()})
    step = TrainStep(model, rows, dense_optimizer(train))
    steps = Steps()
    steps()
    for number, start in enumerate(range(0, len(task.train.labels), task.batch_size)):
        part = {name: array[start : start + task.batch_size] for name, array in arrays.items()}
        float(step(pad_batch(part, task.batch_size), number + 1))
        steps()
    score = tf.function(lambda batch: model(batch, training=False), autograph=False)
    test = {name: tf.constant(array) for name, array in task.test.columns().items()}
    scores = [
        score({name: array[start : start + 5000] for name, array in test.items()}).numpy()
        for start in range(0, len(task.test.labels), 5000)
    ]
    report("clickloom", task, steps.speeds(task.batch_size), np.concatenate(scores))


if __name__ == "__main__":
    main()
