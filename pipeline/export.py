# SPDX-License-Identifier: Apache-2.0
"""Stage 4: write the served model aside, prove it on real rows, publish it as a new version."""

import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from features.graph import FeatureGraph
from features.schema import FeatureSchema
from features.space import FeatureSpace
from pipeline.batches import read_batches
from pipeline.bundle import SCORE, ServedModel, feed, load_facts, save_bundle, to_examples
from pipeline.config import RunConfig
from pipeline.errors import GateFailed
from pipeline.rows import null_rule
from pipeline.runs import (
    Run,
    Stage,
    code_fingerprint,
    damaged,
    file_sums,
    fingerprint_of,
    locked,
    read_json,
    write_json,
)
from pipeline.score import Scorer
from pipeline.trained_model import load_best, load_schema

_SMALL_BATCHES = {1: 20, 32: 4}
"""Batch sizes that a few batches are also served in: serving rarely sees full ones."""


def export(run: Run, trained: Stage, evaluated: Stage) -> Stage:
    """Publish `<export>/<version>/` for a run, or find that it is published.

    Raises:
        GateFailed: A test metric misses its gate, or a served score differs from the offline one.
            Nothing is published; older versions stay as they are.
    """
    gates = check_gates(run.config, evaluated.facts["metrics"]["test"])
    missed = [gate for gate in gates if not gate["passed"]]
    if missed:
        raise GateFailed("\n".join(_explain(gate) for gate in missed))
    published = standing_export(run, trained, evaluated)
    if published:
        run.progress.event("export", status="up to date", version=published.facts["version"])
        return published
    started = time.monotonic()
    with locked(run.export):
        facts, aside = _prove(run, gates)
        seconds = round(time.monotonic() - started, 3)
        fingerprint = _fingerprint(run, trained, evaluated)
        record = {"fingerprint": fingerprint, "facts": facts, "seconds": seconds}
        # first, so that after a kill a version without a record is not published once more; a
        # record without its version is as none
        write_json(_record(run), record | {"files": file_sums(aside)})
        aside.rename(facts["path"])
        for old in versions(run.export)[: -run.config.export.keep]:
            shutil.rmtree(run.export / str(old))
    run.progress.event("export", status="done", **{k: facts[k] for k in ("version", "parity")})
    return Stage(fingerprint, facts, seconds, reused=False)


def standing_export(run: Run, trained: Stage, evaluated: Stage) -> Stage | None:
    """Return the version that is published from exactly these stages, or None."""
    try:
        published = read_json(_record(run))
        path = run.export / str(published["facts"]["version"])
        if published["fingerprint"] != _fingerprint(run, trained, evaluated):
            return None
        if damaged(path, published["files"]):
            return None
        facts = published["facts"] | {"path": str(path)}
        return Stage(published["fingerprint"], facts, published["seconds"], reused=True)
    except (OSError, ValueError, KeyError, TypeError):  # no record, or a damaged one
        return None


def _record(run: Run) -> Path:
    return run.folder / "export.json"  # not in the export folder, which runs may share


def _fingerprint(run: Run, trained: Stage, evaluated: Stage) -> str:
    built_from = (trained.fingerprint, evaluated.fingerprint, code_fingerprint())
    return fingerprint_of({"export": run.config.export}, *built_from)


