# SPDX-License-Identifier: Apache-2.0
"""Batches of NumPy arrays, streamed from encoded Parquet in bounded memory."""

import queue
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from features.schema import (
    LABEL,
    WEIGHT,
    CategoricalList,
    FeatureSchema,
    History,
    length_key,
    weight_key,
)
from models.ctr_model import CTRModel
from models.histories import places_key

Batch = dict[str, np.ndarray]


def list_widths(schema: FeatureSchema) -> dict[str, int]:
    """Return the padded width of every list column by batch key."""
    return {key: feature.max_items for feature in listed(schema) for key in list_keys(feature)}


def listed(schema: FeatureSchema) -> list[CategoricalList | History]:
    """Return the features whose tensors are padded lists."""
    return [*schema.lists, *schema.histories]


def batch_keys(schema: FeatureSchema) -> list[str]:
    """Return the columns that a model with this schema reads."""
    keys = [key for key, _ in schema.id_columns()]
    keys += [feature.name for feature in schema.numeric]
    keys += [weight_key(f.name) for f in schema.lists if f.weighted]
    keys += [length_key(f.name) for f in listed(schema)]
    return keys


def count_rows(folder: Path) -> int:
    """Return the number of rows of all Parquet files in a folder."""
    return sum(pq.read_metadata(path).num_rows for path in parquet_files(folder))


def parquet_files(folder: Path, pattern: str = "*.parquet") -> list[Path]:
    """Return the Parquet files of a folder in order.

    Raises:
        FileNotFoundError: There is none.
    """
    files = sorted(folder.glob(pattern))
    if not files:
        raise FileNotFoundError(f"{folder}: holds no Parquet file; run ingest first")
    return files


def read_batches(
    folder: Path,
    schema: FeatureSchema,
    batch_size: int,
    carry: Sequence[str] = (LABEL, WEIGHT),
    shuffle_seed: Sequence[int] | None = None,
    start: int = 0,
    pattern: str = "*.parquet",
) -> Iterator[Batch]:
    """Yield batches of the rows in a folder; the last one holds what is left.

    Row groups are read one at a time, so memory does not grow with the files.

    Args:
        folder: With Parquet files as `ingest` writes them.
        schema: Features to read.
        batch_size: Rows per batch.
        carry: Further columns to read.
        shuffle_seed: Mixes the order of row groups, and of the rows within each; the same seed
            gives the same order. None keeps the files' order.
        start: Number of the first batch to yield; those before are passed over.
        pattern: Which files of the folder.
    """
    columns = [*batch_keys(schema), *carry]
    widths = list_widths(schema)
    rng = None if shuffle_seed is None else np.random.default_rng(shuffle_seed)
    skip = start * batch_size
    left: list[Batch] = []
    held = 0
    for table in _row_groups(parquet_files(folder, pattern), columns, rng, skip):
        arrays = {name: to_numpy(table[name], widths.get(name)) for name in columns}
        rows = len(table)
        position = 0
        while held + rows - position >= batch_size:
            take = batch_size - held
            left.append(_rows(arrays, position, position + take))
            yield _join(left)
            left, held, position = [], 0, position + take
        if position < rows:
            left.append(_rows(arrays, position, rows))
            held += rows - position
    if held:
        yield _join(left)


def _row_groups(
    paths: list[Path], columns: list[str], rng: np.random.Generator | None, skip: int
) -> Iterator[pa.Table]:
    """Yield row groups without their first `skip` rows in all, shuffled if `rng` is given."""
    files = [pq.ParquetFile(path) for path in paths]
    groups = [(file, i) for file in files for i in range(file.num_row_groups)]
    order = np.arange(len(groups)) if rng is None else rng.permutation(len(groups))
    for number in order:
        file, i = groups[number]
        rows = file.metadata.row_group(i).num_rows
        # drawn even for a group that is passed over, so that later ones get the same order
        places = None if rng is None else rng.permutation(rows)
        if skip >= rows:
            skip -= rows
            continue
        table = file.read_row_group(i, columns=columns)
        if places is not None:
            table = table.take(places)
        yield table.slice(skip)
        skip = 0


