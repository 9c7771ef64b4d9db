import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score


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
