# SPDX-License-Identifier: Apache-2.0
"""The rows that prove a served model, as ingest keeps them: raw and encoded, same order."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.workflow import run
from tests.conftest import Silent, write_config

COUNT = 60


@pytest.fixture(scope="module")
def kept(small_log, tmp_path_factory):
    """The log, and what ingest kept: (log, raw rows, encoded rows, test rows)."""
    folder = tmp_path_factory.mktemp("parity")
    changes = {
        "data.files": str(small_log),
        "export.parity_rows": COUNT,
        "features.clicks.gap_s": 3600.0,
    }
    config = write_config(folder / "config.yaml", changes)
    run(config, folder / "runs", until="ingest", progress=Silent())
    dataset = folder / "runs" / "small" / "main" / "dataset"
    raw = pq.read_table(dataset / "parity" / "raw.parquet").to_pandas()
    encoded = pq.read_table(dataset / "parity" / "encoded.parquet").to_pandas()
    test = pq.read_table(dataset / "test").to_pandas().set_index("row_id")
    return pd.read_csv(small_log), raw, encoded.set_index("row_id"), test


def test_both_sides_hold_the_same_rows_in_the_same_order(kept):
    log, raw, encoded, test = kept
    assert list(raw["_row"]) == list(encoded.index)
    assert list(raw["_row"]) == sorted(raw["_row"])
    real = encoded.index[encoded.index < len(log)]
    assert len(real) == COUNT
    assert set(real) <= set(test.index)
    assert len(encoded) - len(real) == COUNT // 4


def test_real_rows_are_encoded_as_in_the_test_part(kept):
    log, _, encoded, test = kept
    for row in encoded.index[encoded.index < len(log)]:
        for name in encoded.columns:
            np.testing.assert_array_equal(encoded[name][row], test[name][row], err_msg=name)


def test_raw_values_are_those_of_the_log(kept):
    log, raw, *_ = kept
    real = raw[raw["_row"] < len(log)].set_index("_row")
    source = log.loc[real.index]
    for name in ("item_id", "category", "city", "position", "hour"):
        column = source["time" if name == "hour" else name]
        expected = column.astype(object).where(column.notna(), None)
        found = real[name].astype(object).where(real[name].notna(), None)
        assert list(found) == list(expected), name
    np.testing.assert_allclose(real["price"], source["price"], rtol=1e-6)


def test_raw_histories_hold_more_than_the_model_keeps_newest_last(kept):
    log, raw, *_ = kept
    longest = 0
    for row in raw[raw["_row"] < len(log)].itertuples():
        event = log.loc[row._1]
        past = log[(log["user_id"] == event["user_id"]) & (log["click"] == 1)]
        past = past[past["time"] < event["time"] - 3600].sort_values(["time", "item_id"])
        assert list(row.clicks_item_id) == list(past["item_id"][-10:])
        assert list(row.clicks_category) == list(past["category"][-10:])
        longest = max(longest, len(row.clicks_item_id))
    assert longest > 5, "the served model must have something to cut"


def test_rows_with_missing_and_unknown_values_come_first(kept):
    log, _, encoded, test = kept
    names = ("item_id", "category", "city", "position")
    strange = sum((test[name] < 3).astype(int) for name in names)
    chosen = strange.loc[encoded.index[encoded.index < len(log)]]
    hardest = strange.sort_values(ascending=False)[: COUNT // 2]
    assert sorted(chosen, reverse=True)[: COUNT // 2] == list(hardest)


def test_copies_are_empty_unseen_huge_and_negative_and_nobody_is_behind_them(kept):
    log, raw, encoded, *_ = kept
    copies = raw[raw["_row"] >= len(log)]
    assert copies["clicks_item_id"].map(len).max() == 0
    assert copies["item_id"].isna().any()
    assert copies["item_id"].dropna().str.contains("☃").any()
    assert copies["price"].isna().any()
    assert (copies["price"] > 1e38).any()
    assert (copies["price"] < 0).any()
    assert (copies["position"] < 0).any()
    ids = encoded.loc[copies["_row"], "item_id"]
    assert set(ids) == {1, 2}
    assert np.isfinite(encoded["price"]).all()