def to_numpy(column: pa.ChunkedArray, width: int | None) -> np.ndarray:
    """Return a column as an array; lists are padded with zeros to (rows, width)."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if width is None:
        return array.to_numpy(zero_copy_only=False)
    return pad_lists(array, width)


def pad_lists(array: pa.ListArray, width: int) -> np.ndarray:
    """Return lists as rows of one array, cut to their first `width` items, padded with zeros."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    values = array.values.to_numpy(zero_copy_only=False)
    lengths = np.minimum(np.diff(offsets), width)
    places = np.arange(width)
    real = places < lengths[:, None]
    padded = np.zeros((len(array), width), values.dtype)
    padded[real] = values[(offsets[:-1, None] + places)[real]]
    return padded


def _rows(arrays: Batch, start: int, stop: int) -> Batch:
    return {name: array[start:stop] for name, array in arrays.items()}


def _join(parts: list[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def pad_batch(batch: Batch, rows: int) -> Batch:
    """Return the batch with zero rows added to a full size; their weight is 0."""
    missing = rows - len(next(iter(batch.values())))
    if not missing:
        return batch
    return {
        name: np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])
        for name, array in batch.items()
    }


def compact(batch: Batch, model: CTRModel, parts: int) -> Batch:
    """Return the batch without padding that no row needs, and with what saves the model the rest.

    Args:
        batch: Of the model's features.
        model: Gets the places of real events if it takes them; to others, every number of them
            would be another shape to compile.
        parts: See `add_places`.
    """
    trimmed = trim_lists(batch, model.schema)
    return add_places(trimmed, model.schema, parts) if model.takes_places else trimmed


def trim_lists(batch: Batch, schema: FeatureSchema) -> Batch:
    """Cut padding that no row of the batch needs.

    Widths are powers of two (or the full width), so that compiled code sees few shapes.
    """
    trimmed = dict(batch)
    widths = list_widths(schema)
    for feature in listed(schema):
        longest = max(int(batch[length_key(feature.name)].max(initial=0)), 1)
        width = 1 << (longest - 1).bit_length()
        for key in list_keys(feature):
            trimmed[key] = batch[key][:, : min(width, widths[key])]
    return trimmed


def add_places(batch: Batch, schema: FeatureSchema, parts: int) -> Batch:
    """Add the flat places of the real events of every history, so that padding costs nothing.

    The number of places is rounded up to a `parts`-th of all places: compiled code sees few
    shapes, and they follow from the batch alone, so that a resumed run computes alike.
    """
    extended = dict(batch)
    for history in schema.histories:
        rows, width = batch[history.channels[0].name].shape
        real = np.arange(width) < batch[length_key(history.name)][:, None]
        found = np.flatnonzero(real)
        step = max(rows * width // parts, 1)
        places = np.zeros(max(-(-len(found) // step), 1) * step, np.int32)
        places[: len(found)] = found
        extended[places_key(history.name)] = places
    return extended


def list_keys(feature: CategoricalList | History) -> list[str]:
    """Return the batch keys of a feature's padded lists."""
    if isinstance(feature, History):
        return [channel.name for channel in feature.channels]
    return [feature.name, *([weight_key(feature.name)] if feature.weighted else [])]


def prefetch(batches: Iterator[Batch], depth: int = 2) -> Iterator[Batch]:
    """Yield the same batches, read ahead in a thread that ends when the consumer stops."""
    ready: queue.Queue[Any] = queue.Queue(depth)
    stopped = threading.Event()
    end = object()

    def put(item: Any) -> None:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def read() -> None:
        try:
            for batch in batches:
                put(batch)
                if stopped.is_set():
                    return
            put(end)
        except Exception as error:  # noqa: BLE001 - handed over to the consumer
            put(error)

    thread = threading.Thread(target=read, name="batches", daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not end:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        stopped.set()
        thread.join()
