# SPDX-License-Identifier: Apache-2.0
"""Stage 3: score validation and test rows, keep the predictions, compute exact metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.schema import LABEL, WEIGHT
from pipeline.batches import parquet_files
from pipeline.errors import InputRejected
from pipeline.metrics import evaluate as compute_metrics
from pipeline.pair_weights import pair_weights
from pipeline.runs import Run, Stage, build_stage, code_fingerprint, fingerprint_of, write_json
from pipeline.score import Scorer, carried, score_batches
from pipeline.trained_model import load_best, load_schema

PARTS = ("valid", "test")
_TYPES = {
    "row_id": pa.int64(),
    "label": pa.int8(),
    "weight": pa.float32(),
    "score": pa.float32(),
}
"""Of prediction columns; keys and groups are text."""


def evaluate(run: Run, trained: Stage) -> Stage:
    """Build `evaluate/` for a run: predictions, `metrics.json`, `pair_weights.json` if any."""
    relevant = {"evaluate": run.config.evaluate, "keys": run.config.keys}
    fingerprint = fingerprint_of(relevant, trained.fingerprint, code_fingerprint())
    return build_stage(run, run.evaluate, fingerprint, lambda folder: _evaluate(run, folder))


def require_defined(run: Run) -> None:
    """Check that the metrics which the config asks for are defined on the run's rows.

    It is called before training, as scores do not decide it: labels, weights and groups do.

    Raises:
        InputRejected: One is undefined; the message gives the reason.
    """
    asked = {"valid": (run.config.train.monitor,), "test": run.config.evaluate.metrics or ()}
    options = {"valid": "train.monitor", "test": "evaluate.metrics"}
    for part, names in asked.items():
        if part == "valid" and names != ("gauc",):  # ingest saw to both labels
            continue
        reasons = _undefined(run, part) if names else {}
        missing = "; ".join(f"{name}: {reasons[name]}" for name in names if name in reasons)
        if missing:
            raise InputRejected(
                f"{part} rows: {options[part]} asks for what is undefined: {missing}. Ask for "
                "another metric, or check split, label, weight and evaluate.group"
            )


def _undefined(run: Run, part: str) -> dict[str, str]:
    """Return by metric why the rows of a part leave it undefined, whatever their scores."""
    columns = carried(run.config)
    table = pa.concat_tables(
        pq.read_table(path, columns=columns) for path in parquet_files(run.dataset / part)
    )
    labels, weights = (table[name].to_numpy() for name in (LABEL, WEIGHT))
    groups = table["group"].combine_chunks() if "group" in columns else None
    found = compute_metrics(labels, np.full(len(labels), 0.5), weights, groups)
    return dict(found["undefined"])


def _evaluate(run: Run, folder: Path) -> dict[str, Any]:
    schema = load_schema(run)
    model = load_best(run, schema)
    scorer = Scorer(model, schema, run.config.train.batch_size, run.config.train.xla)
    (folder / "predictions").mkdir(exist_ok=True)
    metrics = {}
    for part in PARTS:
        metrics[part] = _evaluate_part(
            run, scorer, part, folder / "predictions" / f"{part}.parquet"
        )
        shown = {key: metrics[part][key] for key in ("rows", "auc", "gauc", "log_loss")}
        run.progress.event("evaluated", part=part, **shown)
    write_json(folder / "metrics.json", metrics)
    facts: dict[str, Any] = {"metrics": metrics}
    if weights := pair_weights(model, schema, run.dataset / "test"):
        write_json(folder / "pair_weights.json", weights)
        facts["pair_weights"] = weights
    return facts


def _evaluate_part(run: Run, scorer: Scorer, part: str, path: Path) -> dict[str, Any]:
    config = run.config
    columns = ["row_id", *carried(config), *(f"key:{column}" for column in config.keys)]
    kept: dict[str, list[np.ndarray]] = {name: [] for name in (*carried(config), "score")}
    # fixed, for a batch may hold nothing but nulls
    names = [*columns, "score"]
    schema = pa.schema([(n.removeprefix("key:"), _TYPES.get(n, pa.string())) for n in names])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch, scores in score_batches(scorer, run.dataset / part, columns):
            values = [*(batch[name] for name in columns), scores]
            writer.write_table(pa.table(values, schema=schema))
            for name, parts in kept.items():
                parts.append(scores if name == "score" else batch[name])
    arrays = {name: np.concatenate(parts) for name, parts in kept.items()}
    return compute_metrics(
        arrays["label"],
        arrays["score"],
        arrays["weight"],
        arrays.get("group"),
        bins=config.evaluate.bins,
    )
