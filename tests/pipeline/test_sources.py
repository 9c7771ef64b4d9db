# SPDX-License-Identifier: Apache-2.0
"""Reading files: every expected row is written out, or comes from the list that made the file."""

import contextlib
import csv
import datetime
import gzip
import io
import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import RunConfig
from pipeline.engine import open_engine
from pipeline.errors import ConfigError, InputRejected
from pipeline.rows import needed_columns
from pipeline.sources import scan
from pipeline.sources.read import read_rows
from pipeline.sources.source import open_source

TEXT = {"kind": "categorical"}
INT = {"kind": "categorical", "type": "int"}
NUMBER = {"kind": "numeric"}
ABY = {"a": TEXT, "b": NUMBER}


def seeded(seed):
    return random.Random(seed)  # noqa: S311 - test data


@pytest.fixture
def read(tmp_path):
    """Return a function that reads files and returns (rows as tuples, label last, rejects)."""
    calls = 0

    def read_files(files, features=ABY, label="y", joins=(), **data):
        nonlocal calls
        calls += 1
        config = RunConfig.model_validate(
            {
                "name": "x",
                "data": {"files": files, "joins": joins, **data},
                "label": label,
                "split": "hash",
                "features": features,
                "model": "fm",
            }
        )
        source = open_source(config.data, needed_columns(config))
        read_files.source = source
        rejected = tmp_path / f"rejected{calls}"
        with open_engine(config.engine, tmp_path / f"engine{calls}") as connection:
            rows, count = read_rows(connection, source, config, rejected)
            table = rows.order_by("_row").to_pyarrow()
        columns = [table[name].to_pylist() for name in (*features, "_label")]
        path = rejected / "rejected.jsonl"
        texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rejects = [json.loads(text) for text in texts]
        assert count == sum(1 for _ in rejects) or any("\n" in (r["text"] or "") for r in rejects)
        return list(zip(*columns, strict=True)), rejects

    return read_files


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write_file


@pytest.fixture
def parquet(tmp_path):
    def write_table(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / name)
        return str(tmp_path / name)

    return write_table


def lines(rejects):
    return [reject["line"] for reject in rejects]


# --- delimited text


def test_quotes_hold_separators_line_ends_and_quotes(read, write):
    content = '"a","b","y"\r\n"x, ""y""\r\nz","1",0\r\nplain,2.5,"1"\r\n'
    rows, _ = read(write("log.csv", b"\xef\xbb\xbf" + content.encode()))
    assert rows == [('x, "y"\r\nz', 1.0, 0), ("plain", 2.5, 1)]


def test_quotes_are_text_where_the_config_says_so(read, write):
    rows, _ = read(write("log.tsv", 'a\tb\ty\n5" pipe\t1\t0\n"odd\t2\t1\n'), quoted=False)
    assert rows == [('5" pipe', 1.0, 0), ('"odd', 2.0, 1)]


def test_files_without_header_and_with_columns_in_another_order(read, write):
    first = write("1.csv", "a,b,y\nx,1,0\n")
    second = write("2.csv", "y,unused,b,a\n1,9,2,z\n")
    rows, _ = read([first, second])
    assert rows == [("x", 1.0, 0), ("z", 2.0, 1)]
    rows, _ = read(write("3.tsv", "x\t1\t0\n"), header=False, columns=["a", "b", "y"])
    assert rows == [("x", 1.0, 0)]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_encodings(read, write, encoding):
    content = "a,b,y\nzażółć" if encoding != "latin-1" else "a,b,y\nça"
    rows, _ = read(write("log.csv", f"{content},1,0\n".encode(encoding)), encoding=encoding)
    assert rows == [(content.split("\n")[1], 1.0, 0)]


def test_compression_is_told_by_content_not_by_name(read, write):
    content = b"a,b,y\nx,1,0\n"
    names = {
        "1.csv.gz": gzip.compress(content[:8]) + gzip.compress(content[8:]),
        "2.csv.zst": pa.compress(content, "zstd", asbytes=True),
        "3.csv": gzip.compress(content),
        "4.csv.gz": content,
        "5.CSV.GZ": gzip.compress(content),
    }
    for name, packed in names.items():
        rows, _ = read(write(name, packed))
        assert rows == [("x", 1.0, 0)], name


