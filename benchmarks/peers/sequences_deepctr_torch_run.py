# SPDX-License-Identifier: Apache-2.0
"""DeepCTR-Torch: DIN and DIEN with its defaults, trained by its fit. It has no BST.

    .venv-peers/torch/bin/python benchmarks/peers/sequences_deepctr_torch_run.py din beh_100000.npz

DIEN is its AUGRU with the auxiliary loss of the paper, neither of which is its default. Its DIEN
passes lists of ids over.
"""

import numpy as np
import torch
from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat
from deepctr_torch.models import DIEN, DIN
from runner import Steps, after_each_call
from sequence_task import ATTENTION_UNITS, SequenceTask, read_task, train_and_report


def model_of(task: SequenceTask) -> torch.nn.Module:
    """Return the model that a task asks for."""
    schema = task.schema
    dim, units = schema.embedding_dim, schema.hidden_units
    features = [SparseFeat(name, rows, dim) for name, rows in schema.fields.items()]
    prefixes = ("hist_", "neg_hist_") if task.model == "dien" else ("hist_",)
    for prefix in prefixes:
        for field in schema.channels.values():
            column = SparseFeat(prefix + field, schema.fields[field], dim, embedding_name=field)
            length = "seq_length"
            features.append(VarLenSparseFeat(column, schema.max_items, length_name=length))
    if task.model == "din":
        for name, (rows, width) in schema.lists.items():
            features.append(VarLenSparseFeat(SparseFeat(name, rows, dim), width))
    histories = list(schema.channels.values())
    common = {"dnn_hidden_units": units, "seed": task.seed, **task.embedding_l2}
    if task.model == "din":
        return DIN(features, histories, att_hidden_size=ATTENTION_UNITS, **common)
    return DIEN(features, histories, gru_type="AUGRU", use_negsampling=True, **common)


def main() -> None:
    """Train, score and report."""
    torch.set_num_threads(1)
    task = read_task(("din", "dien"))
    torch.manual_seed(task.seed)
    names = task.schema.deepctr_names()
    passed_over = {f"{name}_length" for name in task.schema.lists}
    passed_over |= set(task.schema.lists) if task.model == "dien" else set()
    inputs = {
        part: {
            names.get(key, key): array
            for key, array in task.inputs(part, negatives=task.model == "dien").items()
            if key not in passed_over
        }
        for part in task.parts
    }
    model = model_of(task)
    rate = {"lr": task.rate} if task.rate else {}
    model.compile(torch.optim.Adam(model.parameters(), **rate), "binary_crossentropy")
    steps = Steps()
    model.optim.step = after_each_call(model.optim.step, steps)

    def train_epoch() -> None:
        labels = task.labels("train")
        model.fit(inputs["train"], labels, batch_size=task.batch_size, epochs=1, verbose=0)

    def score(part: str) -> np.ndarray:
        return model.predict(inputs[part], task.batch_size)

    train_and_report("deepctr-torch", task, steps, train_epoch, score)


if __name__ == "__main__":
    main()
