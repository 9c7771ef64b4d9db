# SPDX-License-Identifier: Apache-2.0
from itertools import count

import pyarrow as pa
import pytest

from features.encode import encode_rows
from features.space import FeatureSpace
from pipeline.config import EngineConfig
from pipeline.engine import open_engine
from tests.features.rows import EMPTY, typed_rows


@pytest.fixture(scope="session")
def connection(tmp_path_factory):
    config = EngineConfig(memory="1GB", threads=2)
    with open_engine(config, tmp_path_factory.mktemp("engine")) as opened:
        yield opened


@pytest.fixture(scope="session")
def make_table(connection):
    """Turn columns by name, an Arrow table or an expression into a table of the engine."""
    numbers = count()

    def make(columns):
        rows = pa.table(columns) if isinstance(columns, dict) else columns
        return connection.create_table(f"t{next(numbers)}", rows)

    return make


@pytest.fixture(scope="session")
def read_cells(connection, make_table):
    """Apply a reader of `features.raw` to a column: [(value, malformed)], one pair a cell."""

    def read(reader, cells, *options):
        array = cells if isinstance(cells, pa.Array) else pa.array(cells)
        table = make_table({"row": range(len(array)), "cell": array})
        found = reader(table.cell, *options)
        expressions = table.select("row", value=found.value, malformed=found.malformed)
        rows = connection.to_pyarrow(expressions.order_by("row")).to_pylist()
        return [(row["value"], row["malformed"]) for row in rows]

    return read


@pytest.fixture(scope="session")
def read_rows(make_table):
    """Turn columns into typed rows; `_row` counts them unless it is given."""

    def read(columns, specs, rule=EMPTY):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        if "_row" not in table.column_names:
            table = table.append_column("_row", pa.array(range(len(table))))
        return make_table(typed_rows(make_table(table), specs, rule))

    return read


@pytest.fixture(scope="session")
def encode(connection, read_rows):
    """Encode source columns with a space: an Arrow table in the order of `_row`."""

    def compute(columns, space, rule=EMPTY):
        encoded = encode_rows(read_rows(columns, space.specs, rule), space)
        return connection.to_pyarrow(encoded).sort_by("_row")

    return compute


@pytest.fixture(scope="session")
def fit(read_rows):
    """Fit a space on source columns."""

    def compute(columns, specs, rule=EMPTY):
        return FeatureSpace.fit(read_rows(columns, specs, rule), specs)

    return compute
