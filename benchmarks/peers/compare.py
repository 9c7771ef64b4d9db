# SPDX-License-Identifier: Apache-2.0
"""Trains the same models with ours and with its peers, alternately, one thread each.

    sh benchmarks/peers/install.sh
    python benchmarks/peers/compare.py --rows 100000 1000000 10000000 --models lr fm deepfm
    python benchmarks/peers/compare.py --rows 100000 --models ffm afm nfm dcn
    python benchmarks/peers/compare.py --models din dien bst

Models of histories train on the data set `beh` (behaviours.py), the others on `tab` (data.py).
Every run is a process of its own on one core. Of each system the fastest of its repeats counts, by
the processor time of the median step; `--clock wall` is for a machine that does nothing else.
Prints a table, and what of the claims holds. A system that is not installed is left out.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OURS = "clickloom"
SEQUENCE_MODELS = ("din", "dien", "bst")
SYSTEMS = {  # runner: environment and models
    OURS: ("", ("lr", "fm", "ffm", "afm", "nfm", "deepfm", "dcn", *SEQUENCE_MODELS)),
    "deepctr": ("tf", ("lr", "fm", "afm", "nfm", "deepfm", "dcn", *SEQUENCE_MODELS)),
    "deepctr_torch": ("torch", ("fm", "afm", "nfm", "deepfm", "dcn", "din", "dien")),
    "torch_rechub": ("torch", ("afm", "deepfm", "dcn", "ffm", *SEQUENCE_MODELS)),
    "modern_fm": ("rust", ("fm", "ffm")),
    "libffm": ("cpp", ("ffm",)),
}
ANY = "the best peer"
CLAIMS = (  # model, table rows or None for any, peer, how many times as fast at least
    ("fm", 1_000_000, "deepctr", 3.0),
    ("fm", 10_000_000, "deepctr", 15.0),
    ("deepfm", 1_000_000, "deepctr", 2.0),
    ("deepfm", 10_000_000, "deepctr", 10.0),
    ("ffm", None, "modern-fm", 2.0),
    ("ffm", None, "torch-rechub", 10.0),
    ("afm", None, ANY, 1.5),
    ("din", None, "deepctr", 2.0),
    ("din", None, "torch-rechub", 4.0),
    ("dien", None, ANY, 1.5),
    ("bst", None, ANY, 1.5),
)
NO_GOAL = (  # system and model that are shown, but are no claim
    ("libffm", "ffm"),  # C++ without batches
    # one vector per row, the sum of all pairs, whose attention is a soft-max over itself: always 1
    ("torch-rechub", "afm"),
)
Result = dict[str, str | int | float | None]


def measure(
    runner: str, model: str, data: Path, core: int, timeout_s: int, options: Sequence[str]
) -> list[Result]:
    """Return what a runner reports; empty, with a message, if it fails.

    Args:
        runner: One of `SYSTEMS`.
        model: Kind of the model.
        data: The data set.
        core: The core that it runs on.
        timeout_s: Seconds after which it is given up.
        options: Further words of the command line.
    """
    environment = SYSTEMS[runner][0]
    folder = ROOT / ".venv-peers" / environment
    python = str(folder / "bin" / "python") if environment else sys.executable
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
    script = HERE / f"{'sequences_' if model in SEQUENCE_MODELS else ''}{runner}_run.py"
    command = ["taskset", "-c", str(core), python, str(script), model, str(data)]
    try:
        done = subprocess.run(
            [*command, *options],
            env=os.environ | threads | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print(f"{runner} {model} {data.name}: more than {timeout_s} s", file=sys.stderr)
        return []
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not results:
        print(f"{runner} {model} {data.name}: failed\n{done.stderr[-2000:]}", file=sys.stderr)
    return results


def best(results: list[Result], clock: str) -> dict[str, Result]:
    """Return each system's fastest result, by name."""
    fastest: dict[str, Result] = {}
    for result in results:
        name = str(result["system"])
        if name not in fastest or result[clock] > fastest[name][clock]:
            fastest[name] = result
    return fastest


