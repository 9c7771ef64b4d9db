# SPDX-License-Identifier: Apache-2.0
"""Lines of libsvm, libfm and libffm files as columns, in DuckDB's SQL."""

from collections.abc import Sequence

from pipeline.config_data import SPARSE_COLUMNS, value_column
from pipeline.config_lists import ITEM_SEPARATOR, LIST_COLUMN, VALUE_SEPARATOR
from pipeline.sources.sparse import FIELD_COLUMN, Grammar
from pipeline.sources.sql import Wanted, column_name, quoted, select_list

_COLON = quoted(VALUE_SEPARATOR)
# translate and trim take longer than all else: only lines that need them go through them
_BODY = (
    "CASE WHEN contains(line, '#') OR contains(line, '\t') OR contains(line, '\r') "
    "OR starts_with(line, ' ') OR ends_with(line, ' ') "
    "THEN trim(translate(split_part(line, '#', 1), '\t\r', '  '), ' ') ELSE line END"
)


def sparse_query(
    lines: str, grammar: Grammar, wanted: Sequence[Wanted], system: tuple[str, str, str]
) -> str:
    """Return a query for the wanted columns of a file.

    Args:
        lines: A reader of whole lines, in a column `line`.
        grammar: Of the lines.
        wanted: The columns.
        system: Names of the columns for the file, the order of rows, and broken rows.
    """
    file, order, broken = map(column_name, system)
    bodies = f"SELECT {file}, {_BODY} AS body FROM {lines}"
    numbered = (
        f"SELECT {file}, row_number() OVER () - 1 AS {order}, body, "
        f"NOT regexp_full_match(body, {quoted(grammar.pattern)}) AS {broken} "
        f"FROM ({bodies}) WHERE body <> ''"
    )
    cut = (
        f"SELECT {file}, {order}, {broken}, CASE WHEN NOT {broken} THEN "
        f"list_filter(string_split(body, ' '), lambda t: t <> '') END AS tokens FROM ({numbered})"
    )
    ranked = "starts_with(tokens[2], 'qid:')" if grammar.format == "libsvm" else "false"
    parts = (
        f"SELECT {file}, {order}, {broken}, tokens[1] AS label, "
        f"CASE WHEN {ranked} THEN substr(tokens[2], 5) END AS qid, "
        f"CASE WHEN {ranked} THEN tokens[3:] ELSE tokens[2:] END AS items FROM ({cut})"
    )
    expressions = {name: name for name in SPARSE_COLUMNS}
    for w in wanted:
        cell = _cell(w, grammar)
        if cell:
            expressions[w.name] = cell
    return f"SELECT {file}, {order}, {broken}, {select_list(wanted, expressions)} FROM ({parts})"


def _cell(wanted: Wanted, grammar: Grammar) -> str | None:
    """Return the expression of a column over `items`, None if a file has no such column."""
    name, fields = wanted.name, grammar.fields or ()
    if grammar.by_position:
        for place, field in enumerate(fields, start=1):
            if name == field:
                return _index(f"items[{place}]", 1, grammar.base)
            if name == value_column(field):
                return _value(f"items[{place}]", 2)
        return None
    if grammar.format == "libsvm":
        return _listed("items", 1, grammar, wanted) if name == LIST_COLUMN else None
    number = FIELD_COLUMN.fullmatch(name)
    if fields:
        field_number = fields.index(name) if name in fields else None
    else:
        field_number = int(number[1]) if number else None
    if field_number is None:
        return None
    start = quoted(f"{field_number + grammar.base}:")
    return _listed(f"list_filter(items, lambda t: starts_with(t, {start}))", 2, grammar, wanted)


def _listed(items: str, place: int, grammar: Grammar, wanted: Wanted) -> str:
    """Return a list of index:value texts, or one text where no list is wanted."""
    pair = f"{_index('t', place, grammar.base)} || {_COLON} || {_value('t', place + 1)}"
    listed = f"list_transform({items}, lambda t: {pair})"
    if wanted.separator is not None:
        return listed
    return f"array_to_string({listed}, {quoted(ITEM_SEPARATOR)})"


def _index(item: str, place: int, base: int) -> str:
    # at most 19 digits, not below the base: the pattern of the line made sure of it
    return f"(split_part({item}, {_COLON}, {place})::UBIGINT - {base})::VARCHAR"


def _value(item: str, place: int) -> str:
    """Return the value of an item, 1 where none is written."""
    written = f"split_part({item}, {_COLON}, {place})"
    return f"CASE WHEN contains({item}, {_COLON}) THEN {written} ELSE '1' END"
