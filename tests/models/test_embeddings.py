# SPDX-License-Identifier: Apache-2.0
import pytest

from features.schema import Categorical, FeatureSchema, Table
from models.registry import MODELS, build


def test_more_rows_than_ids_can_count_are_refused_before_they_are_made():
    schema = FeatureSchema(
        tables=(Table(name="user", rows=2**31 - 3), Table(name="item", rows=11)),
        features=(Categorical(name="user", table="user"), Categorical(name="item", table="item")),
    )
    with pytest.raises(ValueError, match=r"2,147,483,656 rows in all, of which `user`.*buckets"):
        build("lr", schema, MODELS["lr"].config())
