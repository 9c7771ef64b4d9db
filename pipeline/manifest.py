# SPDX-License-Identifier: Apache-2.0
"""The manifest of a run: what was run on what, with which versions."""

import importlib.metadata
import platform
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.runs import Run, Stage, code_fingerprint, write_json


def environment() -> dict[str, str]:
    """Return the versions of Python and the packages that decide numbers."""
    packages = ("tensorflow", "keras", "numpy", "pyarrow", "duckdb", "ibis-framework", "clickloom")
    versions = {"python": platform.python_version(), "platform": platform.platform()}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def git_commit() -> str | None:
    """Return the commit of the checkout that this code runs from, or None."""
    root = Path(__file__).resolve().parent.parent
    git = shutil.which("git")
    if git is None or not (root / ".git").exists():
        return None
    command = [git, "-C", str(root), "rev-parse", "HEAD"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return found.stdout.strip() or None


def write_manifest(run: Run, stages: Mapping[str, Stage], extra: Mapping[str, Any]) -> None:
    """Write `manifest.json`: what was run on what, when, and how long each stage took."""
    document = {
        "run": run.title,
        "date": run.date,
        "seed": run.config.seed,
        "fingerprints": {name: stage.fingerprint for name, stage in stages.items()},
        "code": code_fingerprint(),
        "git_commit": git_commit(),
        "environment": environment(),
        "seconds": {name: stage.seconds for name, stage in stages.items()},
        "reused": [name for name, stage in stages.items() if stage.reused],
        **extra,
    }
    write_json(run.folder / "manifest.json", document)
