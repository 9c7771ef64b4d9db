# SPDX-License-Identifier: Apache-2.0
"""Train configs with several seeds and print the table of docs/benchmarks.md.

    CLICKLOOM_DATA=… python benchmarks/ladder.py configs/frappe_*.yaml --seeds 1 2 3

Every run is `clickloom evaluate CONFIG`, so that a ladder which was stopped goes on where it was.
With `--kinds` each config is run once for each kind of model, with that kind's defaults.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Result(NamedTuple):
    """What one run scored on its test rows."""

    name: str
    parameters: int
    auc: float
    log_loss: float
    epochs: float
    seconds: float


def evaluated(config: Path, runs: Path, seed: int, kind: str | None) -> Result:
    """Run a config up to its evaluation and read what it scored."""
    name = f"{config.stem}{f'_{kind}' if kind else ''}"
    overrides = [f"seed={seed}", f"name={name}"]
    overrides += [f"model={{kind: {kind}}}"] if kind else []
    options = [word for override in overrides for word in ("--set", override)]
    command = [sys.executable, "-m", "pipeline", "evaluate", str(config), "--runs", str(runs)]
    command += ["--run-id", f"seed-{seed}", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    result = json.loads(done.stdout.splitlines()[-1])
    folder = Path(result["run_dir"])
    history = json.loads((folder / "train" / "history.json").read_text())
    seconds = json.loads((folder / "train" / "stage.json").read_text())["seconds"]
    return Result(
        name,
        history["parameters"],
        result["metrics"]["test"]["auc"],
        result["metrics"]["test"]["log_loss"],
        history["evaluations"][-1]["epoch"],
        seconds,
    )


def rows_of(results: list[Result]) -> Iterator[str]:
    """Yield one line of the table per config."""
    yield "| config | parameters | test AUC, mean ± sd (seeds) | log loss | epochs | s |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in dict.fromkeys(result.name for result in results):
        of_name = [result for result in results if result.name == name]
        aucs = [result.auc for result in of_name]
        spread = f" ± {statistics.stdev(aucs):.4f}" if len(aucs) > 1 else ""
        means = [statistics.mean(getattr(r, key) for r in of_name) for key in Result._fields[3:]]
        yield (
            f"| `{name}` | {of_name[0].parameters:,} | {statistics.mean(aucs):.4f}"
            f"{spread} ({len(aucs)}) | {means[0]:.4f} | {means[1]:.0f} | {means[2]:.0f} |"
        )


def main() -> None:
    """Read the arguments, run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", default=[None])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    arguments = parser.parse_args()
    results = []
    for config in arguments.configs:
        for kind in arguments.kinds:
            for seed in arguments.seeds:
                results.append(evaluated(config, arguments.runs, seed, kind))
                print(results[-1], file=sys.stderr, flush=True)
    print("\n".join(rows_of(results)))


if __name__ == "__main__":
    main()
