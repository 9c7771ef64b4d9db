# SPDX-License-Identifier: Apache-2.0
"""The ingest stage against what pandas and NumPy compute from the same generated log."""

import hashlib
import json
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.config import EngineConfig
from pipeline.engine import open_engine
from pipeline.errors import InputRejected
from pipeline.workflow import run
from tests.conftest import Silent
from tests.pipeline.small_log import DAY, FEATURES, PARTS, make_log, read_parts


def digest(folder):
    """Return the bytes of all files of a data set but the record of how long it took."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.name != "stage.json")
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def vocabulary(dataset, table):
    return pq.read_table(dataset / "features" / "vocabularies" / f"{table}.parquet")


def test_split_by_time_is_in_order_with_the_wanted_shares(ingest):
    """TRN-02: 10 days of 100 rows in random order."""
    log = make_log(1000)
    log["ts"] = np.arange(1000) * 864 + 7
    log = log.sample(frac=1, random_state=1)
    result, dataset = ingest(log)
    assert result["rows"] == {"train": 800, "valid": 100, "test": 100}
    found = read_parts(dataset)
    times = found.groupby("part")["time_us"].agg(["min", "max"])
    assert times["max"]["train"] < times["min"]["valid"] <= times["max"]["valid"]
    assert times["max"]["valid"] < times["min"]["test"]
    stage = json.loads((dataset / "stage.json").read_text())
    boundaries = stage["facts"]["split"]["boundaries"]
    assert boundaries == {
        "valid_from": pd.Timestamp(800 * 864 + 7, unit="s", tz="UTC").isoformat(),
        "test_from": pd.Timestamp(900 * 864 + 7, unit="s", tz="UTC").isoformat(),
    }
    assert (found["time_us"] == log.set_index("id")["ts"].sort_index() * 10**6).all()


def test_given_boundaries_and_a_gap_leave_rows_out_but_in_histories(ingest):
    log = make_log()
    split = {"kind": "time", "valid_from": "1970-01-08", "test_from": "1970-01-09T12:00",
             "gap_s": DAY}  # fmt: skip
    result, dataset = ingest(log, split=split, features=FEATURES)
    t = log["ts"]
    expected = {
        "train": (t < 6 * DAY).sum(),
        "valid": ((t >= 7 * DAY) & (t < 7.5 * DAY)).sum(),
        "test": (t >= 8.5 * DAY).sum(),
    }
    assert result["rows"] == expected
    left_out = len(log) - sum(expected.values())
    notes = json.loads((dataset / "profile.json").read_text())["notes"]
    assert f"{left_out} rows lie in the gap: they only enter histories" in notes
    found = read_parts(dataset)
    lengths = {row.id: min(past_clicks(log, row, "item").size, 3) for row in log.itertuples()}
    assert (found["clicks_length"] == pd.Series(lengths).loc[found.index]).all()


def test_splits_by_hash_user_column_and_last_events(ingest):
    log = make_log(2000)
    _, dataset = ingest(log, split={"kind": "hash", "column": "item", "valid": 0.2, "test": 0.2})
    parts = read_parts(dataset)["part"]
    assert parts.groupby(log["item"]).agg(set).map(len).max() == 1
    _, dataset = ingest(split="user")
    assert read_parts(dataset)["part"].groupby(log["user"]).agg(set).map(len).max() == 1

    log["part"] = np.where(log["ts"] < 7 * DAY, "a", np.where(log["ts"] < 8 * DAY, "b", "c"))
    log.loc[log["ts"] < DAY, "part"] = "ignored"
    column = {"kind": "column", "column": "part", "train": "a", "valid": "b", "test": "c"}
    _, dataset = ingest(log, split=column)
    found = read_parts(dataset)["part"]
    names = log["part"].map({"a": "train", "b": "valid", "c": "test"}).dropna()
    assert (found == names).all()
    assert len(found) == len(names)

    log["ts"] = np.random.default_rng(1).permutation(len(log))
    _, dataset = ingest(log, split="leave_last_out")
    newest = log.sort_values("ts").groupby("user")["id"].agg(lambda ids: list(ids)[-2:])
    found = read_parts(dataset)["part"]
    assert set(found[found == "test"].index) == {ids[1] for ids in newest}
    assert set(found[found == "valid"].index) == {ids[0] for ids in newest}


def past_clicks(log, row, column):
    past = log[(log["user"] == row.user) & (log["ts"] < row.ts) & (log["y"] == 1)]
    return past.sort_values(["ts", column])[column].to_numpy()


def test_encoded_rows_are_what_pandas_computes(ingest):
    log = make_log()
    _, dataset = ingest(log, features=FEATURES)
    found = read_parts(dataset)
    log = log.set_index("id", drop=False)
    train = log[found["part"] == "train"]

    counts = train["item"].value_counts()
    known = sorted(counts[counts >= 3].index, key=lambda item: (-counts[item], item))
    ids = {item: 3 + i for i, item in enumerate(known)}
    assert vocabulary(dataset, "item")["value"].to_pylist() == known
    assert (found["item"] == log["item"].map(ids).fillna(2)).all()

    price = np.log1p(train["price"])
    mean, std = price.mean(), price.std(ddof=0)
    expected = ((np.log1p(log["price"]) - mean) / std).fillna(0)
    np.testing.assert_allclose(found["price"], expected, rtol=1e-5, atol=1e-6)
    assert (found["price_missing"] == log["price"].isna()).all()

    ages = np.where(log["age"].isna(), 1, 2 + np.searchsorted([18, 30], log["age"], "right"))
    assert (found["age"] == ages).all()
    assert (found["hour"] == 2 + log["ts"] // 3600 % 24).all()

    tag_ids = {tag: 3 + i for i, tag in enumerate(vocabulary(dataset, "tags")["value"].to_pylist())}
    for row in log.itertuples():
        tags = [tag_ids[tag] for tag in row.tags.split("|") if tag][:2]
        assert list(found["tags"][row.id]) == tags
        clicks = [ids.get(item, 2) for item in past_clicks(log, row, "item")][-3:]
        assert list(found["clicks_item"][row.id]) == clicks
    assert (found["label"] == log["y"]).all()
    assert (found["weight"] == 1).all()
    assert (found["group"].astype(int) == log["user"]).all()
    assert sorted(found["row_id"]) == list(range(len(log)))


def test_quoted_empty_numbers_and_nulls_give_the_same_tensors(ingest, tmp_path):
    """ING-01: the same rows quoted, unquoted and as JSON."""
    rows = [(1, 2, 3, "train"), (0, None, 6, "train"), (1, 4, 3, "valid"), (0, 5, 3, "valid"),
            (1, 2, 3, "test")]  # fmt: skip
    names = ("label", "two", "three", "part")
    texts = [[("" if v is None else str(v)) for v in row] for row in rows]
    files = {
        "quoted.csv": "\n".join(",".join(f'"{v}"' for v in row) for row in [names, *texts]),
        "plain.csv": "\n".join(",".join(row) for row in [names, *texts]),
        "rows.jsonl": "\n".join(json.dumps(dict(zip(names, r, strict=True))) for r in rows),
    }
    features = {
        "two": {"kind": "numeric", "scale": "none", "missing_flag": True},
        "three": {"kind": "numeric", "scale": "none"},
    }
    contents = []
    for name, content in files.items():
        (tmp_path / name).write_text(content + "\n")
        _, dataset = ingest(
            files=str(tmp_path / name),
            features=features,
            label="label",
            split={"kind": "column", "column": "part"},
            time=None,
            entity=None,
            keys=None,
            model="lr",
        )
        train = pq.read_table(dataset / "train").sort_by("row_id").to_pydict()
        contents.append({part: pq.read_table(dataset / part).to_pydict() for part in PARTS})
        assert train["label"] == [1, 0]
        assert train["two"] == [2.0, 2.0]  # the mean fills the gap
        assert train["two_missing"] == [0.0, 1.0]
        assert train["three"] == [3.0, 6.0]
        profile = json.loads((dataset / "profile.json").read_text())["columns"]
        two = next(column for column in profile if column["feature"] == "two")
        assert (two["missing"], two["mean"], two["coverage"]) == (1, 2.0, 0.5)
    assert contents[0] == contents[1] == contents[2]


def test_rare_values_and_nulls_are_counted(ingest):
    """FEA-06: the training rows are those of the case."""
    brands = ["Coby"] * 5 + [None] * 5 + ["Cooler"] * 2 + ["Asus"] * 3
    log = pd.DataFrame({"brand": brands, "full": "v", "y": [0, 1, 0] * 5, "part": "train"})
    others = log[:4].assign(part=["valid"] * 2 + ["test"] * 2)
    features = {"brand": {"kind": "categorical", "min_count": 3}, "full": {"kind": "categorical"}}
    _, dataset = ingest(
        pd.concat([log, others]),
        features=features,
        split={"kind": "column", "column": "part"},
        **dict.fromkeys(["time", "entity", "keys"]),
    )
    columns = json.loads((dataset / "profile.json").read_text())["columns"]
    brand, full = columns
    assert vocabulary(dataset, "brand").to_pydict() == {"value": ["Coby", "Asus"], "count": [5, 3]}
    assert (brand["missing"], brand["unknown"], brand["rows"]) == (5, 2, 15)
    assert (brand["rare_values"], brand["rare_rows"], brand["distinct"]) == (1, 2, 3)
    assert (full["missing"], full["unknown"], full["coverage"]) == (0, 0, 1.0)


def test_vocabularies_do_not_depend_on_order_threads_or_hash_seed(ingest, tmp_path):
    """FEA-07, with the file order of the config swapped and one or two threads."""
    log = make_log()
    log[:300].to_csv(tmp_path / "1.csv", index=False)
    log[300:].to_csv(tmp_path / "2.csv", index=False)
    files = [str(tmp_path / "1.csv"), str(tmp_path / "2.csv")]
    _, dataset = ingest(files=files, features=FEATURES, overrides=["engine.threads=1"])
    first = digest(dataset)
    shutil.rmtree(dataset)
    _, dataset = ingest(files=files[::-1], features=FEATURES, overrides=["engine.threads=2"])
    assert digest(dataset) == first
    _, dataset = ingest(log.sample(frac=1, random_state=2), features=FEATURES)
    for table in ("item", "tags"):
        name = f"features/vocabularies/{table}.parquet"
        assert digest(dataset)[name] == first[name]


def test_changes_rebuild_what_depends_on_them(ingest, tmp_path):
    """BAT-03: one label changed, size and time kept; a count; a comment."""
    log = make_log()
    _, dataset = ingest(log)
    assert ingest.events["dataset"]["status"] == "done"
    first = json.loads((dataset / "stage.json").read_text())

    path = tmp_path / "log.csv"
    before = path.stat()
    lines = path.read_text().splitlines()
    lines[301] = lines[301][:-1] + str(1 - int(lines[301][-1]))
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    _, dataset = ingest()
    assert ingest.events["dataset"]["status"] == "done"
    second = json.loads((dataset / "stage.json").read_text())
    assert second["facts"]["data_fingerprint"] != first["facts"]["data_fingerprint"]
    assert second["facts"]["positives"] != first["facts"]["positives"]

    config = tmp_path / "config.yaml"
    config.write_text("# a comment\n" + config.read_text() + "\n# another\n")
    progress = Silent()
    run(config, tmp_path / "runs", until="ingest", progress=progress)
    assert dict(progress.events)["dataset"]["status"] == "up to date"
    ingest(overrides=["features.item.min_count=9"])
    assert ingest.events["dataset"]["status"] == "done"
    for harmless in ("train.epochs=9", "model.embedding_dim=3", "evaluate.bins=7"):
        ingest(overrides=["features.item.min_count=9", harmless])
        assert ingest.events["dataset"]["status"] == "up to date", harmless


def test_moving_files_rebuilds_nothing(ingest, tmp_path):
    log = make_log()
    ingest(log)
    os.rename(tmp_path / "log.csv", tmp_path / "moved.csv")
    ingest(files=str(tmp_path / "moved.csv"))
    assert ingest.events["dataset"]["status"] == "up to date"


def test_files_sorted_by_label_are_mixed(ingest, tmp_path):
    """TRN-07: every run of 500 training rows has about the share of clicks of the whole."""
    log = make_log(20_000)
    log["y"] = (np.arange(20_000) >= 18_000).astype(int)
    for i in range(10):
        log[i * 2000 : (i + 1) * 2000].to_csv(tmp_path / f"{i}.csv", index=False)
    features = {"item": {"kind": "categorical"}}
    _, dataset = ingest(
        files=str(tmp_path / "?.csv"), features=features, split="hash", model="lr", entity=None
    )
    labels = pq.read_table(dataset / "train")["label"].to_numpy()
    means = [labels[i : i + 500].mean() for i in range(0, len(labels) - 500, 500)]
    assert 0.02 < min(means) <= max(means) < 0.25
    rows = {part: set(pq.read_table(dataset / part)["row_id"].to_pylist()) for part in PARTS}
    assert not rows["train"] & rows["valid"]
    assert len(set.union(*rows.values())) == 20_000


def test_row_groups_are_small_enough_to_stream(ingest):
    _, dataset = ingest(make_log(), features=FEATURES)
    metadata = pq.ParquetFile(dataset / "train" / "part-0.parquet").metadata
    assert metadata.row_group(0).column(0).compression == "ZSTD"
    schema = pq.read_schema(dataset / "train" / "part-0.parquet")
    types = {"item": "int32", "price": "float", "label": "int8", "weight": "float",
             "row_id": "int64", "clicks_length": "int32"}  # fmt: skip
    assert {name: str(schema.field(name).type) for name in types} == types
    assert str(schema.field("clicks_item").type.value_type) == "int32"


def test_label_rules(ingest):
    log = make_log()
    log["stars"] = np.random.default_rng(9).integers(1, 6, len(log))
    _, dataset = ingest(log, label={"column": "stars", "positive": ">= 4"})
    assert (read_parts(dataset)["label"] == (log["stars"] >= 4)).all()
    _, dataset = ingest(label={"column": "stars", "positive": [1, 5]})
    assert (read_parts(dataset)["label"] == log["stars"].isin([1, 5])).all()
    log["y"] = log["y"] * 2 - 1
    with pytest.raises(InputRejected, match=r"expected 0 or 1 .*label\.positive"):
        ingest(log)
    log["y"] = log["y"].map({-1: "False", 1: "true"})
    _, dataset = ingest(log)
    assert (read_parts(dataset)["label"] == (log["y"] == "true")).all()


def test_wide_configs_do_not_exhaust_the_stack(ingest):
    """Criteo has 26 categorical columns."""
    log = make_log(60)
    wide = pd.DataFrame({f"c{i}": log["item"] + str(i) for i in range(28)})
    features = {name: {"kind": "categorical"} for name in wide}
    result, _ = ingest(pd.concat([log, wide], axis=1), features=features, split="hash")
    assert sum(result["rows"].values()) == 60


def test_moments_do_not_depend_on_the_zone_of_the_machine(tmp_path):
    with open_engine(EngineConfig(), tmp_path / "engine") as connection:
        cursor = connection.con.cursor()
        assert cursor.sql("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]
    assert not (tmp_path / "engine").exists()
