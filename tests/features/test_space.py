# SPDX-License-Identifier: Apache-2.0
"""The folder of a feature space, and what models see of it."""

import json

import pyarrow as pa
import pytest

from features.schema import (
    Categorical,
    CategoricalList,
    Channel,
    FeatureSchema,
    History,
    Numeric,
    Table,
)
from features.space import FeatureSpace, schema_of
from tests.features.rows import specs_of

SPECS = specs_of(
    item={"kind": "categorical", "min_count": 2, "num_oov": 3},
    hashed={"kind": "categorical", "column": "item", "hash_buckets": 100},
    tags={"kind": "categorical", "separator": "|", "weight_separator": ":", "table": "item"},
    price={"kind": "numeric", "missing_flag": True, "clip": [0, 99.5], "fill": 3},
    level={"kind": "bucketed", "column": "price", "edges": [1, 2.5]},
    criteo={"kind": "bucketed", "column": "price", "log_squared": True},
    hour={"kind": "datetime", "column": "when", "unit": "s", "part": "hour"},
    clicks={"kind": "history", "of": ["item", "hour"], "max_items": 7, "events": {"a": ["x"]}},
)
ROWS = {
    "item": ["a", "a", "b", None],
    "tags": ["b:2", "", None, "a|c"],
    "price": [0.5, None, 3.0, 7.0],
    "when": [0, 1, 2, 3],
}


@pytest.fixture(scope="module")
def space(fit):
    return fit(ROWS, SPECS)


def test_the_schema_says_what_models_see(space):
    # a three times, b twice, c is rare; buckets 0 … 3 of Criteo's rule, since ln²(7) = 3.8
    assert space.schema == FeatureSchema(
        tables=(
            Table(name="item", rows=2 + 3 + 2),
            Table(name="hashed", rows=2 + 100),
            Table(name="level", rows=2 + 3),
            Table(name="criteo", rows=2 + 4),
            Table(name="hour", rows=2 + 24),
        ),
        features=(
            Categorical(name="item", table="item"),
            Categorical(name="hashed", table="hashed"),
            CategoricalList(name="tags", table="item", max_items=50, weighted=True),
            Numeric(name="price"),
            Numeric(name="price_missing"),
            Categorical(name="level", table="level"),
            Categorical(name="criteo", table="criteo"),
            Categorical(name="hour", table="hour"),
            History(
                name="clicks",
                channels=(
                    Channel(name="clicks_item", table="item", target="item"),
                    Channel(name="clicks_hour", table="hour", target="hour"),
                ),
                max_items=7,
            ),
        ),
    )


def test_the_schema_is_known_before_the_sizes_of_tables(space):
    schema = schema_of(SPECS, lambda table: 9)
    assert schema.features == space.schema.features
    assert {table.rows for table in schema.tables} == {9}


def test_save_and_load_keep_everything(space, tmp_path):
    space.save(tmp_path)
    assert FeatureSpace.load(tmp_path) == space
    schema = (tmp_path / "schema.json").read_text(encoding="utf-8")
    assert FeatureSchema.model_validate_json(schema) == space.schema
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*"))
    assert files == ["features.json", "schema.json", "vocabularies/item.parquet"]


def test_the_folder_is_the_same_to_the_byte_for_any_row_order(fit, tmp_path):
    table = pa.table(ROWS)
    for name, rows in (("a", table), ("b", table.take([3, 1, 0, 2]))):
        fit(rows, SPECS).save(tmp_path / name)
    for path in (tmp_path / "a").rglob("*.*"):
        other = tmp_path / "b" / path.relative_to(tmp_path / "a")
        assert path.read_bytes() == other.read_bytes()


def test_a_space_without_vocabularies_or_values(fit, encode, tmp_path):
    specs = specs_of(
        item={"kind": "categorical"},
        price={"kind": "numeric"},
        level={"kind": "bucketed", "column": "price", "quantiles": 4},
    )
    rows = {"item": pa.nulls(2, pa.string()), "price": pa.nulls(2, pa.float32())}
    space = fit(rows, specs)
    space.save(tmp_path)
    loaded = FeatureSpace.load(tmp_path)
    assert loaded == space
    assert [loaded.table_rows(table) for table in ("item", "level")] == [3, 3]
    found = encode({"item": ["a", None], "price": [1.5, None]}, loaded)
    assert found["item"].to_pylist() == [2, 1]
    assert found["price"].to_pylist() == [1.5, 0.0]
    assert found["level"].to_pylist() == [2, 1]


def test_another_version_of_the_format_is_refused(space, tmp_path):
    space.save(tmp_path)
    path = tmp_path / "features.json"
    document = json.loads(path.read_text(encoding="utf-8")) | {"version": 0}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=r"version 0, expected 1; run ingest again"):
        FeatureSpace.load(tmp_path)


def test_a_lost_vocabulary_is_noticed(space, tmp_path):
    space.save(tmp_path)
    (tmp_path / "vocabularies" / "item.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"item\.parquet"):
        FeatureSpace.load(tmp_path)


def test_left_over_vocabularies_do_not_matter(space, fit, tmp_path):
    space.save(tmp_path)
    specs = specs_of(other={"kind": "categorical", "column": "item"})
    other = fit(ROWS, specs)
    other.save(tmp_path)
    assert FeatureSpace.load(tmp_path) == other
