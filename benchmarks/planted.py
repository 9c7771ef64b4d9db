# SPDX-License-Identifier: Apache-2.0
"""Train the learner and the foil of every planted task, at full size, through the pipeline.

    python -m benchmarks.planted --out data/planted
    python -m benchmarks.planted --out data/planted --tasks order drift --impressions 20000

Prints, for each, the share of the way from 0.5 to the best AUC that any model can have on the same
test rows; the table of docs/generated_logs.md. Logs stay in the folder; a finished run is not
repeated.
"""

import argparse
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.planted import TASKS, generate_log
from pipeline.synth_files import best_possible
from pipeline.workflow import run


def way(
    folder: Path,
    task: str,
    model: str | None = None,
    impressions: int | None = None,
    options: Sequence[str] = (),
) -> float:
    """Return the share of the way to the best test AUC after a run on a task's config.

    Args:
        folder: For logs, one for each task, made if absent, and for runs.
        task: Its name.
        model: Model section in place of the config's, as flow YAML.
        impressions: Rows of the log; the task's own number when not given.
        options: Other options of the config, as key.path=value.
    """
    log = folder / task
    if not log.exists():
        generate_log(log, task, impressions, file_format="parquet")
    result = run(
        log / "config.yaml",
        folder / "runs",
        [*options, *([f"model={model}"] if model else [])],
        run_id="-".join(re.findall(r"\w+", model)) if model else "main",
        until="evaluate",
    )
    test = pq.read_table(Path(result["run_dir"]) / "evaluate" / "predictions" / "test.parquet")
    ids = test["impression_id"].to_numpy().astype(int)
    best = best_possible(log / "truth.parquet", ids, test["label"].to_numpy())
    return (result["metrics"]["test"]["auc"] - 0.5) / (best.auc - 0.5)


def main() -> None:
    """Read the arguments, train, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--impressions", type=int)
    args = parser.parse_args()
    print("| task | learner | way | foil | way |\n|---|---|---|---|---|")
    for name in args.tasks:
        cells = [f"`{name}`"]
        for model in (None, TASKS[name].foil):
            started = time.perf_counter()
            share = way(args.out, name, model, args.impressions)
            seconds = time.perf_counter() - started
            cells += [f"`{model or TASKS[name].learner}`", f"{share:.0%}, {seconds:.0f} s"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
