# SPDX-License-Identifier: Apache-2.0
"""Readers of source columns, against values by hand and plain Python."""

import math
from datetime import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.raw import (
    NullRule,
    first_malformed,
    floor_divide,
    read_integer,
    read_number,
    read_text,
    read_texts,
)

FLOAT32_MAX = float(np.finfo(np.float32).max)
EMPTY = NullRule()
MALFORMED = (None, True)
MISSING = (None, False)

a_few_tables = settings(deadline=None, max_examples=15)


def known(*values):
    return [(value, False) for value in values]


# texts


def test_null_tokens_are_exact(read_cells):
    cells = ["NULL", "", "null", "Paris", " NULL", None]
    rule = NullRule(("", "NULL"))
    assert read_cells(read_text, cells, rule) == known(None, None, "null", "Paris", " NULL", None)


def test_empty_text_is_missing_even_when_the_tokens_do_not_say_so(read_cells):
    assert read_cells(read_text, ["", "NA", "a"], NullRule(("NA",))) == known(None, None, "a")
    assert read_cells(read_text, ["", "NA"], NullRule(())) == known(None, "NA")


def test_trim_comes_before_null_tokens(read_cells):
    cells = [" a ", "\t\n\v\f\r b c", "  ", " NA ", "\u00a0d", "é "]
    rule = NullRule(("NA",), trim=True)
    # a no-break space is not white space: TensorFlow strips ASCII only
    assert read_cells(read_text, cells, rule) == known("a", "b c", None, None, "\u00a0d", "é")
    assert read_cells(read_text, cells, NullRule(("NA",))) == known(*cells)


def test_texts_stay_as_they_are(read_cells):
    cells = ["042", "42", "42.0", "+42", " 42", "1e3", "\\N", "a\nb\r", "漢字 ☃ 😀", "x" * 5000]
    assert read_cells(read_text, cells, EMPTY) == known(*cells)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([4611686018427387905, 4611686018427387906, None]),
         known("4611686018427387905", "4611686018427387906", None)),
        (pa.array([2**64 - 1, 0], pa.uint64()), known("18446744073709551615", "0")),
        (pa.array([-(2**63), 2**63 - 1]),
         known("-9223372036854775808", "9223372036854775807")),
        (pa.array([-7, None], pa.int8()), known("-7", None)),
        (pa.array([42.0, -3.0, -0.0, 1e6]), known("42", "-3", "0", "1000000")),
        (pa.array([2.0**53, -(2.0**53), 2.0**53 + 2]),
         [*known("9007199254740992", "-9007199254740992"), MALFORMED]),
        (pa.array([42.5, math.inf, 1e300, math.nan, None]),
         [MALFORMED, MALFORMED, MALFORMED, MISSING, MISSING]),
        (pa.array([16777216.0, 0.5], pa.float32()), [("16777216", False), MALFORMED]),
        (pa.array([Decimal("42.00"), Decimal("42.50"), None]),
         [("42", False), MALFORMED, MISSING]),
        (pa.array([Decimal(10**20 + 1)], pa.decimal128(38, 0)), known("100000000000000000001")),
        (pa.array([True, False, None]), known("true", "false", None)),
        (pa.array([["a", "b"], [], None]), [MALFORMED, MALFORMED, MISSING]),
        (pa.array([b"a", None]), [MALFORMED, MISSING]),
        (pa.array([datetime(2024, 2, 29)], pa.timestamp("us")), known("2024-02-29 00:00:00")),
        (pa.nulls(2, pa.string()), [MISSING, MISSING]),
    ],
)  # fmt: skip
def test_ids_of_other_types_are_exact_texts(read_cells, cells, expected):
    assert read_cells(read_text, cells, EMPTY) == expected


def test_a_null_token_means_the_same_in_every_type(read_cells):
    rule = NullRule(("-1", "NA"))
    expected = known("7", None, "-10")
    assert read_cells(read_text, ["7", "-1", "-10"], rule) == expected
    assert read_cells(read_text, [7, -1, -10], rule) == expected
    assert read_cells(read_text, [7.0, -1.0, -10.0], rule) == expected


# whole numbers