def check_gates(config: RunConfig, metrics: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Compare test metrics with the config's gates; an undefined metric never passes."""
    gates = []
    for name, gate in config.evaluate.gates.items():
        value = metrics[name]
        limits = [f"at least {gate.min:g}"] if gate.min is not None else []
        limits += [f"at most {gate.max:g}"] if gate.max is not None else []
        passed = value is not None and (gate.min is None or value >= gate.min)
        passed = passed and (gate.max is None or value <= gate.max)
        reason = metrics["undefined"].get(name)
        gates.append(
            {"name": name, "value": value, "limit": " and ".join(limits), "passed": passed,
             "reason": reason}
        )  # fmt: skip
    return gates


def _explain(gate: Mapping[str, Any]) -> str:
    value = "undefined" if gate["value"] is None else f"{gate['value']:.6g}"
    reason = f" ({gate['reason']})" if gate["reason"] else ""
    return f"test {gate['name']} is {value}{reason}, the gate asks for {gate['limit']}"


def _prove(run: Run, gates: list[dict[str, Any]]) -> tuple[dict[str, Any], Path]:
    """Write the next version aside; return facts about it and where it is, if it proves right."""
    run.export.mkdir(parents=True, exist_ok=True)
    aside = run.export / ".partial"
    shutil.rmtree(aside, ignore_errors=True)
    shutil.rmtree(run.export / ".vocabularies", ignore_errors=True)
    schema = load_schema(run)
    model = load_best(run, schema)
    _write(run, model, schema, aside)
    parity = check_parity(run, model, schema, aside)
    if not parity["max_abs_diff"] <= parity["limit"]:
        shutil.rmtree(aside)
        raise GateFailed(
            f"a served score differs from the offline one by {parity['max_abs_diff']:.3g} "
            f"(row {parity['worst_row']} of dataset/parity), the limit is {parity['limit']:.3g}; "
            "nothing is published"
        )
    version = max([0, *versions(run.export)]) + 1
    target = run.export / str(version)
    return {"version": version, "path": str(target), "parity": parity, "gates": gates}, aside


def versions(folder: Path) -> list[int]:
    """Return the published versions in a folder, oldest first."""
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal())


def _write(run: Run, model: Any, schema: FeatureSchema, folder: Path) -> None:
    config = run.config
    space = FeatureSpace.load(run.dataset / "features")
    vocabularies = folder.with_name(".vocabularies")
    vocabularies.mkdir()
    served = ServedModel(FeatureGraph(space, schema, null_rule(config), vocabularies), model)
    facts = {
        "run": run.title,
        "config": config.model_dump(mode="json"),
        "inputs": {
            name: {"dtype": spec.dtype.name, "shape": [None] * len(spec.shape)}
            for name, spec in served.graph.signature().items()
        },
        "lengths": served.graph.lengths(),
        "missing": {"string": "", "int64": int(tf.int64.min), "float32": "NaN"},
    }
    save_bundle(served, folder, facts)
    shutil.rmtree(vocabularies)


def check_parity(run: Run, model: Any, schema: FeatureSchema, bundle: Path) -> dict[str, Any]:
    """Score the parity rows offline and through the bundle, by both signatures.

    Returns:
        {"rows", "max_abs_diff", "limit", "worst_row"}.
    """
    parity = run.dataset / "parity"
    scorer = Scorer(model, schema, run.config.train.batch_size, run.config.train.xla)
    batches = read_batches(parity, schema, scorer.batch_size, carry=(), pattern="encoded.parquet")
    offline = np.concatenate([scorer(batch) for batch in batches])
    raw = pq.read_table(parity / "raw.parquet")
    loaded = tf.saved_model.load(str(bundle))
    differences = np.zeros(len(offline))
    for rows, scores in _served_scores(loaded, raw, load_facts(bundle)["lengths"]):
        found = np.abs(scores.astype(np.float64) - offline[rows])
        # a score that is not a number must fail the check, and NaN compares false
        found = np.where(np.isnan(found), np.inf, found)
        differences[rows] = np.maximum(differences[rows], found)
    worst = int(np.argmax(differences))
    return {
        "rows": len(offline),
        "max_abs_diff": float(differences[worst]),
        "limit": run.config.export.parity_limit,
        "worst_row": worst,
    }


def _served_scores(
    loaded: Any, raw: pa.Table, lengths: Mapping[str, str]
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield (rows, scores) by both signatures and by several batch sizes."""
    by_name = loaded.signatures["serving_default"]
    by_example = loaded.signatures["serve_examples"]
    signature = by_name.structured_input_signature[1]

    def serve(start: int, size: int) -> Iterator[tuple[slice, np.ndarray]]:
        table = raw.slice(start, size)
        rows = slice(start, start + len(table))
        tensors = {k: tf.constant(v) for k, v in feed(table, signature, lengths).items()}
        yield rows, by_name(**tensors)[SCORE].numpy()
        examples = tf.constant(to_examples(table, signature), tf.string)
        yield rows, by_example(examples=examples)[SCORE].numpy()

    yield from serve(0, len(raw))
    for size, count in _SMALL_BATCHES.items():
        for start in range(0, min(len(raw), size * count), size):
            yield from serve(start, size)
