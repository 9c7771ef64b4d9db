# SPDX-License-Identifier: Apache-2.0
"""What all options have in common, of the data, the features, the models and the training."""

import pytest
from pydantic import ValidationError

from features.specs import DatetimeSpec, NumericSpec
from models.registry import MODELS
from pipeline.config import DataConfig, RunConfig, TrainConfig


def refusals(config, **options):
    """Return place and kind of what is wrong with some options."""
    with pytest.raises(ValidationError) as error:
        config.model_validate(options)
    return [(detail["loc"], detail["type"]) for detail in error.value.errors()]


def numbers(schema):
    """Return the options that a JSON schema has numbers or lists of numbers for."""
    for name, option in schema["properties"].items():
        forms = option.get("anyOf", [option])
        forms += [form["items"] for form in forms if "items" in form]
        types = {form.get("type") for form in forms}
        if types & {"integer", "number"} and "boolean" not in types:
            yield name


@pytest.mark.parametrize("kind", MODELS)
def test_true_is_no_number_of_any_model(kind):
    config = MODELS[kind].config
    for name in numbers(config.model_json_schema()):
        [(place, wrong)] = refusals(config, **{name: True})
        assert place == (name,)
        assert wrong in {"int_type", "float_type"}


def test_true_is_no_number_wherever_it_stands():
    deep = MODELS["deepfm"].config
    assert refusals(deep, hidden_units=[8, True]) == [(("hidden_units", 1), "int_type")]
    assert refusals(TrainConfig, epochs=True, clip_norm=False) == [
        (("epochs",), "int_type"),
        (("clip_norm",), "float_type"),
    ]
    assert refusals(TrainConfig, table_l2={"x": True}) == [(("table_l2", "x"), "float_type")]
    assert refusals(TrainConfig, dense_optimizer={"kind": "adam", "beta_1": False}) == [
        (("dense_optimizer", "adam", "beta_1"), "float_type")
    ]
    assert refusals(DataConfig, files="x", index_base=True) == [(("index_base",), "int_type")]
    clip = {"kind": "numeric", "clip": [False, 3], "fill": True}
    assert refusals(NumericSpec, **clip) == [
        (("clip", 0), "float_type"),
        (("fill",), "float_type"),
    ]
    places = [place for place, _ in refusals(RunConfig, seed=True)]
    assert ("seed",) in places


def test_true_and_numbers_stay_what_they_are():
    assert MODELS["din"].config(batch_norm=True, embedding_dim=1).batch_norm is True
    assert NumericSpec(kind="numeric", log=True, fill=1).fill == 1
    assert DataConfig(files="x", index_base=1, header=True).index_base == 1


def test_infinity_is_no_number_of_features_either():
    history = {"kind": "history", "of": ["item"], "gap_s": float("inf")}
    features = {"item": {"kind": "categorical"}, "seen": history}
    places = [place for place, _ in refusals(RunConfig, features=features)]
    assert ("features", "seen", "history", "gap_s") in places


@pytest.mark.parametrize("kind", MODELS)
def test_no_model_has_a_size_that_cannot_be_counted(kind):
    """10**22 is too large for any integer of TensorFlow, 10**9 layers for any patience."""
    config = MODELS[kind].config
    for name, option in config.model_json_schema()["properties"].items():
        for value in [10**9, 10**22] if option.get("type") == "integer" else ():
            if name not in {"hash_distance", "hash_seed"}:
                assert refusals(config, **{name: value}) == [((name,), "less_than_equal")]
        if name.endswith("units") and option.get("type") == "array":
            assert refusals(config, **{name: [8, 10**9]}) == [((name, 1), "less_than_equal")]


def test_whole_numbers_have_64_bits():
    assert TrainConfig(patience=2**63 - 1).patience == 2**63 - 1
    assert refusals(TrainConfig, patience=2**63) == [(("patience",), "less_than")]
    history = {"kind": "history", "of": ["item"], "max_items": 10**12}
    places = [place for place, _ in refusals(RunConfig, features={"seen": history})]
    assert ("features", "seen", "history", "max_items") in places


def test_unknown_options_are_refused():
    assert refusals(DatetimeSpec, kind="datetime", part="hour", bins=3) == [
        (("bins",), "extra_forbidden")
    ]


def test_a_batch_that_no_memory_holds_is_refused():
    # a full batch is allocated before any row is read
    assert refusals(TrainConfig, batch_size=99_999_999_999) == [
        (("batch_size",), "less_than_equal")
    ]
