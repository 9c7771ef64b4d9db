# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from typer.testing import CliRunner

from models.registry import MODELS
from pipeline.cli import app
from pipeline.errors import ConfigError
from pipeline.model_list import describe, inputs_of


def invoke(*arguments):
    result = CliRunner().invoke(app, ["models", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_list_names_every_kind_with_its_formula():
    text = invoke()
    for kind, found in MODELS.items():
        assert f"\n{kind}: {found.summary}" in f"\n{text}"
        assert found.model.parameter_formula(found.config()) in text


def test_json_has_every_kind_and_option():
    listed = json.loads(invoke("--json"))
    assert list(listed) == list(MODELS)
    for kind, found in MODELS.items():
        assert list(listed[kind]["options"]) == list(found.config.model_fields)
    assert listed["fm"]["parameters"] == "(R + N) (k + 1) + D + 1"
    assert listed["ffm"]["options"]["embedding_dim"]["default"] == 4
    assert listed["ffm"]["options"]["embedding_dim"]["type"] == "whole number"
    assert listed["lr"]["paper"] is None
    assert list(json.loads(invoke("afm", "--json"))) == ["afm"]


def test_one_kind_explains_its_letters_and_options():
    text = invoke("afm")
    assert "A        attention_units" in text
    assert "attention_units: whole number, default 8\n        Width of the attention" in text


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("lr", {"categorical": "yes", "list": "yes", "numeric": "fields", "history": "no"}),
        ("fm", {"numeric": "fields, dense, none; fields by default", "history": "no"}),
        ("dcn", {"numeric": "fields, dense, none; dense by default", "history": "no"}),
        ("base", {"list": "yes", "numeric": "dense", "history": "yes"}),
        ("din", {"list": "yes", "numeric": "dense", "history": "at least one"}),
    ],
)
def test_inputs_are_those_that_the_model_takes(kind, inputs):
    assert inputs.items() <= inputs_of(kind).items()


def test_unknown_kind_names_the_nearest():
    with pytest.raises(ConfigError, match=r"no model is called 'ffn'.*ffm"):
        describe("ffn")


@pytest.mark.parametrize(
    ("kind", "letters"),
    [("lr", "R N"), ("fm", "R k N D"), ("base", "R k M(n) I"), ("dcn", "R k F N D X M(n) L")],
)
def test_letters_of_a_formula_are_explained_and_no_others(kind, letters):
    assert list(describe(kind)["symbols"]) == letters.split()
