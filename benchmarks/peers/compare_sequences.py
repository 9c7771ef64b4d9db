# SPDX-License-Identifier: Apache-2.0
"""Accuracy of our sequence and memory models, beside peers' din, dien and bst on the same rows.

    CLICKLOOM_DATA=… python -m benchmarks.peers.compare_sequences configs/movielens_sequences.yaml

Ours are runs of the pipeline, each with its report. Peers get our encoded rows (export_rows.py),
with the same embedding length, MLP, batch size, most epochs and patience; each validates once per
epoch, and the best validation epoch is tested. Every model of every system is tried with each of
its settings on the first seed; the one with the best validation AUC gets the other seeds. A
setting is Adam's rate for all weights, and after a slash the L2 penalty on embeddings; `default` is
what the system has by default, ours what the config says. Our penalties act on the rows of a
batch, those of peers on all rows in each step, so that theirs must be smaller. What was measured
is kept in `<folder>/<config>.jsonl`, so that a comparison which was stopped goes on where it was:
delete the file to measure anew.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ladder import evaluated
from benchmarks.peers.compare import HERE, OURS, ROOT, SEQUENCE_MODELS, SYSTEMS, measure
from pipeline.config_file import load_config

KINDS = (
    "base", *SEQUENCE_MODELS, "transformer", "sasrec", "memn2n", "kvmemnn", "dmn", "memnn",
)  # fmt: skip
PEERS = ("deepctr", "deepctr_torch", "torch_rechub")
DEFAULT = "default"
Score = dict[str, Any]


class Store:
    """What was measured, kept in a file of JSON lines.

    Args:
        path: The file; read if it is there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.scores: list[Score] = [json.loads(line) for line in lines]

    def get(self, key: Score, run: Callable[[], Score | None]) -> Score | None:
        """Return the score with a key, measured if it is not there; None if that fails."""
        for score in self.scores:
            if key.items() <= score.items():
                return score
        found = run()
        if found is None:
            return None
        self.scores.append(key | found)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.scores[-1]) + "\n")
        print(json.dumps(self.scores[-1]), file=sys.stderr, flush=True)
        return self.scores[-1]


def rate_and_l2(setting: str) -> tuple[str, str]:
    """Return the two parts of a setting, each empty where the default stands."""
    rate, _, l2 = setting.partition("/")
    return "" if rate == DEFAULT else rate, l2


def run_ours(config: Path, runs: Path, key: Score) -> Score:
    """Run the pipeline with one kind, setting and seed; return what it scored."""
    rate, l2 = rate_and_l2(key["setting"])
    rates = ("learning_rate", "table_learning_rate") if rate else ()
    overrides = [f"train.{name}={rate}" for name in rates]
    overrides += [f"train.table_l2={l2}"] if l2 else []
    variant = f"-{key['setting'].replace('/', '-')}"
    result = evaluated(config, runs, key["seed"], key["model"], overrides, variant)
    return {
        "valid_auc": result.valid_auc,
        "auc": result.auc,
        "gauc": result.gauc,
        "log_loss": result.log_loss,
        "parameters": result.parameters,
        "folder": str(result.folder),
    }


def run_peer(data: Path, config: Path, core: int, timeout_s: int, key: Score) -> Score | None:
    """Run a peer with one model, setting and seed; return what it scored, None if it fails."""
    train = load_config(config).train
    options = ["--batch", str(train.batch_size), "--epochs", str(train.epochs)]
    options += ["--patience", str(train.patience), "--seed", str(key["seed"])]
    rate, l2 = rate_and_l2(key["setting"])
    options += ["--rate", rate] if rate else []
    options += ["--l2", l2] if l2 else []
    results = measure(key["system"], key["model"], data, core, timeout_s, options)
    return {name: results[-1][name] for name in ("valid_auc", "auc")} if results else None


