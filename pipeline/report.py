# SPDX-License-Identifier: Apache-2.0
"""The run report: the facts of `report.json` as one HTML page that needs nothing else.

The page adds no numbers to the facts but the share of clicked rows, and what the events that a long
history leaves out weigh together. A part that is absent is left out, a metric that is None shows
its reason, and every number shows its full precision on hovering.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader

from pipeline.charts import Mark, Series, bar_chart, calibration_chart, line_chart
from pipeline.charts_matrix import pair_heat_map
from pipeline.report_histories import history_lines

Facts = Mapping[str, Any]

# Features in the chart of unknown values, and points of a ROC curve written out
_MAX_BARS = 15
_MAX_POINTS = 21

_SPLITS = ("train", "valid", "test")
_UNKNOWN = "Rows whose value the vocabulary lacks"
_MISSING = "Rows without a value"
_EMPTY = "Share of lists or histories without an item"


@dataclass(frozen=True)
class Column:
    """What a table shows of its records: the value at `path`, under a head, with its meaning."""

    path: str
    head: str
    meaning: str = ""
    share: bool = False

    def value(self, record: Facts) -> Any:
        """Look the dotted path up; None where it leads nowhere."""
        value: Any = record
        for key in self.path.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        return value

    def reason(self, record: Facts) -> str | None:
        """Say why the metric of this column is undefined."""
        name = self.path.split(".")[0].removesuffix("_by")
        return record.get("undefined", {}).get(name)


METRICS = (
    Column("rows", "Rows", "Impressions evaluated, those of weight 0 not counted."),
    Column("positives", "Clicks", "Rows with label 1."),
    Column(
        "auc",
        "AUC",
        "Chance that a random clicked row scores above a random unclicked one; ties count half. "
        "Higher is better, 0.5 is guessing.",
    ),
    Column(
        "gauc",
        "GAUC",
        "AUC within each user, averaged by the user's impressions: the order a user sees. "
        "Higher is better, 0.5 is guessing.",
    ),
    Column("gauc_by.users", "GAUC, users alike", "The same, every user counting once."),
    Column("gauc_by.clicks", "GAUC by clicks", "The same, weighted by each user's clicks."),
    Column("gauc_by.users_counted", "Users in GAUC", "Users with clicked and unclicked rows."),
    Column("gauc_by.excluded_users", "Users left out", "Users whose rows all carry one label."),
    Column("gauc_by.excluded_rows", "Rows left out", "Rows of those users, or without a user."),
    Column(
        "log_loss",
        "Log loss",
        "Mean binary cross-entropy in nats. Lower is better; its level depends on the click rate.",
    ),
    Column(
        "ne",
        "Normalised entropy",
        "Log loss over that of always predicting the click rate. Lower is better, 1 is no gain.",
    ),
    Column(
        "calibration",
        "Predicted / observed",
        "Predicted clicks over observed ones. Best at 1; above 1 the model promises too many.",
    ),
    Column(
        "ece",
        "Calibration error",
        "Mean distance of prediction and click rate over bins of scores. Lower is better.",
    ),
)
HEADLINE = tuple(
    column for column in METRICS if column.path in {"auc", "gauc", "log_loss", "ne", "calibration"}
)
BINS = (
    Column("rows", "Rows"),
    Column("lower", "Lowest score"),
    Column("upper", "Highest score"),
    Column("mean_score", "Mean score"),
    Column("observed_rate", "Click rate"),
    Column("rate_lower", "Rate from", "Lower end of the 95 % Wilson interval"),
    Column("rate_upper", "Rate to", "Upper end of the 95 % Wilson interval"),
)
EVALUATIONS = (
    Column("step", "Step"),
    Column("epoch", "Epoch"),
    Column("train_loss", "Training loss"),
    Column("log_loss", "Log loss"),
    Column("auc", "AUC"),
    Column("gauc", "GAUC"),
    Column("ne", "Normalised entropy"),
    Column("calibration", "Predicted / observed"),
)
MODEL_TABLES = (
    Column("name", "Table"),
    Column("rows", "Rows"),
    Column("dim", "Width"),
    Column("parameters", "Parameters"),
)
PROFILE = (
    Column("feature", "Feature"),
    Column("kind", "Kind"),
    *(Column(f"{s}.unknown", f"Unknown, {s}", _UNKNOWN, share=True) for s in _SPLITS),
    *(Column(f"{s}.missing", f"Missing, {s}", _MISSING, share=True) for s in _SPLITS),
    Column("coverage", "Coverage", "Share of rows whose value is known", share=True),
    Column("distinct", "Distinct", "Distinct values"),
    Column("known_values", "Known", "Values the vocabulary holds"),
    Column("rare_values", "Rare values", "Values too rare for the vocabulary"),
    Column("rare_rows", "Rare rows", "Rows with such a value"),
    Column("mean", "Mean"),
    Column("std", "Std. dev."),
    Column("min", "Min"),
    Column("max", "Max"),
    Column("mean_length", "Mean length", "Items of a list, events of a history"),
    Column("empty", "Empty", _EMPTY, share=True),
    *(Column(f"{s}.empty", f"Empty, {s}", _EMPTY, share=True) for s in _SPLITS[1:]),
    Column(
        "max_items", "Max items", "Items kept of a list, the first; events of a history, the newest"
    ),
    Column("truncated", "Truncated", "Share of lists or histories that were longer", share=True),
    Column("rows", "Rows"),
    Column("unknown", "Unknown", _UNKNOWN),
    Column("missing", "Missing", _MISSING),
)


def render_report(facts: Facts) -> str:
    """Render the report of a run.

    Args:
        facts: Content of `report.json`.

    Returns:
        An HTML document with its style and pictures inside.
    """
    environment = Environment(
        loader=PackageLoader("pipeline"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    # without groups of rows there is no GAUC to speak of
    has_groups = facts.get("group", "unknown") is not None
    metrics = [c for c in METRICS if has_groups or not c.path.startswith("gauc")]
    environment.filters.update(exact=_exact, number=format_number, share=format_share)
    return environment.get_template("report.html.j2").render(
        facts=facts,
        metrics=metrics,
        headline=[column for column in metrics if column in HEADLINE],
        bins=BINS,
        evaluations=EVALUATIONS,
        model_tables=MODEL_TABLES,
        profile=PROFILE,
        present=present,
        profile_tables=profile_tables,
        roc_points=roc_points,
        history_lines=history_lines,
        pairs_of=lambda fields: len(fields) * (len(fields) - 1) // 2,
        charts=_charts(facts),
    )


def format_number(value: float) -> str:
    """Write a count in thin groups of three, another number to 5 significant digits."""
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(value)))
    layout = f",.{max(0, 4 - magnitude)}f" if -5 < magnitude < 9 else ".4e"
    return min(format(value, layout).replace(",", "\u202f"), repr(value), key=len)


def format_share(value: float) -> str:
    """Write a share as a percentage with 2 decimals, or 2 digits where it is tiny."""
    percentage = f"{100 * value:.2f}" if value == 0 or value >= 0.001 else f"{100 * value:.2g}"
    return f"{percentage}\u202f%"


def present(columns: Sequence[Column], records: Sequence[Facts]) -> list[Column]:
    """Keep the columns in which any record has a value."""
    return [c for c in columns if any(c.value(record) is not None for record in records)]


def profile_tables(columns: Sequence[Facts]) -> dict[str, list[Facts]]:
    """Sort the profiled features by what can be said of them."""
    tables: dict[str, list[Facts]] = {"Categories": [], "Lists": [], "Histories": [], "Numbers": []}
    titles = {"list": "Lists", "history": "Histories", "numeric": "Numbers"}
    for column in columns:
        tables[titles.get(column["kind"], "Categories")].append(column)
    return {title: rows for title, rows in tables.items() if rows}


def roc_points(roc: Facts) -> list[tuple[float, float]]:
    """Pick a few points of a ROC curve at even steps, both ends among them."""
    points = list(zip(roc["fpr"], roc["tpr"], strict=True))
    steps = range(_MAX_POINTS) if points else ()
    picked = {round(k * (len(points) - 1) / (_MAX_POINTS - 1)) for k in steps}
    return [points[k] for k in sorted(picked)]


def _exact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _charts(facts: Facts) -> dict[str, Any]:
    training, metrics = facts.get("training") or {}, facts.get("metrics") or {}
    ranking = "gauc" if training.get("monitor") == "gauc" else "auc"
    return {
        "loss": _training_chart(
            training, {"log_loss": "validation", "train_loss": "training"}, "log_loss", "log loss"
        ),
        "ranking": _training_chart(
            training, {"auc": "AUC", "gauc": "GAUC"}, ranking, "area under the ROC curve"
        ),
        "roc": _roc_chart(metrics),
        "calibration": {
            split: calibration_chart(values["calibration_bins"], label=f"Calibration on {split}")
            for split, values in metrics.items()
        },
        "unknown": _unknown_charts((facts.get("profile") or {}).get("columns", [])),
        "pairs": _pairs_chart(facts.get("pair_weights") or {}),
    }


def _pairs_chart(weights: Facts) -> str:
    if not weights:
        return ""
    label = f"{weights['kind']} of each pair of fields".capitalize()
    return pair_heat_map(weights["fields"], weights["values"], label=label, text="{:.2g}".format)


def _training_chart(training: Facts, names: Mapping[str, str], marked: str, y_label: str) -> str:
    evaluations = training.get("evaluations") or []
    series = [
        Series(name, [(record["step"], record.get(key)) for record in evaluations])
        for key, name in names.items()
    ]
    best = [record for record in evaluations if record["step"] == training.get("best_step")]
    values = [(record["step"], record.get(marked)) for record in best]
    marks = [Mark(x, y, f"best step {format_number(x)}") for x, y in values if y is not None]
    return line_chart(
        [line for line in series if line.finite()],
        label=f"{y_label} by training step",
        x_label="step",
        y_label=y_label,
        mark=next(iter(marks), None),
    )


def _roc_chart(metrics: Facts) -> str:
    curves = [
        Series(
            f"{split}, AUC {format_number(values['auc'])}",
            list(zip(values["roc"]["fpr"], values["roc"]["tpr"], strict=True)),
        )
        for split, values in metrics.items()
        if values["auc"] is not None
    ]
    return line_chart(
        curves,
        label="ROC curves",
        x_label="false positive rate",
        y_label="true positive rate",
        diagonal=True,
        width=480,
        height=420,
    )


def _unknown_charts(columns: Sequence[Facts]) -> dict[str, str]:
    charts = {}
    for split in ("valid", "test"):
        shares = [(c["feature"], (c.get(split) or {}).get("unknown") or 0.0) for c in columns]
        shares = sorted((bar for bar in shares if bar[1] > 0), key=lambda bar: -bar[1])
        label = f"Share of {split} rows whose value is unknown"
        charts[split] = bar_chart(shares[:_MAX_BARS], label=label, text=format_share)
    return {split: chart for split, chart in charts.items() if chart}
