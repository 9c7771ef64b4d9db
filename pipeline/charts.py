# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG text: no script, no network, every point readable by hovering.

Text and axes take `currentColor`; series take the CSS variables `--series-1` to `--series-6`, by
default the colour-blind-safe palette of Okabe and Ito (Color Universal Design, 2008), and differ in
their dashes too. Coordinates are pixels of the view box. Points that are not finite are left out.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

LEFT, RIGHT, TOP, BOTTOM = 68, 20, 34, 50
# Left edge, width and distance of the bars of a bar chart
BAR_LEFT, BAR_WIDTH, BAR_STEP = 184, 256, 24

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_DASHES = ("none", "7 4", "2 3", "9 3 2 3", "4 2", "1 4")
# Lines of more points than this show them only under the pointer
_MAX_DOTS = 40
_DOT: Mapping[str, Any] = {"r": 3.5}
_HIDDEN_DOT: Mapping[str, Any] = {"r": 5, "class_": "hidden", "fill_opacity": 0}
# Width of a letter of the legend, on average
_LETTER = 6.8
# Keeps text readable where it crosses a line
_HALO = "paint-order:stroke;stroke:var(--page,#fff);stroke-width:5px"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Series:
    """A named line through points (x, y)."""

    name: str
    points: Sequence[tuple[float, float | None]]

    def finite(self) -> list[tuple[float, float]]:
        """Points that can be drawn."""
        return [(x, y) for x, y in self.points if y is not None and math.isfinite(x + y)]


@dataclass(frozen=True)
class Mark:
    """A point to point out, and what to say about it."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Scale:
    """Linear map from the range of the ticks to pixels from `start` to `stop`."""

    ticks: tuple[float, ...]
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the pixel of a value, to 0.01."""
        share = (value - self.ticks[0]) / (self.ticks[-1] - self.ticks[0])
        return round(self.start + share * (self.stop - self.start), 2)


def line_chart(
    series: Sequence[Series],
    *,
    label: str,
    x_label: str,
    y_label: str,
    mark: Mark | None = None,
    diagonal: bool = False,
    width: int = 520,
    height: int = 320,
) -> str:
    """Draw lines over shared axes.

    Args:
        series: Up to six lines.
        label: What the chart shows, for those who cannot see it.
        x_label: Name of the horizontal axis.
        y_label: Name of the vertical axis.
        mark: A point to ring and name.
        diagonal: Whether to draw the line y = x for reference.
        width: Pixels.
        height: Pixels.

    Returns:
        An SVG element; an empty text where no point is finite.
    """
    drawn = [point for line in series for point in line.finite()]
    if not drawn:
        return ""
    drawn += [(mark.x, mark.y)] if mark else []
    xs, ys = zip(*drawn, strict=True)
    x = Scale(nice_ticks(min(xs), max(xs)), LEFT, width - RIGHT)
    y = Scale(nice_ticks(min(ys), max(ys)), height - BOTTOM, TOP)
    parts = [axes(x, y, x_label, y_label), _legend([line.name for line in series])]
    parts += [_diagonal(x, y)] if diagonal else []
    parts += [_line(line, k, x, y, (x_label, y_label)) for k, line in enumerate(series)]
    parts += [_mark(mark, x, y)] if mark else []
    return svg(parts, label, width, height)


def calibration_chart(bins: Sequence[Mapping[str, Any]], *, label: str, size: int = 420) -> str:
    """Draw the bins of `metrics.calibration_bins` with their intervals around the diagonal."""
    if not bins:
        return ""
    ticks = nice_ticks(0, max(max(part["mean_score"], part["rate_upper"]) for part in bins))
    x, y = Scale(ticks, LEFT, size - RIGHT), Scale(ticks, size - BOTTOM, TOP)
    frame = axes(x, y, "mean predicted probability", "observed click rate")
    return svg([frame, _diagonal(x, y), *(_bin(part, x, y) for part in bins)], label, size, size)


