# SPDX-License-Identifier: Apache-2.0
"""What models see of the data."""

import pytest
from pydantic import ValidationError

from features.schema import (
    Categorical,
    CategoricalList,
    Channel,
    FeatureSchema,
    History,
    Numeric,
    Table,
    length_key,
    weight_key,
)

ITEM = Categorical(name="item", table="items")
TAGS = CategoricalList(name="tags", table="tags", max_items=3, weighted=True)
PRICE = Numeric(name="price")
CLICKS = History(
    name="clicks",
    channels=(
        Channel(name="clicks_item", table="items", target="item"),
        Channel(name="clicks_action", table="actions"),
    ),
    max_items=5,
)
TABLES = tuple(Table(name=name, rows=9) for name in ("actions", "items", "tags"))
SCHEMA = FeatureSchema(tables=TABLES, features=(ITEM, TAGS, PRICE, CLICKS))


def test_features_are_listed_by_kind_in_their_order():
    assert SCHEMA.categorical == (ITEM,)
    assert SCHEMA.lists == (TAGS,)
    assert SCHEMA.numeric == (PRICE,)
    assert SCHEMA.histories == (CLICKS,)
    assert list(SCHEMA.id_columns()) == [
        ("item", "items"), ("tags", "tags"), ("clicks_item", "items"), ("clicks_action", "actions"),
    ]  # fmt: skip


def test_keys_of_a_batch():
    assert (length_key("clicks"), weight_key("tags")) == ("clicks_length", "tags_weight")


def test_a_selection_has_the_order_and_the_tables_of_the_whole():
    assert SCHEMA.select(("clicks", "item")) == FeatureSchema(
        tables=TABLES[:2], features=(ITEM, CLICKS)
    )
    assert SCHEMA.select(("price",)) == FeatureSchema(tables=(), features=(PRICE,))
    with pytest.raises(ValueError, match="no feature named colour, size"):
        SCHEMA.select(("size", "item", "colour"))


def test_a_table_that_is_not_there_is_refused():
    with pytest.raises(ValidationError, match=r"clicks_action: table 'actions' is not one of"):
        FeatureSchema(tables=TABLES[1:], features=(ITEM, CLICKS))


def test_a_table_has_at_least_padding_and_missing():
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        Table(name="t", rows=1)


def test_a_schema_survives_json():
    assert FeatureSchema.model_validate_json(SCHEMA.model_dump_json()) == SCHEMA
