# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow graph against encode_rows: the same raw rows give the same ids and floats.

Served inputs are made from the source cells by plain Python, so that what DuckDB reads, trims and
cuts is checked as well.
"""

from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from features.graph import FeatureGraph
from features.graph_lookup import escape
from features.inputs import input_names, raw_inputs
from features.raw import MISSING_INTEGER, NullRule
from features.schema import length_key, weight_key
from features.specs import HistorySpec
from tests.features.rows import specs_of

RULES = {
    "exact": NullRule(("", "NA", "-1")),
    "trim": NullRule(("NA", "-1"), trim=True),
}
few_tables = settings(deadline=None, max_examples=5)
categorical = {"kind": "categorical"}
EPOCH = datetime(1970, 1, 1)


@pytest.fixture(scope="session")
def graphs(fit, tmp_path_factory):
    """Return the fitted space and the graph of a rule, made once for each declaration."""
    made = {}

    def get(training, specs, rule):
        key = (str(specs), rule)
        if key not in made:
            space = fit(training, specs, rule)
            assets = tmp_path_factory.mktemp("assets")
            made[key] = space, FeatureGraph(space, space.schema, rule, assets)
        return made[key]

    return get


def columns_of(rows, types):
    """Rows of source cells as columns; lists become text where the column is text."""
    columns = {}
    for name, dtype in types.items():
        cells = [row[name] for row in rows]
        if pa.types.is_string(dtype):
            cells = ["|".join(cell) if isinstance(cell, list) else cell for cell in cells]
        columns[name] = pa.array(cells, dtype)
    return columns


# what a client sends


def scalar(value, kind):
    """A cell as an input of the served model."""
    if kind == "integer":
        return MISSING_INTEGER if value is None else value
    if kind == "number":
        with np.errstate(over="ignore"):  # 1e300 is sent as infinity
            return np.nan if value is None else np.float32(value)
    return "" if value is None else value


DTYPES = {"text": tf.string, "texts": tf.string, "integer": tf.int64, "number": tf.float32}
FILLERS = {"text": "padding", "texts": "padding", "integer": 7, "number": 7.0}


def padded(rows, kind, extra):
    """Lists as a rectangle; what stands beyond a list's length must not matter."""
    width = max((len(row) for row in rows), default=0) + extra
    cells = [[scalar(v, kind) for v in row] + [FILLERS[kind]] * (width - len(row)) for row in rows]
    return tf.reshape(tf.constant(sum(cells, []), DTYPES[kind]), (len(rows), width))


