import numpy as np
import pytest

from pipeline.checkpoint import load_arrays, newest_whole, prune, save_arrays, step_folder

ARRAYS = {"packed": np.arange(6, dtype=np.float32).reshape(3, 2), "optimizer 0": np.array(7)}


def test_arrays_and_state_come_back_to_the_bit(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS, {"step": 3, "best_value": 0.1})
    arrays, state = load_arrays(tmp_path / "a")
    assert state == {"step": 3, "best_value": 0.1}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_a_flipped_bit_is_noticed_and_named(tmp_path):
    save_arrays(tmp_path / "a", ARRAYS, {})
    path = tmp_path / "a" / "0000.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"0000\.npy: checksum differs"):
        load_arrays(tmp_path / "a")


@pytest.mark.parametrize("text", ['{"arrays": {', "[]", "{}", None])
def test_a_state_that_is_cut_off_or_changed_is_noticed_and_named(tmp_path, text):
    save_arrays(tmp_path / "a", ARRAYS, {"step": 3})
    path = tmp_path / "a" / "state.json"
    path.write_text(path.read_text().replace('"step": 3', '"step": 2') if text is None else text)
    with pytest.raises(ValueError, match=r"state\.json: its checksum|Expecting"):
        load_arrays(tmp_path / "a")


@pytest.mark.parametrize("damage", ["truncated", "missing array", "missing state", "other state"])
def test_the_newest_whole_checkpoint_wins(tmp_path, damage):
    for step in (5, 10, 100):
        save_arrays(step_folder(tmp_path, step), ARRAYS, {"step": step})
    newest = step_folder(tmp_path, 100)
    if damage == "truncated":
        path = newest / "0000.npy"
        path.write_bytes(path.read_bytes()[:-3])
    elif damage == "missing array":
        (newest / "0001.npy").unlink()
    elif damage == "missing state":
        (newest / "state.json").unlink()
    else:
        (newest / "state.json").write_text('{"step": 100')
    warnings = []
    found = newest_whole(tmp_path, warnings.append)
    assert found is not None
    assert found[1] == {"step": 10}
    (warning,) = warnings
    assert "checkpoint step-000000000100 is deleted" in warning
    assert str(newest) in warning or "Expecting" in warning  # the file, or what JSON lacks
    assert not newest.exists()  # else pruning would keep it instead of a whole one


def test_a_checkpoint_without_what_it_needs_is_none(tmp_path):
    for step in (5, 10):
        save_arrays(step_folder(tmp_path, step), ARRAYS, {"best_step": step})
        save_arrays(tmp_path / f"best-{step}", ARRAYS, {})
    (tmp_path / "best-10" / "0000.npy").write_bytes(b"")
    warnings = []
    found = newest_whole(
        tmp_path, warnings.append, lambda state: tmp_path / f"best-{state['best_step']}"
    )
    assert found is not None
    assert "step-000000000010 is deleted, and what came after" in warnings[0]
    assert f"{tmp_path}/best-10/0000.npy: checksum differs" in warnings[0]
    assert found[1] == {"best_step": 5}


def test_what_an_interrupted_save_left_is_never_read(tmp_path):
    save_arrays(step_folder(tmp_path, 5), ARRAYS, {"step": 5})
    aside = tmp_path / f".{step_folder(tmp_path, 9).name}.partial"
    aside.mkdir()
    (aside / "0000.npy").write_bytes(b"half")
    found = newest_whole(tmp_path, pytest.fail)
    assert found is not None
    assert found[1]["step"] == 5


def test_no_checkpoint_is_none(tmp_path):
    assert newest_whole(tmp_path, pytest.fail) is None


def test_pruning_keeps_the_newest(tmp_path):
    for step in (9, 10, 11):
        save_arrays(step_folder(tmp_path, step), ARRAYS, {"step": step})
    prune(tmp_path, 2)
    assert sorted(path.name[-2:] for path in tmp_path.glob("step-*")) == ["10", "11"]
