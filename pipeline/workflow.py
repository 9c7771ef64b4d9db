# SPDX-License-Identifier: Apache-2.0
"""A whole run: ingest, train, evaluate, export, report."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ruamel.yaml import YAML

from pipeline.config import FORMS, NAME, RunConfig
from pipeline.config_file import load_config
from pipeline.drift import check_drift
from pipeline.errors import ConfigError, PipelineError
from pipeline.evaluate import evaluate, require_defined
from pipeline.export import check_gates, export, standing_export
from pipeline.history_weights import choose_rows, show_histories
from pipeline.ingest import ingest
from pipeline.manifest import environment, write_manifest
from pipeline.memory import ModelMemory, describe_memory, require_memory
from pipeline.progress import JsonLines, Progress
from pipeline.report import render_report
from pipeline.runs import (
    Run,
    Stage,
    code_fingerprint,
    fingerprint_of,
    locked,
    read_json,
    require_writable,
    write_json,
    write_text,
)
from pipeline.termination import termination_checked
from pipeline.train import train
from pipeline.trained_model import load_schema

StageName = Literal["ingest", "train", "evaluate", "export"]
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
STAGES: tuple[StageName, ...] = ("ingest", "train", "evaluate", "export")
_RESULT_METRICS = ("auc", "gauc", "log_loss", "ne", "calibration")


def run(
    config: str | Path,
    runs: str | Path = "runs",
    overrides: Sequence[str] = (),
    *,
    date: str | None = None,
    run_id: str | None = None,
    until: StageName = "export",
    compare: Sequence[str | Path] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run a config's stages; those that are up to date are not run again.

    Args:
        config: YAML file.
        runs: Folder of all runs.
        overrides: `key.path=value` texts.
        date: Fills `{date}` in paths, and names the run.
        run_id: Name of the run's folder; the date, or `main`, when not given.
        until: Last stage to run.
        compare: Folders of finished runs whose metrics the report shows beside this one's.
        progress: Where to report to; JSON lines on stderr when not given.

    Returns:
        The result that the command line prints as its last line.

    Raises:
        PipelineError: One of its kinds, which says what went wrong; see `pipeline.errors`.
    """
    if date is not None and not _DATE.fullmatch(date):
        raise ConfigError(f"--date {date}: expected YYYY-MM-DD")
    if run_id is not None and not re.fullmatch(NAME, run_id):
        raise ConfigError(f"--run-id {run_id}: expected {FORMS[NAME]}")
    loaded = load_config(Path(config), overrides)
    others = [compared_row(Path(other)) for other in compare]
    folder = Path(runs) / loaded.name / (run_id or date or "main")
    require_writable(folder.parent, "--runs")
    with locked(folder.parent):
        folder.mkdir(parents=True, exist_ok=True)
        _write_config(loaded, folder / "config.yaml")
        this = Run(loaded, folder, progress or JsonLines(), date)
        return _run_stages(this, until, others)


