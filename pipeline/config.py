# SPDX-License-Identifier: Apache-2.0
"""The config of a run: one YAML file, checked as a whole before anything is read."""

from collections.abc import Iterator
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
from pipeline.config_lists import with_list_separators
from pipeline.config_report import NamesConfig, ReportConfig
from pipeline.config_split import (
    ColumnSplit,
    FilesSplit,
    HashSplit,
    LeaveLastOut,
    SplitConfig,
    TimeSplit,
    moment_us,
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
    "FilesSplit",
    "Format",
    "Gate",
    "HashSplit",
    "JoinConfig",
    "LabelConfig",
    "LeaveLastOut",
    "NamesConfig",
    "ReportConfig",
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


Metric = Literal["auc", "gauc", "log_loss", "ne", "calibration", "ece"]


class Gate(Section):
    """A condition on a test metric that a model must meet to be published."""

    min: float | None = Field(None, description="Smallest value that passes.")
    max: float | None = Field(None, description="Largest value that passes.")

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.min is None and self.max is None:
            raise ValueError("give min, max or both")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"min {self.min:g} is above max {self.max:g}: no model passes")
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


MEMORY = r"^(\d+(?:\.\d+)?)\s*(MB|GB|MiB|GiB)$"
"""How a size of memory is written: a number and its unit."""
NAME = r"^\w[\w.-]*$"
"""How runs and their folders are called."""
FORMS = {
    MEMORY: "a size of memory such as 8GB or 512MiB",
    NAME: "letters, digits, _ . and -, no . or - in front",
}
"""What a text of each pattern is, in words."""


class EngineConfig(Section):
    """What runs the relational work, and the memory that a run may take."""

    kind: Literal["duckdb"] = Field("duckdb", description="DuckDB, inside this process.")
    memory: str = Field(
        "4GB",
        pattern=MEMORY,
        description="Above this it spills to disk.",
    )
    max_model_memory: str | None = Field(
        None,
        pattern=MEMORY,
        description="A model that takes more in training, its optimiser's numbers included, is "
        "refused before it is built; half of the machine's memory when not given.",
    )
    threads: int | None = Field(None, ge=1, description="All cores when not given.")


class RunConfig(Section):
    """A whole run."""

    name: str = Field(
        pattern=NAME, description="Name of the run's folder: letters, digits, _ . and -."
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
    report: ReportConfig = ReportConfig()
    export: ExportConfig = ExportConfig()
    engine: EngineConfig = EngineConfig()

    @model_validator(mode="before")
    @classmethod
    def _separators_of_the_format(cls, content: Any) -> Any:
        return with_list_separators(content)

    @property
    def group_column(self) -> str | None:
        """Column whose groups GAUC averages over."""
        return self.evaluate.group or self.entity

    def histories(self) -> Iterator[tuple[str, HistorySpec]]:
        """Yield the history features."""
        for name, spec in self.features.items():
            if isinstance(spec, HistorySpec):
                yield name, spec
