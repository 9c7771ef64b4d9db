# SPDX-License-Identifier: Apache-2.0
"""Small tables through FeatureSpace.fit and encode_rows; ids by hand."""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.encode import encode_rows
from features.raw import NullRule
from features.space import FeatureSpace
from tests.features.rows import specs_of

EPOCH = datetime(1970, 1, 1)
categorical = {"kind": "categorical"}


def farm(texts, buckets):
    """TensorFlow's own buckets of texts."""
    return tf.strings.to_hash_bucket_fast(tf.constant(texts, tf.string), buckets).numpy().tolist()


# categories


def test_unseen_and_missing_values_have_ids_of_their_own(fit, encode):
    # FEA-01
    space = fit({"c": ["a", "b", "c"] * 10}, specs_of(c=categorical))
    found = encode({"c": ["a", "zzz", "", "yyy", None, "c"]}, space)
    assert found["c"].to_pylist() == [3, 2, 1, 2, 1, 5]
    assert found["c"].type == pa.int32()


def test_ids_go_by_count_then_value_and_rare_values_are_unknown(fit, encode):
    # FEA-06, and a second column without nulls
    brands = ["Coby"] * 5 + [None] * 5 + ["Cooler"] * 2 + ["Asus"] * 3
    specs = specs_of(brand=categorical | {"min_count": 3}, all=categorical)
    rows = {"brand": brands, "all": ["x"] * 15}
    space = fit(rows, specs)
    found = encode(rows, space)
    assert found["brand"].to_pylist() == [3] * 5 + [1] * 5 + [2] * 2 + [4] * 3
    assert found["all"].to_pylist() == [3] * 15
    vocabulary = space.vocabularies["brand"]
    assert (vocabulary.rare_values, vocabulary.rare_rows) == (1, 2)


def test_whole_numbers_and_their_texts_are_one_id(fit, encode):
    big = 4611686018427387905
    specs = specs_of(i=categorical | {"type": "int"}, t=categorical | {"table": "i"})
    training = {"i": [big, big + 1, None, 42], "t": ["42", None, "042", "42"]}
    space = fit(training, specs)
    # 42 three times; 042, and the two big ids, in the order of their bytes
    assert space.vocabularies["i"].values.to_pylist() == ["42", "042", str(big), str(big + 1)]
    found = encode({"i": [42, big + 1, None, 7], "t": [str(big), "42", "42.0", "042"]}, space)
    assert found["i"].to_pylist() == [3, 6, 1, 2]
    assert found["t"].to_pylist() == [5, 3, 2, 4]


@pytest.mark.parametrize("cells", [[42.0, 7.0, None], [42, 7, None], ["42", "7", ""]])
def test_an_id_does_not_depend_on_the_type_of_its_column(fit, encode, cells):
    space = fit({"c": ["7", "7", "42"]}, specs_of(c=categorical))
    assert encode({"c": cells}, space)["c"].to_pylist() == [4, 3, 1]


@given(st.lists(st.text(min_size=1, max_size=20), max_size=30))
@settings(deadline=None, max_examples=8)
def test_unknown_values_are_hashed_as_tensorflow_does(fit, encode, texts):
    specs = specs_of(
        several=categorical | {"column": "c", "num_oov": 5},
        hashed=categorical | {"column": "c", "hash_buckets": 1000},
    )
    space = fit({"c": ["the known", "the known", "an other"]}, specs)
    found = encode({"c": [*texts, "the known", "an other", None]}, space)
    unknown = [2 + number for number in farm(texts, 5)]
    assert found["several"].to_pylist() == [*unknown, 7, 8, 1]
    hashed = [2 + number for number in farm([*texts, "the known", "an other"], 1000)]
    assert found["hashed"].to_pylist() == [*hashed, 1]
    assert space.table_rows("hashed") == 1002
    assert "hashed" not in space.vocabularies


