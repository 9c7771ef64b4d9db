# SPDX-License-Identifier: Apache-2.0
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from pipeline.checks import validate_file
from pipeline.errors import ConfigError, InputRejected
from pipeline.init import known_format, starter_config
from pipeline.synth import SynthConfig, write


@pytest.fixture
def start(tmp_path):
    """Return a function from a file's name and content to its starter config and its problems."""

    def starter(name, content=None):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        text = starter_config(path)
        config = tmp_path / "starter.yaml"
        config.write_text(text, encoding="utf-8")
        problems, _ = validate_file(config)
        return YAML(typ="safe", pure=True).load(text), problems, text

    return starter


@pytest.mark.parametrize("file_format", ["csv", "csv.gz", "jsonl", "parquet"])
def test_the_starter_of_a_log_runs_as_it_is(start, tmp_path, file_format):
    write(SynthConfig(impressions=2000, users=50), tmp_path, file_format)
    config, problems, text = start(f"events.{file_format}")
    assert problems == []
    assert config["label"] == {"column": "click"}
    assert config["time"] == {"column": "time", "unit": "s"}
    assert config["entity"] == "user_id"
    assert config["keys"] == ["impression_id"]
    assert config["split"]["kind"] == "time"
    assert config["model"] == {"kind": "din"}
    kinds = {name: spec["kind"] for name, spec in config["features"].items()}
    assert kinds == {
        "user_id": "categorical",
        "item_id": "categorical",
        "category": "categorical",
        "price": "numeric",
        "device": "categorical",
        "city": "categorical",
        "position": "categorical",
        "hour": "datetime",
        "weekday": "datetime",
        "history": "history",
    }
    assert config["features"]["user_id"]["min_count"] == 2
    assert config["features"]["history"] == {"kind": "history", "of": ["item_id"]}
    guesses = [line for line in text.splitlines() if ": {" in line or line.startswith("entity")]
    assert all("  # " in line for line in guesses if "datetime" not in line)


def test_guesses_about_labels(start):
    config, problems, text = start("r.csv", "user,rating\nu,4\nv,2.5\n")
    assert config["label"] == {"column": "rating", "positive": ">= 4"}
    assert "# holds 2.5, 4: say which are positive" in text
    config, *_ = start("l.csv", "user,label\nu,yes\nv,no\n")
    assert config["label"] == {"column": "label", "positive": ["CHANGE_ME"]}
    config, problems, _ = start("t.csv", "user,click\nu,true\nv,False\n")
    assert (config["label"], problems) == ({"column": "click"}, [])
    config, problems, _ = start("n.csv", "user,page\nu,1\n")
    assert config["label"] == {"column": "CHANGE_ME"}
    assert len(problems) == 1
    assert "has no column 'CHANGE_ME'" in problems[0]


