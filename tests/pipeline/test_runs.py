import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from pipeline.errors import ConfigError, MachineFailed, RunLocked
from pipeline.runs import (
    Run,
    build_stage,
    fingerprint_files,
    fingerprint_of,
    locked,
    read_stage,
    require_writable,
    write_json,
)
from tests.conftest import Silent


@pytest.fixture
def run(tmp_path):
    return Run(None, tmp_path / "run", Silent())


def build(text):
    def write(folder: Path):
        (folder / "out.txt").write_text(text)
        return {"text": text}

    return write


def test_a_finished_stage_is_not_built_again(run):
    stage = build_stage(run, run.train, "f1", build("one"))
    again = build_stage(run, run.train, "f1", lambda folder: pytest.fail("built again"))
    assert (stage.reused, again.reused) == (False, True)
    assert again.facts == {"text": "one"}


def test_another_fingerprint_replaces_the_stage_as_a_whole(run):
    build_stage(run, run.train, "f1", build("one"))
    (run.train / "left over").write_text("x")
    build_stage(run, run.train, "f2", build("two"))
    assert (run.train / "out.txt").read_text() == "two"
    assert sorted(p.name for p in run.train.iterdir()) == ["out.txt", "stage.json"]
    assert sorted(p.name for p in run.folder.iterdir()) == ["train"]


def test_a_failing_build_leaves_the_old_stage(run):
    build_stage(run, run.train, "f1", build("one"))

    def fail(folder):
        (folder / "out.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        build_stage(run, run.train, "f2", fail)
    assert (run.train / "out.txt").read_text() == "one"
    assert read_stage(run.train).fingerprint == "f1"


def test_an_interrupted_build_is_handed_what_it_left_only_for_the_same_fingerprint(run):
    seen = []

    def interrupted(folder):
        seen.append(sorted(p.name for p in folder.iterdir()))
        (folder / "checkpoint").write_text("x")
        raise KeyboardInterrupt

    for fingerprint in ("f1", "f1", "f2"):
        with pytest.raises(KeyboardInterrupt):
            build_stage(run, run.train, fingerprint, interrupted)
    assert seen == [["fingerprint"], ["checkpoint", "fingerprint"], ["fingerprint"]]


@pytest.mark.parametrize("stood", [False, True])
@pytest.mark.parametrize("moment", ["before", "between", "work"])
def test_a_stage_that_was_whole_when_a_kill_came_is_put_in_its_place(
    run, monkeypatch, stood, moment
):
    """Before it is moved, between the moves of the old stage and the new, in deleting `work`."""
    if stood:
        build_stage(run, run.train, "f1", build("one"))

    def write(folder):
        (folder / "work").mkdir()
        (folder / "work" / "checkpoint").write_text("x")
        return build("two")(folder)

    def kill(folder, aside):
        if moment == "between" and folder.exists():
            folder.rename(folder.with_name(".train.old"))
        if moment == "work":
            (aside / "work" / "checkpoint").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.runs._replace", kill)
        with pytest.raises(KeyboardInterrupt):
            build_stage(run, run.train, "f2", write)
    stage = build_stage(run, run.train, "f2", lambda folder: pytest.fail("built again"))
    assert stage.facts == {"text": "two"}
    assert sorted(p.name for p in run.train.iterdir()) == ["out.txt", "stage.json"]
    assert sorted(p.name for p in run.folder.iterdir()) == ["train"]


def test_a_whole_stage_that_is_damaged_before_it_has_its_place_is_built_again(run, monkeypatch):
    def kill(folder, aside):
        (aside / "out.txt").write_text("damaged")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("pipeline.runs._replace", kill)
        with pytest.raises(KeyboardInterrupt):
            build_stage(run, run.train, "f1", build("one"))
    build_stage(run, run.train, "f1", build("one"))
    assert (run.train / "out.txt").read_text() == "one"
    assert read_stage(run.train) is not None


def test_fingerprints_follow_content_and_order_not_names_or_times(tmp_path):
    for name, text in (("a", "1"), ("b", "2"), ("c", "1")):
        (tmp_path / name).write_text(text)
    one = fingerprint_files([tmp_path / "a", tmp_path / "b"])
    assert one == fingerprint_files([tmp_path / "c", tmp_path / "b"])
    assert one != fingerprint_files([tmp_path / "b", tmp_path / "a"])
    assert fingerprint_of({"a": 1}, "x") != fingerprint_of({"a": 2}, "x")


def _hold(folder, ready, done):
    with locked(Path(folder)):
        ready.set()
        done.wait(20)


@pytest.mark.parametrize("killed", [False, True])
def test_two_processes_never_hold_one_lock_and_a_killed_one_leaves_none(tmp_path, killed):
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready, done))
    holder.start()
    try:
        assert ready.wait(20)
        with pytest.raises(RunLocked, match=f"held by process {holder.pid}"), locked(tmp_path):
            pass
    finally:
        holder.kill() if killed else done.set()
        holder.join()
    with locked(tmp_path):
        assert (tmp_path / ".lock").read_text() == f"process {os.getpid()}"


def test_json_is_written_whole_and_without_nan(tmp_path):
    write_json(tmp_path / "a.json", {"x": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert (tmp_path / "a.json").read_text() == '{\n "x": 1\n}\n'


@pytest.mark.parametrize("damage", ["truncated", "deleted", "a byte", "the facts", "{", "[]"])
def test_a_damaged_stage_is_built_again(run, damage):
    build_stage(run, run.train, "f1", build("one"))
    if damage == "truncated":
        (run.train / "out.txt").write_text("")
    elif damage == "deleted":
        (run.train / "out.txt").unlink()
    elif damage == "a byte":  # of as many
        (run.train / "out.txt").write_text("two")
    elif damage == "the facts":
        path = run.train / "stage.json"
        path.write_text(path.read_text().replace('"text": "one"', '"text": "two"'))
    else:
        (run.train / "stage.json").write_text(damage)
    again = build_stage(run, run.train, "f1", build("one"))
    assert not again.reused
    assert (run.train / "out.txt").read_text() == "one"


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.EROFS, MachineFailed),
        (errno.ENOSPC, MachineFailed),
        (errno.EACCES, MachineFailed),
        (errno.ENOTDIR, ConfigError),
    ],
)
def test_a_folder_that_takes_no_files_is_the_machines_fault_or_the_configs(
    tmp_path, monkeypatch, number, expected
):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    message = f"--runs: {tmp_path}: cannot be written to: {os.strerror(number)}"
    with pytest.raises(expected, match=message) as refusal:
        require_writable(tmp_path, "--runs")
    assert refusal.value.exit_code == {MachineFailed: 74, ConfigError: 2}[expected]
