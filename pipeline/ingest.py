# SPDX-License-Identifier: Apache-2.0
"""Stage 1: raw files to typed rows, splits, a fitted feature space and encoded Parquet."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from features.encode import encode_rows
from features.space import FeatureSpace
from features.splits import (
    SPLITS,
    TRAIN,
    by_column,
    by_hash,
    by_time,
    leave_last_out,
    shuffled,
    time_boundaries,
)
from pipeline.config import ColumnSplit, HashSplit, LeaveLastOut, RunConfig, TimeSplit
from pipeline.engine import open_engine
from pipeline.errors import InputRejected
from pipeline.profile import profile_dataset
from pipeline.rows import (
    ENTITY,
    GROUP,
    LABEL,
    MALFORMED,
    ROW,
    SPLIT_VALUE,
    TIME,
    WEIGHT,
    expected_form,
    key_column,
    needed_columns,
    typed_rows,
)
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
from pipeline.sources.locate import locate_cell
from pipeline.sources.scan import FILE, Reject
from pipeline.sources.source import Source, open_source

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

ROW_GROUP_ROWS = 65_536
_SHOWN_REJECTS = 5
_KEPT_REJECTS = 1_000
_MICROSECONDS = 1_000_000


def ingest(run: Run) -> Stage:
    """Build `dataset/` for a run, or find that it is up to date.

    Raises:
        InputRejected: The data cannot be used; the message says where and what to do.
    """
    config = run.config
    source = open_source(config.data, needed_columns(config), run.date)
    for warning in source.warnings:
        run.progress.event("warning", message=warning)
    files = [f.path for f in source.files] + [f.path for side in source.sides for f in side.files]
    data_fingerprint = fingerprint_files(files)
    parts = ("data", "label", "weight", "time", "entity", "keys", "split", "features", "seed")
    relevant = {part: getattr(config, part) for part in parts}
    relevant["parity_rows"] = config.export.parity_rows
    relevant["group"] = config.evaluate.group
    # where the files lie does not matter, their contents do
    relevant["data"] = _without_paths(config)
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
        split, boundaries = _split(rows, config)
        rows = connection.create_table(
            "split_rows", rows.mutate(_split=split).filter(lambda t: t._split.notnull())
        )
        counts = _check_splits(rows)
        space = FeatureSpace.fit(rows.filter(rows._split == TRAIN), config.features)
        space.save(folder / "features")
        run.progress.event("fitted", tables={t.name: t.rows for t in space.schema.tables})
        encoded = connection.create_table("encoded", encode_rows(rows, space))
        _write_splits(encoded, config, folder)
        count = config.export.parity_rows
        _write_parity_rows(connection, rows, encoded, space, count, folder / "parity")
        profile = profile_dataset(encoded, space)
    profile["warnings"] = list(source.warnings)
    profile["notes"] = [*source.notes, *_notes(config, rejected)]
    write_json(folder / "profile.json", profile)
    return {
        "rows": counts["rows"],
        "positives": counts["positives"],
        "rejected": rejected,
        "split": {"kind": config.split.kind, "boundaries": boundaries},
    }


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != "fingerprint":
            path.unlink()


def _notes(config: RunConfig, rejected: int) -> list[str]:
    notes = [f"null tokens: {', '.join(map(repr, config.data.null_tokens))}"]
    if config.data.trim:
        notes.append("white space around texts was stripped (trim)")
    if rejected:
        notes.append(f"{rejected} malformed rows were set aside in dataset/rejected")
    return notes


def read_rows(
    connection: "Backend",
    source: Source,
    config: RunConfig,
    rejected: Path | None,
    labelled: bool = True,
) -> tuple[Any, int]:
    """Read a source into the table `rows` of typed rows; malformed ones go to `rejected`.

    Returns:
        The table without malformed rows, and how many there were.

    Raises:
        InputRejected: There are no rows, or more malformed ones than the config allows.
    """
    count, first = 0, True
    for table in source.read(connection):
        rows = typed_rows(table, config, count, labelled)
        if first:
            connection.create_table("rows", rows)
        else:
            connection.insert("rows", rows)
        first = False
        count = connection.table("rows").count().execute()
    rows = connection.table("rows")
    rejects = source.rejects(connection) + _malformed_cells(rows, config)
    malformed = _count_rejects(rows, rejects)
    if malformed:
        _set_aside(rejects, malformed, config, rejected)
        rows = connection.create_table("good_rows", rows.filter(rows[MALFORMED].isnull()))
    if malformed > config.data.max_bad_rows:
        raise InputRejected(_rejection(rejects, malformed, config))
    if rows.count().execute() == 0:
        names = ", ".join(str(file.path) for file in source.files)
        raise InputRejected(f"{names}: no rows; check that the partition was written")
    return rows.drop(MALFORMED), malformed


def _count_rejects(rows: Any, rejects: Sequence[Reject]) -> int:
    lines = sum(1 for reject in rejects if reject.column is None)
    return lines + int(rows.filter(rows[MALFORMED].notnull()).count().execute())


def _malformed_cells(rows: Any, config: RunConfig) -> list[Reject]:
    bad = rows.filter(rows[MALFORMED].notnull()).order_by(ROW).limit(_KEPT_REJECTS)
    found = bad.select(ROW, FILE, MALFORMED).to_pyarrow().to_pylist()
    firsts = rows.group_by(FILE).agg(first=rows[ROW].min()).to_pyarrow().to_pylist()
    first_of = {row[FILE]: row["first"] for row in firsts}
    return [
        locate_cell(
            Path(row[FILE]),
            config.data,
            row[ROW] - first_of[row[FILE]],
            row[MALFORMED],
            f"expected {expected_form(config, row[MALFORMED])}",
        )
        for row in found
    ]


def _set_aside(
    rejects: Sequence[Reject], malformed: int, config: RunConfig, folder: Path | None
) -> None:
    if folder is None or malformed > config.data.max_bad_rows:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rejected.jsonl").open("w", encoding="utf-8") as file:
        for reject in rejects:
            file.write(json.dumps(reject.__dict__, ensure_ascii=False) + "\n")


def _rejection(rejects: Sequence[Reject], malformed: int, config: RunConfig) -> str:
    shown = [str(reject) for reject in rejects[:_SHOWN_REJECTS]]
    more = malformed - len(shown)
    lines = [
        f"{malformed} malformed rows, data.max_bad_rows allows {config.data.max_bad_rows}:",
        *shown,
        *([f"… and {more} more"] if more > 0 else []),
        "mend them at the source, correct the config, or raise data.max_bad_rows",
    ]
    return "\n".join(lines)


def _split(rows: Any, config: RunConfig) -> tuple[Any, dict[str, Any]]:
    """Return the split expression and the boundaries that were chosen."""
    match config.split:
        case TimeSplit() as split:
            valid_from, test_from = _boundaries(rows, split)
            gap = round(split.gap_s * _MICROSECONDS)
            shown = {"valid_from": _iso(valid_from), "test_from": _iso(test_from)}
            return by_time(rows, valid_from, test_from, gap), shown
        case HashSplit() as split:
            text = rows[ROW].cast("string")
            if split.column:
                text = rows[SPLIT_VALUE]
            elif split.kind == "user":
                text = rows[ENTITY]
            # rows without a value would all share one fate: they go by their number
            text = text.fill_null(rows[ROW].cast("string"))
            return by_hash(text, split.valid, split.test), {}
        case ColumnSplit() as split:
            return by_column(rows[SPLIT_VALUE], split.train, split.valid, split.test), {}
        case LeaveLastOut():
            return leave_last_out(rows), {}


def _boundaries(rows: Any, split: TimeSplit) -> tuple[int, int]:
    if split.valid_from and split.test_from:
        return _microseconds(split.valid_from), _microseconds(split.test_from)
    try:
        return time_boundaries(rows, split.valid, split.test)
    except ValueError as error:
        raise InputRejected(f"split: {error}") from error


def _microseconds(iso: str) -> int:
    from datetime import UTC, datetime

    moment = datetime.fromisoformat(iso)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * _MICROSECONDS)


def _iso(microseconds: int) -> str:
    from datetime import UTC, datetime, timedelta

    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (epoch + timedelta(microseconds=microseconds)).isoformat()


def _check_splits(rows: Any) -> dict[str, dict[str, int]]:
    """Count rows and clicks; every part must have rows, training and validation both classes."""
    grouped = rows.group_by("_split").agg(n=rows.count(), positives=(rows[LABEL] == 1).sum())
    found = {row["_split"]: row for row in grouped.to_pyarrow().to_pylist()}
    counts = {part: int(found[part]["n"]) if part in found else 0 for part in SPLITS}
    positives = {part: int(found[part]["positives"]) if part in found else 0 for part in SPLITS}
    for part in SPLITS:
        if counts[part] == 0:
            raise InputRejected(f"split: no rows for {part}; rows by part: {counts}")
    for part in ("train", "valid"):
        if positives[part] in (0, counts[part]):
            raise InputRejected(
                f"{part}: {counts[part]} rows with {positives[part]} positive labels; training and "
                "early stopping need both classes. Check label.positive and the split"
            )
    return {"rows": counts, "positives": positives}


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


def _write_parity_rows(
    connection: "Backend", rows: Any, encoded: Any, space: FeatureSpace, count: int, folder: Path
) -> None:
    """Keep test rows raw and encoded, to prove the served model on before it is published."""
    folder.mkdir()
    raw, offline = parity_rows(connection, rows, encoded, space, count)
    pq.write_table(raw.to_pyarrow(), folder / "raw.parquet", compression="zstd")
    names = encoded_names(offline)
    table = offline.select(row_id=offline[ROW], **{n: offline[n] for n in names}).to_pyarrow()
    pq.write_table(table, folder / "encoded.parquet", compression="zstd")
