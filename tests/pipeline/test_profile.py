# SPDX-License-Identifier: Apache-2.0
import ibis
import numpy as np
import pandas as pd
import pytest

from features.encode import encode_rows
from features.space import FeatureSpace
from features.specs import CategoricalSpec, HistorySpec, NumericSpec
from pipeline.profile import profile_dataset

SPECS = {
    "item": CategoricalSpec(kind="categorical", min_count=2),
    "shop": CategoricalSpec(kind="categorical", hash_buckets=5),
    "price": NumericSpec(kind="numeric", missing_flag=True, log=True),
    "tags": CategoricalSpec(kind="categorical", separator="|", max_items=3),
    "seen": HistorySpec(kind="history", of=("item",), events="all", max_items=2),
}


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    rows = 300
    frame = pd.DataFrame(
        {
            "_row": np.arange(rows),
            "_split": ["train"] * 200 + ["valid"] * 60 + ["test"] * 40,
            "_entity": rng.choice(["u", "v", "w"], rows),
            "_time": rng.integers(0, 50, rows) * 10**6,
            "_label": rng.integers(0, 2, rows),
            "item": rng.choice(["a", "b", "c", "rare", None], rows, p=[0.4, 0.3, 0.2, 0.02, 0.08]),
            "shop": rng.choice(["s", None], rows, p=[0.7, 0.3]),
            "price": rng.lognormal(size=rows).astype(np.float32),
            "tags": [["x"] * n for n in rng.integers(0, 5, rows)],
        }
    )
    frame.loc[rng.random(rows) < 0.2, "price"] = None
    return frame


@pytest.fixture(scope="module")
def columns(log):
    connection = ibis.duckdb.connect()
    connection.raw_sql("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    types = dict.fromkeys(["_split", "_entity", "item", "shop"], "string")
    types |= {"_row": "int64", "_time": "int64", "_label": "int8", "price": "float32"}
    types |= {"tags": "array<string>", "_cut_tags": "boolean"}
    log = log.assign(_cut_tags=log["tags"].map(len) > 3, tags=log["tags"].map(lambda t: t[:3]))
    schema = ibis.schema({name: types[name] for name in log.columns})
    rows = connection.create_table("rows", ibis.memtable(log, schema=schema))
    space = FeatureSpace.fit(rows.filter(rows._split == "train"), SPECS)
    encoded = connection.create_table("encoded", encode_rows(rows, space))
    found = profile_dataset(rows, encoded, space)["columns"]
    return {column["feature"]: column for column in found}


def parts(log):
    return {part: log[log["_split"] == part] for part in ("train", "valid", "test")}


def test_one_column_for_each_declared_feature(columns):
    assert list(columns) == list(SPECS)


def test_categories(log, columns):
    item = columns["item"]
    counts = parts(log)["train"]["item"].value_counts()
    known = counts[counts >= 2].index
    for part, rows in parts(log).items():
        unknown = ~rows["item"].isin(known) & rows["item"].notna()
        assert item[part]["missing"] == pytest.approx(rows["item"].isna().mean())
        assert item[part]["unknown"] == pytest.approx(unknown.mean())
    train = parts(log)["train"]["item"]
    assert item["rows"] == 200
    assert item["missing"] == train.isna().sum()
    assert item["distinct"] == train.nunique()
    assert item["known_values"] == len(known)
    assert item["coverage"] == pytest.approx(train.isin(known).mean())


def test_hashed_categories_know_every_value(log, columns):
    assert columns["shop"]["unknown"] == 0
    assert columns["shop"]["table_rows"] == 7
    assert columns["shop"]["missing"] == parts(log)["train"]["shop"].isna().sum()


def test_numbers(log, columns):
    price = columns["price"]
    train = np.log1p(parts(log)["train"]["price"].astype(float))
    assert price["mean"] == pytest.approx(train.mean(), rel=1e-6)
    assert price["std"] == pytest.approx(train.std(ddof=0), rel=1e-6)
    assert (price["min"], price["max"]) == pytest.approx((train.min(), train.max()), rel=1e-6)
    for part, rows in parts(log).items():
        assert price[part] == {"missing": pytest.approx(rows["price"].isna().mean())}
    assert price["coverage"] == pytest.approx(1 - price["train"]["missing"])


def test_lists_and_histories(log, columns):
    lengths = log["tags"].map(len)
    train = log["_split"] == "train"
    assert columns["tags"]["mean_length"] == pytest.approx(lengths[train].clip(upper=3).mean())
    # those of exactly 3 lost nothing
    assert columns["tags"]["truncated"] == pytest.approx((lengths[train] > 3).mean())
    entity, moment = log["_entity"].to_numpy(), log["_time"].to_numpy()
    past = (entity == entity[:, None]) & (moment < moment[:, None])
    before = pd.Series(np.minimum(past.sum(axis=1), 2))
    seen = columns["seen"]
    assert seen["mean_length"] == pytest.approx(before[train].mean())
    assert seen["truncated"] == pytest.approx((past.sum(axis=1)[train] > 2).mean())
    assert seen["empty"] == pytest.approx((before[train] == 0).mean())
    assert seen["max_items"] == 2
    for part, rows in parts(log).items():
        assert seen[part]["empty"] == pytest.approx((before[rows.index] == 0).mean())