def test_globs_lists_odd_names_and_hive_like_folders(read, write, tmp_path):
    write("b=9/it's [1] {x}.csv", "a,b,y\nx,1,0\n")
    write("b=9/part-2.csv", "a,b,y\nz,2,1\n")
    rows, _ = read(str(tmp_path / "b=9" / "*.csv"))
    assert rows == [("x", 1.0, 0), ("z", 2.0, 1)]  # b is the column, not the folder
    rows, _ = read(str(tmp_path / "b=9" / "it's [1] {x}.csv"))
    assert rows == [("x", 1.0, 0)]


def test_column_names_with_quotes_and_names_that_readers_use(read, write):
    features = {
        "quoted": {**TEXT, "column": 'say "a"'},
        "spaced": {**NUMBER, "column": "b; c"},
        "name": {**TEXT, "column": "filename"},
        "file": {**TEXT, "column": "_file"},
        "row": {**TEXT, "column": "_row"},
    }
    header = '"say ""a""",b; c,filename,_file,_row,y\n'
    rows, _ = read(write("log.csv", header + "p,1,q,r,s,0\n"), features)
    assert rows == [("p", 1.0, "q", "r", "s", 0)]


def test_empty_lines_and_lines_of_spaces_are_passed_over(read, write):
    rows, rejects = read(write("log.csv", "\n\na,b,y\n\nx,1,0\n   \nz,bad,1\n\n"), max_bad_rows=1)
    assert rows == [("x", 1.0, 0)]
    assert lines(rejects) == [7]


def test_malformed_lines_and_cells_go_to_quarantine_with_their_place(read, write):
    content = 'a,b,y\n"q\nq",1,0\nz,abc,1\n1,2\nx,1,0,9\n"q"q,1,0\nw,1,2\nlast,3,1\n'
    rows, rejects = read(write("log.csv", content), max_bad_rows=5)
    assert rows == [("q\nq", 1.0, 0), ("last", 3.0, 1)]
    assert [(r["line"], r["column"], r["text"]) for r in rejects] == [
        (4, "b", "abc"),
        (5, None, "1,2"),
        (6, None, "x,1,0,9"),
        (7, None, '"q"q,1,0'),
        (8, "y", "2"),
    ]
    assert rejects[0]["problem"] == "expected a number (b)"
    assert rejects[1]["problem"] == "2 fields found, 3 expected with separator ','"
    assert all(r["file"].endswith("log.csv") for r in rejects)


def test_one_more_malformed_row_than_allowed_is_refused_and_the_first_is_shown(read, write):
    path = write("log.csv", "a,b,y\n" + "x,1,0\n" * 5 + "x,1,0,9\nz,abc,1\n")
    message = r"2 malformed rows.*\n.*log\.csv: line 7: 4 fields found, 3 expected.*'x,1,0,9'"
    with pytest.raises(InputRejected, match=message):
        read(path, max_bad_rows=1)


@pytest.mark.parametrize("header", [True, False])
def test_a_wrong_separator_is_reported_once_with_the_start_of_the_line(read, write, header):
    path = write("log.csv", "a\tb\ty\nx\t1\t0\n" if header else "x\t1\t0\nz\t2\t1\n")
    given = {} if header else {"header": False, "columns": ["a", "b", "y"]}
    with pytest.raises(InputRejected, match=r"line 1: 1 field found.* 3 expected.*\\t1|a\\tb") as e:
        read(path, **given)
    assert str(e.value).count("\n") == 0


def test_labels_of_minus_one_and_one_need_a_rule(read, write):
    path = write("log.csv", "a,b,y\nx,1,-1\nz,2,1\n")
    with pytest.raises(InputRejected, match=r"line 2: column y: expected 0 or 1 .*label\.positive"):
        read(path)
    rows, _ = read(path, label={"column": "y", "positive": ">= 1"})
    assert [row[-1] for row in rows] == [0, 1]
    rows, _ = read(path, label={"column": "y", "positive": [-1]})
    assert [row[-1] for row in rows] == [1, 0]


