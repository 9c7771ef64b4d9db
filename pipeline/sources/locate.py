# SPDX-License-Identifier: Apache-2.0
"""Find the line of a malformed cell, so that a message can point at it."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import FilesConfig
from pipeline.sources.files import format_of, inspect, separator_of
from pipeline.sources.scan import Reject


def locate_cell(path: Path, config: FilesConfig, row: int, column: str, problem: str) -> Reject:
    """Return the line and text of a cell.

    Args:
        path: The file.
        config: How it is written.
        row: Number of the well-formed row in the file, from 0.
        column: The malformed cell's column.
        problem: What was expected.
    """
    source_format = format_of(path, config)
    if source_format == "parquet":
        text = _parquet_cell(path, row, column)
        return Reject(str(path), None, column, f"row {row}: {problem}", text)
    if source_format == "jsonl":
        line, text = _json_cell(path, row, column)
    else:
        line, text = _text_cell(path, config, row, column)
    return Reject(str(path), line, column, problem, text)


def _open(path: Path, encoding: str) -> io.TextIOWrapper:
    stream = pa.input_stream(str(path), compression="detect")
    return io.TextIOWrapper(
        stream, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline=""
    )


def _text_cell(path: Path, config: FilesConfig, row: int, column: str) -> tuple[int, str]:
    columns = inspect(path, config).columns or ()
    with _open(path, config.encoding) as file:
        reader = csv.reader(file, delimiter=separator_of(format_of(path, config), config))
        if config.header:
            next(reader)
        start = reader.line_num + 1
        for fields in reader:
            if len(fields) == len(columns):  # lines of another width are not rows
                if row == 0:
                    return start, fields[columns.index(column)]
                row -= 1
            start = reader.line_num + 1
    raise LookupError(f"{path}: has fewer rows than were read")


def _json_cell(path: Path, row: int, column: str) -> tuple[int, str]:
    with _open(path, "utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                document = json.loads(line)
            except ValueError:
                continue
            if isinstance(document, dict):
                if row == 0:
                    return number, str(document.get(column))
                row -= 1
    raise LookupError(f"{path}: has fewer rows than were read")


def _parquet_cell(path: Path, row: int, column: str) -> str:
    for batch in pq.ParquetFile(path).iter_batches(columns=[column]):
        if row < len(batch):
            return str(batch[column][row].as_py())
        row -= len(batch)
    raise LookupError(f"{path}: has fewer rows than were read")
