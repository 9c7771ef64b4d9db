# SPDX-License-Identifier: Apache-2.0
import ibis
import pandas as pd
import pytest

from pipeline.config import EngineConfig, RunConfig
from pipeline.engine import open_engine
from pipeline.rows import (
    key_column,
    needed_columns,
    raw_columns,
    typed_rows,
    wanted,
)
from pipeline.sources.expected import expected_form
from pipeline.sources.scan import BROKEN, FILE, ORDER

CONFIG = {
    "name": "x",
    "data": {"files": "log.csv", "null_tokens": ["", "NA"]},
    "label": {"column": "stars", "positive": ">= 4"},
    "weight": "w",
    "time": {"column": "ts", "unit": "s"},
    "entity": "user",
    "keys": ["id"],
    "split": {"kind": "column", "column": "part"},
    "evaluate": {"group": "shop"},
    "features": {
        "item": {"kind": "categorical", "required": False},
        "tags": {"kind": "categorical", "separator": "|", "weight_separator": ":"},
        "price": {"kind": "numeric"},
        "hour": {"kind": "datetime", "column": "ts", "unit": "s", "part": "hour"},
        "day": {"kind": "datetime", "column": "ts", "unit": "s", "part": "day"},
        "seen": {"kind": "history", "of": ["item"], "events": {"action": ["view", "buy"]}},
        "liked": {"kind": "history", "of": ["item"]},
    },
    "model": "base",
}


CELLS = dict.fromkeys(["user", "id", "part", "shop", "action", "item", "tags", "price"], "")
CELLS |= {"stars": "1", "w": "1", "ts": "1"}


@pytest.fixture(scope="module")
def compute(tmp_path_factory):
    """Return a function that computes an Ibis table, as columns."""
    with open_engine(EngineConfig(), tmp_path_factory.mktemp("engine")) as connection:
        yield lambda table: connection.to_pyarrow(table).to_pydict()


@pytest.fixture
def config():
    return RunConfig.model_validate(CONFIG)


def scanned(**columns):
    rows = len(next(iter(columns.values())))
    system = {FILE: ["log.csv"] * rows, ORDER: list(range(rows)), BROKEN: [False] * rows}
    table = pd.DataFrame(system | columns)
    texts = {name: "string" for name in columns}
    schema = ibis.schema({FILE: "string", ORDER: "int64", BROKEN: "boolean"} | texts)
    return ibis.memtable(table, schema=schema)


def test_each_reader_of_the_config_needs_its_column(config):
    needs = {(need.column, need.path): need for need in needed_columns(config)}
    assert {column: path for column, path in needs} == {
        "stars": ("label", "column"),
        "w": ("weight",),
        "part": ("split", "column"),
        "user": ("entity",),
        "shop": ("evaluate", "group"),
        "id": ("keys", 0),
        "action": ("features", "seen", "events"),
        "item": ("features", "item"),
        "tags": ("features", "tags"),
        "price": ("features", "price"),
        "ts": ("features", "day", "column"),
    }
    assert ("ts", ("time", "column")) in needs
    types = {column: need.type for (column, _), need in needs.items()}
    assert types["stars"] == types["w"] == types["price"] == "number"
    assert types["ts"] == "moment"
    assert types["tags"] == "texts"
    assert not needs["item", ("features", "item")].required
    assert [w.separator for w in wanted(needs.values()) if w.name == "tags"] == ["|"]


def test_predictions_need_the_label_for_histories_of_positives_only(config):
    needs = {need.column: need for need in needed_columns(config, labelled=False)}
    assert not needs["stars"].required
    assert not {"w", "part", "shop"} & set(needs)
    features = {k: v for k, v in CONFIG["features"].items() if k != "liked"}
    without = RunConfig.model_validate(CONFIG | {"features": features})
    assert "stars" not in {need.column for need in needed_columns(without, labelled=False)}


