# SPDX-License-Identifier: Apache-2.0
"""Histories by hand, and against a slow version in plain Python."""

from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.history import add_history

a_few_tables = settings(deadline=None, max_examples=20)
SECOND = 1_000_000


@pytest.fixture(scope="session")
def histories(connection, make_table):
    """Add histories to events: {channel: [list]} in the order of `_row`."""

    def compute(events, columns, max_items, **options):
        types = {"_row": pa.int64(), "_entity": pa.string(), "_time": pa.int64()}
        arrays = {
            name: pa.array([event[name] for event in events], types.get(name))
            for name in ("_row", "_entity", "_time", "counts", *columns)
        }
        table = make_table(arrays)
        channels = {column: f"past_{column}" for column in columns}
        added = add_history(table, table.counts, channels, max_items, **options)
        cut = [options["cut"]] if "cut" in options else []
        assert added.columns == (*table.columns, *channels.values(), *cut)
        rows = connection.to_pyarrow(added).sort_by("_row").to_pylist()
        assert [row["_row"] for row in rows] == sorted(event["_row"] for event in events)
        past = {column: [row[f"past_{column}"] for row in rows] for column in columns}
        return past | {name: [row[name] for row in rows] for name in cut}

    return compute


def slow_histories(events, columns, max_items, gap=0):
    """What each event's entity did strictly before it, by going through all events."""
    found = {column: [] for column in [*columns, "cut"]}
    for row in sorted(events, key=lambda event: event["_row"]):
        past = [
            event
            for event in events
            if event["counts"]
            and None not in (row["_entity"], row["_time"], event["_time"])
            and event["_entity"] == row["_entity"]
            and event["_time"] < row["_time"] - gap
        ]
        past.sort(key=lambda event: (event["_time"], *(event[c] for c in columns), event["_row"]))
        for column in columns:
            found[column].append([event[column] for event in past[-max_items:]])
        found["cut"].append(len(past) > max_items)
    return found


def event(row, time, item, counts, entity="u1"):
    return {"_row": row, "_entity": entity, "_time": time, "item": item, "counts": counts}


SEQ_07 = [
    event(0, 1 * SECOND, "i1", True),
    event(1, 2 * SECOND, "i2", True),
    event(2, 2 * SECOND, "i3", False),
    event(3, 3 * SECOND, "i4", False),
    event(4, 4 * SECOND, "i1", True),
]


def test_events_strictly_before_in_every_row_order(histories):
    expected = [[], ["i1"], ["i1"], ["i1", "i2"], ["i1", "i2"]]
    for shuffled in list(permutations(SEQ_07))[::17]:
        assert histories(shuffled, ["item"], 50) == {"item": expected}


def test_a_gap_is_strict(histories):
    # with event time < t - 1 s, the event at 1 s is not before the rows at 2 s
    expected = [[], [], [], ["i1"], ["i1", "i2"]]
    assert histories(SEQ_07, ["item"], 50, gap_s=1.0) == {"item": expected}
    nearly = [[], ["i1"], ["i1"], ["i1", "i2"], ["i1", "i2"]]
    assert histories(SEQ_07, ["item"], 50, gap_s=0.999999) == {"item": nearly}
    assert histories(SEQ_07, ["item"], 50, gap_s=1e6) == {"item": [[]] * 5}


def test_the_newest_are_kept_oldest_first(histories):
    # SEQ-09
    events = [event(i, i * SECOND, f"i{i}", True) for i in range(1, 7)]
    assert histories(events, ["item"], 3)["item"][-1] == ["i3", "i4", "i5"]
    assert histories(events, ["item"], 1)["item"][-1] == ["i5"]
    longer = [False, False, False, False, True, True]  # 0 … 5 events lie before
    assert histories(events, ["item"], 3, cut="_cut")["_cut"] == longer


def test_entities_do_not_mix_and_rows_without_one_have_no_past(histories):
    events = [
        event(0, 1, "a", True, "u1"), event(1, 2, "b", True, "u2"), event(2, 3, "c", True, None),
        event(3, 4, "d", True, None), event(4, 5, "e", True, "u1"), event(5, 6, "f", True, ""),
        event(6, 7, "g", True, ""),
    ]  # fmt: skip
    assert histories(events, ["item"], 9)["item"] == [[], [], [], [], ["a"], [], ["f"]]


def test_rows_without_a_time_neither_have_nor_are_a_past(histories):
    events = [event(0, 1, "a", True), event(1, None, "b", True), event(2, 5, "c", True)]
    assert histories(events, ["item"], 9)["item"] == [[], [], ["a"]]
    assert histories([event(0, None, "a", True)], ["item"], 9)["item"] == [[]]


def test_an_unknown_condition_does_not_count(histories):
    events = [event(0, 1, "a", None), event(1, 2, "b", True), event(2, 3, "c", False)]
    assert histories(events, ["item"], 9)["item"] == [[], [], ["b"]]


def test_missing_values_are_events_too(histories):
    events = [event(0, 1, None, True), event(1, 2, "b", True), event(2, 3, "c", False)]
    assert histories(events, ["item"], 9)["item"] == [[], [None], [None, "b"]]


def test_negative_and_distant_times(histories):
    far = 2**61
    events = [event(0, -far, "a", True), event(1, -1, "b", True), event(2, far, "c", True)]
    assert histories(events, ["item"], 9, gap_s=1.0)["item"] == [[], ["a"], ["a", "b"]]


def test_events_of_one_moment_are_ordered_by_the_columns_that_are_named(histories):
    events = [
        event(0, 1, "a", True) | {"rank": 2}, event(1, 1, "b", True) | {"rank": 1},
        event(2, 1, "c", True) | {"rank": 3}, event(3, 2, "d", True) | {"rank": 0},
    ]  # fmt: skip
    assert histories(events, ["item", "rank"], 2)["item"][-1] == ["b", "c"]
    by_rank = histories(events, ["item", "rank"], 2, ties=["rank"])
    assert by_rank == {"item": [[], [], [], ["a", "c"]], "rank": [[], [], [], [2, 3]]}


@st.composite
def logs(draw):
    count = draw(st.integers(1, 25))
    rows = draw(st.permutations(range(count)))
    return [
        {
            "_row": row,
            "_entity": draw(st.sampled_from(["u1", "u2", None])),
            "_time": draw(st.none() | st.integers(-4, 6)),
            "item": draw(st.sampled_from("abc")),
            "action": draw(st.integers(0, 2)),
            "counts": draw(st.booleans()),
        }
        for row in rows
    ]


@given(logs(), st.integers(1, 4), st.integers(0, 3))
@a_few_tables
def test_histories_agree_with_plain_python(histories, events, max_items, gap):
    columns = ["item", "action"]
    expected = slow_histories(events, columns, max_items, gap)
    assert histories(events, columns, max_items, gap_s=gap / SECOND, cut="cut") == expected


def test_a_long_log_agrees_with_plain_python(histories):
    random = np.random.default_rng(4)
    events = [
        {
            "_row": row,
            "_entity": f"u{random.integers(5)}",
            "_time": int(random.integers(0, 500)),
            "item": f"i{random.integers(20)}",
            "action": int(random.integers(3)),
            "counts": bool(random.random() < 0.6),
        }
        for row in random.permutation(1500).tolist()
    ]
    expected = slow_histories(events, ["item", "action"], 20)
    assert histories(events, ["item", "action"], 20, cut="cut") == expected
