# SPDX-License-Identifier: Apache-2.0
"""Stage 3: score validation and test rows, keep the predictions, compute exact metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
