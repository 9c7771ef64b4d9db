# SPDX-License-Identifier: Apache-2.0
"""Stage 1: raw files to typed rows, splits, a fitted feature space and encoded Parquet."""

import math
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from features.encode import encode_rows
from features.space import FeatureSpace
from features.splits import SPLITS, TRAIN, by_time, leave_last_out, shuffled, time_boundaries
from pipeline.config import LeaveLastOut, RunConfig, TimeSplit, moment_us
from pipeline.engine import open_engine
from pipeline.errors import InputRejected
from pipeline.file_split import parts_of_files
from pipeline.profile import profile_dataset
from pipeline.rows import GROUP, LABEL, ROW, TIME, WEIGHT, key_column, needed_columns, null_rule
from pipeline.runs import (
    Run,
    Stage,
    build_stage,
    code_fingerprint,
    fingerprint_files,
    fingerprint_of,
    write_json,
)
from pipeline.served_rows import parity_rows
from pipeline.sources.read import read_rows
from pipeline.sources.source import Source, open_source

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

__all__ = ["dataset_columns", "encoded_names", "ingest", "read_rows"]

ROW_GROUP_ROWS = 65_536
_MICROSECONDS = 1_000_000
_SECONDS_OF_A_YEAR = 365.2425 * 86_400
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
"""Years in which clicks are logged, both included."""


def ingest(run: Run) -> Stage:
    """Build `dataset/` for a run, or find that it is up to date.

    Raises:
        InputRejected: The data cannot be used; the message says where and what to do.
    """
    config = run.config
    source = open_source(config.data, needed_columns(config), run.date)
    # rows are numbered in the order of the files' names, however the config lists them
    files_in_order = tuple(sorted(source.files, key=lambda file: file.path))
    parts = parts_of_files(config.split, [file.path for file in files_in_order], run.date)
    source = replace(source, files=files_in_order, parts=parts)
    for warning in source.warnings:
        run.progress.event("warning", message=warning)
    files = [f.path for f in source.files] + [f.path for side in source.sides for f in side.files]
    data_fingerprint = fingerprint_files(files)
    sections = ("data", "label", "weight", "time", "entity", "keys", "split", "features", "seed")
    relevant = {section: getattr(config, section) for section in sections}
    relevant["parity_rows"] = config.export.parity_rows
    relevant["group"] = config.evaluate.group
    # where the files lie does not matter, their contents do
    relevant["data"] = _without_paths(config)
    relevant["files"] = [(parts.get(str(f.path)), f.index_base) for f in files_in_order]
    fingerprint = fingerprint_of(relevant, data_fingerprint, code_fingerprint())
    facts = {"data_fingerprint": data_fingerprint, "files": [str(path) for path in files]}
    return build_stage(
        run, run.dataset, fingerprint, lambda folder: facts | _ingest(run, source, folder)
    )


def _without_paths(config: RunConfig) -> dict[str, Any]:
    data = config.data.model_dump(mode="json", exclude={"files"})
    for join in data["joins"]:
        del join["files"]
    return data


def _ingest(run: Run, source: Source, folder: Path) -> dict[str, Any]:
    _empty(folder)
    config = run.config
    with open_engine(config.engine, folder / "work") as connection:
        rows, rejected = read_rows(connection, source, config, folder / "rejected")
        run.progress.event("read", rows=rows.count().execute(), rejected=rejected)
        odd_times = _odd_times(rows, config)
        rows, boundaries = _split(connection, rows, config)
        counts = _check_splits(rows, config.weight)
        space = FeatureSpace.fit(rows.filter(rows._split == TRAIN), config.features, rows)
        space.save(folder / "features")
        run.progress.event("fitted", tables={t.name: t.rows for t in space.schema.tables})
        encoded = connection.create_table("encoded", encode_rows(rows, space))
        _write_splits(encoded, config, folder)
        raw, offline = parity_rows(
            connection, rows, encoded, space, null_rule(config), config.export.parity_rows
        )
        _write_parity_rows(raw, offline, folder / "parity")
        profile = profile_dataset(rows, encoded, space)
    found = [*odd_times, *_always_empty(profile)]
    for warning in found:
        run.progress.event("warning", message=warning)
    profile["warnings"] = [*source.warnings, *found]
    profile["notes"] = [*source.notes, *_notes(config, rejected, counts["left_out"])]
    write_json(folder / "profile.json", profile)
    split = {"kind": config.split.kind, "boundaries": boundaries}
    return counts | {"rejected": rejected, "split": split}


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "fingerprint":
            path.unlink()


def _notes(config: RunConfig, rejected: int, left_out: int) -> list[str]:
    notes = [f"null tokens: {', '.join(map(repr, config.data.null_tokens))}"]
    if config.data.trim:
        notes.append("white space around texts was stripped (trim)")
    if rejected:
        notes.append(f"{rejected} malformed rows were set aside in dataset/rejected")
    if left_out:
        where = "in the gap" if isinstance(config.split, TimeSplit) else "in no part of the split"
        notes.append(f"{left_out} rows lie {where}: they only enter histories")
    return notes


def _odd_times(rows: Any, config: RunConfig) -> list[str]:
    """Return a warning if most rows happened before clicks were logged, or have yet to happen.

    Seconds read as milliseconds lie in January 1970, milliseconds read as seconds far ahead; the
    order is right all the same, so that nothing else tells.
    """
    if config.time is None or config.time.unit is None:
        return []
    middle = rows[TIME].median().execute()
    if middle is None or _FIRST_YEAR <= _year(middle) <= _LAST_YEAR:
        return []
    return [
        f"time: read with unit {config.time.unit}, the middle row of '{config.time.column}' lies "
        f"in {_year(middle)}; if that is not when it happened, correct `time.unit`: hours, gaps "
        "and boundaries of the split would be wrong"
    ]


