# SPDX-License-Identifier: Apache-2.0
import copy
import json
from html.parser import HTMLParser

import numpy as np
import pytest

from pipeline.metrics import evaluate
from pipeline.report import METRICS, format_number, format_share, render_report

HOSTILE = "</pre><script>alert('x')</script>\"&{{ 7 * 7 }}"


class Page(HTMLParser):
    """What a reader meets: tags with attributes, texts, and the numbers with their exact values."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts, self.numbers, self._value = [], [], [], None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._value = dict(attrs)["value"] if tag == "data" else None

    def handle_endtag(self, tag):
        self._value = None

    def handle_data(self, data):
        self.texts.append(data)
        if self._value is not None:
            self.numbers.append((json.loads(self._value), data))

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


def evaluation(rows, seed):
    rng = np.random.default_rng(seed)
    scores = rng.beta(2, 9, rows)
    return evaluate(rng.random(rows) < scores, scores, groups=rng.integers(0, 60, rows))


@pytest.fixture(scope="module")
def complete():
    splits = ("train", "valid", "test")
    return {
        "run": "toy-din-7",
        "run_dir": "runs/toy-din-7",
        "created": "2026-03-01T10:41:12+00:00",
        "status": "done",
        "verdict": "The test AUC passes its gate.",
        "model": {
            "kind": "din",
            "parameters": 1318273,
            "tables": [{"name": "user_id", "rows": 27490, "dim": 16, "parameters": 439840}],
        },
        "rows": {"train": 480123, "valid": 1200, "test": 1500},
        "split": {"kind": "time", "boundaries": {"valid_from": "2026-02-20", "days": [3, 4]}},
        "metrics": {"valid": evaluation(1200, 1), "test": evaluation(1500, 2)},
        "best_possible": {"auc": 0.7821349},
        "training": {
            "evaluations": [
                {
                    "step": step,
                    "epoch": step / 4000,
                    "train_loss": 0.3 - step / 1e5,
                    "auc": 0.6 + step / 1e5,
                    "gauc": None,
                    "log_loss": 0.31 - step / 2e5,
                    "ne": 0.9,
                }
                for step in (500, 1000, 1500)
            ],
            "best_step": 1000,
            "monitor": "auc",
            "stopped": "Stopped after step 1,500.",
            "steps": 1500,
            "examples_per_s": 48211.73,
        },
        "profile": {
            "columns": [
                {
                    "feature": "user_id",
                    "kind": "categorical",
                    "rows": 480123,
                    "missing": 17,
                    "unknown": 39011,
                    "rare_values": 13744,
                    "rare_rows": 20616,
                    "distinct": 41233,
                    "known_values": 27489,
                    "coverage": 0.9169,
                    **{
                        s: {"missing": 0.00003, "unknown": 0.0277 * k} for k, s in enumerate(splits)
                    },
                },
                {"feature": "price", "kind": "numeric", "mean": 23.871, "std": 51.2, "missing": 9},
                {"feature": "hist", "kind": "history", "mean_length": 11.38, "truncated": 0.0731},
            ],
            "warnings": ["user_id: many unknown users"],
            "notes": ["hist: the newest 50 items are kept"],
        },
        "parity": {"rows": 1000, "max_abs_diff": 5.960464477539063e-08, "limit": 1e-6},
        "gates": [{"name": "test auc", "value": 0.741, "limit": 0.7, "passed": True}],
        "fingerprints": {"data": "9f2c" * 16, "config": "11ab" * 16, "code": "c0de" * 16},
        "environment": {"tensorflow": "2.21.0", "numpy": "2.4.6"},
        "config_yaml": "model:\n  kind: din\n",
    }


@pytest.fixture
def facts(complete):
    return copy.deepcopy(complete)


def leaves(value):
    """Every number of a JSON-like value."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for part in value for leaf in leaves(part)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


class TestNumbers:
    def test_every_number_of_the_facts_is_on_the_page(self, facts):
        shown = {value for value, _ in Page(render_report(facts)).numbers}
        for values in facts["metrics"].values():
            del values["roc"]  # its points are thinned for the table
            for part in values["calibration_bins"]:
                del part["weight"]
        del facts["split"]
        assert set(leaves(facts)) <= shown

    def test_no_number_is_invented(self, facts):
        known = set(leaves(facts))
        known |= {values["positives"] / values["rows"] for values in facts["metrics"].values()}
        assert {value for value, _ in Page(render_report(facts)).numbers} <= known

    def test_what_is_read_is_what_is_meant(self, facts):
        for value, text in Page(render_report(facts)).numbers:
            plain = text.replace("\u202f", "")
            read = float(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
            # shares show 0.01 %, other numbers 5 significant digits
            assert read == pytest.approx(value, rel=5e-5, abs=5e-5 if "%" in plain else 0)

    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (0.7421345678, "0.74213"),
            (0.5, "0.5"),
            (16.118095650958, "16.118"),
            (1234567, "1\u202f234\u202f567"),
            (48211.73, "48\u202f212"),
            (5.960464477539063e-08, "5.9605e-08"),
            (1e-6, "1e-06"),
            (-0.001234567, "-0.0012346"),
            (0.0, "0"),
            (float("nan"), "nan"),
        ],
    )
    def test_number_format(self, value, expected):
        assert format_number(value) == expected

    @pytest.mark.parametrize(
        ("value", "expected"),
        [(0.0277, "2.77"), (0.0, "0.00"), (1.0, "100.00"), (0.000034, "0.0034")],
    )
    def test_share_format(self, value, expected):
        assert format_share(value) == f"{expected}\u202f%"


