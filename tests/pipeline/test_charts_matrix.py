# SPDX-License-Identifier: Apache-2.0
from xml.etree import ElementTree

import pytest

from pipeline.charts_matrix import LABELS, LARGE, MOST_WRITTEN, pair_heat_map

NAMES = ("user", "item", "<hour>")
VALUES = [[0.0, 0.5, -1.0], [9.0, 9.0, 0.0], [9.0, 9.0, 9.0]]


def parse(svg):
    return ElementTree.fromstring(svg)  # noqa: S314 - our own output


def test_every_pair_has_a_cell_at_its_fields():
    cells = list(parse(pair_heat_map(NAMES, VALUES, label="Pairs")).iter("rect"))
    found = {cell.find("title").text: (cell.get("x"), cell.get("y")) for cell in cells}
    width, height = LARGE
    assert found == {
        "user × item\n0.5": (str(LABELS + 1), "1"),
        "user × <hour>\n-1.0": (str(LABELS + 1), str(height + 1)),
        "item × <hour>\n0.0": (str(LABELS + width + 1), str(height + 1)),
    }


def test_darkness_is_distance_from_zero_and_colour_is_sign():
    cells = list(parse(pair_heat_map(NAMES, VALUES, label="Pairs")).iter("rect"))
    positive, negative, zero = cells
    assert float(zero.get("fill-opacity")) < float(positive.get("fill-opacity")) < 1
    assert float(negative.get("fill-opacity")) == 1
    assert "--series-1" in positive.get("style")
    assert "--series-2" in negative.get("style")


def test_numbers_are_written_where_there_is_room():
    texts = [e.text for e in parse(pair_heat_map(NAMES, VALUES, label="Pairs")).iter("text")]
    assert {"0.5", "-1.0", "0.0", "user", "item", "<hour>"} == set(texts)
    many = [f"f{i}" for i in range(MOST_WRITTEN + 1)]
    values = [[0.25] * len(many)] * len(many)
    texts = [e.text for e in parse(pair_heat_map(many, values, label="Pairs")).iter("text")]
    assert set(texts) == set(many)


@pytest.mark.parametrize(
    "values", [[[0.0]], [[0.0, None], [0.0, 0.0]], [[0, float("nan")], [0, 0]]]
)
def test_no_pair_is_no_chart(values):
    assert not pair_heat_map(("a", "b")[: len(values)], values, label="Pairs")
