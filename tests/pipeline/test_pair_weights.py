# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from pipeline import pair_weights as module
from pipeline.batches import read_batches
from pipeline.config_file import load_config
from pipeline.pair_weights import pair_weights
from pipeline.runs import Run
from pipeline.trained_model import load_best, load_schema
from pipeline.workflow import run
from tests.conftest import Silent, copy_stages, write_config

FIELDS = ["category", "city", "hour", "price", "price_missing"]


@pytest.fixture(scope="module")
def trained(small_log, small_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")

    def train(kind):
        changes = {"data.files": str(small_log), "name": kind, "train.epochs": 1,
                   "model": {"kind": kind, "embedding_dim": 4, "features": FIELDS}}  # fmt: skip
        config = write_config(folder / f"{kind}.yaml", changes)
        copy_stages(small_run[1]["run_dir"], folder, kind, "dataset")
        return Path(run(config, folder, until="evaluate", progress=Silent())["run_dir"])

    return train


def loaded(folder):
    this = Run(load_config(folder / "config.yaml"), folder, Silent())
    schema = load_schema(this)
    return load_best(this, schema), schema


def test_attention_is_averaged_over_test_rows(trained, monkeypatch):
    folder = trained("afm")
    found = json.loads((folder / "evaluate" / "pair_weights.json").read_text())
    model, schema = loaded(folder)
    (batch,) = read_batches(folder / "dataset" / "test", schema, 1000)
    tensors = {key: tf.convert_to_tensor(value) for key, value in batch.items()}
    expected = model.pair_weights(tensors).numpy().mean(axis=0)
    assert (found["kind"], found["fields"]) == ("attention", FIELDS)
    assert found["rows"] == len(batch["label"])
    np.testing.assert_allclose(found["values"], expected, atol=1e-6)
    assert np.sum(found["values"]) == pytest.approx(1, abs=1e-5)
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    monkeypatch.setattr(module, "_BATCH_ROWS", 50)
    assert pair_weights(model, schema, folder / "dataset" / "test")["rows"] == 100
    report = (folder / "report.html").read_text()
    assert "Attention of pairs of fields" in report
    assert f'title="{found["rows"]}"' in report
    assert "each of the" in report
    assert f"category × city\n{found['values'][0][1]!r}" in report
    assert json.loads((folder / "report.json").read_text())["pair_weights"] == found


def test_strengths_are_drawn_and_other_models_have_neither(trained):
    folder = trained("fwfm")
    found = json.loads((folder / "evaluate" / "pair_weights.json").read_text())
    strengths = np.triu(loaded(folder)[0].strengths.numpy(), 1)
    assert found["kind"] == "strength"
    np.testing.assert_allclose(found["values"], strengths, rtol=1e-6)
    assert "Strengths of pairs of fields" in (folder / "report.html").read_text()
    folder = trained("fm")
    assert not (folder / "evaluate" / "pair_weights.json").exists()
    assert "pairs of fields</h3>" not in (folder / "report.html").read_text()
