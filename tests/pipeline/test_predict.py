import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError, InputRejected
from pipeline.predict import predict
from pipeline.workflow import run
from tests.conftest import Silent, copy_stages, write_config


def scored(small_run, files, output, past=()):
    _, result, _ = small_run
    facts = predict(
        Path(result["export"]), [str(f) for f in files], output, Silent(), [str(p) for p in past]
    )
    assert facts["rows"] == pq.read_metadata(output).num_rows
    return pd.read_parquet(output)


def test_scoring_the_log_gives_the_offline_scores(small_run, small_log, tmp_path):
    _, result, _ = small_run
    found = scored(small_run, [small_log], tmp_path / "out.parquet")
    assert list(found.columns) == ["row", "impression_id", "score"]
    assert found["row"].tolist() == list(range(len(found)))
    log = pd.read_csv(small_log, dtype=str)
    assert (found["impression_id"] == log["impression_id"]).all()
    for part in ("valid", "test"):
        folder = Path(result["run_dir"]) / "evaluate" / "predictions"
        offline = pd.read_parquet(folder / f"{part}.parquet")
        served = found["score"].to_numpy()[offline["row_id"]]
        np.testing.assert_allclose(served, offline["score"], atol=1e-6)


def test_earlier_files_give_histories_but_are_not_scored(small_run, small_log, tmp_path):
    log = pd.read_csv(small_log, dtype=str, keep_default_na=False)
    log.iloc[:2500].to_csv(tmp_path / "past.csv", index=False)
    # tomorrow's rows have no clicks yet
    log.iloc[2500:].drop(columns="click").to_csv(tmp_path / "new.csv", index=False)
    whole = scored(small_run, [small_log], tmp_path / "whole.parquet")
    new = scored(
        small_run, [tmp_path / "new.csv"], tmp_path / "new.parquet", past=[tmp_path / "past.csv"]
    )
    assert new["impression_id"].tolist() == log["impression_id"].iloc[2500:].tolist()
    assert new["row"].tolist() == list(range(500))
    # rows whose user clicked nothing among the new rows have the same history both times
    clicked = set(log.iloc[2500:][log.iloc[2500:]["click"] == "1"]["user_id"])
    same = ~log["user_id"].iloc[2500:].isin(clicked).to_numpy()
    assert same.sum() > 20
    np.testing.assert_allclose(new["score"][same], whole["score"].iloc[2500:][same], atol=1e-6)


def test_a_file_that_is_scored_and_past_is_scored(small_run, small_log, tmp_path):
    log = pd.read_csv(small_log, dtype=str, keep_default_na=False)
    log.iloc[:2500].to_csv(tmp_path / "d1.csv", index=False)
    log.iloc[2500:].to_csv(tmp_path / "d2.csv", index=False)
    whole = scored(small_run, [small_log], tmp_path / "whole.parquet")
    found = scored(
        small_run, [tmp_path / "d2.csv"], tmp_path / "new.parquet", past=[tmp_path / "d*.csv"]
    )
    assert found["impression_id"].tolist() == log["impression_id"].iloc[2500:].tolist()
    assert found["row"].tolist() == list(range(500))
    np.testing.assert_allclose(found["score"], whole["score"].iloc[2500:], atol=1e-6)


