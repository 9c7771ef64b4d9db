# SPDX-License-Identifier: Apache-2.0
"""Drift: whether the newest rows still look like the rows that the model learns from."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config import DriftConfig
from pipeline.errors import DriftDetected


def check_drift(config: DriftConfig, profile: Mapping[str, Any], path: Path) -> None:
    """Compare the test part of a data profile with the config's limits.

    Args:
        config: Limits; those that are not given are not checked.
        profile: As `pipeline.profile.profile_dataset` returns it.
        path: Where it lies, for the message.

    Raises:
        DriftDetected: A feature is beyond a limit; all such features are listed.
    """
    found = [line for column in profile["columns"] for line in _beyond(config, column)]
    if found:
        # no report is written, as there is no model; the profile has the numbers
        last = f"nothing is trained or published; the numbers are in {path.resolve()}"
        raise DriftDetected("\n".join([*found, last]))


def _beyond(config: DriftConfig, column: Mapping[str, Any]) -> Iterator[str]:
    test, train = column.get("test") or {}, column.get("train") or {}
    unknown, missing = test.get("unknown"), test.get("missing")
    if config.max_unknown is not None and unknown is not None and unknown > config.max_unknown:
        yield (
            f"{column['feature']}: {unknown:.1%} of the test rows hold unknown values, "
            f"drift.max_unknown allows {config.max_unknown:.1%}"
        )
    if config.max_missing_rise is not None and missing is not None:
        rise = missing - (train.get("missing") or 0.0)
        if rise > config.max_missing_rise:
            yield (
                f"{column['feature']}: missing in {missing:.1%} of the test rows, "
                f"{train.get('missing') or 0.0:.1%} of the training rows; drift.max_missing_rise "
                f"allows a rise of {config.max_missing_rise:.1%}"
            )
