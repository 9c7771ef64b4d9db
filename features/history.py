# SPDX-License-Identifier: Apache-2.0
"""Point-in-time histories: what an entity did strictly before each of its events."""

from collections.abc import Mapping, Sequence
from typing import Any

import ibis

MICROSECONDS_PER_SECOND = 1_000_000


def add_history(
    rows: Any,
    counts: Any,
    channels: Mapping[str, str],
    max_items: int,
    gap_s: float = 0.0,
    ties: Sequence[str] = (),
    cut: str | None = None,
) -> Any:
    """Add the newest counting events before each row, oldest first.

    Each counting event carries the list of the last `max_items` counting events of its entity,
    itself included; a row picks the list of the last one before it by its number. So the work is
    one window and one join whatever the length of an entity's past.

    Args:
        rows: Table with `_row` (int64, unique), `_entity` (string), `_time` (int64, µs) and the
            columns that events carry.
        counts: Boolean expression over `rows`: which events enter histories.
        channels: Column of `rows` → name of the array column that is added.
        max_items: Events that are kept, the newest.
        gap_s: An event counts for a row only if event time < row time - gap, in seconds.
        ties: Columns whose values order events of the same time, so that the order of the rows
            does not; the channels if none are given.
        cut: Name of a boolean column to add, which says where older events were left out.

    Returns:
        `rows` with one array column per channel, never null, and `cut` if named: events with the
        same time do not see each other; rows without an entity or a time have an empty history.
    """
    gap = round(gap_s * MICROSECONDS_PER_SECOND)
    known = rows._entity.notnull() & rows._time.notnull()
    before = ibis.range_window(group_by="_entity", order_by="_time", preceding=(None, gap + 1))
    flags = rows.select("_row", "_entity", "_time", _counts=(counts & known).cast("int64"))
    seen = flags._counts.sum().over(before).fill_null(0)
    # the window of a row without a time reaches over everything
    numbered = flags.select("_row", "_entity", _seen=ibis.ifelse(flags._time.isnull(), 0, seen))
    order = ["_time", *(ties or channels), "_row"]
    snapshots = _snapshots(rows.filter(counts & known), list(channels), order, max_items)
    past = numbered.left_join(
        snapshots,
        [numbered._entity == snapshots._entity, numbered._seen == snapshots._number],
    ).select(_row="_row", _past="_past", _seen="_seen")
    joined = rows.left_join(past, "_row", rname="{name}_past").drop("_row_past")
    added = {
        name: joined._past.map(lambda event, column=column: event[column])
        for column, name in channels.items()
    }
    filled = {
        name: array.fill_null(ibis.literal([], type=array.type())) for name, array in added.items()
    }
    if cut:
        filled[cut] = joined._seen > max_items
    return joined.mutate(**filled).drop("_past", "_seen")


def is_before(event: Any, moment: Any, gap_s: float) -> Any:
    """Return whether an event is old enough for the history of a row; both int64, µs."""
    return event < moment - round(gap_s * MICROSECONDS_PER_SECOND)


def _snapshots(events: Any, columns: Sequence[str], order: Sequence[str], max_items: int) -> Any:
    """Return (entity, number of the event from 1, its last `max_items` events as structs)."""
    last = ibis.window(group_by="_entity", order_by=order, preceding=max_items - 1, following=0)
    numbered = ibis.window(group_by="_entity", order_by=order)
    return events.select(
        "_entity",
        _number=ibis.row_number().over(numbered) + 1,
        _past=ibis.struct({column: events[column] for column in columns}).collect().over(last),
    )
