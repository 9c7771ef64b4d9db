# SPDX-License-Identifier: Apache-2.0
"""Where malformed lines and cells stand in their file, and that no record of it was lost."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from pipeline.config import FilesConfig
from pipeline.config_data import SPARSE_COLUMNS, SPARSE_FORMATS
from pipeline.errors import InputRejected
from pipeline.sources.files import (
    LONGEST_LINE,
    SourceFile,
    flat_keys,
    open_bytes,
    quoting,
    separator_of,
    text_encoding,
)
from pipeline.sources.rejects import MOST_CHARACTERS, OPEN_QUOTE, Cell, Reject
from pipeline.sources.sparse import without_comment

_BLOCK_BYTES = 1 << 20
_NO_TEXT = "\ufffd"
_SLACK, _RECORDS_PER_SLACK = 5, 50_000
"""How far the engine's record numbers may be off: one for each of its buffers."""


def settle(
    file: SourceFile,
    config: FilesConfig,
    rejects: Sequence[Reject],
    cells: Sequence[Cell],
    rows: int,
    explain: Callable[[str], str | None] = lambda line: None,
) -> list[Reject]:
    """Return all rejects of a file in the order of its lines.

    Args:
        file: The file.
        config: How it is written.
        rejects: Malformed lines that the engine reported.
        cells: Malformed cells among the rows that it read.
        rows: Number of rows that it read.
        explain: Says what is wrong with a line whose label can be read, if it can tell.

    Raises:
        InputRejected: The file is cut off.
    """
    if file.format == "parquet":
        return _parquet_cells(file, cells)
    complete = _is_complete(file, config, rows + len(rejects))
    if complete and not rejects and not cells:
        return []
    walk = _Walk(file, config, sorted(rejects, key=lambda reject: reject.line or 0))
    problems = {cell.row: cell for cell in cells}
    found: list[Reject] = []
    row = 0
    for record in walk.records():
        if record.reject:
            found.append(replace(record.reject, line=record.line))
        elif row in problems:
            cell = problems.pop(row)
            text = _cell_text(file, record.content, cell.column)
            of_label = cell.column == SPARSE_COLUMNS[0]
            problem = (None if of_label else explain(record.content)) or cell.problem
            found.append(Reject(str(file.path), record.line, cell.column, problem, text))
        elif row >= rows and not complete:
            # DuckDB 2.0 forgets the record in which the file ends within quotes
            text = separator_of(file.format, config).join(record.content)[:MOST_CHARACTERS]
            found.append(Reject(str(file.path), record.line, None, OPEN_QUOTE, text, record.lines))
        row += record.reject is None
        if complete and not problems and not walk.waiting:
            break
    unseen = [Reject(str(file.path), None, c.column, c.problem, None) for c in problems.values()]
    # spaces alone are an empty line, for the engine a malformed one
    lines = [r for r in [*found, *walk.waiting] if r.column or (r.text or "").strip(" ")]
    return sorted(lines, key=lambda reject: reject.line or 0) + unseen


@dataclass(frozen=True)
class _Record:
    """A row: its first line, its number of lines, and its fields or text; or a reject."""

    line: int
    lines: int
    content: Any
    reject: Reject | None = None


class _Lines:
    """The lines of a stream, counted, with a look at the next one."""

    def __init__(self, stream: io.TextIOBase) -> None:
        self.stream = stream
        self.read = 0
        self.next: str | None = next(stream, None)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self.next is None:
            raise StopIteration
        text, self.next = self.next, next(self.stream, None)
        self.read += 1
        return text


class _Walk:
    """Walks over a file as the engine did: what it rejected is passed over by its text.

    The engine numbers records, not lines, and may err by one at the end of a buffer.

    Args:
        file: The file.
        config: How it is written.
        rejects: What the engine rejected, in order.
    """

    def __init__(self, file: SourceFile, config: FilesConfig, rejects: Sequence[Reject]) -> None:
        self.file = file
        self.config = config
        self.waiting = list(rejects)

    def records(self) -> Iterator[_Record]:
        """Yield rows and rejects; the header and empty lines are passed over."""
        stream = open_bytes(self.file.path, self.file.compression)
        encoding = text_encoding(self.config.encoding)
        with io.TextIOWrapper(stream, encoding, errors="replace", newline="") as text:
            lines = _Lines(text)
            is_text = not self.file.is_lines
            rows = self._fields(lines) if is_text else (line.rstrip("\r\n") for line in lines)
            header = is_text and self.config.header
            number = 0
            while lines.next is not None:
                first, number = lines.read + 1, number + 1
                reject = None if header else self._rejected(lines.next, number)
                if reject:
                    for _ in range(reject.lines):
                        next(lines, None)
                    yield _Record(first, lines.read - first + 1, None, reject)
                    continue
                content = next(rows)
                if not _is_empty(self.file, content):
                    if not header:
                        yield _Record(first, lines.read - first + 1, content)
                    header = False

    def _rejected(self, line: str, number: int) -> Reject | None:
        """Return the next reject if it is record `number`, which starts with `line`."""
        if not self.waiting:
            return None
        reject = self.waiting[0]
        known = (reject.text or "").splitlines() or [""]
        text = line.rstrip("\r\n")
        if len(known[0]) >= MOST_CHARACTERS - 2:
            text = text[: len(known[0])]
        near = abs(number - (reject.line or 0)) <= _SLACK + number // _RECORDS_PER_SLACK
        return self.waiting.pop(0) if near and _same(text, known[0]) else None

    def _fields(self, lines: _Lines) -> Iterator[list[str]]:
        separator = separator_of(self.file.format, self.config)
        try:
            yield from csv.reader(lines, delimiter=separator, quoting=quoting(self.config))
        except csv.Error as error:
            raise InputRejected(f"{self.file.path}: {error}; {OPEN_QUOTE}") from error


