# SPDX-License-Identifier: Apache-2.0
"""The relational engine of a run: an Ibis backend with a memory limit and a place to spill."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import ibis

from pipeline.config import EngineConfig
from pipeline.errors import ConfigError

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend


@contextmanager
def open_engine(config: EngineConfig, work: Path) -> Iterator["Backend"]:
    """Yield a DuckDB connection that keeps its tables and spills in `work`, deleted at the end.

    Raises:
        ConfigError: The memory that the config allows is not enough.
    """
    work.mkdir(parents=True, exist_ok=True)
    connection = ibis.duckdb.connect(
        work / "engine.duckdb",
        memory_limit=config.memory,
        temp_directory=str(work / "spill"),
        **({"threads": config.threads} if config.threads else {}),
    )
    # GLOBAL, as cursors do not inherit what is set for a session
    # Ibis 12 writes lambdas as `x -> …`, which DuckDB 2 accepts only when asked to
    connection.raw_sql("SET GLOBAL lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    # moments must not depend on the machine's zone
    connection.raw_sql("SET GLOBAL TimeZone = 'UTC'")
    connection.raw_sql("SET GLOBAL autoinstall_known_extensions = false")
    connection.raw_sql("SET enable_progress_bar = false")
    try:
        yield connection
    except duckdb.OutOfMemoryException as error:
        reason = str(error).split("\n", maxsplit=1)[0]
        raise ConfigError(
            f"engine.memory is {config.memory}, which is not enough: {reason}; give it more"
        ) from error
    finally:
        connection.disconnect()
        shutil.rmtree(work, ignore_errors=True)