def test_a_quote_that_is_not_closed_loses_no_line_silently(read, write):
    path = write("log.csv", 'a,b,y\nx,1,0\nq,2,"1\nr,3,1\ns,4,0\n')
    with pytest.raises(InputRejected, match=r"3 malformed rows.*\n.*line 3: a quote is not closed"):
        read(path, max_bad_rows=2)
    rows, rejects = read(path, max_bad_rows=3)
    assert rows == [("x", 1.0, 0)]
    assert lines(rejects) == [3]


def test_a_quote_that_hides_too_much_is_refused_whatever_is_allowed(read, write):
    content = 'a,b,y\nx,1,0\n"q,2,1\n' + "r,3,1\n" * 5000 + 'z"z,1,1\nw,1,0\n'
    with pytest.raises(InputRejected, match=r"line 3: .*quote.*hides the lines after it"):
        read(write("log.csv", content), max_bad_rows=10**6)


NOT_READABLE = {
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "is empty"),
    "header.csv": (b"a,b,y\n", "no rows"),
    "zeros.csv": (b"a,b,y\nx\x00,1,0\n", "zero bytes"),
    "utf16.csv": ("a,b,y\nx,1,0\n".encode("utf-16"), "zero bytes; check format and encoding"),
    "latin.csv": ("é,b,y\n".encode("latin-1"), "is not utf-8 text; give its encoding"),
    "cell.csv": ("a,b,y\né,1,0\n".encode("latin-1"), "line 2: not utf-8 text"),
    "twice.csv": (b"a,b,y,a\nx,1,0,2\n", "columns named twice: 'a'"),
    "ends.csv": (b"a,b,y\nx,1,0\r\nz,2,1\n", "lines do not end alike"),
    "cut.csv.gz": (
        gzip.compress(b"a,b,y\n" + seeded(0).randbytes(9999))[:-99],
        "cut",
    ),
    "cut.csv.zst": (pa.compress(b"a,b,y\nx,1,0\n" * 9999, "zstd", asbytes=True)[:-9], "cut"),
    "bz2.csv": (b"BZh91AY", "is compressed with bzip2"),
    "array.json": (b'[{"a": 1}]', "write the objects of the array one a line"),
    "text.jsonl": (b"a,b,y\n", "no line is a JSON object"),
    "empty.parquet": (b"", "cannot be read as Parquet"),
    "text.parquet": (b"a,b,y\n", "cannot be read as Parquet"),
}


@pytest.mark.parametrize("name", NOT_READABLE)
def test_what_cannot_be_read_is_rejected_with_a_reason(read, write, name):
    content, reason = NOT_READABLE[name]
    reason = "cannot be read|not utf-8 text" if reason == "cut" else reason
    with pytest.raises(InputRejected, match=rf"{name}.*({reason})"):
        read(write(name, content))


def test_folders_missing_files_and_unknown_endings_are_refused(read, write, tmp_path):
    with pytest.raises(InputRejected, match="is a folder; name its files"):
        read(str(tmp_path))
    with pytest.raises(InputRejected, match=r"no\.csv: no such file; the working folder is"):
        read(str(tmp_path / "no.csv"))
    with pytest.raises(ConfigError, match="the ending does not say the format"):
        read(write("log.dat", "a,b,y\nx,1,0\n"))