def test_whole_numbers_by_hand(read_cells):
    cells = {
        "1": 1, " 2 ": 2, "+5": 5, "-5": -5, "007": 7, "0": 0, "-0": 0,
        "42.0": 42, "-5.000": -5, "9007199254740993.0": 2**53 + 1,
        "9223372036854775807": 2**63 - 1, "-9223372036854775807": -(2**63) + 1,
    }  # fmt: skip
    assert read_cells(read_integer, list(cells), EMPTY) == known(*cells.values())


@pytest.mark.parametrize(
    "cell",
    [
        "12.7", "42.5", "42.01", "42.", ".0", "0.0.0", "1e3",
        "0x1", "1_0", "1 2", "a", "--1", "٣", "nan", "true",
        "9223372036854775808", "9223372036854775808.0", "99999999999999999999999",
        "-9223372036854775808",  # the served model's missing value
    ],
)  # fmt: skip
def test_other_texts_are_no_whole_numbers(read_cells, cell):
    assert read_cells(read_integer, [cell], EMPTY) == [MALFORMED]


def test_whole_numbers_of_other_types(read_cells):
    assert read_cells(read_integer, pa.array([2**64 - 1, 5, None], pa.uint64()), EMPTY) == [
        MALFORMED, (5, False), MISSING,
    ]  # fmt: skip
    assert read_cells(read_integer, [-(2**63), 2**63 - 1], EMPTY) == [MALFORMED, (2**63 - 1, False)]
    assert read_cells(read_integer, [42.0, 42.5, math.nan], EMPTY) == [
        (42, False), MALFORMED, MISSING,
    ]  # fmt: skip
    assert read_cells(read_integer, pa.array([Decimal("42.0")]), EMPTY) == known(42)
    assert read_cells(read_integer, pa.array([[1]]), EMPTY) == [MALFORMED]


def test_null_tokens_of_whole_numbers(read_cells):
    rule = NullRule(("-1", "NA"))
    assert read_cells(read_integer, ["-1", " NA", "1", ""], rule) == known(None, None, 1, None)
    assert read_cells(read_integer, ["-1.0", "1.0"], rule) == known(None, 1)
    assert read_cells(read_integer, [-1, 1, -11], rule) == known(None, 1, -11)


@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), min_size=1))
@a_few_tables
def test_every_whole_number_survives(read_cells, numbers):
    texts = [str(number) for number in numbers]
    assert read_cells(read_integer, texts, EMPTY) == known(*numbers)
    assert read_cells(read_integer, pa.array(numbers, pa.int64()), EMPTY) == known(*numbers)
    assert read_cells(read_text, pa.array(numbers, pa.int64()), EMPTY) == known(*texts)


# numbers


def test_numbers_by_hand(read_cells):
    cells = {
        "1": 1.0, " 2.5 ": 2.5, "+5": 5.0, ".5": 0.5, "5.": 5.0, "1e3": 1000.0, "-0": 0.0,
        "0.1": float(np.float32(0.1)), "1e-50": 0.0, "1e-40": 0.0,
        "1e400": FLOAT32_MAX, "-1e400": -FLOAT32_MAX, "3.5e38": FLOAT32_MAX,
        "inf": FLOAT32_MAX, "-Infinity": -FLOAT32_MAX,
        "nan": None, "NaN": None, "": None, " ": None,
    }  # fmt: skip
    assert read_cells(read_number, list(cells), EMPTY) == known(*cells.values())


@pytest.mark.parametrize("cell", ["abc", "1,5", "1 2", "0x10", "true", "1f", "--1", "٣", "$1"])
def test_other_texts_are_no_numbers(read_cells, cell):
    assert read_cells(read_number, [cell], EMPTY) == [MALFORMED]


def test_numbers_of_other_types(read_cells):
    floats = pa.array([0.1, math.nan, math.inf, -1e300, None])
    expected = known(float(np.float32(0.1)), None, FLOAT32_MAX, -FLOAT32_MAX, None)
    assert read_cells(read_number, floats, EMPTY) == expected
    assert read_cells(read_number, pa.array([2**64 - 1], pa.uint64()), EMPTY) == known(2.0**64)
    assert read_cells(read_number, [True, False, None], EMPTY) == known(1.0, 0.0, None)
    assert read_cells(read_number, pa.array([Decimal("1.25")]), EMPTY) == known(1.25)
    assert read_cells(read_number, pa.array([[1.0]]), EMPTY) == [MALFORMED]


