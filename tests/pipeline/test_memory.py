# SPDX-License-Identifier: Apache-2.0
import json
import os

import pytest
from typer.testing import CliRunner

from features.schema import FeatureSchema
from features.specs import BucketedSpec, CategoricalSpec, DatetimeSpec
from models.sizes import ModelSize, size_of
from pipeline import memory
from pipeline.cli import app
from pipeline.config_file import load_config
from pipeline.errors import ConfigError
from pipeline.memory import (
    ModelMemory,
    config_memory,
    describe_memory,
    format_bytes,
    half_of_machine,
    parse_bytes,
    require_memory,
    table_size,
)
from pipeline.plan import planned_size
from pipeline.trained_model import split_kind
from pipeline.workflow import run
from tests.conftest import Silent, write_config


def plan(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


@pytest.mark.parametrize(
    ("rows", "fields", "dim", "shown", "double"),
    [
        (32_870_706, 50, 4, "6,574,141,200 =     26.3 GB", "52.9 GB"),
        (554_365, 86, 50, "2,383,769,500 =      9.5 GB", "19.1 GB"),
    ],
)
def test_memory_said_before_not_found_out(rows, fields, dim, shown, double):
    """OPT-05: to the digit, about double with one accumulator, refused with what helps."""
    asked = ("ffm", "--rows", rows, "--fields", fields, "--embedding-dim", dim)
    result = plan(*asked, "--max-model-memory", "8GB")
    assert f"vectors         {shown}" in result.output
    assert f"one accumulator (AdaGrad)      {double}" in result.output
    refusal = str(result.exception)
    assert isinstance(result.exception, ConfigError)
    assert result.exception.exit_code == 2
    assert "engine.max_model_memory is 8GB" in refusal
    assert f"table all ({rows:,} rows × {fields * dim + 1:,}) 100.0%" in refusal
    for remedy in ("hash_buckets", "smaller model.embedding_dim", "min_count", "fewer features"):
        assert remedy in refusal
    assert plan(*asked, "--max-model-memory", "100GB").exit_code == 0


def test_plan_as_json():
    result = plan("fm", "--rows", 1000, "--fields", 3, "--numbers", 2, "--slots", 1, "--json")
    weights = (1000 + 2) * 17 + 1
    assert json.loads(result.output) == {
        "kind": "fm", "weights": weights, "vectors": 16_000, "linear": 1000,
        "layers": 2 * 17 + 1, "bytes": weights * 4, "training_bytes": weights * 8, "slots": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("ffn", "--rows", 9, "--fields", 2), "no model is called 'ffn'.*ffm"),
        (("fm", "--rows", 1, "--fields", 2), "--rows 1: a table has at least 2 rows"),
        (("fm", "--rows", 2**31, "--fields", 2), "--rows 2147483648: ids are int32"),
        (("fm", "--rows", 9, "--fields", 0), "fm has no field"),
        (("din", "--rows", 9, "--fields", 2), "din needs a history"),
        (("fm", "--rows", 9, "--fields", 2, "--set", "embedding_dmi=4"), "'embedding_dim'"),
        (("fm", "--rows", 9, "--fields", 2, "--set", "embedding_dim"), "expected key=value"),
        (("fm", "--rows", 9, "--fields", 2, "--embedding-dim", 10**22), "or equal to 100000; got"),
        (("dcn", "--rows", 9, "--fields", 2, "--set", "cross_layers=1000000000"), "to 50; got"),
        (("fm", "--rows", 9, "--fields", 2, "--max-model-memory", "8 gigs"), "such as 8GB"),
    ],
)
def test_impossible_plans_say_why(arguments, message):
    with pytest.raises(ConfigError, match=message):
        raise plan(*arguments).exception


def test_options_of_the_kind_count():
    narrow = planned_size("deepfm", 100, 4, options={"hidden_units": [8]})
    assert narrow.dense == 1 + (4 * 16 + 1) * 8 + 9


@pytest.mark.parametrize(
    ("spec", "rows", "exact"),
    [
        (CategoricalSpec(kind="categorical", hash_buckets=1000), 1002, True),
        (CategoricalSpec(kind="categorical", num_oov=3), 5, False),
        (CategoricalSpec(kind="categorical", max_size=10), 3, False),  # data may hold fewer
        (BucketedSpec(kind="bucketed", edges=(1, 2)), 5, True),
        (BucketedSpec(kind="bucketed", quantiles=4), 3, False),  # and so here
        (DatetimeSpec(kind="datetime", part="hour"), 26, True),
    ],
)
def test_table_sizes_known_without_data(spec, rows, exact):
    assert table_size(spec) == (rows, exact)


@pytest.fixture
def config(small_log, tmp_path):
    def write(**changes):
        return write_config(tmp_path / "c.yaml", {"data.files": str(small_log)} | changes)

    return write


