"""Real data from files to a bundle; needs CLICKLOOM_DATA, the folder of the data sets."""

import gzip
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import tensorflow as tf
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from pipeline import run
from pipeline.bundle import feed, load_facts
from tests.conftest import Silent

ROOT = Path(__file__).parent.parent.parent
pytestmark = [
    pytest.mark.slow,
    pytest.mark.end_to_end,
    pytest.mark.skipif("CLICKLOOM_DATA" not in os.environ, reason="CLICKLOOM_DATA is not set"),
]


@pytest.mark.parametrize("model", ["fm", "din"])
def test_movielens_runs_to_a_bundle_that_gives_the_offline_scores(model, tmp_path):
    config = ROOT / "configs" / f"movielens_{model}.yaml"
    result = run(config, tmp_path / "runs", ["train.epochs=2"], progress=Silent())
    assert sum(result["rows"].values()) == 100_000
    run_dir = Path(result["run_dir"])
    stored = pd.read_parquet(run_dir / "evaluate" / "predictions" / "test.parquet")
    recomputed = roc_auc_score(stored["label"], stored["score"])
    assert result["metrics"]["test"]["auc"] == pytest.approx(recomputed, abs=1e-9)
    assert recomputed > 0.65
    assert result["parity_max_abs_diff"] <= 1e-6
    # moved elsewhere, loaded with TensorFlow alone
    raw = pq.read_table(run_dir / "dataset" / "parity" / "raw.parquet")
    moved = tmp_path / "moved"
    shutil.move(result["export"], moved)
    shutil.rmtree(run_dir)
    serve = tf.saved_model.load(str(moved)).signatures["serving_default"]
    inputs = feed(raw, serve.structured_input_signature[1], load_facts(moved)["lengths"])
    np.savez(
        tmp_path / "inputs.npz",
        **{k: v.astype("S") if v.dtype == object else v for k, v in inputs.items()},
    )
    script = (
        "import numpy as np, tensorflow as tf\n"
        f"serve = tf.saved_model.load({str(moved)!r}).signatures['serving_default']\n"
        f"inputs = np.load({str(tmp_path / 'inputs.npz')!r})\n"
        "scores = serve(**{n: tf.constant(inputs[n]) for n in inputs.files})['score'].numpy()\n"
        f"np.save({str(tmp_path / 'scores.npy')!r}, scores)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", script], cwd=tmp_path, check=True)
    # raw rows that are real test rows carry their row number
    scores = pd.Series(np.load(tmp_path / "scores.npy"), index=raw["_row"].to_numpy())
    offline = stored.set_index("row_id")["score"]
    both = scores.index.intersection(offline.index)
    assert len(both) >= 1000
    np.testing.assert_allclose(scores[both], offline[both], atol=1e-6)


def test_a9a_in_two_spellings_is_what_another_reader_reads(tmp_path):
    config = ROOT / "configs" / "a9a_lr.yaml"
    result = run(config, tmp_path / "runs", progress=Silent())
    # LIBSVM's page gives 32,561 and 16,281 rows
    assert result["rows"]["train"] + result["rows"]["valid"] == 32_561
    assert result["rows"]["test"] == 16_281
    assert result["metrics"]["test"]["auc"] >= 0.902
    # scikit-learn's regression of the same columns; the test file has no values, so it gets some
    folder = Path(os.environ["CLICKLOOM_DATA"]) / "formats"
    rows, labels = load_svmlight_file(str(folder / "libsvm_a9a_train.txt.gz"), n_features=124)
    with gzip.open(folder / "dummy_a9a_test.txt.gz", "rt") as file:
        lines = [line.split() for line in file]
    spelled = (" ".join([label, *(f"{int(i) + 1}:1" for i in ids)]) for label, *ids in lines)
    test_file = io.BytesIO("\n".join(spelled).encode())
    test_rows, test_labels = load_svmlight_file(test_file, n_features=124)
    judge = LogisticRegression(max_iter=1000).fit(rows, labels)
    best = roc_auc_score(test_labels, judge.decision_function(test_rows))
    assert result["metrics"]["test"]["auc"] == pytest.approx(best, abs=0.002)
    stored = pd.read_parquet(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")
    np.testing.assert_array_equal(stored.sort_values("row_id")["label"], test_labels > 0)


def test_frappe_by_position_is_what_its_lines_say(tmp_path):
    result = run(ROOT / "configs" / "frappe_fm.yaml", tmp_path / "runs", ["train.epochs=1"],
                 progress=Silent())  # fmt: skip
    assert result["rows"] == {"train": 202_027, "valid": 57_722, "test": 28_860}
    assert result["parity_max_abs_diff"] <= 1e-6
    dataset = Path(result["run_dir"]) / "dataset"
    lines = {}
    for part, name in (("train", "train.reconstructed"), ("test", "test")):
        path = Path(os.environ["CLICKLOOM_DATA"]) / "frappe" / f"frappe.{name}.libfm.gz"
        with gzip.open(path, "rt") as file:
            lines[part] = [line.split() for line in file]
    columns = ["user", "item", "daytime", "weekday", "isweekend", "homework", "cost", "weather",
               "country", "city"]  # fmt: skip
    table = pd.read_parquet(dataset / "test").sort_values("row_id")
    assert table["label"].tolist() == [int(line[0] == "1") for line in lines["test"]]
    for place, column in enumerate(columns, start=1):
        vocabulary = pq.read_table(dataset / "features" / "vocabularies" / f"{column}.parquet")
        known = {line[place].split(":")[0] for line in lines["train"]}
        assert set(vocabulary["value"].to_pylist()) == known
        # values by falling count, ties by value, from id 3
        ids = {value: i for i, value in enumerate(vocabulary["value"].to_pylist(), start=3)}
        wanted = [ids.get(line[place].split(":")[0], 2) for line in lines["test"]]
        assert table[column].tolist() == wanted
