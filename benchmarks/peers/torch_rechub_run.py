# SPDX-License-Identifier: Apache-2.0
"""Torch-RecHub: its models, its data generator and its trainer, with their defaults.

    .venv-peers/torch/bin/python benchmarks/peers/torch_rechub_run.py afm build/peers/tab_100000.npz

FM is its DeepFM's layers without the MLP, FFM its DeepFFM with one linear layer for its MLP.
Its AFM attends to the sum of all pairs, one vector per row, so that its attention is always 1.
"""

import numpy as np
import torch
from runner import (
    DIM,
    FFM_DIM,
    FIELD_NAMES,
    HIDDEN_UNITS,
    NUMBER_NAMES,
    Steps,
    Task,
    after_each_call,
    read_task,
    report,
)
from torch_rechub.basic.features import DenseFeature, SparseFeature
from torch_rechub.models.ranking import AFM, DCNv2, DeepFFM, DeepFM
from torch_rechub.trainers import CTRTrainer
from torch_rechub.utils.data import DataGenerator

MLP_OPTIONS = {"dims": list(HIDDEN_UNITS), "activation": "relu"}
LINEAR = "linear_"


def make(task: Task) -> torch.nn.Module:
    """Return the model that a task asks for."""
    fields = [SparseFeature(name, task.field_size, DIM) for name in FIELD_NAMES]
    numbers = [DenseFeature(name) for name in NUMBER_NAMES]
    if task.model == "afm":
        return AFM(fields, DIM)
    if task.model == "deepfm":
        return DeepFM(fields + numbers, fields, MLP_OPTIONS)
    if task.model == "dcn":
        return DCNv2(fields + numbers, 2, MLP_OPTIONS, use_low_rank_mixture=False)
    single = [SparseFeature(LINEAR + name, task.field_size, 1) for name in FIELD_NAMES]
    rows = task.field_size * len(FIELD_NAMES)
    crossed = [SparseFeature(name, rows, FFM_DIM) for name in FIELD_NAMES]
    return DeepFFM(single, crossed, FFM_DIM, {"dims": [], "output_layer": True})


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    task = read_task(["afm", "deepfm", "dcn", "ffm"])
    inputs = []
    for part in (task.train, task.test):
        columns = part.columns()
        if task.model == "ffm":
            columns |= {LINEAR + name: columns[name] for name in FIELD_NAMES}
        inputs.append((columns, part.labels.astype(np.float32)))
    (x, y), (x_test, y_test) = inputs
    loader, _, test_loader = DataGenerator(x, y).generate_dataloader(
        x_val=x_test, y_val=y_test, x_test=x_test, y_test=y_test, batch_size=task.batch_size
    )
    trainer = CTRTrainer(make(task), n_epoch=1, device="cpu")
    steps = Steps(most=60 if task.model != "ffm" else 8)
    trainer.optimizer.step = after_each_call(trainer.optimizer.step, steps)
    try:
        trainer.train_one_epoch(loader)
    except StopIteration:  # enough of a very slow model: it has no AUC then
        scores = None
    else:
        scores = np.array(trainer.predict(trainer.model, test_loader))
    report("torch-rechub", task, steps.speeds(task.batch_size), scores)


if __name__ == "__main__":
    main()
