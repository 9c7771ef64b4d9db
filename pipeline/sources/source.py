# SPDX-License-Identifier: Apache-2.0
"""A click log and its side tables, checked against the columns that a config needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from features.raw import NullRule, read_text
from pipeline.config import DataConfig, FilesConfig, JoinConfig
from pipeline.config_file import nearest
from pipeline.errors import InputRejected
from pipeline.rows import Need, wanted
from pipeline.sources.files import SourceFile, find_files, inspect
from pipeline.sources.scan import Reject, Scan, Wanted, scan_files

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend


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
    scans: list[Scan] = field(default_factory=list)

    def read(self, connection: "Backend") -> Iterator[Any]:
        """Yield one Ibis table per scan, in the order of the files, side tables joined."""
        from_sides = {name for side in self.sides for name in side.adds}
        columns = [w for w in wanted(self.needs) if w.name not in from_sides]
        keys = {key for side in self.sides for key in side.keys}
        columns += [Wanted(key) for key in sorted(keys - {w.name for w in columns})]
        sides = [(side, _side_table(connection, side)) for side in self.sides]
        for scan in scan_files(connection, self.files, self.config, columns):
            self.scans.append(scan)
            table = scan.table
            for side, rows in sides:
                table = _join(table, side, rows, self.config)
            yield table

    def rejects(self, connection: "Backend") -> list[Reject]:
        """Return the malformed lines of everything that was read so far."""
        return [reject for scan in self.scans for reject in scan.rejects(connection)]


def open_source(config: DataConfig, needs: Sequence[Need], date: str | None = None) -> Source:
    """Find the files, read their headers, and check that every needed column is somewhere.

    Raises:
        InputRejected: A file is missing or unreadable, or lacks a required column; all missing
            columns are listed at once.
    """
    files = tuple(inspect(path, config) for path in find_files(config, date))
    sides = tuple(_inspect_side(join, files, needs, date) for join in config.joins)
    from_sides = {name for side in sides for name in side.adds}
    problems: list[str] = []
    warnings: list[str] = []
    for file in files:
        missing = [n for n in needs if n.column not in from_sides and _lacks(file, n.column)]
        for need in missing:
            if need.required:
                hint = nearest(need.column, [*(file.columns or ()), *from_sides])
                problems.append(
                    f"{file.path}: has no column {need.column!r}, which {need.used_by} reads{hint}"
                )
            else:
                warnings.append(
                    f"{file.path}: has no column {need.column!r}; its rows count as missing"
                )
    if problems:
        raise InputRejected("\n".join(dict.fromkeys(problems)))
    return Source(
        config,
        files,
        sides,
        tuple(needs),
        tuple(dict.fromkeys(warnings)),
        _ignored(files, sides, needs),
    )


def _lacks(file: SourceFile, column: str) -> bool:
    return file.columns is not None and column not in file.columns


def _ignored(
    files: Sequence[SourceFile], sides: Sequence[Side], needs: Sequence[Need]
) -> tuple[str, ...]:
    used = {need.column for need in needs} | {key for side in sides for key in side.keys}
    unused = {c: None for file in files for c in file.columns or () if c not in used}
    return (f"columns that nothing reads: {', '.join(unused)}",) if unused else ()


def _inspect_side(
    config: JoinConfig, files: Sequence[SourceFile], needs: Sequence[Need], date: str | None
) -> Side:
    side_files = tuple(inspect(path, config) for path in find_files(config, date))
    columns = dict.fromkeys(c for file in side_files for c in file.columns or ())
    side = Side(config, side_files, {})
    for key, side_key in side.keys.items():
        for file in files:
            if _lacks(file, key):
                raise InputRejected(f"{file.path}: has no column {key!r}, the key of a join")
        for file in side_files:
            if _lacks(file, side_key):
                hint = nearest(side_key, file.columns or ())
                raise InputRejected(f"{file.path}: has no key column {side_key!r}{hint}")
    in_data = {c for file in files for c in file.columns or ()}
    names = {
        config.prefix + column: column for column in columns if column not in side.keys.values()
    }
    needed = {need.column for need in needs}
    adds = {name: c for name, c in names.items() if name in needed and name not in in_data}
    return Side(config, side_files, adds)


def _side_table(connection: "Backend", side: Side) -> Any:
    """Load a side table once: its keys as texts named k0, k1 …, and the columns it adds."""
    columns = dict.fromkeys([*side.keys.values(), *side.adds.values()])
    scans = list(scan_files(connection, side.files, side.config, [Wanted(c) for c in columns]))
    rule = NullRule(side.config.null_tokens, side.config.trim)
    tables = []
    for scan in scans:
        keys = {
            f"k{i}": read_text(scan.table[c], rule).value for i, c in enumerate(side.keys.values())
        }
        tables.append(scan.table.select(**keys, **{n: scan.table[c] for n, c in side.adds.items()}))
    name = f"side_{abs(hash(side.config.files))}"
    rows = connection.create_table(name, tables[0], overwrite=True)
    for table in tables[1:]:
        connection.insert(name, table)
    rejected = [reject for scan in scans for reject in scan.rejects(connection)]
    if rejected:
        raise InputRejected(f"{rejected[0]} (side table; {len(rejected)} malformed lines)")
    key_names = list(keys)
    repeated = rows.group_by(key_names).agg(n=rows.count()).filter(lambda t: t.n > 1)
    first = repeated.order_by(key_names).limit(1).to_pyarrow().to_pylist()
    if first:
        shown = ", ".join(str(first[0][k]) for k in key_names)
        raise InputRejected(
            f"{side.files[0].path}: key {shown!r} stands {first[0]['n']} times; a side table has "
            "one row per key"
        )
    return rows


def _join(table: Any, side: Side, rows: Any, config: FilesConfig) -> Any:
    rule = NullRule(config.null_tokens, config.trim)
    keys = {f"_k{i}": read_text(table[c], rule).value for i, c in enumerate(side.keys)}
    on = [(f"_k{i}", f"k{i}") for i in range(len(keys))]
    joined = table.mutate(**keys).left_join(rows, on, rname="{name}_side")
    return joined.select(*table.columns, *side.adds)
