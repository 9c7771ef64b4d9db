import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import log_loss, roc_auc_score

from pipeline.config_file import load_config
from pipeline.errors import InputRejected
from pipeline.evaluate import require_defined
from pipeline.runs import Run
from tests.conftest import Silent


@pytest.fixture(scope="module")
def predictions(small_run):
    _, result, _ = small_run
    return pd.read_parquet(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")


def test_an_analyst_gets_the_metrics_from_the_predictions(small_run, predictions):
    _, result, _ = small_run
    found = result["metrics"]["test"]
    y, p = predictions["label"], predictions["score"].astype(float)
    assert found["auc"] == pytest.approx(roc_auc_score(y, p), abs=1e-9)
    assert found["log_loss"] == pytest.approx(log_loss(y, p), rel=1e-6)
    assert found["calibration"] == pytest.approx(p.sum() / y.sum(), rel=1e-6)
    rate = y.mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    assert found["ne"] == pytest.approx(log_loss(y, p) / entropy, rel=1e-6)


def test_gauc_is_the_mean_over_users_with_both_classes(small_run, predictions):
    _, result, _ = small_run
    total, weight = 0.0, 0
    for _, rows in predictions.groupby("group"):
        if rows["label"].nunique() == 2:
            total += len(rows) * roc_auc_score(rows["label"], rows["score"])
            weight += len(rows)
    assert result["metrics"]["test"]["gauc"] == pytest.approx(total / weight, abs=1e-9)


def test_predictions_carry_the_keys_of_their_rows(small_log, predictions):
    log = pd.read_csv(small_log, dtype=str)
    joined = predictions.merge(log, left_on="impression_id", right_on="impression_id")
    assert len(joined) == len(predictions)
    assert (joined["label"] == joined["click"].astype(int)).all()
    assert (joined["group"] == joined["user_id"]).all()
    # `row_id` is the row of the file
    assert (
        log["impression_id"].iloc[predictions["row_id"]].to_numpy() == predictions["impression_id"]
    ).all()


def test_the_report_files_agree_with_the_result(small_run):
    _, result, _ = small_run
    folder = Path(result["run_dir"])
    stored = json.loads((folder / "evaluate" / "metrics.json").read_text())
    assert stored["test"]["auc"] == result["metrics"]["test"]["auc"]
    facts = json.loads((folder / "report.json").read_text())
    assert facts["metrics"] == stored
    assert facts["parity"]["max_abs_diff"] <= 1e-6
    assert str(stored["test"]["rows"]) in (folder / "report.html").read_text().replace("\u202f", "")


@pytest.mark.parametrize(
    ("part", "override", "message"),
    [
        ("valid", "train.monitor=gauc", r"valid rows: train\.monitor .* gauc: .* none of whom has"),
        ("test", "evaluate.metrics=[auc]", r"test rows: evaluate\.metrics .* auc: .* of label 0"),
        ("test", "evaluate.metrics=[log_loss]", None),
        ("test", "train.monitor=gauc", None),
    ],
)
def test_metrics_that_rows_leave_undefined_are_refused_before_training(
    small_run, tmp_path, part, override, message
):
    """Users with one label each have no GAUC; clicks of weight 0 leave one label, and no AUC."""
    config_path, result, _ = small_run
    shutil.copytree(f"{result['run_dir']}/dataset", tmp_path / "run" / "dataset")
    (path,) = (tmp_path / "run" / "dataset" / part).glob("*.parquet")
    table = pq.read_table(path)
    label = table["label"].to_numpy()
    if part == "valid":
        changes = {"group": pa.array([f"user {y}" for y in label])}
    else:
        changes = {"weight": pa.array(1 - label, pa.float32())}
    for name, column in changes.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    pq.write_table(table, path)
    run = Run(load_config(config_path, [override]), tmp_path / "run", Silent())
    if message is None:
        require_defined(run)
        return
    with pytest.raises(InputRejected, match=message):
        require_defined(run)
