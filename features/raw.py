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

from features.moments import DEFAULTS, ISO_PATTERN, TimeLayout
from features.specs import TimeFormat, TimeUnit

MICROSECONDS: dict[TimeUnit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
LARGEST_MOMENT = 2**62
"""Moments this many µs or more from 1970 are malformed: sums and differences stay in int64."""
FLOAT32_MAX = 3.4028234663852886e38
FLOAT32_MIN = 1.1754943508222875e-38
"""Smallest normal float32: numbers nearer to zero are zero, as TensorFlow computes with them."""
EXACT_IN_FLOAT64 = 2**53
MISSING_INTEGER = -(2**63)
"""What a served int64 input holds where the value is missing; so it is no value itself."""
_WHOLE_NUMBER = r"^[+-]?[0-9]+$"


@dataclass(frozen=True)
class NullRule:
    """Which texts mean missing, and whether white space around texts counts.

    Empty text is always missing. In a column of numbers a token that is a number, such as -1,
    means that number.
    """

    tokens: tuple[str, ...] = ("",)
    trim: bool = False

    @property
    def numbers(self) -> tuple[float, ...]:
        """The tokens that are numbers."""
        return tuple(float(token) for token in self.tokens if _is_number(token))


def _is_number(token: str) -> bool:
    try:
        return abs(float(token)) <= FLOAT32_MAX
    except ValueError:
        return False


@dataclass(frozen=True)
class Read:
    """A typed value (null = missing) and whether the cell is malformed."""

    value: Any
    malformed: Any


def read_text(column: Any, rule: NullRule) -> Read:
    """Read an id or another text exactly; whole numbers lose their point (42.0 is 42)."""
    text, malformed = _text_of(column)
    if rule.trim and column.type().is_string():
        text = text.strip()
    return Read(ibis.ifelse(_means_missing(text, rule), None, text), malformed)


def _text_of(value: Any) -> tuple[Any, Any]:
    """Return the exact text of a value of any type, and whether it has none (42.5, a list)."""
    dtype = value.type()
    if dtype.is_string():
        return value, ibis.literal(False)
    if dtype.is_floating():
        number = value.nullif(float("nan"))
        whole = number.try_cast("int64")
        exact = (whole.cast("float64") == number) & (number.abs() <= EXACT_IN_FLOAT64)
        text = ibis.ifelse(exact, whole, None).cast("string")
        return text, number.notnull() & text.isnull()
    if dtype.is_decimal():
        text = value.cast("string").re_replace(r"\.0+$", "")
        return ibis.ifelse(text.contains("."), None, text), text.contains(".").fill_null(False)
    if dtype.is_nested() or dtype.is_binary():
        return ibis.null("string"), value.notnull()
    return value.cast("string"), ibis.literal(False)


def _means_missing(text: Any, rule: NullRule) -> Any:
    return text.isin(list(dict.fromkeys(["", *rule.tokens])))


def read_integer(column: Any, rule: NullRule) -> Read:
    """Read a whole number that fits int64, written with zeros behind its point or without."""
    read = read_text(column, NullRule(rule.tokens, trim=True))
    text = read.value
    if column.type().is_integer():
        value = ibis.ifelse(text.notnull(), column, None).try_cast("int64")
    else:
        # 42.0 is 42, exactly also where a float would lose digits
        text = text.re_replace(r"([0-9])\.0+$", r"\1")
        text = ibis.ifelse(_means_missing(text, rule), None, text)
        value = ibis.ifelse(text.re_search(_WHOLE_NUMBER), text, None).try_cast("int64")
    value = value.nullif(MISSING_INTEGER)
    return Read(value, read.malformed | (text.notnull() & value.isnull()))


def read_number(column: Any, rule: NullRule) -> Read:
    """Read a float32; NaN is missing, numbers beyond its range become its largest value."""
    number = read_float64(column, rule)
    value = number.value.clip(-FLOAT32_MAX, FLOAT32_MAX).cast("float32")
    value = ibis.ifelse(value.abs() < FLOAT32_MIN, 0.0, value).cast("float32")
    return Read(_without(value, rule.numbers), number.malformed)


def read_float64(column: Any, rule: NullRule) -> Read:
    """Read a number in double precision, infinities included; NaN is missing."""
    dtype = column.type()
    if dtype.is_numeric() or dtype.is_boolean():
        number, malformed = column.cast("float64"), ibis.literal(False)
    else:
        text = read_text(column, NullRule(rule.tokens, trim=True))
        number = text.value.try_cast("float64")
        malformed = text.malformed | (text.value.notnull() & number.isnull())
    return Read(_without(number.nullif(float("nan")), rule.numbers), malformed)


def _without(number: Any, missing: Sequence[float]) -> Any:
    for token in missing:
        number = number.nullif(ibis.literal(token, number.type()))
    return number


def read_texts(
    column: Any, rule: NullRule, separator: str, weight_separator: str | None, max_items: int
) -> tuple[Read, Any | None, Any]:
    """Read a list of texts, and the weights of its items where they have any.

    Empty items and null tokens are left out; a weight that is not written counts 1.

    Returns:
        The items, array<string> never null; the weights, array<float32> or None; and whether
        items were left out as too many, boolean.
    """

    def name(item: Any) -> Any:
        return item.strip() if rule.trim else item

    def is_real(item: Any) -> Any:
        return item.notnull() & (item.strip() != "") & ~_means_missing(name(item), rule)

    items, malformed = _items(column, separator)
    if weight_separator is None:
        real = items.filter(is_real)
        return Read(real[:max_items].map(name), malformed), None, real.length() > max_items
    pieces = items.filter(lambda item: item.notnull()).map(lambda i: i.split(weight_separator))
    pieces = pieces.filter(lambda piece: is_real(piece[0]))
    unreadable = pieces.filter(lambda p: (p.length() > 2) | _weight(p).isnull()).length() > 0
    kept = pieces[:max_items]
    names = kept.map(lambda piece: name(piece[0]))
    return Read(names, malformed | unreadable), kept.map(_weight), pieces.length() > max_items


def _items(column: Any, separator: str) -> tuple[Any, Any]:
    """Return the items of a list, or of a text cut at `separator`, and whether one is no text."""
    if not column.type().is_array():
        text, malformed = _text_of(column)
        items = text.split(separator)
    else:
        items = column.map(lambda item: _text_of(item)[0])
        malformed = column.filter(lambda item: _text_of(item)[1]).length() > 0
    empty = ibis.literal([], "array<string>")
    return items.fill_null(empty), malformed.fill_null(False)


def _weight(piece: Any) -> Any:
    """Return the weight of an (item, weight) pair, null where it is no finite number."""
    written = ibis.ifelse(piece.length() > 1, piece[1], "1").try_cast("float32")
    return ibis.ifelse(written.isinf() | written.isnan(), None, written)


def read_time(column: Any, rule: NullRule, time: TimeFormat) -> tuple[Read, Read]:
    """Read a time feature: the count or text that the served model takes, and the moment."""
    moment = read_moment(column, rule, time)
    dtype = column.type()
    if time.unit == "ns":
        near = moment.value.between(-LARGEST_MOMENT // 1_000, LARGEST_MOMENT // 1_000)
        served = ibis.ifelse(near, moment.value, None) * 1_000
    elif time.unit:
        served = floor_divide(moment.value, MICROSECONDS[time.unit])
    elif dtype.is_timestamp() or dtype.is_date():
        stamp = floor_divide(moment.value, 1_000).as_timestamp("ms")
        served = stamp.strftime(time.format or "%Y-%m-%d %H:%M:%S")
    else:
        served = read_text(column, NullRule(rule.tokens, trim=True)).value
    return Read(served, moment.malformed), moment


def read_moment(column: Any, rule: NullRule, time: TimeFormat) -> Read:
    """Read a moment as int64 microseconds since 1970-01-01 UTC."""
    dtype = column.type()
    if dtype.is_timestamp() or dtype.is_date():
        if dtype.is_timestamp() and dtype.scale == 9:
            # DuckDB rounds nanoseconds where it truncates or casts, but not in texts
            return Read(_iso_moment(column.cast("string")), ibis.literal(False))
        return Read(_microseconds(column.cast(dt.timestamp)), ibis.literal(False))
    if time.unit:
        return _read_count(column, rule, time.unit)
    text = read_text(column, NullRule(rule.tokens, trim=True))
    value = _iso_moment(text.value) if time.format is None else _moment(text.value, time.format)
    return Read(value, text.malformed | (text.value.notnull() & value.isnull()))


def _read_count(column: Any, rule: NullRule, unit: TimeUnit) -> Read:
    scale = MICROSECONDS.get(unit, 1)
    limit = LARGEST_MOMENT // scale
    number = read_float64(column, rule)
    size = number.value.abs()
    exact = ibis.ifelse(size <= EXACT_IN_FLOAT64, number.value, None)
    near = ibis.ifelse(size <= limit, number.value, None)
    # beyond 2**53 float64 has lost digits that the cell may have
    whole = ibis.coalesce(exact.floor(), read_integer(column, rule).value, near.floor())
    whole = ibis.ifelse(whole.between(-limit, limit), whole, None)
    if unit == "ns":
        value = floor_divide(whole, 1_000)
    else:
        fraction = (exact - exact.floor()).fill_null(0.0)
        value = whole * scale + (fraction * scale).round().cast("int64")
    return Read(value, number.malformed | (number.value.notnull() & value.isnull()))


def floor_divide(x: Any, divisor: int) -> Any:
    """Return ⌊x / divisor⌋ exactly, of an int64 from -2^62 on and a divisor of at most a million.

    Ibis divides in float64, which does not hold every whole number beyond 2^53. So x is cut into
    high + low, a multiple of 2^30 · divisor and what is left, which float64 both divides rightly.
    """
    factor = 1 << 30
    block = factor * divisor
    low = (x % block + block) % block
    high = ((x - low) / block).round().cast("int64")
    return high * factor + (low / divisor).floor().cast("int64")


def _iso_moment(text: Any) -> Any:
    local, zone = (text.re_extract(ISO_PATTERN, group) for group in (1, 2))
    digits = zone.replace(":", "")
    hours, minutes = (digits.substr(i, 2).try_cast("int64").fill_null(0) for i in (1, 3))
    ahead = (hours * 60 + minutes) * (1 - 2 * zone.startswith("-").cast("int64"))
    return _microseconds(local.try_cast(dt.timestamp)) - ahead * 60_000_000


def _moment(text: Any, time_format: str) -> Any:
    layout = TimeLayout.of(time_format)

    def part(letter: str) -> Any:
        if letter not in layout.fields:
            return ibis.literal(DEFAULTS[letter])
        return text.substr(*layout.fields[letter])

    year = part("Y") if "Y" in layout.fields else _with_century(part("y"))
    date = year + "-" + part("m") + "-" + part("d")
    clock = part("H") + ":" + part("M") + ":" + part("S") + "." + part("f")
    iso = ibis.ifelse(text.re_search(layout.pattern), date + " " + clock, None)
    return _microseconds(iso.try_cast(dt.timestamp))


def _with_century(year: Any) -> Any:
    """Complete a two-digit year as POSIX does: 69 … 99 is 19xx, 00 … 68 is 20xx."""
    return ibis.ifelse(year >= "69", ibis.literal("19"), ibis.literal("20")) + year


def _microseconds(moment: Any) -> Any:
    seconds = moment.truncate("s").epoch_seconds().cast("int64")
    return seconds * 1_000_000 + moment.microsecond().cast("int64")


def first_malformed(reads: Sequence[tuple[str, Read]]) -> Any:
    """Return the name of the first column whose cell is malformed, null where all are fine."""
    names = [ibis.ifelse(read.malformed, name, None) for name, read in reads]
    return ibis.coalesce(*names) if names else ibis.null("string")
