# SPDX-License-Identifier: Apache-2.0
"""Names of features, from what columns are called."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from pipeline.config import RESERVED_NAMES


def feature_names(columns: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a feature's name for each column, of letters, digits and _ and no two alike.

    Names that differ by case alone are alike: to DuckDB they are one column.

    Args:
        columns: Names of columns, in the file's order.
        taken: Names that other features have.
    """
    names: dict[str, str] = {}
    used = {name.lower() for name in taken}
    # a column keeps its own name where it can, whatever others become
    for column in sorted(columns, key=lambda column: _plain(column, 0) != column):
        name = _plain(column, columns.index(column) + 1)
        wanted, number = name, 2
        while name.lower() in used:
            name, number = f"{wanted}_{number}", number + 1
        names[column] = name
        used.add(name.lower())
    return names


def _plain(column: str, place: int) -> str:
    """Return a name that features may have: é is e, and what is no letter of ASCII is _."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", column) if not unicodedata.combining(c))
    name = re.sub(r"[^A-Za-z0-9_]", "_", bare)
    if not re.search(r"[A-Za-z0-9]", name):
        return f"column_{place}"
    name = name if re.match(r"[A-Za-z]", name) else f"f_{name}"
    return f"{name}_value" if name in RESERVED_NAMES else name