def test_a_label_and_a_time_are_told_by_what_they_hold(start):
    header = "bought,seen,order_id,born,shop\n"
    rows = "0,1767571200,1767571200,1990-01-31,a\n1,1767571260,1767571201,1991-01-31,b\n"
    config, problems, text = start("log.csv", header + rows)
    assert problems == []
    assert config["label"] == {"column": "bought"}
    assert config["time"] == {"column": "seen", "unit": "s"}
    assert list(config["features"]) == ["order_id", "born", "shop", "hour", "weekday"]
    assert "# the only column of 0 and 1" in text
    assert "# the only column with moments of this century, such as 1767571200" in text


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz", "log.parquet", "log.libsvm"])
@pytest.mark.parametrize(("rows", "size"), [(50, 64), (20_000, 128), (100_000, 512)])
def test_batches_of_a_small_log_leave_an_epoch_enough_steps(start, tmp_path, name, rows, size):
    path = tmp_path / name
    if name.endswith("parquet"):
        pq.write_table(
            pa.table({"item": [*map(str, range(rows))], "click": [0, 1] * (rows // 2)}), path
        )
    elif name.endswith("libsvm"):
        path.write_text("".join(f"{i % 2} {1000 + i % 9000}:1 9999:1\n" for i in range(rows)))
    else:
        text = "".join(f"{i:012},{i % 2}\n" for i in range(rows)).encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    config, _, text = start(name)
    # the rows of a compressed file are not known beyond its first MiB, 70,000 of these
    known = not (name.endswith("gz") and rows == 100_000)
    assert config.get("train") == ({"batch_size": size} if known else None)
    if known:
        steps = {50: "1 step an epoch", 20_000: "4 steps an epoch", 100_000: "20 steps an epoch"}
        assert f"  # about {rows:,} rows: 4,096 would be {steps[rows]}\n" in text


def test_a_log_of_many_rows_keeps_the_default_batch(start):
    config, *_ = start("log.libsvm", "1 1:1\n0 2:1\n" * 300_000)
    assert "train" not in config


def test_several_columns_that_could_be_the_label_or_the_time_are_named(start):
    rows = "0,1,2026-01-31 05:00,1767571200123\n1,0,2026-01-31T06:00:00Z,1767571200124\n"
    config, problems, text = start("log.csv", "a,b,c,d\n" + rows)
    assert config["label"] == {"column": "CHANGE_ME"}
    assert "no column is called like a label; of 0 and 1 there are a, b: name yours" in text
    assert "with moments of this century there are c, d: add it if there is one" in text
    assert "time" not in config
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("1767571200", {"unit": "s"}),
        ("1767571200123", {"unit": "ms"}),
        ("14102100", {"format": "%y%m%d%H"}),
        ("20260131", {"format": "%Y%m%d"}),
        ("20120105", {"format": "CHANGE_ME"}),  # a day of 2012, or an hour of 2020
        ("2026-01-31 05:00:00", {}),
        ("2026-01-31", {}),
        ("31.1.2026", {"format": "CHANGE_ME"}),
    ],
)
def test_guesses_about_times(start, value, time):
    config, problems, text = start("log.csv", f"ts,item,click\n{value},i,0\n{value},j,1\n")
    known = "CHANGE_ME" not in time.values()
    assert config["time"] == {"column": "ts"} | time
    assert f"# holds {value}" in text
    assert ("hour" in config["features"]) == known
    assert (problems == []) == known


def test_guesses_about_columns(start):
    rows = "\n".join(f"{i},{i * 37 % 50},{i}.5,a|b,,x{i},0" for i in range(60))
    header = "user,code,weight,tags,nothing,category,click\n"
    config, problems, text = start("log.csv", header + rows.replace(",0", ",1", 1) + "\n")
    assert problems == []
    assert config["features"]["user"]["kind"] == "categorical"
    assert config["features"]["code"] == {"kind": "categorical", "min_count": 2}
    assert "a quantity? then kind: numeric" in text
    assert config["features"]["weight_value"] == {"kind": "numeric", "column": "weight"}
    assert config["features"]["tags"] == {"kind": "categorical", "separator": "|"}
    assert "# nothing: left out, it is empty" in text


def test_names_that_yaml_or_the_served_model_would_not_take(start):
    header = '"a: b",null,yes,1x,"q""uo",café,label,group,,click\n'
    config, problems, text = start("odd.csv", header + "1,2,3,4,5,6,7,8,9,0\n1,2,3,4,5,6,7,8,9,1\n")
    assert problems == []
    assert "  null: {kind: categorical}" in text  # a name for clickloom, which reads keys as texts
    columns = {name: spec.get("column", name) for name, spec in config["features"].items()}
    assert {name: column for name, column in columns.items() if name} == {
        "a__b": "a: b",
        "yes": "yes",
        "f_1x": "1x",
        "q_uo": 'q"uo',
        "cafe": "café",
        "label_value": "label",
        "group_value": "group",
    }


def test_no_two_features_have_one_name(start):
    header = "ts,user,item_id,価格,商品,a-b,a b,a_b,hour,weekday,history,click\n"
    row = "1767571200,u,i,1.5,x,1,2,3,4,5,6,"
    config, problems, _ = start("odd.csv", header + f"{row}0\n{row}1\n")
    assert problems == []
    columns = {name: spec.get("column", name) for name, spec in config["features"].items()}
    assert columns == {
        "user": "user",
        "item_id": "item_id",
        "column_3": "価格",
        "column_4": "商品",
        "a_b_2": "a-b",
        "a_b_3": "a b",
        "a_b": "a_b",
        "hour_2": "hour",
        "weekday_2": "weekday",
        "history": "history",
        "hour": "ts",
        "weekday": "ts",
        "history_2": "history_2",
    }


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("tags,tags_length", ["tags_2", "tags_length"]),
        ("Tags_Weight,tags", ["Tags_Weight", "tags_2"]),
        ("tags,tags_2_weight,tags_length", ["tags_3", "tags_2_weight", "tags_length"]),
        ("tags,length", ["tags", "length"]),
    ],
)
def test_no_feature_has_the_name_of_a_column_that_a_list_makes(start, header, names):
    row = ",".join("a|b" if column == "tags" else "1" for column in header.split(","))
    config, problems, _ = start("log.csv", f"{header},click\n{row},0\n{row},1\n")
    assert problems == []
    assert list(config["features"]) == names


