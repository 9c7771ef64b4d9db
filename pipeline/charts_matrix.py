# SPDX-License-Identifier: Apache-2.0
"""A square of fields as inline SVG, like `pipeline.charts`."""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from pipeline.charts import fill, shorten, svg, tag, text_at, title

LABELS, GAP = 150, 8
"""Pixels: room for the names, distance from them."""
LARGE, SMALL = (50, 26), (18, 18)
"""Width and height of a cell with its number written in, and of one without."""
MOST_WRITTEN = 12
"""Most fields of a chart with numbers written in."""
_FAINTEST, _LETTERS = 0.06, 20


def pair_heat_map(
    names: Sequence[str],
    values: Sequence[Sequence[float | None]],
    *,
    label: str,
    text: Callable[[float], str] = repr,
) -> str:
    """Draw a number for every pair of fields: the further from 0, the stronger its colour.

    Numbers above 0 have the first colour, those below the second. Pairs are drawn once, below the
    diagonal, and all numbers can be read by hovering.

    Args:
        names: The fields.
        values: (fields, fields); those above the diagonal are drawn; None is left out.
        label: What the chart shows, for those who cannot see it.
        text: How a number is written into its cell.

    Returns:
        An SVG element; an empty text where there is no pair.
    """
    found = {
        (i, j): value
        for i, j in combinations(range(len(names)), 2)
        if (value := values[i][j]) is not None and math.isfinite(value)
    }
    if not found:
        return ""
    written = len(names) <= MOST_WRITTEN
    size = LARGE if written else SMALL
    largest = max(abs(value) for value in found.values()) or 1.0
    parts = [_names(names, size)]
    for (i, j), value in found.items():
        share = abs(value) / largest
        place = LABELS + i * size[0], (j - 1) * size[1]
        parts.append(_cell(place, size, f"{names[i]} × {names[j]}\n{value!r}", value < 0, share))
        parts += [_number(place, size, text(value), share)] if written else []
    width, height = ((len(names) - 1) * side for side in size)
    return svg(parts, label, LABELS + width + LABELS, height + LABELS)


def _cell(
    place: tuple[int, int], size: tuple[int, int], about: str, negative: bool, share: float
) -> str:
    opacity = round(_FAINTEST + (1 - _FAINTEST) * share, 3)
    looks = {"width": size[0] - 2, "height": size[1] - 2, "rx": 2, "fill_opacity": opacity}
    colour = fill(int(negative))
    return tag("rect", title(about), x=place[0] + 1, y=place[1] + 1, **looks, style=colour)


def _number(place: tuple[int, int], size: tuple[int, int], written: str, share: float) -> str:
    """Return a number in the middle of its cell, readable on faint and strong colours."""
    colour = "var(--page,#fff)" if share > 0.5 else "currentColor"
    looks: dict[str, Any] = {"text_anchor": "middle", "font_size": 11, "pointer_events": "none"}
    x, y = place[0] + size[0] / 2, place[1] + size[1] / 2 + 4
    return text_at(written, x, y, style=f"fill:{colour}", **looks)


def _names(names: Sequence[str], size: tuple[int, int]) -> str:
    """Return the rows' names on the left and the columns' below, turned."""
    short = [shorten(name, _LETTERS) for name in names]
    parts = [
        text_at(name, LABELS - GAP, (j + 0.5) * size[1] + 4, text_anchor="end")
        for j, name in enumerate(short[1:])
    ]
    below = (len(names) - 1) * size[1] + GAP + 4
    for i, name in enumerate(short[:-1]):
        x = LABELS + (i + 0.5) * size[0] - 4
        parts.append(text_at(name, x, below, transform=f"rotate(45 {x:g} {below:g})"))
    return "".join(parts)
