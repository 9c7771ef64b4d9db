# SPDX-License-Identifier: Apache-2.0
"""The parts of a config that say which rows train, validate and test."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from features.specs import LONGEST_GAP_S
from pipeline.config_data import Section, Texts


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
        0.0,
        ge=0,
        le=LONGEST_GAP_S,
        description="Rows this close before a boundary are left out, in seconds.",
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


class FilesSplit(Section):
    """Files say which part their rows belong to, as where a benchmark comes divided."""

    kind: Literal["files"]
    train: Texts = Field(
        min_length=1,
        description="Globs of the names of files, or of the ends of their paths. Each file must be "
        "in one part.",
    )
    valid: Texts | None = Field(
        None, min_length=1, description="Likewise, for validation; or give valid_share."
    )
    test: Texts = Field(min_length=1, description="Likewise, for the test.")
    valid_share: float | None = Field(
        None, gt=0, lt=1, description="Share of the rows of train that validate, by a stable hash."
    )

    @model_validator(mode="after")
    def _one_validation(self) -> Self:
        if (self.valid is None) == (self.valid_share is None):
            raise ValueError(
                "give either valid, the files for validation, or valid_share, such as 0.1, to "
                "take rows of train for it"
            )
        return self


class LeaveLastOut(Section):
    """Each entity's last event tests, the one before validates, the others train."""

    kind: Literal["leave_last_out"]


SplitConfig = Annotated[
    TimeSplit | HashSplit | ColumnSplit | FilesSplit | LeaveLastOut, Field(discriminator="kind")
]