def test_columns_of_features_that_the_model_leaves_out_may_be_missing(
    small_run, small_log, tmp_path
):
    _, result, _ = small_run
    features = ["item_id", "category", "price_missing", "hour", "clicks"]  # of price the flag alone
    config = write_config(
        tmp_path / "c.yaml",
        {
            "data.files": str(small_log),
            "name": "few",
            "train.epochs": 1,
            "model.features": features,
        },
    )
    copy_stages(result["run_dir"], tmp_path, "few", "dataset")
    bundle = Path(run(config, tmp_path, progress=Silent())["export"])
    log = pd.read_csv(small_log, dtype=str, keep_default_na=False)
    few = log[["impression_id", "user_id", "time", "click", "item_id", "category", "price"]]
    few.to_csv(tmp_path / "few.csv", index=False)
    for file, out in ((small_log, "all.parquet"), (tmp_path / "few.csv", "few.parquet")):
        predict(bundle, [str(file)], tmp_path / out, Silent())
    whole, found = (pd.read_parquet(tmp_path / out) for out in ("all.parquet", "few.parquet"))
    np.testing.assert_array_equal(found["score"], whole["score"])
    few.drop(columns="price").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(InputRejected, match=r"less\.csv: has no column 'price'"):
        predict(bundle, [str(tmp_path / "less.csv")], tmp_path / "less.parquet", Silent())


def test_a_second_prediction_replaces_the_first(small_run, small_log, tmp_path):
    first = scored(small_run, [small_log], tmp_path / "out.parquet")
    again = scored(small_run, [small_log], tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(first, again)
    assert [p.name for p in tmp_path.iterdir()] == ["out.parquet"]


def test_a_folder_that_is_no_bundle_is_refused(tmp_path):
    with pytest.raises(InputRejected, match=r"expected an exported version"):
        predict(tmp_path, ["x.csv"], tmp_path / "out.parquet", Silent())


def test_an_output_that_cannot_be_written_is_refused_before_scoring(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"--out: .*file: cannot be written to"):
        predict(tmp_path, ["x.csv"], tmp_path / "file" / "out.parquet", Silent())
    with pytest.raises(ConfigError, match="is a folder; name a file in it"):
        predict(tmp_path, ["x.csv"], tmp_path, Silent())
    for name in ("out.csv", "out.jsonl.gz"):
        with pytest.raises(ConfigError, match="scores are written as Parquet; name it so"):
            predict(tmp_path, ["x.csv"], tmp_path / name, Silent())


def test_what_histories_miss_is_said(small_run, small_log, tmp_path):
    _, result, _ = small_run
    new = tmp_path / "new.csv"
    pd.read_csv(small_log, dtype=str).iloc[2500:].drop(columns="click").to_csv(new, index=False)

    def warnings(*past):
        progress = Silent()
        predict(Path(result["export"]), [str(new)], tmp_path / "out.parquet", progress, past)
        return [fields["message"] for name, fields in progress.events if name == "warning"]

    unlabelled = f"{new}: has no column 'click'; its rows are no past events"
    assert warnings(str(small_log)) == [unlabelled]
    assert warnings() == [
        unlabelled,
        "no --past: the histories (clicks) hold only what these files hold; "
        "give the earlier files of the log",
    ]


@pytest.mark.parametrize("name", ["assets/*item_id*", "variables/*.data-*", "assets.extra/*.json"])
def test_a_version_that_was_cut_off_in_copying_gives_no_scores(
    small_run, small_log, tmp_path, name
):
    """A vocabulary that lost its end would make known items unknown, and scores wrong."""
    bundle = shutil.copytree(small_run[1]["export"], tmp_path / "1")
    (path,) = bundle.glob(name)
    path.write_bytes(path.read_bytes()[:-40])
    message = f"{path.relative_to(bundle)}: not as exported.*copy the version again"
    with pytest.raises(InputRejected, match=message):
        predict(bundle, [str(small_log)], tmp_path / "out.parquet", Silent())
    assert not (tmp_path / "out.parquet").exists()


def test_a_version_whose_facts_were_changed_gives_no_scores(small_run, small_log, tmp_path):
    bundle = shutil.copytree(small_run[1]["export"], tmp_path / "1")
    path = bundle / "assets.extra" / "clickloom.json"
    path.write_text(path.read_text().replace('"unit": "s"', '"unit": "h"'))
    with pytest.raises(InputRejected, match=r"assets\.extra/clickloom\.json: not as exported"):
        predict(bundle, [str(small_log)], tmp_path / "out.parquet", Silent())
