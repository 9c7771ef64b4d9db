# SPDX-License-Identifier: Apache-2.0
"""The relational engine of a run: an Ibis backend with a memory limit and a place to spill."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ibis

from pipeline.config import EngineConfig

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend


@contextmanager
def open_engine(config: EngineConfig, work: Path) -> Iterator["Backend"]:
    """Yield a DuckDB connection that keeps its tables and spills in `work`, deleted at the end."""
    work.mkdir(parents=True, exist_ok=True)
    connection = ibis.duckdb.connect(
        work / "engine.duckdb",
        memory_limit=config.memory,
        temp_directory=str(work / "spill"),
        **({"threads": config.threads} if config.threads else {}),
    )
    # Ibis 12 writes lambdas as `x -> …`, which DuckDB 2 accepts only when asked to
    connection.raw_sql("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    connection.raw_sql("SET enable_progress_bar = false")
    connection.raw_sql("SET TimeZone = 'UTC'")  # moments must not depend on the machine's zone
    connection.raw_sql("SET autoinstall_known_extensions = false")
    try:
        yield connection
    finally:
        connection.disconnect()
        shutil.rmtree(work, ignore_errors=True)
