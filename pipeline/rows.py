# SPDX-License-Identifier: Apache-2.0
"""Typed rows: source columns read as the types that the config declares.

A typed row holds exactly the raw values that the served model takes, and beside them, under
names with an underscore, what the pipeline needs to know: row number, label, time, entity.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import ibis

from features.encode import cut_column, event_flag, moment_column
from features.inputs import RawInput, input_names, raw_inputs
from features.raw import (
    NullRule,
    Read,
    first_malformed,
    read_float64,
    read_integer,
    read_moment,
    read_number,
    read_text,
    read_texts,
    read_time,
)
from features.schema import weight_key
from features.specs import HistorySpec
from features.splits import by_column, by_hash
from pipeline.config import ColumnSplit, HashSplit, RunConfig
from pipeline.config_yaml import KeyPath
from pipeline.sources import scan
from pipeline.sources.sql import Wanted

ROW, LABEL, WEIGHT, TIME, ENTITY, GROUP = "_row", "_label", "_weight", "_time", "_entity", "_group"
FILE, SPLIT, MALFORMED = "_file", "_split", "_malformed"
_NUMBER, _NO_NUMBER = "clickloom: number ", "clickloom: no number "
_COMPARISONS: Mapping[str, Any] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq,
    "!=": operator.ne,
}  # fmt: skip


def key_column(column: str) -> str:
    """Return the name under which typed and encoded rows carry a key column's text."""
    return f"_key:{column}"


@dataclass(frozen=True)
class Need:
    """A data column that a config reads, by which config key, and as what."""

    column: str
    path: KeyPath
    type: Literal["text", "integer", "number", "texts", "moment"] = "text"
    required: bool = True
    separator: str | None = None


def needed_columns(config: RunConfig, labelled: bool = True) -> list[Need]:
    """Return the data columns that a run reads; without label and weight to predict."""
    label = Need(
        config.label.column,
        ("label", "column"),
        "text" if isinstance(config.label.positive, tuple) else "number",
    )
    needs = []
    if labelled:
        needs.append(label)
        if config.weight:
            needs.append(Need(config.weight, ("weight",), "number"))
        if isinstance(config.split, ColumnSplit | HashSplit) and config.split.column:
            needs.append(Need(config.split.column, ("split", "column")))
    if config.time:
        needs.append(Need(config.time.column, ("time", "column"), "moment"))
    if config.entity:
        needs.append(Need(config.entity, ("entity",)))
    if config.evaluate.group and labelled:
        needs.append(Need(config.evaluate.group, ("evaluate", "group")))
    needs += [Need(column, ("keys", i)) for i, column in enumerate(config.keys)]
    for name, spec in config.histories():
        if isinstance(spec.events, dict):
            needs.append(Need(next(iter(spec.events)), ("features", name, "events")))
        elif spec.events == "positive" and not labelled:
            needs.append(replace(label, required=False))
    readers = {input_name: feature for feature, input_name in input_names(config.features).items()}
    for raw in raw_inputs(config.features):
        reader = readers[raw.name]
        named = getattr(config.features[reader], "column", None) is not None
        path: KeyPath = ("features", reader, "column") if named else ("features", reader)
        required = raw.required and (labelled or not raw.past_only)
        kind = "moment" if raw.time else raw.type
        needs.append(Need(raw.column, path, kind, required, raw.separator))
    return needs


def wanted(needs: Iterable[Need]) -> list[Wanted]:
    """Return each needed column once."""
    separators: dict[str, str | None] = {}
    for need in needs:
        separators[need.column] = need.separator or separators.get(need.column)
    return [Wanted(name, separator) for name, separator in separators.items()]


def null_rule(config: RunConfig) -> NullRule:
    """Return which texts of the click log mean missing."""
    return NullRule(config.data.null_tokens, config.data.trim)


def typed_rows(
    source: Any, config: RunConfig, first_row: int, labelled: bool = True, signed: bool = False
) -> Any:
    """Return typed rows of a scan.

    Args:
        source: Ibis table of a scan, joined with side tables.
        config: The run's config.
        first_row: `_row` of the scan's first row.
        labelled: Whether label and weight are needed; predictions do without.
        signed: Whether -1 is a label beside 0 and 1; `_label` is -1 then.

    Returns:
        Table with `_row`, `_file`, `_label` (int8), `_weight` (float32), `_time` (int64 µs),
        `_entity`, `_group`, `_key:…` (string), the raw inputs; `_split` where the row alone
        decides it; and `_malformed`: the first column whose cell cannot be read, an empty text
        where the whole row cannot, or null.
    """
    rule = null_rule(config)
    source = _with_numbers(source, config, rule, labelled)
    columns: dict[str, Any] = {ROW: source[scan.ORDER] + first_row, FILE: source[scan.FILE]}
    reads: list[tuple[str, Read]] = []

    def add(name: str, column: str, read: Read) -> None:
        columns[name] = read.value
        reads.append((column, read))

    label_known = config.label.column in source.columns
    if labelled or label_known:
        label = _label(source, config, rule, signed)
        add(LABEL, config.label.column, label if labelled else _unlabelled_is_no_click(label))
    if labelled:
        add(WEIGHT, config.weight or "", _weight(source, config))
    if config.time:
        moment = read_moment(source[config.time.column], rule, config.time)
        add(TIME, config.time.column, _required(moment))
    else:
        columns[TIME] = ibis.null("int64")
    for name, column in _texts(config, labelled):
        text = (
            read_text(source[column], rule)
            if column
            else Read(ibis.null("string"), ibis.literal(False))
        )
        columns[name] = text.value
        if column:
            reads.append((column, text))
    for raw in raw_inputs(config.features):
        _add_input(columns, reads, source, raw, rule)
    for name, spec in config.histories():
        if isinstance(spec.events, dict):
            columns[event_flag(name)] = _counts(source, spec, rule)
    if labelled and isinstance(config.split, HashSplit | ColumnSplit):
        columns[SPLIT] = _split(source, config.split, rule, columns)
    malformed = ibis.ifelse(source[scan.BROKEN], "", first_malformed(reads))
    return source.select(**columns, **{MALFORMED: malformed})