def bar_chart(
    bars: Sequence[tuple[str, float]], *, label: str, text: Callable[[float], str] = repr
) -> str:
    """Draw horizontal bars of values from 0, each with its name and its value as `text`."""
    bars = [(name, value) for name, value in bars if math.isfinite(value)]
    longest = max((value for _, value in bars), default=0) or 1
    rows = []
    for k, (name, value) in enumerate(bars):
        top, length = k * BAR_STEP, round(BAR_WIDTH * value / longest, 2)
        bar = tag("rect", x=BAR_LEFT, y=top + 4, width=length, height=16, style=fill(0))
        name_text = text_at(shorten(name), BAR_LEFT - 8, top + 16, text_anchor="end")
        value_text = text_at(text(value), BAR_LEFT + length + 6, top + 16)
        rows.append(tag("g", title(f"{name}\n{value!r}") + bar + name_text + value_text))
    return svg(rows, label, BAR_LEFT + BAR_WIDTH + 80, len(bars) * BAR_STEP) if rows else ""


def nice_ticks(lower: float, upper: float, count: int = 5) -> tuple[float, ...]:
    """Return about `count` multiples of 1, 2 or 5 times a power of ten that enclose the range."""
    if upper - lower <= 1e-9 * max(abs(lower), abs(upper)):
        margin = abs(lower) / 10 or 0.5
        lower, upper = lower - margin, upper + margin
    rough = (upper - lower) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    # A bound within 1e-9 of a step is that step: 0.3 / 0.1 is 2.9999999999999996
    first, last = math.floor(lower / step + 1e-9), math.ceil(upper / step - 1e-9)
    return tuple(round(k * step, _decimals(step)) for k in range(first, last + 1))


def _decimals(step: float) -> int:
    return max(0, -math.floor(math.log10(step) + 1e-9))


def _tick_text(value: float, step: float) -> str:
    decimals = _decimals(step)
    if decimals > 6 or abs(value) >= 1e9:
        return f"{value:.4g}"
    return f"{value:,.{decimals}f}".replace(",", "\u202f")


def axes(x: Scale, y: Scale, x_label: str, y_label: str) -> str:
    """Draw both axes: a line and a number at each tick, and their names."""
    parts = []
    for value in x.ticks:
        at, text = x(value), _tick_text(value, x.ticks[1] - x.ticks[0])
        parts.append(_segment((at, y.start), (at, y.stop), stroke_opacity=0.15))
        parts.append(text_at(text, at, y.start + 18, text_anchor="middle"))
    for value in y.ticks:
        at, text = y(value), _tick_text(value, y.ticks[1] - y.ticks[0])
        parts.append(_segment((x.start, at), (x.stop, at), stroke_opacity=0.15))
        parts.append(text_at(text, x.start - 8, at + 4, text_anchor="end"))
    middle_x, middle_y = (x.start + x.stop) / 2, (y.start + y.stop) / 2
    turn = f"rotate(-90 14 {middle_y:g})"
    parts.append(text_at(x_label, middle_x, y.start + 38, text_anchor="middle"))
    parts.append(text_at(y_label, 14, middle_y, text_anchor="middle", transform=turn))
    return "".join(parts)


def _legend(names: Iterable[str]) -> str:
    parts, at = [], float(LEFT)
    for k, name in enumerate(names):
        parts.append(_segment((at, 15), (at + 24, 15), **_stroke(k)))
        parts.append(text_at(shorten(name), at + 30, 19))
        at = round(at + 50 + _LETTER * len(shorten(name)), 2)
    return "".join(parts)


