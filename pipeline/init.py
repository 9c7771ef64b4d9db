# SPDX-License-Identifier: Apache-2.0
"""A starter config from a file's columns, each guess with its reason."""

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.config import RESERVED_KEYS, DataConfig, EngineConfig, Format
from pipeline.config_data import SPARSE_FORMATS
from pipeline.engine import open_engine
from pipeline.errors import ConfigError, InputRejected
from pipeline.init_columns import TRUTHS, UNITS, ColumnGuess, label_of, time_of, user_of
from pipeline.init_names import feature_names, history_name
from pipeline.init_size import train_lines
from pipeline.init_sparse import model_line, sparse_starter
from pipeline.init_text import data_config, text_lines
from pipeline.sources.files import SourceFile, format_of, inspect, match_files
from pipeline.sources.scan import readable, scan_files
from pipeline.sources.sql import Wanted

SAMPLE_ROWS = 10_000
_KEYS = ("id", "impression_id", "row_id", "event_id", "request_id")
_ITEM = re.compile(r"item|product|asin|adgroup|ad_id|movie")
_QUANTITY = re.compile(r"price|count|cnt|num|age$|score|amount|quantity|qty|rate|size|length")
_FEW_VALUES = 20
_SHOWN = 30
"""Characters of a value in a comment."""
_LAYOUTS = ("%y%m%d%H", "%Y%m%d")
"""What 8 digits may be."""
_MOMENTS = ("hour", "weekday")


def starter_config(path: Path, source_format: Format | None = None) -> str:
    """Return the YAML of a config for a data file, or for files that a glob means.

    Args:
        path: The file or glob; of several files the first is looked at.
        source_format: How they are written; by their ending when not given.

    Raises:
        InputRejected: The file cannot be read or has no rows.
        ConfigError: The ending does not say the format.
    """
    files = match_files(str(path))
    config = data_config(files[0], source_format)
    if format_of(files[0], config) in SPARSE_FORMATS:
        lines = sparse_starter(files, config)
        return "\n".join([*_first_lines(path, "MiB", files), *lines]) + "\n"
    file = inspect(files[0], config)
    columns = _sample(file, config)
    labelled, timed = label_of(columns), time_of(columns)
    label, time, user = labelled.column, timed.column, user_of(columns)
    keys = [column.name for column in columns if column.name.lower() in _KEYS]
    lines = [
        *_first_lines(path, f"{columns[0].rows:,} rows", files),
        *text_lines(config),
        *_label_lines(label, labelled.why),
        *_time_lines(time, timed.why),
        *_entity_lines(user),
        *_key_lines(keys),
        *_split_lines(time),
        "features:",
    ]
    used = {column.name for column in (label, time) if column} | set(keys)
    features = [column for column in columns if column.name not in used]
    moments = _time_features(time)
    if not moments:
        _require_values(file.path, columns, used)
    names = feature_names(
        [column.name for column in features],
        [column.name for column in features if column.has_several],
        _MOMENTS if moments else (),
    )
    for column in features:
        lines += _feature_lines(column, names[column.name], user)
    lines += moments
    lines += [*_model_lines(user, time, features, label, names), *train_lines(file, files)]
    return "\n".join(lines) + "\n"


def _require_values(path: Path, columns: list[ColumnGuess], used: set[str]) -> None:
    if any(column.name not in used and (column.values or column.is_list) for column in columns):
        return
    others = ", ".join(column.name for column in columns if column.name in used)
    raise InputRejected(
        f"{path}: has no column to make a feature of: beside {others or 'empty ones'} there must "
        "be one with values"
    )


def known_format(text: str | None) -> Format | None:
    """Return a format by its name.

    Raises:
        ConfigError: There is no such format.
    """
    formats: dict[str, Format] = {name: name for name in get_args(Format)}
    if text is not None and text not in formats:
        raise ConfigError(f"--format {text}: expected one of {', '.join(formats)}")
    return formats[text] if text else None