def test_features_that_share_a_table_are_counted_together(fit, encode):
    specs = specs_of(
        item=categorical | {"min_count": 2},
        seen=categorical | {"table": "item"},
        again=categorical | {"column": "item", "table": "item"},
    )
    # `again` reads the column of `item`, which is counted once
    space = fit({"item": ["a", "b", "b"], "seen": ["a", "c", None]}, specs)
    vocabulary = space.vocabularies["item"]
    assert vocabulary.values.to_pylist() == ["a", "b"]
    assert vocabulary.counts.to_pylist() == [2, 2]
    assert list(space.vocabularies) == ["item"]
    found = encode({"item": ["a", "b"], "seen": ["b", "c"]}, space)
    assert found["item"].to_pylist() == [3, 4]
    assert found["seen"].to_pylist() == [4, 2]
    assert found["again"].to_pylist() == [3, 4]


# lists


def test_lists_by_hand(fit, encode):
    bag = categorical | {"separator": "|", "max_items": 3}
    specs = specs_of(tags=bag, one=categorical | {"table": "tags"})
    space = fit({"tags": ["a|b", "b", ""], "one": ["b", "c", None]}, specs)
    cells = ["b|a", "", None, "x|a|x|b", "c", "a|a"]
    found = encode({"tags": cells, "one": ["a"] * 6}, space)
    # b three times, then a and c
    assert found["tags"].to_pylist() == [[3, 4], [], [], [2, 4, 2], [5], [4, 4]]
    assert found["tags"].type == pa.list_(pa.int32())
    assert found["tags_length"].to_pylist() == [2, 0, 0, 3, 1, 2]
    assert found["tags_length"].type == pa.int32()
    assert found["one"].to_pylist() == [4] * 6


def test_weights_stand_beside_their_items(fit, encode):
    bag = categorical | {"separator": "|", "weight_separator": ":", "max_items": 2}
    space = fit({"tags": ["a:0.5|b:1.5"]}, specs_of(tags=bag))
    found = encode({"tags": ["a:0.5|b:1.5", "b", "", "c:2|a:0|b:7"]}, space)
    assert found["tags"].to_pylist() == [[3, 4], [4], [], [2, 3]]
    assert found["tags_weight"].to_pylist() == [[0.5, 1.5], [1.0], [], [2.0, 0.0]]
    assert found["tags_weight"].type == pa.list_(pa.float32())


def test_hashed_lists(fit, encode):
    bag = categorical | {"separator": "|", "hash_buckets": 100}
    space = fit({"tags": [""]}, specs_of(tags=bag))
    found = encode({"tags": ["x|é|x", ""]}, space)
    assert found["tags"].to_pylist() == [np.add(farm(["x", "é", "x"], 100), 2).tolist(), []]


def test_items_keep_their_order_over_many_rows(fit, encode):
    random = np.random.default_rng(1)
    lists = [random.integers(0, 50, random.integers(0, 8)).tolist() for _ in range(20_000)]
    cells = pa.array([[str(i) for i in items] for items in lists])
    space = fit({"tags": cells}, specs_of(tags=categorical | {"separator": "|"}))
    values = space.vocabularies["tags"].values.to_pylist()
    ids = {int(value): i for i, value in enumerate(values, 3)}
    assert encode({"tags": cells}, space)["tags"].to_pylist() == [
        [ids[i] for i in r] for r in lists
    ]


# numbers


def test_numbers_flags_and_buckets(fit, encode):
    specs = specs_of(
        price={"kind": "numeric", "scale": "min_max", "fill": "zero", "missing_flag": True},
        level={"kind": "bucketed", "column": "price", "edges": [2.0, 4.0]},
    )
    rows = {"price": ["2", "", "4", "NA", "3"]}
    rule = NullRule(("NA",))
    space = fit(rows, specs, rule)
    found = encode(rows, space, rule)
    assert found["price"].to_pylist() == [0.0, -1.0, 1.0, -1.0, 0.5]
    assert found["price_missing"].to_pylist() == [0.0, 1.0, 0.0, 1.0, 0.0]
    assert found["level"].to_pylist() == [3, 1, 4, 1, 3]
    assert [found[name].type for name in ("price", "price_missing")] == [pa.float32()] * 2


