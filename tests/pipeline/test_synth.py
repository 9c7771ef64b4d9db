# SPDX-License-Identifier: Apache-2.0
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from sklearn.metrics import log_loss, roc_auc_score

from pipeline import synth, synth_files
from pipeline.checks import validate_file

SMALL = synth.SynthConfig(impressions=1_000, users=50, items=60, categories=8, days=3)
MEDIUM = synth.SynthConfig(impressions=60_000, users=1_500)


@pytest.fixture(scope="module")
def log() -> dict[str, np.ndarray]:
    """Columns of the medium log, codes in place of names, with the truth as `probability`."""
    events, truth = (pa.concat_tables(part) for part in zip(*synth.generate(MEDIUM), strict=True))
    assert events["impression_id"].equals(truth["impression_id"])
    columns = {name: events[name].to_numpy() for name in events.column_names}
    for name in ("user_id", "item_id", "category"):
        columns[name] = np.array([int(text[1:]) for text in columns[name]])
    return columns | {"probability": truth["probability"].to_numpy()}


@pytest.fixture(scope="module")
def liked(log) -> np.ndarray:
    interests = synth.draw_world(MEDIUM).interests
    return (interests[log["user_id"]] == log["category"][:, None]).any(axis=1)


def read_csv(path: Path) -> pa.Table:
    types = pa_csv.ConvertOptions(column_types=synth.EVENTS, strings_can_be_null=True)
    return pa_csv.read_csv(path, convert_options=types)


