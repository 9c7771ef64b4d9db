# SPDX-License-Identifier: Apache-2.0
"""Names of values, such as the titles of items, out of files like those of a side table."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline.config_report import NamesConfig
from pipeline.config_yaml import KeyPath
from pipeline.rows import Need
from pipeline.sources.columns import missing_columns
from pipeline.sources.joins import Side, load_side
from pipeline.sources.source import SourceProblem, find_files, refused, sparse_sides

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

_NAME = "name"


def look_at_names(
    feature: str, config: NamesConfig, date: str | None = None
) -> tuple[Side, list[SourceProblem]]:
    """Return the table of names as far as its headers tell, and everything that is wrong with it.

    Args:
        feature: Whose values have the names.
        config: Where the names are.
        date: Fills `{date}` in paths.
    """
    path: KeyPath = ("report", "names", feature)
    files, problems = find_files(config, path, date)
    problems += sparse_sides(path, files)
    if not problems:
        needs = [Need(config.key, (*path, "key")), Need(config.name, (*path, "name"))]
        problems += [refused(need.path, message) for need, message in missing_columns(files, needs)]
    return Side(config.side_table(), tuple(files), {_NAME: config.name}), problems


def read_names(
    connection: "Backend",
    feature: str,
    config: NamesConfig,
    values: Collection[str],
    date: str | None = None,
) -> dict[str, str]:
    """Return the names of those values that have one.

    Args:
        connection: The engine.
        feature: Whose values they are.
        config: Where the names are.
        values: What to look up.
        date: Fills `{date}` in paths.

    Raises:
        InputRejected: The files cannot be read, or name a value twice.
        ConfigError: A path cannot be filled in, or a format is not known.
    """
    side, problems = look_at_names(feature, config, date)
    if problems:
        refusal = type(problems[0].error)
        raise refusal("\n".join(dict.fromkeys(str(problem.error) for problem in problems)))
    rows = load_side(connection, side, f"names of {feature}")
    key = rows.columns[0]
    found = rows.filter(rows[key].isin(list(values)) & rows[_NAME].notnull())
    table = found.select(key=found[key], name=found[_NAME].cast("string")).to_pyarrow()
    return dict(zip(table["key"].to_pylist(), table["name"].to_pylist(), strict=True))