@pytest.mark.parametrize(
    "cells", [["-999", " NA", "1.5"], [-999.0, None, 1.5], pa.array([-999, None, 1.5], "float32")]
)
def test_a_null_token_that_is_a_number_means_that_number(read_cells, cells):
    assert read_cells(read_number, cells, NullRule(("NA", "-999"))) == known(None, None, 1.5)


def test_null_tokens_compare_with_what_the_served_model_gets(read_cells):
    # 0.1 as float32 is another number than 0.1 as float64, but an input is one float32
    cells = pa.array([0.1, 0.2], pa.float32())
    assert read_cells(read_number, cells, NullRule(("0.1",))) == known(
        None, float(cells[1].as_py())
    )


@given(st.lists(st.floats() | st.floats(width=32), min_size=1))
@example([FLOAT32_MAX * (1 + 1e-9), -5e-324, 1e-45, 2.0**-126])
@a_few_tables
def test_every_number_becomes_its_float32(read_cells, numbers):
    clipped = np.clip(np.array(numbers, np.float64), -FLOAT32_MAX, FLOAT32_MAX).astype(np.float32)
    clipped[np.abs(clipped) < np.finfo(np.float32).tiny] = 0
    expected = known(*(None if math.isnan(x) else float(x) for x in clipped))
    assert read_cells(read_number, numbers, EMPTY) == expected
    assert read_cells(read_number, [repr(number) for number in numbers], EMPTY) == expected


# lists


@pytest.fixture(scope="session")
def read_lists(connection, make_table):
    """Apply `read_texts`: [(items, malformed, weights)], one triple a cell."""

    def read(cells, rule, *options):
        array = cells if isinstance(cells, pa.Array) else pa.array(cells)
        table = make_table({"row": range(len(array)), "cell": array})
        items, weights, _ = read_texts(table.cell, rule, *options)
        expressions = table.select(
            "row", items=items.value, malformed=items.malformed,
            **({} if weights is None else {"weights": weights}),
        )  # fmt: skip
        rows = connection.to_pyarrow(expressions.order_by("row")).to_pylist()
        return [(row["items"], row["malformed"], row.get("weights")) for row in rows]

    return read


def test_lists_say_where_items_were_left_out(connection, make_table):
    cells = ["a|b|c", "a|b", "a|NA||b", "a|b:1|c:2", "", None]
    table = make_table({"row": range(len(cells)), "cell": cells})
    for weight_separator in (None, ":"):
        *_, cut = read_texts(table.cell, NullRule(("NA",)), "|", weight_separator, 2)
        rows = connection.to_pyarrow(table.select("row", cut=cut).order_by("row")).to_pylist()
        assert [row["cut"] for row in rows] == [True, False, False, True, False, False]


def test_lists_by_hand(read_lists):
    cells = ["a|b|c", "a", "", None, "|| |a", "a|a", "NA", "a|NA|b", " x | y"]
    assert read_lists(cells, NullRule(("NA",)), "|", None, 2) == [
        (["a", "b"], False, None),
        (["a"], False, None),
        ([], False, None),
        ([], False, None),
        (["a"], False, None),
        (["a", "a"], False, None),
        ([], False, None),
        (["a", "b"], False, None),
        ([" x ", " y"], False, None),
    ]
    trimmed = read_lists([" x | NA |y "], NullRule(("NA",), trim=True), "|", None, 5)
    assert trimmed == [(["x", "y"], False, None)]


def test_columns_of_lists_are_read_as_they_are(read_lists):
    texts = pa.array([["a", None, "", "b|c"], [], None])
    assert read_lists(texts, EMPTY, "|", None, 5) == [
        (["a", "b|c"], False, None), ([], False, None), ([], False, None),
    ]  # fmt: skip
    numbers = pa.array([[2**63 - 1, -1], [None]])
    assert read_lists(numbers, NullRule(("-1",)), "|", None, 5) == [
        (["9223372036854775807"], False, None), ([], False, None),
    ]  # fmt: skip
    floats = pa.array([[1.0, math.nan], [2.5]])
    assert read_lists(floats, EMPTY, "|", None, 5) == [(["1"], False, None), ([], True, None)]
    assert read_lists(pa.array([42.0, 42.5]), EMPTY, "|", None, 5) == [
        (["42"], False, None), ([], True, None),
    ]  # fmt: skip