def random_file(generator, rows, line_end):
    """Return the bytes of a CSV file, its good rows and the lines of its malformed ones."""
    pieces, good, bad, line = ["a,b,y" + line_end], [], [], 2
    kinds = {"1,2": 1, "x,1,0,5": 1, '"q"q,1,0': 1, "x,bad,1": 1, "x,1,7": 1, "\udcff,1,0": 1}
    kinds[f'"m{line_end}n",1,0,9'] = 2
    share = generator.choice([0, 0.02, 0.5])
    for _ in range(rows):
        piece = generator.choice(["", "  "]) if generator.random() < 0.03 else None
        if generator.random() < share:
            piece = generator.choice(list(kinds))
            bad.append(line)
        if piece is None:
            text = generator.choice(["x", "é日", "q,q", 'say "hi"', f"1{line_end}2", "", " pad "])
            number, label = generator.choice(["", "1", "-3e2"]), generator.choice("01")
            good.append((text or None, float(number) if number else None, int(label)))
            out = io.StringIO()
            csv.writer(out, lineterminator=line_end).writerow([text, number, label])
            piece = out.getvalue().removesuffix(line_end)
        pieces.append(piece + line_end)
        line += 1 + piece.count(line_end)
    return "".join(pieces).encode("utf-8", "surrogateescape"), good, bad


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_rejects_together_are_the_file(read, write, monkeypatch, seed):
    """Files of random rows and faults, read in tiny buffers, so that many of these have ends."""
    generator = seeded(seed)
    line_end = generator.choice(["\n", "\r\n"])
    if line_end == "\n":  # a blank \r\n line at a buffer's very end would change the next cell
        read_csv = scan._read_csv
        small = {"max_line_size": "3000", "buffer_size": "7000"}
        monkeypatch.setattr(scan, "_read_csv", lambda *a, **o: read_csv(*a, **o | small))
    files, rows, rejected = [], [], []
    for i in range(generator.choice([1, 3])):
        content, good, bad = random_file(generator, generator.choice([5, 900]), line_end)
        files.append(write(f"{i}.csv.gz", gzip.compress(content)) if i else write("0.csv", content))
        rows += good
        rejected += [(files[-1], line) for line in bad]
    found, rejects = read(files, max_bad_rows=10**5)
    assert found == rows
    assert [(reject["file"], reject["line"]) for reject in rejects] == rejected


@pytest.mark.parametrize("good", [0, 1000])
def test_malformed_lines_after_the_last_good_one_are_not_forgotten(read, write, monkeypatch, good):
    read_csv = scan._read_csv
    small = {"max_line_size": "3000", "buffer_size": "7000"}
    monkeypatch.setattr(scan, "_read_csv", lambda *a, **o: read_csv(*a, **o | small))
    rows = ["a,b,y", "first,1,1", *[f"x{i},1,0" for i in range(good)], *["1,2"] * 5000]
    found, rejects = read(write("log.csv", "\n".join(rows)), max_bad_rows=5000)
    assert len(found) == good + 1
    assert lines(rejects) == list(range(good + 3, good + 5003))


def test_more_malformed_lines_than_can_be_listed_are_refused_at_once(read, write, monkeypatch):
    monkeypatch.setattr(scan, "_FEWEST_KEPT_REJECTS", 50)
    with pytest.raises(InputRejected, match=r"line 3: 1 field found.* and more\. Check format"):
        read(write("log.csv", "a,b,y\nx,1,0\n" + "1\n" * 100))


# --- JSON lines


def jsonl(*documents):
    return "".join((d if isinstance(d, str) else json.dumps(d)) + "\n" for d in documents)


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


# --- Parquet


def test_parquet_types_as_text_and_as_numbers(read, parquet):
    moment = datetime.datetime(2026, 1, 31, 5, tzinfo=datetime.UTC)
    cases = [
        (pa.int64(), [4611686018427387905, None], TEXT, ["4611686018427387905", None]),
        (pa.uint64(), [18446744073709551615, 0], TEXT, ["18446744073709551615", "0"]),
        (pa.uint64(), [2**63 - 1, 0], INT, [2**63 - 1, 0]),
        (pa.float32(), [7.0, None], TEXT, ["7", None]),
        (pa.float64(), [2.5, None], NUMBER, [2.5, None]),
        (pa.float64(), [2.5, float("nan")], NUMBER, [2.5, None]),
        (pa.float32(), [7.0, float("nan")], TEXT, ["7", None]),
        (pa.bool_(), [True, None], TEXT, ["true", None]),
        (pa.bool_(), [True, False], NUMBER, [1.0, 0.0]),
        (pa.decimal128(10, 2), [Decimal("1.50"), None], NUMBER, [1.5, None]),
        (pa.large_string(), ["x", None], TEXT, ["x", None]),
        (pa.binary(), [b"x", None], TEXT, ["x", None]),
        (pa.dictionary(pa.int32(), pa.string()), ["x", "x"], TEXT, ["x", "x"]),
        (pa.null(), [None, None], NUMBER, [None, None]),
        (pa.list_(pa.int64()), [[1, 2], None], {**TEXT, "separator": "|"}, [["1", "2"], []]),
        (pa.timestamp("ns", "America/New_York"), [moment, None],
         {"kind": "datetime", "part": "hour", "unit": "s"}, [int(moment.timestamp()), None]),
    ]  # fmt: skip
    for dtype, values, feature, expected in cases:
        path = parquet("log.parquet", a=pa.array(values, dtype), y=pa.array([0, 1]))
        rows, _ = read(path, {"a": feature})
        assert [row[0] for row in rows] == expected, f"{dtype} as {feature}"


