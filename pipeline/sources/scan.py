# SPDX-License-Identifier: Apache-2.0
"""Scan source files as Ibis tables of text (or native Parquet) columns, malformed lines apart.

This is the one place that speaks an engine's own SQL: readers differ between engines, what
follows them does not.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, groupby
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from pipeline.config import DataConfig, FilesConfig
from pipeline.errors import InputRejected
from pipeline.sources.files import LONGEST_LINE, SourceFile, separator_of
from pipeline.sources.sparse import Grammar
from pipeline.sources.sparse_query import sparse_query
from pipeline.sources.sql import (
    Wanted,
)
from pipeline.sources.sql import (
    column_name as _name,
)
from pipeline.sources.sql import (
    quoted as _quote,
)
from pipeline.sources.sql import (
    select_list as _select,
)

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

FILE, ORDER, BROKEN = "clickloom: file", "clickloom: order", "clickloom: broken"
"""Columns of a scan beside the data: path of the file, position within the scan from 0, and
whether the row could not be read as a whole. No column of the data is called so."""

_FEWEST_KEPT_REJECTS = 100_000
_VIEW_NUMBERS = count()
_READ_ERRORS = (duckdb.InvalidInputException, duckdb.IOException, duckdb.ConversionException)


@dataclass(frozen=True)
class Scan:
    """Rows of some files of one layout, not read yet."""

    table: Any
    files: tuple[SourceFile, ...]
    config: FilesConfig
    grammar: Grammar | None = None

    @property
    def most_rejects(self) -> int:
        """Problems per file that the engine keeps; a line may have one for each of its fields."""
        return most_rejects(self.files[0], self.config)


def most_rejects(file: SourceFile, config: FilesConfig) -> int:
    """Return how many problems of a file are kept: enough to count what the config allows."""
    allowed = config.max_bad_rows if isinstance(config, DataConfig) else 0
    return max(_FEWEST_KEPT_REJECTS, (allowed + 1) * (len(file.columns) + 1))


def scan_files(
    connection: "Backend",
    files: Sequence[SourceFile],
    config: FilesConfig,
    wanted: Sequence[Wanted],
) -> Iterator[Scan]:
    """Yield one scan per run of files that share a layout, in the order of the files.

    Every scan has the columns FILE, ORDER, BROKEN and all wanted ones; a column that the files
    lack is null.
    """
    for _, run in groupby(files, key=lambda file: file.layout):
        same = tuple(run)
        grammar = None
        match same[0].format:
            case "parquet":
                query = _parquet_query(same, wanted)
            case "jsonl":
                query = _json_query(same, config, wanted)
            case "libsvm" | "libffm":
                names = frozenset(w.name for w in wanted)
                grammar = Grammar.of(same[0].format, config, same[0].index_base, names)
                lines = _lines(same, config)
                query = sparse_query(lines, grammar, wanted, (FILE, ORDER, BROKEN))
            case _:
                query = _text_query(same, config, wanted)
        with readable(same):
            table = _view(connection, query)
        yield Scan(table, same, config, grammar)


@contextmanager
def readable(files: Sequence[SourceFile]) -> Iterator[None]:
    """Turn the engine's complaints about files, while it reads them, into a rejection.

    Raises:
        InputRejected: A file is cut off, damaged, or not of its declared format.
    """
    try:
        yield
    except duckdb.Error as error:
        text = str(error)
        # damaged Parquet is an error of no class; a full disk is no fault of the data
        of_reading = isinstance(error, _READ_ERRORS) or type(error) is duckdb.Error
        if not of_reading or "Could not write" in text or "No space left" in text:
            raise
        names = [str(file.path) for file in files]
        named = [name for name in names if name in text] or names[:3]
        raise InputRejected(f"{', '.join(named)}: cannot be read: {_reason(text)}") from error


def _reason(text: str) -> str:
    if "invalid state" in text:
        return (
            "its lines do not end alike (some in \\n, some in \\r\\n), or it is no such text file; "
            "expected one line ending throughout"
        )
    return text.split("\n", maxsplit=1)[0]


_SYSTEM = f"{_name(FILE)}, row_number() OVER () - 1 AS {_name(ORDER)}, false AS {_name(BROKEN)}"


def _view(connection: "Backend", query: str) -> Any:
    # a view keeps the text out of Ibis' own SQL parser, which does not know DuckDB's readers
    name = f"scan_{next(_VIEW_NUMBERS)}"
    connection.raw_sql(f"CREATE VIEW {name} AS {query}")
    return connection.table(name)


def _paths(files: Sequence[SourceFile]) -> str:
    return "[" + ", ".join(_quote(str(file.path)) for file in files) + "]"


def _read_csv(
    files: Sequence[SourceFile], config: FilesConfig, names: Sequence[str], **options: str
) -> str:
    """Return a call of DuckDB's reader; columns are numbered, as their names may clash."""
    columns = ", ".join(f"{_quote(name)}: 'VARCHAR'" for name in names)
    arguments = {
        "columns": f"{{{columns}}}",
        "auto_detect": "false",
        "encoding": _quote(config.encoding),
        "compression": _quote(files[0].compression),
        "filename": _quote(FILE),
        "hive_partitioning": "false",
        # in parallel, DuckDB 2.0 miscounts rows where a quoted line end meets a buffer's end
        "parallel": "false",
        "store_rejects": "true",
        "rejects_limit": str(most_rejects(files[0], config)),
        "max_line_size": str(LONGEST_LINE),
    } | options
    shown = ", ".join(f"{key} = {value}" for key, value in arguments.items())
    return f"read_csv({_paths(files)}, {shown})"


