# SPDX-License-Identifier: Apache-2.0
import pytest
from pydantic import ValidationError

from models.registry import MODELS
from pipeline.config import RunConfig, expand_path, moment_us
from pipeline.config_schema import config_schema

MINIMAL = {
    "name": "x",
    "data": {"files": "log.csv"},
    "label": "click",
    "time": "ts",
    "features": {"item": {"kind": "categorical"}},
    "model": "fm",
}


def config(**changes):
    return RunConfig.model_validate(MINIMAL | changes)


def refused(message, **changes):
    with pytest.raises(ValidationError, match=message):
        config(**changes)


def test_short_forms_mean_the_same_as_the_long_ones():
    short = config(split="hash")
    long = config(
        data={"files": ["log.csv"]},
        label={"column": "click"},
        time={"column": "ts"},
        split={"kind": "hash"},
        model={"kind": "fm"},
    )
    assert short == long
    assert short.label.column == "click"
    assert short.data.files == ("log.csv",)


def test_numbers_stand_for_texts_where_texts_are_meant():
    data = {"files": "log.csv", "header": False, "columns": [0, 1, "x"], "null_tokens": [-1, "NA"]}
    label = {"column": "click", "positive": [1, True, "yes"]}
    found = config(data=data, label=label, name=2026)
    assert found.data.columns == ("0", "1", "x")
    assert found.data.null_tokens == ("-1", "NA")
    assert found.label.positive == ("1", "true", "yes")
    assert found.name == "2026"


def test_label_rules():
    assert config(label={"column": "r", "positive": ">= 4"}).label.comparison == (">=", 4.0)
    assert config(label={"column": "r", "positive": " !=-1.5e0 "}).label.comparison == ("!=", -1.5)
    assert config().label.comparison is None
    refused("'yes please' is not a comparison", label={"column": "r", "positive": "yes please"})
    refused("names no value", label={"column": "r", "positive": []})


def test_run_names_stay_within_the_runs_folder():
    for name in ("..", ".", "../x", "a/b", "", " x", "x\n"):
        refused("match pattern", name=name)
    assert config(name="день-2_x.y").name == "день-2_x.y"


def test_splits_that_cannot_be():
    refused("leave no rows for training", split={"kind": "hash", "valid": 0.6, "test": 0.6})
    refused("leave no rows for training", split={"kind": "time", "valid": 0.5, "test": 0.5})
    refused("give both", split={"kind": "time", "valid_from": "2026-01-01"})
    swapped = {"kind": "time", "valid_from": "2026-02-01", "test_from": "2026-01-01"}
    refused("valid_from must be before test_from", split=swapped)
    refused("'soon' is no moment", split={**swapped, "valid_from": "soon"})
    refused("one part only: a", split={"kind": "column", "column": "c", "train": "a", "test": "a"})
    same = {"kind": "column", "column": "c", "train": ["a", "b"], "test": ["a"]}
    refused("one part only: a", split=same)


def test_moments_are_utc_unless_they_say_otherwise():
    assert moment_us("1970-01-02") == 86_400 * 10**6
    assert moment_us("1970-01-01T00:00:00.000001") == 1
    assert moment_us("1970-01-01T01:00+01:00") == 0


def test_headers_and_columns_go_together():
    refused("needs columns", data={"files": "x", "header": False})
    refused("for files without a header", data={"files": "x", "columns": ["a"]})
    refused("a name stands twice", data={"files": "x", "header": False, "columns": ["a", "a"]})


def test_join_keys():
    joined = config(data={"files": "x", "joins": [{"files": "y", "on": {"item": "id"}}]})
    assert joined.data.joins[0].keys == {"item": "id"}
    by_name = config(data={"files": "x", "joins": [{"files": "y", "on": "item"}]})
    assert by_name.data.joins[0].keys == {"item": "item"}
    refused("name a column", data={"files": "x", "joins": [{"files": "y", "on": ""}]})


def test_numbers_must_be_finite():
    refused("finite number", train={"learning_rate": float("nan")})
    refused("finite number", evaluate={"gates": {"auc": {"min": float("inf")}}})


def test_a_gate_that_nothing_passes_is_refused():
    refused("min 2 is above max 1", evaluate={"gates": {"auc": {"min": 2, "max": 1}}})
    config(evaluate={"gates": {"auc": {"min": 0.5, "max": 0.5}}})


def test_a_gap_longer_than_moments_can_tell_is_refused():
    refused("less than or equal", split={"kind": "time", "gap_s": 1e13})


def test_penalties_by_count_need_a_penalty():
    refused("set table_l2, or leave", train={"table_l2_by_count": True})
    refused("set table_l2, or leave", train={"table_l2_by_count": True, "table_l2": {"a": 0}})
    config(train={"table_l2_by_count": True, "table_l2": {"a": 0, "b": 0.1}})


def test_paths_take_dates_and_variables(monkeypatch):
    monkeypatch.setenv("LOGS", "/logs")
    assert expand_path("${LOGS}/{date}/*.csv", "2026-01-31") == "/logs/2026-01-31/*.csv"
    assert expand_path("{other}", None) == "{other}"
    with pytest.raises(ValueError, match=r"\{date\} needs a date: call with --date"):
        expand_path("{date}.csv", None)
    monkeypatch.delenv("LOGS")
    with pytest.raises(ValueError, match="environment variable LOGS is not set"):
        expand_path("${LOGS}/x.csv", None)


def test_json_schema_describes_every_model_and_the_short_forms():
    schema = config_schema()
    assert set(schema["required"]) == {"name", "data", "label", "features", "model"}
    for kind, entry in MODELS.items():
        options = schema["$defs"][f"model_{kind}"]
        assert options["properties"]["kind"] == {"const": kind}
        assert set(options["properties"]) == {"kind", *entry.config.model_fields}
        assert options["additionalProperties"] is False
    for section in ("label", "time", "split", "model"):
        assert any(form.get("type") == "string" for form in schema["properties"][section]["anyOf"])
