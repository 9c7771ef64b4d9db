# SPDX-License-Identifier: Apache-2.0
"""libffm (C++): FFM with its defaults, by way of pylibffm, from its binary file.

    .venv-peers/cpp/bin/python benchmarks/peers/libffm_run.py ffm build/peers/tab_100000.npz

It updates after each example: it has no batches. Three epochs less one are two. There is no AUC:
while the loss that it prints falls, pylibffm 0.4.1 hands back weights that are all alike
(`Model.W`, and what `save` writes), with which `predict` gives 0.5 for every row.
"""

import tempfile

import pylibffm
from runner import FFM_DIM, Steps, read_task, report
from sparse_rows import field_ids, matrix


def main() -> None:
    """Train for one epoch, score the test rows and report."""
    task = read_task(["ffm"])
    x, fields = matrix(task.train, task.field_size), field_ids(task.train, task.field_size)
    with tempfile.TemporaryDirectory() as folder:
        path, _ = pylibffm.make_bin(folder, x, task.train.labels, fields)
        one, three = Steps(), Steps()
        for epochs, steps in ((3, three), (1, one)):
            steps()
            pylibffm.train_with_bin(path, {"k": FFM_DIM, "nr_iters": epochs})
            steps()
    report("libffm", task, three.less(one, 2 * len(task.train.labels)), None)


if __name__ == "__main__":
    main()
