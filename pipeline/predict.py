# SPDX-License-Identifier: Apache-2.0
"""Batch scoring: raw files and an exported bundle to a Parquet file of scores."""

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from features.inputs import input_names
from features.schema import length_key
from pipeline.bundle import SCORE, feed, load_facts
from pipeline.config import DataConfig, RunConfig
from pipeline.config_data import format_by_ending
from pipeline.engine import open_engine
from pipeline.errors import ConfigError, InputRejected
from pipeline.progress import Progress
from pipeline.rows import FILE, ROW, Need, key_column, needed_columns
from pipeline.runs import require_writable
from pipeline.served_rows import add_raw_histories
from pipeline.sources.read import read_rows
from pipeline.sources.source import Source, open_source

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
        ConfigError: The output cannot be written.
        InputRejected: The files cannot be read as the training data were.
    """
    require_writable(output.parent, "--out")
    if output.is_dir():
        raise ConfigError(f"--out {output}: is a folder; name a file in it, as in scores.parquet")
    if format_by_ending(output.name) not in (None, "parquet"):
        raise ConfigError(f"--out {output}: scores are written as Parquet; name it so: .parquet")
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
        signature = serve.structured_input_signature[1]
        source, scored = _open(config, files, past, date, signature)
        for warning in [*source.warnings, *_without_past(config, past, signature)]:
            progress.event("warning", message=warning)
        rows, rejected = read_rows(connection, source, config, None, labelled=False)
        raw = Path(work) / "rows.parquet"
        _write_raw(rows, scored, config, signature, raw)
        total = _write_scores(_batches(raw, serve, facts["lengths"]), output, config)
    result = {"rows": total, "rejected": rejected, "output": str(output), "bundle": str(bundle)}
    progress.event("predict", status="done", **result)
    return result


def _open(
    config: RunConfig,
    files: Sequence[str],
    past: Sequence[str],
    date: str | None,
    signature: Collection[str],
) -> tuple[Source, list[str]]:
    """Return scored and past files, scored ones first so that their rows count from 0."""
    needs = _needs(config, signature)

    def opened(paths: Sequence[str]) -> Source:
        data = DataConfig.model_validate(config.data.model_dump() | {"files": tuple(paths)})
        return open_source(data, needs, date)

    scored = [str(file.path) for file in opened(files).files]
    # a glob for the past may match what is scored: each file is read once, and scored
    return opened([*files, *past]), scored


def _without_past(
    config: RunConfig, past: Sequence[str], signature: Collection[str]
) -> Iterator[str]:
    """Warn of histories that miss what the files to score do not hold."""
    built = [name for name, _ in config.histories() if length_key(name) in signature]
    if built and not past:
        yield (
            f"no --past: the histories ({', '.join(built)}) hold only what these files hold; "
            "give the earlier files of the log"
        )


def _needs(config: RunConfig, signature: Collection[str]) -> list[Need]:
    """Return the columns to read; those of features that the model leaves out may be missing."""
    inputs = input_names(config.features)
    served = {feature for feature, name in inputs.items() if name in signature}
    for history, spec in config.histories():
        if length_key(history) in signature:
            served |= {history, *spec.of}
    unread = {("features", feature) for feature in config.features if feature not in served}
    return [
        replace(need, required=False) if need.path[:2] in unread else need
        for need in needed_columns(config, labelled=False)
    ]


def _write_raw(
    rows: Any, files: list[str], config: RunConfig, signature: Mapping[str, Any], path: Path
) -> None:
    """Write the inputs and keys of the scored rows in order, histories built."""
    with_histories = add_raw_histories(rows, config.features)
    scored = with_histories.filter(with_histories[FILE].isin(files)).order_by(ROW)
    inputs = [name for name in signature if name in scored.columns]
    keys = {key_column(column): scored[key_column(column)] for column in config.keys}
    chosen = {ROW: scored[ROW]} | keys | {name: scored[name] for name in inputs}
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
