# SPDX-License-Identifier: Apache-2.0
"""Vocabularies by hand and against collections.Counter."""

import hashlib
import os
import subprocess
import sys
from collections import Counter

import ibis
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from features.encode import count_values
from features.vocabulary import Vocabulary


def counted(rows):
    """Columns `value` and `count` of values, in a random order."""
    counts = list(Counter(rows).items())
    order = np.random.default_rng(len(rows)).permutation(len(counts))
    values, numbers = [counts[i][0] for i in order], [counts[i][1] for i in order]
    return pa.table(
        {"value": pa.array(values, pa.string()), "count": pa.array(numbers, pa.int64())}
    )


def ids_of(vocabulary):
    table = vocabulary.ids()
    assert table.schema == pa.schema({"value": pa.string(), "id": pa.int32()})
    return dict(zip(table["value"].to_pylist(), table["id"].to_pylist(), strict=True))


def test_unknown_is_no_known_value():
    # FEA-04: padding 0, missing 1, unknown 2; a, b, c follow
    vocabulary = Vocabulary.fit(counted("abc"))
    assert ids_of(vocabulary) == {"a": 3, "b": 4, "c": 5}
    assert vocabulary.rows == 6
    several = Vocabulary.fit(counted("abc"), num_oov=4)
    assert ids_of(several) == {"a": 6, "b": 7, "c": 8}
    assert several.rows == 9


def test_rare_values_are_unknown_and_counted():
    # FEA-06: nulls are not among the counts
    rows = ["Coby"] * 5 + ["Cooler"] * 2 + ["Asus"] * 3
    vocabulary = Vocabulary.fit(counted(rows), min_count=3)
    assert vocabulary.values.to_pylist() == ["Coby", "Asus"]
    assert vocabulary.counts.to_pylist() == [5, 3]
    assert (vocabulary.rare_values, vocabulary.rare_rows) == (1, 2)


def test_max_size_keeps_the_most_frequent_and_of_ties_the_first():
    vocabulary = Vocabulary.fit(counted("zzz" + "yy" + "xx" + "w"), max_size=2)
    assert vocabulary.values.to_pylist() == ["z", "x"]
    assert (vocabulary.rare_values, vocabulary.rare_rows) == (2, 3)
    both = Vocabulary.fit(counted("zzz" + "yy" + "w"), min_count=2, max_size=5)
    assert both.values.to_pylist() == ["z", "y"]


def test_ties_are_ordered_by_bytes():
    values = ["b", "B", "a", "é", "😀", "\uffff", "10", "9", " ", "a\x00", "aa"]
    ordered = sorted(values, key=str.encode)
    assert Vocabulary.fit(counted(values)).values.to_pylist() == ordered


def test_an_empty_vocabulary_knows_nothing(tmp_path):
    vocabulary = Vocabulary.fit(counted([]), num_oov=2)
    assert (len(vocabulary.values), vocabulary.rows, vocabulary.rare_rows) == (0, 4, 0)
    assert ids_of(vocabulary) == {}
    vocabulary.save(tmp_path / "empty.parquet")
    assert Vocabulary.load(tmp_path / "empty.parquet") == vocabulary
    assert Vocabulary.fit(counted("aab"), min_count=3).rare_rows == 3


@given(
    st.lists(st.text(max_size=3).filter(bool), max_size=60),
    st.integers(1, 4),
    st.none() | st.integers(1, 5),
    st.integers(1, 3),
)
@settings(deadline=None)
def test_ids_agree_with_a_counter(rows, min_count, max_size, num_oov):
    vocabulary = Vocabulary.fit(counted(rows), min_count, max_size, num_oov)
    ranked = sorted(Counter(rows).items(), key=lambda item: (-item[1], item[0].encode()))
    kept = [(value, n) for value, n in ranked if n >= min_count][:max_size]
    assert (
        list(zip(vocabulary.values.to_pylist(), vocabulary.counts.to_pylist(), strict=True)) == kept
    )
    assert ids_of(vocabulary) == {value: 2 + num_oov + i for i, (value, _) in enumerate(kept)}
    assert vocabulary.rare_values == len(ranked) - len(kept)
    assert vocabulary.rare_rows == len(rows) - sum(n for _, n in kept)


