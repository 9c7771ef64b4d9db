# SPDX-License-Identifier: Apache-2.0
"""Declarations of features: what is refused, and which raw inputs they need."""

import pytest
from pydantic import ValidationError

from features.inputs import RawInput, input_names, raw_inputs
from features.specs import TimeFormat, table_of
from tests.features.rows import specs_of

categorical = {"kind": "categorical"}
hour = {"kind": "datetime", "part": "hour", "unit": "s"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (categorical | {"hash_buckets": 9, "min_count": 2}, "take out min_count"),
        (categorical | {"hash_buckets": 9, "num_oov": 3}, "take out num_oov"),
        (categorical | {"hash_buckets": 2**31}, "less than or equal"),
        (categorical | {"num_oov": 0}, "greater than or equal"),
        (categorical | {"table": "x", "max_size": 2}, "belong to feature 'x'"),
        (categorical | {"table": "x", "hash_buckets": 2}, "belong to feature 'x'"),
        (categorical | {"weight_separator": ":"}, "only items of a list have weights"),
        (categorical | {"separator": "|", "weight_separator": "|"}, "cannot be in an item"),
        (categorical | {"separator": "|", "type": "int"}, "take out type: int"),
        (categorical | {"separator": ""}, "at least 1"),
        (categorical | {"separator": "|", "past_only": True}, "past_only: .* take out separator"),
        (categorical | {"columns": "c"}, "columns"),
        (hour | {"format": "%Y"}, "either unit .* or format"),
        (hour | {"part": "year"}, "hour.*weekday"),
        ({"kind": "history", "of": []}, "at least 1"),
        ({"kind": "history", "of": ["a", "a"]}, "named twice"),
        ({"kind": "history", "of": ["a"], "events": {}}, "name one column"),
        ({"kind": "history", "of": ["a"], "events": {"x": []}}, "name a value"),
        ({"kind": "history", "of": ["a"], "events": {"x": ["1"], "y": ["2"]}}, "name one column"),
        ({"kind": "history", "of": ["a"], "gap_s": -1}, "greater than or equal"),
        ({"kind": "history", "of": ["a"], "gap_s": 1e13}, "less than or equal"),
        ({"kind": "other"}, "categorical"),
    ],
)
def test_contradictions_are_refused(spec, message):
    with pytest.raises(ValidationError, match=message):
        specs_of(c=spec)


def test_what_is_dumped_in_full_can_be_read_again():
    specs = specs_of(
        hashed=categorical | {"hash_buckets": 9},
        shared=categorical | {"table": "hashed"},
        hour=hour,
        price={"kind": "numeric", "fill": 2},
        past={"kind": "history", "of": ["hashed"], "events": {"action": ["buy"]}},
    )
    assert specs_of(**{name: spec.model_dump(mode="json") for name, spec in specs.items()}) == specs


def test_every_feature_has_an_input_of_its_name():
    specs = specs_of(
        a=categorical | {"column": "user id", "required": False},
        b=categorical | {"type": "int"},
        c={"kind": "numeric"},
        d=categorical | {"separator": "|", "weight_separator": ":", "max_items": 3},
        e={"kind": "datetime", "part": "day", "format": "%Y%m%d"},
        f={"kind": "history", "of": ["a"]},
    )
    assert raw_inputs(specs) == (
        RawInput(name="a", column="user id", type="text", required=False),
        RawInput(name="b", column="b", type="integer", required=True),
        RawInput(name="c", column="c", type="number", required=True),
        RawInput(name="d", column="d", type="texts", required=True, separator="|",
                 weight_separator=":", max_items=3),
        RawInput(name="e", column="e", type="text", required=True,
                 time=TimeFormat(format="%Y%m%d")),
    )  # fmt: skip


def test_features_of_one_column_share_its_input():
    specs = specs_of(
        first=categorical,
        hour=hour | {"column": "time"},
        weekday=hour | {"column": "time", "part": "weekday"},
        price={"kind": "numeric"},
        level={"kind": "bucketed", "column": "price", "quantiles": 3},
    )
    assert input_names(specs) == {
        "first": "first", "hour": "time", "weekday": "time", "price": "price", "level": "price",
    }  # fmt: skip
    assert [raw.name for raw in raw_inputs(specs)] == ["first", "time", "price"]


@pytest.mark.parametrize("column", ["event time", "_time", "1st", "other"])
def test_a_shared_column_that_can_be_no_input_lends_the_first_name(column):
    # `other` is a feature that reads another column
    specs = specs_of(
        hour=hour | {"column": column},
        weekday=hour | {"column": column, "part": "weekday"},
        other=categorical | {"column": "x"},
    )
    assert input_names(specs) == {"hour": "hour", "weekday": "hour", "other": "other"}
    assert [(raw.name, raw.column) for raw in raw_inputs(specs)] == [
        ("hour", column), ("other", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (categorical, {"kind": "numeric"}, "type 'text' and 'number'"),
        (categorical, categorical | {"required": False}, "required True and False"),
        (
            categorical | {"separator": "|"}, categorical | {"separator": ","},
            r"separator '\|' and ','",
        ),
        (hour, hour | {"unit": "ms"}, "time TimeFormat"),
    ],
)  # fmt: skip
def test_features_of_one_column_must_read_it_alike(one, other, difference):
    specs = specs_of(a=one | {"column": "c"}, b=other | {"column": "c"})
    with pytest.raises(ValueError, match=f"column 'c' differ: {difference}"):
        raw_inputs(specs)


def test_an_input_is_of_the_past_alone_if_all_its_readers_are():
    past = hour | {"column": "t", "past_only": True}
    specs = specs_of(a=past, b=past, c=categorical | {"past_only": True}, d=categorical)
    assert {raw.name: raw.past_only for raw in raw_inputs(specs)} == {
        "t": True, "c": True, "d": False,
    }  # fmt: skip
    shared = specs_of(a=past, b=hour | {"column": "t"})
    assert [raw.past_only for raw in raw_inputs(shared)] == [False]


def test_a_table_belongs_to_the_feature_that_others_name():
    specs = specs_of(
        item=categorical, seen=categorical | {"table": "item"}, price={"kind": "numeric"}
    )
    assert [table_of(name, specs) for name in specs] == ["item", "item", "price"]
