# SPDX-License-Identifier: Apache-2.0
"""What `clickloom models` says: every kind, what it takes, how large it is, its options."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from features.schema import (
    Categorical,
    CategoricalList,
    Channel,
    Feature,
    FeatureSchema,
    History,
    Numeric,
    Table,
)
from models.registry import MODELS, check, entry
from models.sizes import SYMBOLS
from pipeline.config_docs import default_text, type_text
from pipeline.config_file import nearest_kind
from pipeline.errors import ConfigError

_TABLES = (Table(name="t", rows=3),)
_CATEGORICAL = Categorical(name="c", table="t")
_HISTORY = History(name="h", channels=(Channel(name="h_c", table="t", target="c"),), max_items=1)
_OTHERS: tuple[Feature, ...] = (
    CategoricalList(name="l", table="t", max_items=1),
    Numeric(name="n"),
    _HISTORY,
)


def describe(kind: str) -> dict[str, Any]:
    """Return what there is to know of a kind before using it, as JSON-like values.

    Raises:
        ConfigError: There is no such kind.
    """
    if kind not in MODELS:
        raise ConfigError(f"no model is called {kind!r}{nearest_kind(kind, MODELS)}")
    found = MODELS[kind]
    config = found.config()
    return {
        "summary": found.summary,
        "paper": None if found.paper == "–" else found.paper,
        "inputs": inputs_of(kind),
        "parameters": found.model.parameter_formula(config),
        "symbols": _symbols(found.model.parameter_formula(config), found.model.symbols),
        "options": {
            name: {
                "type": type_text(field.annotation).replace("`", ""),
                "default": field.default,
                "description": field.description,
            }
            for name, field in found.config.model_fields.items()
        },
    }


def _symbols(formula: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return what the letters of a formula mean, and the letters in those meanings."""
    known, found, text = {**SYMBOLS, **own}, dict[str, str](), formula
    for name in reversed(list(known)):  # a meaning uses letters that stand before its own
        if any(re.search(rf"\b{letter}\b", text) for letter in re.findall(r"\b[A-Za-z]\d?", name)):
            found[name] = known[name]
            text += f" {known[name]}"
    return {name: known[name] for name in known if name in found}


def inputs_of(kind: str) -> dict[str, str]:
    """Return which kinds of features a model takes and how, found by asking it."""
    needs_history = bool(_refusals(kind, [_CATEGORICAL]))
    base: list[Feature] = [_CATEGORICAL, _HISTORY] if needs_history else [_CATEGORICAL]
    taken = {"categorical": "yes"}
    for feature in _OTHERS:
        rest = [other for other in base if other is not feature]
        refused = _refusals(kind, [*rest, feature])
        taken[feature.kind] = "no" if refused else "yes"
    if needs_history:
        taken["history"] = "at least one"
    how = entry(kind).config.model_fields.get("numeric_input")
    if how is not None:
        choices = type_text(how.annotation).replace("`", "")
        taken["numeric"] = f"{choices}; {how.default} by default"
    else:
        taken["numeric"] = entry(kind).model.numeric_input
    return taken


def _refusals(kind: str, features: list[Feature]) -> list[str]:
    schema = FeatureSchema(tables=_TABLES, features=tuple(features))
    return check(kind, schema, entry(kind).config())


def overview() -> Iterator[str]:
    """Yield the lines of the list of all kinds."""
    for kind in MODELS:
        found = describe(kind)
        inputs = ", ".join(
            name if how == "yes" else f"{name} ({how})"
            for name, how in found["inputs"].items()
            if how != "no"
        )
        yield f"{kind}: {found['summary']}" + (f" ({found['paper']})" if found["paper"] else "")
        yield f"    takes    {inputs}"
        yield f"    weights  {found['parameters']}"
        yield f"    options  {', '.join(found['options'])}"
    yield ""
    yield "Weights at default options, where"
    yield from _legend(SYMBOLS)
    yield "`clickloom models KIND` explains the other letters and the options."


def details(kind: str) -> Iterator[str]:
    """Yield the lines about one kind.

    Raises:
        ConfigError: There is no such kind.
    """
    found = describe(kind)
    yield f"{kind}: {found['summary']}" + (f" ({found['paper']})" if found["paper"] else "")
    yield "\ntakes"
    for name, how in found["inputs"].items():
        yield f"    {name:12} {how}"
    yield f"\nweights  {found['parameters']}\n  at default options, where"
    yield from _legend(found["symbols"])
    yield "\noptions"
    for name, field in entry(kind).config.model_fields.items():
        default = default_text(field).replace("`", "")
        yield f"    {name}: {found['options'][name]['type']}, default {default}"
        yield f"        {field.description}"


def _legend(symbols: Mapping[str, str]) -> Iterator[str]:
    for letter, meaning in symbols.items():
        yield f"    {letter:8} {meaning}"
