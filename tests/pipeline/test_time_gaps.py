# SPDX-License-Identifier: Apache-2.0
"""A whole run with time gaps, and with a column that only past events have: here the label."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from pipeline.bundle import feed, load_facts
from pipeline.predict import predict
from pipeline.workflow import run
from tests.conftest import Silent, write_config

MAX_ITEMS = 4
FEATURES = {
    "item_id": {"kind": "categorical"},
    "clicked": {"kind": "categorical", "column": "click", "past_only": True},
    "seen": {"kind": "history", "of": ["item_id", "clicked"], "events": "all", "time_gap": True,
             "max_items": MAX_ITEMS, "gap_s": 5.0},
}  # fmt: skip
STRANGE = [0, 1, 2**30 - 1, 2**30, 2**63 - 1, -1, -(2**63) + 1, None]


@pytest.fixture(scope="module")
def result(small_log, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gaps")
    changes = {"data.files": str(small_log), "features": FEATURES, "train.epochs": 1}
    return run(write_config(folder / "c.yaml", changes), folder / "runs", progress=Silent())


@pytest.fixture(scope="module")
def log(small_log):
    return pd.read_csv(small_log)


def past_of(log, event):
    past = log[(log["user_id"] == event["user_id"]) & (log["time"] < event["time"] - 5)]
    return past.sort_values(["time", "item_id", "click", "impression_id"])


def test_encoded_histories_are_what_pandas_computes(result, log):
    dataset = Path(result["run_dir"]) / "dataset"
    vocabulary = pq.read_table(dataset / "features" / "vocabularies" / "clicked.parquet")
    ids = {value: 3 + i for i, value in enumerate(vocabulary["value"].to_pylist())}
    assert set(ids) == {"0", "1"}
    for part in ("train", "test"):
        rows = pd.read_parquet(dataset / part).set_index("row_id")
        assert "clicked" not in rows.columns
        for row in rows.index[:150]:
            past = past_of(log, log.loc[row])[-MAX_ITEMS:]
            gaps = [int(seconds).bit_length() for seconds in log["time"][row] - past["time"]]
            assert list(rows["seen_gap"][row]) == [2 + min(gap, 31) for gap in gaps]
            assert list(rows["seen_clicked"][row]) == [ids[str(c)] for c in past["click"]]


def test_only_clicks_before_training_rows_make_the_vocabulary(result, log):
    dataset = Path(result["run_dir"]) / "dataset"
    training = log.loc[pq.read_table(dataset / "train")["row_id"].to_pylist()]
    newest = log["user_id"].map(training.groupby("user_id")["time"].max())
    expected = log[log["time"] < newest - 5]["click"].astype(str).value_counts()
    found = pq.read_table(dataset / "features" / "vocabularies" / "clicked.parquet").to_pandas()
    assert dict(zip(found["value"], found["count"], strict=True)) == expected.to_dict()


def test_parity_rows_have_the_gaps_of_the_log_and_strange_ones(result, log):
    parity = Path(result["run_dir"]) / "dataset" / "parity"
    raw = pq.read_table(parity / "raw.parquet").sort_by("_row").to_pylist()
    encoded = pq.read_table(parity / "encoded.parquet").sort_by("row_id").to_pylist()
    for row in raw:
        if row["_row"] < len(log):
            event = log.loc[row["_row"]]
            times = past_of(log, event)["time"][-2 * MAX_ITEMS :]
            assert row["seen_gap"] == list(event["time"] - times)
    strange, ids = raw[-len(STRANGE) :], encoded[-len(STRANGE) :]
    assert [set(row["seen_gap"]) for row in strange] == [{seconds} for seconds in STRANGE]
    assert [set(row["seen_gap"]) for row in ids] == [{i} for i in (2, 3, 32, 33, 33, 2, 2, 1)]
    assert all(len(row["seen_gap"]) == len(row["seen_item_id"]) > MAX_ITEMS for row in strange)


def test_the_served_model_takes_whole_seconds_and_no_click(result):
    published = json.loads((Path(result["run_dir"]) / "export.json").read_text(encoding="utf-8"))
    assert published["facts"]["parity"]["max_abs_diff"] <= 1e-6
    serve = tf.saved_model.load(result["export"]).signatures["serving_default"]
    signature = serve.structured_input_signature[1]
    found = {name: (spec.dtype.name, spec.shape.rank) for name, spec in signature.items()}
    assert found == {
        "item_id": ("string", 1),
        "seen_item_id": ("string", 2),
        "seen_clicked": ("string", 2),
        "seen_gap": ("int64", 2),
        "seen_length": ("int32", 1),
    }
    parity = Path(result["run_dir"]) / "dataset" / "parity" / "raw.parquet"
    inputs = feed(pq.read_table(parity), signature, load_facts(Path(result["export"]))["lengths"])
    last = {name: np.repeat(array[-1:], 4, axis=0) for name, array in inputs.items()}
    last["seen_gap"][:] = np.array([[0], [1], [2], [3]])
    scores = serve(**{name: tf.constant(array) for name, array in last.items()})["score"].numpy()
    assert len(set(scores)) == 3
    assert scores[2] == scores[3], "2 and 3 seconds are one bucket"


def test_rows_without_the_column_are_scored_by_a_past_that_has_it(result, log, tmp_path):
    log.iloc[:2500].to_csv(tmp_path / "past.csv", index=False)
    log.iloc[2500:].drop(columns="click").to_csv(tmp_path / "new.csv", index=False)
    log.to_csv(tmp_path / "log.csv", index=False)
    whole, new = tmp_path / "whole.parquet", tmp_path / "new.parquet"
    bundle = Path(result["export"])
    predict(bundle, [str(tmp_path / "log.csv")], whole, Silent())
    predict(bundle, [str(tmp_path / "new.csv")], new, Silent(), [str(tmp_path / "past.csv")])
    scores = pd.read_parquet(whole)["score"]
    offline = pd.read_parquet(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")
    np.testing.assert_allclose(scores[offline["row_id"]], offline["score"], atol=1e-6)
    # the first new row of each user has the same past both times
    first = log.iloc[2500:].drop_duplicates("user_id").index
    first = [row for row in first if not (past_of(log, log.loc[row]).index >= 2500).any()]
    assert len(first) > 20
    found = pd.read_parquet(new)["score"].to_numpy()[np.array(first) - 2500]
    np.testing.assert_allclose(found, scores[first], atol=1e-6)
