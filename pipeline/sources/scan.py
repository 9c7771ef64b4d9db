# SPDX-License-Identifier: Apache-2.0
"""Scan source files as Ibis tables of text (or native Parquet) columns, malformed lines apart.

This is the one place that speaks an engine's own SQL: readers differ between engines, what
follows them does not.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import FilesConfig
from pipeline.errors import InputRejected
from pipeline.sources.files import SourceFile, separator_of

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

FILE, ORDER = "_file", "_order"
"""Columns of a scan beside the data: path of the file and position within the scan, from 0."""


_VIEW_NUMBERS = count()


@dataclass(frozen=True)
class Reject:
    """A line or cell that could not be read."""

    file: str
    line: int | None
    column: str | None
    problem: str
    text: str

    def __str__(self) -> str:
        where = f"{self.file}: line {self.line}" if self.line else self.file
        column = f": column {self.column}" if self.column else ""
        return f"{where}{column}: {self.problem}; the text is {self.text[:120]!r}"


@dataclass(frozen=True)
class Wanted:
    """A data column that is read; `separator` makes its cells lists."""

    name: str
    separator: str | None = None


@dataclass(frozen=True)
class Scan:
    """Rows of some files of one layout, not read yet, and the lines that could not be parsed."""

    table: Any
    files: tuple[Path, ...]

    def rejects(self, connection: "Backend") -> list[Reject]:
        """Return malformed lines; complete only after the table was read once."""
        raise NotImplementedError


def scan_files(
    connection: "Backend",
    files: Sequence[SourceFile],
    config: FilesConfig,
    wanted: Sequence[Wanted],
) -> Iterator[Scan]:
    """Yield one scan per run of files that share format and columns, in the order of the files.

    Every scan has the columns `_file`, `_order` and all wanted ones; a column that the files
    lack is null.
    """
    for _, run in groupby(files, key=lambda file: (file.format, file.columns, str(file.schema))):
        same = list(run)
        match same[0].format:
            case "parquet":
                yield _scan_parquet(connection, same, wanted)
            case "jsonl":  # file by file, so that a row's number is its line
                for file in same:
                    yield _scan_jsonl(connection, file, wanted)
            case _:
                yield _scan_text(connection, same, config, wanted)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _view(connection: "Backend", query: str) -> Any:
    # a view keeps the text out of Ibis' own SQL parser, which does not know DuckDB's readers
    name = f"scan_{next(_VIEW_NUMBERS)}"
    connection.raw_sql(f"CREATE VIEW {name} AS {query}")
    return connection.table(name)


def _paths(files: Sequence[SourceFile]) -> str:
    return "[" + ", ".join(_quote(str(file.path)) for file in files) + "]"


def _select(wanted: Sequence[Wanted], expressions: Mapping[str, str], source: str) -> str:
    columns = [f"{expressions.get(w.name, 'NULL::VARCHAR')} AS {_name(w.name)}" for w in wanted]
    head = [f"filename AS {FILE}", f"row_number() OVER () - 1 AS {ORDER}"]
    return f"SELECT {', '.join(head + columns)} FROM {source}"


@dataclass(frozen=True)
class _TextScan(Scan):
    num_columns: int
    separator: str

    def rejects(self, connection: "Backend") -> list[Reject]:
        rows = connection.raw_sql(
            "SELECT DISTINCT s.file_path, e.line, e.error_type, e.csv_line "
            "FROM reject_errors e JOIN reject_scans s USING (scan_id, file_id) "
            "ORDER BY s.file_path, e.line"
        ).fetchall()
        known = {str(path) for path in self.files}
        return [
            Reject(file, int(line), None, self._explain(kind, text), text)
            for file, line, kind, text in rows
            if file in known
        ]

    def _explain(self, kind: str, text: str) -> str:
        if "COLUMNS" in kind:
            found = text.count(self.separator) + 1
            return f"{found} fields found, {self.num_columns} expected"
        return {"INVALID ENCODING": "not valid text in the declared encoding"}.get(
            kind, kind.lower()
        )


def _scan_text(
    connection: "Backend",
    files: Sequence[SourceFile],
    config: FilesConfig,
    wanted: Sequence[Wanted],
) -> Scan:
    columns = files[0].columns or ()
    separator = separator_of(files[0].format, config)
    _require_width(files[0], columns, wanted, separator)
    types = ", ".join(f"{_quote(name)}: 'VARCHAR'" for name in columns)
    source = (
        f"read_csv({_paths(files)}, columns = {{{types}}}, header = {str(config.header).lower()}, "
        f"delim = {_quote(separator)}, quote = '\"', escape = '\"', auto_detect = false, "
        f"encoding = {_quote(config.encoding)}, filename = true, store_rejects = true, "
        "rejects_limit = 0, max_line_size = 16777216)"
    )
    expressions = {name: _name(name) for name in columns}
    table = _view(connection, _select(wanted, expressions, source))
    return _TextScan(table, tuple(f.path for f in files), len(columns), separator)


def _require_width(
    file: SourceFile, columns: Sequence[str], wanted: Sequence[Wanted], separator: str
) -> None:
    if len(columns) == 1 and len(wanted) > 1:
        raise InputRejected(
            f"{file.path}: line 1: 1 field found, at least {len(wanted)} expected with separator "
            f"{separator!r}; the line starts {columns[0][:80]!r}. Check format and separator"
        )


@dataclass(frozen=True)
class _LinesScan(Scan):
    def rejects(self, connection: "Backend") -> list[Reject]:
        lines = _lines(self.files[0])
        rows = connection.raw_sql(
            f"SELECT line_number, line FROM ({lines}) "
            "WHERE line IS NOT NULL AND NOT (json_valid(line) AND ltrim(line, ' \t') LIKE '{%') "
            "ORDER BY line_number"
        ).fetchall()
        path = str(self.files[0])
        return [Reject(path, int(n), None, "not a JSON object", text) for n, text in rows]


def _lines(path: Path) -> str:
    return (
        "SELECT line, filename, row_number() OVER () AS line_number FROM "
        f"read_csv({_quote(str(path))}, columns = {{'line': 'VARCHAR'}}, header = false, "
        "delim = '\x01', quote = '', escape = '', auto_detect = false, filename = true, "
        "max_line_size = 16777216)"
    )


def _scan_jsonl(connection: "Backend", file: SourceFile, wanted: Sequence[Wanted]) -> Scan:
    expressions = {}
    for w in wanted:
        value = f"json_extract_string(line, {_quote('$.' + json.dumps(w.name))})"
        if w.separator is not None:  # an array is a list already, a text is cut
            path = _quote("$." + json.dumps(w.name))
            value = (
                f"CASE WHEN json_type(line, {path}) = 'ARRAY' "
                f"THEN from_json(json_extract(line, {path}), '[\"VARCHAR\"]') "
                f"ELSE string_split({value}, {_quote(w.separator)}) END"
            )
        expressions[w.name] = value
    valid = (
        f"(SELECT filename, line::JSON AS line FROM ({_lines(file.path)}) "
        "WHERE CASE WHEN json_valid(line) THEN ltrim(line, ' \t') LIKE '{%' ELSE false END)"
    )
    return _LinesScan(_view(connection, _select(wanted, expressions, valid)), (file.path,))


@dataclass(frozen=True)
class _ParquetScan(Scan):
    def rejects(self, connection: "Backend") -> list[Reject]:
        del connection
        return []  # Parquet has no lines; cells are checked by type


def _scan_parquet(
    connection: "Backend", files: Sequence[SourceFile], wanted: Sequence[Wanted]
) -> Scan:
    source = f"read_parquet({_paths(files)}, filename = true)"
    expressions = {name: _name(name) for name in files[0].columns or ()}
    table = _view(connection, _select(wanted, expressions, source))
    return _ParquetScan(table, tuple(f.path for f in files))
