# SPDX-License-Identifier: Apache-2.0
"""Moments in every way that a column may hold them, against Python's datetime."""

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.moments import TimeLayout
from features.raw import NullRule, read_moment, read_time
from features.specs import TimeFormat

EPOCH = datetime(1970, 1, 1)
EMPTY = NullRule()
ISO = TimeFormat()
MALFORMED = (None, True)
MISSING = (None, False)
PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

a_few_tables = settings(deadline=None, max_examples=8)
any_moment = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))


def microseconds(moment):
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return (moment - EPOCH) // timedelta(microseconds=1)


def known(*values):
    return [(value, False) for value in values]


# counts of a unit


def test_counts_by_hand(read_cells):
    seconds = TimeFormat(unit="s")
    cells = {
        "0": 0, "-1": -1_000_000, " 1.5 ": 1_500_000, "-1.5": -1_500_000,
        "1700000000": 1_700_000_000_000_000, "1700000000.123456": 1_700_000_000_123_456,
        "1e3": 1_000_000_000, "": None, "nan": None,
    }  # fmt: skip
    assert read_cells(read_moment, list(cells), EMPTY, seconds) == known(*cells.values())
    assert read_cells(read_moment, ["1700000000123"], EMPTY, TimeFormat(unit="ms")) == known(
        1_700_000_000_123_000
    )
    nanoseconds = ["1700000000123456789", "-1", "-1000", "999"]
    assert read_cells(read_moment, nanoseconds, EMPTY, TimeFormat(unit="ns")) == known(
        1_700_000_000_123_456, -1, -1, 0
    )


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize(
    "cells",
    [
        pa.array(["abc", "inf", "1e30", "-9223372036854775808", "9" * 20, "2024-01-01"]),
        pa.array([2**64 - 1], pa.uint64()),
        pa.array([-(2**63), 2**63 - 1]),
        pa.array([math.inf, -1e300]),
        pa.array([[1]]),
    ],
)  # fmt: skip
def test_what_is_no_count_within_range_is_malformed(read_cells, cells, unit):
    found = read_cells(read_moment, cells, EMPTY, TimeFormat(unit=unit))
    assert found == [MALFORMED] * len(cells)


