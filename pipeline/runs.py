# SPDX-License-Identifier: Apache-2.0
"""The run folder: stages that are built once, fingerprints and checksums, the lock."""

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipeline.config import RunConfig, expand_path
from pipeline.errors import ConfigError, MachineFailed, RunLocked, machine_failure
from pipeline.progress import Progress

STAGE_FILE = "stage.json"
WORK = "work"
"""Folder of what a stage needs until it is whole, such as checkpoints; then it is deleted."""
_MARKER = "fingerprint"
_PACKAGES = ("features", "models", "pipeline")


@dataclass(frozen=True)
class Run:
    """One run: its config, its folder `<runs>/<name>/<run-id>`, and where it reports to."""

    config: RunConfig
    folder: Path
    progress: Progress
    date: str | None = None

    @property
    def title(self) -> str:
        """`<name>/<run-id>`."""
        return f"{self.config.name}/{self.folder.name}"

    @property
    def dataset(self) -> Path:
        """Encoded rows, the feature space and the profile."""
        return self.folder / "dataset"

    @property
    def train(self) -> Path:
        """The best weights and the training history."""
        return self.folder / "train"

    @property
    def evaluate(self) -> Path:
        """Predictions and metrics."""
        return self.folder / "evaluate"

    @property
    def report(self) -> Path:
        """The report that people read."""
        return self.folder / "report.html"

    @property
    def export(self) -> Path:
        """Where versions of the served model are published."""
        directory = self.config.export.directory
        return Path(expand_path(directory, self.date)) if directory else self.folder / "export"


@dataclass(frozen=True)
class Stage:
    """A finished stage: what it was built from and what it found."""

    fingerprint: str
    facts: dict[str, Any]
    seconds: float
    reused: bool


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of all runs of one name, so that two never write at once.

    The lock is the kernel's: it is gone when the process is, however it ended.

    Raises:
        RunLocked: Another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise RunLocked(
                f"{path}: held by {holder}; wait for it or give this run another name"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


def build_stage(
    run: Run, folder: Path, fingerprint: str, build: Callable[[Path], dict[str, Any]]
) -> Stage:
    """Build a stage's folder unless it stands there with this fingerprint.

    The stage is written beside its place and renamed when whole. What an interrupted build of
    the same fingerprint left is handed to `build` again, which may continue from it.

    Args:
        run: The run.
        folder: Where the stage belongs.
        fingerprint: Of everything that the stage depends on.
        build: Writes the stage into the folder that it is given and returns facts about it. What
            lies under `work` there is for a build that continues, and no part of the stage.
    """
    aside = folder.with_name(f".{folder.name}.partial")
    # a kill may have come after the stage was whole and before it stood in its place
    for place in (folder, aside):
        finished = read_stage(place)
        if finished and finished.fingerprint == fingerprint:
            if place == aside:
                _replace(folder, aside)
            run.progress.event(folder.name, status="up to date")
            return finished
    marker = aside / _MARKER
    if aside.exists() and (not marker.exists() or marker.read_text() != fingerprint):
        shutil.rmtree(aside)
    aside.mkdir(parents=True, exist_ok=True)
    marker.write_text(fingerprint)
    (aside / STAGE_FILE).unlink(missing_ok=True)
    started = time.monotonic()
    facts = build(aside)
    seconds = time.monotonic() - started
    document = {
        "fingerprint": fingerprint,
        "facts": facts,
        "seconds": round(seconds, 3),
        "files": file_sums(aside, without=(WORK, _MARKER)),
    }
    write_sealed(aside / STAGE_FILE, document)
    _replace(folder, aside)
    run.progress.event(folder.name, status="done", seconds=round(seconds, 2))
    return Stage(fingerprint, facts, seconds, reused=False)


def read_stage(folder: Path) -> Stage | None:
    """Return the finished stage in a folder; None if there is none, or files of it are damaged."""
    try:
        document = read_sealed(folder / STAGE_FILE)
    except (OSError, ValueError):
        return None
    if damaged(folder, document["files"]):
        return None
    return Stage(document["fingerprint"], document["facts"], document["seconds"], reused=True)


def file_sums(folder: Path, without: Collection[str] = ()) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by relative path.

    Args:
        folder: Where to look.
        without: Names of files and folders in it that are left out.
    """
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    kept = (path for path in paths if path.parts[0] not in without)
    return {str(path): checksum_of(folder / path) for path in kept}


def damaged(folder: Path, sums: Mapping[str, str]) -> list[str]:
    """Return the files below a folder that are not there or not what `file_sums` found."""
    return [
        name
        for name, checksum in sums.items()
        if not (folder / name).is_file() or checksum_of(folder / name) != checksum
    ]


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(folder: Path, aside: Path) -> None:
    # only now: until the stage was whole, a build that continues would have needed them
    shutil.rmtree(aside / WORK, ignore_errors=True)
    (aside / _MARKER).unlink(missing_ok=True)
    old = folder.with_name(f".{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    aside.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def require_writable(folder: Path, option: str) -> None:
    """Make a folder that a person named, and check that it takes files, before any work is done.

    Args:
        folder: Where files are to be written.
        option: What named it, for the message.

    Raises:
        ConfigError: No folder can be made there.
        MachineFailed: The disk is full or read-only, or rights are missing.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        problem = f"{option}: {folder}: cannot be written to: {error.strerror}"
        if machine_failure(error):
            raise MachineFailed(
                f"{problem}; make room, give rights or name another folder, then the same command "
                "continues"
            ) from error
        raise ConfigError(f"{problem}; name another folder") from error


def write_json(path: Path, document: Any) -> None:
    """Write JSON (no NaN) so that a reader sees the old file or the new one, never a part."""
    text = json.dumps(document, indent=1, allow_nan=False, default=str)
    write_text(path, text + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file aside and rename it into place."""
    aside = path.with_name(f".{path.name}.partial")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def fingerprint_of(*parts: Any) -> str:
    """Return the SHA-256 of JSON-like parts; pydantic models count by their resolved values."""

    def plain(value: Any) -> Any:
        return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)

    text = json.dumps(parts, sort_keys=False, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the contents of files, in order; names and times do not count."""
    total = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
    return total.hexdigest()


@cache
def code_fingerprint() -> str:
    """Return the SHA-256 of this project's own source files."""
    root = Path(__file__).resolve().parent.parent
    files = sorted(path for package in _PACKAGES for path in (root / package).rglob("*.py"))
    return fingerprint_files(files)


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def write_sealed(path: Path, document: Mapping[str, Any]) -> None:
    """Write JSON with the checksum of its text beside its keys, as `sha256`."""
    write_json(path, {**document, "sha256": fingerprint_of(document)})


def read_sealed(path: Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote.

    Raises:
        ValueError: It is damaged.
    """
    document = read_json(path)
    if not isinstance(document, dict) or document.pop("sha256", None) != fingerprint_of(document):
        raise ValueError(f"{path}: its checksum is not that of its text; it is damaged")
    return document
