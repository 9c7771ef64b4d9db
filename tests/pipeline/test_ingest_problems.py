# SPDX-License-Identifier: Apache-2.0
"""What ingest refuses, sets aside and warns of."""

import json

import numpy as np
import pytest

from pipeline.errors import ConfigError, InputRejected
from tests.pipeline.small_log import FEATURES, PARTS, make_log, read_parts


def test_weights_are_read_and_negative_ones_are_malformed(ingest):
    log = make_log()
    log["w"] = np.random.default_rng(0).random(len(log)).astype(np.float32)
    _, dataset = ingest(log, weight="w")
    np.testing.assert_allclose(read_parts(dataset)["weight"], log["w"], rtol=1e-6)
    log.loc[7, "w"] = -1
    with pytest.raises(InputRejected, match=r"line 9: column w: expected a number of 0 or more"):
        ingest(log, weight="w")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_whose_weights_are_all_0_is_refused(ingest, part):
    """Hashed, so that a part is known by its column: what weighs nothing has no metric."""
    log = make_log(300)
    log["part"] = np.resize(["train"] * 8 + ["valid", "test"], 300)
    log["weight"] = np.where(log["part"] == part, 0.0, 0.5)
    split = {"kind": "column", "column": "part"}
    rows = {"train": 240, "valid": 30, "test": 30}[part]
    message = rf"weight: column 'weight' is 0 in all {rows} rows for {part},.*leave weight out"
    with pytest.raises(InputRejected, match=message) as refusal:
        ingest(log, weight="weight", split=split)
    assert refusal.value.exit_code == 3
    first = log.loc[log["part"].eq(part)].groupby("y").head(1).index  # one of each class
    log.loc[first, "weight"] = 1e-30
    ingest(log, weight="weight", split=split)
    log.loc[first[log.loc[first, "y"] == 1], "weight"] = 0
    if part == "test":
        ingest(log, weight="weight", split=split)
        return
    message = (
        rf"{part}: 1 rows of weight above 0 \({rows} in all\) with 0 positive labels.*'weight'"
    )
    with pytest.raises(InputRejected, match=message):
        ingest(log, weight="weight", split=split)


def test_quiet_disasters_are_refused(ingest, tmp_path):
    """BAT-06 (a) and (b), and validation rows of one class, as in TRN-02."""
    log = make_log()
    with pytest.raises(InputRejected, match=r"log\.csv: no rows; check that the partition"):
        ingest(log[:0])
    with pytest.raises(InputRejected, match=r"train: \d+ rows with 0 positive labels"):
        ingest(log.assign(y=0))
    one_class = log.assign(y=np.where(log["ts"] > log["ts"].quantile(0.75), 0, log["y"]))
    with pytest.raises(InputRejected, match=r"valid: .* rows with 0 positive labels.*both classes"):
        ingest(one_class)
    with pytest.raises(InputRejected, match="split: 600 rows have too few distinct times"):
        ingest(log.assign(ts=5))
    column = {"kind": "column", "column": "part"}
    with pytest.raises(InputRejected, match=r"split: no rows for valid; .* in none: 60"):
        ingest(log.assign(part=["train"] * 500 + ["test"] * 40 + ["x"] * 60), split=column)
    assert not (tmp_path / "runs" / "small" / "main" / "dataset").exists()


def test_malformed_rows_within_the_limit_are_set_aside_and_said(ingest, tmp_path):
    ingest(make_log())
    path = tmp_path / "log.csv"
    lines = path.read_text().splitlines()
    lines[5:7] = ["1,2", lines[6].rsplit(",", 1)[0] + ",maybe"]
    path.write_text("\n".join(lines) + "\n")
    result, dataset = ingest(overrides=["data.max_bad_rows=2"])
    assert sum(result["rows"].values()) == 598
    rejects = (dataset / "rejected" / "rejected.jsonl").read_text().splitlines()
    assert [json.loads(reject)["line"] for reject in rejects] == [6, 7]
    notes = json.loads((dataset / "profile.json").read_text())["notes"]
    assert "2 malformed rows were set aside in dataset/rejected" in notes
    with pytest.raises(InputRejected, match=r"2 malformed rows, data\.max_bad_rows allows 1"):
        ingest(overrides=["data.max_bad_rows=1"])


@pytest.mark.parametrize(
    ("start", "unit", "year"),
    [
        (1_790_000_000, "s", None),  # seconds of September 2026
        (1_790_000_000, "ms", 1970),
        (1_790_000_000, "us", 1970),
        (623_000_000, "s", 1989),  # of September 1989
    ],
)
def test_times_of_another_unit_than_told_are_warned_of(ingest, start, unit, year):
    log = make_log()
    log["ts"] += start
    _, dataset = ingest(log, time={"column": "ts", "unit": unit})
    warnings = json.loads((dataset / "profile.json").read_text())["warnings"]
    assert len(warnings) == (year is not None)
    if year:
        said = f"time: read with unit {unit}, the middle row of 'ts' lies in {year}; if that is"
        assert said in ingest.events["warning"]["message"] == warnings[0]


def test_warnings_of_files_reach_the_profile_and_the_log(ingest, tmp_path):
    log = make_log()
    log["ts"] += 1_790_000_000
    log[:400].to_csv(tmp_path / "1.csv", index=False)
    log[400:].drop(columns="age").to_csv(tmp_path / "2.csv", index=False)
    features = {"age": FEATURES["age"] | {"required": False}}
    _, dataset = ingest(files=str(tmp_path / "?.csv"), features=features)
    warnings = json.loads((dataset / "profile.json").read_text())["warnings"]
    assert len(warnings) == 1
    assert "2.csv: has no column 'age'" in ingest.events["warning"]["message"] == warnings[0]
    assert (read_parts(dataset)["age"][log["id"] >= 400] == 1).all()


def test_histories_and_lists_that_are_always_empty_are_warned_of(ingest):
    log = make_log()
    log["ts"] += 1_790_000_000
    log["tags"], log["action"] = "", "look"
    bought = FEATURES["clicks"] | {"events": {"action": ["buy"]}}
    features = {name: FEATURES[name] for name in ("item", "tags", "clicks")} | {"bought": bought}
    _, dataset = ingest(log, features=features)
    warnings = json.loads((dataset / "profile.json").read_text())["warnings"]
    empty = {warning.split(":")[0]: warning for warning in warnings}
    assert set(empty) == {"features.tags", "features.bought"}
    assert "in all 479 training rows" in empty["features.bought"]
    assert "`events:`" in empty["features.bought"]


def test_too_little_memory_is_said_with_the_key_to_change(ingest):
    with pytest.raises(ConfigError, match=r"engine\.memory is 5MB, which is not enough.*give it"):
        ingest(make_log(), overrides=["engine.memory=5MB"])
