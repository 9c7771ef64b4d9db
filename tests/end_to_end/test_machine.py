# SPDX-License-Identifier: Apache-2.0
import resource
import subprocess
import sys

import pytest

from tests.conftest import write_config

pytestmark = pytest.mark.end_to_end


def test_a_disk_that_takes_no_more_ends_with_code_74(small_log, tmp_path):
    """A limit on the size of files stands for a full disk: writing fails half-way as there."""
    config = write_config(tmp_path / "c.yaml", {"data.files": str(small_log)})
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "run", config, "--runs", tmp_path / "runs"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
    )
    assert done.returncode == 74, done.stderr
    assert "File too large" in done.stderr
    assert "bug" not in done.stderr
    assert done.stdout == ""
