# SPDX-License-Identifier: Apache-2.0
"""Side tables."""

import pytest

from pipeline.errors import InputRejected
from tests.pipeline.sources.written import INT, NUMBER, TEXT, jsonl

EVENTS = "u,i,y\nu1,7,0\nu2,8,1\n,9,0\nu4,007,1\n"
ITEMS = "id,cat,brand\n7,c1,b1\n8,NA,b2\n10,c9,b1\n"


def test_side_tables_of_all_formats_join_by_exact_keys(read, write, parquet):
    brands = parquet(
        "brands.parquet",
        b=["b1", "b2", None, None],
        country=["PL", "DE", "x", "y"],
        rank=[1, 2, 3, 4],
    )
    joins = [
        {"files": write("items.csv", ITEMS), "on": {"i": "id"}, "null_tokens": ["NA"]},
        {"files": brands, "on": {"brand": "b"}},  # brand comes from the items
        {"files": write("users.jsonl", jsonl({"u": "u1", "age": 20}, {"u": "u2"})), "on": "u"},
        {"files": brands, "on": {"brand": "b"}, "prefix": "b_"},
    ]
    features = {
        "cat": TEXT,
        "country": TEXT,
        "age": NUMBER,
        "rank": {**INT, "column": "b_rank"},
    }
    rows, _ = read(write("log.csv", EVENTS), features, joins=joins)
    assert rows == [
        ("c1", "PL", 20.0, 1, 0),
        (None, "DE", None, 2, 1),
        (None, None, None, None, 0),
        (None, None, None, None, 1),
    ]


def test_side_tables_with_two_keys_and_mixed_types(read, write, parquet):
    csv_file = write("a.csv", "a,b,n\nu1,7,5\nu1,8,6\n")
    other = parquet("b.parquet", a=["u2"], b=[8], n=[7])
    joins = [{"files": [csv_file, other], "on": {"u": "a", "i": "b"}}]
    rows, _ = read(write("log.csv", EVENTS), {"n": NUMBER}, joins=joins)
    assert [row[0] for row in rows] == [5.0, 7.0, None, None]


def test_faults_of_side_tables_are_named(read, write):
    log = write("log.csv", EVENTS)

    def refused(message, content, on=None, features=None, name="side.csv", more=()):
        side = {"files": write(name, content), "on": on or {"i": "id"}}
        with pytest.raises(InputRejected, match=message):
            read(log, features or {"cat": TEXT}, joins=[side, *more])

    refused(r"side\.csv: key '7' stands 2 times", "id,cat\n7,a\n7,b\n")
    refused(r"side\.csv: has no column 'idd', the key of a join: did", ITEMS, {"i": "idd"})
    refused(r"log\.csv: has no column 'item', the key", ITEMS, {"item": "id"})
    refused(r"side\.csv: line 3: 1 field found, 2 expected", "id,cat\n7,a\n8\n")
    refused(
        r"line 3: expected a JSON object; the text is '\[8\]'",
        '{"id":7,"cat":1}\n\n[8]\n',
        name="side.jsonl",
    )
    bad_number = "column n: expected a number .n. from the side table .*side.csv"
    refused(bad_number, "id,n\n7,q\n", features={"n": NUMBER})
    again = {"files": write("again.csv", ITEMS), "on": {"i": "id"}}
    refused("adds column 'cat', which an earlier side table adds too", ITEMS, more=[again])