def _first_lines(path: Path, sample: str, files: Sequence[Path]) -> list[str]:
    of_which = "" if len(files) == 1 else f" of {files[0].name}"
    stem = path.name.split(".")[0]
    name = re.sub(r"[^A-Za-z0-9_-]", "_", stem) if re.search(r"[A-Za-z0-9]", stem) else "log"
    return [
        f"# Starter config for {path.name}: every guess below is from the first",
        f"# {sample}{of_which}. Check it, then: clickloom validate THIS_FILE",
        f"name: {_quoted(name.lstrip('-'))}",
        "data:",
        f"  files: {_quoted(str(path))}",
    ]


def _sample(file: SourceFile, config: DataConfig) -> list[ColumnGuess]:
    names = [name for name in file.columns if name]
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            raise InputRejected(
                f"{file.path}: columns {other!r} and {name!r} differ only in upper and lower case, "
                "which the engine does not tell apart; rename one at the source"
            )
    with (
        tempfile.TemporaryDirectory(prefix="clickloom-") as work,
        open_engine(EngineConfig(), Path(work) / "engine") as connection,
    ):
        scan = next(scan_files(connection, [file], config, [Wanted(name) for name in names]))
        with readable([file]):
            table = scan.table.limit(SAMPLE_ROWS).to_pyarrow()
    if not len(table):
        raise InputRejected(f"{file.path}: has no rows to guess from")
    return [_guess(name, table[name]) for name in names]


def _guess(name: str, column: pa.ChunkedArray) -> ColumnGuess:
    is_list = pa.types.is_list(column.type)
    if pa.types.is_nested(column.type):
        return ColumnGuess(name, [], 0, len(column), is_list)
    texts = column.cast(pa.string())
    present = texts.filter(pc.and_(texts.is_valid(), pc.not_equal(texts, "")))
    values = present.to_pylist()
    is_list = bool(values) and all(value.startswith("[") for value in values)  # of JSON
    return ColumnGuess(name, values, len(pc.unique(present)), len(column), is_list)


def _shown(value: str) -> str:
    """Return the start of a value as a comment may hold it: a line break would end the comment."""
    return "".join(c if c.isprintable() else " " for c in value[:_SHOWN])


def _quoted(text: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text) and text.lower() not in (
        "null",
        "true",
        "false",
    )
    return text if plain else json.dumps(text, ensure_ascii=False)


def _label_lines(label: ColumnGuess | None, why: str) -> list[str]:
    if label is None:
        return [f"label: {{column: CHANGE_ME}}  # {why}: name yours"]
    values = sorted(set(label.values))
    shown = ", ".join(map(_shown, values[:6]))
    column = _quoted(label.name)
    if {value.lower() for value in values} <= TRUTHS:
        return [f"label: {{column: {column}}}  # {why or f'holds {shown}'}"]
    if label.is_number:
        return [
            f"label: {{column: {column}, positive: '>= 4'}}"
            f"  # holds {shown}: say which are positive"
        ]
    return [
        f"label: {{column: {column}, positive: [CHANGE_ME]}}"
        f"  # holds {shown}: say which are positive"
    ]


def _time_options(time: ColumnGuess) -> str | None:
    first = time.values[0] if time.values else ""
    if time.is_number:
        digits = len(first.split(".")[0].lstrip("-"))
        layouts = [layout for layout in _LAYOUTS if all(_reads(v, layout) for v in time.values)]
        if digits == 8 and len(layouts) == 1:  # 20120105 may be a day of 2012 or an hour of 2020
            return f"format: '{layouts[0]}'"
        unit = UNITS.get(digits)
        return f"unit: {unit}" if unit else None
    iso = re.fullmatch(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}.*)?", first)
    return "" if iso else None


def _reads(text: str, layout: str) -> bool:
    try:
        datetime.strptime(text, layout)
    except ValueError:
        return False
    return True


