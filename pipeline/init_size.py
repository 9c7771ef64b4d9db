# SPDX-License-Identifier: Apache-2.0
"""The size of a batch for a file's number of rows."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.config_train import TrainConfig
from pipeline.sources.files import SourceFile, open_bytes

_HEAD_BYTES = 1 << 20
_STEPS = 100
_SMALLEST = 64
_TRAINED = 0.8
"""Share of the rows that the starter's splits train on."""


def train_lines(first: SourceFile, files: Sequence[Path]) -> list[str]:
    """Return a starter's line of `train`, where the default batch leaves an epoch few steps."""
    rows, default = _rows_about(first), TrainConfig().batch_size
    if rows is None:
        return []
    rows = round(rows * sum(f.stat().st_size for f in files) / first.path.stat().st_size)
    if rows * _TRAINED >= _STEPS * default:
        return []
    size = _SMALLEST
    while size * 2 * _STEPS <= rows * _TRAINED:
        size *= 2
    steps = max(1, round(rows * _TRAINED / default))
    epoch = f"{steps} step{'s' if steps > 1 else ''} an epoch"
    return [f"train: {{batch_size: {size}}}  # about {rows:,} rows: {default:,} would be {epoch}"]


def _rows_about(file: SourceFile) -> int | None:
    """Return how many rows a file has, by the length of its first lines; None if unknown."""
    if file.format == "parquet":
        return pq.read_metadata(file.path).num_rows
    with open_bytes(file.path, file.compression) as stream:
        head = stream.read(_HEAD_BYTES)
    lines = head.count(b"\n")
    if len(head) < _HEAD_BYTES:
        return lines
    if file.compression != "none" or not lines:
        return None
    return round(file.path.stat().st_size * lines / len(head))