def test_growth_never_moves_an_id():
    # FEA-09: c is the most frequent value of day 2, and still the newest
    day1 = Vocabulary.fit(counted("a" * 10 + "b" * 5))
    day2 = day1.grow(counted("c" * 100 + "a" + "d"), min_count=2)
    assert ids_of(day1) == {"a": 3, "b": 4}
    assert ids_of(day2) == {"a": 3, "b": 4, "c": 5}
    assert day2.counts.to_pylist() == [10, 5, 100]
    assert (day2.rare_values, day2.rare_rows) == (1, 1)
    assert ids_of(day2.grow(counted([]))) == ids_of(day2)
    assert ids_of(Vocabulary.fit(counted([])).grow(counted("x"))) == {"x": 3}


@given(st.lists(st.lists(st.sampled_from("abcdefgh")), min_size=1, max_size=4), st.integers(1, 3))
def test_growth_appends_whatever_comes(days, num_oov):
    vocabulary = Vocabulary.fit(counted(days[0]), num_oov=num_oov)
    for day in days[1:]:
        before, vocabulary = vocabulary, vocabulary.grow(counted(day))
        known = before.values.to_pylist()
        assert vocabulary.values.to_pylist()[: len(known)] == known
        assert set(vocabulary.values.to_pylist()) == set(known) | set(day)
        assert vocabulary.num_oov == num_oov


def test_save_and_load_keep_everything(tmp_path):
    values = ["a\nb", "c\\d", "\r", "é", "x" * 1000]
    vocabulary = Vocabulary.fit(counted([*values, *values, "rare"]), min_count=2, num_oov=3)
    vocabulary.save(tmp_path / "v.parquet")
    loaded = Vocabulary.load(tmp_path / "v.parquet")
    assert loaded == vocabulary
    assert (loaded.num_oov, loaded.rare_values, loaded.rare_rows) == (3, 1, 1)


def fit_from_rows(threads, values):
    """Fit on rows in one order with some threads, as the feature space does."""
    connection = ibis.duckdb.connect(threads=threads)
    try:
        table = connection.create_table("rows", pa.table({"c": values}))
        return Vocabulary.fit(count_values(table.c).to_pyarrow())
    finally:
        connection.disconnect()


@pytest.mark.parametrize("threads", [1, 4])
def test_files_do_not_depend_on_row_order_or_threads(tmp_path, threads):
    # FEA-07: {s1, s2, s2} and {s2, s3, s1} give s2, s1, s3
    rows = ["s1", "s2", "s2", "s2", "s3", "s1"] * 30_000 + [f"v{i}" for i in range(20_000)]
    expected = Vocabulary.fit(counted(rows))
    expected.save(tmp_path / "expected.parquet")
    assert expected.values.to_pylist()[:3] == ["s2", "s1", "s3"]
    for seed in (0, 1):
        shuffled = np.random.default_rng(seed).permutation(rows)
        fit_from_rows(threads, shuffled).save(tmp_path / "found.parquet")
        found = (tmp_path / "found.parquet").read_bytes()
        assert found == (tmp_path / "expected.parquet").read_bytes()


def test_files_do_not_depend_on_the_hash_seed(tmp_path):
    script = (
        "import sys; from collections import Counter; import pyarrow as pa;"
        "from features.vocabulary import Vocabulary;"
        "counts = Counter({f's{i % 7}' for i in range(99)});"
        "t = pa.table({'value': list(counts), 'count': list(counts.values())});"
        "Vocabulary.fit(t).save(sys.argv[1])"
    )
    digests = set()
    for seed in "01":
        path = tmp_path / f"{seed}.parquet"
        environment = os.environ | {"PYTHONHASHSEED": seed}
        subprocess.run([sys.executable, "-c", script, str(path)], env=environment, check=True)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_values_of_any_type_are_counted_as_texts(connection, make_table):
    table = make_table({
        "number": pa.array([42, None, 42, 2**63 - 1]),
        "bag": pa.array([["a", "b"], [], None, ["a", None, "a"]]),
    })  # fmt: skip
    found = {
        column: connection.to_pyarrow(count_values(table[column])).to_pylist()
        for column in ("number", "bag")
    }
    as_dict = {c: {row["value"]: row["count"] for row in rows} for c, rows in found.items()}
    assert as_dict == {"number": {"42": 2, "9223372036854775807": 1}, "bag": {"a": 3, "b": 1}}
