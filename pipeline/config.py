# SPDX-License-Identifier: Apache-2.0
"""The config of a run: one YAML file, checked as a whole before anything is read."""

import os
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from features.specs import FeatureSpec, HistorySpec, TimeFormat

Format = Literal["csv", "tsv", "jsonl", "parquet"]
RESERVED_NAMES = frozenset({"label", "weight", "row_id", "split", "score"})
"""Columns of the encoded data and of predictions; no feature may be called so."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class FilesConfig(_Section):
    """One table in files."""

    files: tuple[str, ...] = Field(
        min_length=1,
        description="Paths or globs. {date} stands for the run's date, ${NAME} for an "
        "environment variable. Relative paths start at the working directory.",
    )
    format: Format | None = Field(None, description="From the files' ending when not given.")
    header: bool = Field(True, description="Whether text files start with the columns' names.")
    columns: tuple[str, ...] | None = Field(
        None, description="Names of the columns of text files without a header, in order."
    )
    separator: str | None = Field(
        None, min_length=1, max_length=1, description="Between two fields; , for csv, tab for tsv."
    )
    encoding: Literal["utf-8", "utf-16", "latin-1"] = Field("utf-8", description="Of text files.")
    null_tokens: tuple[str, ...] = Field(
        ("",), description="Texts that mean missing, exactly as written. Empty text always does."
    )
    trim: bool = Field(
        False, description="Strip white space around texts (around numbers it never matters)."
    )

    @field_validator("files", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _header_or_columns(self) -> Self:
        if self.columns and len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: a name stands twice")
        if not self.header and not self.columns:
            raise ValueError("header: false needs columns, the names in order")
        if self.header and self.columns:
            raise ValueError("columns are for files without a header; add header: false")
        return self


class JoinConfig(FilesConfig):
    """A side table, such as items or users, whose columns are added by key."""

    on: str | dict[str, str] = Field(
        description="Key column, or {column of the data: column of the side table}. Each key "
        "may stand once in the side table; rows without a match get missing values."
    )
    prefix: str = Field("", description="Put before the names of the added columns.")


class DataConfig(FilesConfig):
    """Where the click log lies and how it is written."""

    joins: tuple[JoinConfig, ...] = Field((), description="Side tables, joined in this order.")
    max_bad_rows: int = Field(
        0,
        ge=0,
        description="Malformed rows that are set aside in dataset/rejected before the "
        "run is refused.",
    )


_RULE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*")


class LabelConfig(_Section):
    """What counts as a click."""

    column: str = Field(description="Column of the data.")
    positive: str | tuple[str, ...] | None = Field(
        None,
        description='When a row is positive: a comparison such as ">= 4", or a list of values. '
        "Without it the column must hold 0 and 1.",
    )

    @field_validator("positive", mode="before")
    @classmethod
    def _values_as_text(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(str(item) for item in value)
        return value

    @model_validator(mode="after")
    def _rule_is_readable(self) -> Self:
        if isinstance(self.positive, str) and not _RULE.fullmatch(self.positive):
            raise ValueError(
                f"positive: {self.positive!r} is not a comparison with a number such as '>= 4'; "
                "for values give a list such as [click, buy]"
            )
        return self

    @property
    def comparison(self) -> tuple[str, float] | None:
        """Operator and number of a comparison rule, or None."""
        match = _RULE.fullmatch(self.positive) if isinstance(self.positive, str) else None
        return (match[1], float(match[2])) if match else None


class TimeConfig(TimeFormat):
    """When an event happened."""

    column: str = Field(description="Column of the data.")


class TimeSplit(_Section):
    """Oldest rows train, newest rows test; rows of one moment stay together."""

    kind: Literal["time"] = "time"
    valid: float = Field(0.1, gt=0, lt=1, description="Share of rows for validation.")
    test: float = Field(0.1, gt=0, lt=1, description="Share of rows for the test, the newest.")
    valid_from: str | None = Field(
        None, description="First moment of validation (ISO 8601, UTC) instead of a share."
    )
    test_from: str | None = Field(None, description="First moment of the test, likewise.")
    gap_s: float = Field(
        0.0, ge=0, description="Rows this close before a boundary are left out, in seconds."
    )

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.valid + self.test >= 1:
            raise ValueError("valid + test leave no rows for training")
        if (self.valid_from is None) != (self.test_from is None):
            raise ValueError("give both valid_from and test_from, or neither")
        return self


class HashSplit(_Section):
    """By a stable hash of a column: the same value is in the same part in every run."""

    kind: Literal["hash", "user"]
    column: str | None = Field(
        None, description="Column that is hashed; for user the entity, for hash the row number."
    )
    valid: float = Field(0.1, gt=0, lt=1, description="Share of values for validation.")
    test: float = Field(0.1, gt=0, lt=1, description="Share of values for the test.")

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.valid + self.test >= 1:
            raise ValueError("valid + test leave no rows for training")
        return self


class ColumnSplit(_Section):
    """A column says which part a row belongs to."""

    kind: Literal["column"]
    column: str = Field(description="Column of the data.")
    train: tuple[str, ...] = Field(("train",), description="Its values for training rows.")
    valid: tuple[str, ...] = Field(("valid",), description="Its values for validation rows.")
    test: tuple[str, ...] = Field(("test",), description="Its values for test rows.")


class LeaveLastOut(_Section):
    """Each entity's last event tests, the one before validates, the others train."""

    kind: Literal["leave_last_out"]


