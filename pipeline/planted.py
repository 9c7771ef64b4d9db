# SPDX-License-Identifier: Apache-2.0
"""Every log that `clickloom synth` generates, by the name of its task."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.config_file import explain, nearest
from pipeline.errors import ConfigError
from pipeline.planted_fields import FewPairs, FieldAware, Pairs
from pipeline.planted_interests import Interest
from pipeline.planted_memories import KeyValue, TwoHop
from pipeline.planted_sequences import Drift, Long, Order
from pipeline.planted_task import PlantedTask, write_task
from pipeline.synth import SynthConfig, write

CLICKS = "clicks"
"""Name of the log that is like a real one: users, items, histories, missing values."""
_DEFAULT_IMPRESSIONS = 200_000
TASKS: dict[str, type[PlantedTask]] = {
    task.name: task
    for task in (Pairs, FieldAware, FewPairs, Interest, Order, Drift, KeyValue, TwoHop, Long)
}


def generate_log(
    directory: Path,
    task: str = CLICKS,
    impressions: int | None = None,
    seed: int = 7,
    file_format: str = "csv",
) -> dict[str, Any]:
    """Writes the log of a task, its truth and a config to start from.

    Args:
        directory: Made if absent; files of an earlier log in it are replaced.
        task: `CLICKS` or one of `TASKS`.
        impressions: Rows of the log; the task's own number when not given.
        seed: Of all random draws.
        file_format: csv, csv.gz, jsonl or parquet.

    Returns:
        The content of `truth.json`, and `next`, the command that trains on the log.

    Raises:
        ConfigError: There is no such task, a size or the format is out of range, or the folder
            cannot be written to.
    """
    if task != CLICKS and task not in TASKS:
        raise ConfigError(f"--task {task}: no such task{nearest(task, [CLICKS, *TASKS])}")
    options = {"seed": seed} | ({} if impressions is None else {"impressions": impressions})
    try:
        facts = _write(directory, task, options, file_format)
    except ValidationError as error:
        raise ConfigError("; ".join(map(_problem, error.errors()))) from error
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"{directory}: cannot be written to: {reason}") from error
    return facts | {"next": f"clickloom run {directory / 'config.yaml'}"}


def _write(directory: Path, task: str, options: dict[str, int], file_format: Any) -> dict[str, Any]:
    if task != CLICKS:
        return write_task(TASKS[task](**options), directory, file_format).model_dump(mode="json")
    impressions = options.get("impressions", _DEFAULT_IMPRESSIONS)
    # users see 80 items each in the default log: other sizes keep that proportion
    config = SynthConfig(**options, users=max(impressions // 80, 10))
    return write(config, directory, file_format).model_dump(mode="json")


def _problem(detail: Any) -> str:
    option = f"--{detail['loc'][0]} {detail['input']}"
    if detail["type"] == "greater_than_equal":
        return f"{option}: expected a whole number of at least {detail['ctx']['ge']}"
    return f"{option}: {explain(detail)}"
