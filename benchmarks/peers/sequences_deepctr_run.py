# SPDX-License-Identifier: Apache-2.0
"""DeepCTR: DIN, DIEN and BST with its defaults, trained by Keras' fit.

    .venv-peers/tf/bin/python benchmarks/peers/sequences_deepctr_run.py din beh_100000.npz

DIEN is its AUGRU with the auxiliary loss of the paper, neither of which is its default. It runs in
graph mode, its recurrent cells being of TensorFlow 1, and needs names that TensorFlow has moved.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["TF_USE_LEGACY_KERAS"] = "1"

import numpy as np
import tensorflow as tf
from deepctr.feature_column import SparseFeat, VarLenSparseFeat
from deepctr.models import BST, DIEN, DIN
from runner import Steps
from sequence_task import (
    ATTENTION_UNITS,
    SequenceTask,
    read_task,
    train_and_report,
)


class Noting(tf.keras.callbacks.Callback):
    """Notes when each step of `fit` ended."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Note the time."""
        self.steps()


def restore_moved_names() -> None:
    """Put names of TensorFlow back where DeepCTR 0.9.4 looks for them."""
    from tensorflow.python.ops import array_ops, control_flow_ops
    from tensorflow.python.util import nest

    array_ops.stack, array_ops.unstack = tf.stack, tf.unstack
    control_flow_ops.Assert = tf.debugging.Assert
    control_flow_ops.cond = tf.compat.v1.cond
    control_flow_ops.while_loop = tf.compat.v1.while_loop
    nest.is_sequence = nest.is_nested


def model_of(task: SequenceTask) -> tf.keras.Model:
    """Return the model that a task asks for."""
    schema = task.schema
    dim, units = schema.embedding_dim, schema.hidden_units
    features = [SparseFeat(name, rows, dim) for name, rows in schema.fields.items()]
    for name, (rows, width) in schema.lists.items():
        features.append(VarLenSparseFeat(SparseFeat(name, rows, dim), maxlen=width))
    prefixes = ("hist_", "neg_hist_") if task.model == "dien" else ("hist_",)
    for prefix in prefixes:
        for field in schema.channels.values():
            column = SparseFeat(prefix + field, schema.fields[field], dim, embedding_name=field)
            length = "seq_length"
            features.append(VarLenSparseFeat(column, maxlen=schema.max_items, length_name=length))
    histories = list(schema.channels.values())
    common = {"dnn_hidden_units": units, "seed": task.seed, **task.embedding_l2}
    if task.model == "din":
        return DIN(features, histories, att_hidden_size=ATTENTION_UNITS, **common)
    if task.model == "bst":
        return BST(features, histories, **common)
    return DIEN(features, histories, "AUGRU", use_negsampling=True, **common)


def main() -> None:
    """Train, score and report."""
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    task = read_task()
    adam = tf.keras.optimizers.Adam
    if task.model == "dien":
        tf.compat.v1.disable_eager_execution()
        restore_moved_names()
        adam = tf.keras.optimizers.legacy.Adam  # the only one that trains in graph mode
    tf.keras.utils.set_random_seed(task.seed)
    names = task.schema.deepctr_names()
    inputs = {
        part: {
            names.get(key, key): array
            for key, array in task.inputs(part, negatives=task.model == "dien").items()
            if key not in {f"{name}_length" for name in task.schema.lists}
        }
        for part in task.parts
    }
    model = model_of(task)
    model.compile(adam(task.rate or 1e-3), "binary_crossentropy")
    steps = Steps()

    def train_epoch() -> None:
        model.fit(
            inputs["train"],
            task.labels("train"),
            batch_size=task.batch_size,
            epochs=1,
            verbose=0,
            callbacks=[Noting(steps)],
        )

    def score(part: str) -> np.ndarray:
        return model.predict(inputs[part], batch_size=task.batch_size, verbose=0)

    train_and_report("deepctr", task, steps, train_epoch, score)


if __name__ == "__main__":
    main()