def _line(line: Series, k: int, x: Scale, y: Scale, labels: tuple[str, str]) -> str:
    points = line.finite()
    path = " ".join(f"{x(a):g},{y(b):g}" for a, b in points)
    looks = _DOT if len(points) <= _MAX_DOTS else _HIDDEN_DOT
    dots = (
        _circle(
            (x(a), y(b)), title(f"{line.name}\n{labels[0]}: {a!r}\n{labels[1]}: {b!r}"), k, looks
        )
        for a, b in points
    )
    return tag("polyline", points=path, fill="none", **_stroke(k)) + "".join(dots)


def _bin(part: Mapping[str, Any], x: Scale, y: Scale) -> str:
    at = x(part["mean_score"])
    whisker = _segment((at, y(part["rate_lower"])), (at, y(part["rate_upper"])), **_stroke(0))
    dot = _circle((at, y(part["observed_rate"])), "", 0, _DOT)
    about = title("\n".join(f"{name}: {value!r}" for name, value in part.items()))
    return tag("g", about + whisker + dot)


def _mark(mark: Mark, x: Scale, y: Scale) -> str:
    at = x(mark.x)
    right = at > (x.start + x.stop) / 2
    rule = _segment((at, y.start), (at, y.stop), stroke_opacity=0.6, stroke_dasharray="2 3")
    ring = tag("circle", cx=at, cy=y(mark.y), r=6, fill="none", stroke="currentColor")
    anchor = "end" if right else "start"
    looks = {"text_anchor": anchor, "style": _HALO}
    return rule + ring + text_at(mark.text, at - 8 if right else at + 8, y.start - 8, **looks)


def _diagonal(x: Scale, y: Scale) -> str:
    low, high = max(x.ticks[0], y.ticks[0]), min(x.ticks[-1], y.ticks[-1])
    ends = (x(low), y(low)), (x(high), y(high))
    return _segment(*ends, stroke_opacity=0.5, stroke_dasharray="5 4")


def _colour(k: int) -> str:
    k %= len(_COLOURS)
    return f"var(--series-{k + 1},{_COLOURS[k]})"


def fill(k: int) -> str:
    """Return the style that fills with the colour of series k."""
    return f"fill:{_colour(k)}"


def _stroke(k: int) -> dict[str, Any]:
    dashes = _DASHES[k % len(_DASHES)]
    return {"style": f"stroke:{_colour(k)}", "stroke_width": 2, "stroke_dasharray": dashes}


def shorten(text: str, letters: int = 26) -> str:
    """Cut a text that has more letters."""
    return text if len(text) <= letters else text[: letters - 1] + "…"


def svg(parts: Iterable[str], label: str, width: float, height: float) -> str:
    """Return a picture of parts, with a label for those who cannot see it."""
    # HTML needs no xmlns, and without it the page holds no address
    view = {"viewBox": f"0 0 {width:g} {height:g}", "width": f"{width:g}", "height": f"{height:g}"}
    return tag("svg", "".join(parts), role="img", aria_label=label, **view)


def text_at(text: str, x: float, y: float, **attributes: Any) -> str:
    """Write a text at a place."""
    looks = {"font_size": 12, "fill": "currentColor", **attributes}
    return tag("text", _escape(text), x=x, y=y, **looks)


def title(text: str) -> str:
    """Return what an element says by hovering."""
    return tag("title", _escape(text))


def _circle(centre: tuple[float, float], title: str, k: int, looks: Mapping[str, Any]) -> str:
    return tag("circle", title, cx=centre[0], cy=centre[1], style=fill(k), **looks)


def _segment(start: tuple[float, float], stop: tuple[float, float], **looks: Any) -> str:
    ends = {"x1": start[0], "y1": start[1], "x2": stop[0], "y2": stop[1]}
    return tag("line", **{**ends, "stroke": "currentColor", **looks})


def tag(name: str, content: str = "", **attributes: Any) -> str:
    """Write an element; the attribute stroke_width becomes stroke-width, and class_ class."""
    pairs = (
        f' {key.rstrip("_").replace("_", "-")}="{_escape(str(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{''.join(pairs)}>{content}</{name}>"


def _escape(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
