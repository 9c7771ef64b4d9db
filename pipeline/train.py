# SPDX-License-Identifier: Apache-2.0
"""Stage 2: fit the model, keep the state with the best validation metric, survive kills."""

import json
import math
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.batches import compact, count_rows, prefetch, read_batches
from pipeline.checkpoint import newest_whole, prune, save_arrays, step_folder
from pipeline.config_train import Plateau
from pipeline.errors import InputRejected, Terminated, TrainingDiverged
from pipeline.metrics import evaluate
from pipeline.optimizers import dense_optimizer, rate_factor, table_optimizer
from pipeline.penalties import table_penalties
from pipeline.progress import Bar
from pipeline.runs import (
    WORK,
    Run,
    Stage,
    build_stage,
    code_fingerprint,
    fingerprint_of,
    write_json,
)
from pipeline.score import Scorer, score_folder
from pipeline.termination import termination_requested
from pipeline.train_end import End
from pipeline.train_step import TrainStep
from pipeline.trained_model import (
    assign_dense,
    build_model,
    count_parameters,
    dense_arrays,
    load_schema,
)

HIGHER_IS_BETTER = {"auc": True, "gauc": True, "log_loss": False}
_KEPT_CHECKPOINTS = 2
_PLACES_PARTS = 16
_SMOOTHING = 0.98
"""Share of the running loss that the next step keeps."""


