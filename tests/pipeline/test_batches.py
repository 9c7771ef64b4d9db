import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.schema import Categorical, CategoricalList, Channel, FeatureSchema, History, Table
from models.registry import MODELS, build
from pipeline.batches import (
    add_places,
    compact,
    count_rows,
    pad_batch,
    pad_lists,
    prefetch,
    read_batches,
    trim_lists,
)

SCHEMA = FeatureSchema(
    tables=(Table(name="c", rows=1000),),
    features=(
        Categorical(name="c", table="c"),
        CategoricalList(name="tags", table="c", max_items=3, weighted=True),
        History(name="h", channels=(Channel(name="h_c", table="c", target="c"),), max_items=4),
    ),
)


@pytest.fixture
def folder(tmp_path):
    """Two files of 70 and 30 rows in row groups of 16; row i has c = i and lists of i mod 4."""
    for name, rows in (("part-0", range(70)), ("part-1", range(70, 100))):
        lists = [list(range(1, i % 4 + 1)) for i in rows]
        table = pa.table(
            {
                "c": pa.array(rows, pa.int32()),
                "tags": pa.array([v[:3] for v in lists], pa.list_(pa.int32())),
                "tags_weight": pa.array([[0.5] * len(v) for v in lists], pa.list_(pa.float32())),
                "tags_length": pa.array([len(v) for v in lists], pa.int32()),
                "h_c": pa.array(lists, pa.list_(pa.int32())),
                "h_length": pa.array([len(v) for v in lists], pa.int32()),
                "label": pa.array([i % 2 for i in rows], pa.int8()),
                "weight": pa.array([1.0] * len(rows), pa.float32()),
            }
        )
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=16)
    return tmp_path


def order(folder, **options):
    return [batch["c"].tolist() for batch in read_batches(folder, SCHEMA, 24, **options)]


def test_files_are_read_in_order_and_the_last_batch_holds_what_is_left(folder):
    batches = order(folder)
    assert [len(batch) for batch in batches] == [24, 24, 24, 24, 4]
    assert sum(batches, []) == list(range(100))
    assert count_rows(folder) == 100


def test_shuffling_keeps_every_row_once_and_depends_on_the_seed_alone(folder):
    first, again, other = (order(folder, shuffle_seed=(7, epoch)) for epoch in (0, 0, 1))
    assert first == again
    assert first != other
    assert sorted(sum(first, [])) == list(range(100))
    assert sum(first, []) != list(range(100))


@pytest.mark.parametrize("start", range(6))
@pytest.mark.parametrize("seed", [None, (7, 3)])
def test_starting_later_gives_the_same_batches(folder, start, seed):
    assert order(folder, shuffle_seed=seed, start=start) == order(folder, shuffle_seed=seed)[start:]


def test_rows_stay_together(folder):
    for batch in read_batches(folder, SCHEMA, 24, shuffle_seed=(1, 1)):
        for i, c in enumerate(batch["c"]):
            length = c % 4
            assert batch["label"][i] == c % 2
            assert batch["h_length"][i] == length
            assert batch["h_c"][i].tolist() == [*range(1, length + 1), *[0] * (4 - length)]
            weights = batch["tags_weight"][i]
            assert weights.tolist() == [0.5] * length + [0.0] * (3 - length)


def test_lists_are_padded_and_cut_on_the_right():
    lists = pa.array([[1, 2, 3], [], [4]], pa.list_(pa.int32()))
    assert pad_lists(lists, 2).tolist() == [[1, 2], [0, 0], [4, 0]]
    assert pad_lists(lists.slice(1), 2).tolist() == [[0, 0], [4, 0]]


def test_trimming_cuts_padding_only(folder):
    batch = next(read_batches(folder, SCHEMA, 3))  # lengths 0, 1, 2
    trimmed = trim_lists(batch, SCHEMA)
    assert trimmed["h_c"].shape == (3, 2)
    assert trimmed["tags"].shape == trimmed["tags_weight"].shape == (3, 2)
    assert trimmed["h_c"].tolist() == [[0, 0], [1, 0], [1, 2]]


def test_padded_rows_have_no_weight(folder):
    batch = pad_batch(next(read_batches(folder, SCHEMA, 3)), 5)
    assert batch["weight"].tolist() == [1, 1, 1, 0, 0]
    assert batch["h_c"].shape == (5, 4)


def test_prefetching_changes_nothing_and_passes_errors_on(folder):
    assert [b["c"].tolist() for b in prefetch(read_batches(folder, SCHEMA, 24))] == order(folder)

    def failing():
        yield {"c": np.zeros(1)}
        raise OSError("disk is gone")

    with pytest.raises(OSError, match="disk is gone"):
        list(prefetch(failing()))


def test_prefetching_stops_its_thread_when_the_reader_leaves(folder):
    batches = prefetch(read_batches(folder, SCHEMA, 1), depth=1)
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name == "batches"]


def test_a_folder_without_data_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="run ingest first"):
        list(read_batches(tmp_path, SCHEMA, 4))


@pytest.mark.parametrize(("kind", "told"), [("din", True), ("transformer", False)])
def test_only_a_model_that_takes_places_gets_them(folder, kind, told):
    batch = next(read_batches(folder, SCHEMA, 3))  # lengths 0 1 2
    compacted = compact(batch, build(kind, SCHEMA, MODELS[kind].config()), parts=1)
    assert ("h_places" in compacted) == told
    assert compacted["h_c"].shape == (3, 2)


def test_places_are_where_the_real_events_are(folder):
    batch = next(read_batches(folder, SCHEMA, 6))  # lengths 0 1 2 3 0 1, 4 places a row
    places = add_places(batch, SCHEMA, parts=3)["h_places"]
    assert places.tolist() == [4, 8, 9, 12, 13, 14, 20, 0]  # 7 real ones, rounded up to 8
    assert (batch["h_c"].ravel()[places[:7]] != 0).all()
