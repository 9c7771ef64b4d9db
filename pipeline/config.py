# SPDX-License-Identifier: Apache-2.0
"""The config of a run: one YAML file, checked as a whole before anything is read."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from features.specs import FeatureSpec, HistorySpec
from pipeline.config_data import (
    DataConfig,
    FilesConfig,
    Format,
    JoinConfig,
    LabelConfig,
    Section,
    Texts,
    TimeConfig,
    expand_path,
    in_full,
)
from pipeline.config_train import TrainConfig

__all__ = [
    "ColumnSplit",
    "DataConfig",
    "DriftConfig",
    "EngineConfig",
    "EvaluateConfig",
    "ExportConfig",
    "FilesConfig",
    "Format",
    "Gate",
    "HashSplit",
    "JoinConfig",
    "LabelConfig",
    "LeaveLastOut",
    "RunConfig",
    "SplitConfig",
    "TimeConfig",
    "TimeSplit",
    "TrainConfig",
    "expand_path",
    "moment_us",
]

RESERVED_NAMES = frozenset({"row_id", "label", "weight", "group", "time_us", "split", "score"})
"""Columns of the encoded data and of predictions; no feature may be called so."""
RESERVED_KEYS = RESERVED_NAMES - {"split"} | {"row"}
"""Columns of predictions beside the keys; no key may be called so."""


def moment_us(iso: str) -> int:
    """Return a moment (ISO 8601, UTC unless it says otherwise) in µs since 1970.

    Raises:
        ValueError: The text is no such moment.
    """
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        raise ValueError(f"{iso!r} is no moment such as 2026-01-31 or 2026-01-31T12:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


class TimeSplit(Section):
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
        moments = [moment_us(text) for text in (self.valid_from, self.test_from) if text]
        if moments and moments[0] >= moments[1]:
            raise ValueError("valid_from must be before test_from: the newest rows are the test")
        return self


class HashSplit(Section):
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


class ColumnSplit(Section):
    """A column says which part a row belongs to."""

    kind: Literal["column"]
    column: str = Field(description="Column of the data.")
    train: Texts = Field(("train",), description="Its values for training rows.")
    valid: Texts = Field(("valid",), description="Its values for validation rows.")
    test: Texts = Field(("test",), description="Its values for test rows.")

    @model_validator(mode="after")
    def _apart(self) -> Self:
        parts = [*self.train, *self.valid, *self.test]
        shared = sorted({value for value in parts if parts.count(value) > 1})
        if shared:
            raise ValueError(f"values may name one part only: {', '.join(shared)}")
        return self


class LeaveLastOut(Section):
    """Each entity's last event tests, the one before validates, the others train."""

    kind: Literal["leave_last_out"]


SplitConfig = Annotated[
    TimeSplit | HashSplit | ColumnSplit | LeaveLastOut, Field(discriminator="kind")
]


Metric = Literal["auc", "gauc", "log_loss", "ne", "calibration", "ece"]


class Gate(Section):
    """A condition on a test metric that a model must meet to be published."""

    min: float | None = Field(None, description="Smallest value that passes.")
    max: float | None = Field(None, description="Largest value that passes.")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        return self


class EvaluateConfig(Section):
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


class DriftConfig(Section):
    """How far the test rows, the newest in a split by time, may be from the training rows."""

    max_unknown: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Largest share of test rows with an unknown value, by feature.",
    )
    max_missing_rise: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Largest rise of the share of missing values from training to test rows.",
    )


class ExportConfig(Section):
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


class EngineConfig(Section):
    """What runs the relational work."""

    kind: Literal["duckdb"] = Field("duckdb", description="DuckDB, inside this process.")
    memory: str = Field(
        "4GB",
        pattern=r"^\d+(\.\d+)?\s*(MB|GB|MiB|GiB)$",
        description="Above this it spills to disk.",
    )
    threads: int | None = Field(None, ge=1, description="All cores when not given.")


class RunConfig(Section):
    """A whole run."""

    name: str = Field(
        pattern=r"^\w[\w.-]*$", description="Name of the run's folder: letters, digits, _ . and -."
    )
    seed: int = Field(7, ge=0, lt=2**31, description="Of shuffling, initial weights and dropout.")
    data: DataConfig
    label: Annotated[LabelConfig, in_full("label")]
    weight: str | None = Field(None, description="Column with sample weights, 0 or more.")
    time: Annotated[TimeConfig | None, in_full("time")] = Field(
        None, description="When an event happened."
    )
    entity: str | None = Field(
        None, description="Column of whom histories belong to, such as user_id."
    )
    keys: Texts = Field((), description="Columns that predictions carry along.")
    split: Annotated[SplitConfig, in_full("split")] = TimeSplit()
    features: dict[str, FeatureSpec] = Field(min_length=1)
    model: Annotated[dict[str, Any], in_full("model")] = Field(
        description="kind and the options of that kind."
    )
    train: TrainConfig = TrainConfig()
    drift: DriftConfig = DriftConfig()
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
