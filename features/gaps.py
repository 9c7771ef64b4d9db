# SPDX-License-Identifier: Apache-2.0
"""Time gaps: how long before a row each event of its history happened, as ids.

The rule has no parameter that data decide and no float, so that every engine, the served graph
and a client in any language compute it alike:

    bucket(s) = min(number of binary digits of s, 31), s = whole seconds from event to row

0 s is bucket 0, 1 s is 1, 2 … 3 s are 2, 4 … 7 s are 3; 2³⁰ s (34 years) and more are 31. A
larger bucket is always longer ago. Ids: 1 missing, 2 + bucket.
"""

from typing import Any

import ibis

from features.raw import floor_divide
from features.schema import FIRST_UNKNOWN, MISSING

GAP_BITS = 31
"""Highest bucket."""
GAP_ROWS = FIRST_UNKNOWN + GAP_BITS + 1
"""Rows of a table of time gaps."""
_MICROSECONDS = 1_000_000


def seconds_before(events: Any, moment: Any) -> Any:
    """Return the whole seconds, rounded down, from each of an array of moments to another.

    Args:
        events: Array of int64, µs.
        moment: int64, µs, not before any of them.
    """
    return events.map(lambda event: floor_divide(moment - event, _MICROSECONDS))


def gap_id(seconds: Any) -> Any:
    """Return the id, int32, of an int64 gap; null is missing, below 0 counts as 0."""
    buckets = ((seconds < 2**bits, FIRST_UNKNOWN + bits) for bits in range(GAP_BITS))
    ids = ibis.cases((seconds.isnull(), MISSING), *buckets, else_=FIRST_UNKNOWN + GAP_BITS)
    return ids.cast("int32")
