# SPDX-License-Identifier: Apache-2.0
"""What the runners of all systems share; NumPy alone, so that it works in every environment."""

import argparse
import json
import resource
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from data import FIELDS, NUMBERS, TRAIN_ROWS, field_size

FIELD_NAMES = [f"c{i}" for i in range(FIELDS)]
NUMBER_NAMES = [f"n{i}" for i in range(NUMBERS)]
DIM, FFM_DIM, HIDDEN_UNITS = 16, 4, (256, 128, 64)
WARM_UP_STEPS = 3


@dataclass(frozen=True)
class Rows:
    """Some rows of the data set: ids (rows, 26), numbers (rows, 13), labels and planted logits."""

    ids: np.ndarray
    numbers: np.ndarray
    labels: np.ndarray
    best: np.ndarray

    def columns(self) -> dict[str, np.ndarray]:
        """Return each field and number as an array of its own."""
        ids = {name: np.ascontiguousarray(self.ids[:, i]) for i, name in enumerate(FIELD_NAMES)}
        numbers = {
            name: np.ascontiguousarray(self.numbers[:, i]) for i, name in enumerate(NUMBER_NAMES)
        }
        return ids | numbers


@dataclass(frozen=True)
class Task:
    """What a runner is asked for."""

    model: str
    batch_size: int
    rows: int
    train: Rows
    test: Rows

    @property
    def field_size(self) -> int:
        """Number of ids of one field."""
        return field_size(self.rows)


def read_task(models: list[str]) -> Task:
    """Return what the command line asks for.

    Args:
        models: Those that the system has.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=models)
    parser.add_argument("data", type=Path, help="an .npz file that data.py wrote")
    parser.add_argument("--batch", type=int, default=4096)
    arguments = parser.parse_args()
    with np.load(arguments.data) as file:
        arrays = [file[name] for name in ("ids", "numbers", "labels", "best")]
        rows = int(file["rows"])
    train, test = (
        Rows(*(array[part] for array in arrays))
        for part in (slice(None, TRAIN_ROWS), slice(TRAIN_ROWS, None))
    )
    return Task(arguments.model, arguments.batch, rows, train, test)


class Steps:
    """Notes when each step ended; call it once before the first, too, or lose it.

    Two clocks: of the wall, and of the processor time that the process took. On one core of a
    machine that does nothing else they agree; on a busy one only the second can be compared.

    Args:
        most: Steps after which a call raises StopIteration, or None.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self.times: list[tuple[float, float]] = []

    def __call__(self) -> None:
        """Note the time."""
        self.times.append((time.perf_counter(), time.process_time()))
        if self.most is not None and len(self.times) >= self.most:
            raise StopIteration

    def speeds(self, batch_size: int) -> tuple[float, float]:
        """Return examples per second, wall and processor, of the median step.

        The first steps and the last one, which is not full, are left out.

        Args:
            batch_size: Examples of a full step.
        """
        wall, processor = np.median(np.diff(self.times, axis=0)[WARM_UP_STEPS:-1], axis=0)
        return batch_size / wall, batch_size / processor

    def less(self, other: "Steps", examples: int) -> tuple[float, float]:
        """Return examples per second, wall and processor, of what this took more than another.

        Args:
            other: The same with fewer epochs.
            examples: How many it had less.
        """
        wall, processor = np.subtract(np.ptp(self.times, axis=0), np.ptp(other.times, axis=0))
        return examples / wall, examples / processor


def after_each_call(function, steps: Steps):
    """Return the function, noting the time after each call."""

    def noting(*args, **kwargs):
        result = function(*args, **kwargs)
        steps()
        return result

    return noting


def auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Return the probability that a click is scored above a non-click, ties counting half."""
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    clicks = labels > 0
    positives, negatives = int(clicks.sum()), int((~clicks).sum())
    return float((ranks[clicks].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def report(system: str, task: Task, speeds: tuple[float, float], scores: np.ndarray | None) -> None:
    """Print what was measured as one line of JSON.

    Args:
        system: Name of the system.
        task: What was asked for.
        speeds: Examples per second, wall and processor.
        scores: Of the test rows, after one epoch; None if it was not finished.
    """
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    result = {
        "system": system,
        "model": task.model,
        "rows": task.rows,
        "batch_size": task.batch_size,
        "wall": round(speeds[0]),
        "processor": round(speeds[1]),
        "auc": None if scores is None else round(auc(task.test.labels, np.ravel(scores)), 4),
        "best_auc": round(auc(task.test.labels, task.test.best), 4),
        "peak_gib": round(peak, 2),
    }
    print(json.dumps(result), flush=True)
