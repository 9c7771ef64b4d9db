# SPDX-License-Identifier: Apache-2.0
import pytest
from ruamel.yaml import YAML

from pipeline.workflow import run
from tests.conftest import Silent
from tests.pipeline.small_log import FEATURES


@pytest.fixture
def ingest(tmp_path):
    """Return a function that ingests a log and gives back the result and the data set."""

    def ingest_log(log=None, files=None, **changes):
        if log is not None:
            log.to_csv(tmp_path / "log.csv", index=False)
        config = {
            "name": "small",
            "data": {"files": files or str(tmp_path / "log.csv")},
            "label": "y",
            "time": {"column": "ts", "unit": "s"},
            "entity": "user",
            "keys": ["id"],
            "features": {"item": FEATURES["item"]},
            "model": "base",
            "export": {"parity_rows": 20},
        }
        overrides = changes.pop("overrides", ())
        config = {k: v for k, v in (config | changes).items() if v is not None}
        path = tmp_path / "config.yaml"
        YAML(typ="safe", pure=True).dump(config, path)
        progress = Silent()
        result = run(path, tmp_path / "runs", overrides, until="ingest", progress=progress)
        ingest_log.events = dict(progress.events)
        return result, tmp_path / "runs" / "small" / "main" / "dataset"

    return ingest_log
