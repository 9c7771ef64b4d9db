# SPDX-License-Identifier: Apache-2.0
"""Planted histories: the past decides as documented, through the pipeline too."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.planted import way
from pipeline import planted_histories
from pipeline.planted import TASKS
from pipeline.planted_histories import HistoriesTask

HISTORIES = [name for name, task in TASKS.items() if issubclass(task, HistoriesTask)]
every_task = pytest.mark.parametrize("name", HISTORIES)


def log_of(task: HistoriesTask) -> list[dict]:
    """Rows of a log, with the truth as `probability`."""
    events, truth = (pa.concat_tables(part) for part in zip(*task.blocks(), strict=True))
    assert events["impression_id"].equals(truth["impression_id"])
    return events.append_column("probability", truth["probability"]).to_pylist()


def users_of(log: list[dict]) -> Iterator[tuple[list[dict], list[dict]]]:
    """The past of each user, and the candidates."""
    users: dict[str, list[dict]] = {}
    for row in log:
        users.setdefault(row["user_id"], []).append(row)
    for rows in users.values():
        past = [row for row in rows if row["part"] == "past"]
        yield past, [row for row in rows if row["part"] != "past"]


def speaks_for(name: str, past: list[dict], candidate: dict) -> bool:
    """What the task documents, in the plainest words."""
    match name:
        case "interest":
            return candidate["category"] in {event["category"] for event in past}
        case "key_value":
            (event,) = [event for event in past if event["item_id"] == candidate["item_id"]]
            return event["answer"] == "a00001"
        case "order":
            (place,) = [
                i for i, event in enumerate(past) if event["category"] == candidate["category"]
            ]
            assert {event["category"] for event in past} == {f"c{i:05d}" for i in range(12)}
            return place >= 6
        case "drift":
            like = [event for event in past if event["category"] == candidate["category"]]
            good = [int(event["item_id"][1:]) % 4 < 2 for event in like]
            assert sorted(good) == [False, True]
            return good[-1]
        case "two_hop":
            facts = {event["item_id"]: event for event in past}
            answers = [event["answer"] for event in past if event["answer"]]
            assert sorted(answers) == ["a00000"] * 2 + ["a00001"] * 2
            return facts[facts[candidate["item_id"]]["link"]]["answer"] == "a00001"
        case "long":
            assert candidate["category"] not in {event["category"] for event in past[-500:]}
            return candidate["category"] in {event["category"] for event in past[:50]}
    raise ValueError(name)


@every_task
def test_the_past_decides_as_documented(name):
    task = TASKS[name](impressions=400)
    likely, unlikely = 1 / (1 + np.exp(-2.5)), 1 / (1 + np.exp(2.5))
    seen = []
    for past, candidates in users_of(log_of(task)):
        assert len(past) == task.events
        for candidate in candidates:
            seen.append(speaks_for(name, past, candidate))
            expected = likely if seen[-1] else unlikely
            assert candidate["probability"] == pytest.approx(expected)
    assert len(seen) == 400
    assert 0.4 < np.mean(seen) < 0.6


@every_task
def test_past_events_come_first_and_are_no_impressions(name):
    log = log_of(TASKS[name](impressions=400))
    parts = {"train": 0, "valid": 0, "test": 0}
    for past, candidates in users_of(log):
        assert [event["probability"] for event in past] == [None] * len(past)
        assert sum(event["click"] for event in past) == 0
        times = [event["time"] for event in past]
        assert times == sorted(set(times))
        assert {row["time"] > times[-1] for row in candidates} == {True}
        (part,) = {row["part"] for row in candidates}
        parts[part] += len(candidates)
    assert min(parts.values()) > 0
    clicks = [row["click"] for row in log if row["probability"] is not None]
    expected = [row["probability"] for row in log if row["probability"] is not None]
    error = np.sqrt(np.sum(np.multiply(expected, np.subtract(1, expected)))) / len(clicks)
    assert abs(np.mean(clicks) - np.mean(expected)) < 4 * error


@every_task
def test_impressions_are_as_many_as_asked_for(name, monkeypatch):
    monkeypatch.setattr(planted_histories, "BLOCK_ROWS", 1_500)
    for impressions in (1, 203):
        log = log_of(TASKS[name](impressions=impressions))
        assert sum(row["part"] != "past" for row in log) == impressions
        assert [row["impression_id"] for row in log] == list(range(len(log)))
        assert len({row["user_id"] for row in log}) == -(-impressions // TASKS[name]().candidates)


@pytest.mark.slow
def test_din_learns_interest_and_base_sees_a_blur(tmp_path):
    assert way(tmp_path, "interest", None, 40_000) > 0.95
    assert way(tmp_path, "interest", TASKS["interest"].foil, 40_000) < 0.7


@pytest.mark.slow
def test_kvmemnn_learns_key_value_and_base_does_not(tmp_path):
    assert way(tmp_path, "key_value", None, 40_000) > 0.95
    assert abs(way(tmp_path, "key_value", TASKS["key_value"].foil, 40_000)) < 0.06


@pytest.mark.slow
def test_transformer_learns_order_and_din_cannot(tmp_path):
    assert way(tmp_path, "order", None, 20_000) > 0.95
    assert abs(way(tmp_path, "order", TASKS["order"].foil, 20_000)) < 0.08


@pytest.mark.slow
def test_dien_learns_drift_and_din_cannot(tmp_path):
    assert way(tmp_path, "drift", None, 30_000) > 0.95
    assert abs(way(tmp_path, "drift", TASKS["drift"].foil, 30_000)) < 0.08


@pytest.mark.slow
def test_kvmemnn_finds_what_lies_500_events_back_by_its_key(tmp_path):
    assert way(tmp_path, "long", None, 8_000) > 0.9
    assert abs(way(tmp_path, "long", TASKS["long"].foil, 8_000)) < 0.1


@pytest.mark.slow
def test_memn2n_learns_two_hops_with_both_its_encodings(tmp_path):
    learner = "{kind: memn2n, initial_stddev: 0.5, activation: prelu}"
    sets = ["train.epochs=12", "train.patience=48"]
    assert way(tmp_path, "two_hop", learner, 40_000, sets) > 0.9
    one_hop = "{kind: memn2n, initial_stddev: 0.5, activation: prelu, num_hops: 1}"
    assert way(tmp_path, "two_hop", one_hop, 40_000, sets) < 0.7
