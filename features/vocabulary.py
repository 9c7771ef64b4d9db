# SPDX-License-Identifier: Apache-2.0
"""Vocabularies: which value has which id, independent of the order in which rows came."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.schema import FIRST_UNKNOWN


@dataclass(frozen=True)
class Vocabulary:
    """Known values of a table in the order of their ids.

    Ids: 0 padding, 1 missing, 2 … 1 + num_oov unknown, then the known values.

    Attributes:
        values: Known values, string (known values,).
        counts: Rows that each was fitted on, int64 (known values,).
        num_oov: Ids that unknown values share.
        rare_values: Distinct values that were left out by `min_count` or `max_size`.
        rare_rows: Rows that those stood in.
    """

    values: pa.Array
    counts: pa.Array
    num_oov: int = 1
    rare_values: int = 0
    rare_rows: int = 0

    @classmethod
    def fit(
        cls, counts: pa.Table, min_count: int = 1, max_size: int | None = None, num_oov: int = 1
    ) -> "Vocabulary":
        """Give ids to counted values, most frequent first, ties by value (byte order).

        Args:
            counts: Columns `value` (string, no nulls, distinct) and `count` (int64).
            min_count: Values with fewer rows are left out.
            max_size: Keep at most this many values.
            num_oov: Ids that unknown values share.
        """
        ordered = counts.sort_by([("count", "descending"), ("value", "ascending")])
        kept = ordered.filter(pc.greater_equal(ordered["count"], min_count))
        kept = kept.slice(0, max_size) if max_size else kept
        return cls(
            values=kept["value"].combine_chunks().cast(pa.string()),
            counts=kept["count"].combine_chunks().cast(pa.int64()),
            num_oov=num_oov,
            rare_values=len(ordered) - len(kept),
            rare_rows=(pc.sum(ordered["count"]).as_py() or 0)
            - (pc.sum(kept["count"]).as_py() or 0),
        )

    @property
    def first_known(self) -> int:
        """Id of the first known value."""
        return FIRST_UNKNOWN + self.num_oov

    @property
    def rows(self) -> int:
        """Rows of an embedding table for this vocabulary."""
        return self.first_known + len(self.values)

    def grow(self, counts: pa.Table, min_count: int = 1) -> "Vocabulary":
        """Append values that are not known yet; ids of known values never move.

        Args:
            counts: As for `fit`, of new rows.
            min_count: New values with fewer rows are left out.
        """
        new = counts.filter(pc.invert(pc.is_in(counts["value"], value_set=self.values)))
        added = Vocabulary.fit(new, min_count, None, self.num_oov)
        return Vocabulary(
            values=pa.concat_arrays([self.values, added.values]),
            counts=pa.concat_arrays([self.counts, added.counts]),
            num_oov=self.num_oov,
            rare_values=added.rare_values,
            rare_rows=added.rare_rows,
        )

    def ids(self) -> pa.Table:
        """Return columns `value` (string) and `id` (int32) of the known values."""
        ids = pa.array(range(self.first_known, self.rows), pa.int32())
        return pa.table({"value": self.values, "id": ids})

    def save(self, path: Path) -> None:
        """Write the vocabulary as Parquet; the same vocabulary gives the same bytes."""
        facts = {
            "num_oov": self.num_oov,
            "rare_values": self.rare_values,
            "rare_rows": self.rare_rows,
        }
        table = pa.table({"value": self.values, "count": self.counts})
        metadata = {key: str(value) for key, value in facts.items()}
        pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read what `save` wrote."""
        table = pq.read_table(path)
        facts = {key.decode(): int(value) for key, value in table.schema.metadata.items()}
        values = table["value"].combine_chunks()
        return cls(values, table["count"].combine_chunks(), **facts)
