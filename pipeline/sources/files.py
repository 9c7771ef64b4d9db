# SPDX-License-Identifier: Apache-2.0
"""Which files a config means, how they are written, and which columns each of them has."""

import csv
import glob
import io
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import FilesConfig, Format, expand_path
from pipeline.errors import ConfigError, InputRejected

_FORMATS: dict[str, Format] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip
_COMPRESSIONS = (".gz", ".zst")
_HEADER_BYTES = 1 << 20


@dataclass(frozen=True)
class SourceFile:
    """One file and its columns, in the file's order; for JSON lines the columns are unknown."""

    path: Path
    format: Format
    columns: tuple[str, ...] | None
    schema: pa.Schema | None = None


def find_files(config: FilesConfig, date: str | None = None) -> list[Path]:
    """Return the files that the config's paths and globs mean, each once, sorted per pattern.

    Raises:
        InputRejected: A path or glob matches no file.
        ConfigError: A path needs a date or a variable that is not there.
    """
    found: dict[Path, None] = {}
    for pattern in config.files:
        try:
            expanded = expand_path(pattern, date)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        matches = sorted(glob.glob(expanded, recursive=True))
        files = [Path(match) for match in matches if Path(match).is_file()]
        if not files:
            raise InputRejected(f"{expanded}: no such file; the working folder is {Path.cwd()}")
        found.update(dict.fromkeys(files))
    return list(found)


def format_of(path: Path, config: FilesConfig) -> Format:
    """Return the declared format, or the one that the ending says.

    Raises:
        ConfigError: The ending says nothing and no format is declared.
    """
    if config.format:
        return config.format
    suffixes = [suffix for suffix in path.suffixes if suffix not in _COMPRESSIONS]
    if not suffixes or suffixes[-1] not in _FORMATS:
        raise ConfigError(
            f"{path}: the ending does not say the format; give format: csv, tsv, jsonl or parquet"
        )
    return _FORMATS[suffixes[-1]]


def separator_of(source_format: Format, config: FilesConfig) -> str:
    """Return the text between two fields of a csv or tsv file."""
    return config.separator or ("\t" if source_format == "tsv" else ",")


def inspect(path: Path, config: FilesConfig) -> SourceFile:
    """Read the header or footer of a file, not its rows.

    Raises:
        InputRejected: The file is empty, unreadable, or names a column twice.
    """
    source_format = format_of(path, config)
    if source_format == "jsonl":
        _require_text(path)
        return SourceFile(path, source_format, None)
    if source_format == "parquet":
        schema = _parquet_schema(path)
        return SourceFile(path, source_format, tuple(schema.names), schema)
    fields = first_fields(path, separator_of(source_format, config), config.encoding)
    if config.columns:
        if len(fields) != len(config.columns):
            raise InputRejected(
                _wrong_width(path, fields, config, separator_of(source_format, config))
            )
        return SourceFile(path, source_format, config.columns)
    repeated = {name for name in fields if fields.count(name) > 1}
    if repeated:
        raise InputRejected(f"{path}: line 1: columns named twice: {', '.join(sorted(repeated))}")
    return SourceFile(path, source_format, tuple(fields))


def first_fields(path: Path, separator: str, encoding: str) -> list[str]:
    """Return the fields of a text file's first line.

    Raises:
        InputRejected: The file is empty or is not text in this encoding.
    """
    text = _require_text(path).decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    if "\x00" in text[:1000]:
        raise InputRejected(f"{path}: is not {encoding} text (it holds zero bytes)")
    return next(csv.reader(io.StringIO(text), delimiter=separator))


def _require_text(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            head: bytes = stream.read(_HEADER_BYTES)
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{path}: cannot be read: {error}") from error
    if not head.strip():
        raise InputRejected(f"{path}: is empty")
    return head


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{path}: cannot be read as Parquet: {error}") from error


def _wrong_width(path: Path, fields: list[str], config: FilesConfig, separator: str) -> str:
    start = separator.join(fields)[:80]
    return (
        f"{path}: line 1: {len(fields)} fields found, {len(config.columns or ())} expected with "
        f"separator {separator!r}; the line starts {start!r}. Check separator, format and columns"
    )
