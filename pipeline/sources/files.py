# SPDX-License-Identifier: Apache-2.0
"""Which files a config means, how they are written, and which columns each of them has."""

import csv
import glob
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.config import FilesConfig, Format, expand_path
from pipeline.config_data import ENDINGS, SPARSE_FORMATS, format_by_ending
from pipeline.errors import ConfigError, InputRejected
from pipeline.sources.meant import index_base_of
from pipeline.sources.sparse import Grammar, sparse_columns

Compression = Literal["none", "gzip", "zstd"]

_MAGIC: Mapping[bytes, Compression] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_UNREADABLE_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"\x04\x22M": "lz4"}
_HEAD_BYTES = 1 << 20
_SHOWN = 80
LONGEST_LINE = 1 << 24
"""Bytes of the longest line that is read; a longer one is malformed."""

csv.field_size_limit(LONGEST_LINE)


@dataclass(frozen=True)
class SourceFile:
    """One file: how it is written, and its columns in the file's order.

    Attributes:
        path: Where it lies.
        format: Its format.
        columns: Its columns; for JSON lines those that its first lines have, `a.b` for nested.
        schema: Of Parquet.
        compression: Of the whole file.
        blank_lines: Empty lines before the header.
        index_base: Of libsvm and libffm, what indices are counted from, if the config says so.
    """

    path: Path
    format: Format
    columns: tuple[str, ...]
    schema: pa.Schema | None = None
    compression: Compression = "none"
    blank_lines: int = 0
    index_base: int | None = None

    @property
    def layout(self) -> tuple[Any, ...]:
        """What files must share to be read in one scan."""
        columns = () if self.is_lines else self.columns
        schema = "" if self.schema is None else str(self.schema.remove_metadata())
        return self.format, columns, schema, self.compression, self.blank_lines, self.index_base

    @property
    def is_lines(self) -> bool:
        """Whether a row is a line, whatever it holds, and columns are found in it by name."""
        return self.format in ("jsonl", *SPARSE_FORMATS)


def match_files(pattern: str, date: str | None = None) -> list[Path]:
    """Return the files that a path or glob means, sorted.

    Raises:
        InputRejected: There is none.
        ConfigError: The path needs a date or a variable that is not there.
    """
    try:
        expanded = expand_path(pattern, date)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if Path(expanded).is_file():  # a name may hold [ or *
        return [Path(expanded)]
    if Path(expanded).is_dir():
        raise InputRejected(f"{expanded}: is a folder; name its files, as in {expanded}/*.parquet")
    files = [Path(match) for match in sorted(glob.glob(expanded, recursive=True))]
    files = [path for path in files if path.is_file()]
    if not files:
        raise InputRejected(f"{expanded}: no such file; the working folder is {Path.cwd()}")
    return files


def format_of(path: Path, config: FilesConfig) -> Format:
    """Return the declared format, or the one that the ending says.

    Raises:
        ConfigError: The ending says nothing and no format is declared.
    """
    if config.format:
        return config.format
    found = format_by_ending(path.name)
    if found is None:
        raise ConfigError(
            f"{path}: the ending does not say the format; give format: "
            f"{', '.join(dict.fromkeys(ENDINGS.values()))}"
        )
    return found


def separator_of(source_format: Format, config: FilesConfig) -> str:
    """Return the text between two fields of a csv or tsv file."""
    return config.separator or ("\t" if source_format == "tsv" else ",")


def inspect(path: Path, config: FilesConfig) -> SourceFile:
    """Read the header, the footer or the first lines of a file, not its rows.

    Raises:
        InputRejected: The file is empty, unreadable, or names a column twice.
        ConfigError: The format is not known.
    """
    source_format = format_of(path, config)
    if source_format == "parquet":
        schema = _parquet_schema(path)
        _require_distinct(path, schema.names)
        return SourceFile(path, source_format, tuple(schema.names), schema)
    compression = _compression(path)
    text = _head(path, compression, config.encoding)
    if source_format == "jsonl":
        return SourceFile(path, source_format, _json_columns(path, text), None, compression)
    if source_format in SPARSE_FORMATS:
        if config.columns:
            raise ConfigError(
                f"{path}: {source_format} has no columns to name; fields names its features by "
                f"{'position' if source_format == 'libsvm' else 'field'}"
            )
        base = index_base_of(path, config)
        columns = sparse_columns(path, text, Grammar.of(source_format, config, base))
        return SourceFile(path, source_format, columns, None, compression, index_base=base)
    if config.fields or config.index_base is not None:
        raise ConfigError(
            f"{path}: is read as {source_format}, which has no fields and index_base; they are "
            "options of libsvm and libffm. Give the format"
        )
    separator = separator_of(source_format, config)
    fields, blank_lines = _first_fields(path, text, separator, config)
    if config.columns:
        if len(fields) != len(config.columns):
            raise InputRejected(_wrong_width(path, fields, config, separator))
        return SourceFile(path, source_format, config.columns, None, compression)
    _require_distinct(path, fields)
    return SourceFile(path, source_format, tuple(fields), None, compression, blank_lines)


