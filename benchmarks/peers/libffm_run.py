# SPDX-License-Identifier: Apache-2.0
"""libffm (C++): FFM with its defaults, by way of pylibffm, from its binary file.

    .venv-peers/cpp/bin/python benchmarks/peers/libffm_run.py ffm build/peers/tab_100000.npz

It updates after each example: it has no batches. Three epochs less one are two. The scores are
computed here from the weights: `predict` of pylibffm 0.4.1 returned 0.5 for every row.
"""

import tempfile

import numpy as np
import pylibffm
from runner import FFM_DIM, Rows, Steps, read_task, report
from sparse_rows import field_ids, matrix


def logits(model: pylibffm.Model, rows: Rows, field_size: int) -> np.ndarray:
    """Return Σ_{i<j} <v_{i,f_j}, v_{j,f_i}> x_i x_j / Σ x², as libffm computes it.

    Args:
        model: Its weights lie as `v_{j,1} | squares | v_{j,2} | squares …`.
        rows: To be scored.
        field_size: Number of ids of one field.
    """
    vectors = model.W.reshape(model.n, model.m, 2, FFM_DIM)[:, :, 0]
    scores = []
    for start in range(0, len(rows.labels), 1000):
        part = matrix(Rows(*(a[start : start + 1000] for a in vars(rows).values())), field_size)
        places, x = part.indices.reshape(-1, model.m), part.data.reshape(-1, model.m)
        each = vectors[places] * x[:, :, None, None]  # (rows, fields, partners, dim)
        both = np.einsum("bijd,bjid->b", each, each) - np.einsum("biid,biid->b", each, each)
        scores.append(both / 2 / np.sum(x**2, axis=1))
    return np.concatenate(scores)


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    task = read_task(["ffm"])
    x, fields = matrix(task.train, task.field_size), field_ids(task.train, task.field_size)
    with tempfile.TemporaryDirectory() as folder:
        path, _ = pylibffm.make_bin(folder, x, task.train.labels, fields)
        one, three = Steps(), Steps()
        for epochs, steps in ((3, three), (1, one)):
            steps()
            model = pylibffm.train_with_bin(path, {"k": FFM_DIM, "nr_iters": epochs})
            steps()
    scores = logits(model, task.test, task.field_size)
    report("libffm", task, three.less(one, 2 * len(task.train.labels)), scores)


if __name__ == "__main__":
    main()
