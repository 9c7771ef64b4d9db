# SPDX-License-Identifier: Apache-2.0
"""What a cell must hold, in words, for messages about malformed ones."""

from features.inputs import raw_inputs
from features.specs import TimeFormat
from pipeline.config import RunConfig


def expected_form(config: RunConfig, column: str, signed: bool = False) -> str:
    """Say in words what a cell of `column` must hold, for messages about malformed cells.

    Args:
        config: The run's config.
        column: The column; empty for a row that is malformed as a whole.
        signed: Whether -1 may be a label.
    """
    if not column:
        return "a JSON object"
    forms: list[str] = []
    if column == config.label.column:
        positive = config.label.positive
        rule = "a value" if isinstance(positive, tuple) else "a number"
        numbers = "-1, 0 or 1" if signed else "0 or 1"
        forms.append(
            f"{rule} (label)"
            if positive
            else f"{numbers} (label; for other values say which count, as in "
            'label.positive: ">= 1")'
        )
    if config.time and column == config.time.column:
        forms.append(f"a moment ({_time_form(config.time)})")
    if column == config.weight:
        forms.append("a number of 0 or more (weight)")
    kinds = {"text": "a text or whole number", "integer": "a whole number", "number": "a number",
             "texts": "items with numbers as weights"}  # fmt: skip
    forms += [
        _time_form(raw.time) if raw.time else f"{kinds[raw.type]} ({raw.name})"
        for raw in raw_inputs(config.features)
        if raw.column == column
    ]
    return " and ".join(dict.fromkeys(forms)) or "another value"


def _time_form(time: TimeFormat) -> str:
    if time.unit:
        return f"a number of {time.unit} since 1970"
    return f"format {time.format}" if time.format else "ISO 8601"
