# SPDX-License-Identifier: Apache-2.0
"""The raw values that declared features read: columns of typed rows, inputs of the served model."""

import re
from functools import partial
from typing import Literal

from features.options import Options
from features.specs import (
    CategoricalSpec,
    ColumnSpec,
    DatetimeSpec,
    Specs,
    TimeFormat,
    is_past_only,
)

_INPUT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

InputType = Literal["text", "integer", "number", "texts"]


class RawInput(Options):
    """One raw value that a row has: a column of the typed rows, an input of the served model.

    A feature's input carries the feature's name. Features that read the same column (hour and
    weekday of `time`) share one input, which carries the column's name; or the first feature's,
    where an input cannot be called like the column or another feature is. With `past_only` it
    stands in histories alone: no feature reads the row's own value.
    """

    name: str
    column: str
    type: InputType
    required: bool
    separator: str | None = None
    weight_separator: str | None = None
    max_items: int | None = None
    time: TimeFormat | None = None
    past_only: bool = False


def input_names(specs: Specs) -> dict[str, str]:
    """Map every feature but histories, which read other features' columns, to its raw input."""
    readers: dict[str, list[str]] = {}
    for name, spec in specs.items():
        if isinstance(spec, ColumnSpec):
            readers.setdefault(spec.column or name, []).append(name)
    return {
        feature: _input_name(column, features, specs)
        for column, features in readers.items()
        for feature in features
    }


def _input_name(column: str, features: list[str], specs: Specs) -> str:
    taken = column in specs and column not in features
    shared = len(features) > 1 and not taken and _INPUT_NAME.fullmatch(column)
    return column if shared else features[0]


def raw_inputs(specs: Specs) -> tuple[RawInput, ...]:
    """Return the raw inputs of all features, in the order of their first feature.

    Raises:
        ValueError: Features read one column as different types, or differently cut lists.
    """
    inputs: dict[str, RawInput] = {}
    names = input_names(specs)
    of_rows = {name for feature, name in names.items() if not is_past_only(specs[feature])}
    for feature, name in names.items():
        spec = specs[feature]
        if not isinstance(spec, ColumnSpec):
            continue
        wanted = _raw_input(name, spec.column or feature, spec, name not in of_rows)
        known = inputs.setdefault(name, wanted)
        if known != wanted:
            difference = ", ".join(
                f"{key} {getattr(known, key)!r} and {getattr(wanted, key)!r}"
                for key in RawInput.model_fields
                if getattr(known, key) != getattr(wanted, key)
            )
            raise ValueError(
                f"features that read column {wanted.column!r} differ: {difference}; a served "
                f"input has one type. Give the column twice under two names, or declare both alike"
            )
    return tuple(inputs.values())


def _raw_input(name: str, column: str, spec: ColumnSpec, past_only: bool) -> RawInput:
    made = partial(RawInput, name=name, column=column, required=spec.required, past_only=past_only)
    match spec:
        case CategoricalSpec(separator=str(separator)):
            weights, items = spec.weight_separator, spec.max_items
            return made(
                type="texts", separator=separator, weight_separator=weights, max_items=items
            )
        case CategoricalSpec():
            return made(type="integer" if spec.type == "int" else "text")
        case DatetimeSpec():
            time = TimeFormat(unit=spec.unit, format=spec.format)
            return made(type="integer" if spec.unit else "text", time=time)
    return made(type="number")