def _always_empty(profile: dict[str, Any]) -> list[str]:
    """Return a warning for each list and history without an item in any training row."""
    why = {
        "history": "see that its `events:` and `label:` count what the data have, and that "
        "entities come again",
        "list": "see its column and `separator:`",
    }
    return [
        f"features.{column['feature']}: empty in all {column['rows']:,} training rows, so that a "
        f"model learns nothing of it; {why[column['kind']]}"
        for column in profile["columns"]
        if column.get("empty") == 1
    ]


def _year(microseconds: float) -> int:
    return math.floor(1970 + microseconds / _MICROSECONDS / _SECONDS_OF_A_YEAR)


def _split(connection: "Backend", rows: Any, config: RunConfig) -> tuple[Any, dict[str, Any]]:
    """Return rows with the part of each in `_split`, and the boundaries that were chosen."""
    match config.split:
        case TimeSplit() as split:
            valid_from, test_from = _boundaries(rows, split)
            gap = round(split.gap_s * _MICROSECONDS)
            shown = {"valid_from": _iso(valid_from), "test_from": _iso(test_from)}
            return rows.mutate(_split=by_time(rows, valid_from, test_from, gap)), shown
        case LeaveLastOut():
            return connection.create_table(
                "split_rows", rows.mutate(_split=leave_last_out(rows))
            ), {}
        case _:  # the row alone decides, so it was decided when the row was read
            return rows, {}


def _boundaries(rows: Any, split: TimeSplit) -> tuple[int, int]:
    if split.valid_from and split.test_from:
        return moment_us(split.valid_from), moment_us(split.test_from)
    try:
        return time_boundaries(rows, split.valid, split.test)
    except ValueError as error:
        raise InputRejected(f"split: {error}") from error


def _iso(microseconds: int) -> str:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(microseconds=microseconds)).isoformat()


def _check_splits(rows: Any, weight: str | None) -> dict[str, Any]:
    """Count rows and clicks; every part must have rows, training and validation both classes.

    What weighs nothing is of no class.

    Args:
        rows: Typed rows with `_split`.
        weight: Column of the data with their weights, which must not all be 0 in any part.
    """
    grouped = rows.group_by("_split").agg(
        n=rows.count(),
        positives=(rows[LABEL] == 1).sum(),
        heaviest=rows[WEIGHT].max(),
        weighed=(rows[WEIGHT] > 0).sum(),
        clicked=((rows[LABEL] == 1) & (rows[WEIGHT] > 0)).sum(),
    )
    found = {row["_split"]: row for row in grouped.to_pyarrow().to_pylist()}
    counts = {part: int(found[part]["n"]) if part in found else 0 for part in SPLITS}
    positives = {part: int(found[part]["positives"]) if part in found else 0 for part in SPLITS}
    left_out = int(found[None]["n"]) if None in found else 0
    for part in SPLITS:
        if counts[part] == 0:
            raise InputRejected(
                f"split: no rows for {part}; rows by part: {counts}, in none: {left_out}"
            )
        if weight and found[part]["heaviest"] == 0:
            raise InputRejected(
                f"weight: column {weight!r} is 0 in all {counts[part]} rows for {part}, and a row "
                "of weight 0 counts nowhere; expected weights above 0. Check the column, or leave "
                "weight out to count all rows alike"
            )
    for part in ("train", "valid"):
        weighed, clicked = found[part]["weighed"], found[part]["clicked"]
        if clicked in (0, weighed):
            above_0 = (
                f" of weight above 0 ({counts[part]} in all)" if weighed < counts[part] else ""
            )
            raise InputRejected(
                f"{part}: {weighed} rows{above_0} with {clicked} positive labels; training and "
                "early stopping need both classes. Check label.positive and the split"
                + (f", and the weights in column {weight!r}" if above_0 else "")
            )
    return {"rows": counts, "positives": positives, "left_out": left_out}


def dataset_columns(config: RunConfig) -> dict[str, str]:
    """Map columns of encoded rows to the names that the data set gives them."""
    keys = {key_column(column): f"key:{column}" for column in config.keys}
    group = {GROUP: "group"} if config.group_column else {}
    time = {TIME: "time_us"} if config.time else {}
    return {ROW: "row_id", LABEL: "label", WEIGHT: "weight"} | group | time | keys


def _write_splits(encoded: Any, config: RunConfig, folder: Path) -> None:
    """Write each part shuffled: training then reads files in order and still mixes."""
    names = encoded_names(encoded)
    carried = dataset_columns(config)
    for part in SPLITS:
        (folder / part).mkdir()
        rows = shuffled(encoded.filter(encoded._split == part), config.seed)
        chosen = {new: rows[old] for old, new in carried.items()}
        columns = rows.select(**chosen, **{name: rows[name] for name in names})
        columns.to_parquet(
            folder / part / "part-0.parquet", compression="zstd", row_group_size=ROW_GROUP_ROWS
        )


def encoded_names(encoded: Any) -> list[str]:
    """Return the columns of encoded rows that are features."""
    return [name for name in encoded.columns if not name.startswith("_")]


def _write_parity_rows(raw: Any, offline: Any, folder: Path) -> None:
    """Keep test rows raw and encoded, to prove the served model on before it is published."""
    folder.mkdir()
    pq.write_table(raw.to_pyarrow(), folder / "raw.parquet", compression="zstd")
    names = encoded_names(offline)
    table = offline.select(row_id=offline[ROW], **{n: offline[n] for n in names}).to_pyarrow()
    pq.write_table(table, folder / "encoded.parquet", compression="zstd")