# moments

PARTS = {
    "hour": lambda t: t.hour,
    "weekday": lambda t: t.weekday(),
    "day": lambda t: t.day,
    "month": lambda t: t.month,
    "hour_of_week": lambda t: t.weekday() * 24 + t.hour,
}


def parts_of(**options):
    return specs_of(**{
        part: {"kind": "datetime", "column": "when", "part": part} | options for part in PARTS
    })  # fmt: skip


@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)), min_size=1))
@example([EPOCH + timedelta(microseconds=step) for step in (-1, 0, 1)])
@example([datetime(2000, 2, 29), datetime(1900, 2, 28, 23), datetime(2024, 12, 31, 23, 59, 59)])
@example([datetime(9999, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1)])
@settings(deadline=None, max_examples=10)
def test_parts_agree_with_datetime(fit, encode, moments):
    specs = parts_of()
    space = fit({"when": pa.array(moments, pa.timestamp("us"))}, specs)
    found = encode({"when": pa.array([*moments, None], pa.timestamp("us"))}, space)
    for part, value in PARTS.items():
        assert found[part].to_pylist() == [*(2 + value(moment) for moment in moments), 1]
        assert found[part].type == pa.int32()


def test_parts_of_every_hour_of_years_with_and_without_a_leap_day(fit, encode):
    moments = [
        datetime(year, 1, 1) + timedelta(hours=h)
        for year in (1899, 2023, 2024)
        for h in range(24 * 366)
    ]
    seconds = [(moment - EPOCH) // timedelta(seconds=1) for moment in moments]
    space = fit({"when": seconds}, parts_of(unit="s"))
    found = encode({"when": seconds}, space)
    for part, value in PARTS.items():
        assert found[part].to_pylist() == [2 + value(moment) for moment in moments]
        assert max(found[part].to_pylist()) < space.table_rows(part)


# histories


def past(column, of, **options):
    return {"kind": "history", "of": of, "max_items": 3} | options


LOG = {
    "item": ["i1", "i2", "i3", "i4", "i1", "i2"],
    "shop": ["s1", "s2", None, "s1", "s9", "s1"],
    "action": ["view", "buy", "buy", "view", "click", "click"],
    "_entity": ["u1", "u1", "u1", "u1", "u1", "u2"],
    "_time": [1, 2, 2, 3, 4, 5],
    "_label": pa.array([1, 1, 0, 0, 1, 1], pa.int8()),
}


def test_histories_hold_the_ids_of_their_features(fit, encode):
    specs = specs_of(
        clicks={"kind": "history", "of": ["item", "shop"], "max_items": 3},
        item=categorical,
        shop=categorical | {"min_count": 3},
        views={"kind": "history", "of": ["item"], "max_items": 2, "events": "all"},
    )
    space = fit(LOG, specs)
    # i1 and i2 twice, i3 and i4 once: 3, 4, 5, 6; only s1 is frequent
    found = encode(LOG, space)
    assert found["item"].to_pylist() == [3, 4, 5, 6, 3, 4]
    assert found["shop"].to_pylist() == [3, 2, 1, 3, 2, 3]
    assert found["clicks_item"].to_pylist() == [[], [3], [3], [3, 4], [3, 4], []]
    assert found["clicks_shop"].to_pylist() == [[], [3], [3], [3, 2], [3, 2], []]
    assert found["clicks_length"].to_pylist() == [0, 1, 1, 2, 2, 0]
    assert found["views_item"].to_pylist() == [[], [3], [3], [4, 5], [5, 6], []]
    assert found["clicks_item"].type == pa.list_(pa.int32())
    assert found["clicks_length"].type == pa.int32()


def test_events_chosen_by_a_column_are_flagged_in_typed_rows(fit, encode):
    bought = {"kind": "history", "of": ["item"], "events": {"action": ["buy"]}, "gap_s": 1e-6}
    specs = specs_of(item=categorical, bought=bought)
    log = LOG | {"_counts_bought": [action == "buy" for action in LOG["action"]]}
    found = encode(log, fit(log, specs))
    # the gap of 1 µs keeps the purchases at 2 from the row at 3
    assert found["bought_item"].to_pylist() == [[], [], [], [], [4, 5], []]
    unflagged = log | {"_counts_bought": pa.nulls(6, pa.bool_())}
    assert encode(unflagged, fit(log, specs))["bought_length"].to_pylist() == [0] * 6


def test_events_of_one_moment_are_ordered_by_raw_values_not_by_ids(fit, encode):
    specs = specs_of(item=categorical, clicks={"kind": "history", "of": ["item"], "max_items": 2})
    log = {
        "item": ["z", "z", "c", "b", "z"],
        "_entity": ["u", "u", "u", "u", "u"],
        "_time": [1, 5, 5, 5, 9],
        "_label": [0, 1, 1, 1, 0],
    }
    found = encode(log, fit(log, specs))
    # z, b, c have ids 3, 4, 5; of b, c, z the last two are kept
    assert found["clicks_item"].to_pylist() == [[], [], [], [], [5, 3]]


def test_time_gaps_by_hand(fit, encode):
    ms = 1_000
    log = {
        "item": ["b", "a", "c", "d", "e", "f"],
        "_entity": ["u", "u", "u", "u", "u", "v"],
        # a and b at one moment; c 0.4 s later; d 3 s after c; e 2³⁰ s after d
        "_time": [1_000 * ms, 1_000 * ms, 1_400 * ms, 4_400 * ms, (2**30 * 1000 + 4_400) * ms, 0],
        "_label": [1, 1, 1, 1, 1, 1],
    }
    clicks = {"kind": "history", "of": ["item"], "max_items": 3, "time_gap": True}
    specs = specs_of(
        item=categorical, clicks=clicks, late=clicks | {"gap_s": 0.4}, plain=past("item", ["item"])
    )
    space = fit(log, specs)
    found = encode(log, space)
    # gaps in seconds: -, -, [0, 0], [3, 3, 3], [2³⁰ + 3, 2³⁰ + 3, 2³⁰]; ids are 2 + their digits
    far = 33
    assert found["clicks_gap"].to_pylist() == [[], [], [2, 2], [4, 4, 4], [far] * 3, []]
    assert found["clicks_item"].to_pylist() == [[], [], [3, 4], [3, 4, 5], [4, 5, 6], []]
    assert found["late_gap"].to_pylist() == [[], [], [], [4, 4, 4], [far] * 3, []]
    assert found["clicks_gap"].type == pa.list_(pa.int32())
    assert found["clicks_item"].equals(found["plain_item"])
    assert {table.name: table.rows for table in space.schema.tables} == {
        "item": 9, "clicks_gap": 34, "late_gap": 34,
    }  # fmt: skip
    [history, *_] = space.schema.histories
    assert history.time_gap == history.channels[-1]
    assert history.channels[-1].model_dump() == {
        "name": "clicks_gap", "table": "clicks_gap", "target": None, "time_gap": True,
    }  # fmt: skip


# what only past events have


def test_what_only_past_events_have_is_fitted_on_the_histories_of_training_rows(
    read_rows, connection
):
    specs = specs_of(
        item=categorical,
        answer=categorical | {"past_only": True},
        seconds={"kind": "bucketed", "quantiles": 2, "past_only": True},
        past={"kind": "history", "of": ["item", "answer", "seconds"], "events": "all"},
        clicked={"kind": "history", "of": ["answer"]},
    )
    log = {
        # of u the first two come before its training row; v has none; w's last is no past
        "item": ["i", "j", "k", "i", "i", "k", "k"],
        "answer": ["yes", "no", "leak", "leak", "yes", "late", None],
        "seconds": [1.0, 2.0, 90.0, 90.0, 4.0, 90.0, None],
        "_entity": ["u", "u", "u", "v", "w", "w", "u"],
        "_time": [1, 2, 4, 1, 1, 2, 3],
        "_label": [1, 0, 0, 1, 1, 1, 0],
    }
    rows = read_rows(log, specs)
    training = rows.filter(rows._row.isin([5, 6]))
    space = FeatureSpace.fit(training, specs, rows)
    assert space.vocabularies["answer"].values.to_pylist() == ["yes", "no"]
    assert space.vocabularies["answer"].counts.to_pylist() == [2, 1]
    assert space.buckets["seconds"].edges == (2.0,)
    assert [feature.name for feature in space.schema.features] == ["item", "past", "clicked"]
    assert [channel.target for channel in space.schema.histories[0].channels] == [
        "item", None, None,
    ]  # fmt: skip
    found = connection.to_pyarrow(encode_rows(rows, space)).sort_by("_row")
    assert "answer" not in found.column_names
    # yes 3, no 4, others 2; k is the only item of training rows
    assert found["past_answer"].to_pylist() == [[], [3], [3, 4, 1], [], [], [3], [3, 4]]
    assert found["past_seconds"].to_pylist() == [[], [2], [2, 3, 1], [], [], [3], [2, 3]]
    assert found["past_item"].to_pylist() == [[], [2], [2, 2, 3], [], [], [2], [2, 2]]
    assert found["clicked_answer"].to_pylist() == [[], [3], [3], [], [], [3], [3]]


# tables


def test_encoded_columns_are_what_the_schema_says(fit, encode):
    specs = specs_of(
        item=categorical,
        tags=categorical | {"separator": "|", "weight_separator": ":"},
        price={"kind": "numeric", "missing_flag": True},
        level={"kind": "bucketed", "column": "price", "quantiles": 4},
        hour={"kind": "datetime", "column": "when", "unit": "ms", "part": "hour"},
        clicks={"kind": "history", "of": ["item", "level", "hour"]},
    )
    log = LOG | {"tags": ["x:1"] * 6, "price": [1.0] * 6, "when": [0] * 6, "_key:user": ["u"] * 6}
    space = fit(log, specs)
    found = encode(log, space)
    keys = {key for key, _ in space.schema.id_columns()} | {f.name for f in space.schema.numeric}
    keys |= {"tags_length", "tags_weight", "clicks_length"}
    assert {name for name in found.column_names if not name.startswith("_")} == keys
    carried = {name for name in found.column_names if name.startswith("_")}
    cut = {"_cut_tags", "_cut_clicks"}
    assert carried == {"_row", "_entity", "_time", "_label", "_key:user", "_moment_hour"} | cut
    for key, table in space.schema.id_columns():
        ids = found[key].to_pylist()
        flat = [i for row in ids for i in row] if isinstance(ids[0], list) else ids
        assert all(0 < i < space.table_rows(table) for i in flat)


def test_the_order_of_rows_changes_nothing(fit, encode):
    random = np.random.default_rng(3)
    count = 3_000
    log = pa.table({
        "_row": np.arange(count),
        "item": [f"i{i}" for i in random.integers(0, 300, count)],
        "tags": [f"t{i}|t{i // 9}|t{i % 7}" for i in random.integers(0, 90, count)],
        "price": random.normal(size=count),
        "_entity": [f"u{i}" for i in random.integers(0, 40, count)],
        "_time": random.integers(0, 1000, count),
        "_label": random.integers(0, 2, count),
    })  # fmt: skip
    specs = specs_of(
        item=categorical | {"min_count": 5, "num_oov": 3},
        tags=categorical | {"separator": "|"},
        price={"kind": "numeric"},
        clicks={"kind": "history", "of": ["item"]},
    )
    shuffled = log.take(random.permutation(count))
    space, again = fit(log, specs), fit(shuffled, specs)
    assert space == again
    assert encode(log, space).equals(
        encode(shuffled, again).select(encode(log, space).column_names)
    )
