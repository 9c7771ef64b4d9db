# SPDX-License-Identifier: Apache-2.0
"""How a user declares features: one spec per feature, as it stands in the config."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from features.options import Options
from features.schema import FIRST_UNKNOWN, MOST_ROWS

TimeUnit = Literal["s", "ms", "us", "ns"]
DatetimePart = Literal["hour", "weekday", "day", "month", "hour_of_week"]
PART_SIZES: Mapping[DatetimePart, int] = {
    "hour": 24, "weekday": 7, "day": 32, "month": 13, "hour_of_week": 168,
}  # fmt: skip
"""Number of values of each part; days and months count from 1, weekday 0 is Monday."""

_MOST_BUCKETS = MOST_ROWS - FIRST_UNKNOWN
_MOST_ITEMS = 1_000_000
LONGEST_GAP_S = 1e10
"""317 years: a moment less a gap stays a number of 64 bits in microseconds."""


class TimeFormat(Options):
    """How a moment is written: a count since 1970-01-01 UTC, or text."""

    unit: TimeUnit | None = Field(
        None, description="Unit of a number that counts from 1970-01-01 UTC."
    )
    format: str | None = Field(
        None,
        description="strptime format of a text, such as %Y-%m-%d %H:%M:%S; read as UTC. "
        "ISO 8601 when neither unit nor format is given.",
    )

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        if self.unit and self.format:
            raise ValueError("give either unit (a number) or format (a text), not both")
        return self


class ColumnSpec(Options):
    """Base of the features that read a column of the data."""

    column: str | None = Field(
        None, description="Column of the data; the feature's name if not given."
    )
    required: bool = Field(True, description="Whether a file without this column is refused.")


class IdSpec(ColumnSpec):
    """Base of the features with ids, whose past values histories can carry."""

    past_only: bool = Field(
        False,
        description="Only past events have it, as what came of them: histories carry it, models "
        "see none of the row itself, and the served model takes none.",
    )


class CategoricalSpec(IdSpec):
    """A value out of a set: text, whole number or true/false; or a list of such values."""

    kind: Literal["categorical"]
    type: Literal["text", "int"] = Field(
        "text",
        description="text: ids as they are written. int: whole numbers, so that the served model "
        "takes int64. 42 and '42' are one id either way.",
    )
    separator: str | None = Field(
        None, min_length=1, description="Makes it a list: the text between two items, such as |."
    )
    weight_separator: str | None = Field(
        None, min_length=1, description="Text between an item and its weight, as : in item:0.5."
    )
    max_items: int = Field(
        50,
        ge=1,
        le=_MOST_ITEMS,
        description="Items of a list that are kept, from the left.",
    )
    min_count: int = Field(1, ge=1, description="Rarer values in the training rows are unknown.")
    max_size: int | None = Field(None, ge=1, description="Keep only this many values, by count.")
    hash_buckets: int | None = Field(
        None,
        ge=1,
        le=_MOST_BUCKETS,
        description="Hash values into this many ids instead of fitting a vocabulary.",
    )
    num_oov: int = Field(
        1, ge=1, le=_MOST_BUCKETS, description="Ids that unknown values are hashed to."
    )
    table: str | None = Field(
        None, description="Feature whose vocabulary and embedding table this one shares."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        # by value, not by what was written: a config that is dumped in full must load again
        fields = type(self).model_fields
        options = ("min_count", "max_size", "num_oov")
        fitted = {key for key in options if getattr(self, key) != fields[key].default}
        if self.hash_buckets and fitted:
            raise ValueError(
                f"hash_buckets has no vocabulary: take out {', '.join(sorted(fitted))}"
            )
        if self.table and (fitted or self.hash_buckets):
            raise ValueError(f"the options of the table belong to feature {self.table!r}")
        if self.weight_separator and not self.separator:
            raise ValueError("weight_separator needs separator: only items of a list have weights")
        if self.weight_separator and self.separator and self.separator in self.weight_separator:
            raise ValueError(
                f"weight_separator {self.weight_separator!r} cannot be in an item, which ends at "
                f"{self.separator!r}"
            )
        if self.past_only and self.separator:
            raise ValueError("past_only: histories carry one id an event, take out separator")
        if self.separator and self.type == "int":
            raise ValueError("items of a list are text; take out type: int")
        return self


class NumericSpec(ColumnSpec):
    """A number, transformed in this order: clip, log, scale; missing values are filled last."""

    kind: Literal["numeric"]
    clip: tuple[FiniteFloat, FiniteFloat] | None = Field(
        None, description="Lowest and highest value, in the column's unit; others are moved there."
    )
    log: bool = Field(False, description="sign(x) · ln(1 + |x|), which tames heavy tails.")
    scale: Literal["standard", "min_max", "none"] = Field(
        "standard",
        description="standard: (x - mean) / standard deviation; min_max: training range to 0 … 1.",
    )
    fill: Literal["mean", "zero"] | FiniteFloat = Field(
        "mean",
        description="Stands for a missing value: training mean, zero, or a number "
        "in the column's unit.",
    )
    missing_flag: bool = Field(
        False, description="Add feature <name>_missing: 1 where the value is missing, else 0."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.clip and self.clip[0] >= self.clip[1]:
            raise ValueError(f"clip: {self.clip[0]:g} is not below {self.clip[1]:g}")
        return self


class BucketedSpec(IdSpec):
    """A number cut into ranges, each with an id of its own."""

    kind: Literal["bucketed"]
    edges: tuple[FiniteFloat, ...] | None = Field(
        None, description="Ascending edges e₁ < e₂ …: bucket 0 is x < e₁, bucket 1 is e₁ ≤ x < e₂ …"
    )
    quantiles: int | None = Field(
        None, ge=2, description="Number of buckets with equally many training rows."
    )
    log_squared: bool = Field(
        False,
        description="Bucket ⌊ln²x⌋ for x > 2, else the whole number itself (Criteo's rule); "
        "what is below -100 shares a bucket.",
    )

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        rules = [self.edges is not None, self.quantiles is not None, self.log_squared]
        if sum(rules) != 1:
            raise ValueError("give exactly one of edges, quantiles and log_squared")
        if self.edges is not None and (
            not self.edges or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False))
        ):
            raise ValueError("edges must be one or more ascending numbers")
        return self


class DatetimeSpec(IdSpec, TimeFormat):
    """A part of a moment (UTC), such as its hour, as a category."""

    kind: Literal["datetime"]
    part: DatetimePart = Field(description="hour, weekday (0 = Monday), day, month, hour_of_week.")


class HistorySpec(Options):
    """The entity's events strictly before the row's time, oldest first, the newest kept."""

    kind: Literal["history"]
    of: tuple[str, ...] = Field(
        min_length=1,
        description="Categorical (not lists), bucketed or datetime features whose past values "
        "travel together; each shares its feature's table.",
    )
    events: Literal["positive", "all"] | dict[str, tuple[str, ...]] = Field(
        "positive",
        description="Which events count: those with a positive label, all, or {column: [values]}.",
    )
    max_items: int = Field(
        50, ge=1, le=_MOST_ITEMS, description="Events that are kept, the newest."
    )
    gap_s: float = Field(
        0.0,
        ge=0,
        le=LONGEST_GAP_S,
        description="Only events more than this many seconds before the row count.",
    )
    time_gap: bool = Field(
        False,
        description="Add channel <name>_gap: how long before the row each event happened, as the "
        "number of binary digits of its whole seconds (0 s: 0, 1 s: 1, 2 … 3 s: 2; at most 31).",
    )

    @model_validator(mode="after")
    def _one_column(self) -> Self:
        if isinstance(self.events, dict) and len(self.events) != 1:
            raise ValueError("events: name one column, as in {action: [click, buy]}")
        if isinstance(self.events, dict) and not all(self.events.values()):
            raise ValueError("events: name a value that counts, as in {action: [click, buy]}")
        if len(set(self.of)) != len(self.of):
            raise ValueError("of: a feature is named twice")
        return self


FeatureSpec = Annotated[
    CategoricalSpec | NumericSpec | BucketedSpec | DatetimeSpec | HistorySpec,
    Field(discriminator="kind"),
]
Specs = Mapping[str, FeatureSpec]


def channel_name(history: str, feature: str) -> str:
    """Return the name of a history's channel: a batch key and an input of the served model."""
    return f"{history}_{feature}"


def gap_name(history: str) -> str:
    """Return the name of a history's channel of time gaps, which is its table's name too."""
    return channel_name(history, "gap")


def is_past_only(spec: FeatureSpec) -> bool:
    """Return whether only past events have the feature."""
    return isinstance(spec, IdSpec) and spec.past_only


def missing_flag_name(feature: str) -> str:
    """Return the name of the feature that says where `feature` is missing."""
    return f"{feature}_missing"


def table_of(name: str, specs: Specs) -> str:
    """Return the table of categorical feature `name`: its own, or the one that it shares."""
    spec = specs[name]
    if isinstance(spec, CategoricalSpec) and spec.table:
        return spec.table
    return name
