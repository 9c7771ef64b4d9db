# SPDX-License-Identifier: Apache-2.0
"""Splits by hand, and against plain Python."""

import hashlib
from collections import Counter

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.splits import (
    by_column,
    by_hash,
    by_time,
    leave_last_out,
    shuffled,
    time_boundaries,
)

DAY = 86_400 * 1_000_000
a_few_tables = settings(deadline=None, max_examples=15)


@pytest.fixture(scope="session")
def parts_of(connection, make_table):
    """Return the part of every row, in the order of the rows."""

    def compute(columns, split):
        count = len(next(iter(columns.values())))
        table = make_table({"_row": range(count)} | columns)
        rows = connection.to_pyarrow(table.select("_row", part=split(table)))
        return rows.sort_by("_row")["part"].to_pylist()

    return compute


# by time


@pytest.mark.parametrize("seed", [0, 1])
def test_ten_days_are_split_exactly_in_any_row_order(make_table, parts_of, seed):
    # TRN-02: 10 days of 100 rows, all times distinct
    times = np.array([day * DAY + i * 1_000_003 for day in range(10) for i in range(100)])
    times = np.random.default_rng(seed).permutation(times)
    boundaries = time_boundaries(make_table({"_time": times}), 0.1, 0.1)
    assert boundaries == (8 * DAY, 9 * DAY)
    parts = parts_of({"_time": times}, lambda rows: by_time(rows, *boundaries))
    assert Counter(parts) == {"train": 800, "valid": 100, "test": 100}
    of = {part: [t for t, p in zip(times, parts, strict=True) if p == part] for part in set(parts)}
    assert max(of["train"]) < min(of["valid"]) <= max(of["valid"]) < min(of["test"])


@given(st.lists(st.integers(-20, 20), min_size=3, max_size=60), st.sampled_from([0.1, 0.25, 0.3]))
@a_few_tables
def test_moments_are_never_divided(make_table, parts_of, times, share):
    ordered = sorted(times)
    ranks = [round((1 - n * share) * len(times)) for n in (2, 1)]
    wanted = [ordered[min(rank, len(times) - 1)] for rank in ranks]
    table = make_table({"_time": pa.array(times, pa.int64())})
    if not ordered[0] < wanted[0] < wanted[1]:
        with pytest.raises(ValueError, match=r"too few distinct times .* split by hash"):
            time_boundaries(table, share, share)
        return
    assert time_boundaries(table, share, share) == tuple(wanted)
    parts = parts_of({"_time": times}, lambda rows: by_time(rows, *wanted))
    assert len(set(zip(times, parts, strict=True))) == len(set(times))
    assert [part for _, part in sorted(zip(times, parts, strict=True))] == [
        "train" if t < wanted[0] else "valid" if t < wanted[1] else "test" for t in ordered
    ]


def test_a_single_row_cannot_be_split_by_time(make_table):
    with pytest.raises(
        ValueError, match=r"1 rows have too few distinct times.*0\.8, 0\.1 and 0\.1"
    ):
        time_boundaries(make_table({"_time": [5]}), 0.1, 0.1)


def test_a_gap_leaves_out_rows_before_each_boundary(parts_of):
    times = {"_time": [6, 7, 8, 9, 10, 17, 18, 19, 20, 30]}
    parts = parts_of(times, lambda rows: by_time(rows, 10, 20, gap=2))
    assert parts == [
        "train", "train", None, None, "valid", "valid", None, None, "test", "test",
    ]  # fmt: skip


# by hash


def part_by_hash(text, valid, test):
    """The first 32 bits of the MD5 as a share."""
    share = int(hashlib.md5(f"split:{text}".encode(), usedforsecurity=False).hexdigest()[:8], 16)
    scale = 16**8
    return "test" if share < round(test * scale) else (
        "valid" if share < round((test + valid) * scale) else "train"
    )  # fmt: skip


def test_hash_split_agrees_with_hashlib_and_has_the_wanted_shares(parts_of):
    texts = [f"user {i} é" for i in range(20_000)]
    parts = parts_of({"text": texts}, lambda rows: by_hash(rows.text, 0.2, 0.1))
    assert parts == [part_by_hash(text, 0.2, 0.1) for text in texts]
    shares = {part: count / len(texts) for part, count in Counter(parts).items()}
    assert shares == pytest.approx({"train": 0.7, "valid": 0.2, "test": 0.1}, abs=0.01)


