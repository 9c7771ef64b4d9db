# SPDX-License-Identifier: Apache-2.0
"""What every planted task is: a log that only a certain class of models can learn."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, SerializeAsAny

from pipeline.synth_files import Block, EventFormat, LogFacts, Starter, write_files


class PlantedTask(BaseModel, ABC, frozen=True, extra="forbid"):
    """A log to generate, by its options; the class is the task, an instance one log of it.

    Subclasses set the class variables and write `schema`, `blocks` and `body`; `planted` if a model
    can be asked what it found.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """What is planted, and which models can learn it, in one line."""
    learner: ClassVar[str]
    """Model section, as flow YAML, of a kind that learns the task."""
    foil: ClassVar[str]
    """Model section of a kind that does not, however long it is trained."""

    impressions: int = Field(60_000, ge=1, description="Rows of the log.")
    seed: int = Field(7, ge=0, description="Same task, options and seed, same bytes.")

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of the events."""

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yields events and their truth."""

    @abstractmethod
    def body(self) -> str:
        """Returns the YAML of a run's config after `data`, but for `model`."""

    def planted(self) -> dict[str, Any]:
        """Returns what a model can be asked to find, for `truth.json`."""
        return {}


class PlantedResult(LogFacts, frozen=True, extra="forbid"):
    """What `write_task` wrote; `truth.json` is this as JSON."""

    task: str = Field(description="Name of the task.")
    planted: dict[str, Any] = Field(description="What a model can be asked to find.")
    config: SerializeAsAny[PlantedTask] = Field(description="What was asked for.")


def write_task(
    task: PlantedTask, directory: Path, event_format: EventFormat = "csv"
) -> PlantedResult:
    """Writes the log, its truth and a config that learns it; see `write_files`.

    Args:
        task: What to generate.
        directory: Made if absent; files of these names in it are replaced.
        event_format: `csv`, `csv.gz`, `jsonl` or `parquet`.

    Returns:
        The content of `truth.json`.

    Raises:
        ValueError: If `event_format` is none of these.
    """
    about = (
        f"{task.summary}\n"
        "What cannot learn it, for comparison: clickloom run this file with\n"
        f"  --run-id foil --set 'model={task.foil}'"
    )
    return write_files(
        task.schema,
        task.blocks(),
        directory,
        event_format,
        partial(PlantedResult, seed=task.seed, task=task.name, planted=task.planted(), config=task),
        Starter(task.name, about, f"{task.body()}model: {task.learner}\n"),
    )


def clicks_of(logits: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws clicks, 0 or 1, of logits (rows,); returns their probabilities and the clicks."""
    probability = 1 / (1 + np.exp(-logits))
    return probability, (rng.random(len(logits)) < probability).astype(np.int64)
