# SPDX-License-Identifier: Apache-2.0
"""Side tables, such as users and items, whose columns are added to a log by key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ibis

from features.raw import NullRule, read_text
from pipeline.config import FilesConfig, JoinConfig
from pipeline.errors import InputRejected
from pipeline.sources.files import SourceFile
from pipeline.sources.locate import settle
from pipeline.sources.rejects import Cell, line_rejects
from pipeline.sources.scan import BROKEN, FILE, ORDER, Scan, readable, scan_files
from pipeline.sources.sql import Wanted

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend


@dataclass(frozen=True)
class Side:
    """A side table's files and the columns that it adds.

    Attributes:
        config: How it is written and joined.
        files: Its files.
        adds: Name in the joined rows → column of the side table.
    """

    config: JoinConfig
    files: tuple[SourceFile, ...]
    adds: Mapping[str, str]

    @property
    def keys(self) -> dict[str, str]:
        """Column of the data → column of the side table."""
        return self.config.keys


def load_side(connection: "Backend", side: Side, name: str) -> Any:
    """Load a side table once as `name`: its keys as texts, and the columns that it adds.

    Raises:
        InputRejected: A line is malformed or a key stands twice.
    """
    columns = dict.fromkeys([*side.keys.values(), *side.adds.values()])
    scans = list(scan_files(connection, side.files, side.config, [Wanted(c) for c in columns]))
    rule = NullRule(side.config.null_tokens, side.config.trim)
    mixed = _mixed_columns(scans, side.adds.values())
    key_names = _side_keys(side)
    for scan in scans:
        keys = [read_text(scan.table[column], rule).value for column in side.keys.values()]
        added = {n: _added(scan.table[c], c in mixed, rule) for n, c in side.adds.items()}
        place = {column: scan.table[column] for column in (FILE, ORDER, BROKEN)}
        rows = scan.table.select(**place, **dict(zip(key_names, keys, strict=True)), **added)
        with readable(side.files):
            if scan is scans[0]:
                connection.create_table(name, rows)
            else:
                connection.insert(name, rows)
    loaded = connection.table(name)
    for scan in scans:
        _require_well_formed(connection, scan, loaded)
    known = loaded.filter([loaded[key].notnull() for key in key_names])
    _require_unique(known, key_names, side)
    return known.select(*key_names, *side.adds)


def _mixed_columns(scans: Sequence[Scan], columns: Any) -> set[str]:
    """Return the columns that have different types in different files."""
    return {c for c in columns if len({scan.table[c].type() for scan in scans}) > 1}


def _added(column: Any, mixed: bool, rule: NullRule) -> Any:
    """Return a column with the side table's own null tokens and trimming applied."""
    if mixed and not column.type().is_array():
        column = column.cast("string")
    return read_text(column, rule).value if column.type().is_string() else column


def _require_well_formed(connection: "Backend", scan: Scan, loaded: Any) -> None:
    lines = line_rejects(connection, scan)
    extents = loaded.group_by(FILE).agg(
        rows=loaded.count(),
        first=loaded[ORDER].min(),
        broken=ibis.ifelse(loaded[BROKEN], loaded[ORDER], None).min(),
    )
    extent_of = {row[FILE]: row for row in extents.to_pyarrow().to_pylist()}
    for file in scan.files:
        name = str(file.path)
        extent = extent_of.get(name, {"rows": 0, "first": 0, "broken": None})
        cells = []
        if extent["broken"] is not None:
            cells = [Cell(extent["broken"] - extent["first"], None, "expected a JSON object")]
        rejects = settle(file, scan.config, lines[name], cells, extent["rows"])
        if rejects:
            raise InputRejected(f"{rejects[0]} (a side table may have no malformed lines)")


def _require_unique(rows: Any, keys: Sequence[str], side: Side) -> None:
    repeated = rows.group_by(list(keys)).agg(n=rows.count()).filter(lambda t: t.n > 1)
    first = repeated.order_by(list(keys)).limit(1).to_pyarrow().to_pylist()
    if first:
        shown = ", ".join(str(first[0][key]) for key in keys)
        raise InputRejected(
            f"{side.files[0].path}: key {shown!r} stands {first[0]['n']} times; a side table has "
            "one row per key"
        )


def _side_keys(side: Side) -> list[str]:
    return [f"clickloom: side key {i}" for i in range(len(side.keys))]


def join_side(table: Any, side: Side, rows: Any, config: FilesConfig) -> Any:
    """Add a loaded side table's columns to a scan; rows without a match get missing values."""
    rule = NullRule(config.null_tokens, config.trim)
    keys = {
        f"clickloom: key {i}": read_text(table[column], rule).value
        for i, column in enumerate(side.keys)
    }
    on = list(zip(keys, _side_keys(side), strict=True))
    joined = table.mutate(**keys).left_join(rows, on)
    return joined.select(*table.columns, *side.adds)
