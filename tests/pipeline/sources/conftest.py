# SPDX-License-Identifier: Apache-2.0
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.config import RunConfig
from pipeline.engine import open_engine
from pipeline.rows import needed_columns
from pipeline.sources.read import read_rows
from pipeline.sources.source import open_source
from tests.pipeline.sources.written import ABY


@pytest.fixture
def read(tmp_path):
    """Return a function that reads files and returns (rows as tuples, label last, rejects)."""
    calls = 0

    def read_files(files, features=ABY, label="y", joins=(), **data):
        nonlocal calls
        calls += 1
        config = RunConfig.model_validate(
            {
                "name": "x",
                "data": {"files": files, "joins": joins, **data},
                "label": label,
                "split": "hash",
                "features": features,
                "model": "fm",
            }
        )
        source = open_source(config.data, needed_columns(config))
        read_files.source = source
        rejected = tmp_path / f"rejected{calls}"
        with open_engine(config.engine, tmp_path / f"engine{calls}") as connection:
            rows, count = read_rows(connection, source, config, rejected)
            table = rows.order_by("_row").to_pyarrow()
        columns = [table[name].to_pylist() for name in (*features, "_label")]
        path = rejected / "rejected.jsonl"
        texts = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        rejects = [json.loads(text) for text in texts]
        assert count == sum(1 for _ in rejects) or any("\n" in (r["text"] or "") for r in rejects)
        return list(zip(*columns, strict=True)), rejects

    return read_files


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write_file


@pytest.fixture
def parquet(tmp_path):
    def write_table(name, **columns):
        pq.write_table(pa.table(columns), tmp_path / name)
        return str(tmp_path / name)

    return write_table
