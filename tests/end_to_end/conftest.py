# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.conftest import copy_stages, write_config


@pytest.fixture
def config(small_log, tmp_path):
    """The small config with a longer training."""
    changes = {"data.files": str(small_log), "train.epochs": 12, "train.patience": 100}
    return write_config(tmp_path / "c.yaml", changes)


@pytest.fixture
def runs(small_run, tmp_path):
    """A folder of runs in which the config's data set is built."""
    _, result, _ = small_run
    copy_stages(result["run_dir"], tmp_path / "runs", "small", "dataset")
    return tmp_path / "runs"
