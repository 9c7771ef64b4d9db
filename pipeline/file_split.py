# SPDX-License-Identifier: Apache-2.0
"""Which files train, validate and test, where a data set comes divided."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ibis

from features.splits import TEST, TRAIN, VALID, by_hash
from pipeline.config import FilesSplit, SplitConfig
from pipeline.errors import InputRejected
from pipeline.rows import FILE, ROW, SPLIT
from pipeline.sources.meant import is_meant


def parts_of_files(
    split: SplitConfig, files: Sequence[Path], date: str | None = None
) -> dict[str, str]:
    """Return the part of each file by its path; empty for a split of another kind.

    Raises:
        InputRejected: A file is in no part or in several, or a pattern means no file; everything
            that is wrong is listed at once.
        ConfigError: A pattern needs a date or a variable that is not there.
    """
    if not isinstance(split, FilesSplit) or not files:
        return {}
    patterns = [
        (part, pattern)
        for part, given in ((TRAIN, split.train), (VALID, split.valid or ()), (TEST, split.test))
        for pattern in given
    ]
    means = {
        (part, pattern): [path for path in files if is_meant(path, pattern, date)]
        for part, pattern in patterns
    }
    problems = [
        f"split.{part}: {pattern!r} means none of the data's files: {_some(files)}"
        for (part, pattern), found in means.items()
        if not found
    ]
    parts: dict[str, str] = {}
    for path in files:
        found = list(dict.fromkeys(part for (part, _), paths in means.items() if path in paths))
        if len(found) == 1:
            parts[str(path)] = found[0]
        else:
            where = f"in several parts: {', '.join(found)}" if found else "in no part"
            problems.append(
                f"{path}: is {where} of the split by files; expected one of train, valid and test"
            )
    if problems:
        raise InputRejected("\n".join(problems))
    return parts


def _some(files: Sequence[Path]) -> str:
    more = f" and {len(files) - 3} more" if len(files) > 3 else ""
    return ", ".join(path.name for path in files[:3]) + more


def with_parts(rows: Any, split: FilesSplit, parts: Mapping[str, str]) -> Any:
    """Add the part of each row in `_split`, as the part of its file says."""
    file = rows[FILE]
    train: Any = ibis.literal(TRAIN)
    if split.valid_share is not None:
        train = by_hash(rows[ROW].cast("string"), split.valid_share, 0.0)
    paths = {part: [path for path, own in parts.items() if own == part] for part in (VALID, TEST)}
    part = ibis.cases((file.isin(paths[VALID]), VALID), (file.isin(paths[TEST]), TEST), else_=train)
    return rows.mutate(**{SPLIT: part})
