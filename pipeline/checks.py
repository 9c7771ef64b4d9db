# SPDX-License-Identifier: Apache-2.0
"""Checks across config keys, and of a config against the headers of its data."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from features.moments import TimeLayout
from features.space import missing_flag_name, schema_of
from features.specs import (
    CategoricalSpec,
    DatetimeSpec,
    HistorySpec,
    NumericSpec,
    channel_name,
    raw_inputs,
)
from models.registry import MODELS, check
from pipeline.config import RESERVED_NAMES, HashSplit, LeaveLastOut, RunConfig, TimeSplit
from pipeline.config_file import Problem, describe, nearest, parse, read_document
from pipeline.errors import ConfigError, InputRejected
from pipeline.rows import needed_columns
from pipeline.sources.source import open_source

_SOME_ROWS = 3
"""Stands for table sizes, which only data can tell."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def find_problems(config: RunConfig) -> list[Problem]:
    """Return everything that is wrong across the keys of a config, without looking at data."""
    problems = [*_features(config), *_sections(config)]
    if not problems:
        problems = [*_model(config)]
    elif isinstance(config.model.get("kind"), str):
        problems += _model_options(config)
    return problems


def find_notes(config: RunConfig) -> list[str]:
    """Return what is allowed but may be unwanted: declared features that the model leaves out."""
    chosen = config.model.get("features")
    if not chosen:
        return []
    in_histories = {feature for _, spec in config.histories() for feature in spec.of}
    unused = [f for f in config.features if f not in chosen and f not in in_histories]
    return [f"features.{name}: declared, but model.features leaves it out" for name in unused]


def check_data(config: RunConfig, date: str | None = None) -> list[str]:
    """Compare a config with the headers of its data; return warnings and notes.

    Raises:
        InputRejected: A file or a required column is missing.
        ConfigError: A path cannot be filled in.
    """
    source = open_source(config.data, needed_columns(config), date)
    return [*source.warnings, *source.notes]


def _features(config: RunConfig) -> Iterator[Problem]:
    for name, spec in config.features.items():
        path = ("features", name)
        if not _NAME.fullmatch(name):
            yield Problem(path, "a name has letters, digits and _ only, as it names an input of "
                          "the served model; give the column's own name with column:")  # fmt: skip
        if name in RESERVED_NAMES:
            yield Problem(path, "is a reserved name; choose another and give column:")
        match spec:
            case CategoricalSpec(table=str(table)):
                yield from _shared_table(config, name, table)
            case DatetimeSpec(format=str(time_format)):
                yield from _layout((*path, "format"), time_format)
            case HistorySpec():
                yield from _history(config, name, spec)
    try:
        raw_inputs(config.features)
    except ValueError as error:
        yield Problem(("features",), str(error))
    except TypeError:
        pass  # a shared table that is not there is reported above
    yield from _clashes(config)


def _layout(path: tuple[str, ...], time_format: str) -> Iterator[Problem]:
    try:
        TimeLayout.of(time_format)
    except ValueError as error:
        yield Problem(path, str(error))


def _shared_table(config: RunConfig, name: str, table: str) -> Iterator[Problem]:
    path = ("features", name, "table")
    owner = config.features.get(table)
    if not isinstance(owner, CategoricalSpec):
        categorical = [f for f, s in config.features.items() if isinstance(s, CategoricalSpec)]
        yield Problem(path, f"{table!r} is not a categorical feature{nearest(table, categorical)}")
    elif owner.table:
        yield Problem(path, f"{table!r} has no table of its own; name {owner.table!r}")


def _history(config: RunConfig, name: str, spec: HistorySpec) -> Iterator[Problem]:
    path = ("features", name)
    with_ids = [
        feature
        for feature, other in config.features.items()
        if not isinstance(other, NumericSpec | HistorySpec)
        and not getattr(other, "separator", None)
    ]
    for i, feature in enumerate(spec.of):
        if feature not in with_ids:
            hint = nearest(feature, with_ids)
            yield Problem((*path, "of", i), f"{feature!r} is no feature with one id a row{hint}")
    if config.entity is None:
        yield Problem(path, "a history needs to know whose it is: give entity, such as user_id")
    if config.time is None:
        yield Problem(path, "a history needs to know when events happened: give time")


