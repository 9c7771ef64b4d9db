# SPDX-License-Identifier: Apache-2.0
"""Batch scoring: raw files and an exported bundle to a Parquet file of scores."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from pipeline.bundle import SCORE, feed, load_facts
from pipeline.config import DataConfig, RunConfig
from pipeline.engine import open_engine
from pipeline.errors import InputRejected
from pipeline.ingest import read_rows
from pipeline.progress import Progress
from pipeline.rows import ROW, key_column, needed_columns
from pipeline.served_rows import add_raw_histories
from pipeline.sources.source import open_source

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

BATCH_ROWS = 4096


def predict(
    bundle: Path,
    files: Sequence[str],
    output: Path,
    progress: Progress,
    past: Sequence[str] = (),
    date: str | None = None,
) -> dict[str, Any]:
    """Score raw files with an exported version, in the order of their rows.

    Histories are built from the files themselves and from `past`, strictly before each row.
    Memory does not grow with the number of rows.

    Args:
        bundle: Folder of an exported version.
        files: Files to score, written like the training data.
        output: Parquet file that is written: `row`, the config's keys, `score`.
        progress: Where to report to.
        past: Earlier files of the log, whose events histories need.
        date: Fills `{date}` in paths.

    Raises:
        InputRejected: The files cannot be read as the training data were.
    """
    try:
        facts = load_facts(bundle)
    except FileNotFoundError as error:
        raise InputRejected(str(error)) from error
    config = RunConfig.model_validate(facts["config"])
    model = tf.saved_model.load(str(bundle))
    serve = model.signatures["serving_default"]
    with (
        tempfile.TemporaryDirectory(prefix="clickloom-") as work,
        open_engine(config.engine, Path(work) / "engine") as connection,
    ):
        rows, first = _read(connection, config, files, past, date)
        raw = Path(work) / "rows.parquet"
        _write_raw(rows, first, config, serve.structured_input_signature[1], raw)
        total = _write_scores(_batches(raw, serve, facts["lengths"]), output, config)
    progress.event("predict", status="done", rows=total, output=str(output))
    return {"rows": total, "output": str(output), "bundle": str(bundle)}


def _read(
    connection: "Backend",
    config: RunConfig,
    files: Sequence[str],
    past: Sequence[str],
    date: str | None,
) -> tuple[Any, int]:
    """Return typed rows of past and scored files, and the first row that is scored."""
    needs = needed_columns(config, labelled=False)
    paths = [*past, *files]
    data = DataConfig.model_validate(config.data.model_dump() | {"files": paths})
    source = open_source(data, needs, date)
    rows, _ = read_rows(connection, source, config, None, labelled=False)
    first = 0
    if past:
        earlier = open_source(
            DataConfig.model_validate(data.model_dump() | {"files": past}), needs, date
        )
        names = [str(file.path) for file in earlier.files]
        last = rows.filter(rows["_file"].isin(names))[ROW].max().execute()
        first = 0 if last is None else int(last) + 1
    return rows, first


def _write_raw(
    rows: Any, first: int, config: RunConfig, signature: Mapping[str, Any], path: Path
) -> None:
    """Write the inputs and keys of the scored rows in order, histories built."""
    with_histories = add_raw_histories(rows, config.features)
    scored = with_histories.filter(with_histories[ROW] >= first).order_by(ROW)
    inputs = [name for name in signature if name in scored.columns]
    keys = {key_column(column): scored[key_column(column)] for column in config.keys}
    chosen = {ROW: scored[ROW] - first} | keys | {name: scored[name] for name in inputs}
    scored.select(**chosen).to_parquet(path)


def _batches(
    raw: Path, serve: Any, lengths: Mapping[str, str]
) -> Iterator[tuple[pa.RecordBatch, np.ndarray]]:
    """Yield rows and their scores."""
    signature = serve.structured_input_signature[1]
    for rows in pq.ParquetFile(raw).iter_batches(BATCH_ROWS):
        inputs = feed(pa.Table.from_batches([rows]), signature, lengths)
        tensors = {name: tf.constant(array) for name, array in inputs.items()}
        yield rows, serve(**tensors)[SCORE].numpy()


def _write_scores(
    batches: Iterator[tuple[pa.RecordBatch, np.ndarray]], output: Path, config: RunConfig
) -> int:
    """Write scores aside and rename; a second run replaces the file, it never appends."""
    output.parent.mkdir(parents=True, exist_ok=True)
    aside = output.with_name(f".{output.name}.partial")
    keys = [(key, pa.string()) for key in config.keys]
    schema = pa.schema([("row", pa.int64()), *keys, ("score", pa.float32())])
    total = 0
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer:
        for rows, scores in batches:
            columns = [rows[ROW], *(rows[key_column(key)] for key in config.keys), pa.array(scores)]
            writer.write_table(pa.table(columns, schema.names).cast(schema))
            total += len(scores)
    aside.replace(output)
    return total