def test_typed_rows_hold_raw_values_and_what_the_pipeline_needs(config, compute):
    source = scanned(
        stars=["5", "3", "4"],
        w=["1", "0.5", "2"],
        ts=["0", "1.5", "-1"],
        user=["u1", "NA", ""],
        id=["a", "b", "c"],
        part=["train", "test", "other"],
        shop=["s", "s", "t"],
        action=["view", "skip", "NA"],
        item=["i1", "042", "NA"],
        tags=["x:2|y", "", "z:0.5"],
        price=["1.5", "NA", "1e39"],
    )
    rows = compute(typed_rows(source, config, first_row=10).order_by("_row"))
    assert rows["_row"] == [10, 11, 12]
    assert rows["_file"] == ["log.csv"] * 3
    assert rows["_label"] == [1, 0, 1]
    assert rows["_weight"] == [1.0, 0.5, 2.0]
    assert rows["_time"] == [0, 1_500_000, -1_000_000]
    assert rows["_entity"] == ["u1", None, None]
    assert rows["_group"] == ["s", "s", "t"]
    assert rows["_split"] == ["train", "test", None]
    assert rows[key_column("id")] == ["a", "b", "c"]
    assert rows["_counts_seen"] == [True, False, None]
    assert rows["item"] == ["i1", "042", None]
    assert rows["tags"] == [["x", "y"], [], ["z"]]
    assert rows["tags_weight"] == [[2.0, 1.0], [], [0.5]]
    assert rows["price"][:2] == [1.5, None]
    assert rows["price"][2] == pytest.approx(3.4028235e38)
    assert rows["ts"] == [0, 1, -1]  # one input for hour and day, named after the column
    assert rows["_malformed"] == [None, None, None]


@pytest.mark.parametrize(
    ("column", "text", "malformed"),
    [
        ("stars", "many", "stars"),
        ("stars", "", "stars"),
        ("w", "-1", "w"),
        ("w", "", "w"),
        ("ts", "soon", "ts"),
        ("ts", "NA", "ts"),
        ("price", "1,5", "price"),
        ("tags", "x:heavy", "tags"),
        ("user", "anything", None),
        ("price", " 2 ", None),
    ],
)
def test_the_first_malformed_column_of_a_row_is_named(config, compute, column, text, malformed):
    source = scanned(**{name: [value] for name, value in (CELLS | {column: text}).items()})
    assert compute(typed_rows(source, config, 0))["_malformed"] == [malformed]


def test_a_broken_row_is_malformed_without_a_column(config, compute):
    source = scanned(**{name: [value] for name, value in CELLS.items()})
    broken = source.mutate(**{BROKEN: ibis.literal(True)})
    assert compute(typed_rows(broken, config, 0))["_malformed"] == [""]


@pytest.mark.parametrize(
    ("positive", "values", "labels"),
    [
        (None, ["0", "1", "1.0", " true", "FALSE", "2", "-1", "", "yes"],
         [0, 1, 1, 1, 0, None, None, None, None]),
        (">= 4", ["4", "3.9", "5e0", "", "x"], [1, 0, 1, None, None]),
        ("<= 3.7", ["3.7", "3.70001"], [1, 0]),  # 3.7 as float32 is above 3.7
        ("!= 0", ["0", "-1"], [0, 1]),
        (("buy", "1"), ["buy", "Buy", "1", "1.0", ""], [1, 0, 1, 0, None]),
    ],
)  # fmt: skip
def test_labels_by_rule(compute, positive, values, labels):
    config = RunConfig.model_validate(
        {
            "name": "x",
            "data": {"files": "log.csv"},
            "label": {"column": "y", "positive": positive},
            "split": "hash",
            "features": {"y2": {"kind": "categorical"}},
            "model": "lr",
        }
    )
    rows = compute(typed_rows(scanned(y=values, y2=values), config, 0).order_by("_row"))
    assert rows["_malformed"] == ["y" if label is None else None for label in labels]
    good = [i for i, label in enumerate(labels) if label is not None]
    assert [rows["_label"][i] for i in good] == [labels[i] for i in good]


def test_messages_say_what_a_cell_must_hold(config):
    assert expected_form(config, "stars") == "a number (label)"
    assert expected_form(config, "ts") == (
        "a moment (a number of s since 1970) and a number of s since 1970"
    )
    assert expected_form(config, "w") == "a number of 0 or more (weight)"
    assert expected_form(config, "price") == "a number (price)"
    assert expected_form(config, "") == "a JSON object"
    plain = RunConfig.model_validate(CONFIG | {"label": "stars"})
    assert "0 or 1" in expected_form(plain, "stars")
    assert 'label.positive: ">= 1"' in expected_form(plain, "stars")


def test_raw_columns_include_item_weights(config):
    from features.inputs import raw_inputs

    names = raw_columns(raw_inputs(config.features))
    assert names == ["item", "tags", "tags_weight", "price", "ts"]