def test_a_config_is_counted_as_far_as_it_is_known(config):
    changes = {"model": {"kind": "fm", "embedding_dim": 4, "features": ["item_id", "hour"]}}
    hashed = {"kind": "categorical", "hash_buckets": 1000}
    counted, unknown = config_memory(load_config(config(**changes)))
    assert (dict(counted.size.tables), unknown) == ({"item_id": 3, "hour": 26}, ["item_id"])
    _, line, facts = describe_memory(load_config(config(**changes)))
    assert "at least 146 weights = 584 bytes; 1.8 kB in training" in line
    assert "how many values item_id have only data can tell, each is 20 bytes, 60 bytes in" in line
    assert facts["training_bytes_per_value"] == 60
    changes["features.item_id"] = hashed
    counted, unknown = config_memory(load_config(config(**changes)))
    assert (dict(counted.size.tables), unknown) == ({"item_id": 1002, "hour": 26}, [])


def test_a_run_is_refused_before_ingest_where_sizes_are_known(config, tmp_path):
    changes = {
        "features.item_id": {"kind": "categorical", "hash_buckets": 50_000_000},
        "engine.max_model_memory": "500MB",
    }
    progress = Silent()
    with pytest.raises(ConfigError, match=r"Largest: table item_id .*fewer features.item_id.hash"):
        run(config(**changes), tmp_path / "runs", progress=progress)
    assert not (tmp_path / "runs" / "small" / "main" / "dataset").exists()
    with pytest.raises(ConfigError, match=r"engine\.max_model_memory is 500MB"):
        raise CliRunner().invoke(app, ["validate", str(config(**changes))]).exception


def test_tables_that_int32_cannot_count_are_refused(config):
    hashed = {"kind": "categorical", "hash_buckets": 2**30}
    changes = {"features.item_id": hashed, "features.category": hashed, "features.city": hashed}
    with pytest.raises(ConfigError, match=r"too large: tables have 3,221,\d+,"):
        describe_memory(load_config(config(**changes)))


def test_a_run_is_refused_after_ingest_at_the_latest(config, tmp_path, monkeypatch):
    features = {"item_id": {"kind": "categorical"}, "category": {"kind": "categorical"}}
    monkeypatch.setattr(memory, "half_of_machine", lambda: 10_000)
    progress = Silent()
    with pytest.raises(ConfigError, match=r"half of this machine's memory, 10\.0 kB"):
        run(config(model={"kind": "fm", "embedding_dim": 12}, features=features),
            tmp_path / "runs", progress=progress)  # fmt: skip
    folder = tmp_path / "runs" / "small" / "main"
    assert (folder / "dataset").exists()
    assert not (folder / "train").exists()
    assert next(name for name, _ in progress.events) == "model"


def test_a_run_says_how_large_its_model_is(small_run):
    config, _, runs = small_run
    progress = Silent()
    run(config, runs, progress=progress)
    least, fitted = (fields for name, fields in progress.events if name == "model")
    parameters = json.loads((runs / "small" / "main" / "report.json").read_text())["model"]
    assert fitted["weights"] == parameters["parameters"]
    assert least["weights"] < fitted["weights"]
    assert set(least["unknown_tables"]) == {"item_id", "category", "city", "position"}


def test_a_run_builds_its_model_once_to_count_it(config, tmp_path, monkeypatch):
    counted = []

    def counting(*arguments):
        counted.append(arguments)
        return size_of(*arguments)

    monkeypatch.setattr(memory, "size_of", counting)
    run(config(), tmp_path / "runs", until="train", progress=(progress := Silent()))
    assert len(counted) == 1
    fitted = [fields for name, fields in progress.events if name == "model"][1]
    tables = tmp_path / "runs" / "small" / "main" / "dataset" / "features" / "schema.json"
    kind, options = split_kind(load_config(config()).model)
    schema = FeatureSchema.model_validate_json(tables.read_text())
    assert fitted["weights"] == size_of(kind, schema, options).total


def test_more_rows_than_int32_counts_are_refused_after_ingest_too():
    size = ModelSize({"item": 2**31, "user": 5}, 4, 0, 1)
    with pytest.raises(ConfigError, match=r"2,147,483,653 rows, .* Largest: table item"):
        require_memory(ModelMemory(size, 0), "999999GB")


def test_large_layers_are_named_too():
    size = ModelSize({"item": 10}, 4, 0, 10**9)
    with pytest.raises(ConfigError, match=r"Largest: layers 100\.0%, .*smaller hidden layers"):
        require_memory(ModelMemory(size, 2), "1GB")


def test_sizes_of_memory():
    assert parse_bytes("8GB") == 8 * 10**9
    assert parse_bytes("1.5 MiB") == 3 * 2**19
    assert format_bytes(26_296_564_800) == "26.3 GB"
    assert format_bytes(999) == "999 bytes"
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < half_of_machine() <= machine // 2
