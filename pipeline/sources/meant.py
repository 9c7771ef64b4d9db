# SPDX-License-Identifier: Apache-2.0
"""Which of the data's files a pattern in a config means."""

from pathlib import Path

from pipeline.config import FilesConfig, expand_path
from pipeline.errors import ConfigError


def index_base_of(path: Path, config: FilesConfig) -> int | None:
    """Return what the indices of a libsvm or libffm file are counted from, None if undeclared.

    Raises:
        ConfigError: None of the declared patterns means the file.
    """
    if not isinstance(config.index_base, dict):
        return config.index_base
    for pattern, base in config.index_base.items():
        if is_meant(path, pattern):
            return base
    raise ConfigError(
        f"{path}: no pattern of index_base means this file: {', '.join(config.index_base)}; add "
        "one, such as '*' at the end for all others"
    )


def is_meant(path: Path, pattern: str, date: str | None = None) -> bool:
    """Return whether a glob means a file: by its name, or by the end of its path.

    Raises:
        ConfigError: The pattern needs a date or a variable that is not there.
    """
    try:
        expanded = expand_path(pattern, date)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    return str(path).endswith(f"/{expanded}") or str(path) == expanded or path.match(expanded)
