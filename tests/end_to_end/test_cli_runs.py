import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.checkpoint import load_arrays
from tests.conftest import write_config

pytestmark = pytest.mark.end_to_end
CLI = [sys.executable, "-m", "pipeline"]


def clickloom(*arguments, **options):
    done = subprocess.run(
        [*CLI, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def start(*arguments):
    return subprocess.Popen(
        [*CLI, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for(condition, process, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.fixture
def config(small_log, tmp_path):
    changes = {"data.files": str(small_log), "train.epochs": 12, "train.patience": 100}
    return write_config(tmp_path / "c.yaml", changes)


def test_help_answers_without_tensorflow():
    code, out, _ = clickloom("--help")
    assert code == 0
    assert "predict" in out
    script = "import sys; from pipeline.cli import app; print('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


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


def test_a_config_with_problems_ends_with_code_2_and_a_missing_file_with_3(config, tmp_path):
    text = config.read_text().replace("embedding_dim", "embeding_dim")
    broken = tmp_path / "broken.yaml"
    broken.write_text(text)
    code, out, err = clickloom("run", broken, "--runs", tmp_path / "runs")
    assert code == 2
    assert "did you mean 'embedding_dim'" in err
    assert out == ""
    assert not (tmp_path / "runs").exists()
    code, _, err = clickloom(
        "run", config, "--runs", tmp_path / "runs", "--set", "data.files=no.csv"
    )
    assert code == 3
    assert "no.csv: no such file" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("arguments", [["bogus"], ["run"], ["run", "a.yaml", "--nope"], ["synth"]])
def test_a_wrong_command_line_ends_with_code_2(arguments):
    code, out, err = clickloom(*arguments)
    assert code == 2
    assert out == ""
    assert "bug" not in err
    assert "Traceback" not in err


def test_a_missed_gate_ends_with_code_4(config, tmp_path):
    overrides = ["--set", "train.epochs=1", "--set", "evaluate.gates.auc.min=0.999"]
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs", *overrides)
    assert code == 4
    assert "the gate asks for at least 0.999" in err
    assert not list((tmp_path / "runs").rglob("saved_model.pb"))
    assert (tmp_path / "runs" / "small" / "main" / "report.html").exists()


def test_diverging_training_ends_with_code_6(config, tmp_path):
    overrides = ["--set", "train.learning_rate=1e30", "--set", "train.epochs=3"]
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs", *overrides)
    assert code == 6, err
    assert "Nothing is published" in err


def test_two_runs_of_one_name_at_once_one_ends_with_code_75(config, tmp_path):
    first = start("run", config, "--runs", tmp_path / "runs")
    lock = tmp_path / "runs" / "small" / ".lock"
    wait_for(lambda: lock.exists() and lock.read_text(), first)
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 75
    assert "held by process" in err
    first.kill()
    first.communicate()


def checkpoints(tmp_path):
    return list((tmp_path / "runs").rglob("step-*/state.json"))


def test_sigterm_writes_a_checkpoint_ends_with_code_143_and_the_run_continues(config, tmp_path):
    process = start("run", config, "--runs", tmp_path / "runs")
    wait_for(lambda: checkpoints(tmp_path), process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 0
    assert '"event": "resumed"' in err


@pytest.mark.slow
def test_killed_at_random_moments_a_run_ends_with_the_same_weights(config, tmp_path):
    # BAT-01
    whole = tmp_path / "whole"
    code, _, err = clickloom("run", config, "--runs", whole)
    assert code == 0, err
    randomly = random.Random(5)  # noqa: S311 - moments to kill at
    killed = 0
    for _ in range(12):
        process = start("run", config, "--runs", tmp_path / "runs")
        try:
            process.wait(timeout=randomly.uniform(3, 12))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert killed
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 0, err
    expected, _ = load_arrays(whole / "small" / "main" / "train" / "best")
    found, _ = load_arrays(tmp_path / "runs" / "small" / "main" / "train" / "best")
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


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
