# SPDX-License-Identifier: Apache-2.0
"""An explanation as text: every number with 9 digits, which is all that a float32 has."""

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any

import numpy as np

_MISSING = "not among the predictions"
_INDENT: Mapping[str, Any] = {"initial_indent": "    ", "subsequent_indent": "    "}


def explanation_lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines that say what `pipeline.explain.explain` returned."""
    yield f"row_id {document['row_id']} of {document['split']}, run {document['run']}"
    options = "".join(f", {key}: {value}" for key, value in document["options"].items())
    yield f"model {document['model']}{options}"
    yield f"label {document['label']}"
    yield "\ninputs"
    for feature in document["inputs"]:
        yield f"    {feature['feature']}: {_input(feature)}"
    for history, facts in document["histories"].items():
        yield from _history(history, facts)
    if document["histories"]:
        about = document["history_weights"]
        yield "\nwhat the weights of events are"
        yield from wrap(f"{about['caption']} {about['note']}", 96, **_INDENT)
    yield "\nterms, which add up to the logit"
    for name, part in document["terms"].items():
        if isinstance(part, list):
            yield from _part(name, part)
        else:
            yield f"    {name}: {number(part)}"
    yield ""
    yield f"sum of terms   {number(document['sum'])}"
    yield f"logit          {number(document['logit'])}"
    yield f"probability    {number(document['probability'])} = 1 / (1 + exp(-logit))"
    stored = document["stored_score"]
    yield f"stored score   {_MISSING if stored is None else number(stored)}"
    if "weights" in document:
        yield from _weights(document["weights"])


def number(value: float) -> str:
    """Write a number so that a float32 can be read back to the bit."""
    return f"{value + 0.0:.9g}"  # no -0


def _input(feature: Mapping[str, Any]) -> str:
    if "x" in feature:
        return f"x = {number(feature['x'])}"
    return "; ".join(_item(item) for item in feature["items"]) or "no item"


def _item(item: Mapping[str, Any]) -> str:
    weight = f" weight {number(item['weight'])}" if "weight" in item else ""
    name = f", {_printable(item['name'])}" if "name" in item else ""
    return f"{item['table']} {item['id']} ({item['value']}{name}){weight}"


def _printable(text: str) -> str:
    return text if text.isprintable() else repr(text)


def _history(name: str, facts: Mapping[str, Any]) -> Iterator[str]:
    events, lines = facts["events"], facts["lines"]
    yield f"\nevents of {name}, oldest first: {len(events)}"
    for event in events:
        items = ", ".join(_item(item) for item in event["items"].values())
        yield f"    {items}    {_weights_of(lines, event['weights'])}"
    if events:
        yield f"    sum    {_weights_of(lines, facts['sums'])}"


def _weights_of(lines: Sequence[str], weights: Sequence[float]) -> str:
    return ", ".join(f"{line} {number(w)}" for line, w in zip(lines, weights, strict=True))


def _part(name: str, terms: list[Mapping[str, Any]]) -> Iterator[str]:
    total = sum(term["value"] for term in terms)
    yield f"    {name}: {number(total)} in all" + (", by size" if name == "pairs" else "")
    for term in terms:
        fields = " × ".join(term["fields"]) if "fields" in term else term["field"]
        made = ""
        for kind in ("attention", "strength"):
            if kind in term and term["product"] is None:
                made = f" ({kind} 0)"
            elif kind in term:
                made = f" = {kind} {number(term[kind])} · product {number(term['product'])}"
        yield f"        {fields}: {number(term['value'])}{made}"


def _weights(weights: Mapping[str, Any]) -> Iterator[str]:
    last = "; the last number is w, those before are v" if weights["linear_columns"] else ""
    yield f"\nrows of the tables{last}"
    if weights["vectors"]:
        names = ", ".join(weights["vectors"])
        cut = (
            f"v is cut into vectors of one length, for pairs with the fields {names}, in this order"
        )
        yield from wrap(cut, 96, **_INDENT)
    for table, rows in weights["tables"].items():
        for place, row in rows.items():
            yield f"    {table} {place}: {' '.join(map(number, row))}"
    yield "\nother weights, row by row"
    for name, layer in weights["layers"].items():
        shape = "×".join(map(str, layer["shape"])) or "1"
        if layer["values"] is None:
            yield f"    {name} ({shape}): too many to write out"
        else:
            values = np.ravel(layer["values"])
            yield f"    {name} ({shape}): {' '.join(map(number, values))}"
