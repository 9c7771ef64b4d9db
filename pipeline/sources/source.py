# SPDX-License-Identifier: Apache-2.0
"""A click log and its side tables, checked against the columns that a config needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import DataConfig, FilesConfig, JoinConfig
from pipeline.config_data import SPARSE_FORMATS, value_column
from pipeline.config_yaml import KeyPath
from pipeline.errors import ConfigError, InputRejected
from pipeline.rows import Need, wanted
from pipeline.sources.columns import (
    missing_columns,
    same_but_for_case,
    type_problem,
    wrong_separator,
)
from pipeline.sources.files import SourceFile, inspect, match_files
from pipeline.sources.joins import Side, join_side, load_side
from pipeline.sources.scan import Scan, scan_files
from pipeline.sources.sql import Wanted

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

_DATA: KeyPath = ("data", "files")
_MOST_SHOWN = 20


@dataclass(frozen=True)
class SourceProblem:
    """Why a source cannot be read, and the config key that asks for it."""

    path: KeyPath
    error: ConfigError | InputRejected


@dataclass(frozen=True)
class Source:
    """The files of a click log, its side tables, and what was noticed about their columns.

    `parts` maps the files' paths to the parts of a split by files.
    """

    config: DataConfig
    files: tuple[SourceFile, ...]
    sides: tuple[Side, ...]
    needs: tuple[Need, ...]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)

    def read(self, connection: "Backend") -> Iterator[tuple[Scan, Any]]:
        """Yield each scan of the log and its Ibis table, side tables joined, in file order."""
        from_sides = {name for side in self.sides for name in side.adds}
        keys = [Wanted(key) for side in self.sides for key in side.keys]
        columns = {w.name: w for w in [*keys, *wanted(self.needs)] if w.name not in from_sides}
        sides = [
            (side, load_side(connection, side, f"side_{i}")) for i, side in enumerate(self.sides)
        ]
        for scan in scan_files(connection, self.files, self.config, list(columns.values())):
            table = scan.table
            for side, rows in sides:
                table = join_side(table, side, rows, self.config)
            yield scan, table

    def side_of(self, column: str) -> Side | None:
        """Return the side table that adds a column, or None."""
        return next((side for side in self.sides if column in side.adds), None)


def open_source(config: DataConfig, needs: Sequence[Need], date: str | None = None) -> Source:
    """Find the files, read their headers, and check that every needed column is somewhere.

    Raises:
        InputRejected: A file is missing or unreadable, or lacks a required column; everything
            that is wrong is listed at once.
        ConfigError: A path cannot be filled in, or a format is not known.
    """
    source, problems = look_at(config, needs, date)
    if problems:
        refusal = ConfigError if isinstance(problems[0].error, ConfigError) else InputRejected
        raise refusal("\n".join(dict.fromkeys(str(problem.error) for problem in problems)))
    return source


def look_at(
    config: DataConfig, needs: Sequence[Need], date: str | None = None
) -> tuple[Source, list[SourceProblem]]:
    """Return a source as far as its headers tell, and everything that is wrong with it."""
    files, problems = find_files(config, _DATA, date)
    sides: list[Side] = []
    for i, join in enumerate(config.joins):
        path: KeyPath = ("data", "joins", i)
        side_files, found = find_files(join, path, date)
        problems += found
        problems += sparse_sides(path, side_files)
        if side_files and files:
            side, found = _side(join, path, side_files, files, sides, needs, config.joins[i + 1 :])
            problems += found
            sides.append(side)
    warnings: list[str] = []
    if files and len(sides) == len(config.joins):
        found, warnings = _check_columns(config, files, sides, needs)
        problems += found
    notes = tuple(_notes(config, files, sides, needs))
    found_source = Source(config, tuple(files), tuple(sides), tuple(needs), tuple(warnings), notes)
    return found_source, problems


def find_files(
    config: FilesConfig, path: KeyPath, date: str | None
) -> tuple[list[SourceFile], list[SourceProblem]]:
    """Return the files of a table by their headers, and what is wrong with them.

    Args:
        config: Where they are.
        path: Config key that asks for them.
        date: Fills `{date}` in paths.
    """
    found: dict[Path, SourceFile] = {}
    problems = []
    for pattern in config.files:
        try:
            matches = match_files(pattern, date)
        except (ConfigError, InputRejected) as error:
            problems.append(SourceProblem(path, error))
            continue
        for match in matches:
            try:
                found.setdefault(match, inspect(match, config))
            except (ConfigError, InputRejected) as error:
                problems.append(SourceProblem(path, error))
    return list(found.values()), problems


def sparse_sides(path: KeyPath, files: Iterable[SourceFile]) -> Iterator[SourceProblem]:
    """Yield the files of a side table that have no key columns."""
    for file in files:
        if file.format in SPARSE_FORMATS:
            yield refused(
                path,
                f"{file.path}: is {file.format}, which has no keys to join by; expected csv, tsv, "
                "jsonl or parquet",
            )


def _check_columns(
    config: DataConfig, files: Sequence[SourceFile], sides: Sequence[Side], needs: Sequence[Need]
) -> tuple[list[SourceProblem], list[str]]:
    """Return problems and warnings about the columns of a log, those of side tables included."""
    problems: list[SourceProblem] = []
    from_sides = {name: side for side in sides for name in side.adds}
    own = [need for need in needs if need.column not in from_sides]
    narrow = [message for file in files if (message := wrong_separator(file, config, own))]
    if narrow:
        return [SourceProblem(_DATA, InputRejected(narrow[0]))], []
    warnings = []
    for need, message in missing_columns(files, own, from_sides):
        if need.required:
            problems.append(refused(need.path, message))
        elif not all(file.is_lines for file in files):
            # labels are no input: a file without them, as tomorrow's, is scored all the same
            effect = "are no past events" if need.path[0] == "label" else "count as missing"
            warnings.append(f"{message}; its rows {effect}")
    read = [(file, [need.column for need in own]) for file in files]
    read += [(f, [*side.keys.values(), *side.adds.values()]) for side in sides for f in side.files]
    for file, columns in read:
        problems += [refused(_DATA, message) for message in same_but_for_case(file, columns)]
    for need in needs:
        side = from_sides.get(need.column)
        column = side.adds[need.column] if side else need.column
        problems += _type_problems(side.files if side else files, column, need)
    problems += _needs_that_clash(needs)
    return problems, list(dict.fromkeys(warnings))


def refused(path: KeyPath, message: str) -> SourceProblem:
    """Return the problem that input is rejected, with the config key that asks for it."""
    return SourceProblem(path, InputRejected(message))


def _type_problems(files: Iterable[SourceFile], column: str, need: Need) -> Iterator[SourceProblem]:
    """Yield the first file whose Parquet column cannot be read as declared."""
    for file in files:
        if file.schema is None or column not in file.columns:
            continue
        problem = type_problem(file.schema.field(column).type, need)
        if problem:
            yield refused(need.path, f"{file.path}: column {column!r} {problem}")
            return


def _needs_that_clash(needs: Sequence[Need]) -> Iterator[SourceProblem]:
    seen: dict[str, Need] = {}
    for need in needs:
        other = seen.setdefault(need.column.lower(), need)
        if other.column != need.column:
            yield refused(
                need.path,
                f"columns {other.column!r} and {need.column!r} differ only in upper and lower "
                "case, which the engine does not tell apart; rename one at the source",
            )


def _notes(
    config: DataConfig, files: Sequence[SourceFile], sides: Sequence[Side], needs: Sequence[Need]
) -> Iterator[str]:
    needed = {need.column for need in needs}
    used = needed | {key for side in sides for key in side.keys}
    columns = dict.fromkeys(column for file in files for column in file.columns)
    # a value that nothing reads is 1, or its row is malformed
    used |= {value_column(name) for name in config.fields or ()}
    unused = [column for column in columns if column not in used]
    if unused:
        more = f" and {len(unused) - _MOST_SHOWN} more" if len(unused) > _MOST_SHOWN else ""
        shown = ", ".join(column or "''" for column in unused[:_MOST_SHOWN])
        yield f"columns that nothing reads: {shown}{more}"
    for side in sides:
        for column in side.files[0].columns:
            name = side.config.prefix + column
            if name in needed and name in columns and column not in side.keys.values():
                yield (
                    f"column {name!r} stands in the data and in {side.files[0].path}; that of the "
                    "data is read: give the join a prefix to read the other"
                )


def _side(
    config: JoinConfig,
    path: KeyPath,
    side_files: Sequence[SourceFile],
    files: Sequence[SourceFile],
    earlier: Sequence[Side],
    needs: Sequence[Need],
    later: Sequence[JoinConfig],
) -> tuple[Side, list[SourceProblem]]:
    """Return a side table with the columns that it adds, and what is wrong with its join."""
    problems = []
    added = {name for side in earlier for name in side.adds}
    for key, side_key in config.keys.items():
        on = (*path, "on")
        at_data = [Need(key, on)] if key not in added else []
        lacking = [
            *missing_columns(files, at_data, added, role=", the key of a join"),
            *missing_columns(side_files, [Need(side_key, on)], role=", the key of a join"),
        ]
        problems += [refused(on, message) for _, message in lacking]
    in_data = {column for file in files for column in file.columns}
    needed = {need.column for need in needs} | {key for join in later for key in join.keys}
    columns = dict.fromkeys(c for file in side_files for c in file.columns)
    names = {config.prefix + c: c for c in columns if c not in config.keys.values()}
    wanted_names = [name for name in names if name in needed and name not in in_data]
    for name in wanted_names:
        if name in added:
            problems.append(
                refused(path, f"{side_files[0].path}: adds column {name!r}, which an earlier side "
                "table adds too; give one of them a prefix")
            )  # fmt: skip
    adds = {name: names[name] for name in wanted_names if name not in added}
    return Side(config, tuple(side_files), adds), problems