def test_null_tokens_of_counts(read_cells):
    seconds = TimeFormat(unit="s")
    rule = NullRule(("-1", "NA"))
    for cells in (["-1", " NA", "5"], [-1, None, 5], [-1.0, None, 5.0]):
        assert read_cells(read_moment, cells, rule, seconds) == known(None, None, 5_000_000)


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1),
    st.sampled_from(["s", "ms", "us", "ns"]),
)
@a_few_tables
def test_whole_counts_are_exact_however_they_are_written(read_cells, counts, unit):
    scale = PER_SECOND[unit]
    limit = 2**62 // (1_000_000 // min(scale, 1_000_000))
    expected = [
        (count * 1_000_000 // scale, False) if abs(count) <= limit else MALFORMED
        for count in counts
    ]
    time = TimeFormat(unit=unit)
    assert read_cells(read_moment, pa.array(counts, pa.int64()), EMPTY, time) == expected
    assert read_cells(read_moment, [str(count) for count in counts], EMPTY, time) == expected
    decimals = pa.array([Decimal(count) for count in counts], pa.decimal128(38, 0))
    assert read_cells(read_moment, decimals, EMPTY, time) == expected


@given(st.lists(st.floats(-1e10, 1e10), min_size=1), st.sampled_from(["s", "ms"]))
@a_few_tables
def test_fractions_of_a_unit_count_to_the_microsecond(read_cells, numbers, unit):
    scale = 1_000_000 // PER_SECOND[unit]
    for cells in (numbers, [repr(number) for number in numbers]):
        found = read_cells(read_moment, cells, EMPTY, TimeFormat(unit=unit))
        for (value, malformed), number in zip(found, numbers, strict=True):
            assert not malformed
            # half a microsecond, and the last bit of the fraction, may be rounded either way
            assert abs(value - Fraction(number) * scale) <= Fraction(1, 2) + Fraction(1, 1000)


# texts in ISO 8601


def test_iso_texts_by_hand(read_cells):
    ten = microseconds(datetime(2024, 1, 1, 10))
    hour = 3_600_000_000
    cells = {
        "2024-01-01": ten - 10 * hour,
        " 2024-01-01 10:00 ": ten,
        "2024-01-01T10:00:00": ten,
        "2024-01-01T10:00:00Z": ten,
        "2024-01-01 10:00:00 UTC": ten,
        "2024-01-01 10:00:00+00": ten,
        "2024-01-01T10:00+02:00": ten - 2 * hour,
        "2024-01-01 10:00:00 -0330": ten + 3 * hour + hour // 2,
        "2024-01-01T10:00:00.5-00:30": ten + hour // 2 + 500_000,
        "2024-01-01T10:00:00.1234567": ten + 123_456,
        "1969-12-31T23:59:59.999999": -1,
        "2000-02-29": microseconds(datetime(2000, 2, 29)),
        "0001-01-01": microseconds(datetime(1, 1, 1)),
        "9999-12-31T23:59:59.999999": microseconds(datetime.max),
        "": None,
    }
    assert read_cells(read_moment, list(cells), EMPTY, ISO) == known(*cells.values())


@pytest.mark.parametrize(
    "cell",
    [
        "2023-02-29", "1900-02-29", "2024-04-31", "2024-13-01", "2024-00-10", "2024-01-00",
        "2024-01-01 24:00:00", "2024-01-01 23:60", "2024-01-01 23:59:60", "2024-01-01 10",
        "2024-01-01 10:00.5", "2024-01-01 10:00:00+24:00", "2024-01-01 10:00:00+2",
        "2024-01-01 10:00:00 Europe/Paris", "2024-1-5", "2024/01/05", "20240101", "01.02.2024",
        "-2024-01-01", "2024-01-01 (BC)", "epoch", "infinity", "now", "1700000000", "x",
    ],
)  # fmt: skip
def test_other_texts_are_no_moments(read_cells, cell):
    assert read_cells(read_moment, [cell], EMPTY, ISO) == [MALFORMED]


@given(
    st.lists(
        st.tuples(any_moment, st.none() | st.integers(-1439, 1439), st.sampled_from(" T")),
        min_size=1,
    )
)
@example([(datetime(1969, 12, 31, 23, 59, 59, 1), -1, "T")])
@a_few_tables
def test_iso_texts_with_zones_agree_with_datetime(read_cells, written):
    cells, expected = [], []
    for moment, minutes, separator in written:
        zone = None if minutes is None else timezone(timedelta(minutes=minutes))
        cells.append(moment.replace(tzinfo=zone).isoformat(separator))
        expected.append(microseconds(moment) - 60_000_000 * (minutes or 0))
    assert read_cells(read_moment, cells, EMPTY, ISO) == known(*expected)


# texts in a format

FORMATS = {
    "%Y-%m-%d %H:%M:%S": timedelta(seconds=1),
    "%d.%m.%Y %H:%M": timedelta(minutes=1),
    "%Y%m%d%H%M%S%f": timedelta(microseconds=1),
    "%y%m%d%H": timedelta(hours=1),
    "%Y年%m月%d日": timedelta(days=1),
    "%d+%m*%Y (100%%)": timedelta(days=1),
}


@pytest.mark.parametrize("time_format", FORMATS)
@given(st.lists(st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)), min_size=1))
@settings(deadline=None, max_examples=6)
def test_formats_agree_with_strftime(read_cells, time_format, moments):
    cells = [moment.strftime(time_format) for moment in moments]
    unit = FORMATS[time_format] // timedelta(microseconds=1)
    expected = known(*(microseconds(moment) // unit * unit for moment in moments))
    assert read_cells(read_moment, cells, EMPTY, TimeFormat(format=time_format)) == expected


@pytest.mark.parametrize(
    ("time_format", "cell"),
    [
        ("%d.%m.%Y", "29.02.2023"), ("%d.%m.%Y", "1.2.2024"), ("%d.%m.%Y", "01/02/2024"),
        ("%d.%m.%Y", "01.02.2024 "*2), ("%d.%m.%Y", "01.13.2024"), ("%Y%m%d%H", "2024010124"),
        ("%Y%m%d %H:%M", "20240101 10:60"), ("%Y.%m", "2024x01"), ("%Y-%m-%d", "2024-01-01T00:00"),
    ],
)  # fmt: skip
def test_texts_in_another_format_are_malformed(read_cells, time_format, cell):
    assert read_cells(read_moment, [cell], EMPTY, TimeFormat(format=time_format)) == [MALFORMED]


def test_parts_that_a_format_lacks_are_the_first(read_cells):
    found = read_cells(read_moment, ["2024"], EMPTY, TimeFormat(format="%Y"))
    assert found == known(microseconds(datetime(2024, 1, 1)))


@pytest.mark.parametrize(
    ("time_format", "message"),
    [
        ("%Y-%b-%d", "%b is not one of %Y, %y, %m, %d, %H, %M, %S, %f"),
        ("%Y-%m-%d %", "% is not one of"),
        ("%Y-%d-%d", "%d stands twice"),
        ("%d.%m", "needs either %Y or %y"),
        ("%Y %y", "needs either %Y or %y"),
    ],
)
def test_formats_without_fixed_places_are_refused(time_format, message):
    with pytest.raises(ValueError, match=message):
        TimeLayout.of(time_format)


def test_numbers_without_a_unit_are_no_moments(read_cells):
    assert read_cells(read_moment, [1.7e9, 1.5, None], EMPTY, ISO) == [
        MALFORMED, MALFORMED, MISSING,
    ]  # fmt: skip


# columns of timestamps


@given(st.lists(any_moment, min_size=1))
@a_few_tables
def test_timestamps_are_exact(read_cells, moments):
    expected = known(*map(microseconds, moments))
    naive = pa.array(moments, pa.timestamp("us"))
    assert read_cells(read_moment, naive, EMPTY, ISO) == expected
    # a timestamp with a zone is stored in UTC
    zoned = naive.cast(pa.timestamp("us", "Europe/Paris"))
    assert read_cells(read_moment, zoned, EMPTY, TimeFormat(unit="ms")) == expected


def test_timestamps_of_other_precisions_and_dates(read_cells):
    assert read_cells(read_moment, pa.array([-1, None], pa.timestamp("s")), EMPTY, ISO) == known(
        -1_000_000, None
    )
    assert read_cells(read_moment, pa.array([-1], pa.timestamp("ms")), EMPTY, ISO) == known(-1_000)
    nanoseconds = [1_999, -1, -1_001, 86_399_999_999_999, -86_400_000_000_001, 1_999_999_999]
    found = read_cells(read_moment, pa.array(nanoseconds, pa.timestamp("ns")), EMPTY, ISO)
    assert found == known(*(count // 1_000 for count in nanoseconds))
    days = pa.array([date(1969, 12, 31), date(2024, 2, 29)])
    expected = known(-86_400_000_000, microseconds(datetime(2024, 2, 29)))
    assert read_cells(read_moment, days, EMPTY, ISO) == expected


# what the served model takes


@pytest.mark.parametrize(
    ("cells", "time", "expected"),
    [
        (["1.5", "-0.5", "NA", "x"], TimeFormat(unit="s"), [1, -1, None, None]),
        ([1_700_000_000_123, None], TimeFormat(unit="ms"), [1_700_000_000_123, None]),
        ([1_999, -1], TimeFormat(unit="ns"), [1_000, -1_000]),
        ([2**62], TimeFormat(unit="ns"), [2**62 // 1_000 * 1_000]),
        ([" 2024-01-01 ", "NA"], ISO, ["2024-01-01", None]),
        (["01.02.2024", "x"], TimeFormat(format="%d.%m.%Y"), ["01.02.2024", "x"]),
        ([datetime(1969, 12, 31, 23, 59, 59, 5), datetime(1, 1, 1)], ISO,
         ["1969-12-31 23:59:59", "0001-01-01 00:00:00"]),
        (pa.array([1_999_999_999], pa.timestamp("ns")), ISO, ["1970-01-01 00:00:01"]),
        ([datetime(2024, 2, 3, 4, 5)], TimeFormat(format="%d.%m.%y %H"), ["03.02.24 04"]),
        ([date(1969, 12, 31)], TimeFormat(unit="s"), [-86_400]),
        ([datetime(9999, 12, 31)], TimeFormat(unit="ns"), [None]),
    ],
)  # fmt: skip
def test_a_time_feature_reads_what_the_served_model_takes(read_cells, cells, time, expected):
    rule = NullRule(("NA",))

    def served(column, rule, time):
        return read_time(column, rule, time)[0]

    def moment(column, rule, time):
        return read_time(column, rule, time)[1]

    assert [value for value, _ in read_cells(served, cells, rule, time)] == expected
    assert read_cells(moment, cells, rule, time) == read_cells(read_moment, cells, rule, time)
