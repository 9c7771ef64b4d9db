# SPDX-License-Identifier: Apache-2.0
"""Parquet."""

import contextlib
import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputRejected
from tests.pipeline.sources.written import INT, NUMBER, TEXT, seeded


def test_parquet_types_as_text_and_as_numbers(read, parquet):
    moment = datetime.datetime(2026, 1, 31, 5, tzinfo=datetime.UTC)
    cases = [
        (pa.int64(), [4611686018427387905, None], TEXT, ["4611686018427387905", None]),
        (pa.uint64(), [18446744073709551615, 0], TEXT, ["18446744073709551615", "0"]),
        (pa.uint64(), [2**63 - 1, 0], INT, [2**63 - 1, 0]),
        (pa.float32(), [7.0, None], TEXT, ["7", None]),
        (pa.float64(), [2.5, None], NUMBER, [2.5, None]),
        (pa.float64(), [2.5, float("nan")], NUMBER, [2.5, None]),
        (pa.float32(), [7.0, float("nan")], TEXT, ["7", None]),
        (pa.bool_(), [True, None], TEXT, ["true", None]),
        (pa.bool_(), [True, False], NUMBER, [1.0, 0.0]),
        (pa.decimal128(10, 2), [Decimal("1.50"), None], NUMBER, [1.5, None]),
        (pa.large_string(), ["x", None], TEXT, ["x", None]),
        (pa.binary(), [b"x", None], TEXT, ["x", None]),
        (pa.dictionary(pa.int32(), pa.string()), ["x", "x"], TEXT, ["x", "x"]),
        (pa.null(), [None, None], NUMBER, [None, None]),
        (pa.list_(pa.int64()), [[1, 2], None], {**TEXT, "separator": "|"}, [["1", "2"], []]),
        (pa.timestamp("ns", "America/New_York"), [moment, None],
         {"kind": "datetime", "part": "hour", "unit": "s"}, [int(moment.timestamp()), None]),
    ]  # fmt: skip
    for dtype, values, feature, expected in cases:
        path = parquet("log.parquet", a=pa.array(values, dtype), y=pa.array([0, 1]))
        rows, _ = read(path, {"a": feature})
        assert [row[0] for row in rows] == expected, f"{dtype} as {feature}"


def test_parquet_types_that_cannot_be_read_are_refused_by_the_header(read, parquet):
    moment = datetime.datetime(2026, 1, 31)
    cases = [
        (pa.array(["x"]), INT, "of type string is text, the config says int"),
        (pa.array([[1]]), TEXT, "is a list; give the feature a separator"),
        (pa.array([{"p": 1}]), TEXT, "holds several values"),
        (pa.array([moment]), NUMBER, "is a moment; expected numbers"),
        (pa.array([True]), {"kind": "datetime", "part": "hour"}, "is no moment"),
    ]
    for values, feature, message in cases:
        path = parquet("log.parquet", a=values, y=pa.array([0]))
        with pytest.raises(InputRejected, match=f"log.parquet: column 'a' .*{message}"):
            read(path, {"a": feature})


def test_malformed_parquet_cells_are_shown_with_their_row(read, tmp_path):
    table = pa.table({"a": ["x"] * 10, "b": [*map(str, range(9)), "oops"], "y": [0, 1] * 5})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=4)
    with pytest.raises(InputRejected, match=r"column b: row 9: expected a number.*'oops'"):
        read(str(tmp_path / "log.parquet"))


def test_damaged_parquet_is_rejected_not_a_crash(read, write, parquet):
    path = parquet("good.parquet", a=[f"v{i % 50}" for i in range(5000)], y=[0, 1] * 2500)
    content = Path(path).read_bytes()
    generator = seeded(1)
    for cut in range(8):
        damaged = bytearray(content)
        start = generator.randrange(len(damaged) - 200)
        damaged[start : start + 100] = generator.randbytes(100)
        # damage may also go unnoticed: pages carry no checksums
        with contextlib.suppress(InputRejected):
            read(write(f"{cut}.parquet", bytes(damaged)), {"a": TEXT})


def test_daily_parquet_files_that_disagree(read, parquet):
    """ING-07."""
    day1 = parquet("day1.parquet", item=pa.array([7, 8], pa.int32()), price=[1.0, 2.0], y=[0, 1])
    day2 = parquet("day2.parquet", item=pa.array([7, 2**40]), y=[0, 1], tmp=[1, 1])
    day3 = parquet("day3.parquet", item=["7", "z"], price=[1.0, 2.0], y=[0, 1])
    optional = {**NUMBER, "required": False}
    rows, _ = read([day1, day2], {"item": INT, "price": optional})
    assert rows == [(7, 1.0, 0), (8, 2.0, 1), (7, None, 0), (2**40, None, 1)]
    assert len(read.source.warnings) == 1
    assert "day2.parquet: has no column 'price'" in read.source.warnings[0]
    assert read.source.notes == ("columns that nothing reads: tmp",)
    swapped, _ = read([day2, day1], {"item": INT, "price": optional})
    assert sorted(swapped, key=str) == sorted(rows, key=str)
    with pytest.raises(InputRejected, match=r"day2\.parquet: has no column 'price'"):
        read([day1, day2], {"item": INT, "price": NUMBER})
    with pytest.raises(InputRejected, match=r"day3\.parquet: column 'item' .*declare type: text"):
        read([day1, day2, day3], {"item": INT, "price": optional})
    rows, _ = read([day1, day2, day3], {"item": TEXT, "price": optional})
    assert [row[0] for row in rows] == ["7", "8", "7", "1099511627776", "7", "z"]


def test_columns_that_differ_in_case_only_are_refused(read, tmp_path):
    table = pa.table([[1], [2], [0]], names=["ID", "id", "y"])
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputRejected, match="'id' but for upper and lower case"):
        read(str(tmp_path / "log.parquet"), {"id": TEXT})
    pq.write_table(pa.table([[1], [2], [0]], names=["a", "a", "y"]), tmp_path / "log.parquet")
    with pytest.raises(InputRejected, match="columns named twice: 'a'"):
        read(str(tmp_path / "log.parquet"), {"a": TEXT})
