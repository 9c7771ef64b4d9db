# SPDX-License-Identifier: Apache-2.0
"""Names of features, from what columns are called."""

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set

from features.schema import length_key, weight_key
from features.specs import channel_name
from pipeline.config import RESERVED_NAMES

_HISTORY = "history"


def feature_names(
    columns: Sequence[str], lists: Collection[str] = (), taken: Iterable[str] = ()
) -> dict[str, str]:
    """Return a feature's name for each column, of letters, digits and _ and no two alike.

    Names that differ by case alone are alike: to DuckDB they are one column. So are a name and
    that of a column which a list makes beside its own.

    Args:
        columns: Names of columns, in the file's order.
        lists: Those whose features are lists.
        taken: Names that other features have.
    """
    names: dict[str, str] = {}
    used = {name.lower() for name in taken}
    # a column keeps its own name where it can, whatever others become; lists come last, as only
    # they need several names
    for column in sorted(columns, key=lambda c: (c in lists, _plain(c, 0) != c)):
        wanted = _plain(column, columns.index(column) + 1)
        made = _list_columns if column in lists else _one_column
        names[column] = _free(wanted, made, used)
        used |= _lower(made(names[column]))
    return names


def history_name(
    item: str, names: Mapping[str, str], lists: Collection[str], taken: Iterable[str]
) -> str:
    """Return a name for a history of an item, whose columns no other feature has or makes.

    Args:
        item: Name of the feature that it is of.
        names: As `feature_names` returned them.
        lists: Columns whose features are lists.
        taken: Names that other features have.
    """
    used = {name.lower() for name in taken}
    for column, name in names.items():
        used |= _lower(_list_columns(name) if column in lists else [name])
    return _free(_HISTORY, lambda name: [name, length_key(name), channel_name(name, item)], used)


def _free(wanted: str, made: Callable[[str], list[str]], used: Set[str]) -> str:
    """Return a name, numbered if need be, of which all columns that it makes are unused."""
    name, number = wanted, 2
    while _lower(made(name)) & used:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _one_column(name: str) -> list[str]:
    return [name]


def _list_columns(name: str) -> list[str]:
    return [name, length_key(name), weight_key(name)]


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _plain(column: str, place: int) -> str:
    """Return a name that features may have: é is e, and what is no letter of ASCII is _."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", column) if not unicodedata.combining(c))
    name = re.sub(r"[^A-Za-z0-9_]", "_", bare)
    if not re.search(r"[A-Za-z0-9]", name):
        return f"column_{place}"
    name = name if re.match(r"[A-Za-z]", name) else f"f_{name}"
    return f"{name}_value" if name in RESERVED_NAMES else name
