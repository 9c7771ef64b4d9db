# SPDX-License-Identifier: Apache-2.0
"""Single rows of encoded data, by their `row_id`."""

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.schema import LABEL, FeatureSchema
from pipeline.batches import Batch, batch_keys, list_widths, parquet_files, to_numpy
from pipeline.errors import ConfigError
from pipeline.runs import Run

SPLITS = ("test", "valid", "train")
ROW = "row_id"


def find_row(run: Run, schema: FeatureSchema, split: str, row: int, advice: str) -> Batch:
    """Return a row of the encoded data, with its label, as a batch of one.

    Args:
        run: The run.
        schema: The features to read.
        split: Where the row should be.
        row: Its row_id.
        advice: What to do if another split, `{split}`, has the row.

    Raises:
        ConfigError: The split has no row of that number.
    """
    columns, widths = [*batch_keys(schema), LABEL], list_widths(schema)
    table = _find(run.dataset / split, row, columns)
    if table is None:
        others = [s for s in SPLITS if s != split and _find(run.dataset / s, row, [ROW])]
        low, high = _range(run.dataset / split)
        raise ConfigError(
            f"the {split} rows of {run.title} have no row_id {row}; "
            + (f"it is in {others[0]}: {advice.format(split=others[0])}" if others else
               f"theirs are among {low} to {high}; column {ROW} of dataset/{split} lists them")
        )  # fmt: skip
    return {name: to_numpy(table[name], widths.get(name)) for name in columns}


def split_of(run: Run, row: int) -> str:
    """Return the split that has a row.

    Raises:
        ConfigError: None has.
    """
    for split in SPLITS:
        if _find(run.dataset / split, row, [ROW]):
            return split
    there = [(split, *_range(run.dataset / split)) for split in SPLITS]
    raise ConfigError(
        f"no split of {run.title} has row_id {row}: "
        + ", ".join(f"{split} rows are among {low} to {high}" for split, low, high in there)
        + "; evaluate/predictions lists those of test and valid"
    )


def _find(folder: Path, row: int, columns: list[str]) -> pa.Table | None:
    """Return columns of a row in a folder of encoded rows; None if it is not there."""
    for path in parquet_files(folder):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            ids = file.read_row_group(group, columns=[ROW])[ROW]
            place = pc.index(ids, pa.scalar(row, ids.type)).as_py()
            if place >= 0:
                return file.read_row_group(group, columns=columns).slice(place, 1)
    return None


def _range(folder: Path) -> tuple[int, int]:
    ends = [pc.min_max(pq.read_table(p, columns=[ROW])[ROW]) for p in parquet_files(folder)]
    return min(e["min"].as_py() for e in ends), max(e["max"].as_py() for e in ends)


def stored_score(run: Run, split: str, row: int) -> float | None:
    """Return the score of a row in `evaluate/predictions`; None if there is none."""
    path = run.evaluate / "predictions" / f"{split}.parquet"
    if not path.exists():
        return None
    scores = pq.read_table(path, columns=["score"], filters=[(ROW, "==", row)])["score"]
    return scores[0].as_py() if len(scores) else None