@pytest.mark.parametrize("other", ["history", "history_length", "History_Item_Id"])
def test_a_history_makes_no_column_that_a_feature_has(start, other):
    header, row = f"ts,user,item_id,{other},click\n", "1767571200,u,i,1,"
    config, problems, _ = start("log.csv", f"{header}{row}0\n{row}1\n")
    assert problems == []
    assert config["features"]["history_2"] == {"kind": "history", "of": ["item_id"]}
    assert other in config["features"]


@pytest.mark.parametrize(
    ("text", "beside"),
    [
        ("click\n0\n1\n", "click"),
        ("click,id\n0,1\n1,2\n", "click, id"),
        ("click,nothing\n0,\n1,\n", "click"),
    ],
)
def test_a_file_without_a_column_for_a_feature_is_refused(start, text, beside):
    message = rf"log\.csv: has no column to make a feature of: beside {beside} there"
    with pytest.raises(InputRejected, match=message):
        start("log.csv", text)


def test_a_key_that_predictions_have_by_themselves_is_left_out(start):
    config, problems, text = start("log.csv", "row_id,id,item,click\n1,a,i,0\n2,b,j,1\n")
    assert problems == []
    assert config["keys"] == ["id"]
    assert list(config["features"]) == ["item"]
    assert "# carried to predictions; not row_id, as they have one so called" in text


def test_names_that_differ_by_case_alone_are_alike(start):
    config, problems, _ = start("log.csv", "a-b,A_b,click\n1,2,0\n3,4,1\n")
    assert problems == []
    assert list(config["features"]) == ["a_b_2", "A_b"]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_differ_by_case_alone_are_refused(start, tmp_path, ending):
    if ending == "parquet":
        pq.write_table(pa.table({"Item": ["i"], "item": ["j"]}), tmp_path / "log.parquet")
    else:
        (tmp_path / "log.csv").write_text("Item,item\ni,j\n")
    with pytest.raises(InputRejected, match=r"'Item' and 'item' differ only .* rename one"):
        start(f"log.{ending}")


@pytest.mark.parametrize(("stem", "name"), [("-log", "log"), ("true", "true"), ("2026", "2026")])
def test_the_name_of_a_file_becomes_one_that_a_run_may_have(start, stem, name):
    config, problems, _ = start(f"{stem}.csv", "item,click\ni,0\nj,1\n")
    assert (config["name"], problems) == (name, [])


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ("item_price,item_id", "1.5,i"),  # a number is no id
        ("item_tags,item_id", "a|b,i"),  # nor are several
    ],
)
def test_a_history_is_of_the_first_column_with_one_id_of_an_item(start, columns, row):
    header = f"user_id,{columns},ts,click\n"
    config, problems, _ = start("log.csv", f"{header}u,{row},1767571200,0\nu,{row},1767571260,1\n")
    assert problems == []
    assert config["features"]["history"]["of"] == ["item_id"]


def test_values_of_several_lines_do_not_end_the_comments_that_show_them(start):
    rows = '"a|b\nc","yes\n😀"\n"d|e\x01\nf",no\n'
    config, _, text = start("log.csv", f"tags,label\n{rows}")
    assert list(config["features"]) == ["tags"]
    assert "# e.g. a|b c\n" in text
    assert "# holds no, yes 😀: say which are positive" in text


def test_files_without_a_header(start):
    config, problems, text = start("log.tsv.gz", gzip.compress(b"0\t1\tab\n1\t\tcd\n"))
    assert config["data"]["header"] is False
    assert config["data"]["columns"] == ["c1", "c2", "c3"]
    assert "the first line has numbers in it" in text
    assert all("CHANGE_ME" in problem for problem in problems)