def _time_lines(time: ColumnGuess | None, why: str) -> list[str]:
    if time is None:
        return [f"# time: {{column: …}}  # {why}: add it if there is one"]
    options = _time_options(time)
    example = _shown(time.values[0]) if time.values else "nothing"
    if options is None:
        return [
            f"time: {{column: {_quoted(time.name)}, format: CHANGE_ME}}"
            f"  # holds {example}: give unit or format"
        ]
    extra = f", {options}" if options else ""
    reason = f"{why}, such as {example}" if why else f"holds {example}"
    return [f"time: {{column: {_quoted(time.name)}{extra}}}  # {reason}"]


def _entity_lines(user: ColumnGuess | None) -> list[str]:
    if user is None:
        return ["# entity: …  # whose histories and GAUC: no column is called like a user"]
    return [f"entity: {_quoted(user.name)}  # whose histories are built, and groups of GAUC"]


def _key_lines(keys: Sequence[str]) -> list[str]:
    own = [key for key in keys if key.lower() in RESERVED_KEYS]
    but = f"; not {', '.join(own)}, as they have one so called" if own else ""
    kept = ", ".join(_quoted(key) for key in keys if key not in own)
    return [f"keys: [{kept}]  # carried to predictions{but}"]


def _split_lines(time: ColumnGuess | None) -> list[str]:
    if time is None:
        return [
            "split: {kind: hash, valid: 0.1, test: 0.1}  # no time: split at random, but stably"
        ]
    return ["split: {kind: time, valid: 0.1, test: 0.1}  # train on the past, test on the newest"]


def _feature_lines(column: ColumnGuess, name: str, user: ColumnGuess | None) -> list[str]:
    other = "" if name == column.name else f", column: {_quoted(column.name)}"
    if column.is_list:
        return [f"  {name}: {{kind: categorical, separator: '|'{other}}}  # a list in the file"]
    if not column.values:
        return [f"  # {name}: left out, it is empty in the sample or holds several values"]
    if column.separator:
        example = _shown(next(v for v in column.values if column.separator in v))
        cut = f"separator: '{column.separator}'"
        return [f"  {name}: {{kind: categorical, {cut}{other}}}  # e.g. {example}"]
    count = f"{column.distinct:,} distinct"
    if _is_numeric(column, user):
        return [f"  {name}: {{kind: numeric{other}}}  # numbers, {count}"]
    rare = ", min_count: 2" if column.distinct > _FEW_VALUES else ""
    hint = "; a quantity? then kind: numeric" if column.is_whole and rare else ""
    return [f"  {name}: {{kind: categorical{rare}{other}}}  # {count} values{hint}"]


def _is_numeric(column: ColumnGuess, user: ColumnGuess | None) -> bool:
    quantity = _QUANTITY.search(column.name.lower()) is not None
    return column is not user and column.is_number and (quantity or not column.is_whole)


def _has_one_id(column: ColumnGuess, user: ColumnGuess | None) -> bool:
    """Whether `_feature_lines` makes it a categorical feature of which a history may be."""
    return bool(column.values) and not column.has_several and not _is_numeric(column, user)


def _time_features(time: ColumnGuess | None) -> list[str]:
    if time is None or (options := _time_options(time)) is None:
        return []
    extra = f", {options}" if options else ""
    column = _quoted(time.name)
    return [
        f"  {part}: {{kind: datetime, column: {column}{extra}, part: {part}}}" for part in _MOMENTS
    ]


def _model_lines(
    user: ColumnGuess | None,
    time: ColumnGuess | None,
    features: list[ColumnGuess],
    label: ColumnGuess | None,
    names: Mapping[str, str],
) -> list[str]:
    items = [c for c in features if _ITEM.search(c.name.lower()) and _has_one_id(c, user)]
    if user and time and items and label and items[0] is not user:
        item = names[items[0].name]
        lists = [column.name for column in features if column.has_several]
        name = history_name(item, names, lists, _MOMENTS if _time_features(time) else ())
        return [
            f"  {name}: {{kind: history, of: [{item}]}}  # the user's past positives",
            "model: {kind: din}  # weighs the history by the candidate; see: clickloom models",
        ]
    usable = [column for column in features if column.values or column.is_list]
    return [model_line(len(usable) + len(_time_features(time)))]
