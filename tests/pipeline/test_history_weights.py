# SPDX-License-Identifier: Apache-2.0
"""Which rows the report shows, and that what it shows is what the model computes."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipeline import workflow
from pipeline.batches import batch_keys
from pipeline.checks import validate_file
from pipeline.config import ReportConfig
from pipeline.config_file import load_config
from pipeline.errors import ConfigError, InputRejected
from pipeline.history_weights import choose_rows, draw_rows
from pipeline.row_lookup import find_row
from pipeline.runs import Run
from pipeline.trained_model import load_best, load_schema
from tests.conftest import Silent, write_config


@pytest.fixture
def run(small_run):
    """The small run."""
    config, result, _ = small_run
    return Run(load_config(config), Path(result["run_dir"]), Silent())


def changed(run, **report):
    config = run.config.model_copy(update={"report": ReportConfig.model_validate(report)})
    return Run(config, run.folder, run.progress)


def test_the_report_shows_what_the_model_makes_of_rows_with_a_past(run):
    found = json.loads((run.folder / "report.json").read_text())["history_weights"]
    assert found == json.loads((run.folder / "history_weights/history_weights.json").read_text())
    rows = pq.read_table(run.dataset / "test", columns=["row_id", "clicks_length"]).to_pandas()
    assert found["drawn_from"] == (rows["clicks_length"] > 0).sum()
    assert len(found["rows"]) == 3
    scores = pq.read_table(run.evaluate / "predictions/test.parquet").to_pandas()
    scores = scores.set_index("row_id")
    schema = load_schema(run)
    model = load_best(run, schema)
    for row in found["rows"]:
        batch = find_row(run, schema, "test", row["row_id"], "")
        tensors = {key: tf.constant(batch[key]) for key in batch_keys(schema)}
        events, length = row["histories"]["clicks"]["events"], int(batch["clicks_length"][0])
        assert len(events) == length > 0
        weights = [event["weights"] for event in events]
        expected = model.history_weights(tensors)["clicks"][0, :, :length]
        np.testing.assert_allclose(np.transpose(weights), expected, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(row["histories"]["clicks"]["sums"], np.sum(weights, axis=0))
        ids = [event["items"]["clicks_item_id"]["id"] for event in events]
        assert ids == batch["clicks_item_id"][0, :length].tolist()
        assert row["target"]["item_id"]["id"] == batch["item_id"][0]
        assert row["score"] == scores.loc[row["row_id"], "score"]
        assert row["label"] == scores.loc[row["row_id"], "label"]
    html = run.report.read_text(encoding="utf-8")
    assert "not normalised" in found["caption"]
    assert found["caption"].split("; ")[0] in html
    assert f"Row {found['rows'][0]['row_id']}" in html


def test_rows_are_drawn_by_the_seed_among_those_with_a_past(run):
    folder, schema = run.dataset / "test", load_schema(run)
    rows = pq.read_table(folder, columns=["row_id", "clicks_length"]).to_pandas()
    past = set(rows["row_id"][rows["clicks_length"] > 0])
    first, of = draw_rows(folder, schema, 5, seed=1)
    assert draw_rows(folder, schema, 5, seed=1) == (first, of)
    assert draw_rows(folder, schema, 5, seed=2)[0] != first
    assert of == len(past)
    assert len(set(first)) == 5
    assert set(first) <= past
    assert set(draw_rows(folder, schema, 10**6, seed=1)[0]) == past


def test_rows_that_the_config_names_are_shown_in_its_order(run):
    ids = pq.read_table(run.dataset / "test", columns=["row_id"])["row_id"].to_pylist()[:3]
    chosen = choose_rows(changed(run, histories=[ids[2], ids[0]]))
    assert chosen.row_ids == (ids[2], ids[0])
    assert chosen.drawn_from is None
    for none in (0, []):
        assert choose_rows(changed(run, histories=none)) is None
    with pytest.raises(ConfigError, match=r"report\.histories: the test rows .* no row_id 999999"):
        choose_rows(changed(run, histories=[999_999]))
    valid = pq.read_table(run.dataset / "valid", columns=["row_id"])["row_id"][0].as_py()
    with pytest.raises(ConfigError, match="it is in valid: clickloom explain shows rows of valid"):
        choose_rows(changed(run, histories=[valid]))


def test_other_rows_evaluate_and_publish_nothing_anew(small_run, run, tmp_path):
    config, _, runs = small_run
    shutil.copytree(runs, tmp_path / "runs")
    row = pq.read_table(run.dataset / "test", columns=["row_id"])["row_id"][4].as_py()
    override = f"report.histories=[{row}]"
    result = workflow.run(config, tmp_path / "runs", [override], progress=Silent())
    folder = Path(result["run_dir"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["fingerprints"]) - set(manifest["reused"]) == {"history_weights"}
    shown = json.loads((folder / "report.json").read_text())["history_weights"]["rows"]
    assert [found["row_id"] for found in shown] == [row]


def test_names_come_from_files_written_in_any_way(run, tmp_path, monkeypatch):
    monkeypatch.setenv("CLICKLOOM_DATA", str(tmp_path))
    films = "".join(f"i{k:05d}|Am\xe9lie\t{k}|x\n" for k in range(60))
    (tmp_path / "u.item").write_text(films, encoding="latin-1")
    names = {
        "files": "${CLICKLOOM_DATA}/u.item", "format": "csv", "separator": "|", "header": False,
        "encoding": "latin-1", "columns": ["id", "title", "url"], "key": "id", "name": "title",
    }  # fmt: skip
    chosen = choose_rows(changed(run, names={"item_id": names}))
    schema = load_schema(run)
    batch = find_row(run, schema, "test", chosen.row_ids[0], "")
    assert set(batch["clicks_item_id"][0, : batch["clicks_length"][0]]) <= {
        1, 2, *chosen.names["item_id"]
    }  # fmt: skip
    assert all(name.startswith("Am\xe9lie ") for name in chosen.names["item_id"].values())
    (tmp_path / "u.item").write_text(films + films, encoding="latin-1")
    with pytest.raises(InputRejected, match="stands 2 times; a side table has one row per key"):
        choose_rows(changed(run, names={"item_id": names}))
    monkeypatch.delenv("CLICKLOOM_DATA")
    with pytest.raises(ConfigError, match="variable CLICKLOOM_DATA is not set"):
        choose_rows(changed(run, names={"item_id": names}))


def test_validate_says_what_is_wrong_with_names(small_log, tmp_path):
    titles = tmp_path / "titles.csv"
    titles.write_text("item,title\ni00001,one\n")
    config = write_config(tmp_path / "config.yaml", {
        "data.files": str(small_log),
        "report.names": {
            "item_id": {"files": str(titles), "key": "item", "name": "titles"},
            "hour": {"files": str(titles), "key": "item", "name": "title"},
            "category": {"files": str(tmp_path / "none.csv"), "key": "item", "name": "title"},
        },
    })  # fmt: skip
    problems = sorted(problem.split(": ", 1)[1] for problem in validate_file(config)[0])
    missing, kind, column = problems  # of category, hour and item_id
    assert missing.startswith("report.names.category: ")
    assert "none.csv: no such file" in missing
    assert kind.startswith("report.names.hour: is no categorical feature whose values are kept")
    assert column.startswith("report.names.item_id.name: ")
    assert "has no column 'titles': did you mean 'title'?" in column
