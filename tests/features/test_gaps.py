# SPDX-License-Identifier: Apache-2.0
"""The rule of time gaps against Python's `int.bit_length`, offline and in the graph."""

import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.gaps import GAP_ROWS, gap_id, seconds_before
from features.graph import gap_ids
from features.raw import MISSING_INTEGER

# by hand: 1 missing, 2 + binary digits
BY_HAND = {
    None: 1, -5: 2, 0: 2, 1: 3, 2: 4, 3: 4, 4: 5, 7: 5, 8: 6, 59: 8, 3600: 14, 86_400: 19,
    2**30 - 1: 32, 2**30: 33, 2**62: 33, 2**63 - 1: 33,
}  # fmt: skip
EDGES = [edge for bits in range(63) for edge in (2**bits - 1, 2**bits)]
int64 = st.integers(-(2**63) + 1, 2**63 - 1)


@pytest.fixture(scope="session")
def offline(connection, make_table):
    def compute(seconds):
        table = make_table({"row": range(len(seconds)), "s": pa.array(seconds, pa.int64())})
        found = connection.to_pyarrow(table.select("row", id=gap_id(table.s)).order_by("row"))
        assert found["id"].type == pa.int32()
        return found["id"].to_pylist()

    return compute


def served(seconds):
    filled = [MISSING_INTEGER if s is None else s for s in seconds]
    ids = gap_ids(tf.constant([filled], tf.int64))
    assert ids.dtype == tf.int32
    return ids.numpy()[0].tolist()


def expected(seconds):
    return [1 if s is None else 2 + min(max(s, 0).bit_length(), 31) for s in seconds]


def test_ids_by_hand(offline):
    assert offline(list(BY_HAND)) == list(BY_HAND.values())
    assert served(list(BY_HAND)) == list(BY_HAND.values())
    assert max(BY_HAND.values()) == GAP_ROWS - 1


@given(st.lists(st.none() | int64 | st.sampled_from(EDGES), min_size=1))
@example(EDGES)
@settings(deadline=None)
def test_the_graph_counts_binary_digits(seconds):
    assert served(seconds) == expected(seconds)


def test_offline_counts_binary_digits(offline):
    seconds = [*EDGES, None, *(2**63 - 1 - 977**i for i in range(6)), *range(5000)]
    assert offline(seconds) == expected(seconds)


def test_parts_of_a_second_do_not_count(connection, make_table):
    moment = 2**62 - 1
    before = [0, 1, 999_999, 1_000_000, 1_999_999, 2_000_000, 2**62 + 3, 2 * moment]
    events = pa.array([[moment - gap for gap in before], []], pa.list_(pa.int64()))
    table = make_table({"row": [0, 1], "moment": [moment] * 2, "events": events})
    found = table.select("row", seconds=seconds_before(table.events, table.moment))
    rows = connection.to_pyarrow(found.order_by("row"))["seconds"].to_pylist()
    assert rows == [[gap // 1_000_000 for gap in before], []]
