# SPDX-License-Identifier: Apache-2.0
"""How a text file is written, told by its start."""

import codecs
import json
from pathlib import Path
from typing import Literal

from pipeline.config import DataConfig, Format
from pipeline.init_columns import is_number
from pipeline.sources.files import first_fields, format_of, head_bytes

_SEPARATORS = (",", ";", "\t", "|")


def data_config(path: Path, declared: Format | None = None) -> DataConfig:
    """Return how a file is read; a first line with numbers in it is no header.

    Args:
        path: The file.
        declared: Its format, if its ending does not say it.

    Raises:
        InputRejected: The file cannot be read.
        ConfigError: Its format is not known.
    """
    config = DataConfig(files=(str(path),), format=declared)
    if (source_format := format_of(path, config)) not in ("csv", "tsv", "jsonl"):
        return config
    config = config.model_copy(update={"encoding": _encoding(path)})
    if source_format == "jsonl":
        return config
    fields = first_fields(path, config)
    if len(fields) == 1:
        # a table has several columns, and the right separator cuts the most
        tried = [config.model_copy(update={"separator": s}) for s in _SEPARATORS]
        best = max(tried, key=lambda other: len(first_fields(path, other)))
        if len(cut := first_fields(path, best)) > 1:
            config, fields = best, cut
    if any(is_number(field) for field in fields):
        names = tuple(f"c{i}" for i in range(1, len(fields) + 1))
        return config.model_copy(update={"header": False, "columns": names})
    return config


def text_lines(config: DataConfig) -> list[str]:
    """Return a starter's lines on how its file is written, where that is not the default."""
    lines = [f"  format: {config.format}"] if config.format else []
    if config.encoding != "utf-8":
        lines.append(f"  encoding: {config.encoding}  # the file is not utf-8")
    if config.separator:
        lines.append(f"  separator: {json.dumps(config.separator)}  # cuts the first line")
    if not config.header:
        lines.append("  header: false  # the first line has numbers in it")
        lines.append(f"  columns: [{', '.join(config.columns or ())}]  # give them names")
    return lines


def _encoding(path: Path) -> Literal["utf-8", "utf-16", "latin-1"]:
    head = head_bytes(path)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # the end may cut a letter
    except UnicodeDecodeError:
        return "latin-1"
    return "utf-8"
