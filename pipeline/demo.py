# SPDX-License-Identifier: Apache-2.0
"""The demonstration: a generated log, a whole run on it, and a small table of what came out."""

import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipeline.planted import generate_log
from pipeline.progress import Progress
from pipeline.synth_files import best_possible

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "quickstart.yaml"

BASELINES = {
    "fm": "model={kind: fm, features: [item_id, category, device, city, position, price, hour]}",
    "base": "model={kind: base}",
}
"""Models that the demo trains beside DIN: without the history, and with it pooled alike."""


def run_demo(runs: Path, data: Path, progress: Progress) -> dict[str, Any]:
    """Generate the log if it is not there, run the quickstart config, print a table."""
    events = data / "events.csv"
    if not events.exists():
        facts = generate_log(data)
        progress.event("synth", events=str(events), click_rate=facts["click_rate"])
    from pipeline.workflow import run

    files = f"data.files={events}"
    others = [
        run(CONFIG, runs, [files, model], run_id=kind, until="evaluate", progress=progress)
        for kind, model in BASELINES.items()
    ]
    compare = [other["run_dir"] for other in others]
    result = run(CONFIG, runs, [files], compare=compare, progress=progress)
    test = pq.read_table(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")
    best = best_possible(
        data / "truth.parquet", test["impression_id"].to_numpy().astype(int), test["label"]
    )
    result["best_possible"] = {"auc": best.auc, "log_loss": best.log_loss}
    sys.stdout.write(_table(result, others))
    return result


def _table(result: dict[str, Any], others: list[dict[str, Any]]) -> str:
    test, best = result["metrics"]["test"], result["best_possible"]
    speed = result["train_examples_per_s"]
    way = (test["auc"] - 0.5) / (best["auc"] - 0.5)
    beside = [
        (f"  {kind}", f"{other['metrics']['test']['auc']:.4f}", "the same rows")
        for kind, other in zip(BASELINES, others, strict=True)
    ]
    rows = [
        (
            "test AUC, din",
            f"{test['auc']:.4f}",
            f"best possible {best['auc']:.4f}: {way:.0%} of the way",
        ),
        *beside,
        ("test GAUC", f"{test['gauc']:.4f}", "within users, by impressions"),
        ("test log loss", f"{test['log_loss']:.4f}", f"best {best['log_loss']:.4f}"),
        ("calibration", f"{test['calibration']:.3f}", "predicted / observed clicks"),
        ("training", f"{speed:,.0f}" if speed else "–", "rows/s"),
        ("served - offline", f"{result['parity_max_abs_diff']:.1e}", "largest difference"),
        ("report", result["report"], ""),
        ("bundle", result["export"], ""),
    ]
    return "".join(f"{name:18}{value:>12}  {note}".rstrip() + "\n" for name, value, note in rows)
