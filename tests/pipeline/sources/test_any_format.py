# SPDX-License-Identifier: Apache-2.0
"""What holds of files of every format."""

import pyarrow as pa
import pytest

from pipeline.errors import InputRejected
from tests.pipeline.sources.written import INT, NUMBER, TEXT, jsonl


def test_ids_beyond_float_are_equal_in_all_formats(read, write, parquet):
    """ING-03."""
    ids = [4611686018427387905, 4611686018427387906, None]
    column = pa.array(ids, pa.int64())
    documents = [{"uid": uid, "y": y} for uid, y in zip(ids, [0, 1, 0], strict=True)]
    files = [
        parquet("log.parquet", uid=column, y=pa.array([0, 1, 0])),
        write("log.csv", "uid,y\n4611686018427387905,0\n4611686018427387906,1\n,0\n"),
        write("log.jsonl", jsonl(*documents)),
    ]
    for feature, expected in ((TEXT, [str(i) if i else None for i in ids]), (INT, ids)):
        for path in files:
            rows, _ = read(path, {"uid": feature})
            assert [row[0] for row in rows] == expected, path


def test_null_tokens_are_exact_and_numbers_ignore_spaces(read, write):
    """ING-04."""
    path = write("log.csv", "city,value,y\nNULL,1017.1,0\n, NA,1\nnull,1,0\nParis,2,1\n")
    features = {"city": TEXT, "value": NUMBER}
    rows, _ = read(path, features, null_tokens=["", "NULL", "NA"])
    assert [row[0] for row in rows] == [None, None, "null", "Paris"]
    assert [row[1] for row in rows] == pytest.approx([1017.1, None, 1, 2], abs=1e-4)
    padded = write("pad.csv", "city,value,y\n NULL ,1,0\n Paris,1,1\n")
    assert read(padded, features, null_tokens=["NULL"])[0][0][0] == " NULL "
    rows, _ = read(padded, features, null_tokens=["NULL"], trim=True)
    assert [row[0] for row in rows] == [None, "Paris"]


def test_everything_wrong_with_a_source_is_said_at_once(read, write, tmp_path):
    joins = [{"files": str(tmp_path / "none.csv"), "on": "u"}]
    with pytest.raises(InputRejected) as error:
        read([write("1.csv", ""), str(tmp_path / "2.csv")], joins=joins)
    text = str(error.value)
    assert "1.csv: is empty" in text
    assert "2.csv: no such file" in text
    assert "none.csv: no such file" in text
    write("p/1.csv", "")
    write("p/2.csv", b"BZh9")
    with pytest.raises(
        InputRejected, match=r"1\.csv: is empty\n.*2\.csv: is compressed with bzip2"
    ):
        read(str(tmp_path / "p" / "*.csv"))
    with pytest.raises(InputRejected) as error:
        read(write("3.csv", "aa,c,y\nx,1,0\n"))
    assert str(error.value).count("has no column") == 2
