# SPDX-License-Identifier: Apache-2.0
"""The heat maps of the report: which events they show, and that they stay text."""

import json
from html.parser import HTMLParser

import pytest

from pipeline.report import render_report
from pipeline.report_histories import MOST_EVENTS, history_lines, shown_places

HOSTILE = "</td><script>alert('x')</script>\"&{{ 7 * 7 }}"


def history(weights, lines=("weight",)):
    item = {"table": "item", "id": 7, "value": "'7'", "name": HOSTILE}
    events = [{"items": {"clicks_item": item}, "weights": list(event)} for event in weights]
    sums = [sum(line) for line in zip(*weights, strict=True)] if weights else [0.0] * len(lines)
    return {"lines": list(lines), "events": events, "sums": sums}


def facts(*histories, **changes):
    row = {
        "row_id": 2957,
        "label": 1,
        "score": 0.25,
        "target": {"item": {"table": "item", "id": 3, "value": HOSTILE}},
        "histories": {f"clicks{k}": found for k, found in enumerate(histories)},
    }
    weights = {"line": "", "caption": "How it is.", "note": "What it is not.", "seed": 11}
    weights |= {"drawn_from": 1234, "rows": [row]} | changes
    return {"run": "r", "status": "done", "verdict": "v", "history_weights": weights}


class Cells(HTMLParser):
    """Rows of the heat maps: the classes, styles and texts of their cells."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.open, self.scripts = [], [], 0
        self.feed(html[html.index('id="histories"') : html.index('id="origin"')])
        self.close()

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            attributes = dict(attrs)
            self.rows[-1].append([attributes.get("class"), attributes.get("style"), ""])

    def handle_endtag(self, tag):
        if tag != "h2":  # opened before the part that is read
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and {"td", "th"} & set(self.open):
            self.rows[-1][-1][2] += data


def test_short_histories_are_shown_whole_and_long_ones_by_ends_and_weights():
    assert shown_places([[0.0]] * 5, most=5) == [0, 1, 2, 3, 4]
    weights = [[0.0, 0.0] for _ in range(30)]
    weights[11], weights[20], weights[5] = [0.0, -3.0], [2.0, 0.0], [1.0, 1.0]
    shown = shown_places(weights, most=10)
    assert shown == [0, 1, 11, 20, 24, 25, 26, 27, 28, 29]
    assert shown_places(weights, most=11) == sorted([*shown, 5])
    weights[22] = [1.0, 1.0]  # then 21 and 23 would be the only ones left out beside it
    assert shown_places(weights, most=12) == sorted([*shown, 5, 21, 22, 23])


def test_left_out_events_are_counted_and_added_up():
    weights = [[k / 100, -k / 100] for k in range(40)]
    lines = history_lines(history(weights, ("hop 1", "hop 2")))
    assert sum(line.left_out or 1 for line in lines) == 40
    assert sum(not line.left_out for line in lines) == MOST_EVENTS
    for k, name in enumerate(("hop 1", "hop 2")):
        total = sum(line.cells[k].weight for line in lines)
        assert total == pytest.approx(sum(event[k] for event in weights)), name
    gap = next(line for line in lines if line.left_out)
    assert (gap.place, gap.left_out) == (3, 16)  # of 2 … 33 those from 18 on have large weights
    assert gap.cells[0].weight == pytest.approx(sum(range(2, 18)) / 100)
    assert [line.place for line in lines] == sorted(line.place for line in lines)


def test_colours_say_size_and_sign_and_numbers_are_written():
    page = Cells(render_report(facts(history([[0.5], [-1.0], [0.0]]))))
    cells = [row[-1] for row in page.rows]
    assert cells == [
        [None, None, "weight"],
        ["above", "--part:50%", "0.5"],
        ["below", "--part:100%", "-1.0"],
        ["above", "--part:0%", "0"],
        [None, None, "-0.5"],
    ]
    assert page.rows[1][1][2].startswith("'7'")


def test_names_stay_text_and_every_element_is_closed():
    long = history([[0.1 * k] for k in range(50)])
    page = Cells(render_report(facts(long, history([]))))
    assert not page.scripts
    assert page.open == []
    assert HOSTILE in page.rows[1][1][2]


def test_what_is_said_of_the_rows_follows_how_they_were_chosen():
    def text(**changes):
        return render_report(facts(history([[1.0]]), **changes))

    assert "How it is." in text()
    assert "What it is not." in text()
    assert "drawn at random (seed" in text()
    assert "Test rows that the config names" in text(drawn_from=None)
    assert "No test row has a past event" in text(rows=[], drawn_from=0)
    assert "clicks0: no past event." in render_report(facts(history([])))
    without = facts() | {"history_weights": None}
    assert 'id="histories"' not in render_report(without)
    assert render_report(json.loads(json.dumps(facts(history([[1.0]]))))) == text()
