# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: arrays and a state in a folder, whole or not there, verified by checksum."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.runs import checksum_of, read_sealed, write_sealed

_STATE = "state.json"


def save_arrays(folder: Path, arrays: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
    """Write arrays and a JSON state into a folder that appears at once and whole."""
    aside = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    sums = {}
    for number, (name, array) in enumerate(arrays.items()):
        path = aside / f"{number:04d}.npy"
        np.save(path, array, allow_pickle=False)
        sums[name] = {"file": path.name, "sha256": checksum_of(path)}
    write_sealed(aside / _STATE, {"arrays": sums, "state": dict(state)})
    shutil.rmtree(folder, ignore_errors=True)
    aside.rename(folder)


def load_arrays(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_arrays` wrote.

    Raises:
        ValueError: A file is damaged; the message names it.
        FileNotFoundError: There is no such folder, or it is not whole.
    """
    document = read_sealed(folder / _STATE)
    arrays = {}
    for name, entry in document["arrays"].items():
        path = folder / entry["file"]
        if checksum_of(path) != entry["sha256"]:
            raise ValueError(f"{path}: checksum differs from the one in {_STATE}; it is damaged")
        arrays[name] = np.load(path, allow_pickle=False)
    return arrays, document["state"]


def newest_whole(
    folder: Path,
    warn: Callable[[str], None],
    needed: Callable[[dict[str, Any]], Path | None] = lambda _: None,
) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
    """Return the newest checkpoint `step-…` of a folder that is whole and undamaged, or None.

    Newer ones that are damaged are deleted, or they would be kept as the newest.

    Args:
        folder: Where the checkpoints are.
        warn: Is told of each that is damaged, as that costs steps, and may mean a failing disk.
        needed: Returns the folder of other arrays that a checkpoint with such a state is worth
            nothing without, or None.
    """
    for path in sorted(folder.glob("step-*"), reverse=True):
        try:
            arrays, state = load_arrays(path)
            if other := needed(state):
                load_arrays(other)
        except (ValueError, FileNotFoundError) as error:
            warn(
                f"checkpoint {path.name} is deleted, and what came after the one before it is done "
                f"again: {error}"
            )
            shutil.rmtree(path)
        else:
            return arrays, state
    return None


def step_folder(folder: Path, step: int) -> Path:
    """Return where the checkpoint of a step belongs; names sort like steps."""
    return folder / f"step-{step:012d}"


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest checkpoints."""
    for path in sorted(folder.glob("step-*"), reverse=True)[keep:]:
        shutil.rmtree(path, ignore_errors=True)