def _text_query(files: Sequence[SourceFile], config: FilesConfig, wanted: Sequence[Wanted]) -> str:
    columns = files[0].columns
    separator = separator_of(files[0].format, config)
    quote = "'\"'" if config.quoted else "''"
    source = _read_csv(
        files,
        config,
        [f"c{i}" for i in range(len(columns))],
        delim=_quote(separator),
        quote=quote,
        escape=quote,
        header=str(config.header).lower(),
        skip=str(files[0].blank_lines),
    )
    expressions = {name: f"c{i}" for i, name in enumerate(columns)}
    return f"SELECT {_SYSTEM}, {_select(wanted, expressions)} FROM {source}"


def _lines(files: Sequence[SourceFile], config: FilesConfig) -> str:
    """Return a call of DuckDB's reader for whole lines, in a column `line`."""
    return _read_csv(
        files, config, ["line"], delim="'\x01'", quote="''", escape="''", header="false"
    )


def _json_query(files: Sequence[SourceFile], config: FilesConfig, wanted: Sequence[Wanted]) -> str:
    lines = _lines(files, config)
    paths = list(dict.fromkeys(path for w in wanted for path in _json_paths(w.name)))
    listed = "[" + ", ".join(_quote(path) for path in paths) + "]"
    places = {path: i for i, path in enumerate(paths, start=1)}
    expressions = {
        w.name: _first([_json_cell(places[path], w.separator) for path in _json_paths(w.name)])
        for w in wanted
    }
    file, order, broken = map(_name, (FILE, ORDER, BROKEN))
    valid = "(json_valid(line) AND ltrim(line, ' \t') LIKE '{%')"
    numbered = (
        f"SELECT {file}, row_number() OVER () - 1 AS {order}, line, NOT {valid} AS {broken} "
        f"FROM {lines} WHERE trim(line, ' \t') <> ''"
    )
    # one call with all paths parses the line once
    parsed = (
        f"SELECT {file}, {order}, {broken}, "
        f"CASE WHEN NOT {broken} THEN json_extract_string(line, {listed}) END AS texts, "
        f"CASE WHEN NOT {broken} THEN json_type(line, {listed}) END AS types FROM ({numbered})"
    )
    return f"SELECT {file}, {order}, {broken}, {_select(wanted, expressions)} FROM ({parsed})"


def _json_paths(name: str) -> list[str]:
    """Return where a column stands: under its own name, or nested as its dots say."""
    literal = f"$.{json.dumps(name, ensure_ascii=False)}"
    if "." not in name:
        return [literal]
    nested = "$." + ".".join(json.dumps(part, ensure_ascii=False) for part in name.split("."))
    return [literal, nested]


def _json_cell(place: int, separator: str | None) -> str:
    text, kind = f"texts[{place}]", f"types[{place}]"
    # 42.0 is written where a number was once next to a null; it is the id 42
    scalar = f"CASE WHEN {kind} = 'DOUBLE' THEN regexp_replace({text}, '\\.0$', '') ELSE {text} END"
    if separator is None:
        return scalar
    return (
        f"CASE WHEN {kind} = 'ARRAY' THEN from_json({text}, '[\"VARCHAR\"]') "
        f"ELSE string_split({scalar}, {_quote(separator)}) END"
    )


def _first(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else f"coalesce({', '.join(expressions)})"


def _parquet_query(files: Sequence[SourceFile], wanted: Sequence[Wanted]) -> str:
    expressions = {name: _name(name) for name in files[0].columns}
    for field in files[0].schema or ():
        name = _name(field.name)
        if pa.types.is_timestamp(field.type):  # of any unit, with a zone or not: µs in UTC
            expressions[field.name] = f"{name}::TIMESTAMP"
        elif pa.types.is_floating(field.type):
            # the files' statistics know no NaN, so DuckDB 2.0 takes comparisons with it away
            expressions[field.name] = f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END"
    # old writers leave texts unmarked, which then look like bytes
    source = (
        f"read_parquet({_paths(files)}, filename = {_quote(FILE)}, hive_partitioning = false, "
        "binary_as_string = true)"
    )
    return f"SELECT {_SYSTEM}, {_select(wanted, expressions)} FROM {source}"
