# SPDX-License-Identifier: Apache-2.0
"""What the ids of encoded rows stand for, in words."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from features.gaps import GAP_BITS
from features.schema import FIRST_UNKNOWN, MISSING, FeatureSchema
from features.space import FeatureSpace
from features.specs import BucketedSpec, CategoricalSpec, DatetimeSpec, table_of
from pipeline.batches import Batch
from pipeline.engine import open_engine
from pipeline.runs import Run
from pipeline.sources.names import read_names

Names = Mapping[str, Mapping[int, str]]
"""By table and id."""


@dataclass(frozen=True)
class Values:
    """Says which value an id of a table stands for, and what the value is called.

    Attributes:
        space: What was fitted.
        names: Of those values that have one.
    """

    space: FeatureSpace
    names: Names = field(default_factory=dict)

    def item(self, table: str, number: int) -> dict[str, Any]:
        """Return table, id, value and, where there is one, name."""
        found = {"table": table, "id": int(number), "value": value_of(self.space, table, number)}
        name = self.names.get(table, {}).get(int(number))
        return found if name is None else found | {"name": name}


def value_of(space: FeatureSpace, table: str, number: int) -> str:
    """Return in words what an id of a table stands for."""
    number = int(number)
    if number < FIRST_UNKNOWN:
        return "missing" if number == MISSING else "padding"
    place = number - FIRST_UNKNOWN
    if table not in space.specs:  # of time gaps, which no feature owns
        return _gap(place)
    match space.specs[table]:
        case CategoricalSpec(hash_buckets=int()):
            return f"hash bucket {place}"
        case DatetimeSpec():
            return str(place)
        case BucketedSpec():
            return _bucket(space, table, place)
    known = _known(space, table, number)
    return "unknown" if known is None else repr(known)


def _known(space: FeatureSpace, table: str, number: int) -> str | None:
    """Return the value of an id of a vocabulary; None for those that are no single value."""
    vocabulary = space.vocabularies[table]
    place = number - vocabulary.first_known
    return None if place < 0 else vocabulary.values[place].as_py()


def _gap(bits: int) -> str:
    """Return in words what a bucket of time gaps holds; see `features.gaps`."""
    if bits == 0:
        return "0 s"
    least = 2 ** (bits - 1)
    return f"{least} s or more" if bits == GAP_BITS else f"{least} to {2 * least - 1} s"


def _bucket(space: FeatureSpace, table: str, place: int) -> str:
    fit = space.buckets[table]
    if not fit.edges:
        return f"bucket {fit.lowest + place}"
    ends = ["-∞", *(f"{edge:.9g}" for edge in fit.edges), "∞"]
    return f"{ends[place]} ≤ x < {ends[place + 1]}" if place else f"x < {ends[1]}"


def find_names(
    run: Run, space: FeatureSpace, schema: FeatureSchema, batch: Batch
) -> dict[str, dict[int, str]]:
    """Return the names under `report.names` of the values that stand in some rows.

    Args:
        run: The run.
        space: What was fitted.
        schema: The features to look at.
        batch: The rows.

    Raises:
        PipelineError: The files with the names cannot be read.
    """
    wanted = {
        feature: numbers
        for feature in run.config.report.names
        if (numbers := _known_in(space, schema, batch, table_of(feature, space.specs)))
    }
    if not wanted:
        return {}
    named: dict[str, dict[int, str]] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        open_engine(run.config.engine, Path(folder) / "engine") as connection,
    ):
        for feature, numbers in wanted.items():
            config = run.config.report.names[feature]
            found = read_names(connection, feature, config, numbers, run.date)
            names = {numbers[value]: " ".join(name.split()) for value, name in found.items()}
            named.setdefault(table_of(feature, space.specs), {}).update(names)
    return named


def _known_in(
    space: FeatureSpace, schema: FeatureSchema, batch: Batch, table: str
) -> dict[str, int]:
    """Return the known values of a table that stand in some rows, with their ids."""
    keys = [key for key, of in schema.id_columns() if of == table]
    numbers = {int(number) for key in keys for number in np.unique(batch[key])}
    known = {n: _known(space, table, n) for n in sorted(numbers) if n >= FIRST_UNKNOWN}
    return {value: number for number, value in known.items() if value is not None}
