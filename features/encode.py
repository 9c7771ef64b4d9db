# SPDX-License-Identifier: Apache-2.0
"""Ibis expressions that turn typed rows into ids and floats, written once for every engine."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa

from features.gaps import gap_id, seconds_before
from features.hashing import bucket
from features.history import add_history, is_before
from features.inputs import input_names
from features.numeric import encode_buckets, encode_numeric
from features.raw import floor_divide
from features.schema import FIRST_UNKNOWN, MISSING, length_key, weight_key
from features.specs import (
    BucketedSpec,
    CategoricalSpec,
    DatetimeSpec,
    HistorySpec,
    NumericSpec,
    Specs,
    channel_name,
    gap_name,
    is_past_only,
    missing_flag_name,
    table_of,
)

if TYPE_CHECKING:
    from features.space import FeatureSpace


@ibis.udf.scalar.pyarrow(signature=((dt.string, dt.int64), dt.int64))
def hash_bucket(text: Any, num_buckets: Any) -> Any:
    """Return Fingerprint64(text) modulo num_buckets, as `tf.strings.to_hash_bucket_fast`."""
    return pa.array(bucket(text, num_buckets[0].as_py()))


def as_text(column: Any) -> Any:
    """Return the canonical text of a raw id column."""
    return column if column.type().is_string() else column.cast("string")


def count_values(column: Any) -> Any:
    """Count the non-null values of a text, integer or list column: (value, count)."""
    table = column.as_table().rename(value=column.get_name())
    if column.type().is_array():
        table = table.select(value=table.value.unnest())
    table = table.select(value=as_text(table.value))
    table = table.filter(table.value.notnull())
    return table.group_by("value").agg(count=table.count().cast("int64"))


def encode_rows(rows: Any, space: "FeatureSpace") -> Any:
    """Add the encoded columns of every feature to typed rows.

    Args:
        rows: Table with `_row`, the raw inputs, and for histories `_entity`, `_time`, `_label`.
        space: The fitted feature space.

    Returns:
        A table of the `_…` columns of `rows`, of `cut_column` for histories and, by batch key, the
        encoded features: int32 ids, float32 numbers, list<int32> and list<float32> with their int32
        lengths.
    """
    names = input_names(space.specs)
    encoded = _with_ids(rows, _categorical(space, lists=False), space)
    encoded = _with_lists(encoded, _categorical(space, lists=True), space)
    columns: dict[str, Any] = {}
    for feature, spec in space.specs.items():
        if isinstance(spec, HistorySpec):
            columns |= {_tie(f): encoded[names[f]] for f in spec.of}
        else:
            columns |= _columns(feature, spec, encoded[names[feature]], encoded, space)
    system = [name for name in rows.columns if name.startswith("_")]
    flat = encoded.select(*system, **columns)
    for feature, spec in space.specs.items():
        if isinstance(spec, HistorySpec):
            flat = _with_history(flat, feature, spec)
    only_past = [feature for feature, spec in space.specs.items() if is_past_only(spec)]
    return flat.drop(*(name for name in columns if name.startswith("_")), *only_past)


def _with_history(flat: Any, feature: str, spec: HistorySpec) -> Any:
    channels = {f: channel_name(feature, f) for f in spec.of}
    # raw values order events of one moment, because served histories know no ids
    ties = [_tie(f) for f in spec.of]
    cut = cut_column(feature)
    flat = history_of(flat, feature, spec, channels, spec.max_items, ties, cut)
    added = {length_key(feature): flat[channels[spec.of[0]]].length().cast("int32")}
    if spec.time_gap:
        added[gap_name(feature)] = flat[gap_name(feature)].map(gap_id)
    return flat.mutate(added)


def history_of(
    rows: Any,
    name: str,
    spec: HistorySpec,
    channels: Mapping[str, str],
    max_items: int,
    ties: Sequence[str] = (),
    cut: str | None = None,
) -> Any:
    """Add the columns of a history to typed or encoded rows.

    Args:
        rows: Table with `_row`, `_entity`, `_time`, `_label` and what events carry.
        name: The history's name.
        spec: What it is.
        channels: As for `add_history`.
        max_items: Events that are kept.
        ties: As for `add_history`.
        cut: As for `add_history`.

    Returns:
        `rows` with an array column per channel, with `time_gap` whole seconds, int64, and `cut`.
    """
    counts = counting_events(rows, name, spec)
    if not spec.time_gap:
        return add_history(rows, counts, channels, max_items, spec.gap_s, ties, cut)
    # without ties the channels order events, and times are not among those
    carried = {**channels, "_time": gap_name(name)}
    rows = add_history(rows, counts, carried, max_items, spec.gap_s, ties or tuple(channels), cut)
    return rows.mutate({gap_name(name): seconds_before(rows[gap_name(name)], rows._time)})


def _tie(feature: str) -> str:
    return f"_raw {feature}"


def counting_events(rows: Any, feature: str, spec: HistorySpec) -> Any:
    """Return which events enter a history, as a boolean over typed or encoded rows."""
    if spec.events == "all":
        return ibis.literal(True)
    if spec.events == "positive":
        return rows._label == 1
    return rows[event_flag(feature)].fill_null(False)


def past_events(log: Any, rows: Any, feature: str, specs: Specs) -> Any:
    """Return the events in the histories of some rows, each once.

    Args:
        log: Typed rows, with every event that histories may hold.
        rows: Some of them.
        feature: One that histories carry; those that do not are left aside.
        specs: The declared features.

    Returns:
        The rows of `log` that count in such a history and lie before one of `rows` of the same
        entity, so that a history holds them, or held them until newer events took their place.
    """
    newest = rows.filter(rows._entity.notnull()).group_by("_entity")
    events = log.inner_join(newest.agg(_newest=rows._time.max()), "_entity")
    seen = ibis.literal(False)
    for name, spec in specs.items():
        if isinstance(spec, HistorySpec) and feature in spec.of:
            counts = counting_events(events, name, spec)
            seen |= counts & is_before(events._time, events._newest, spec.gap_s)
    return events.filter(seen).select(*log.columns)


def event_flag(history: str) -> str:
    """Return the typed rows' column that says which events enter `history`."""
    return f"_counts_{history}"


