# SPDX-License-Identifier: Apache-2.0
import errno
import os

import duckdb
import pytest
import tensorflow as tf

from pipeline.errors import machine_failure

FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, FULL, "a.parquet"),
        PermissionError(errno.EACCES, os.strerror(errno.EACCES), "a.parquet"),
        OSError("1428 requested and 968 written"),  # NumPy
        duckdb.IOException(f'IO Error: Could not write file "x.duckdb": {FULL}'),
        tf.errors.ResourceExhaustedError(None, None, f"saved_model.pb; {FULL}"),
        MemoryError(),
    ],
)
def test_what_the_machine_lacks_is_no_bug(error):
    failure = machine_failure(error)
    assert failure is not None
    assert failure.exit_code == 74
    assert "the same command continues" in str(failure)


def test_the_text_says_which_file():
    failure = machine_failure(OSError(errno.ENOSPC, FULL, "runs/a.parquet"))
    assert "runs/a.parquet" in str(failure)
    assert FULL in str(failure)
    assert "Cannot allocate memory" in str(machine_failure(MemoryError()))


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a"),
        FileNotFoundError(errno.ENOENT, "No such", FULL),  # a file of that name
        ValueError("3 columns requested and 2 found"),
    ],
)
def test_everything_else_is_a_bug(error):
    assert machine_failure(error) is None
