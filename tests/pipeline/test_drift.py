from pathlib import Path

import pytest

from pipeline.config import DriftConfig
from pipeline.drift import check_drift
from pipeline.errors import DriftDetected

PROFILE = Path("/runs/small/main/dataset/profile.json")


def profile(unknown, missing, missing_train=0.1):
    column = {
        "feature": "item",
        "train": {"unknown": 0.0, "missing": missing_train},
        "test": {"unknown": unknown, "missing": missing},
    }
    return {"columns": [column, {"feature": "price", "mean": 3.0}]}


def test_nothing_is_checked_without_limits():
    check_drift(DriftConfig(), profile(1.0, 1.0), PROFILE)


def test_unknown_values_beyond_the_limit_are_named():
    limits = DriftConfig(max_unknown=0.3)
    check_drift(limits, profile(0.3, 0.0), PROFILE)
    with pytest.raises(
        DriftDetected, match=r"item: 31\.0% of the test rows.*allows 30\.0%"
    ) as caught:
        check_drift(limits, profile(0.31, 0.0), PROFILE)
    assert caught.value.exit_code == 5
    last = (
        "nothing is trained or published; the numbers are in /runs/small/main/dataset/profile.json"
    )
    assert str(caught.value).splitlines()[-1] == last


def test_missing_values_count_by_their_rise():
    limits = DriftConfig(max_missing_rise=0.2)
    check_drift(limits, profile(0.0, 0.3), PROFILE)
    with pytest.raises(DriftDetected, match=r"missing in 31\.0% of the test rows, 10\.0%"):
        check_drift(limits, profile(0.0, 0.31), PROFILE)
