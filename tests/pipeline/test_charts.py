# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.charts import (
    Mark,
    Scale,
    Series,
    bar_chart,
    calibration_chart,
    line_chart,
    nice_ticks,
)

BIN = {"mean_score": 0.25, "observed_rate": 0.1, "rate_lower": 0.05, "rate_upper": 0.5, "rows": 40}
HOSTILE = "<script>alert('x')</script>\"&\x00\x1b"


def parse(svg):
    return ElementTree.fromstring(svg)  # noqa: S314 - our own output


def places(svg, tag, *names):
    """Numbers of the named attributes of every element of a kind."""
    return [tuple(float(e.get(name)) for name in names) for e in parse(svg).iter(tag)]


def texts(svg, tag="text"):
    return [element.text for element in parse(svg).iter(tag)]


def lines(*series, **options):
    return line_chart(series, label="Loss", x_label="step", y_label="loss", **options)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0, 10, (0, 2, 4, 6, 8, 10)),
        (0.61, 0.74, (0.6, 0.65, 0.7, 0.75)),
        (0, 0.3, (0, 0.1, 0.2, 0.3)),
        (-3, 4, (-4, -2, 0, 2, 4)),
        (500, 8000, (0, 2000, 4000, 6000, 8000)),
        (0.5, 0.5, (0.44, 0.46, 0.48, 0.5, 0.52, 0.54, 0.56)),
        (0, 0, (-0.6, -0.4, -0.2, 0, 0.2, 0.4, 0.6)),
    ],
)
def test_ticks_are_round_and_enclose_the_range(lower, upper, expected):
    assert nice_ticks(lower, upper) == expected


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_rise_and_are_few(lower, width):
    ticks = nice_ticks(lower, lower + width)
    step = ticks[1] - ticks[0]
    assert 2 <= len(ticks) <= 8
    assert all(a < b for a, b in itertools.pairwise(ticks))
    # a bound within a billionth of the position of a tick counts as reached
    slack = 1e-6 * step + 1e-9 * abs(lower)
    assert ticks[0] - slack <= lower <= lower + width <= ticks[-1] + slack


def test_scale_maps_the_outer_ticks_to_the_ends():
    scale = Scale((0, 1, 2), 100, 20)
    assert [scale(0), scale(0.5), scale(2)] == [100, 80, 20]


class TestLineChart:
    def test_points_lie_where_the_axes_say(self):
        svg = lines(Series("valid", [(0, 0), (5, 50), (10, 100)]))
        # x: 0 to 10 over 68 to 500; y: 0 to 100 over 270 up to 34
        assert places(svg, "circle", "cx", "cy") == [(68, 270), (284, 152), (500, 34)]
        (line,) = parse(svg).iter("polyline")
        assert line.get("points") == "68,270 284,152 500,34"

    def test_axes_and_legend_are_named(self):
        svg = lines(Series("valid", [(0, 0), (10_000, 1)]), Series("train", [(0, 1)]))
        assert {"step", "loss", "valid", "train", "10\u202f000", "0.8"} <= set(texts(svg))
        assert parse(svg).get("aria-label") == "Loss"

    def test_hovering_shows_full_precision(self):
        svg = lines(Series("valid", [(500, 0.7412345678901)]))
        assert texts(svg, "title") == ["valid\nstep: 500\nloss: 0.7412345678901"]

    def test_mark_is_ringed_and_named(self):
        svg = lines(Series("valid", [(0, 0), (10, 100)]), mark=Mark(5, 50, "best step 5"))
        ring = next(e for e in parse(svg).iter("circle") if e.get("r") == "6")
        assert (ring.get("cx"), ring.get("cy")) == ("284.0", "152.0")
        assert "best step 5" in texts(svg)

    def test_diagonal_joins_equal_values(self):
        svg = lines(Series("roc", [(0, 0), (1, 1)]), diagonal=True, width=480, height=420)
        ends = places(svg, "line", "x1", "y1", "x2", "y2")
        assert (68, 370, 460, 34) in ends

    def test_undefined_values_are_left_out(self):
        svg = lines(Series("auc", [(0, 0), (1, None), (2, math.nan), (3, math.inf), (10, 100)]))
        assert places(svg, "circle", "cx", "cy") == [(68, 270), (500, 34)]

    def test_many_points_show_only_under_the_pointer(self):
        svg = lines(Series("roc", [(k, k) for k in range(100)]))
        dots = list(parse(svg).iter("circle"))
        assert len(dots) == 100
        assert {(dot.get("class"), dot.get("fill-opacity")) for dot in dots} == {("hidden", "0")}

    def test_nothing_to_draw(self):
        assert lines(Series("auc", [(0, None)])) == ""
        assert lines() == ""

    def test_a_single_point_has_axes_around_it(self):
        ((x, y),) = places(lines(Series("auc", [(500, 0.7)])), "circle", "cx", "cy")
        assert 68 < x < 500
        assert 34 < y < 270

    def test_series_differ_in_colour_and_dash(self):
        svg = lines(*(Series(str(k), [(0, k), (1, k)]) for k in range(6)))
        looks = {(e.get("style"), e.get("stroke-dasharray")) for e in parse(svg).iter("polyline")}
        assert len({style for style, _ in looks}) == len({dash for _, dash in looks}) == 6


class TestCalibrationChart:
    def test_bin_lies_where_the_axes_say(self):
        svg = calibration_chart([BIN], label="Calibration")
        # both axes: 0 to 0.5; x over 68 to 400, y over 370 up to 34
        assert places(svg, "circle", "cx", "cy") == [(234, 302.8)]
        assert (234, 336.4, 234, 34) in places(svg, "line", "x1", "y1", "x2", "y2")

    def test_diagonal_is_drawn(self):
        svg = calibration_chart([BIN], label="Calibration")
        assert (68, 370, 400, 34) in places(svg, "line", "x1", "y1", "x2", "y2")

    def test_hovering_shows_the_bin(self):
        (title,) = texts(calibration_chart([BIN], label="Calibration"), "title")
        assert "observed_rate: 0.1" in title
        assert "rows: 40" in title

    def test_no_bins(self):
        assert calibration_chart([], label="Calibration") == ""


class TestBarChart:
    def test_lengths_are_proportional(self):
        svg = bar_chart([("user", 0.5), ("item", 0.125)], label="Unknown")
        assert places(svg, "rect", "y", "width") == [(4, 256), (28, 64)]

    def test_names_and_values_are_written(self):
        svg = bar_chart([("user", 0.5)], label="Unknown", text=lambda share: f"{share:.0%}")
        assert texts(svg) == ["user", "50%"]
        assert texts(svg, "title") == ["user\n0.5"]

    def test_zeros_and_nothing(self):
        assert places(bar_chart([("user", 0.0)], label="Unknown"), "rect", "width") == [(0,)]
        assert bar_chart([], label="Unknown") == ""


@pytest.mark.parametrize(
    "svg",
    [
        lines(Series(HOSTILE, [(0, 0), (1, 1)]), mark=Mark(0, 0, HOSTILE)),
        line_chart([Series("a", [(0, 1)])], label=HOSTILE, x_label=HOSTILE, y_label=HOSTILE),
        calibration_chart([BIN], label=HOSTILE),
        bar_chart([(HOSTILE, 1.0)], label=HOSTILE),
    ],
    ids=["line", "axes", "calibration", "bars"],
)
def test_hostile_text_stays_text(svg):
    root = parse(svg)
    assert "script" not in {element.tag for element in root.iter()}
    assert "&lt;script&gt;" in svg
    assert "\x00" not in svg
