# SPDX-License-Identifier: Apache-2.0
"""How the lists of libsvm and libffm files are cut: the formats say it, so a config need not."""

from collections.abc import Iterator, Mapping
from typing import Any

from features.specs import CategoricalSpec
from pipeline.config_data import SPARSE_COLUMNS, Format, format_by_ending

LIST_COLUMN = "features"
"""The column of a libsvm file without `fields`: all its items."""
ITEM_SEPARATOR, VALUE_SEPARATOR = " ", ":"
"""Between two items of a list and between an item and its value, as in the files."""


def with_list_separators(content: Any) -> Any:
    """Return a config's document, the separators of libsvm and libffm filled in where none is."""
    if not isinstance(content, Mapping) or not isinstance(content.get("features"), Mapping):
        return content
    data = content.get("data")
    features = {
        name: _with_separators(spec)
        if isinstance(spec, Mapping) and _is_list(data, _column(name, spec.get("column")))
        else spec
        for name, spec in content["features"].items()
    }
    return {**content, "features": features}


def _with_separators(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    if spec.get("kind") != "categorical":
        return spec
    separators = {"separator": ITEM_SEPARATOR, "weight_separator": VALUE_SEPARATOR}
    return {**spec, **{key: spec.get(key) or text for key, text in separators.items()}}


def _column(name: Any, column: Any) -> str:
    return str(name if column is None else column)


def wrong_separators(data: Any, features: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the lists of libsvm and libffm files that a config would cut otherwise: (name, why)."""
    for name, spec in features.items():
        if not isinstance(spec, CategoricalSpec) or not _is_list(data, spec.column or name):
            continue
        if (spec.separator, spec.weight_separator) != (ITEM_SEPARATOR, VALUE_SEPARATOR):
            yield (
                name,
                "items of libsvm and libffm are written index:value, with spaces between; take "
                "separator and weight_separator out",
            )


def _is_list(data: Any, column: str) -> bool:
    """Return whether a column of the data is a list by its format."""
    match _format(data):
        case "libsvm":
            return column == LIST_COLUMN and not _get(data, "fields")
        case "libffm":
            return column not in SPARSE_COLUMNS
    return False


def _format(data: Any) -> Format | None:
    """Return the format of the data, None if files differ or nothing says it."""
    if _get(data, "format"):
        return _get(data, "format")
    files = _get(data, "files")
    files = [files] if isinstance(files, str) else files
    if not isinstance(files, list | tuple):
        return None
    found = {format_by_ending(str(pattern)) for pattern in files}
    return found.pop() if len(found) == 1 else None


def _get(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, Mapping) else getattr(data, key, None)