def test_hash_split_is_the_same_forever(parts_of):
    # printf 'split:a' | md5sum begins with a6f4e3e0: as a share 0.652
    for test, part in ((0.65, "valid"), (0.653, "test")):
        assert parts_of({"text": ["a"]}, lambda rows, t=test: by_hash(rows.text, 0.3, t)) == [part]


def test_no_user_is_in_two_parts(parts_of):
    users = [f"u{i % 300}" for i in np.random.default_rng(0).permutation(9000)]
    parts = parts_of({"user": users}, lambda rows: by_hash(rows.user, 0.2, 0.2))
    assert len(set(zip(users, parts, strict=True))) == 300
    assert set(parts) == {"train", "valid", "test"}


def test_a_larger_test_share_keeps_the_rows_it_had(parts_of):
    texts = {"text": [str(i) for i in range(500)]}
    small = parts_of(texts, lambda rows: by_hash(rows.text, 0.1, 0.1))
    large = parts_of(texts, lambda rows: by_hash(rows.text, 0.1, 0.4))
    assert all(b == "test" for a, b in zip(small, large, strict=True) if a == "test")


# by column and by entity


def test_a_column_says_the_part(parts_of):
    columns = {"c": ["a", "b", "x", "y", None, "other"]}
    parts = parts_of(columns, lambda rows: by_column(rows.c, ("a", "b"), ("x",), ("y",)))
    assert parts == ["train", "train", "valid", "test", None, None]


def slow_leave_last_out(entities, times):
    parts = ["train"] * len(entities)
    for entity in set(entities) - {None}:
        rows = sorted((times[i], i) for i, e in enumerate(entities) if e == entity)
        if len(rows) >= 3:
            parts[rows[-1][1]], parts[rows[-2][1]] = "test", "valid"
    return parts


def test_the_last_two_events_of_an_entity_are_held_out(parts_of):
    columns = {
        "_entity": ["u1", "u2", "u1", "u1", "u2", "u1", None, None, None],
        "_time": [40, 1, 10, 30, 2, 30, 1, 2, 3],
    }
    # u1: times 10, 30, 30, 40, of which the later row of the tie validates; u2 has two events only
    expected = ["test", "train", "train", "train", "train", "valid", "train", "train", "train"]
    assert parts_of(columns, leave_last_out) == expected


@given(
    st.lists(st.tuples(st.sampled_from(["u1", "u2", "u3", None]), st.integers(0, 5)), min_size=1)
)
@a_few_tables
def test_leave_last_out_agrees_with_plain_python(parts_of, events):
    entities, times = [entity for entity, _ in events], [time for _, time in events]
    columns = {"_entity": pa.array(entities, pa.string()), "_time": times}
    assert parts_of(columns, leave_last_out) == slow_leave_last_out(entities, times)


# order


def order_with(threads, numbers, seed):
    connection = ibis.duckdb.connect(threads=threads)
    try:
        rows = connection.create_table("rows", pa.table({"_row": numbers}))
        return connection.to_pyarrow(shuffled(rows, seed))["_row"].to_pylist()
    finally:
        connection.disconnect()


def test_shuffling_depends_on_the_seed_alone():
    numbers = list(range(100_000))
    first = order_with(1, numbers, 7)
    assert first == order_with(4, numbers[::-1], 7)
    assert first != order_with(1, numbers, 8)
    assert sorted(first) == numbers
    assert first != numbers


def test_shuffling_mixes_well():
    # labels sorted in the file: every part of the shuffled rows has its share of both
    order = np.array(order_with(2, list(range(10_000)), 7))
    for batch in np.split(order, 20):
        assert 0.4 < np.mean(batch < 5_000) < 0.6
    assert abs(np.corrcoef(order, np.arange(10_000))[0, 1]) < 0.05


def test_shuffling_agrees_with_hashlib():
    def key(row):
        return hashlib.md5(f"3:{row}".encode(), usedforsecurity=False).hexdigest()

    assert order_with(2, list(range(500)), 3) == sorted(range(500), key=key)
