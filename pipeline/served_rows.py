# SPDX-License-Identifier: Apache-2.0
"""Rows as the served model takes them: raw inputs with raw histories, and the hard cases."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import ibis
import pyarrow as pa

from features.encode import encode_rows, event_flag, history_of
from features.gaps import gap_id
from features.inputs import RawInput, input_names
from features.raw import NullRule, read_integer, read_number, read_text
from features.schema import PADDING, weight_key
from features.space import FeatureSpace
from features.specs import HistorySpec, Specs, channel_name, gap_name
from pipeline.rows import ENTITY, LABEL, ROW, raw_columns

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

_UNSEEN_TEXT = "never seen ☃ é 漢字"
_UNSEEN_INTEGER = -(2**62)
_HUGE = 3.0e38
_GAPS = [0, 1, 2**30 - 1, 2**30, 2**63 - 1, -1, -(2**63) + 1, None]
_OVERLONG = 2
"""Raw histories hold this many times what the model keeps, so that the graph has to cut."""


def raw_history_columns(specs: Specs) -> list[str]:
    """Return the channels of all histories."""
    columns = []
    for history, spec in specs.items():
        if isinstance(spec, HistorySpec):
            columns += [channel_name(history, feature) for feature in spec.of]
            columns += [gap_name(history)] if spec.time_gap else []
    return columns


def add_raw_histories(rows: Any, specs: Specs, overlong: int = 1) -> Any:
    """Add each history channel as a list of raw values, or whole seconds, to typed rows.

    Args:
        rows: Typed rows, with every event that histories may hold.
        specs: The declared features.
        overlong: Keep this many times `max_items` events.
    """
    names = input_names(specs)
    for history, spec in specs.items():
        if not isinstance(spec, HistorySpec):
            continue
        # two features may read one column: each channel needs a column of its own
        copies = {f"_{history}_{f}": rows[names[f]] for f in spec.of}
        channels = {f"_{history}_{f}": channel_name(history, f) for f in spec.of}
        longest = spec.max_items * overlong
        rows = history_of(rows.mutate(copies), history, spec, channels, longest).drop(*copies)
    return rows


def parity_rows(
    connection: "Backend",
    rows: Any,
    encoded: Any,
    space: FeatureSpace,
    rule: NullRule,
    count: int,
) -> tuple[Any, Any]:
    """Choose test rows to prove the served model on, and encode them offline.

    Half of the rows are those with most missing and unknown values, half are any; a quarter as
    many copies are added whose inputs are empty, unseen, huge or negative, and copies of the
    rows with the longest histories whose time gaps are.

    Returns:
        (raw rows with raw histories, the same rows encoded), both in the order of `_row`.
    """
    chosen = connection.create_table("parity_rows", _hardest(rows, encoded, space, count))
    cases = connection.create_table("parity_cases", _corner_cases(chosen, space, rule, rows))
    entities = chosen.filter(chosen[ENTITY].notnull()).select(ENTITY).distinct()
    background = rows.semi_join(entities, ENTITY).union(
        chosen.filter(chosen[ENTITY].isnull()), distinct=False
    )
    events = connection.create_table("parity_events", background.union(cases, distinct=False))
    wanted = chosen.select(ROW).union(cases.select(ROW), distinct=False)
    raw = add_raw_histories(events, space.specs, _OVERLONG).semi_join(wanted, ROW)
    offline = encode_rows(events, space).semi_join(wanted, ROW)
    raw = raw.select(ROW, *raw_columns(space.inputs), *raw_history_columns(space.specs))
    gaps = [h.time_gap.name for h in space.schema.histories if h.time_gap]
    if gaps:
        raw = connection.create_table("parity_raw", raw)
        offline = connection.create_table("parity_offline", offline)
        raw, offline = _with_strange_gaps(raw, offline, gaps)
    return raw.order_by(ROW), offline.order_by(ROW)


def _with_strange_gaps(raw: Any, offline: Any, gaps: list[str]) -> tuple[Any, Any]:
    """Add copies of the rows with the longest histories, one for each strange time gap."""
    last = int(raw[ROW].max().execute())
    events = sum((raw[gap].length() for gap in gaps), ibis.literal(0))
    longest = raw.order_by([ibis.desc(events), ROW]).limit(1).select(ROW)
    values = {"_copy": range(last + 1, last + 1 + len(_GAPS)), "_seconds": _GAPS}
    copies = ibis.memtable(pa.table(values)).cross_join(longest)

    def added(rows: Any, value: Any) -> Any:
        found = rows.inner_join(copies, ROW)
        strange = {gap: rows[gap].map(lambda _: value(found["_seconds"])) for gap in gaps}
        copied = found.mutate({ROW: found["_copy"]} | strange).select(*rows.columns)
        return rows.union(copied, distinct=False)

    return added(raw, lambda seconds: seconds), added(offline, gap_id)


def _hardest(rows: Any, encoded: Any, space: FeatureSpace, count: int) -> Any:
    tests = encoded.filter(encoded._split == "test")
    schema = space.schema
    strange = [
        (tests[f.name] < _first_known(space, f.table)).cast("int32") for f in schema.categorical
    ]
    score = sum(strange, ibis.literal(0))
    shuffle = tests[ROW].cast("string").hexdigest("md5")
    marked = tests.select(ROW, _strange=score, _shuffle=shuffle)
    hard = marked.order_by([ibis.desc("_strange"), "_shuffle"]).limit((count + 1) // 2)
    anyone = marked.anti_join(hard, ROW).order_by("_shuffle").limit(count // 2)
    return rows.semi_join(hard.union(anyone, distinct=False), ROW)


def _first_known(space: FeatureSpace, table: str) -> int:
    vocabulary = space.vocabularies.get(table)
    return vocabulary.first_known if vocabulary else PADDING


def _corner_cases(chosen: Any, space: FeatureSpace, rule: NullRule, rows: Any) -> Any:
    """Return copies of some rows with strange inputs and no entity, so an empty history."""
    last = int(rows[ROW].max().execute())
    place = ibis.row_number().over(ibis.window(order_by=ROW))
    numbered = chosen.mutate(_place=place).filter(lambda t: t._place % 4 == 0)
    case = (numbered._place // 4) % 4
    changed = {
        raw.name: _strange_value(raw, case, numbered[raw.name], rule) for raw in space.inputs
    }
    changed |= _strange_weights(space.inputs, case, numbered)
    flags = {event_flag(name): ibis.literal(False) for name in _flagged(space.specs)}
    moments = {
        c: ibis.null(numbered[c].type()) for c in numbered.columns if c.startswith("_moment_")
    }
    # their moments follow from the inputs, which are strange, so they are missing as well
    fresh = {
        ROW: numbered._place + last + 1,
        ENTITY: ibis.null("string"),
        LABEL: ibis.literal(0, "int8"),
    }
    return numbered.mutate(**changed, **flags, **moments, **fresh).select(*rows.columns)


def _flagged(specs: Specs) -> list[str]:
    return [
        name
        for name, spec in specs.items()
        if isinstance(spec, HistorySpec) and isinstance(spec.events, dict)
    ]


def _strange_value(raw: RawInput, case: Any, value: Any, rule: NullRule) -> Any:
    cases: list[Any]
    match raw.type:
        case "text":
            cases = ["", _UNSEEN_TEXT, " ", _UNSEEN_TEXT[::-1]]
        case "integer":
            cases = [None, _UNSEEN_INTEGER, None, -1]
        case "number":
            cases = [None, _HUGE, -_HUGE, -1.5]
        case _:
            return ibis.ifelse(case == 0, ibis.literal([], value.type()), value)
    if raw.time is not None:  # an unreadable moment is refused offline, missing when served
        cases = [None] * 4
    dtype = value.type()
    strange = ibis.cases(*((case == i, ibis.literal(v, dtype)) for i, v in enumerate(cases)))
    # null tokens and trimming apply to these as to values that were read
    read = {"text": read_text, "integer": read_integer, "number": read_number}[raw.type]
    return read(strange, rule).value


def _strange_weights(inputs: tuple[RawInput, ...], case: Any, rows: Any) -> dict[str, Any]:
    keys = [weight_key(raw.name) for raw in inputs if raw.weight_separator is not None]
    empty: Mapping[str, Any] = {key: ibis.literal([], rows[key].type()) for key in keys}
    return {key: ibis.ifelse(case == 0, empty[key], rows[key]) for key in keys}