def _clashes(config: RunConfig) -> Iterator[Problem]:
    """Yield names that two features would give to one column of the encoded data."""
    taken = dict.fromkeys(config.features, "a feature")
    for name, spec in config.features.items():
        made = []
        if isinstance(spec, NumericSpec) and spec.missing_flag:
            made = [missing_flag_name(name)]
        elif isinstance(spec, HistorySpec):
            made = [f"{name}_length", *(channel_name(name, feature) for feature in spec.of)]
        elif isinstance(spec, CategoricalSpec) and spec.separator:
            made = [f"{name}_length", f"{name}_weight"]
        for column in made:
            if column in taken:
                yield Problem(
                    ("features", name), f"makes a column {column!r}, which is {taken[column]} too"
                )
            taken[column] = f"made by {name}"


def _sections(config: RunConfig) -> Iterator[Problem]:
    if config.time and config.time.format:
        yield from _layout(("time", "format"), config.time.format)
    match config.split:
        case TimeSplit() if config.time is None:
            yield Problem(("split",), "a split by time needs time: {column: …}")
        case LeaveLastOut() if config.time is None or config.entity is None:
            yield Problem(("split",), "leave_last_out needs entity and time")
        case HashSplit(kind="user") if config.entity is None and config.split.column is None:
            yield Problem(("split",), "a split by user needs entity, or column")
    wanted = [*(config.evaluate.metrics or ()), *config.evaluate.gates]
    if "gauc" in wanted and config.group_column is None:
        yield Problem(("evaluate",), "gauc needs groups: give evaluate.group or entity")
    if config.train.monitor == "gauc" and config.group_column is None:
        yield Problem(("train", "monitor"), "gauc needs groups: give evaluate.group or entity")


def _model(config: RunConfig) -> Iterator[Problem]:
    options = _model_options(config)
    yield from options
    if options:
        return
    kind = config.model["kind"]
    chosen = config.model.get("features")
    schema = schema_of(config.features, lambda table: _SOME_ROWS)
    parsed = MODELS[kind].config.model_validate(_options(config))
    selected = schema.select(tuple(chosen)) if chosen else schema
    for message in check(kind, selected, parsed):
        yield Problem(("model",), message)


def _options(config: RunConfig) -> dict[str, object]:
    return {key: value for key, value in config.model.items() if key != "kind"}


def _model_options(config: RunConfig) -> list[Problem]:
    """Check the model's section by itself: its kind, its options, the features it names."""
    kind = config.model.get("kind")
    if kind is None:
        return [Problem(("model", "kind"), f"is missing: one of {', '.join(MODELS)}")]
    if kind not in MODELS:
        return [
            Problem(("model", "kind"), f"no model is called {kind!r}{nearest(str(kind), MODELS)}")
        ]
    problems = []
    try:
        MODELS[kind].config.model_validate(_options(config))
    except ValidationError as error:
        problems = [_option_problem(kind, detail) for detail in error.errors()]
    chosen = config.model.get("features") or ()
    names = [*config.features, *_flags(config)]
    for i, name in enumerate(chosen):
        if name not in names:
            hint = nearest(str(name), names)
            problems.append(
                Problem(("model", "features", i), f"no feature is called {name!r}{hint}")
            )
    return problems


def _flags(config: RunConfig) -> list[str]:
    return [
        missing_flag_name(name)
        for name, spec in config.features.items()
        if isinstance(spec, NumericSpec) and spec.missing_flag
    ]


def _option_problem(kind: str, detail: object) -> Problem:
    if not isinstance(detail, dict):
        raise TypeError("pydantic describes errors as mappings")
    path = ("model", *detail["loc"])
    if detail["type"] == "extra_forbidden":
        word, fields = str(path[-1]), list(MODELS[kind].config.model_fields)
        close = get_close_matches(word, fields, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}?" if close else f"{kind} has {', '.join(fields)}"
        return Problem(path, f"unknown key: {hint}")
    return Problem(path, f"{detail['msg']}; got {detail['input']!r}")


def validate_file(
    path: Path, overrides: Sequence[str] = (), date: str | None = None
) -> tuple[list[str], list[str]]:
    """Check a config file against itself and the headers of its data, everything at once.

    Returns:
        (problems, notes), one line each.

    Raises:
        ConfigError: The file cannot be read at all.
    """
    document = read_document(path, overrides)
    config, problems = parse(document)
    if config is None:
        return describe(path, document, problems).split("\n")[1:], []
    problems += find_problems(config)
    lines = describe(path, document, problems).split("\n")[1:] if problems else []
    try:
        notes = check_data(config, date)
    except (InputRejected, ConfigError) as error:
        return [*lines, *str(error).split("\n")], find_notes(config)
    return lines, [*notes, *find_notes(config)]