def _columns(
    feature: str, spec: Any, raw: Any, encoded: Any, space: "FeatureSpace"
) -> dict[str, Any]:
    match spec:
        case CategoricalSpec(separator=None):
            return {feature: encoded[_id(feature)]}
        case CategoricalSpec():
            ids = encoded[_id(feature)]
            lists = {feature: ids, length_key(feature): ids.length().cast("int32")}
            if spec.weight_separator is not None:
                lists[weight_key(feature)] = encoded[weight_key(raw.get_name())]
            return lists
        case NumericSpec():
            numbers = {feature: encode_numeric(raw, spec, space.numbers[feature])}
            if spec.missing_flag:
                numbers[missing_flag_name(feature)] = raw.isnull().cast("float32")
            return numbers
        case BucketedSpec():
            return {feature: encode_buckets(raw, spec, space.buckets[feature])}
        case DatetimeSpec():
            return {feature: encode_part(encoded[moment_column(raw.get_name())], spec)}
    raise TypeError(f"{feature} reads no column")


def cut_column(name: str) -> str:
    """Return the rows' column that says where items of a list input, or a history, were left out.

    Args:
        name: Of the raw input, or the history.
    """
    return f"_cut_{name}"


def moment_column(raw_input: str) -> str:
    """Return the typed rows' column with the moment, int64 µs, of a raw time input."""
    return f"_moment_{raw_input}"


def encode_part(moment: Any, spec: DatetimeSpec) -> Any:
    """Return the id of a part of a moment (int64 µs, UTC), int32; missing is 1."""
    time = floor_divide(moment, 1_000).as_timestamp("ms")
    match spec.part:
        case "hour":
            value = time.hour()
        case "weekday":
            value = time.day_of_week.index()
        case "hour_of_week":
            value = time.day_of_week.index() * 24 + time.hour()
        case "day":
            value = time.day()
        case "month":
            value = time.month()
    return (value.cast("int32") + FIRST_UNKNOWN).fill_null(MISSING).cast("int32")


def _id(feature: str) -> str:
    return f"id {feature}"


def _categorical(space: "FeatureSpace", lists: bool) -> dict[str, str]:
    """Return the raw inputs of the features with ids from texts: of the lists, or of the others."""
    names = input_names(space.specs)
    return {
        feature: names[feature]
        for feature, spec in space.specs.items()
        if isinstance(spec, CategoricalSpec) and (spec.separator is not None) == lists
    }


def _with_ids(rows: Any, columns: Mapping[str, str], space: "FeatureSpace") -> Any:
    """Add column `id <feature>` (int32) for the text or integer column of each feature.

    The joins stand side by side: nested ones exhaust Python's stack when SQL is written.
    """
    joined = rows.mutate(**{f"text {f}": as_text(rows[c]) for f, c in columns.items()})
    for feature in columns:
        vocabulary = space.vocabularies.get(table_of(feature, space.specs))
        if vocabulary:
            known = ibis.memtable(vocabulary.ids())
            known = known.rename({f"value {feature}": "value", f"known {feature}": "id"})
            joined = joined.left_join(known, [(f"text {feature}", f"value {feature}")])
    ids = {_id(feature): _id_of(joined, feature, space) for feature in columns}
    return joined.select(*rows.columns, **ids)


def _id_of(joined: Any, feature: str, space: "FeatureSpace") -> Any:
    table, text = table_of(feature, space.specs), joined[f"text {feature}"]
    if table in space.vocabularies:
        unknown = _hashed(text, space.vocabularies[table].num_oov)
        known = joined[f"known {feature}"].fill_null(unknown)
    else:
        known = _hashed(text, space.table_rows(table) - FIRST_UNKNOWN)
    return ibis.ifelse(text.isnull() | (text == ""), MISSING, known).cast("int32")


def _hashed(text: Any, num_buckets: int) -> Any:
    if num_buckets == 1:
        return ibis.literal(FIRST_UNKNOWN, "int32")
    return FIRST_UNKNOWN + hash_bucket(text.fill_null(""), num_buckets)


def _with_lists(rows: Any, columns: Mapping[str, str], space: "FeatureSpace") -> Any:
    """Add column `id <feature>` (list<int32>, never null) for the column of each list feature."""
    joined = rows
    for feature, column in columns.items():
        items = rows.select("_row", _item=rows[column])
        places = ibis.range(items._item.length())
        numbered = items.select("_row", _pair=items._item.zip(places).unnest())
        flat = numbered.select("_row", item=numbered._pair["f1"], place=numbered._pair["f2"])
        found = _with_ids(flat, {feature: "item"}, space)
        pairs = ibis.struct({"place": found.place, "id": found[_id(feature)]}).collect()
        ids = found.group_by("_row").agg(_pairs=pairs)
        in_order = ids._pairs.sort().map(lambda pair: pair["id"])
        ids = ids.select(**{f"_row {feature}": ids._row, _id(feature): in_order})
        joined = joined.left_join(ids, [("_row", f"_row {feature}")])
    empty = ibis.literal([], "array<int32>")
    filled = {_id(feature): joined[_id(feature)].fill_null(empty) for feature in columns}
    return joined.select(*rows.columns, **filled)
