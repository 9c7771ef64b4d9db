# SPDX-License-Identifier: Apache-2.0
"""What a model sees of the data: names, kinds and sizes. No values, no files, no TensorFlow."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

PADDING = 0
MISSING = 1
FIRST_UNKNOWN = 2
"""Reserved ids of every table: 0 padding, 1 missing, then `num_oov` ids for unknown values."""
MOST_ROWS = 2**31 - 1
"""Rows of all tables of a model together, as ids are int32."""
LABEL, WEIGHT = "label", "weight"
"""Batch keys, in training, of each row's label, 0 or 1, and sample weight, (batch,)."""


def length_key(name: str) -> str:
    """Batch key of the number of real items in list or history `name`, int32 (batch,)."""
    return f"{name}_length"


def weight_key(name: str) -> str:
    """Batch key of the item weights of list `name`, float32 (batch, items)."""
    return f"{name}_weight"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Table(_Frozen):
    """An id space, and so one embedding table: ids are 0 … rows - 1, 0 is padding."""

    name: str
    rows: int = Field(ge=2)


class Categorical(_Frozen):
    """One id per row: `batch[name]` is int32 (batch,)."""

    kind: Literal["categorical"] = "categorical"
    name: str
    table: str


class CategoricalList(_Frozen):
    """A bag of ids per row.

    `batch[name]` is int32 (batch, max_items), padded with 0 on the right; `batch[name_length]`
    int32 (batch,); with `weighted`, `batch[name_weight]` float32 (batch, max_items).
    """

    kind: Literal["list"] = "list"
    name: str
    table: str
    max_items: int = Field(ge=1)
    weighted: bool = False


class Numeric(_Frozen):
    """One transformed number per row: `batch[name]` is float32 (batch,), never NaN."""

    kind: Literal["numeric"] = "numeric"
    name: str


class Channel(_Frozen):
    """One column of a history's events.

    `target` is the categorical feature of the candidate that the channel repeats (both share a
    table), or None for a column that a candidate does not have, such as an action type. With
    `time_gap` the ids say how long before the row an event happened (`features.gaps`): from
    `FIRST_UNKNOWN` on, a larger id is longer ago.
    """

    name: str
    table: str
    target: str | None = None
    time_gap: bool = False


class History(_Frozen):
    """Past events of the row's entity, oldest first, newest kept.

    For each channel `batch[channel]` is int32 (batch, max_items), padded with 0 on the right;
    `batch[name_length]` int32 (batch,) counts the real events.
    """

    kind: Literal["history"] = "history"
    name: str
    channels: tuple[Channel, ...] = Field(min_length=1)
    max_items: int = Field(ge=1)

    @property
    def time_gap(self) -> Channel | None:
        """The channel with time gaps, if there is one."""
        return next((channel for channel in self.channels if channel.time_gap), None)


Feature = Annotated[Categorical | CategoricalList | Numeric | History, Field(discriminator="kind")]


def _id_columns(features: tuple[Feature, ...]) -> Iterator[tuple[str, str]]:
    for feature in features:
        match feature:
            case Categorical() | CategoricalList():
                yield feature.name, feature.table
            case History():
                for channel in feature.channels:
                    yield channel.name, channel.table


class FeatureSchema(_Frozen):
    """The features of a data set in a fixed order, and the tables that their ids index."""

    tables: tuple[Table, ...]
    features: tuple[Feature, ...]

    @model_validator(mode="after")
    def _tables_exist(self) -> "FeatureSchema":
        known = {table.name for table in self.tables}
        for key, table in self.id_columns():
            if table not in known:
                raise ValueError(f"{key}: table {table!r} is not one of {sorted(known)}")
        return self

    def id_columns(self) -> Iterator[tuple[str, str]]:
        """Return (batch key, table name) of every id tensor, in the order of the features."""
        return _id_columns(self.features)

    def select(self, names: tuple[str, ...]) -> "FeatureSchema":
        """Return the schema of the named features, in this schema's order, and their tables.

        Raises:
            ValueError: A name is not a feature.
        """
        unknown = set(names) - {feature.name for feature in self.features}
        if unknown:
            raise ValueError(f"no feature named {', '.join(sorted(unknown))}")
        chosen = tuple(feature for feature in self.features if feature.name in names)
        used = {table for _, table in _id_columns(chosen)}
        tables = tuple(table for table in self.tables if table.name in used)
        return FeatureSchema(tables=tables, features=chosen)

    @property
    def categorical(self) -> tuple[Categorical, ...]:
        """Features with one id per row."""
        return tuple(f for f in self.features if isinstance(f, Categorical))

    @property
    def lists(self) -> tuple[CategoricalList, ...]:
        """Features with a bag of ids per row."""
        return tuple(f for f in self.features if isinstance(f, CategoricalList))

    @property
    def numeric(self) -> tuple[Numeric, ...]:
        """Features with one number per row."""
        return tuple(f for f in self.features if isinstance(f, Numeric))

    @property
    def histories(self) -> tuple[History, ...]:
        """Features with the past events of the row's entity."""
        return tuple(f for f in self.features if isinstance(f, History))
