# SPDX-License-Identifier: Apache-2.0
"""Source columns to typed rows, as ingest makes them, and specs from plain dictionaries."""

from pydantic import TypeAdapter

from features.encode import cut_column, moment_column
from features.inputs import raw_inputs
from features.raw import NullRule, read_integer, read_number, read_text, read_texts, read_time
from features.schema import weight_key
from features.specs import FeatureSpec

EMPTY = NullRule()
"""Only empty text is missing."""


def specs_of(**features):
    """Return specs as a config declares them."""
    return TypeAdapter(dict[str, FeatureSpec]).validate_python(features)


def typed_rows(source, specs, rule=EMPTY):
    """Read the columns that features need; columns with an underscore stay as they are."""
    columns = {name: source[name] for name in source.columns if name.startswith("_")}
    for raw in raw_inputs(specs):
        cell = source[raw.column]
        if raw.time is not None:
            read, moment = read_time(cell, rule, raw.time)
            columns[moment_column(raw.name)] = moment.value
        elif raw.type == "texts":
            read, weights, cut = read_texts(
                cell, rule, raw.separator, raw.weight_separator, raw.max_items
            )
            columns[cut_column(raw.name)] = cut
            if weights is not None:
                columns[weight_key(raw.name)] = weights
        else:
            readers = {"text": read_text, "integer": read_integer, "number": read_number}
            read = readers[raw.type](cell, rule)
        columns[raw.name] = read.value
    return source.select(**columns)