SplitConfig = Annotated[
    TimeSplit | HashSplit | ColumnSplit | LeaveLastOut, Field(discriminator="kind")
]


class TrainConfig(_Section):
    """How the model is fitted."""

    epochs: int = Field(3, ge=1, description="Passes over the training rows, at most.")
    batch_size: int = Field(4096, ge=1, description="Rows per step.")
    learning_rate: float = Field(1e-3, gt=0, description="Of Adam, for dense weights.")
    table_learning_rate: float | None = Field(
        None,
        gt=0,
        description="Of row-wise Adam, for embedding tables; as learning_rate if not given.",
    )
    table_l2: float = Field(
        0.0, ge=0, description="L2 penalty λ·w on the embedding rows of a batch."
    )
    clip_norm: float | None = Field(
        None, gt=0, description="Largest global norm of all gradients, embedding rows included."
    )
    monitor: Literal["auc", "gauc", "log_loss"] = Field(
        "auc", description="Validation metric that picks the best state."
    )
    evaluations_per_epoch: int = Field(4, ge=1, description="Validations within one epoch.")
    patience: int = Field(
        4, ge=1, description="Evaluations without a better metric before training stops."
    )
    checkpoint_steps: int = Field(500, ge=1, description="Steps between two checkpoints.")
    xla: bool = Field(True, description="Compile the dense part with XLA.")


Metric = Literal["auc", "gauc", "log_loss", "ne", "calibration", "ece"]


class Gate(_Section):
    """A condition on a test metric that a model must meet to be published."""

    min: float | None = Field(None, description="Smallest value that passes.")
    max: float | None = Field(None, description="Largest value that passes.")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self


class EvaluateConfig(_Section):
    """How the model is judged."""

    group: str | None = Field(
        None, description="Column whose groups GAUC averages over; the entity if not given."
    )
    metrics: tuple[Metric, ...] | None = Field(
        None, description="Metrics that must be computable; all that are when not given."
    )
    gates: dict[Metric, Gate] = Field(
        {}, description="Conditions on test metrics; a model that misses one is not published."
    )
    bins: int = Field(20, ge=2, description="Calibration bins of equally many rows.")


class ExportConfig(_Section):
    """What is published."""

    directory: str | None = Field(
        None, description="Where versions are published; <run>/export when not given."
    )
    keep: int = Field(5, ge=1, description="Versions that are kept, the newest.")
    parity_rows: int = Field(
        1000, ge=1, description="Real rows that go through both paths before publication."
    )
    parity_limit: float = Field(
        1e-6, gt=0, description="Largest difference of a served and an offline score."
    )


class EngineConfig(_Section):
    """What runs the relational work."""

    kind: Literal["duckdb"] = Field("duckdb", description="DuckDB, inside this process.")
    memory: str = Field(
        "4GB",
        pattern=r"^\d+(\.\d+)?\s*(MB|GB|MiB|GiB)$",
        description="Above this it spills to disk.",
    )
    threads: int | None = Field(None, ge=1, description="All cores when not given.")


class RunConfig(_Section):
    """A whole run."""

    name: str = Field(pattern=r"^[\w.-]+$", description="Name of the run's folder.")
    seed: int = Field(7, ge=0, lt=2**31, description="Of shuffling, initial weights and dropout.")
    data: DataConfig
    label: LabelConfig
    weight: str | None = Field(None, description="Column with sample weights, 0 or more.")
    time: TimeConfig | None = Field(None, description="When an event happened.")
    entity: str | None = Field(
        None, description="Column of whom histories belong to, such as user_id."
    )
    keys: tuple[str, ...] = Field((), description="Columns that predictions carry along.")
    split: SplitConfig = TimeSplit()
    features: dict[str, FeatureSpec] = Field(min_length=1)
    model: dict[str, Any] = Field(description="kind and the options of that kind.")
    train: TrainConfig = TrainConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    export: ExportConfig = ExportConfig()
    engine: EngineConfig = EngineConfig()

    @property
    def group_column(self) -> str | None:
        """Column whose groups GAUC averages over."""
        return self.evaluate.group or self.entity

    def histories(self) -> Iterator[tuple[str, HistorySpec]]:
        """Yield the history features."""
        for name, spec in self.features.items():
            if isinstance(spec, HistorySpec):
                yield name, spec


def expand_path(text: str, date: str | None) -> str:
    """Fill `{date}` and `${NAME}` in a path.

    Raises:
        ValueError: No date was given, or the environment has no such variable.
    """
    if "{date}" in text:
        if date is None:
            raise ValueError(f"{text}: {{date}} needs a date: call with --date YYYY-MM-DD")
        text = text.replace("{date}", date)

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{text}: environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)
