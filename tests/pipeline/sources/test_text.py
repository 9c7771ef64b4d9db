# SPDX-License-Identifier: Apache-2.0
"""Delimited text: every expected row is written out, or comes from the list that made the file."""

import csv
import gzip
import io

import pyarrow as pa
import pytest

from pipeline.errors import ConfigError, InputRejected
from pipeline.sources import scan
from tests.pipeline.sources.written import NUMBER, TEXT, lines, seeded


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
