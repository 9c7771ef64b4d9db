# SPDX-License-Identifier: Apache-2.0
"""Train configs with several seeds and print the table of docs/benchmarks.md.

    CLICKLOOM_DATA=… python benchmarks/ladder.py configs/frappe_*.yaml --seeds 1 2 3

Every run is `clickloom evaluate CONFIG`, so that a ladder which was stopped goes on where it was.
With `--kinds` each config is run once for each kind of model: with those options of the config's
model that the kind has too, such as `embedding_dim`, and that kind's defaults for the others.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

from models.registry import MODELS


class Result(NamedTuple):
    """What one run scored on its test rows."""

    name: str
    parameters: int
    auc: float
    gauc: float | None
    log_loss: float
    epochs: float
    seconds: float
    valid_auc: float
    folder: Path


def model_of_kind(config: Path, kind: str) -> str:
    """Return a config's model section with another kind, without the options it lacks."""
    options = YAML(typ="safe").load(config)["model"]
    known = MODELS[kind].config.model_fields
    return json.dumps({"kind": kind} | {k: v for k, v in options.items() if k in known})


def evaluated(
    config: Path,
    runs: Path,
    seed: int,
    kind: str | None,
    overrides: Sequence[str] = (),
    variant: str = "",
) -> Result:
    """Run a config up to its evaluation, with its report, and read what it scored.

    Args:
        config: The config.
        runs: Folder of all runs.
        seed: Of the run.
        kind: Of the model; None for the config's own.
        overrides: What else differs from the config, as `key.path=value`.
        variant: Tells runs with different overrides apart, in the run's id.
    """
    name = f"{config.stem}{f'_{kind}' if kind else ''}"
    overrides = [f"seed={seed}", f"name={name}", *overrides]
    overrides += [f"model={model_of_kind(config, kind)}"] if kind else []
    options = [word for override in overrides for word in ("--set", override)]
    command = [sys.executable, "-m", "pipeline", "evaluate", str(config), "--runs", str(runs)]
    command += ["--run-id", f"seed-{seed}{variant}", *options]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    result = json.loads(done.stdout.splitlines()[-1])
    folder = Path(result["run_dir"])
    history = json.loads((folder / "train" / "history.json").read_text())
    seconds = json.loads((folder / "train" / "stage.json").read_text())["seconds"]
    metrics = json.loads((folder / "evaluate" / "metrics.json").read_text())
    return Result(
        name,
        history["parameters"],
        metrics["test"]["auc"],
        metrics["test"]["gauc"],
        metrics["test"]["log_loss"],
        history["evaluations"][-1]["epoch"],
        seconds,
        metrics["valid"]["auc"],
        folder,
    )


def rows_of(results: list[Result]) -> Iterator[str]:
    """Yield one line of the table per config."""
    yield "| config | parameters | test AUC, mean ± sd (seeds) | GAUC | log loss | epochs | s |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for name in dict.fromkeys(result.name for result in results):
        of_name = [result for result in results if result.name == name]
        aucs = [result.auc for result in of_name]
        spread = f" ± {statistics.stdev(aucs):.4f}" if len(aucs) > 1 else ""
        grouped = [result.gauc for result in of_name if result.gauc is not None]
        gauc = f"{statistics.mean(grouped):.4f}" if grouped else "–"
        keys = ("log_loss", "epochs", "seconds")
        means = [statistics.mean(getattr(result, key) for result in of_name) for key in keys]
        yield (
            f"| `{name}` | {of_name[0].parameters:,} | {statistics.mean(aucs):.4f}{spread} "
            f"({len(aucs)}) | {gauc} | {means[0]:.4f} | {means[1]:.0f} | {means[2]:.0f} |"
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
