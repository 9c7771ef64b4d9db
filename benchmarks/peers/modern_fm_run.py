# SPDX-License-Identifier: Apache-2.0
"""modern-fm (Rust): its FM and FFM with its defaults, at the batch that is asked for.

    .venv-peers/rust/bin/python benchmarks/peers/modern_fm_run.py ffm build/peers/tab_100000.npz

Its own default is a batch of 1. `fit` says nothing about steps: seven epochs less one are six.
"""

from modern_fm import FFMClassifier, FMClassifier
from runner import DIM, FFM_DIM, Steps, Task, read_task, report
from sparse_rows import field_ids, matrix

MODELS = {"fm": (FMClassifier, DIM), "ffm": (FFMClassifier, FFM_DIM)}


def fit(task: Task, batch_size: int, epochs: int, steps: Steps) -> FMClassifier | FFMClassifier:
    """Return a fitted model, noting the time before and after."""
    kind, dim = MODELS[task.model]
    model = kind(n_factors=dim, batch_size=batch_size, max_iter=epochs, n_jobs=1, random_state=1)
    x = matrix(task.train, task.field_size)
    fields = {"field_ids": field_ids(task.train, task.field_size)} if task.model == "ffm" else {}
    steps()
    model.fit(x, task.train.labels, **fields)
    steps()
    return model


def main() -> None:
    """Train for one epoch, score the test rows and report, at batch 1 and that asked for."""
    task = read_task(list(MODELS))
    for name, batch_size in (("modern-fm", task.batch_size), ("modern-fm, batch 1", 1)):
        one, seven = Steps(), Steps()
        model = fit(task, batch_size, 1, one)
        fit(task, batch_size, 7, seven)
        scores = model.predict_proba(matrix(task.test, task.field_size))[:, 1]
        report(name, task, seven.less(one, 6 * len(task.train.labels)), scores)


if __name__ == "__main__":
    main()