@pytest.mark.parametrize(
    ("encoding", "separator"),
    [("utf-8", ";"), ("utf-8-sig", "\t"), ("latin-1", ";"), ("latin-1", ","), ("utf-16", "|")],
)
@pytest.mark.parametrize("header", [True, False])
def test_separators_and_encodings_are_told(start, encoding, separator, header):
    rows = [["hôtel", "preis", "click"]] * header + [["größer", "1.5", "0"], ["x", "2.5", "1"]]
    text = "".join(separator.join(row) + "\n" for row in rows)
    config, problems, _ = start("log.csv", text.encode(encoding))
    assert config["data"].get("separator", ",") == separator
    assert config["data"].get("encoding", "utf-8") == encoding.removesuffix("-sig")
    assert config["data"].get("header", True) == header
    assert list(config["features"]) == (["hotel", "preis"] if header else ["c1", "c2"])
    assert problems == []


def test_a_glob_means_all_its_files(start, tmp_path):
    for day in range(4):
        text = "item,click\n" + "i,0\nj,1\n" * 5_000
        (tmp_path / f"day-{day}.csv").write_text(text)
    config, problems, text = start("*.csv")
    assert problems == []
    assert config["name"] == "log"
    assert config["data"]["files"] == f"{tmp_path}/*.csv"
    assert "# 10,000 rows of day-0.csv." in text
    assert "# about 40,004 rows: 4,096 would be 8 steps an epoch" in text


def test_a_declared_format_is_written_down(tmp_path):
    path = tmp_path / "clicks.txt"
    path.write_text("item,click\ni,0\nj,1\n")
    with pytest.raises(ConfigError, match="the ending does not say the format"):
        starter_config(path)
    text = starter_config(path, known_format("csv"))
    assert YAML(typ="safe", pure=True).load(text)["data"] == {"files": str(path), "format": "csv"}
    (tmp_path / "starter.yaml").write_text(text)
    assert validate_file(tmp_path / "starter.yaml")[0] == []
    with pytest.raises(ConfigError, match="--format text: expected one of csv, tsv, jsonl"):
        known_format("text")


def test_a_letter_that_the_end_of_the_sample_cuts_is_utf_8(start):
    config, *_ = start("log.csv", "item,click\n" + "äöü,0\nüöä,1\n" * 90_000)
    assert "encoding" not in config["data"]


def test_a_single_column_stays_one(start):
    config, *_ = start("log.csv", "item\nx\ny\n")
    assert "separator" not in config["data"]


def test_lists_and_objects(start, tmp_path):
    documents = [{"user": "u", "tags": ["a", "b"], "at": {"lat": 1.5}, "click": True}] * 2
    config, problems, _ = start("log.jsonl", "\n".join(map(json.dumps, documents)) + "\n")
    assert problems == []
    assert config["features"]["tags"] == {"kind": "categorical", "separator": "|"}
    assert config["features"]["at_lat"] == {"kind": "numeric", "column": "at.lat"}
    table = pa.table({"tags": [["a"], []], "at": [{"lat": 1}, None], "click": [1, 0]})
    pq.write_table(table, tmp_path / "log.parquet")
    config, problems, text = start("log.parquet")
    assert problems == []
    assert list(config["features"]) == ["tags"]
    assert "# at: left out" in text


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.libsvm", "1 3:1 7:1\n0 3:1\n", "lr"),  # one list, whose items form no pairs
        ("a.libffm", "1 1:3:1 2:7:1\n0 1:3:1\n", "fm"),
        ("a.libffm", "1 1:3:1 1:7:1\n0 1:3:1\n", "lr"),
        ("a.csv", "item,nothing,click\ni,,1\nj,,0\n", "lr"),
        ("a.csv", "item,shop,click\ni,s,1\nj,t,0\n", "fm"),
        ("a.csv", "item,ts,click\ni,1767571200,1\nj,1767571201,0\n", "fm"),  # hour and weekday
    ],
)
def test_a_single_field_is_no_case_for_pairs(start, name, content, kind):
    config, problems, _ = start(name, content)
    assert (config["model"], problems) == ({"kind": kind}, [])


def test_files_without_rows_are_refused(start):
    with pytest.raises(InputRejected, match=r"log\.csv: has no rows to guess from"):
        start("log.csv", "a,b\n")