def test_parquet_types_that_cannot_be_read_are_refused_by_the_header(read, parquet):
    moment = datetime.datetime(2026, 1, 31)
    cases = [
        (pa.array(["x"]), INT, "of type string is text, the config says int"),
        (pa.array([[1]]), TEXT, "is a list; give the feature a separator"),
        (pa.array([{"p": 1}]), TEXT, "holds several values"),
        (pa.array([moment]), NUMBER, "is a moment; expected numbers"),
        (pa.array([True]), {"kind": "datetime", "part": "hour"}, "is no moment"),
    ]
    for values, feature, message in cases:
        path = parquet("log.parquet", a=values, y=pa.array([0]))
        with pytest.raises(InputRejected, match=f"log.parquet: column 'a' .*{message}"):
            read(path, {"a": feature})


def test_malformed_parquet_cells_are_shown_with_their_row(read, tmp_path):
    table = pa.table({"a": ["x"] * 10, "b": [*map(str, range(9)), "oops"], "y": [0, 1] * 5})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=4)
    with pytest.raises(InputRejected, match=r"column b: row 9: expected a number.*'oops'"):
        read(str(tmp_path / "log.parquet"))


def test_damaged_parquet_is_rejected_not_a_crash(read, write, parquet):
    path = parquet("good.parquet", a=[f"v{i % 50}" for i in range(5000)], y=[0, 1] * 2500)
    content = Path(path).read_bytes()
    generator = seeded(1)
    for cut in range(8):
        damaged = bytearray(content)
        start = generator.randrange(len(damaged) - 200)
        damaged[start : start + 100] = generator.randbytes(100)
        # damage may also go unnoticed: pages carry no checksums
        with contextlib.suppress(InputRejected):
            read(write(f"{cut}.parquet", bytes(damaged)), {"a": TEXT})


def test_daily_parquet_files_that_disagree(read, parquet):
    """ING-07."""
    day1 = parquet("day1.parquet", item=pa.array([7, 8], pa.int32()), price=[1.0, 2.0], y=[0, 1])
    day2 = parquet("day2.parquet", item=pa.array([7, 2**40]), y=[0, 1], tmp=[1, 1])
    day3 = parquet("day3.parquet", item=["7", "z"], price=[1.0, 2.0], y=[0, 1])
    optional = {**NUMBER, "required": False}
    rows, _ = read([day1, day2], {"item": INT, "price": optional})
    assert rows == [(7, 1.0, 0), (8, 2.0, 1), (7, None, 0), (2**40, None, 1)]
    assert len(read.source.warnings) == 1
    assert "day2.parquet: has no column 'price'" in read.source.warnings[0]
    assert read.source.notes == ("columns that nothing reads: tmp",)
    swapped, _ = read([day2, day1], {"item": INT, "price": optional})
    assert sorted(swapped, key=str) == sorted(rows, key=str)
    with pytest.raises(InputRejected, match=r"day2\.parquet: has no column 'price'"):
        read([day1, day2], {"item": INT, "price": NUMBER})
    with pytest.raises(InputRejected, match=r"day3\.parquet: column 'item' .*declare type: text"):
        read([day1, day2, day3], {"item": INT, "price": optional})
    rows, _ = read([day1, day2, day3], {"item": TEXT, "price": optional})
    assert [row[0] for row in rows] == ["7", "8", "7", "1099511627776", "7", "z"]


def test_columns_that_differ_in_case_only_are_refused(read, tmp_path):
    table = pa.table([[1], [2], [0]], names=["ID", "id", "y"])
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputRejected, match="'id' but for upper and lower case"):
        read(str(tmp_path / "log.parquet"), {"id": TEXT})
    pq.write_table(pa.table([[1], [2], [0]], names=["a", "a", "y"]), tmp_path / "log.parquet")
    with pytest.raises(InputRejected, match="columns named twice: 'a'"):
        read(str(tmp_path / "log.parquet"), {"a": TEXT})


# --- the same content in every format


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


# --- side tables

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