def served(rows, specs, extra=0):
    """Turn rows of source cells into inputs of the served model, histories in full."""
    inputs = {}
    for raw in raw_inputs(specs):
        cells = [row[raw.column] for row in rows]
        if raw.type != "texts":
            values = [scalar(value, raw.type) for value in cells]
            inputs[raw.name] = tf.constant(values, DTYPES[raw.type])
            continue
        lists = [cell or [] for cell in cells]
        if raw.weight_separator is not None:
            pairs = [[item.split(":") for item in items] for items in lists]
            lists = [[pair[0] for pair in row] for row in pairs]
            weights = [[float(pair[1]) if pair[1:] else 1.0 for pair in row] for row in pairs]
            inputs[weight_key(raw.name)] = padded(weights, "number", extra)
        inputs[raw.name] = padded(lists, "texts", extra)
        inputs[length_key(raw.name)] = tf.constant([len(row) for row in lists], tf.int32)
    kinds = {raw.name: raw for raw in raw_inputs(specs)}
    for name, spec in specs.items():
        if not isinstance(spec, HistorySpec):
            continue
        clicks = [row for row in rows if row["_label"] == 1 and row["_entity"] is not None]
        pasts = [events_before(clicks, row) for row in rows]
        for feature in spec.of:
            raw = kinds[input_names(specs)[feature]]
            lists = [[event[raw.column] for event in past] for past in pasts]
            inputs[f"{name}_{feature}"] = padded(lists, raw.type, extra)
        if spec.time_gap:
            gaps = [
                [(row["_time"] - event["_time"]) // 10**6 for event in past]
                for row, past in zip(rows, pasts, strict=True)
            ]
            inputs[f"{name}_gap"] = padded(gaps, "integer", extra)
        inputs[length_key(name)] = tf.constant([len(past) for past in pasts], tf.int32)
    return inputs


def events_before(clicks, row):
    """All clicks of the row's entity before its time, oldest first; times are distinct."""
    past = [
        event
        for event in clicks
        if event["_entity"] == row["_entity"] and event["_time"] < row["_time"]
    ]
    return sorted(past, key=lambda event: event["_time"])


# comparing


def assert_equal(batch, encoded):
    """Ids and lengths are equal, floats within one unit in the last place."""
    batch = {key: tensor.numpy() for key, tensor in batch.items()}
    names = {name for name in encoded.column_names if not name.startswith("_")}
    assert set(batch) == names
    for name, found in batch.items():
        column = encoded[name]
        assert column.null_count == 0
        if pa.types.is_list(column.type):
            lists = column.to_pylist()
            width = found.shape[1]
            expected = [row + [0] * (width - len(row)) for row in lists]
            np.testing.assert_array_equal(found, np.reshape(expected, found.shape), err_msg=name)
        elif pa.types.is_floating(column.type):
            assert found.dtype == np.float32
            np.testing.assert_array_max_ulp(found, column.to_numpy(), maxulp=1)
        else:
            assert found.dtype == np.int32
            np.testing.assert_array_equal(found, column.to_numpy(), err_msg=name)


@pytest.fixture(scope="session")
def check(graphs, encode):
    """Send rows both ways and compare."""

    def run(training, rows, specs, rule, types, extra=0):
        space, graph = graphs(columns_of(training, types), specs, rule)
        inputs = served(rows, specs, extra)
        signature = graph.signature()
        assert set(inputs) == set(signature)
        for name, spec in signature.items():
            assert spec.is_compatible_with(inputs[name]), name
        assert_equal(graph(inputs), encode(columns_of(rows, types), space, rule))

    return run


# texts and whole numbers

STRANGE = [
    "a",
    "b",
    "é",
    "漢字",
    "back\\slash",
    "new\nline",
    "car\rriage",
    "\\n",
    "\\\\",
    "a b",
    "x\ty",
]
texts = st.none() | st.sampled_from([
    *STRANGE, "", " ", "NA", " NA ", "na", " a", "b\n", "-1", "\\", "\n", "unseen", "un\\seen",
]) | st.text(max_size=8)  # fmt: skip
integers = (
    st.none() | st.sampled_from([-1, 0, 1, 42, 2**63 - 1, -(2**63) + 1])
    | st.integers(-(2**63) + 1, 2**63 - 1)
)  # fmt: skip

IDS = specs_of(
    text=categorical,
    number=categorical | {"type": "int"},
    shared=categorical | {"table": "number"},
    several=categorical | {"column": "text", "num_oov": 4, "min_count": 2},
    hashed=categorical | {"column": "number", "type": "int", "hash_buckets": 50},
    unseen=categorical | {"column": "shared", "min_count": 1000},
)
ID_TYPES = {"text": pa.string(), "number": pa.int64(), "shared": pa.string()}
ID_TRAINING = [
    {"text": text, "number": 40 + i % 3, "shared": "41" if i % 2 else "-1"}
    for i, text in enumerate([*STRANGE, *STRANGE[::2], "NA", "", None])
]


@pytest.mark.parametrize("rule", RULES)
@given(
    st.lists(
        st.fixed_dictionaries({"text": texts, "number": integers, "shared": texts}), min_size=1
    )
)
@example([{"text": text, "number": 41, "shared": "41"} for text in STRANGE])
@few_tables
def test_ids(check, rule, rows):
    check(ID_TRAINING, rows, IDS, RULES[rule], ID_TYPES)


def test_a_vocabulary_file_has_a_line_for_each_value():
    values = ["a", "\n", "\r", "\\", "\\n", "\n\\r"]
    lines = [escape(value) for value in values]
    assert lines == ["a", "\\n", "\\r", "\\\\", "\\\\n", "\\n\\\\r"]
    assert len(set(lines)) == len(values)


# numbers

NUMBERS = specs_of(
    plain={"kind": "numeric", "column": "x", "scale": "none", "missing_flag": True},
    standard={"kind": "numeric", "column": "x"},
    logarithm={"kind": "numeric", "column": "x", "log": True, "fill": "zero"},
    clipped={"kind": "numeric", "column": "x", "clip": [-2.5, 0.7], "scale": "min_max"},
    edges={"kind": "bucketed", "column": "x", "edges": [-1.5, 0.0, 0.1, 0.7, 1e30]},
    quantiles={"kind": "bucketed", "column": "x", "quantiles": 5},
    criteo={"kind": "bucketed", "column": "x", "log_squared": True},
    empty={"kind": "bucketed", "column": "y", "quantiles": 3},
    past={"kind": "history", "of": ["edges", "criteo"], "max_items": 3},
)
NUMBER_TYPES = {
    "x": pa.float64(), "y": pa.float64(),
    "_entity": pa.string(), "_time": pa.int64(), "_label": pa.int8(),
}  # fmt: skip
numbers = st.none() | st.floats() | st.floats(width=32) | st.sampled_from([
    -1.0, 0.0, -0.0, 0.1, 0.7, 2.0, 2.5, 3.0, 1e30, 3.4e38, -3.4e38, 1e300, 1e-45, -1e-40,
])  # fmt: skip


def log_of(cells, count):
    """Add who, when and what came of it to rows of cells; times are distinct."""
    return st.lists(
        st.tuples(cells, st.sampled_from(["u", "v", None]), st.booleans()),
        min_size=1,
        max_size=count,
    ).flatmap(
        lambda rows: st.permutations(range(len(rows))).map(
            lambda times: [
                cell | {"_entity": entity, "_time": time * 700_000, "_label": int(label)}
                for (cell, entity, label), time in zip(rows, times, strict=True)
            ]
        )
    )


NUMBER_TRAINING = [
    {"x": x, "y": None, "_entity": None, "_time": i, "_label": 0}
    for i, x in enumerate([None, -3.0, 0.0, 0.1, 0.7, 1.0, 5.0, 900.0, 1e6])
]


@given(log_of(st.fixed_dictionaries({"x": numbers, "y": numbers}), 40), st.integers(0, 2))
@few_tables
def test_numbers(check, rows, extra):
    check(NUMBER_TRAINING, rows, NUMBERS, RULES["exact"], NUMBER_TYPES, extra)


# lists and histories

LISTS = specs_of(
    bag=categorical | {"separator": "|", "max_items": 3, "num_oov": 2},
    weighted=categorical
    | {"separator": "|", "weight_separator": ":", "max_items": 2, "table": "bag"},
    item=categorical | {"table": "bag"},
    number=categorical | {"type": "int"},
    clicks={"kind": "history", "of": ["item", "number"], "max_items": 2, "time_gap": True},
)
LIST_TYPES = {
    "bag": pa.list_(pa.string()), "weighted": pa.string(), "item": pa.string(),
    "number": pa.int64(), "_entity": pa.string(), "_time": pa.int64(), "_label": pa.int8(),
}  # fmt: skip
items = st.sampled_from(["a", "b", "é", "new\nline", "", " ", "NA", " NA ", " a ", "-1", "z"])
weighted_items = st.builds(
    lambda item, weight: item if weight is None else f"{item}:{weight}",
    items, st.none() | st.sampled_from([0.0, 0.5, -2.0, 3.0]),
)  # fmt: skip
LIST_TRAINING = [
    {"bag": ["a", "b", "new\nline"], "weighted": ["é:2"], "item": "a", "number": 41,
     "_entity": None, "_time": 0, "_label": 0}
]  # fmt: skip
list_rows = st.fixed_dictionaries({
    "bag": st.lists(items, max_size=6),
    "weighted": st.lists(weighted_items, max_size=5),
    "item": texts,
    "number": st.none() | st.sampled_from([41, 42, -1, 2**63 - 1]),
})  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
@given(log_of(list_rows, 25), st.integers(0, 2))
@few_tables
def test_lists_and_histories(check, rule, rows, extra):
    check(LIST_TRAINING, rows, LISTS, RULES[rule], LIST_TYPES, extra)


def test_lengths_beyond_the_tensor_are_its_width(graphs):
    _, graph = graphs(columns_of(LIST_TRAINING, LIST_TYPES), LISTS, NullRule())
    row = served([{**LIST_TRAINING[0], "bag": ["a", "b"]}], LISTS)
    batch = graph(row | {"bag_length": [9], "clicks_length": [9]})
    assert batch["bag_length"].numpy().tolist() == [2]
    assert batch["clicks_length"].numpy().tolist() == [0]
    assert row["clicks_item"].shape == (1, 0)  # nobody has a past: a model still gets a place
    assert batch["clicks_item"].numpy().tolist() == [[0]]
    nothing = graph(row | {"bag_length": [-1], "clicks_length": [-1]})
    assert nothing["bag_length"].numpy().tolist() == [0]
    assert nothing["bag"].numpy().tolist() == [[0, 0]]


def test_item_weights_that_are_no_numbers_count_1(graphs):
    _, graph = graphs(columns_of(LIST_TRAINING, LIST_TYPES), LISTS, NullRule())
    row = served([{**LIST_TRAINING[0], "weighted": ["a:0.5", "b:2"]}], LISTS)
    for nothing in (float("nan"), float("inf"), -float("inf")):
        batch = graph(row | {"weighted_weight": tf.constant([[0.5, nothing]])})
        assert batch["weighted_weight"].numpy().tolist() == [[0.5, 1.0]]


# moments

PARTS = ["hour", "weekday", "day", "month", "hour_of_week"]
FORMATS = {"format": "%d.%m.%y %H:%M", "cjk": "%Y年%m月%d日", "dense": "%Y%m%d%H%M%S%f"}


def parts_of(column, parts, **options):
    spec = {"kind": "datetime", "column": column} | options
    return {f"{column}_{part}": spec | {"part": part} for part in parts}


MOMENTS = specs_of(
    **parts_of("s", ["hour"], unit="s"),
    **parts_of("ms", ["hour_of_week"], unit="ms"),
    **parts_of("us", ["day"], unit="us"),
    **parts_of("ns", ["hour"], unit="ns"),
    **parts_of("iso", ["hour_of_week", "day"]),
    **parts_of("format", ["hour"], format=FORMATS["format"]),
    **parts_of("cjk", ["day"], format=FORMATS["cjk"]),
    **parts_of("dense", ["hour_of_week"], format=FORMATS["dense"]),
    past={"kind": "history", "of": ["s_hour", "iso_day"], "max_items": 2},
)
MOMENT_TYPES = {
    **dict.fromkeys(("s", "ms", "us", "ns"), pa.int64()),
    **dict.fromkeys(("iso", *FORMATS), pa.string()),
    "_entity": pa.string(), "_time": pa.int64(), "_label": pa.int8(),
}  # fmt: skip
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ZONES = ["", "Z", " UTC", "+00:00", "-0330", "+14", "-23:59", " +05:30"]
NO_MOMENTS = [
    "",
    "NA",
    " ",
    "x",
    "2023-02-29",
    "2024-04-31 00:00",
    "24:00",
    "2024-01-01 24:00",
    "2024-1-1",
]


@st.composite
def moments(draw):
    """One moment in all ways, or cells that are no moment."""
    moment = draw(st.datetimes(datetime(1000, 1, 1), datetime(9999, 12, 30)))
    short = draw(st.datetimes(datetime(1969, 1, 1), datetime(2068, 12, 31)))
    separator, timespec = (
        draw(st.sampled_from(" T")),
        draw(st.sampled_from(["minutes", "seconds", "microseconds"])),
    )
    elapsed = (moment - EPOCH) // timedelta(microseconds=1)
    cells = {unit: elapsed * per // 10**6 for unit, per in PER_SECOND.items()}
    if abs(cells["ns"]) > 2**62:
        cells["ns"] = draw(st.integers(-(2**62), 2**62))
    cells["iso"] = moment.isoformat(separator, timespec) + draw(st.sampled_from(ZONES))
    cells |= {name: short.strftime(text) for name, text in FORMATS.items()}
    for unit in draw(st.sets(st.sampled_from(list(PER_SECOND)), max_size=2)):
        cells[unit] = draw(st.sampled_from([None, -1, 0, 2**63 - 1, -(2**63) + 1]))
    for name in draw(st.sets(st.sampled_from(["iso", *FORMATS]), max_size=2)):
        cells[name] = draw(
            st.none() | st.sampled_from(NO_MOMENTS) | st.text("0129-: T", max_size=20)
        )
    return cells


MOMENT_TRAINING = [dict.fromkeys(MOMENT_TYPES)]


@given(log_of(moments(), 15))
@few_tables
def test_moments(check, rows):
    check(MOMENT_TRAINING, rows, MOMENTS, RULES["exact"], MOMENT_TYPES)


def test_every_day_of_two_centuries(check):
    specs = specs_of(**parts_of("s", PARTS, unit="s"), **parts_of("iso", PARTS))
    seconds = [days * 86_400 + days * 7919 % 86_400 for days in range(-36_525, 36_525)]
    rows = [{"s": s, "iso": (EPOCH + timedelta(seconds=s)).isoformat()} for s in seconds]
    check(rows[:1], rows, specs, RULES["exact"], {"s": pa.int64(), "iso": pa.string()})


# the SavedModel


def test_the_graph_is_saved_with_its_vocabularies(graphs, encode, tmp_path):
    rule = RULES["exact"]
    space, graph = graphs(columns_of(ID_TRAINING, ID_TYPES), IDS, rule)
    module = tf.Module()
    module.graph = graph
    module.serve = tf.function(graph, input_signature=[graph.signature()])
    tf.saved_model.save(module, tmp_path / "saved")
    loaded = tf.saved_model.load(tmp_path / "saved")
    rows = [*ID_TRAINING, {"text": "new", "number": None, "shared": "x"}]
    encoded = encode(columns_of(rows, ID_TYPES), space, rule)
    for size in (1, len(rows)):
        batch = loaded.serve(served(rows[:size], IDS))
        assert_equal(batch, encoded.slice(0, size))
    assets = sorted(path.name for path in (tmp_path / "saved" / "assets").iterdir())
    assert assets == [
        "vocabulary_0_text.txt",
        "vocabulary_1_number.txt",
        "vocabulary_2_several.txt",
    ]


def test_only_what_the_model_uses_is_an_input(fit, tmp_path):
    space = fit(columns_of(LIST_TRAINING, LIST_TYPES), LISTS)
    schema = space.schema.select(("clicks",))
    graph = FeatureGraph(space, schema, NullRule(), tmp_path)
    assert list(graph.signature()) == [
        "clicks_item", "clicks_number", "clicks_gap", "clicks_length",
    ]  # fmt: skip
    assert graph.inputs == ()
    assert graph.lengths() == {"clicks_length": "clicks_item"}
    both = space.schema.select(("weighted", "number"))
    graph = FeatureGraph(space, both, NullRule(), tmp_path)
    found = {name: (spec.dtype, spec.shape.as_list()) for name, spec in graph.signature().items()}
    assert found == {
        "weighted": (tf.string, [None, None]),
        "weighted_length": (tf.int32, [None]),
        "weighted_weight": (tf.float32, [None, None]),
        "number": (tf.int64, [None]),
    }
    assert graph.lengths() == {"weighted_length": "weighted"}
