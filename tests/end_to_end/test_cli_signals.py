"""Runs that are ended from outside."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pipeline.checkpoint import load_arrays
from tests.end_to_end.command_line import clickloom, start

pytestmark = pytest.mark.end_to_end


def wait_for(condition, process, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_sigterm_writes_a_checkpoint_ends_with_code_143_and_the_run_continues(config, runs):
    process = start("train", config, "--runs", runs)
    wait_for(lambda: list(runs.rglob("step-*/state.json")), process)
    assert (runs / "small" / ".lock").read_text() == f"process {process.pid}"
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    code, _, err = clickloom("train", config, "--runs", runs)
    assert code == 0
    assert '"event": "resumed"' in err


def test_sigterm_in_another_stage_ends_at_once_with_code_143_and_says_what_a_rerun_does(
    config, tmp_path
):
    process = start("run", config, "--runs", tmp_path / "runs")
    wait_for(lambda: list(tmp_path.rglob("main/config.yaml")), process)  # ingest follows
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, "")
    assert err.endswith(
        "clickloom: terminated; the same command runs the interrupted stage again\n"
    )


TERMINATED = """
import os, signal, threading
from pipeline.termination import watch_for_termination
watch_for_termination()
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
os.kill(os.getpid(), signal.SIGTERM)
threading.Event().wait(30)
"""


def test_sigterm_is_answered_while_stderr_leads_nowhere():
    """As it does while TensorFlow is imported, which takes seconds."""
    done = subprocess.run(
        [sys.executable, "-c", TERMINATED], capture_output=True, text=True, check=False
    )
    assert done.returncode == 143
    assert done.stderr.startswith("clickloom: terminated; the same command runs")


def test_sigterm_ends_a_process_whose_stderr_nobody_reads():
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([sys.executable, "-c", TERMINATED], stderr=write_end, check=False)
    os.close(write_end)
    assert done.returncode == 143


@pytest.mark.slow
def test_killed_at_random_moments_a_run_ends_with_the_same_weights(config, tmp_path):
    # BAT-01
    whole = tmp_path / "whole"
    code, _, err = clickloom("run", config, "--runs", whole)
    assert code == 0, err
    randomly = random.Random(5)  # noqa: S311 - moments to kill at
    killed = 0
    for _ in range(12):
        process = start("run", config, "--runs", tmp_path / "runs")
        try:
            process.wait(timeout=randomly.uniform(3, 12))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.communicate()
        if process.returncode == 0:
            break
    assert killed
    code, _, err = clickloom("run", config, "--runs", tmp_path / "runs")
    assert code == 0, err
    expected, _ = load_arrays(whole / "small" / "main" / "train" / "best")
    found, _ = load_arrays(tmp_path / "runs" / "small" / "main" / "train" / "best")
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