def file_bytes(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def assert_rate_is(clicks: np.ndarray, probability: np.ndarray) -> None:
    """The click rate is within 4 standard errors of a sum of independent Bernoulli draws."""
    error = np.sqrt((probability * (1 - probability)).sum()) / len(clicks)
    assert abs(clicks.mean() - probability.mean()) < 4 * error


def test_clicks_follow_the_planted_probability(log):
    order = np.argsort(log["probability"])
    for rows in np.array_split(order, 20):
        assert_rate_is(log["click"][rows], log["probability"][rows])


@pytest.mark.parametrize("column", ["device", "position", "category"])
def test_clicks_follow_the_planted_probability_for_each_value(log, column):
    for value in np.unique(log[column]):
        rows = log[column] == value
        assert_rate_is(log["click"][rows], log["probability"][rows])


def test_probability_is_the_documented_equation(log, liked):
    world = synth.draw_world(MEDIUM)
    peak = np.select([log["device"] == "phone", log["device"] == "desktop"], [21, 11], default=18)
    hour = log["time"] % 86_400 / 3600
    dearness = np.log(np.nan_to_num(log["price"], nan=20.0) / 20.0)
    logits = -3.0 + world.quality[log["item_id"]] + 2.6 * liked - 0.3 * dearness
    logits += 0.4 * np.cos(2 * np.pi * (hour - peak) / 24) - 0.08 * (log["position"] - 1)
    np.testing.assert_allclose(log["probability"], 1 / (1 + np.exp(-logits)), rtol=1e-12)


def test_users_click_more_inside_their_interests(log, liked):
    inside, outside = log["click"][liked], log["click"][~liked]
    assert inside.mean() > 4 * outside.mean()
    # 2 to 4 interests of 20 categories: half the impressions aimed, 3/20 of the rest by chance
    assert liked.mean() == pytest.approx(0.5 + 0.5 * 3 / 20, abs=0.02)


def test_past_clicks_of_a_user_reveal_the_interests(log):
    """Repeating the category of an earlier click, against a user's first sight of a category."""
    seen: dict[tuple[int, int], int] = {}
    repeated = np.empty(len(log["click"]), dtype=bool)
    for row, key in enumerate(zip(log["user_id"], log["category"], strict=True)):
        repeated[row] = seen.get(key, 0) > 0
        seen[key] = seen.get(key, 0) + log["click"][row]
    assert log["click"][repeated].mean() > 2 * log["click"][~repeated].mean()


def test_every_user_has_as_many_distinct_interests_as_configured():
    interests = synth.draw_world(MEDIUM).interests
    counts = [len(set(row[row >= 0])) for row in interests]
    np.testing.assert_array_equal(counts, (interests >= 0).sum(axis=1))
    assert set(counts) == {2, 3, 4}
    assert interests.max() < MEDIUM.categories


def test_log_does_not_change_the_world():
    longer = SMALL.model_copy(update={"impressions": 2_000})
    for one, other in zip(synth.draw_world(SMALL), synth.draw_world(longer), strict=True):
        np.testing.assert_array_equal(one, other)


def test_time_ascends_over_the_configured_days(log):
    start = np.datetime64(MEDIUM.start, "s").astype(int)
    days, seconds = np.divmod(log["time"] - start, 86_400)
    assert (np.diff(log["time"]) >= 0).all()
    np.testing.assert_array_equal(np.unique(days), np.arange(MEDIUM.days))
    hours = np.bincount(seconds // 3600, minlength=24)
    assert hours[19:21].min() > 3 * hours[7:9].max()  # 20:00 UTC is the busiest, 8:00 the calmest


def test_ids_ascend_across_blocks(monkeypatch):
    monkeypatch.setattr(synth, "BLOCK_ROWS", 300)
    blocks = [events for events, _ in synth.generate(SMALL)]
    assert [len(block) for block in blocks] == [300, 300, 300, 100]
    ids = pa.concat_tables(blocks)["impression_id"].to_numpy()
    np.testing.assert_array_equal(ids, np.arange(1_000))


def test_missing_shares_are_as_configured(log):
    rows = len(log["click"])
    missing = {"price": np.isnan(log["price"]), "city": np.equal(log["city"], None)}
    for name, share in [("price", MEDIUM.missing_price), ("city", MEDIUM.missing_city)]:
        error = np.sqrt(share * (1 - share) / rows)
        assert abs(missing[name].mean() - share) < 4 * error


def test_uneven_shelves_show_only_existing_items():
    uneven = SMALL.model_copy(update={"items": 61})
    for events, _ in synth.generate(uneven):
        shown = {int(item[1:]) for item in events["item_id"].to_pylist()}
        assert shown <= set(range(61))
        assert 60 in shown


@pytest.mark.parametrize("event_format", ["csv", "csv.gz", "jsonl", "parquet"])
def test_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path, event_format):
    other_seed = SMALL.model_copy(update={"seed": 8})
    for config, name in [(SMALL, "one"), (SMALL, "two"), (other_seed, "other")]:
        synth.write(config, tmp_path / name, event_format)
    one, two, other = (file_bytes(tmp_path / name) for name in ("one", "two", "other"))
    for files in (one, two, other):
        files.pop("config.yaml")  # names the folder
    assert sorted(one) == [f"events.{event_format}", "truth.json", "truth.parquet"]
    assert one == two
    assert all(one[name] != other[name] for name in one)


def test_formats_hold_the_same_rows(tmp_path):
    for event_format in ("csv", "csv.gz", "jsonl", "parquet"):
        synth.write(SMALL, tmp_path, event_format)
    table = pq.read_table(tmp_path / "events.parquet")
    lines = (tmp_path / "events.jsonl").read_text(encoding="utf-8").splitlines()
    assert table.schema == synth.EVENTS
    assert table["price"].null_count > 0
    assert [json.loads(line) for line in lines] == table.to_pylist()
    assert read_csv(tmp_path / "events.csv").equals(table)
    assert read_csv(tmp_path / "events.csv.gz").equals(table)


def test_csv_is_plain_text_with_empty_fields_for_missing_values(tmp_path):
    config = SMALL.model_copy(update={"missing_price": 1.0, "missing_city": 1.0})
    synth.write(config, tmp_path)
    header, first, *_ = (tmp_path / "events.csv").read_text(encoding="utf-8").splitlines()
    assert header.split(",") == synth.EVENTS.names
    assert re.fullmatch(r"0,\d{10},u\d{5},i\d{5},c\d{5},,[a-z]+,,[1-8],[01]", first)


def test_result_is_what_scikit_learn_computes_from_the_files(tmp_path):
    result = synth.write(SMALL, tmp_path, "csv")
    clicks = read_csv(tmp_path / result.events)["click"].to_numpy()
    probability = pq.read_table(tmp_path / "truth.parquet")["probability"].to_numpy()
    assert result.impressions == len(clicks) == SMALL.impressions
    assert result.click_rate == np.mean(clicks)
    assert result.best_auc == roc_auc_score(clicks, probability)
    assert result.best_log_loss == log_loss(clicks, probability)
    text = (tmp_path / "truth.json").read_text(encoding="utf-8")
    assert synth.SynthResult.model_validate_json(text) == result
    assert (json.loads(text)["seed"], result.config) == (SMALL.seed, SMALL)


def test_default_effects_leave_a_hard_but_learnable_log(log):
    assert 0.15 < log["click"].mean() < 0.25
    assert 0.78 < roc_auc_score(log["click"], log["probability"]) < 0.82


def test_best_possible_scores_the_rows_asked_for(tmp_path):
    synth.write(SMALL, tmp_path, "parquet")
    clicks = pq.read_table(tmp_path / "events.parquet")["click"].to_numpy()
    probability = pq.read_table(tmp_path / "truth.parquet")["probability"].to_numpy()
    ids = np.random.default_rng(0).permutation(1_000)[:300]
    best = synth.best_possible(tmp_path / "truth.parquet", ids, clicks[ids])
    assert best.auc == roc_auc_score(clicks[ids], probability[ids])
    assert best.log_loss == log_loss(clicks[ids], probability[ids])


def test_best_auc_of_one_class_is_undefined(tmp_path):
    pq.write_table(
        pa.table({"impression_id": [0, 1], "probability": [0.5, 0.25]}), tmp_path / "truth.parquet"
    )
    best = synth.best_possible(tmp_path / "truth.parquet", [0, 1], [0, 0])
    assert best.auc is None
    assert best.log_loss == pytest.approx(-(np.log(0.5) + np.log(0.75)) / 2)


@pytest.mark.parametrize(
    ("ids", "labels", "message"),
    [
        ([0, 1_000], [0, 1], r"impression_id 1000 is not in .*truth\.parquet"),
        ([-1, 0], [0, 1], "impression_id -1 is not in"),
        ([0, 1], [0], r"impression_ids are \(2,\) and labels \(1,\)"),
        ([], [], r"impression_ids are \(0,\)"),
    ],
)
def test_best_possible_refuses_rows_it_does_not_know(tmp_path, ids, labels, message):
    synth.write(SMALL, tmp_path)
    with pytest.raises(ValueError, match=message):
        synth.best_possible(tmp_path / "truth.parquet", ids, labels)


@pytest.mark.parametrize("event_format", ["csv", "parquet"])
def test_the_config_beside_the_log_fits_it(tmp_path, event_format, monkeypatch):
    folder = tmp_path / 'a "folder"'
    result = synth.write(SMALL, folder, event_format)
    monkeypatch.chdir("/")  # the config works from anywhere
    assert validate_file(folder / "config.yaml") == ([], [])
    assert f"{result.best_auc:.4f}" in (folder / "config.yaml").read_text(encoding="utf-8")


def test_failed_write_leaves_the_old_files(tmp_path, monkeypatch):
    synth.write(SMALL, tmp_path)
    before = file_bytes(tmp_path)
    monkeypatch.setattr(synth_files, "best_possible", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        synth.write(SMALL.model_copy(update={"seed": 8}), tmp_path)
    assert file_bytes(tmp_path) == before


def test_unknown_format_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"event format is 'xml'; expected one of csv, csv\.gz"):
        synth.write(SMALL, tmp_path / "absent", "xml")
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(
    "sizes", [{"min_interests": 5}, {"max_interests": 21}, {"items": 19}], ids=str
)
def test_sizes_that_do_not_fit_are_refused(sizes):
    with pytest.raises(ValidationError, match="min_interests <= max_interests <= categories"):
        synth.SynthConfig(**sizes)
