# SPDX-License-Identifier: Apache-2.0
"""DeepCTR: its models with its defaults, compiled with "adam" and trained by Keras' fit.

    .venv-peers/tf/bin/python benchmarks/peers/deepctr_run.py fm build/peers/tab_100000.npz

It has no LR or FM of its own: LR is its linear part, FM its AFM without attention.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from data import FIELDS
from deepctr import feature_column as columns
from deepctr.layers.core import PredictionLayer
from deepctr.models import AFM, DCN, NFM, DeepFM
from runner import DIM, FIELD_NAMES, HIDDEN_UNITS, NUMBER_NAMES, Steps, read_task, report


def linear(features: list, _: list) -> tf.keras.Model:
    """Return the linear part of DeepCTR's models as a model."""
    inputs = columns.build_input_features(features)
    logit = columns.get_linear_logit(inputs, features, prefix="linear", l2_reg=1e-5)
    return tf.keras.Model(list(inputs.values()), PredictionLayer("binary")(logit))


MODELS = {
    "lr": linear,
    "fm": lambda first, second: AFM(first, second[:FIELDS], use_attention=False),
    "afm": lambda first, second: AFM(first, second[:FIELDS]),
    "nfm": lambda first, second: NFM(first, second, dnn_hidden_units=HIDDEN_UNITS),
    "deepfm": lambda first, second: DeepFM(first, second, dnn_hidden_units=HIDDEN_UNITS),
    "dcn": lambda first, second: DCN(
        first, second, cross_parameterization="matrix", dnn_hidden_units=HIDDEN_UNITS
    ),
}


class Noting(tf.keras.callbacks.Callback):
    """Notes when each step of `fit` ended."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Note the time."""
        self.steps()


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    tf.keras.utils.set_random_seed(1)
    task = read_task(list(MODELS))
    fields = [columns.SparseFeat(name, task.field_size, DIM) for name in FIELD_NAMES]
    features = [*fields, *(columns.DenseFeat(name, 1) for name in NUMBER_NAMES)]
    model = MODELS[task.model](features, features)
    model.compile("adam", "binary_crossentropy")
    steps = Steps()
    model.fit(
        task.train.columns(),
        task.train.labels.astype(np.float32),
        batch_size=task.batch_size,
        epochs=1,
        verbose=0,
        callbacks=[Noting(steps)],
    )
    scores = model.predict(task.test.columns(), batch_size=task.batch_size, verbose=0)
    report("deepctr", task, steps.speeds(task.batch_size), scores)


if __name__ == "__main__":
    main()
