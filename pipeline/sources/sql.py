# SPDX-License-Identifier: Apache-2.0
"""Pieces of DuckDB's SQL that the queries of all formats are put together from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Wanted:
    """A data column that is read; `separator` makes its cells lists."""

    name: str
    separator: str | None = None


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return "'" + text.replace("'", "''") + "'"


def column_name(text: str) -> str:
    """Return a name as it stands in a query."""
    return '"' + text.replace('"', '""') + '"'


def select_list(wanted: Sequence[Wanted], expressions: Mapping[str, str]) -> str:
    """Return what a query selects; a column without an expression is null."""
    cells = [f"{expressions.get(w.name, 'NULL::VARCHAR')} AS {column_name(w.name)}" for w in wanted]
    return ", ".join(cells)