def _require_distinct(path: Path, names: Sequence[str]) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        shown = ", ".join(repr(name) for name in repeated)
        raise InputRejected(f"{path}: columns named twice: {shown}")


def first_fields(path: Path, config: FilesConfig) -> list[str]:
    """Return the fields of the first line of a csv or tsv file that is not empty.

    Raises:
        InputRejected: The file is empty or no text.
    """
    text = _head(path, _compression(path), config.encoding)
    return _first_fields(path, text, separator_of(format_of(path, config), config), config)[0]


def open_bytes(path: Path, compression: Compression) -> BinaryIO:
    """Open a file to read its decompressed bytes."""
    stream: BinaryIO = pa.input_stream(
        str(path), compression=None if compression == "none" else compression
    )
    return stream


def text_encoding(config_encoding: str) -> str:
    """Return Python's name of an encoding; a byte order mark is no text."""
    return "utf-8-sig" if config_encoding == "utf-8" else config_encoding


def flat_keys(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the values of a JSON object by name; those of nested objects as `outer.inner`."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from ((f"{key}.{inner}", found) for inner, found in flat_keys(value))
        else:
            yield key, value


def _compression(path: Path) -> Compression:
    """Tell compression by the first bytes: names are wrong often enough."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise InputRejected(f"{path}: cannot be read: {error}") from error
    for magic, name in _UNREADABLE_MAGIC.items():
        if start.startswith(magic):
            raise InputRejected(f"{path}: is compressed with {name}; expected plain, gz or zst")
    found = [compression for magic, compression in _MAGIC.items() if start.startswith(magic)]
    return found[0] if found else "none"


def head_bytes(path: Path, compression: Compression | None = None) -> bytes:
    """Return the start of a file, decompressed.

    Raises:
        InputRejected: The file cannot be read.
    """
    try:
        with open_bytes(path, compression or _compression(path)) as stream:
            return stream.read(_HEAD_BYTES)
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{path}: cannot be read: {error}") from error


def _head(path: Path, compression: Compression, encoding: str) -> str:
    """Return the start of a text file, bytes that are not text replaced."""
    head = head_bytes(path, compression)
    if not head.strip():
        raise InputRejected(f"{path}: is empty")
    text = head.decode(text_encoding(encoding), "replace")
    if "\x00" in text:
        raise InputRejected(
            f"{path}: is not {encoding} text: it holds zero bytes; check format and encoding"
        )
    return text


def _first_fields(
    path: Path, text: str, separator: str, config: FilesConfig
) -> tuple[list[str], int]:
    """Return the fields of the first line that is not empty, and the number of lines before it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=quoting(config))
    blank_lines = 0
    try:
        fields = next(reader)
        while not fields:
            blank_lines = reader.line_num
            fields = next(reader)
    except csv.Error as error:
        raise InputRejected(f"{path}: line {reader.line_num}: {error}") from error
    if "�" in "".join(fields) and config.header:
        raise InputRejected(
            f"{path}: line {blank_lines + 1} is not {config.encoding} text; give its encoding, "
            f"such as latin-1; the line starts {text.lstrip()[:_SHOWN]!r}"
        )
    return fields, blank_lines


def quoting(config: FilesConfig) -> Literal[0, 3]:
    """Return Python's constant for how quotes in a text file are read."""
    return csv.QUOTE_MINIMAL if config.quoted else csv.QUOTE_NONE


def _json_columns(path: Path, text: str) -> tuple[str, ...]:
    columns: dict[str, None] = {}
    for line in text.split("\n"):
        try:
            document = json.loads(line)
        except ValueError:  # malformed, or cut where the head ends
            continue
        if isinstance(document, dict):
            columns.update(dict.fromkeys(name for name, _ in flat_keys(document)))
    if not columns:
        start = text.lstrip()[:_SHOWN]
        hint = "; write the objects of the array one a line" if start.startswith("[") else ""
        raise InputRejected(
            f"{path}: no line is a JSON object; the file starts {start!r}, expected one object "
            f'such as {{"user": 7}} a line{hint}'
        )
    return tuple(columns)


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (OSError, pa.ArrowException) as error:
        raise InputRejected(f"{path}: cannot be read as Parquet: {error}") from error


def _wrong_width(path: Path, fields: list[str], config: FilesConfig, separator: str) -> str:
    start = separator.join(fields)[:_SHOWN]
    found = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
    return (
        f"{path}: line 1: {found} found, {len(config.columns or ())} expected with separator "
        f"{separator!r}; the line starts {start!r}. Check separator, format and columns"
    )
