# SPDX-License-Identifier: Apache-2.0
"""Ibis expressions that turn source columns into raw values of a declared type.

A raw value is what a served model takes: exact text, int64, float32 or a list of texts. Each
reader returns the value, missing where the cell is empty or a null token, and whether the cell
holds something that cannot be read as that type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import ibis.expr.datatypes as dt

from features.moments import DEFAULTS, TimeLayout
from features.specs import TimeFormat

MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
FLOAT32_MAX = 3.4028234663852886e38
EXACT_IN_FLOAT64 = 2**53
_WHOLE_NUMBER = r"^[+-]?[0-9]+$"


@dataclass(frozen=True)
class NullRule:
    """Which texts mean missing, and whether white space around texts counts."""

    tokens: tuple[str, ...] = ("",)
    trim: bool = False


@dataclass(frozen=True)
class Read:
    """A typed value (null = missing) and whether the cell is malformed."""

    value: Any
    malformed: Any


def read_text(column: Any, rule: NullRule) -> Read:
    """Read an id or another text exactly; whole floats become whole numbers (42.0 is 42)."""
    dtype = column.type()
    if dtype.is_string():
        text = column.strip() if rule.trim else column
        return Read(_without_tokens(text, rule), ibis.literal(False))
    if dtype.is_floating():
        number = ibis.ifelse(column.isnan(), None, column)
        whole = number.try_cast("int64")
        exact = (whole.cast("float64") == number) & (number.abs() <= EXACT_IN_FLOAT64)
        value = ibis.ifelse(exact, whole, None)
        return Read(value.cast("string"), number.notnull() & value.isnull())
    if dtype.is_boolean():
        return Read(ibis.ifelse(column, "true", "false"), ibis.literal(False))
    return Read(column.cast("string"), ibis.literal(False))


def read_integer(column: Any, rule: NullRule) -> Read:
    """Read a whole number that fits int64."""
    dtype = column.type()
    if dtype.is_integer():
        value = column.try_cast("int64")
        return Read(value, column.notnull() & value.isnull())
    text = read_text(column, NullRule(rule.tokens, trim=True))
    digits = text.value.re_search(_WHOLE_NUMBER)
    value = ibis.ifelse(digits, text.value, None).try_cast("int64")
    return Read(value, text.malformed | (text.value.notnull() & value.isnull()))


def read_number(column: Any, rule: NullRule) -> Read:
    """Read a float32; NaN is missing, numbers beyond its range become its largest value."""
    number, malformed = _float64(column, rule)
    present = number.notnull() & ~number.isnan()
    value = ibis.ifelse(present, number, None).clip(-FLOAT32_MAX, FLOAT32_MAX).cast("float32")
    return Read(value, malformed)


def read_texts(
    column: Any, rule: NullRule, separator: str, weight_separator: str | None, max_items: int
) -> tuple[Read, Any | None]:
    """Read a list of texts, and the weights of its items where they have any.

    Empty items are left out; a weight that is not written counts 1.

    Returns:
        The items, array<string> never null, and the weights, array<float32> or None.
    """
    items = split_texts(column, separator)
    items = items.filter(lambda item: item.notnull() & (item.strip() != ""))[:max_items]
    if weight_separator is None:
        return Read(_strip_items(items, rule), ibis.literal(False)), None
    names = items.map(lambda item: item.split(weight_separator)[0])
    written = items.map(lambda item: item.split(weight_separator)[1])
    weights = written.map(lambda text: text.try_cast("float32"))
    unreadable = written.zip(weights).filter(lambda p: p["f1"].notnull() & p["f2"].isnull())
    weights = weights.map(lambda weight: weight.fill_null(ibis.literal(1.0, "float32")))
    return Read(_strip_items(names, rule), unreadable.length() > 0), weights


def split_texts(column: Any, separator: str) -> Any:
    """Return a list column as it is, a text column cut at `separator`; never null."""
    dtype = column.type()
    if dtype.is_array():
        items = column.map(lambda item: item.cast("string"))
    else:
        items = column.cast("string").split(separator)
    return items.fill_null(ibis.literal([], "array<string>"))


def _strip_items(items: Any, rule: NullRule) -> Any:
    return items.map(lambda item: item.strip()) if rule.trim else items


def read_moment(column: Any, rule: NullRule, time: TimeFormat) -> Read:
    """Read a moment as int64 microseconds since 1970-01-01 UTC."""
    dtype = column.type()
    if dtype.is_timestamp() or dtype.is_date():
        return Read(_microseconds(column), ibis.literal(False))
    if time.unit:
        return _read_count(column, rule, time.unit)
    text = read_text(column, NullRule(rule.tokens, trim=True)).value
    moment = _iso_text(text, TimeLayout.of(time.format)) if time.format else text
    value = _microseconds(moment.try_cast(dt.timestamp))
    return Read(value, text.notnull() & value.isnull())


def _read_count(column: Any, rule: NullRule, unit: str) -> Read:
    if column.type().is_integer():
        count, malformed = column.cast("int64"), ibis.literal(False)
    else:  # fractions of a unit count: 1.5 s is 1,500,000 µs
        count, malformed = _float64(column, rule)
        count = count.nullif(float("nan"))
    if unit == "ns":
        value = (count / 1_000).floor().try_cast("int64")
    else:
        scale = MICROSECONDS[unit]
        in_range = count.between(-(2**62) // scale, 2**62 // scale)
        value = (ibis.ifelse(in_range, count, None) * scale).try_cast("int64")
    return Read(value, malformed | (count.notnull() & value.isnull()))


def _float64(column: Any, rule: NullRule) -> tuple[Any, Any]:
    dtype = column.type()
    if dtype.is_numeric() or dtype.is_boolean():
        return column.cast("float64"), ibis.literal(False)
    text = read_text(column, NullRule(rule.tokens, trim=True)).value
    number = text.try_cast("float64")
    return number, text.notnull() & number.isnull()


def _iso_text(text: Any, layout: TimeLayout) -> Any:
    """Rewrite a text of fixed width as ISO 8601; null where it does not have that layout."""

    def part(letter: str) -> Any:
        if letter not in layout.fields:
            return ibis.literal(DEFAULTS[letter])
        return text.substr(*layout.fields[letter])

    year = part("Y") if "Y" in layout.fields else century_of(part("y"))
    date = year + "-" + part("m") + "-" + part("d")
    clock = part("H") + ":" + part("M") + ":" + part("S") + "." + part("f")
    return ibis.ifelse(text.re_search(layout.pattern), date + " " + clock, None)


def century_of(year: Any) -> Any:
    """Complete a two-digit year as POSIX does: 69 … 99 is 19xx, 00 … 68 is 20xx."""
    return ibis.ifelse(year >= "69", ibis.literal("19"), ibis.literal("20")) + year


def _microseconds(moment: Any) -> Any:
    moment = moment.cast(dt.timestamp)
    seconds = moment.truncate("s").epoch_seconds().cast("int64")
    return seconds * 1_000_000 + moment.microsecond().cast("int64")


def _without_tokens(text: Any, rule: NullRule) -> Any:
    return (
        text.nullif("")
        if rule.tokens in ((), ("",))
        else ibis.ifelse(text.isin([*rule.tokens, ""]), None, text)
    )


def first_malformed(reads: Sequence[tuple[str, Read]]) -> Any:
    """Return the name of the first column whose cell is malformed, null where all are fine."""
    names = [ibis.ifelse(read.malformed, name, None) for name, read in reads]
    return ibis.coalesce(*names) if names else ibis.null("string")