def _same(line: str, rejected: str) -> bool:
    """Compare a line with a reject, in which ? stands for what is no text."""
    if line == rejected or _NO_TEXT not in line:
        return line == rejected
    return len(line) == len(rejected) and all(
        there in (here, "?") for here, there in zip(line, rejected, strict=True)
    )


def _is_empty(file: SourceFile, content: Any) -> bool:
    if file.format in SPARSE_FORMATS:
        content = without_comment(content)
    if isinstance(content, list):
        return not content or (len(content) == 1 and not content[0].strip(" "))
    return not content.strip(" \t")


def _cell_text(file: SourceFile, content: Any, column: str | None) -> str | None:
    """Return the text of a cell; None if it stands in a side table."""
    if column is None:
        return content
    if file.format in SPARSE_FORMATS:
        return without_comment(content).split()[0] if column == "label" else content
    if file.format != "jsonl":
        place = file.columns.index(column) if column in file.columns else len(content)
        return content[place] if place < len(content) else None
    document = json.loads(content)
    cells = dict(flat_keys(document)) | document
    if column not in cells:
        return None
    value = cells[column]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_complete(file: SourceFile, config: FilesConfig, records: int) -> bool:
    """Return whether the engine surely read as many records as the file has.

    Raises:
        InputRejected: The file is cut off, which not every engine notices.
    """
    try:
        if not _has_quotes(file) or file.is_lines or not config.quoted:
            return True
        return config.encoding != "utf-16" and _count_records(file, config) == records
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{file.path}: cannot be read to its end: {error}") from error


def _has_quotes(file: SourceFile) -> bool:
    """Look for a quote; zstd is read to its end, as DuckDB does not notice where it is cut off."""
    found = False
    with open_bytes(file.path, file.compression) as stream:
        while block := stream.read(_BLOCK_BYTES):
            found = found or b'"' in block
            if found and file.compression != "zstd":
                break
    return found


def _count_records(file: SourceFile, config: FilesConfig) -> int:
    """Count records with another reader than the engine, empty lines and the header left out."""
    malformed = 0

    def count(row: Any) -> str:
        nonlocal malformed
        del row
        malformed += 1
        return "skip"

    names = [str(i) for i in range(len(file.columns))]
    read = pa_csv.ReadOptions(
        column_names=names, skip_rows=file.blank_lines, block_size=LONGEST_LINE, use_threads=True
    )
    parse = pa_csv.ParseOptions(
        delimiter=separator_of(file.format, config),
        newlines_in_values=True,
        invalid_row_handler=count,
    )
    first_only = pa_csv.ConvertOptions(
        include_columns=names[:1], column_types={name: pa.binary() for name in names}
    )
    with open_bytes(file.path, file.compression) as stream:
        reader = pa_csv.open_csv(stream, read, parse, first_only)
        rows = sum(batch.num_rows for batch in reader)
    return rows + malformed - int(config.header)


def _parquet_cells(file: SourceFile, cells: Sequence[Cell]) -> list[Reject]:
    """Look malformed cells up, one row group at a time."""
    parquet = pq.ParquetFile(file.path)
    found, first = [], 0
    for number in range(parquet.num_row_groups):
        rows = parquet.metadata.row_group(number).num_rows
        here = sorted((c for c in cells if first <= c.row < first + rows), key=lambda c: c.row)
        columns = [name for name in file.columns if name in {cell.column for cell in here}]
        group = parquet.read_row_group(number, columns=columns) if here else pa.table({})
        for cell in here:
            text = str(group[cell.column][cell.row - first]) if cell.column in columns else None
            problem = f"row {cell.row}: {cell.problem}"
            found.append(Reject(str(file.path), None, cell.column, problem, text))
        first += rows
    return found
