# SPDX-License-Identifier: Apache-2.0
"""Which rows train, validate and test; every rule as an Ibis expression over typed rows."""

from typing import Any

import ibis

TRAIN, VALID, TEST = SPLITS = ("train", "valid", "test")
_HASH_DIGITS = 8


def time_boundaries(rows: Any, valid: float, test: float) -> tuple[int, int]:
    """Return the first moments of validation and test, µs, so that their shares of rows are met.

    Rows of one moment are never divided: a boundary is the moment of the row at the wanted rank.

    Args:
        rows: Table with `_time` (int64, µs, no nulls).
        valid: Share of rows for validation.
        test: Share of rows for the test.

    Raises:
        ValueError: There are too few distinct moments for three parts.
    """
    total = rows.count().execute()
    ranks = (round((1 - valid - test) * total), round((1 - test) * total))
    times = rows.select("_time").order_by("_time")
    found = [times.limit(1, offset=min(rank, total - 1))._time.execute() for rank in ranks]
    first, last = int(found[0].iloc[0]), int(found[1].iloc[0])
    earliest = int(rows._time.min().execute())
    if not earliest < first < last:
        raise ValueError(
            f"{total} rows have too few distinct times for shares of {1 - valid - test:.3g}, "
            f"{valid:g} and {test:g}; give valid_from and test_from, or split by hash"
        )
    return first, last


def by_time(rows: Any, valid_from: int, test_from: int, gap: int = 0) -> Any:
    """Return the part of each row by its `_time`, all in µs; null in the gap before a boundary."""
    t = rows._time
    return ibis.cases(
        (t < valid_from - gap, TRAIN),
        ((t >= valid_from) & (t < test_from - gap), VALID),
        (t >= test_from, TEST),
    )


def by_hash(text: Any, valid: float, test: float) -> Any:
    """Return the part of each text by its MD5, the same in every run and engine."""
    # hex digits of equal length compare like the number they write
    digits = (ibis.literal("split:") + text).hexdigest("md5").left(_HASH_DIGITS)
    return ibis.cases(
        (digits < _threshold(test), TEST),
        (digits < _threshold(test + valid), VALID),
        else_=TRAIN,
    )


def _threshold(share: float) -> str:
    scale = 16**_HASH_DIGITS
    return f"{min(round(share * scale), scale - 1):0{_HASH_DIGITS}x}"


def by_column(
    text: Any, train: tuple[str, ...], valid: tuple[str, ...], test: tuple[str, ...]
) -> Any:
    """Return the part that a column names; null for other values."""
    return ibis.cases((text.isin(train), TRAIN), (text.isin(valid), VALID), (text.isin(test), TEST))


def leave_last_out(rows: Any) -> Any:
    """Return test for each entity's last event, valid for the one before, train for the others.

    Entities with fewer than three events, and rows without an entity, train only.
    """
    newest_first = ibis.window(group_by="_entity", order_by=[ibis.desc("_time"), ibis.desc("_row")])
    position = ibis.row_number().over(newest_first)
    enough = rows._row.count().over(ibis.window(group_by="_entity")) >= 3
    enough &= rows._entity.notnull()
    return ibis.cases(
        (enough & (position == 0), TEST), (enough & (position == 1), VALID), else_=TRAIN
    )


def shuffled(rows: Any, seed: int) -> Any:
    """Return rows in a seeded random order that does not depend on threads or engine."""
    key = (ibis.literal(f"{seed}:") + rows._row.cast("string")).hexdigest("md5")
    return rows.order_by([key, "_row"])
