# SPDX-License-Identifier: Apache-2.0
"""Read a source into one table of typed rows; malformed lines and cells are set aside."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import FilesSplit, RunConfig
from pipeline.config_data import SPARSE_FORMATS
from pipeline.errors import InputRejected
from pipeline.file_split import with_parts
from pipeline.rows import FILE, LABEL, MALFORMED, ROW, typed_rows
from pipeline.sources.expected import expected_form
from pipeline.sources.locate import settle
from pipeline.sources.rejects import Cell, Reject, line_rejects
from pipeline.sources.scan import Scan, readable
from pipeline.sources.source import Source

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

_SHOWN_REJECTS = 5


def read_rows(
    connection: "Backend",
    source: Source,
    config: RunConfig,
    rejected: Path | None,
    labelled: bool = True,
) -> tuple[Any, int]:
    """Read a source into the table `rows` of typed rows; malformed ones go to `rejected`.

    Args:
        connection: The engine.
        source: What is read.
        config: The run's config.
        rejected: Folder for the quarantine file; None to keep none.
        labelled: Whether label and weight are needed; predictions do without.

    Returns:
        The table without malformed rows, and how many there were.

    Raises:
        InputRejected: There are no rows, or more malformed ones than the config allows.
    """
    scans: list[Scan] = []
    count = 0
    for scan, table in source.read(connection):
        signed = scan.grammar is not None
        rows = typed_rows(table, config, count, labelled, signed)
        if labelled and isinstance(config.split, FilesSplit):
            rows = with_parts(rows, config.split, source.parts)
        with readable(scan.files):
            if scans:
                connection.insert("rows", rows)
            else:
                connection.create_table("rows", rows)
        scans.append(scan)
        count = int(connection.table("rows").count().execute())
    rows = connection.table("rows")
    rejects, malformed = _all_rejects(connection, source, scans, rows, config)
    if malformed > config.data.max_bad_rows:
        raise InputRejected(_rejection(rejects, malformed, config))
    if malformed and rejected:
        _set_aside(rejects, rejected)
    good = rows.filter(rows[MALFORMED].isnull()).drop(MALFORMED)
    if labelled and any(scan.grammar for scan in scans):
        good = _one_kind_of_labels(good)
    if good.count().execute() == 0:
        names = ", ".join(str(file.path) for file in source.files)
        why = f"; all are malformed, first {rejects[0]}" if rejects else ""
        raise InputRejected(f"{names}: no rows{why}; check that the partition was written")
    return good, malformed


def _one_kind_of_labels(rows: Any) -> Any:
    """Return rows whose labels -1 are 0.

    Raises:
        InputRejected: A file has both.
    """
    by_file = rows.group_by(FILE).agg(
        negatives=(rows[LABEL] == -1).sum(), zeros=(rows[LABEL] == 0).sum()
    )
    mixed = by_file.filter((by_file.negatives > 0) & (by_file.zeros > 0)).order_by(FILE)
    for file in mixed.to_pyarrow().to_pylist():
        raise InputRejected(
            f"{file[FILE]}: {file['negatives']:,} rows have label -1 and {file['zeros']:,} have 0; "
            'expected -1 and 1, or 0 and 1. If both are no clicks, say label.positive: "> 0"'
        )
    return rows.mutate(**{LABEL: rows[LABEL].clip(lower=0).cast("int8")})


def _all_rejects(
    connection: "Backend", source: Source, scans: Iterable[Scan], rows: Any, config: RunConfig
) -> tuple[list[Reject], int]:
    """Return malformed lines and cells in the order of the rows, and how many there are.

    Of cells, as many are returned as the config allows, or a few to show.
    """
    bad = rows.filter(rows[MALFORMED].notnull())
    total = int(bad.count().execute())
    most = max(config.data.max_bad_rows, _SHOWN_REJECTS)
    found = bad.order_by(ROW).limit(most).select(ROW, FILE, MALFORMED).to_pyarrow().to_pylist()
    extents = rows.group_by(FILE).agg(first=rows[ROW].min(), rows=rows.count())
    extent_of = {row[FILE]: row for row in extents.to_pyarrow().to_pylist()}
    cells: dict[str, list[Cell]] = {}
    for row in found:
        place = row[ROW] - extent_of[row[FILE]]["first"]
        cell = Cell(place, row[MALFORMED] or None, _expected(source, config, row[MALFORMED]))
        cells.setdefault(row[FILE], []).append(cell)
    rejects = []
    for scan in scans:
        lines = line_rejects(connection, scan)
        for file in scan.files:
            name = str(file.path)
            count = extent_of[name]["rows"] if name in extent_of else 0
            problems = cells.get(name, [])
            explain = [scan.grammar.problem] if scan.grammar else []
            rejects += settle(file, scan.config, lines[name], problems, count, *explain)
    return rejects, total - len(found) + sum(reject.lines for reject in rejects)


def _expected(source: Source, config: RunConfig, column: str) -> str:
    signed = source.files[0].format in SPARSE_FORMATS
    expected = f"expected {expected_form(config, column, signed)}"
    side = source.side_of(column)
    return f"{expected} from the side table {side.files[0].path}" if side else expected


def _set_aside(rejects: Sequence[Reject], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rejected.jsonl").open("w", encoding="utf-8") as file:
        for reject in rejects:
            file.write(json.dumps(reject.document(), ensure_ascii=False) + "\n")


def _rejection(rejects: Sequence[Reject], malformed: int, config: RunConfig) -> str:
    shown = [str(reject) for reject in rejects[:_SHOWN_REJECTS]]
    more = malformed - sum(reject.lines for reject in rejects[:_SHOWN_REJECTS])
    rows = "1 malformed row" if malformed == 1 else f"{malformed:,} malformed rows"
    lines = [
        f"{rows}, data.max_bad_rows allows {config.data.max_bad_rows}:",
        *shown,
        *([f"… and {more:,} more"] if more > 0 else []),
        "mend them at the source, correct the config, or raise data.max_bad_rows",
    ]
    return "\n".join(lines)
