"""libsvm, libfm and libffm files: rows by hand, and as scikit-learn's reader gives them."""

import gzip
import json
import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pydantic import ValidationError
from ruamel.yaml import YAML
from sklearn.datasets import load_svmlight_file

from pipeline import run
from pipeline.checks import validate_file
from pipeline.config import RunConfig
from pipeline.engine import open_engine
from pipeline.errors import ConfigError, InputRejected
from pipeline.init import starter_config
from pipeline.predict import predict
from pipeline.rows import needed_columns
from pipeline.sources.read import read_rows
from pipeline.sources.source import open_source
from pipeline.sources.sparse import Grammar
from tests.conftest import Silent

LIST = {"features": {"kind": "categorical"}}
AB = {"a": {"kind": "categorical"}, "b": {"kind": "categorical"}}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads files: (rows as dictionaries, rejects)."""
    calls = 0

    def read_files(files, features=LIST, label="label", labelled=True, changes=None, **data):
        nonlocal calls
        calls += 1
        document = {"name": "x", "data": {"files": files, **data}, "label": label, "split": "hash"}
        document |= {"features": features, "model": "fm", **(changes or {})}
        config = RunConfig.model_validate(document)
        source = open_source(config.data, needed_columns(config, labelled))
        read_files.source = source
        rejected = tmp_path / f"rejected{calls}"
        with open_engine(config.engine, tmp_path / f"engine{calls}") as connection:
            rows, _ = read_rows(connection, source, config, rejected, labelled)
            table = rows.order_by("_row").to_pyarrow()
        path = rejected / "rejected.jsonl"
        texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return table.to_pylist(), [json.loads(text) for text in texts]

    return read_files


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write_file


def items(rows, name="features"):
    return [dict(zip(row[name], row[f"{name}_weight"], strict=True)) for row in rows]


def labels(rows):
    return [row["_label"] for row in rows]


# --- lists


def test_a_row_is_a_label_and_a_list_of_items_with_values(read, write):
    rows, rejects = read(write("log.svm", "1 3:1 11:0.5\n-1 7:-2\n"))
    assert (labels(rows), items(rows), rejects) == ([1, 0], [{"3": 1, "11": 0.5}, {"7": -2}], [])


def test_comments_empty_lines_tabs_and_line_ends_do_not_matter(read, write):
    plain = "1 1:1 2:1\n0\n1 4:1e-1\n"
    dressed = "# made by hand\r\n\r\n 1\t1:1  2:1 \r\n  \t \r\n0 # nothing\r\n1 4:1e-1#last"
    expected = [{"1": 1, "2": 1}, {}, {"4": np.float32(0.1)}]
    for content in (plain, dressed):
        rows, rejects = read(write("log.svm", content))
        assert (labels(rows), items(rows), rejects) == ([1, 0, 1], expected, [])


def test_bare_indices_have_the_value_1_and_repeated_ones_both_count(read, write):
    rows, _ = read(write("log.svm", "1 5 6:2 5:3 +0\n".replace(" +0", "")))
    assert rows[0]["features"] == ["5", "6", "5"]
    assert rows[0]["features_weight"] == [1, 2, 3]


@pytest.mark.parametrize("ending", ["libsvm", "svm", "libfm", "svm.gz", "libfm.zst", "SVM"])
def test_the_ending_selects_the_format(read, write, ending):
    content = b"1 3:1\n"
    if ending.endswith("gz"):
        content = gzip.compress(content)
    if ending.endswith("zst"):
        content = pa.Codec("zstd").compress(content, asbytes=True)
    assert items(read(write(f"log.{ending}", content))[0]) == [{"3": 1}]
    assert items(read(write("log.dat", content), format="libsvm")[0]) == [{"3": 1}]


@pytest.mark.parametrize("base", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_another_reader(read, write, base, seed):
    generator = random.Random(seed)  # noqa: S311 - test data
    lines = []
    for query in range(200):
        chosen = sorted(generator.sample(range(base, 60), generator.randrange(9)))
        values = [generator.choice([1, 0.5, "1e-3", "+2.50", ".25", "-7.", "3E2"]) for _ in chosen]
        texts = [f"{i}:{value}" for i, value in zip(chosen, values, strict=True)]
        label = generator.choice(["1", "+1", "-1", "1.0", "-1.0"])
        comment = generator.choice(["", "", " # 1:1", "#"])
        lines.append(" ".join([label, f"qid:{query // 7}", *texts]) + comment)
        lines += generator.choice([[], [], [""], ["# a comment"]])
    path = write("log.svm", "\n".join(lines))
    rows, rejects = read(path, index_base=base, changes={"entity": "qid"})
    matrix, truth, queries = load_svmlight_file(path, zero_based=not base, query_id=True)
    assert rejects == []
    assert labels(rows) == [int(y > 0) for y in truth]
    assert [int(row["_entity"]) for row in rows] == queries.tolist()
    found = np.zeros(matrix.shape)
    for row, values in enumerate(items(rows)):
        for index, value in values.items():
            found[row, int(index)] = value
    np.testing.assert_allclose(found, matrix.toarray(), rtol=1e-6)


def test_ids_of_19_digits_are_exact(read, write):
    path = write("log.svm", "1 9999999999999999999:1 9007199254740993:1 007:1\n")
    assert read(path)[0][0]["features"] == ["9999999999999999999", "9007199254740993", "7"]
    assert read(path, index_base=1)[0][0]["features"] == [
        "9999999999999999998", "9007199254740992", "6"]  # fmt: skip


def test_the_base_may_differ_by_file(read, write):
    files = [write("train.svm", "1 1:1 3:1\n"), write("test.svm", "0 0 2\n")]
    rows, _ = read(files, index_base={"train*": 1, "*": 0})
    assert items(rows) == [{"0": 1, "2": 1}, {"0": 1, "2": 1}]
    with pytest.raises(ConfigError, match=r"test\.svm: no pattern of index_base .*: train\*;"):
        read(files, index_base={"train*": 1})
    with pytest.raises(InputRejected, match=r"(?s)test.svm: line 1: '0': .* numbers of 1 or more"):
        read([*files, write("test.svm", "0 0 2\n1 3\n")], index_base=1)


def test_files_without_labels_of_clicks_can_be_scored(read, write):
    rows, _ = read(write("log.svm", "0 3:1\n-1 4:1\n7 5:1\n"), labelled=False)
    assert items(rows) == [{"3": 1}, {"4": 1}, {"5": 1}]


# --- labels


@pytest.mark.parametrize(
    ("written", "expected"),
    [("1 +1 1.0 -1 -1.0", [1, 1, 1, 0, 0]), ("0 1 0.0 1e0 +1.", [0, 1, 0, 1, 1])],
)
def test_labels_are_0_and_1_or_minus_1_and_1(read, write, written, expected):
    rows, _ = read(write("log.svm", "".join(f"{text} 3:1\n" for text in written.split())))
    assert labels(rows) == expected


def test_a_file_that_mixes_minus_1_and_0_is_refused(read, write):
    mixed = write("log.svm", "1 3:1\n-1 3:1\n0 3:1\n-1 3:1\n")
    with pytest.raises(InputRejected, match=r"log\.svm: 2 rows have label -1 and 1 have 0; exp"):
        read(mixed)
    assert labels(read(mixed, label={"column": "label", "positive": "> 0"})[0]) == [1, 0, 0, 0]
    both = [write("1.svm", "1 3:1\n-1 3:1\n"), write("2.svm", "0 3:1\n1 3:1\n")]
    assert labels(read(both)[0]) == [1, 0, 0, 1]


def test_other_labels_need_a_rule(read, write):
    path = write("log.svm", "# ratings\n1 3:1\n5 3:1\n2.5 3:1 # so so\n")
    with pytest.raises(InputRejected, match=r"line 3: column label: expected -1, 0 or 1 .*'5'"):
        read(path)
    _, rejects = read(path, max_bad_rows=2)
    assert [(r["line"], r["text"]) for r in rejects] == [(3, "5"), (4, "2.5")]
    assert labels(read(path, label={"column": "label", "positive": ">= 2.5"})[0]) == [0, 1, 1]


# --- columns by position


def test_fields_by_position_are_columns(read, write):
    path = write("log.libfm", "1 10:1 20:0.5\n-1 11 21:-3\n")
    features = {"a": AB["a"], "b": AB["b"], "b_value": {"kind": "numeric"}}
    rows, _ = read(path, features, fields=["a", "b"], index_base=1)
    assert [(r["a"], r["b"], r["b_value"]) for r in rows] == [("9", "19", 0.5), ("10", "20", -3)]


def test_a_value_that_nothing_reads_is_not_dropped(read, write):
    path = write("log.libfm", "1 10:1 20:1.0\n-1 11:1 21:0.5\n0 1:+1 2:1e0\n")
    message = (
        r"(?s)line 2: '21:0.5': the value of b is not 1 and nothing reads it; give a numeric "
        r"feature b_value"
    )
    with pytest.raises(InputRejected, match=message):
        read(path, AB, fields=["a", "b"])
    rows, _ = read(path, {"a": AB["a"]}, fields=["a", "b"], label={"column": "label",
                   "positive": "> 0"})  # fmt: skip
    assert [row["a"] for row in rows] == ["10", "11", "1"]


def test_rows_with_another_number_of_features_are_malformed(read, write):
    path = write("log.libfm", "1 10:1\n1 10:1 20:1\n0\n1 1:1 2:1 3:1\n0 qid:3 1:1 2:1\n")
    rows, rejects = read(path, AB, fields=["a", "b"], max_bad_rows=3)
    assert [(row["a"], row["b"]) for row in rows] == [("10", "20"), ("1", "2")]
    assert [(r["line"], r["problem"][:16]) for r in rejects] == [
        (1, "1 feature found,"), (3, "0 features found"), (4, "3 features found")]  # fmt: skip


# --- libffm


def test_fields_of_libffm_are_columns_of_lists(read, write):
    path = write("log.ffm", "1 0:7:1 1:8:0.5 1:9:0.25\n0 1:8:1 # no field 0\n")
    features = {"field_0": AB["a"], "field_1": AB["a"]}
    rows, _ = read(path, features)
    assert items(rows, "field_0") == [{"7": 1}, {}]
    assert items(rows, "field_1") == [{"8": 0.5, "9": 0.25}, {"8": 1}]
    rows, _ = read(path, AB, fields=["a", "b"])
    assert items(rows, "b") == [{"8": 0.5, "9": 0.25}, {"8": 1}]


def test_fields_and_indices_of_libffm_count_from_the_base(read, write):
    path = write("log.ffm", "1 1:7:1 12:1:1\n1 11:2:1\n")
    rows, _ = read(path, {"field_0": AB["a"], "field_11": AB["a"]}, index_base=1)
    assert (items(rows, "field_0"), items(rows, "field_11")) == ([{"6": 1}, {}], [{"0": 1}, {}])
    with pytest.raises(InputRejected, match=r"'12:1:1': expected .*, fields 1 to 2, as in"):
        read(path, AB, fields=["a", "b"], index_base=1)
    with pytest.raises(InputRejected, match="has no column 'field_2'"):
        read(path, {"field_2": AB["a"]})


def test_malformed_lines_as_in_case_ing_06(read, write):
    path = write("log.ffm", "1 0:1:1 1:2:0.5\n0 0:1\n1 0:1:abc\nx 0:1:1\n\n")
    features = {"field_0": AB["a"], "field_1": AB["b"]}
    with pytest.raises(InputRejected) as refusal:
        read(path, features)
    assert (
        f"{path}: line 2: '0:1': expected field:index:value, whole numbers of 0 or more and a "
        "finite value, as in '1 2:3:0.5'; the text is '0 0:1'"
    ) in str(refusal.value)
    rows, rejects = read(path, features, max_bad_rows=3)
    assert (items(rows, "field_0"), items(rows, "field_1")) == ([{"1": 1}], [{"2": 0.5}])
    assert [(r["line"], r["text"]) for r in rejects] == [
        (2, "0 0:1"), (3, "1 0:1:abc"), (4, "x 0:1:1")]  # fmt: skip
    assert [r["problem"].split(":")[0] for r in rejects] == ["'0", "'0", "label 'x'"]


# --- what is malformed


@pytest.mark.parametrize(
    "line",
    ["1 3:nan", "1 3:inf", "1 3:-Infinity", "1 3:", "1 :1", "1 a:1", "1 -3:1", "1 3.0:1", "1 3:1:1",
     "1,3:1", "nan 3:1", "3:1 4:1", "inf", "1 qid:x 3:1", "1 3:1 qid:4", "1 3:0x1", "1 3:1_0",
     "1 é", "1 10000000000000000000000:1", "1 3: 1", "1 3:1 :", '1 "3":1', "1 3:1e", "1 3:--1",
     "one 3:1", "1 3:1\x0b4:1"],
)  # fmt: skip
def test_malformed_lines_go_to_quarantine_with_their_number(read, write, line):
    path = write("log.svm", f"# first\n1 3:1\n\n{line}\n0 4:1 # last\n{line}")
    rows, rejects = read(path, max_bad_rows=2)
    assert items(rows) == [{"3": 1}, {"4": 1}]
    assert [(reject["line"], reject["text"]) for reject in rejects] == [(4, line), (6, line)]
    assert all("expected" in reject["problem"] for reject in rejects)
    assert all("as in '1 3:0.5'" in reject["problem"] for reject in rejects)


def test_values_beyond_float32_are_malformed_in_lists(read, write):
    rows, rejects = read(write("log.svm", "1 3:1e39\n1 3:1e-50\n"), max_bad_rows=1)
    assert (items(rows), [reject["line"] for reject in rejects]) == ([{"3": 0}], [1])
    path = write("log.ffm", "1 0:3:1 1:4:-1e39\n1 0:3:3.4028235e38 1:4:0\n")
    both = {f"field_{i}": {"kind": "categorical"} for i in range(2)}
    rows, [reject] = read(path, max_bad_rows=1, features=both)
    largest = np.finfo(np.float32).max
    assert (items(rows, "field_0"), reject["line"]) == ([{"3": largest}], 1)
    reason = "'1:4:-1e39': the value is beyond the largest float32, which is 3.4e38"
    assert reject["problem"] == reason
    message = rf"log\.ffm: line 1: column field_1: {reason}; the text is '1 0:3:1 1:4:-1e39'"
    with pytest.raises(InputRejected, match=message):
        read(path, features=both)


def test_the_engine_and_the_explanation_agree_on_random_lines(read, write):
    generator = random.Random(5)  # noqa: S311 - test data
    pieces = ["1", "-1", "0", " ", " ", "\t", ":", "3", "0.5", "qid:2", "#", "e", "-", "nan", "x"]
    lines = ["1 3:1", *("".join(generator.choices(pieces, k=generator.randint(1, 9)))
                        for _ in range(3000))]  # fmt: skip
    path = write("log.svm", "\n".join(lines))
    known = [line for line in lines if line.split("#")[0].strip(" \t")]
    grammar = Grammar("libsvm", 0)
    good = [line for line in known if grammar.problem(line) is None]
    rule = {"column": "label", "positive": "> 0"}
    rows, rejects = read(path, label=rule, max_bad_rows=3000)
    assert len(rows) == len(good) > 100
    assert [r["text"] for r in rejects] == [line for line in known if grammar.problem(line)]
    assert [r["line"] for r in rejects] == [
        number for number, line in enumerate(lines, start=1)
        if line in known and grammar.problem(line)]  # fmt: skip
    assert all(math.isfinite(w) for row in rows for w in row["features_weight"])


@pytest.mark.parametrize("content", ["a,b,label\nx,1,0\n", '{"label": 1}\n', "1 0:1\n" * 3])
def test_a_file_of_another_format_is_refused_by_its_start(read, write, content):
    path = write("log.dat", content)
    with pytest.raises(InputRejected, match=r"log\.dat: no line is libffm; the first is .*expect"):
        read(path, {"field_0": AB["a"]}, format="libffm")


def test_files_without_rows_are_refused(read, write):
    with pytest.raises(InputRejected, match="is empty"):
        read(write("log.svm", "\n\n"))
    with pytest.raises(InputRejected, match="no rows"):
        read(write("log.svm", "# nothing\n# at all\n"))


# --- config


def test_the_separators_of_lists_are_known_from_the_format(read, write, tmp_path):
    path = write("log.svm", "1 3:1\n0 4:1\n")
    config = tmp_path / "config.yaml"
    text = f"name: x\ndata: {{files: {path}}}\nlabel: label\nsplit: hash\nmodel: lr\n"
    config.write_text(f"{text}features: {{features: {{kind: categorical}}}}\n", encoding="utf-8")
    assert validate_file(config) == ([], [])
    config.write_text(
        f"{text}features: {{x: {{kind: categorical, column: features, separator: '|'}}}}\n",
        encoding="utf-8",
    )
    problems, _ = validate_file(config)
    assert len(problems) == 1
    assert "features.x: items of libsvm and libffm are written index:value" in problems[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"files": "x.svm", "fields": ["a", "a"]}, "a, a_value would be the name of two"),
        ({"files": "x.svm", "fields": ["a", "label"]}, "label would be"),
        ({"files": "x.svm", "fields": ["a", "a_value"]}, "a_value would be"),
        ({"files": "x.svm", "index_base": 2}, "0 or 1"),
        ({"files": "x.csv", "format": "csv", "fields": ["a"]}, "fields is an option of libsvm"),
        ({"files": "x.csv", "format": "csv", "index_base": 1}, "index_base is an option of"),
    ],
)
def test_options_that_do_not_fit_are_refused(data, message):
    document = {"name": "x", "data": data, "label": "label", "features": LIST, "model": "fm"}
    with pytest.raises(ValidationError, match=message):
        RunConfig.model_validate(document)


def test_formats_told_by_the_ending_are_held_to_their_options(read, write):
    path = write("log.csv", "a,label\nx,1\n")
    with pytest.raises(ConfigError, match=r"log\.csv: is read as csv, which has no fields"):
        read(path, AB, index_base=1)
    log = write("log.libfm", "1 10:1 20:1\n")
    with pytest.raises(ConfigError, match="libsvm has no columns to name; fields names"):
        read(log, AB, header=False, columns=["label", "a", "b"])
    side = write("side.svm", "1 10:1\n")
    with pytest.raises(InputRejected, match=r"side\.svm: is libsvm, which has no keys to join by"):
        read(log, AB, fields=["a", "b"], joins=[{"files": side, "on": "a"}])


def test_fields_by_position_join_side_tables(read, write):
    log = write("log.libfm", "1 10:1 20:1\n0 11:1 20:1\n")
    side = write("side.csv", "b,price\n20,3.5\n")
    features = {"a": AB["a"], "price": {"kind": "numeric"}}
    rows, _ = read(log, features, fields=["a", "b"], joins=[{"files": side, "on": "b"}])
    assert [(row["a"], row["price"]) for row in rows] == [("10", 3.5), ("11", 3.5)]
    assert read.source.notes == ()


# --- whole runs


@pytest.mark.parametrize("kind", ["list", "position", "ffm"])
def test_served_scores_of_files_are_the_offline_ones(write, tmp_path, kind):
    generator = random.Random(3)  # noqa: S311 - test data
    item = {"list": "{i}:{v}", "position": "{i}:1", "ffm": "{f}:{i}:{v}"}[kind]
    lines = []
    for _ in range(800):
        chosen = [(f, generator.randrange(10), generator.choice([1, 0.5, 2])) for f in range(2)]
        noisy = sum(v * (i > 4) for _, i, v in chosen) + generator.random() > 1.5
        texts = [item.format(f=f, i=10 * f + i, v=v) for f, i, v in chosen]
        lines.append(" ".join(["1" if noisy else "-1", *texts]))
    ending = "ffm" if kind == "ffm" else "svm"
    parts = {"train": lines[:500], "valid": lines[500:650], "test": lines[650:]}
    files = [write(f"{part}.{ending}", "\n".join(rows)) for part, rows in parts.items()]
    columns = {"list": ["features"], "position": ["a", "b"], "ffm": ["field_0", "field_1"]}[kind]
    document = {
        "name": "x",
        "data": {"files": files, "fields": ["a", "b"] if kind == "position" else None},
        "label": "label",
        "split": {"kind": "files", "train": "train.*", "valid": "valid.*", "test": "test.*"},
        "features": {column: {"kind": "categorical"} for column in columns},
        "model": "lr",
        "train": {"epochs": 3, "batch_size": 50, "learning_rate": 0.05, "xla": False},
        "export": {"parity_rows": 60},
    }
    config = tmp_path / "config.yaml"
    YAML(typ="safe", pure=True).dump(document, config)
    result = run(config, tmp_path / "runs", progress=Silent())
    assert result["parity_max_abs_diff"] <= 1e-6
    assert result["metrics"]["test"]["auc"] > 0.7
    predict(Path(result["export"]), [files[2]], tmp_path / "scores.parquet", Silent())
    served = pd.read_parquet(tmp_path / "scores.parquet")["score"]
    stored = Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet"
    offline = pd.read_parquet(stored).sort_values("row_id")["score"]
    np.testing.assert_allclose(served, offline, atol=1e-6)


def test_starter_configs_of_files(write):
    def starter(name, content):
        return YAML(typ="safe", pure=True).load(starter_config(Path(write(name, content))))

    lists = starter("a.libsvm", "-1 qid:1 1:1 4:0.5\n+1 qid:2 2\n")
    assert lists["data"]["index_base"] == 1
    assert lists["features"] == {"features": {"kind": "categorical", "max_items": 2}}
    assert (lists["label"], lists["evaluate"]) == ({"column": "label"}, {"group": "qid"})
    fields = starter("b.ffm", "1 0:5:1 2:6:1 2:7:1\n0 0:5:1\nbroken\n")
    assert fields["data"]["index_base"] == 0
    assert {name: spec["max_items"] for name, spec in fields["features"].items()} == {
        "field_0": 1, "field_2": 2}  # fmt: skip
    assert starter("c.svm", "5 1:1\n")["label"]["positive"] == ">= 4"
    text = starter_config(Path(write("d.libfm", "1 3:1 9:1\n0 4:1 8:1\n")))
    assert "each row has 2 features" in text
    for config in (lists, fields):
        RunConfig.model_validate(config)
