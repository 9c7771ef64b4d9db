# SPDX-License-Identifier: Apache-2.0
"""Whether files have the columns that a config reads, in types that it can read."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pipeline.config import FilesConfig
from pipeline.config_file import nearest
from pipeline.rows import Need
from pipeline.sources.files import SourceFile, separator_of

_SHOWN = 80
_SEPARATORS = "\t;|,^"


def missing_columns(
    files: Sequence[SourceFile], needs: Iterable[Need], others: Iterable[str] = (), role: str = ""
) -> Iterator[tuple[Need, str]]:
    """Yield the needs whose column some file lacks, and a message that names the first such file.

    Args:
        files: Files of one table.
        needs: What is read from them.
        others: Columns that stand elsewhere, to guess what was meant.
        role: What the columns are, for the message.
    """
    for need in needs:
        lacking = [file for file in files if need.column not in file.columns]
        if lacking:
            more = f" (nor have {len(lacking) - 1} more files)" if len(lacking) > 1 else ""
            hint = nearest(need.column, [*lacking[0].columns, *others]) if need.required else ""
            yield need, f"{lacking[0].path}: has no column {need.column!r}{role}{more}{hint}"


def wrong_separator(file: SourceFile, config: FilesConfig, needs: Sequence[Need]) -> str | None:
    """Return a message if a header is one field although several columns are needed."""
    needed = {need.column for need in needs if need.required}
    if file.format not in ("csv", "tsv") or len(file.columns) != 1 or len(needed) < 2:
        return None
    line = file.columns[0]
    seen = Counter(character for character in line if character in _SEPARATORS)
    hint = f"; it holds {seen.most_common(1)[0][0]!r}" if seen else ""
    return (
        f"{file.path}: line {file.blank_lines + 1}: 1 field found, at least {len(needed)} expected "
        f"with separator {separator_of(file.format, config)!r}; the line starts {line[:_SHOWN]!r}"
        f"{hint}. Check format and separator"
    )


def same_but_for_case(file: SourceFile, columns: Iterable[str]) -> Iterator[str]:
    """Yield a message for each Parquet column that the engine cannot tell from another."""
    if file.format != "parquet":
        return
    lower = Counter(name.lower() for name in file.columns)
    for column in dict.fromkeys(columns):
        if column in file.columns and lower[column.lower()] > 1:
            yield (
                f"{file.path}: has several columns called {column!r} but for upper and lower case; "
                "rename one at the source"
            )


def type_problem(dtype: pa.DataType, need: Need) -> str | None:
    """Return why values of a Parquet type cannot be read as what a config declares, or None."""
    types = pa.types
    if types.is_dictionary(dtype):
        dtype = dtype.value_type
    problem = None
    if types.is_struct(dtype) or types.is_map(dtype) or types.is_union(dtype):
        problem = "holds several values; expected one"
    elif _is_list(dtype) and need.type != "texts":
        problem = "is a list; give the feature a separator to read it as one"
    elif need.type == "integer" and _is_text(dtype):
        problem = "is text, the config says int; declare type: text, or cast it at the source"
    elif need.type in ("integer", "number") and (types.is_timestamp(dtype) or types.is_date(dtype)):
        problem = "is a moment; expected numbers"
    elif need.type == "moment" and (types.is_boolean(dtype) or types.is_time(dtype)):
        problem = "is no moment; expected a timestamp, a number or a text"
    return f"of type {dtype} {problem}" if problem else None


def _is_list(dtype: pa.DataType) -> bool:
    return (
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
    )


def _is_text(dtype: pa.DataType) -> bool:
    return pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
