# SPDX-License-Identifier: Apache-2.0
"""Checks across config keys, and of a config against the headers of its data."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from features.inputs import raw_inputs
from features.moments import TimeLayout
from features.schema import length_key, weight_key
from features.specs import (
    CategoricalSpec,
    ColumnSpec,
    DatetimeSpec,
    FeatureSpec,
    HistorySpec,
    NumericSpec,
    channel_name,
    gap_name,
    is_past_only,
    missing_flag_name,
)
from pipeline.checks_model import (
    features_with_ids,
    model_notes,
    model_problems,
    option_problems,
)
from pipeline.config import (
    RESERVED_KEYS,
    RESERVED_NAMES,
    HashSplit,
    LeaveLastOut,
    RunConfig,
    TimeSplit,
)
from pipeline.config_file import Parsed, describe, nearest, parse
from pipeline.config_lists import wrong_separators
from pipeline.config_yaml import KeyPath, Problem, read_document
from pipeline.errors import ConfigError, InputRejected
from pipeline.file_split import parts_of_files
from pipeline.rows import needed_columns
from pipeline.sources.names import look_at_names
from pipeline.sources.source import look_at

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def find_problems(parsed: Parsed, content: Mapping[str, Any]) -> list[Problem]:
    """Return everything that is wrong across the keys of a config, without looking at data.

    Args:
        parsed: The config as far as it is right by itself.
        content: The document that it was read from.
    """
    config = parsed.config
    if config is None:
        section = content.get("model")
        return option_problems(section)[0] if isinstance(section, dict) else []
    problems = [
        *_features(config, parsed),
        *_sections(config, parsed),
        *model_problems(config, parsed),
    ]
    return [p for p in problems if not any(p.path[: len(q)] == q for q in parsed.dropped)]


def find_notes(config: RunConfig) -> list[str]:
    """Return what is allowed but may be unwanted: features left out, pairs of a single field."""
    notes = list(model_notes(config))
    chosen = config.model.get("features")
    if not isinstance(chosen, list | tuple):
        return notes
    in_histories = {feature for _, spec in config.histories() for feature in spec.of}
    unused = [f for f in config.features if f not in chosen and f not in in_histories]
    left_out = [f"features.{name}: declared, but model.features leaves it out" for name in unused]
    return notes + left_out


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
    parsed = parse(document)
    problems = [*parsed.problems, *find_problems(parsed, document.content)]
    notes: list[str] = []
    if parsed.config is not None:
        notes = find_notes(parsed.config)
        if not parsed.has_dropped("data"):
            found, more = check_data(parsed.config, parsed, date)
            problems += found
            notes += more if not parsed.dropped else []
    return describe(document, problems).split("\n")[1:] if problems else [], notes


def check_data(
    config: RunConfig, parsed: Parsed, date: str | None = None
) -> tuple[list[Problem], list[str]]:
    """Compare a config with the headers of its data; return problems, and warnings and notes."""
    clear = {name: spec for name, spec in config.features.items() if name not in _torn(config)}
    readable = config.model_copy(update={"features": clear})
    needs = [n for n in needed_columns(readable) if not parsed.has_dropped(n.path[0])]
    source, found = look_at(config.data, needs, date)
    problems = [Problem(problem.path, str(problem.error)) for problem in found]
    # the parts of files that cannot be found are not known
    files = [] if found else [file.path for file in source.files]
    try:
        parts_of_files(config.split, files, date)
    except (ConfigError, InputRejected) as error:
        problems += [Problem(("split",), line) for line in str(error).split("\n")]
    for feature, names in config.report.names.items():
        problems += [Problem(p.path, str(p.error)) for p in look_at_names(feature, names, date)[1]]
    return problems, [*source.warnings, *source.notes]


def _features(config: RunConfig, parsed: Parsed) -> Iterator[Problem]:
    for name, spec in config.features.items():
        path: KeyPath = ("features", name)
        if not _NAME.fullmatch(name):
            yield Problem(path, "a name has letters, digits and _ only, as it names an input of "
                          "the served model; give the column's own name with column:")  # fmt: skip
        if name in RESERVED_NAMES:
            yield Problem(path, "is a reserved name; choose another and give column:")
        reads_label = isinstance(spec, ColumnSpec) and (spec.column or name) == config.label.column
        if reads_label and not is_past_only(spec):
            yield Problem(path, "reads the label's column: the model would be told the answer")
        if is_past_only(spec) and not _carried(config, parsed, name):
            yield Problem((*path, "past_only"), "only past events have it and no history carries "
                          "it: name it in `of` of a history")  # fmt: skip
        match spec:
            case CategoricalSpec(table=str(table)):
                yield from _shared_table(config, parsed, name, table)
            case DatetimeSpec(format=str(time_format)):
                yield from _layout((*path, "format"), time_format)
            case HistorySpec():
                yield from _history(config, parsed, name, spec)
    for name, why in wrong_separators(config.data, config.features):
        yield Problem(("features", name), why)
    yield from _torn(config).values()
    yield from _clashes(config)


def _carried(config: RunConfig, parsed: Parsed, name: str) -> bool:
    """Return whether a history carries a feature, or one that cannot be read may."""
    return parsed.has_dropped("features") or any(name in spec.of for _, spec in config.histories())


def _layout(path: KeyPath, time_format: str) -> Iterator[Problem]:
    try:
        TimeLayout.of(time_format)
    except ValueError as error:
        yield Problem(path, str(error))


def _shared_table(config: RunConfig, parsed: Parsed, name: str, table: str) -> Iterator[Problem]:
    path = ("features", name, "table")
    owner = config.features.get(table)
    if parsed.has_dropped("features", table):
        return
    if not isinstance(owner, CategoricalSpec):
        categorical = [f for f, s in config.features.items() if isinstance(s, CategoricalSpec)]
        yield Problem(path, f"{table!r} is not a categorical feature{nearest(table, categorical)}")
    elif owner.table:
        yield Problem(path, f"{table!r} has no table of its own; name {owner.table!r}")


def _history(config: RunConfig, parsed: Parsed, name: str, spec: HistorySpec) -> Iterator[Problem]:
    path = ("features", name)
    with_ids = features_with_ids(config.features)
    for i, feature in enumerate(spec.of):
        if feature not in with_ids and not parsed.has_dropped("features", feature):
            listed = getattr(config.features.get(feature), "separator", None) is not None
            what = "is a list, not a" if listed else "is no"
            hint = nearest(feature, with_ids)
            yield Problem((*path, "of", i), f"{feature!r} {what} feature with one id a row{hint}")
    if config.entity is None and not parsed.has_dropped("entity"):
        yield Problem(path, "a history needs to know whose it is: give entity, such as user_id")
    if config.time is None and not parsed.has_dropped("time"):
        yield Problem(path, "a history needs to know when events happened: give time")


def _torn(config: RunConfig) -> dict[str, Problem]:
    """Return, by name, the features that cannot read their column beside the others."""
    readers: dict[str, dict[str, FeatureSpec]] = {}
    for name, spec in config.features.items():
        if isinstance(spec, ColumnSpec):
            readers.setdefault(spec.column or name, {})[name] = spec
    torn: dict[str, Problem] = {}
    for specs in readers.values():
        try:
            raw_inputs(specs)
        except ValueError as error:
            last = list(specs)[-1]
            torn[last] = Problem(("features", last), str(error))
    return torn


def _clashes(config: RunConfig) -> Iterator[Problem]:
    """Yield names that two features would give to one column of the encoded data."""
    taken: dict[str, str] = {}
    for name in config.features:
        if name.lower() in taken:
            yield Problem(
                ("features", name), f"differs from {taken[name.lower()]} only in upper and lower "
                "case; choose another name and give column:")  # fmt: skip
        taken[name.lower()] = f"feature {name!r}"
    for name, spec in config.features.items():
        for column in _made_columns(name, spec):
            if column.lower() in taken:
                yield Problem(
                    ("features", name),
                    f"makes a column {column!r}, which {taken[column.lower()]} is or makes too",
                )
            taken[column.lower()] = f"feature {name!r}"


def _made_columns(name: str, spec: FeatureSpec) -> list[str]:
    """Return the columns of the encoded data that a feature makes beside its own."""
    match spec:
        case NumericSpec(missing_flag=True):
            return [missing_flag_name(name)]
        case HistorySpec():
            gap = [gap_name(name)] if spec.time_gap else []
            channels = [channel_name(name, feature) for feature in spec.of]
            return [length_key(name), *channels, *gap]
        case CategoricalSpec(separator=str()):
            return [length_key(name), weight_key(name)]
    return []


def _sections(config: RunConfig, parsed: Parsed) -> Iterator[Problem]:
    if config.time and config.time.format:
        yield from _layout(("time", "format"), config.time.format)
    has_time = config.time is not None or parsed.has_dropped("time")
    has_entity = config.entity is not None or parsed.has_dropped("entity")
    match config.split:
        case TimeSplit() if not has_time:
            yield Problem(("split",), "a split by time, the default, needs time: {column: …}")
        case LeaveLastOut() if not (has_time and has_entity):
            yield Problem(("split",), "leave_last_out needs entity and time")
        case HashSplit(kind="user", column=None) if not has_entity:
            yield Problem(("split",), "a split by user needs entity, or column")
    for i, key in enumerate(config.keys):
        if key in config.keys[:i]:
            yield Problem(("keys", i), f"{key!r} stands twice")
        if key.lower() in RESERVED_KEYS:
            yield Problem(("keys", i), f"{key!r} is a column of predictions by itself")
    yield from _groups(config, has_entity or parsed.has_dropped("evaluate", "group"))
    yield from _names(config, parsed)


def _names(config: RunConfig, parsed: Parsed) -> Iterator[Problem]:
    """Yield the features under report.names that have no values to name."""
    named = [
        name for name, spec in config.features.items()
        if isinstance(spec, CategoricalSpec) and spec.hash_buckets is None
    ]  # fmt: skip
    for name in config.report.names:
        if name not in named and not parsed.has_dropped("features", name):
            hint = nearest(name, named)
            yield Problem(("report", "names", name),
                          f"is no categorical feature whose values are kept{hint}")  # fmt: skip


def _groups(config: RunConfig, has_entity: bool) -> Iterator[Problem]:
    if config.evaluate.group or has_entity:
        return
    needing: list[KeyPath] = []
    if "gauc" in (config.evaluate.metrics or ()):
        needing.append(("evaluate", "metrics"))
    if "gauc" in config.evaluate.gates:
        needing.append(("evaluate", "gates", "gauc"))
    if config.train.monitor == "gauc":
        needing.append(("train", "monitor"))
    for path in needing:
        yield Problem(path, "gauc needs groups: give evaluate.group or entity")
