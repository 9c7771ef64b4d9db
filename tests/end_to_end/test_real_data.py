"""MovieLens-100K from files to a bundle; needs CLICKLOOM_DATA, the folder of the data sets."""

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
