# SPDX-License-Identifier: Apache-2.0
"""Rows with histories, as every runner of din, dien and bst gets them; NumPy alone.

An .npz file holds `schema` (JSON text, see `Schema`) and an array `<part>/<key>` for each column of
the parts train, valid (if any) and test; `<part>/label` is 0 or 1, `<part>/best_logit` the planted
logit where there is one. Ids start at 2, as in the pipeline: 0 is padding, 1 stands for a missing
value. Histories are padded on the right.
"""

import argparse
import json
import resource
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from runner import WARM_UP_STEPS, Steps, auc

MODELS = ("din", "dien", "bst")
ATTENTION_UNITS = (80, 40)
LABEL, BEST_LOGIT = "label", "best_logit"
NEGATIVE = "negative_"  # before the name of a channel: events drawn for DIEN's auxiliary loss
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Schema:
    """What the columns are.

    Attributes:
        fields: Rows of the table of each field with one id per row.
        lists: Rows of the table and width of each padded list of ids.
        channels: Field that each channel of the history repeats.
        length: Column with the number of events.
        max_items: Width of the history.
        embedding_dim: Of every model.
        hidden_units: Of every model's MLP.
    """

    fields: dict[str, int]
    lists: dict[str, tuple[int, int]]
    channels: dict[str, str]
    length: str
    max_items: int
    embedding_dim: int
    hidden_units: tuple[int, ...]

    @property
    def others(self) -> list[str]:
        """Fields that no channel repeats."""
        return [name for name in self.fields if name not in self.channels.values()]

    def deepctr_names(self) -> dict[str, str]:
        """Return how DeepCTR and DeepCTR-Torch call the columns of a history."""
        names = {self.length: "seq_length"}
        for channel, field in self.channels.items():
            names |= {channel: f"hist_{field}", NEGATIVE + channel: f"neg_hist_{field}"}
        return names


def write_task(path: Path, schema: Schema, parts: dict[str, Columns]) -> None:
    """Write a file that `read_task` reads.

    Args:
        path: The file; its folder is made if absent.
        schema: What the columns are.
        parts: Columns by part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = {f"{part}/{key}": a for part, columns in parts.items() for key, a in columns.items()}
    np.savez(path, schema=np.array(json.dumps(asdict(schema))), **arrays)


@dataclass(frozen=True)
class SequenceTask:
    """What a runner is asked for."""

    model: str
    data: Path
    batch_size: int
    epochs: int
    patience: int
    rate: float | None
    l2: float | None
    seed: int
    schema: Schema
    parts: dict[str, Columns]

    @property
    def rows(self) -> int:
        """Rows of the largest table."""
        return max(self.schema.fields.values())

    @property
    def embedding_l2(self) -> dict[str, float]:
        """Option of DeepCTR and DeepCTR-Torch for the penalty on embeddings, if any."""
        return {} if self.l2 is None else {"l2_reg_embedding": self.l2}

    def labels(self, part: str) -> np.ndarray:
        """Return the labels of a part, float32 (rows,)."""
        return self.parts[part][LABEL].astype(np.float32)

    def inputs(self, part: str, *, negatives: bool = False) -> Columns:
        """Return the columns of a part that models see.

        Args:
            part: Its name.
            negatives: Whether to add events drawn evenly, as many as there are real ones.
        """
        columns = {key: a for key, a in self.parts[part].items() if key not in (LABEL, BEST_LOGIT)}
        if negatives:
            rng = np.random.default_rng([self.seed, len(columns[self.schema.length])])
            for channel, field in self.schema.channels.items():
                drawn = rng.integers(2, self.schema.fields[field], columns[channel].shape, np.int32)
                columns[NEGATIVE + channel] = np.where(columns[channel] > 0, drawn, 0)
        return columns


def read_task(systems_models: tuple[str, ...] = MODELS) -> SequenceTask:
    """Return what the command line asks for.

    Args:
        systems_models: Those that the system has.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=systems_models)
    parser.add_argument("data", type=Path, help="an .npz file of this format")
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--patience", type=int, default=4)
    parser.add_argument("--rate", type=float, help="of Adam; the system's default if not given")
    parser.add_argument("--l2", type=float, help="of embeddings, as the system has it")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    parts: dict[str, Columns] = {}
    with np.load(given.data) as file:
        schema = Schema(**json.loads(str(file["schema"])))
        for name in file.files:
            if "/" in name:
                part, key = name.split("/", 1)
                parts.setdefault(part, {})[key] = file[name]
    return SequenceTask(
        given.model,
        given.data,
        given.batch,
        given.epochs,
        given.patience,
        given.rate,
        given.l2,
        given.seed,
        schema,
        parts,
    )


def fit(
    task: SequenceTask, train_epoch: Callable[[], None], score: Callable[[str], np.ndarray]
) -> Iterator[tuple[float | None, float]]:
    """Train until epochs or patience end; yield (validation, test) AUC of each better epoch.

    Without validation rows every epoch counts as better.

    Args:
        task: What is asked for.
        train_epoch: Goes through the training rows once.
        score: Scores the rows of a part.
    """
    best, left = -1.0, task.patience
    for _ in range(task.epochs):
        train_epoch()
        valid = auc(task.labels("valid"), score("valid")) if "valid" in task.parts else None
        if valid is None or valid > best:
            best, left = valid or -1.0, task.patience
            yield valid, auc(task.labels("test"), score("test"))
        else:
            left -= 1
        if not left:
            return


def train_and_report(
    system: str,
    task: SequenceTask,
    steps: Steps,
    train_epoch: Callable[[], None],
    score: Callable[[str], np.ndarray],
) -> None:
    """Train a model and print what was measured as one line of JSON.

    Args:
        system: Name of the system.
        task: What was asked for.
        steps: Notes when each step ended.
        train_epoch: Goes through the training rows once.
        score: Scores the rows of a part, as an array of any shape.
    """
    steps()
    *_, (valid, test) = fit(task, train_epoch, lambda part: np.ravel(score(part)))
    enough = len(steps.times) > WARM_UP_STEPS + 2  # or no step has a time that counts
    wall, processor = steps.speeds(task.batch_size) if enough else (0, 0)
    best = task.parts["test"].get(BEST_LOGIT)
    result = {
        "system": system,
        "model": task.model,
        "rows": task.rows,
        "batch_size": task.batch_size,
        "rate": task.rate,
        "l2": task.l2,
        "seed": task.seed,
        "wall": round(wall),
        "processor": round(processor),
        "valid_auc": valid,
        "auc": test,
        "best_auc": None if best is None else auc(task.labels("test"), best),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    print(json.dumps(result), flush=True)
