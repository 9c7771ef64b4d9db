# SPDX-License-Identifier: Apache-2.0
"""Heat maps of the events of single rows, as the report's template draws them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_EVENTS = 24
"""About as many events are shown of one history; a longer one leaves out small weights."""
_NEWEST, _OLDEST = 6, 2
"""Events at the ends that are always shown."""


@dataclass(frozen=True)
class Cell:
    """A weight, and how strong its colour is, in percent of the largest one of the history."""

    weight: float
    strength: int


@dataclass(frozen=True)
class Line:
    """An event and its place from 1, the oldest; or events left out, and what they sum to.

    Attributes:
        place: Of the event, or of the first one left out.
        items: Of the event by channel; none where events are left out.
        cells: By line of the weights.
        left_out: How many events it stands for that are not shown; 0 for an event.
    """

    place: int
    items: Sequence[Mapping[str, Any]]
    cells: Sequence[Cell]
    left_out: int = 0


def shown_places(weights: Sequence[Sequence[float]], most: int = MOST_EVENTS) -> list[int]:
    """Return which events of a history are shown: both ends, and the largest weights between.

    An event that would be the only one left out between two is shown, too: it takes no more room.

    Args:
        weights: By event, oldest first, and line.
        most: How many events are shown besides those.
    """
    count = len(weights)
    if count <= most:
        return list(range(count))
    ends = {*range(_OLDEST), *range(count - _NEWEST, count)}
    sizes = [max(map(abs, event)) for event in weights]
    by_size = sorted(set(range(count)) - ends, key=lambda place: (-sizes[place], place))
    shown = {*ends, *by_size[: most - len(ends)]}
    return [k for k in range(count) if k in shown or {k - 1, k + 1} <= shown]


def history_lines(history: Mapping[str, Any]) -> list[Line]:
    """Return the lines of a history's heat map, oldest event first.

    Args:
        history: As `pipeline.history_weights.history_facts` returns it.
    """
    events = history["events"]
    weights = [event["weights"] for event in events]
    largest = max((abs(w) for event in weights for w in event), default=0.0) or 1.0
    lines, before = [], 0
    for place in [*shown_places(weights), len(events)]:
        if place > before:
            sums = [sum(line) for line in zip(*weights[before:place], strict=True)]
            cells = [Cell(float(f"{total:.9g}"), 0) for total in sums]
            lines.append(Line(before + 1, (), cells, left_out=place - before))
        if place < len(events):
            cells = [Cell(w, round(100 * abs(w) / largest)) for w in weights[place]]
            lines.append(Line(place + 1, tuple(events[place]["items"].values()), cells))
        before = place + 1
    return lines
