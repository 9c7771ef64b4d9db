"""Whole runs by the command line."""

import json
from pathlib import Path

import pytest

from tests.conftest import copy_stages, write_config
from tests.end_to_end.command_line import clickloom

pytestmark = pytest.mark.end_to_end


def test_a_run_prints_one_json_line_and_a_rerun_builds_nothing(config, tmp_path):
    code, out, err = clickloom(
        "run", config, "--runs", tmp_path / "runs", "--set", "train.epochs=1"
    )
    assert code == 0, err
    result = json.loads(out.splitlines()[-1])
    assert result["status"] == "done"
    assert set(result) == {
        "run", "run_dir", "status", "rows", "metrics", "report", "export", "parity_max_abs_diff",
        "train_examples_per_s",
    }  # fmt: skip
    assert set(result["metrics"]["test"]) == {"auc", "gauc", "log_loss", "ne", "calibration"}
    for line in err.splitlines():
        assert "event" in json.loads(line)
    run_dir = Path(result["run_dir"])
    built = {p: p.stat().st_mtime_ns for p in run_dir.rglob("*.parquet")}
    code, out, _ = clickloom("run", config, "--runs", tmp_path / "runs", "--set", "train.epochs=1")
    assert code == 0
    assert json.loads(out) == result
    assert built == {p: p.stat().st_mtime_ns for p in run_dir.rglob("*.parquet")}
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["reused"] == ["ingest", "train", "evaluate", "history_weights", "export"]


def test_a_missed_gate_ends_with_code_4(small_run, tmp_path):
    config, result, _ = small_run
    run_dir = copy_stages(result["run_dir"], tmp_path / "runs", "small", "dataset", "train")
    gate = "evaluate.gates.auc.min=0.999"
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs", "--set", gate)
    assert code == 4
    assert "the gate asks for at least 0.999" in err
    assert not list((tmp_path / "runs").rglob("saved_model.pb"))
    assert (run_dir / "report.html").exists()
    assert err.endswith(f"clickloom: the numbers are in {run_dir.resolve()}/report.html\n")


def test_diverging_training_ends_with_code_6(config, runs):
    overrides = ["--set", "train.learning_rate=1e30", "--set", "train.epochs=3"]
    code, _, err = clickloom("run", config, "--runs", runs, *overrides)
    assert code == 6, err
    assert "Nothing is published" in err


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lr", "fm", "base"])
def test_every_kind_of_model_runs_to_a_bundle(small_log, tmp_path, model):
    features = ["item_id", "category", "city", "position", "price", "price_missing", "hour"]
    chosen = {"kind": model} if model == "base" else {"kind": model, "features": features}
    changes = {"data.files": str(small_log), "model": chosen, "train.epochs": 1}
    config = write_config(tmp_path / "c.yaml", changes)
    code, out, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 0, err
    result = json.loads(out)
    assert result["parity_max_abs_diff"] <= 1e-6
