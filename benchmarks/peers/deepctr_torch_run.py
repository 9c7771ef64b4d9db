# SPDX-License-Identifier: Apache-2.0
"""DeepCTR-Torch: its models with its defaults, compiled with "adam" and trained by its fit.

    .venv-peers/torch/bin/python benchmarks/peers/deepctr_torch_run.py fm build/peers/tab_100000.npz

It has no FM of its own: FM is its AFM without attention.
"""

import numpy as np
import torch
from data import FIELDS
from deepctr_torch.inputs import DenseFeat, SparseFeat
from deepctr_torch.models import AFM, DCN, NFM, DeepFM
from runner import (
    DIM,
    FIELD_NAMES,
    HIDDEN_UNITS,
    NUMBER_NAMES,
    Steps,
    after_each_call,
    read_task,
    report,
)

MODELS = {
    "fm": lambda features: AFM(features, features[:FIELDS], use_attention=False),
    "afm": lambda features: AFM(features, features[:FIELDS]),
    "nfm": lambda features: NFM(features, features, dnn_hidden_units=HIDDEN_UNITS),
    "deepfm": lambda features: DeepFM(features, features, dnn_hidden_units=HIDDEN_UNITS),
    "dcn": lambda features: DCN(
        features, features, cross_parameterization="matrix", dnn_hidden_units=HIDDEN_UNITS
    ),
}


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    task = read_task(list(MODELS))
    fields = [SparseFeat(name, task.field_size, DIM) for name in FIELD_NAMES]
    features = [*fields, *(DenseFeat(name, 1) for name in NUMBER_NAMES)]
    model = MODELS[task.model](features)
    model.compile("adam", "binary_crossentropy")
    steps = Steps()
    model.optim.step = after_each_call(model.optim.step, steps)
    labels = task.train.labels.astype(np.float32)
    model.fit(task.train.columns(), labels, batch_size=task.batch_size, epochs=1, verbose=0)
    scores = model.predict(task.test.columns(), task.batch_size)
    report("deepctr-torch", task, steps.speeds(task.batch_size), scores)


if __name__ == "__main__":
    main()