@dataclass
class TrainState:
    """Where training is; what a checkpoint stores beside the weights."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    best_step: int = 0
    best_value: float | None = None
    evaluations_since_best: int = 0
    plateau_factor: float = 1.0
    evaluations_since_drop: int = 0
    running_loss: float | None = None
    finished: bool = False
    seconds: float = 0.0
    examples: int = 0
    evaluations: list[dict[str, Any]] = field(default_factory=list)


def train(run: Run, dataset: Stage) -> Stage:
    """Build `train/` for a run: the best weights, and how training went.

    Raises:
        TrainingDiverged: The loss is no longer a finite number.
        Terminated: A termination signal arrived; a checkpoint was written.
    """
    config = run.config
    relevant = {part: getattr(config, part) for part in ("model", "train", "seed")}
    fingerprint = fingerprint_of(relevant, dataset.fingerprint, code_fingerprint())
    return build_stage(run, run.train, fingerprint, lambda folder: Trainer(run, folder).fit())


class Trainer:
    """Fits one model; `fit` continues from the newest whole checkpoint in its folder's `work`."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run = run
        self.folder, self.work = folder, folder / WORK
        self.config = run.config.train
        self.schema = load_schema(run)
        self.rows = count_rows(run.dataset / "train")
        self.steps_per_epoch = math.ceil(self.rows / self.config.batch_size)
        interval = math.ceil(self.steps_per_epoch / self.config.evaluations_per_epoch)
        self.evaluation_steps = interval
        self.total_steps = self.config.epochs * self.steps_per_epoch
        row_optimizer = table_optimizer(self.config)
        self.model = build_model(run.config, self.schema, tuple(row_optimizer.slot_values))
        first = next(read_batches(run.dataset / "train", self.schema, 2))
        self.model.build_from({k: tf.convert_to_tensor(v) for k, v in first.items()})
        self.optimizer = dense_optimizer(self.config)
        self.train_step = TrainStep(
            self.model,
            row_optimizer,
            self.optimizer,
            table_l2=table_penalties(self.config, self.schema, run.dataset / "train"),
            clip_norm=self.config.clip_norm,
            xla=self.config.xla,
        )
        self.scorer = Scorer(self.model, self.schema, self.config.batch_size, self.config.xla)
        self.state = TrainState()
        self.first_step = 1

    def fit(self) -> dict[str, Any]:
        """Train until the last epoch or until patience ends; return facts for the report."""
        self._restore()
        self.first_step = self.state.step + 1
        with self.run.progress.bar("train", self.total_steps) as bar:
            while not self.state.finished and self.state.epoch < self.config.epochs:
                self._epoch(bar)
        return self._finish()

    def _epoch(self, bar: Bar) -> None:
        state = self.state
        started = time.monotonic()
        for batch in prefetch(self._batches()):
            factor = rate_factor(
                self.config, state.step + 1, self.total_steps, state.plateau_factor
            )
            loss = float(self.train_step(batch, state.step + 1, factor))
            self._account(loss)
            if state.step > self.first_step:  # which compiles
                state.seconds += time.monotonic() - started
                state.examples += len(batch["label"])
            speed = state.examples / state.seconds if state.seconds else None
            last = state.evaluations[-1]["auc"] if state.evaluations else None
            bar.update(state.step, loss=state.running_loss, valid_auc=last, examples_per_s=speed)
            self._evaluate_or_save()
            if state.finished:
                return
            started = time.monotonic()
        state.epoch, state.batch = state.epoch + 1, 0

    def _batches(self) -> Iterator[dict[str, np.ndarray]]:
        batches = read_batches(
            self.run.dataset / "train",
            self.schema,
            self.config.batch_size,
            shuffle_seed=(self.run.config.seed, self.state.epoch),
            start=self.state.batch,
        )
        for batch in batches:
            yield compact(batch, self.model, _PLACES_PARTS)

    def _account(self, loss: float) -> None:
        state = self.state
        state.step += 1
        state.batch += 1
        if not math.isfinite(loss):
            raise TrainingDiverged(self._diverged(f"the loss is {loss}"))
        last = loss if state.running_loss is None else state.running_loss
        state.running_loss = _SMOOTHING * last + (1 - _SMOOTHING) * loss

    def _diverged(self, what: str) -> str:
        return (
            f"step {self.state.step}: {what}. Nothing is published. Lower train.learning_rate, "
            "set train.clip_norm, or look for extreme numbers in dataset/profile.json"
        )

    def _evaluate_or_save(self) -> None:
        state = self.state
        end_of_epoch = state.batch == self.steps_per_epoch
        if end_of_epoch or state.batch % self.evaluation_steps == 0:
            self._evaluate()
            self._save()
        elif state.step % self.config.checkpoint_steps == 0:
            self._save()
        if termination_requested():
            self._save()
            raise Terminated(
                f"stopped after step {state.step}; a checkpoint is written and the same command "
                "continues from it"
            )

    def _evaluate(self) -> None:
        state = self.state
        scored = score_folder(self.scorer, self.run.dataset / "valid", self.run.config)
        if not np.isfinite(scored.scores).all():
            raise TrainingDiverged(self._diverged("a validation score is not a finite number"))
        found = evaluate(scored.labels, scored.scores, scored.weights, scored.groups)
        entry = {key: found[key] for key in ("auc", "gauc", "log_loss", "ne", "calibration")}
        entry = {
            "step": state.step,
            "epoch": state.step / self.steps_per_epoch,
            "learning_rate": float(self.optimizer.learning_rate),
            "train_loss": state.running_loss,
            **entry,
        }
        state.evaluations.append(entry)
        value = entry[self.config.monitor]
        if value is None:
            reason = found["undefined"].get(self.config.monitor, "it is undefined")
            raise InputRejected(
                f"validation {self.config.monitor}: {reason}; choose another train.monitor"
            )
        better = state.best_value is None or (
            value > state.best_value
            if HIGHER_IS_BETTER[self.config.monitor]
            else value < state.best_value
        )
        if better:
            state.best_step, state.best_value, state.evaluations_since_best = state.step, value, 0
            state.evaluations_since_drop = 0
            save_arrays(self._best_folder(state.step), self._weights(), {"step": state.step})
        else:
            state.evaluations_since_best += 1
            state.finished = state.evaluations_since_best >= self.config.patience
            self._drop_rates()
        self.run.progress.event("evaluation", **entry, best=better)

    def _drop_rates(self) -> None:
        state, schedule = self.state, self.config.schedule
        if not isinstance(schedule, Plateau):
            return
        state.evaluations_since_drop += 1
        if state.evaluations_since_drop >= schedule.patience:
            state.plateau_factor = max(state.plateau_factor * schedule.factor, schedule.min_factor)
            state.evaluations_since_drop = 0

    def _best_folder(self, step: int) -> Path:
        return self.work / f"best-{step:012d}"

    def _weights(self) -> dict[str, np.ndarray]:
        embeddings = self.model.embeddings
        weights = np.asarray(embeddings.packed)[:, : embeddings.width]
        return {"embeddings": weights, **dense_arrays(self.model)}

    def _save(self) -> None:
        arrays = {"packed": np.asarray(self.model.embeddings.packed), **dense_arrays(self.model)}
        for i, variable in enumerate(self.optimizer.variables):
            arrays[f"optimizer {i}"] = np.asarray(variable)
        save_arrays(step_folder(self.work, self.state.step), arrays, asdict(self.state))
        prune(self.work, _KEPT_CHECKPOINTS)
        for path in self.work.glob("best-*"):
            # the older checkpoint may name an older best state, which a resume would need
            if path != self._best_folder(self.state.best_step) and not self._named(path):
                shutil.rmtree(path)

    def _named(self, best: Path) -> bool:
        states = [
            json.loads((path / "state.json").read_text())["state"]["best_step"]
            for path in self.work.glob("step-*")
        ]
        return best in [self._best_folder(step) for step in states]

    def _restore(self) -> None:
        def best_folder(state: dict[str, Any]) -> Path | None:
            return self._best_folder(state["best_step"]) if state["best_step"] else None

        found = newest_whole(self.work, self._warn, best_folder)
        if found is None:
            return
        arrays, state = found
        self.state = TrainState(**state)
        self.model.embeddings.packed.assign(arrays["packed"])
        assign_dense(self.model, arrays)
        for i, variable in enumerate(self.optimizer.variables):
            variable.assign(arrays[f"optimizer {i}"])
        if self.state.batch == self.steps_per_epoch:
            self.state.epoch, self.state.batch = self.state.epoch + 1, 0
        self.run.progress.event("resumed", step=self.state.step, epoch=self.state.epoch)

    def _warn(self, message: str) -> None:
        self.run.progress.event("warning", message=message)

    def _finish(self) -> dict[str, Any]:
        state = self.state
        best = self.folder / "best"
        # a kill before the stage is whole leaves checkpoints from which this method runs again
        shutil.rmtree(best, ignore_errors=True)
        shutil.copytree(self._best_folder(state.best_step), best)
        end = End(state.step, state.best_step, self.total_steps, patience_ended=state.finished)
        if (warning := end.warning(self.config)) is not None:
            self._warn(warning)
        facts = {
            "steps": state.step,
            "best_step": state.best_step,
            "monitor": self.config.monitor,
            "stopped": end.text(self.config),
            "evaluations": state.evaluations,
            "examples_per_s": state.examples / state.seconds if state.seconds else None,
            "parameters": count_parameters(self.model),
            "tables": [
                {"name": t.name, "rows": t.rows, "dim": self.model.embeddings.width,
                 "parameters": t.rows * self.model.embeddings.width}
                for t in self.model.embeddings.tables
            ],
        }  # fmt: skip
        write_json(self.folder / "history.json", facts)
        return facts