def _texts(config: RunConfig, labelled: bool) -> list[tuple[str, str | None]]:
    texts: list[tuple[str, str | None]] = [(ENTITY, config.entity)]
    if labelled:
        texts.append((GROUP, config.group_column))
    return texts + [(key_column(column), column) for column in config.keys]


def _split(
    source: Any, split: HashSplit | ColumnSplit, rule: NullRule, columns: Mapping[str, Any]
) -> Any:
    """Return the part of rows whose part does not depend on other rows."""
    if isinstance(split, ColumnSplit):
        text = read_text(source[split.column], rule).value
        return by_column(text, split.train, split.valid, split.test)
    number = columns[ROW].cast("string")
    if split.column:
        text = read_text(source[split.column], rule).value
    else:
        text = columns[ENTITY] if split.kind == "user" else number
    # rows without a value would all share one fate: they go by their number
    return by_hash(text.fill_null(number), split.valid, split.test)


def _add_input(
    columns: dict[str, Any],
    reads: list[tuple[str, Read]],
    source: Any,
    raw: RawInput,
    rule: NullRule,
) -> None:
    cell = source[raw.column]
    if raw.time is not None:
        read, moment = read_time(cell, rule, raw.time)
        columns.update({raw.name: read.value, moment_column(raw.name): moment.value})
        reads.append((raw.column, moment))
        return
    match raw.type:
        case "text":
            read = read_text(cell, rule)
        case "integer":
            read = read_integer(cell, rule)
        case "number":
            number = _number(source, raw.column)
            read = Read(read_number(number.value, rule).value, number.malformed)
        case "texts":
            read, weights, cut = read_texts(
                cell, rule, raw.separator or "", raw.weight_separator, raw.max_items or 1
            )
            columns[cut_column(raw.name)] = cut
            if weights is not None:
                columns[weight_key(raw.name)] = weights
    columns[raw.name] = read.value
    reads.append((raw.column, read))


def _with_numbers(source: Any, config: RunConfig, rule: NullRule, labelled: bool) -> Any:
    """Add each column that is read as a number as float64, and whether it is none.

    In a query of its own, as the engine would read the texts again at every mention.
    """
    names = {raw.column for raw in raw_inputs(config.features) if raw.type == "number"}
    if config.label.comparison and config.label.column in source.columns:
        names.add(config.label.column)
    if labelled and config.weight:
        names.add(config.weight)
    added: dict[str, Any] = {}
    for name in sorted(names):
        read = read_float64(source[name], rule)
        added |= {_NUMBER + name: read.value, _NO_NUMBER + name: read.malformed}
    return source.mutate(**added)


def _number(source: Any, column: str) -> Read:
    return Read(source[_NUMBER + column], source[_NO_NUMBER + column])


def _label(source: Any, config: RunConfig, rule: NullRule, signed: bool) -> Read:
    """Read the label as 0 or 1, or -1 (int8); a missing one is malformed."""
    label = config.label
    if isinstance(label.positive, tuple):
        text = read_text(source[label.column], rule).value
        return Read(text.isin(label.positive).cast("int8"), text.isnull())
    if label.comparison is None:
        clicked = _truth(source[label.column], rule, signed)
        return Read(clicked, clicked.isnull())
    number = _number(source, label.column)
    name, bound = label.comparison
    clicked = _COMPARISONS[name](number.value, bound).cast("int8")
    return Read(clicked, number.malformed | number.value.isnull())


def _truth(column: Any, rule: NullRule, signed: bool) -> Any:
    """Return 1 for 1 and true, 0 for 0 and false, -1 if it may be, null for anything else."""
    if column.type().is_string():
        text = column.strip().lower()
        column = ibis.cases((text == "true", "1"), (text == "false", "0"), else_=column)
    number = read_float64(column, rule).value
    return ibis.ifelse(number.isin([-1.0, 0.0, 1.0] if signed else [0.0, 1.0]), number, None).cast(
        "int8"
    )


def _unlabelled_is_no_click(label: Read) -> Read:
    return Read(label.value.fill_null(0), ibis.literal(False))


def _weight(source: Any, config: RunConfig) -> Read:
    if not config.weight:
        return Read(ibis.literal(1.0, "float32"), ibis.literal(False))
    number = _number(source, config.weight)
    weight = read_number(number.value, NullRule()).value
    return Read(weight, number.malformed | weight.isnull() | (weight < 0))


def _required(read: Read) -> Read:
    return Read(read.value, read.malformed | read.value.isnull())


def _counts(source: Any, spec: HistorySpec, rule: NullRule) -> Any:
    [(column, values)] = spec.events.items() if isinstance(spec.events, dict) else [("", ())]
    return read_text(source[column], rule).value.isin(values)


def raw_columns(inputs: Sequence[RawInput]) -> list[str]:
    """Return the typed rows' columns that hold raw inputs, item weights included."""
    columns = []
    for raw in inputs:
        columns.append(raw.name)
        if raw.weight_separator is not None:
            columns.append(weight_key(raw.name))
    return columns
