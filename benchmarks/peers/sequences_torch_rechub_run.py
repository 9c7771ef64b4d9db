# SPDX-License-Identifier: Apache-2.0
"""Torch-RecHub: DIN, DIEN and BST, its data generator and its trainer, with their defaults.

It needs a feature beside the candidate's; where there is none it gets a constant.

.venv-peers/torch/bin/python benchmarks/peers/sequences_torch_rechub_run.py din beh_100000.npz
"""

import numpy as np
import torch
from runner import Steps, after_each_call
from sequence_task import (
    ATTENTION_UNITS,
    NEGATIVE,
    Columns,
    SequenceTask,
    read_task,
    train_and_report,
)
from torch_rechub.basic.features import SequenceFeature, SparseFeature
from torch_rechub.models.ranking import BST, DIEN, DIN
from torch_rechub.trainers import CTRTrainer
from torch_rechub.utils.data import DataGenerator

CONSTANT = "constant"


def inputs(task: SequenceTask, part: str) -> Columns:
    """Return what its models see of a part."""
    columns = task.inputs(part, negatives=task.model == "dien")
    return columns | {CONSTANT: np.zeros(len(task.labels(part)), np.int32)}


def model_of(task: SequenceTask) -> torch.nn.Module:
    """Return the model that a task asks for."""
    schema = task.schema
    dim, mlp = schema.embedding_dim, {"dims": list(schema.hidden_units)}

    def sequences(prefix: str) -> list[SequenceFeature]:
        return [
            SequenceFeature(
                prefix + channel, schema.fields[field], dim, "concat", field, padding_idx=0
            )
            for channel, field in schema.channels.items()
        ]

    others = [SparseFeature(name, schema.fields[name], dim) for name in schema.others]
    others += [
        SequenceFeature(name, rows, dim, "mean", padding_idx=0)
        for name, (rows, _) in schema.lists.items()
    ]
    others = others or [SparseFeature(CONSTANT, 1, 1)]
    targets = [
        SparseFeature(field, schema.fields[field], dim, padding_idx=0)
        for field in schema.channels.values()
    ]
    if task.model == "din":
        attention = {"dims": list(ATTENTION_UNITS)}
        return DIN(others, sequences(""), targets, mlp, attention)
    if task.model == "dien":
        return DIEN(others, sequences(""), sequences(NEGATIVE), targets, mlp)
    return BST(others, sequences(""), targets, mlp, max_seq_len=schema.max_items + 1)


def main() -> None:
    """Train, score and report."""
    torch.set_num_threads(1)
    task = read_task()
    torch.manual_seed(task.seed)
    data = {part: (inputs(task, part), task.labels(part)) for part in task.parts}
    x, y = data["train"]
    x_valid, y_valid = data.get("valid", data["test"])
    x_test, y_test = data["test"]
    names = ("train", "valid", "test")
    loaders = DataGenerator(x, y).generate_dataloader(
        x_val=x_valid, y_val=y_valid, x_test=x_test, y_test=y_test, batch_size=task.batch_size
    )
    loaders = dict(zip(names, loaders, strict=True))
    rate = {"lr": task.rate, "weight_decay": 1e-5} if task.rate else None  # its default decay
    trainer = CTRTrainer(
        model_of(task),
        optimizer_params=rate,
        regularization_params={"embedding_l2": task.l2} if task.l2 else None,
        loss_mode=task.model != "dien",
        device="cpu",
    )
    steps = Steps()
    trainer.optimizer.step = after_each_call(trainer.optimizer.step, steps)
    train_and_report(
        "torch-rechub",
        task,
        steps,
        lambda: trainer.train_one_epoch(loaders["train"]),
        lambda part: np.array(trainer.predict(trainer.model, loaders[part])),
    )


if __name__ == "__main__":
    main()
