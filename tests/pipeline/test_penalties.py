# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.schema import Categorical, Channel, FeatureSchema, History, Table
from pipeline.config_train import TrainConfig
from pipeline.penalties import rows_with_each_id, table_penalties

SCHEMA = FeatureSchema(
    tables=(Table(name="item", rows=6), Table(name="user", rows=4)),
    features=(
        Categorical(name="user", table="user"),
        Categorical(name="item", table="item"),
        History(
            name="h",
            channels=(Channel(name="h_item", table="item", target="item"),),
            max_items=3,
        ),
    ),
)


@pytest.fixture
def folder(tmp_path):
    columns = {
        "user": pa.array([2, 2, 3], pa.int32()),
        "item": pa.array([4, 5, 5], pa.int32()),
        "h_item": pa.array([[4, 4, 5], [], [2]], pa.list_(pa.int32())),
        "h_length": pa.array([3, 0, 1], pa.int32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "0.parquet")
    return tmp_path


def test_a_row_counts_once_in_all_columns_of_a_table(folder):
    counts = rows_with_each_id(folder, SCHEMA)
    assert counts["item"][1:].tolist() == [0, 1, 0, 1, 3]  # 4: row 1; 5: all rows; 2: row 3
    assert counts["user"].tolist() == [0, 0, 2, 1]


def test_penalties_are_divided_by_counts_if_asked_for(folder):
    """Zhou et al. 2018, Eq. 6: λ / n_j."""
    plain = TrainConfig(table_l2={"item": 0.3})
    assert table_penalties(plain, SCHEMA, folder) == {"item": 0.3}
    divided = TrainConfig(table_l2=0.3, table_l2_by_count=True)
    found = table_penalties(divided, SCHEMA, folder)
    np.testing.assert_allclose(found["item"][[2, 4, 5]], [0.3, 0.3, 0.1], rtol=1e-6)
    np.testing.assert_allclose(found["user"][[2, 3]], [0.15, 0.3], rtol=1e-6)


def test_without_penalties_nothing_is_counted(folder):
    assert table_penalties(TrainConfig(), SCHEMA, folder / "missing") == {"item": 0.0, "user": 0.0}