class TestPage:
    def test_needs_nothing_else(self, facts):
        html = render_report(facts)
        page = Page(html)
        assert not {tag for tag, _ in page.tags} & {"script", "link", "img", "iframe", "object"}
        links = [attrs[k] for _, attrs in page.tags for k in ("href", "src") if k in attrs]
        assert links
        assert all(link.startswith("#") for link in links)
        assert not any(word in html for word in ("http:", "https:", "url(", "@import"))

    def test_links_lead_to_sections(self, facts):
        tags = Page(render_report(facts)).tags
        ids = {attrs["id"] for _, attrs in tags if "id" in attrs}
        assert {attrs["href"].removeprefix("#") for tag, attrs in tags if tag == "a"} <= ids

    def test_every_element_is_closed(self, facts):
        html = render_report(facts)
        for tag in (
            "div",
            "table",
            "tr",
            "td",
            "th",
            "figure",
            "details",
            "svg",
            "dl",
            "p",
            "data",
        ):
            assert html.count(f"<{tag}>") + html.count(f"<{tag} ") == html.count(f"</{tag}>"), tag

    def test_metrics_are_explained(self, facts):
        text = Page(render_report(facts)).text
        assert all(column.meaning in text for column in METRICS)

    def test_texts_of_the_facts_are_shown(self, facts):
        text = Page(render_report(facts)).text
        assert facts["verdict"] in text
        assert facts["training"]["stopped"] in text
        assert facts["profile"]["warnings"][0] in text
        assert facts["profile"]["notes"][0] in text
        assert facts["fingerprints"]["code"] in text
        assert "2.21.0" in text
        assert "kind: din" in text
        assert "best step 1 000" in text

    def test_charts_are_drawn(self, facts):
        labels = [a["aria-label"] for tag, a in Page(render_report(facts)).tags if tag == "svg"]
        assert labels == [
            "ROC curves",
            "Calibration on valid",
            "Calibration on test",
            "log loss by training step",
            "area under the ROC curve by training step",
            "Share of valid rows whose value is unknown",
            "Share of test rows whose value is unknown",
        ]

    def test_survives_json(self, facts):
        assert render_report(json.loads(json.dumps(facts))) == render_report(facts)


class TestUndefined:
    @pytest.mark.parametrize("labels", [[], [1], [0] * 10])
    def test_reason_is_shown(self, facts, labels):
        facts["metrics"]["test"] = evaluate(labels, [0.25] * len(labels))
        text = Page(render_report(facts)).text
        for reason in facts["metrics"]["test"]["undefined"].values():
            assert f"undefined: {reason}" in text
        assert "No ROC curve on test" in text

    def test_without_groups_there_are_no_rows_of_gauc(self, facts):
        facts["metrics"] = {"test": evaluate([0, 1, 1], [0.25, 0.5, 0.75])}
        facts["training"]["evaluations"] = []
        assert "GAUC" in Page(render_report(facts)).text
        facts["group"] = None
        text = Page(render_report(facts)).text
        assert "GAUC" not in text
        assert "Users" not in text
        assert "no group ids" not in text
        assert "Normalised entropy" in text
        facts["group"] = "user"
        assert "undefined: no group ids were given for 3 rows" in Page(render_report(facts)).text

    def test_undefined_gate_value(self, facts):
        facts["status"] = "gate_failed"
        facts["gates"] = [{"name": "test auc", "value": None, "limit": 0.7, "passed": False}]
        text = Page(render_report(facts)).text
        assert "gate failed" in text
        assert "test auc undefined 0.7 ✗ failed" in text

    def test_undefined_evaluations(self, facts):
        for record in facts["training"]["evaluations"]:
            record["auc"] = None
        labels = {a.get("aria-label") for _, a in Page(render_report(facts)).tags}
        assert "log loss by training step" in labels
        assert "area under the ROC curve by training step" not in labels


class TestProfile:
    def test_lists_and_histories_have_tables_of_their_own(self, facts):
        facts["profile"]["columns"].append({"feature": "tags", "kind": "list", "truncated": 0.25})
        text = Page(render_report(facts)).text
        at = [text.index(f" {title} Feature") for title in ("Categories", "Lists", "Histories")]
        assert at == sorted(at)
        assert at[1] < text.index("tags list 25.00 %") < at[2]


class TestAbsentParts:
    def test_only_the_headline(self):
        text = Page(render_report({"run": "r", "status": "failed", "verdict": "No rows."})).text
        assert "No rows." in text
        assert "Training" not in text

    @pytest.mark.parametrize(
        "part",
        [
            *("model", "rows", "split", "metrics", "best_possible", "training", "profile"),
            *("parity", "gates", "fingerprints", "environment", "config_yaml"),
        ],
    )
    def test_any_part_may_be_absent(self, facts, part):
        del facts[part]
        assert facts["verdict"] in Page(render_report(facts)).text


def test_hostile_text_stays_text(facts):
    facts.update(run=HOSTILE, verdict=HOSTILE, config_yaml=HOSTILE, run_dir=HOSTILE)
    facts["profile"]["columns"][0]["feature"] = HOSTILE
    facts["profile"]["warnings"] = [HOSTILE]
    facts["gates"][0]["name"] = HOSTILE
    facts["model"]["tables"][0]["name"] = HOSTILE
    facts["split"]["boundaries"] = {HOSTILE: [HOSTILE]}
    facts["metrics"]["test"] |= {"auc": None, "undefined": {"auc": HOSTILE}}
    page = Page(render_report(facts))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(HOSTILE) >= 9