def test_weights_by_hand(read_lists):
    cells = ["a:0.5|b:1.5", "a|b", "", "a:0", "a:-2| b : 3 ", ":0.5|a", None, "NA:2|a"]
    assert read_lists(cells, NullRule(("NA",), trim=True), "|", ":", 5) == [
        (["a", "b"], False, [0.5, 1.5]),
        (["a", "b"], False, [1.0, 1.0]),
        ([], False, []),
        (["a"], False, [0.0]),
        (["a", "b"], False, [-2.0, 3.0]),
        (["a"], False, [1.0]),
        ([], False, []),
        (["a"], False, [1.0]),
    ]


@pytest.mark.parametrize(
    "cell", ["a:x", "a:", "a:0.5:0.7", "a:nan", "a:inf", "a:1e300", "a|b|c:x", "https://a:1"]
)
def test_weights_that_are_no_finite_numbers_are_malformed(read_lists, cell):
    assert read_lists([cell], EMPTY, "|", ":", 2)[0][1] is True


def items_of(cell, rule, weighted, max_items):
    """What a text cell means, in plain Python; weights None where it is malformed."""
    items = []
    for piece in (cell or "").split("|"):
        name, *rest = piece.split(":") if weighted else [piece]
        stripped = name.strip(" \t\n\v\f\r")
        name = stripped if rule.trim else name
        if stripped and name not in rule.tokens:
            items.append((name, float(rest[0]) if rest else 1.0))
    return [name for name, _ in items[:max_items]], [weight for _, weight in items[:max_items]]


@given(
    st.lists(st.none() | st.text("ab N|\t", max_size=12), min_size=1),
    st.sampled_from([("",), ("N", "b")]),
    st.booleans(),
    st.integers(1, 4),
)
@a_few_tables
def test_lists_agree_with_plain_python(read_lists, cells, tokens, trim, max_items):
    rule = NullRule(tokens, trim)
    expected = [(items_of(cell, rule, False, max_items)[0], False, None) for cell in cells]
    assert read_lists(pa.array(cells, pa.string()), rule, "|", None, max_items) == expected


weighted_piece = st.builds(
    lambda name, weight: name if weight is None else f"{name}:{weight}",
    st.text("ab N", max_size=3),
    st.none() | st.integers(-3, 3) | st.sampled_from([0.5, 0.25]),
)


@given(
    st.lists(st.lists(weighted_piece, max_size=6).map("|".join), min_size=1),
    st.booleans(),
    st.integers(1, 4),
)
@a_few_tables
def test_weights_stay_with_their_items(read_lists, cells, trim, max_items):
    rule = NullRule(("N",), trim)
    expected = [
        (items, False, weights)
        for items, weights in (items_of(cell, rule, True, max_items) for cell in cells)
    ]
    assert read_lists(cells, rule, "|", ":", max_items) == expected


# rows


def test_the_first_malformed_column_is_named(connection, make_table):
    rows = make_table({"a": ["1", "x", "x", None], "b": ["1", "2", "y", "z"]})
    reads = [(name, read_number(rows[name], EMPTY)) for name in ("a", "b")]
    found = connection.to_pyarrow(rows.select(name=first_malformed(reads)))
    assert found["name"].to_pylist() == [None, "a", "a", "b"]
    nothing = connection.to_pyarrow(rows.select(name=first_malformed([])))
    assert nothing["name"].null_count == 4


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1), st.sampled_from([1000, 1_000_000]))
@example([-2443802615382111001, 2**53 * 500 - 1, 2**62 - 1, -(2**62)], 1000)
@a_few_tables
def test_floor_divide_is_exact(connection, make_table, numbers, divisor):
    table = make_table({"x": pa.array(numbers, pa.int64())})
    found = connection.to_pyarrow(table.select(q=floor_divide(table.x, divisor)))
    assert found["q"].to_pylist() == [number // divisor for number in numbers]
