# SPDX-License-Identifier: Apache-2.0
"""Lines and cells that could not be read: where they stand, and that none is lost."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import FilesConfig
from pipeline.errors import InputRejected
from pipeline.sources.files import (
    SourceFile,
    flat_keys,
    open_bytes,
    quoting,
    separator_of,
    text_encoding,
)
from pipeline.sources.scan import Scan

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

_TAIL_BYTES = 1 << 20
_SHOWN = 120
_CUT = 10_000
"""Characters of a malformed line that DuckDB keeps."""


@dataclass(frozen=True)
class Reject:
    """A line or cell that could not be read, and how many lines were lost with it."""

    file: str
    line: int | None
    column: str | None
    problem: str
    text: str
    lines: int = 1

    def __str__(self) -> str:
        where = f"{self.file}: line {self.line}" if self.line else self.file
        column = f": column {self.column}" if self.column else ""
        return f"{where}{column}: {self.problem}; the text is {self.text[:_SHOWN]!r}"

    def document(self) -> dict[str, Any]:
        """Return what the quarantine file says of it."""
        return {key: getattr(self, key) for key in ("file", "line", "column", "problem", "text")}


@dataclass(frozen=True)
class Cell:
    """A malformed cell: its row within the rows that were read of its file, from 0."""

    row: int
    column: str | None
    problem: str


def line_rejects(connection: "Backend", scan: Scan) -> dict[str, list[Reject]]:
    """Return the lines of a scan that the engine could not parse, by file.

    They are complete only after the scan's table was read; `settle` adds what the engine loses.

    Raises:
        InputRejected: There are more than can be listed, or a quote that is not closed hides an
            unknown number of lines.
    """
    found: dict[str, list[Reject]] = {str(file.path): [] for file in scan.files}
    if scan.files[0].format == "parquet":
        return found
    rows = connection.raw_sql(
        "SELECT s.file_path, e.line, any_value(e.error_type), any_value(e.csv_line), count(*) "
        "FROM reject_errors e JOIN reject_scans s USING (scan_id, file_id) "
        "GROUP BY ALL ORDER BY s.file_path, e.line"
    ).fetchall()
    kept = dict.fromkeys(found, 0)
    for path, line, kind, text, problems in rows:
        content = (text or "").strip("\r\n")
        if path not in found or not content.strip(" "):  # spaces alone are an empty line
            continue
        kept[path] += problems
        lines = 1 + content.count("\n")
        reject = Reject(path, int(line), None, _explain(kind, content, scan), content, lines)
        if lines > 1 and len(content) >= _CUT - 2:
            raise InputRejected(
                f"{reject}; a quote that is not closed hides the lines after it. Mend the line, "
                "or say quoted: false if quotes are plain text in this file"
            )
        found[path].append(reject)
    for path, problems in kept.items():
        if problems >= scan.most_rejects:
            raise InputRejected(
                f"{found[path][0]}; so are {len(found[path]):,} lines and more. Check format, "
                "separator, columns and encoding"
            )
    return found


def _explain(kind: str, text: str, scan: Scan) -> str:
    file = scan.files[0]
    if file.format == "jsonl":
        return f"not a line of {scan.config.encoding} text"
    if "COLUMNS" in kind:
        separator = separator_of(file.format, scan.config)
        return _width_problem(len(_fields(text, separator, scan.config)), file, separator)
    return {
        "INVALID ENCODING": f"not {scan.config.encoding} text; give the file's encoding",
        "UNQUOTED VALUE": "a quote is not closed, or text follows a closing quote",
        "LINE SIZE OVER MAXIMUM": "longer than 16 MiB",
    }.get(kind, kind.lower())


def _fields(text: str, separator: str, config: FilesConfig) -> list[str]:
    lines = io.StringIO(text, newline="")
    return next(csv.reader(lines, delimiter=separator, quoting=quoting(config)), [])


def _width_problem(found: int, file: SourceFile, separator: str) -> str:
    fields = "1 field" if found == 1 else f"{found} fields"
    return f"{fields} found, {len(file.columns)} expected with separator {separator!r}"


def settle(
    file: SourceFile,
    config: FilesConfig,
    lines: Sequence[Reject],
    cells: Sequence[Cell],
    rows: int,
) -> list[Reject]:
    """Return all rejects of a file in the order of its lines.

    Args:
        file: The file.
        config: How it is written.
        lines: Malformed lines that the engine reported.
        cells: Malformed cells among the rows that it read.
        rows: Number of rows that it read.
    """
    if file.format == "parquet":
        return _parquet_cells(file, cells)
    ends_well = _ends_well(file, config)
    problems = {cell.row: cell for cell in cells}
    found = list(lines)
    known = {reject.line for reject in lines}
    for row, (line, content) in enumerate(_rows(file, config, known)):
        if ends_well and not problems:
            break
        if row in problems:
            cell = problems.pop(row)
            text = _cell_text(file, content, cell.column)
            found.append(Reject(str(file.path), line, cell.column, cell.problem, text))
        elif row >= rows:
            # DuckDB 2.0 forgets malformed lines after the last good one of its last buffer
            found.append(_lost(file, config, line, content))
    missing = [Reject(str(file.path), None, c.column, c.problem, "?") for c in problems.values()]
    return sorted(found, key=lambda reject: reject.line or 0) + missing


def _lost(file: SourceFile, config: FilesConfig, line: int, content: Any) -> Reject:
    if file.format == "jsonl":
        return Reject(str(file.path), line, None, f"not {config.encoding} text", content)
    separator = separator_of(file.format, config)
    problem = _width_problem(len(content), file, separator)
    return Reject(str(file.path), line, None, problem, separator.join(content))


def _open_text(file: SourceFile, encoding: str) -> io.TextIOWrapper:
    stream = open_bytes(file.path, file.compression)
    return io.TextIOWrapper(stream, text_encoding(encoding), errors="replace", newline="")


def _rows(
    file: SourceFile, config: FilesConfig, rejected: set[int | None]
) -> Iterator[tuple[int, Any]]:
    """Yield line number and content of each row as the engine counts them."""
    with _open_text(file, config.encoding) as stream:
        if file.format == "jsonl":
            for number, line in enumerate(stream, start=1):
                if line.strip() and number not in rejected:
                    yield number, line.rstrip("\r\n")
            return
        separator = separator_of(file.format, config)
        reader = csv.reader(stream, delimiter=separator, quoting=quoting(config))
        header = config.header
        start = 1
        for fields in reader:
            empty = not fields or (len(fields) == 1 and not fields[0].strip(" "))
            if not empty and header:
                header = False
            elif not empty and start not in rejected:
                yield start, fields
            start = reader.line_num + 1


def _cell_text(file: SourceFile, content: Any, column: str | None) -> str:
    if file.format != "jsonl":
        place = file.columns.index(column) if column in file.columns else None
        return "" if place is None or place >= len(content) else content[place]
    if not column:
        return content
    document = json.loads(content)
    value = document.get(column, dict(flat_keys(document)).get(column))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _ends_well(file: SourceFile, config: FilesConfig) -> bool:
    """Return whether the file surely ends with a well-formed line, so that no line was lost.

    Raises:
        InputRejected: The file is compressed and cut off, which not every engine notices.
    """
    if config.encoding == "utf-16":
        return False
    tail = _tail(file).rstrip(b"\r\n")
    last = tail[max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1 :]
    try:
        text = last.decode(text_encoding(config.encoding))
        if file.format == "jsonl":
            return "\x01" not in text
        separator = separator_of(file.format, config)
        reader = csv.reader([text], delimiter=separator, quoting=quoting(config), strict=True)
        return len(next(reader, [])) == len(file.columns)
    except (UnicodeDecodeError, csv.Error):
        return False


def _tail(file: SourceFile) -> bytes:
    try:
        with open_bytes(file.path, file.compression) as stream:
            if file.compression == "none":
                stream.seek(max(file.path.stat().st_size - _TAIL_BYTES, 0))
                return stream.read()
            tail = b""
            while block := stream.read(_TAIL_BYTES):
                tail = (tail + block)[-_TAIL_BYTES:]
            return tail
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{file.path}: cannot be read to its end: {error}") from error


def _parquet_cells(file: SourceFile, cells: Sequence[Cell]) -> list[Reject]:
    """Look malformed cells up, one row group at a time."""
    parquet = pq.ParquetFile(file.path)
    found, first = [], 0
    for number in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(number).num_rows
        here = [cell for cell in cells if first <= cell.row < first + rows]
        columns = {cell.column for cell in here} & set(file.columns)
        group = parquet.read_row_group(number, columns=sorted(columns)) if columns else None
        for cell in sorted(here, key=lambda cell: cell.row):
            value = group[cell.column][cell.row - first].as_py() if cell.column in columns else ""
            problem = f"row {cell.row}: {cell.problem}"
            found.append(Reject(str(file.path), None, cell.column, problem, str(value)))
        first += rows
    return found