def table(model: str, rows: int, results: dict[str, Result], clock: str) -> Iterator[str]:
    """Yield lines of a table of one model at one table size, fastest first."""
    ours = results.get(OURS)
    for result in sorted(results.values(), key=lambda r: -r[clock]):
        ratio = f"{ours[clock] / result[clock]:.1f}" if ours else "–"
        score = "–" if result["auc"] is None else f"{result['auc']:.4f}"
        yield (
            f"| `{model}` | {rows:,} | {result['system']} | {result[clock]:,} | {ratio} | {score} "
            f"| {result['peak_gib']} |"
        )


def verdicts(model: str, rows: int, results: dict[str, Result], clock: str) -> Iterator[str]:
    """Yield what of the claims holds for one model at one table size."""
    ours = results.get(OURS)
    peers = {name: result for name, result in results.items() if name != OURS}
    if not ours or not peers:
        return

    def verdict(peer: Result, least: float) -> str:
        ratio = ours[clock] / peer[clock]
        mark = "PASS" if ratio >= least else "short of it"
        return (
            f"{mark}: {model}, {rows:,} rows: {ratio:.2f} x {peer['system']}, claimed {least:g} x"
        )

    rivals = [result for name, result in peers.items() if (name, model) not in NO_GOAL]
    for kind, size, name, least in CLAIMS:
        if kind == model and size in (None, rows):
            peer = max(rivals, key=lambda r: r[clock]) if name == ANY else peers.get(name)
            if peer:
                yield verdict(peer, least)
    if rivals:
        yield verdict(max(rivals, key=lambda r: r[clock]), 1.0)
    scored = [result for result in peers.values() if result["auc"] is not None]
    if scored:
        top = max(scored, key=lambda r: r["auc"])
        mark = "PASS" if ours["auc"] >= top["auc"] else "short of it"
        yield (
            f"{mark}: {model}, {rows:,} rows: AUC {ours['auc']:.4f}, best peer {top['auc']:.4f} "
            f"({top['system']}), best possible {ours['best_auc']:.4f}"
        )


def data_set(model: str, rows: int, folder: Path) -> Path:
    """Return the data set for a model, made if absent.

    Args:
        model: Kind of the model.
        rows: Of its tables; of histories, of the items' table.
        folder: Where data sets are.
    """
    script, name = ("behaviours", "beh") if model in SEQUENCE_MODELS else ("data", "tab")
    data = folder / f"{name}_{rows}.npz"
    if not data.exists():
        make = [sys.executable, str(HERE / f"{script}.py"), "--rows", str(rows), "--out", str(data)]
        subprocess.run(make, check=True)
    return data


def main() -> None:
    """Run everything and print the tables."""
    models = SYSTEMS[OURS][1]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000])
    parser.add_argument("--models", nargs="+", choices=models, default=models)
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--clock", choices=("processor", "wall"), default="processor")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--timeout-s", type=int, default=900)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "peers")
    arguments = parser.parse_args()
    systems = [
        name
        for name in arguments.systems
        if name == OURS or (ROOT / ".venv-peers" / SYSTEMS[name][0]).is_dir()
    ]
    lines, claims = [], []
    options = ["--batch", str(arguments.batch)]
    for rows in arguments.rows:
        for model in arguments.models:
            data = data_set(model, rows, arguments.folder)
            results: list[Result] = []
            for _ in range(arguments.repeats):
                for name in systems:
                    if model in SYSTEMS[name][1]:
                        results += measure(
                            name, model, data, arguments.core, arguments.timeout_s, options
                        )
                        print(json.dumps(results[-1:]), file=sys.stderr, flush=True)
            fastest = best(results, arguments.clock)
            lines += table(model, rows, fastest, arguments.clock)
            claims += verdicts(model, rows, fastest, arguments.clock)
    print("| model | table rows | system | examples/s | ours / it | AUC | peak, GiB |")
    print("|---|---|---|---|---|---|---|")
    print("\n".join([*lines, "", *claims]))


if __name__ == "__main__":
    main()