def chosen(
    store: Store, system: str, model: str, given: argparse.Namespace, run: Callable[[Score], Any]
) -> list[Score]:
    """Return the scores of all seeds with the setting that validates best on the first."""
    settings = given.settings if system == OURS else given.peer_settings

    def score(setting: str, seed: int) -> Score | None:
        key = {"system": system, "model": model, "setting": setting, "seed": seed}
        return store.get(key, lambda: run(key))

    first = [found for setting in settings if (found := score(setting, given.seeds[0]))]
    if not first:
        return []
    best = max(first, key=lambda found: found["valid_auc"])
    others = [found for seed in given.seeds[1:] if (found := score(best["setting"], seed))]
    return [best, *others]


def mean_and_error(scores: list[Score]) -> tuple[float, float, float]:
    """Return mean, standard deviation and standard error of the mean of test AUCs."""
    aucs = [score["auc"] for score in scores]
    spread = statistics.stdev(aucs) if len(aucs) > 1 else 0.0
    return statistics.mean(aucs), spread, spread / math.sqrt(len(aucs))


def table(all_scores: dict[tuple[str, str], list[Score]]) -> Iterator[str]:
    """Yield lines of the table."""
    yield "| model | system | setting | validation AUC | test AUC, mean ± sd (seeds) | GAUC |"
    yield "|---|---|---|---:|---:|---:|"
    for (model, system), scores in all_scores.items():
        mean, spread, _ = mean_and_error(scores)
        valid = statistics.mean(score["valid_auc"] for score in scores)
        grouped = [score["gauc"] for score in scores if score.get("gauc") is not None]
        gauc = f"{statistics.mean(grouped):.4f}" if grouped else "–"
        yield (
            f"| `{model}` | {system} | {scores[0]['setting']} | {valid:.4f} "
            f"| {mean:.4f} ± {spread:.4f} ({len(scores)}) | {gauc} |"
        )


def verdicts(all_scores: dict[tuple[str, str], list[Score]]) -> Iterator[str]:
    """Yield what of the claims holds: no worse than the best peer, and none below base."""

    def verdict(model: str, ours: list[Score], rival: str, theirs: list[Score]) -> str:
        (mean, _, error), (other, _, other_error) = mean_and_error(ours), mean_and_error(theirs)
        together = math.hypot(error, other_error)
        mark = "PASS" if mean >= other - together else "short of it"
        return (
            f"{mark}: {model} {mean:.4f}, {rival} {other:.4f}, "
            f"difference {mean - other:+.4f}, standard error {together:.4f}"
        )

    for (model, system), ours in all_scores.items():
        if system != OURS:
            continue
        peers = {n: s for (m, n), s in all_scores.items() if m == model and n != OURS}
        if peers:
            name = max(peers, key=lambda name: mean_and_error(peers[name])[0])
            yield verdict(model, ours, name, peers[name])
        if model != "base" and ("base", OURS) in all_scores:
            yield verdict(model, ours, "base", all_scores["base", OURS])


def main() -> None:
    """Run what is missing, print tables and verdicts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("configs", nargs="+", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--systems", nargs="+", choices=(OURS, *PEERS), default=(OURS, *PEERS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--settings", nargs="+", default=[DEFAULT, "default/0.003", "0.003"])
    parser.add_argument("--peer-settings", nargs="+", default=[DEFAULT, "default/0.0001", "0.003"])
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--folder", type=Path, default=Path("build/sequences"))
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--timeout-s", type=int, default=7200)
    given = parser.parse_args()
    for config in given.configs:
        store = Store(given.folder / f"{config.stem}.jsonl")
        data = given.folder / f"{config.stem}.npz"
        found: dict[tuple[str, str], list[Score]] = {}
        for kind in given.kinds:
            run = partial(run_ours, config, given.runs)
            found[kind, OURS] = chosen(store, OURS, kind, given, run)
            if not data.exists():
                script = str(HERE / "export_rows.py")
                folder = found[kind, OURS][0]["folder"]
                subprocess.run([sys.executable, script, folder, str(data)], check=True)
            for system in PEERS:
                if system not in given.systems or kind not in SYSTEMS[system][1]:
                    continue
                if not (ROOT / ".venv-peers" / SYSTEMS[system][0]).is_dir():
                    continue
                run = partial(run_peer, data, config, given.core, given.timeout_s)
                if scores := chosen(store, system, kind, given, run):
                    found[kind, system] = scores
        print(f"\n{config}\n", *table(found), "", *verdicts(found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
