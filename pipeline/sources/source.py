# SPDX-License-Identifier: Apache-2.0
"""A click log and its side tables, checked against the columns that a config needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pipeline.config import DataConfig, FilesConfig, JoinConfig
from pipeline.config_file import KeyPath, nearest
from pipeline.errors import ConfigError, InputRejected
from pipeline.rows import Need, wanted
from pipeline.sources.columns import column_problem, without_separator
from pipeline.sources.files import SourceFile, inspect, match_files
from pipeline.sources.joins import join_side, load_side
from pipeline.sources.scan import Scan, Wanted, scan_files

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

Refusal = ConfigError | InputRejected


@dataclass(frozen=True)
class SourceProblem:
    """Why a source cannot be read, and the config key that asks for it."""

    path: KeyPath
    error: Refusal


@dataclass(frozen=True)
class Side:
    """A side table's files and the columns that it adds."""

    config: JoinConfig
    files: tuple[SourceFile, ...]
    adds: Mapping[str, str]
    """Name in the joined rows → column of the side table."""

    @property
    def keys(self) -> dict[str, str]:
        """Column of the data → column of the side table."""
        on = self.config.on
        return {on: on} if isinstance(on, str) else on


@dataclass(frozen=True)
class Source:
    """The files of a click log, its side tables, and what was noticed about their columns."""

    config: DataConfig
    files: tuple[SourceFile, ...]
    sides: tuple[Side, ...]
    needs: tuple[Need, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def read(self, connection: "Backend") -> Iterator[tuple[Scan, Any]]:
        """Yield each scan of the log and its Ibis table, side tables joined, in file order."""
        from_sides = {name for side in self.sides for name in side.adds}
        columns = [w for w in wanted(self.needs) if w.name not in from_sides]
        keys = {key for side in self.sides for key in side.keys}
        columns += [Wanted(key) for key in sorted(keys - {w.name for w in columns})]
        sides = [
            (side, load_side(connection, side, f"side_{i}")) for i, side in enumerate(self.sides)
        ]
        for scan in scan_files(connection, self.files, self.config, columns):
            table = scan.table
            for side, rows in sides:
                table = join_side(table, side, rows, self.config)
            yield scan, table

    def side_of(self, column: str) -> Side | None:
        """Return the side table that adds a column, or None."""
        return next((side for side in self.sides if column in side.adds), None)
