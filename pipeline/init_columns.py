# SPDX-License-Identifier: Apache-2.0
"""What a sample shows of each column, and which of them is the label, the time, the user."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_LABELS = ("click", "clicked", "is_click", "clk", "label", "y", "target", "rating", "stars",
           "overall", "like")  # fmt: skip
_TIMES = ("time", "timestamp", "time_stamp", "ts", "datetime", "event_time", "date", "hour",
          "unixreviewtime")  # fmt: skip
_USERS = ("user_id", "user", "uid", "userid", "reviewerid", "member_id", "visitor_id",
          "customer_id", "customer", "client_id", "account_id", "session_id")  # fmt: skip
_SEPARATORS = ("|", "^", ";")
_LIST_SHARE = 0.3
TRUTHS = {"0", "1", "0.0", "1.0", "true", "false"}
UNITS = {9: "s", 10: "s", 12: "ms", 13: "ms", 16: "us", 19: "ns"}
"""Unit of a count from 1970 by its number of digits."""
_RECENT = [datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2000, 2040)]
_PER_SECOND = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}


@dataclass(frozen=True)
class ColumnGuess:
    """What the sample shows of one column."""

    name: str
    values: list[str]
    distinct: int
    rows: int
    is_list: bool

    @property
    def is_number(self) -> bool:
        """Whether every value reads as a number."""
        return bool(self.values) and all(is_number(value) for value in self.values)

    @property
    def is_whole(self) -> bool:
        """Whether every value is a whole number."""
        return bool(self.values) and all(v.lstrip("-").isdecimal() for v in self.values)

    @property
    def separator(self) -> str | None:
        """The text that cuts many of the values, or None."""
        for separator in _SEPARATORS:
            cut = sum(separator in value for value in self.values)
            if self.values and cut >= _LIST_SHARE * len(self.values):
                return separator
        return None

    @property
    def has_several(self) -> bool:
        """Whether a row has several values, so that the feature is a list."""
        return self.is_list or self.separator is not None


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Role:
    """A column that was found for a role, and why, or none and what might be meant."""

    column: ColumnGuess | None
    why: str


def label_of(columns: Sequence[ColumnGuess]) -> Role:
    """Return the column of the label, by its name, or as the only one that says yes or no."""
    return _role(columns, _LABELS, _is_truth, "a label", "of 0 and 1")


def time_of(columns: Sequence[ColumnGuess]) -> Role:
    """Return the column of the time, by its name, or as the only one that holds moments."""
    return _role(columns, _TIMES, _is_time, "a time", "with moments of this century")


def user_of(columns: Sequence[ColumnGuess]) -> ColumnGuess | None:
    """Return the column of the user, by its name."""
    return _named(columns, _USERS)


def _role(
    columns: Sequence[ColumnGuess],
    names: Sequence[str],
    fits: Callable[[ColumnGuess], bool],
    role: str,
    what: str,
) -> Role:
    if (named := _named(columns, names)) is not None:
        return Role(named, "")
    found = [column for column in columns if fits(column)]
    if len(found) == 1:
        return Role(found[0], f"the only column {what}")
    meant = f"; {what} there are {', '.join(c.name for c in found)}" if found else ""
    return Role(None, f"no column is called like {role}{meant}")


def _named(columns: Sequence[ColumnGuess], names: Sequence[str]) -> ColumnGuess | None:
    by_name = {column.name.lower(): column for column in columns}
    return next((by_name[name] for name in names if name in by_name), None)


def _is_truth(column: ColumnGuess) -> bool:
    return column.distinct == 2 and {value.lower() for value in column.values} <= TRUTHS


def _is_time(column: ColumnGuess) -> bool:
    if not column.values or column.name.lower().endswith("id"):
        return False
    return all(map(_is_moment, column.values))


def _is_moment(text: str) -> bool:
    if not text.isdecimal():
        return re.match(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}", text) is not None
    unit = UNITS.get(len(text))
    return unit is not None and _RECENT[0] <= int(text) / _PER_SECOND[unit] < _RECENT[1]