def _run_stages(this: Run, until: StageName, others: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    stages: dict[str, Stage] = {}
    error: PipelineError | None = None
    try:
        _build(this, until, stages)
    except PipelineError as failure:
        error = failure
    if "evaluate" in stages:
        _write_report(this, stages, error, others)
    elif error:
        # a report of an earlier run would say that all is well
        for stale in (this.report, this.folder / "report.json"):
            stale.unlink(missing_ok=True)
    result = summarize(this, stages, error.status if error else "done")
    write_manifest(this, stages, {"result": result, "error": str(error) if error else None})
    if error:
        error.result = result
        raise error
    return result


def _build(this: Run, until: StageName, stages: dict[str, Stage]) -> None:
    """Build stage after stage into `stages`, so that a failure leaves what was reached."""
    memory, _, facts = describe_memory(this.config)
    this.progress.event("model", **facts)
    if until == "export" and this.config.export.directory:
        require_writable(this.export, "export.directory")
    stages["ingest"] = ingest(this)
    profile = this.dataset / "profile.json"
    check_drift(this.config.drift, read_json(profile), profile)
    if until == "ingest":
        return
    require_model_memory(this, memory)
    require_defined(this)
    chosen = choose_rows(this)
    with termination_checked():
        stages["train"] = train(this, stages["ingest"])
    if until == "train":
        return
    stages["evaluate"] = evaluate(this, stages["train"])
    if chosen:
        stages["history_weights"] = show_histories(this, chosen, stages["evaluate"])
    if until == "export":
        stages["export"] = export(this, stages["train"], stages["evaluate"])
    elif standing := standing_export(this, stages["train"], stages["evaluate"]):
        stages["export"] = standing


def require_model_memory(this: Run, least: ModelMemory) -> None:
    """Check that the model on the fitted features may be built, and say how large it is.

    Args:
        this: The run.
        least: What the model takes with the smallest tables.

    Raises:
        ConfigError: It takes more memory than the config allows.
    """
    memory = least.on(load_schema(this))
    require_memory(memory, this.config.engine.max_model_memory, this.config.features)
    this.progress.event("model", **memory.facts())


def summarize(this: Run, stages: dict[str, Stage], status: str) -> dict[str, Any]:
    """Return the result line of a run."""
    metrics = stages["evaluate"].facts["metrics"] if "evaluate" in stages else {}
    published = stages["export"].facts if "export" in stages else None
    return {
        "run": this.title,
        "run_dir": str(this.folder),
        "status": status,
        "rows": stages["ingest"].facts["rows"] if "ingest" in stages else None,
        "metrics": {
            part: {name: found[name] for name in _RESULT_METRICS} for part, found in metrics.items()
        },
        "report": str(this.report) if "evaluate" in stages else None,
        "export": published["path"] if published else None,
        "parity_max_abs_diff": published["parity"]["max_abs_diff"] if published else None,
        "train_examples_per_s": stages["train"].facts["examples_per_s"]
        if "train" in stages
        else None,
    }


def _write_config(config: RunConfig, path: Path) -> None:
    document = config.model_dump(mode="json")
    aside = path.with_name(f".{path.name}.partial")
    YAML().dump(document, aside)  # keeps the order of features, on which initial weights depend
    aside.replace(path)


def report_facts(
    this: Run,
    stages: dict[str, Stage],
    error: PipelineError | None,
    others: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Gather what the report shows; nothing is computed here."""
    ingested, trained = stages["ingest"].facts, stages["train"].facts
    published = stages["export"].facts if "export" in stages else {}
    facts = {
        "run": this.title,
        "run_dir": str(this.folder),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "status": error.status if error else "done",
        "verdict": verdict(stages, error),
        "model": {
            "kind": this.config.model["kind"],
            "parameters": trained["parameters"],
            "tables": trained["tables"],
        },
        "rows": ingested["rows"],
        "split": ingested["split"],
        "metrics": stages["evaluate"].facts["metrics"],
        "group": this.config.group_column,
        "pair_weights": stages["evaluate"].facts.get("pair_weights"),
        "history_weights": stages["history_weights"].facts if "history_weights" in stages else None,
        "training": trained,
        "profile": read_json(this.dataset / "profile.json"),
        "fingerprints": {
            "data": ingested["data_fingerprint"],
            "config": fingerprint_of(this.config),
            "code": code_fingerprint(),
        },
        "environment": environment(),
        "config_yaml": (this.folder / "config.yaml").read_text(encoding="utf-8"),
    }
    if published:
        facts["parity"] = published["parity"]
    facts["gates"] = check_gates(this.config, stages["evaluate"].facts["metrics"]["test"])
    if others:
        facts["comparison"] = [comparison_row(facts), *others]
    return facts


def comparison_row(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the report's comparison shows of one run."""
    test = facts["metrics"]["test"]
    shown = {key: test[key] for key in ("rows", "auc", "gauc", "log_loss", "ne", "calibration")}
    kind, data = facts["model"]["kind"], facts["fingerprints"]["data"]
    return {"run": facts["run"], "model": kind, **shown, "data": data[:12]}


def compared_row(run_dir: Path) -> dict[str, Any]:
    """Return what the report's comparison shows of a finished run, from its `report.json`.

    Raises:
        ConfigError: There is no report, or it cannot be read.
    """
    path = run_dir / "report.json"
    try:
        return comparison_row(read_json(path))
    except OSError as error:
        raise ConfigError(
            f"--compare {run_dir}: report.json: {error.strerror}; expected the folder of a "
            "finished run"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"--compare {run_dir}: report.json is no report of a finished run; run it again, or "
            "leave it out"
        ) from error


def verdict(stages: dict[str, Stage], error: PipelineError | None) -> str:
    """Say in one sentence what came of the run."""
    if error:
        return f"Not published: {error}"
    if "export" not in stages:
        return "Evaluated, not exported."
    facts = stages["export"].facts
    return (
        f"Published as version {facts['version']}: served and offline scores of "
        f"{facts['parity']['rows']} rows differ by at most {facts['parity']['max_abs_diff']:.2g}."
    )


def _write_report(
    this: Run,
    stages: dict[str, Stage],
    error: PipelineError | None,
    others: Sequence[Mapping[str, Any]],
) -> None:
    facts = report_facts(this, stages, error, others)
    write_json(this.folder / "report.json", facts)
    write_text(this.report, render_report(facts))
