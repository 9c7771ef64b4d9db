# SPDX-License-Identifier: Apache-2.0
"""JSON lines."""

import gzip

import pytest

from pipeline.errors import InputRejected
from tests.pipeline.sources.written import NUMBER, TEXT, jsonl


def test_json_values_keep_their_exact_text(read, write):
    content = jsonl(
        {"a": "x", "b": 1, "y": 0},
        {"y": 1, "a": 18446744073709551615, "b": "2.5"},
        {"y": True, "a": 123456789012345678901234567890, "b": None},
        {"a": True, "y": 0.0},
        {"a": 42.0, "b": 42.0, "y": 0},
    )
    rows, _ = read(write("log.jsonl", content))
    assert rows == [
        ("x", 1.0, 0),
        ("18446744073709551615", 2.5, 1),
        ("123456789012345678901234567890", None, 1),
        ("true", None, 0),
        ("42", 42.0, 0),
    ]


def test_json_lists_and_nested_objects(read, write):
    features = {
        "tags": {**TEXT, "separator": "|"},
        "user": {**TEXT, "column": "u.id"},
        "deep": {**NUMBER, "column": "u.at.lat", "required": False},
    }
    content = jsonl(
        {"tags": ["p", None, 3, 4.0], "u": {"id": 7, "at": {"lat": 1.5}}, "y": 0},
        {"tags": "p|q", "u.id": 8, "y": 1},
        {"tags": [], "u": {"id": None}, "y": 1},
        {"u": {"id": 9}, "y": 1},
    )
    rows, _ = read(write("log.jsonl.gz", gzip.compress(content.encode())), features)
    assert rows[1:] == [(["p", "q"], "8", None, 1), ([], None, None, 1), ([], "9", None, 1)]
    assert rows[0][1:] == ("7", 1.5, 0)
    assert rows[0][0][:2] == ["p", "3"]


def test_malformed_json_is_set_aside_with_its_line(read, write):
    content = jsonl(
        {"a": "x", "b": 1, "y": 0}, "", "  ", "[1]", '{"a":', {"a": "q", "b": "zz", "y": 1}
    )
    content = content.encode() + b'{"a": "\xff", "b": 1, "y": 1}\n' + b"null\n"
    rows, rejects = read(write("log.jsonl", content), max_bad_rows=5)
    assert rows == [("x", 1.0, 0)]
    assert [(r["line"], r["column"]) for r in rejects] == [
        (4, None),
        (5, None),
        (6, "b"),
        (7, None),
        (8, None),
    ]
    assert rejects[0]["problem"] == "expected a JSON object"
    assert rejects[2]["text"] == "zz"


def test_a_column_that_no_first_line_of_json_has_is_missing(read, write):
    path = write("log.jsonl", jsonl({"aa": "x", "b": 1, "y": 0}))
    with pytest.raises(InputRejected, match=r"log\.jsonl: has no column 'a': did you mean 'aa'"):
        read(path)
    later = jsonl({"a": "x", "y": 0}, {"a": "x", "b": 5, "y": 0})
    rows, _ = read(write("later.jsonl", later), {"a": TEXT, "b": {**NUMBER, "required": False}})
    assert rows == [("x", None, 0), ("x", 5.0, 0)]
