# SPDX-License-Identifier: Apache-2.0
"""docs/configuration.md, made from the config classes: `make docs` writes it."""

import sys
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from features.specs import (
    BucketedSpec,
    CategoricalSpec,
    DatetimeSpec,
    HistorySpec,
    NumericSpec,
)
from models.registry import MODELS
from pipeline.config import (
    ColumnSplit,
    DataConfig,
    DriftConfig,
    EngineConfig,
    EvaluateConfig,
    ExportConfig,
    FilesSplit,
    Gate,
    HashSplit,
    JoinConfig,
    LabelConfig,
    LeaveLastOut,
    NamesConfig,
    ReportConfig,
    RunConfig,
    TimeConfig,
    TimeSplit,
)
from pipeline.config_train import (
    FTRL,
    SGD,
    Adagrad,
    Adam,
    AdamW,
    Constant,
    Cosine,
    Plateau,
    TrainConfig,
)

_INTRO = """# Configuration

Made by `make docs` from the classes in `pipeline/config.py`, `features/specs.py` and `models/`; do
not edit it by hand. `clickloom schema` prints the same as a JSON schema for editors, and
`clickloom validate CONFIG` checks a file against it, against itself and against the headers of
its data.

One YAML file (1.2) is one run. `--set key.path=value` overrides one value. Unknown keys are
refused. `{date}` (from `--date`) and `${NAME}` (from the environment) are filled in in paths.
"""
_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("data", DataConfig),
    ("data.joins[…]", JoinConfig),
    ("label", LabelConfig),
    ("time", TimeConfig),
    ("split, kind: time", TimeSplit),
    ("split, kind: hash or user", HashSplit),
    ("split, kind: column", ColumnSplit),
    ("split, kind: files", FilesSplit),
    ("split, kind: leave_last_out", LeaveLastOut),
    ("features.NAME, kind: categorical", CategoricalSpec),
    ("features.NAME, kind: numeric", NumericSpec),
    ("features.NAME, kind: bucketed", BucketedSpec),
    ("features.NAME, kind: datetime", DatetimeSpec),
    ("features.NAME, kind: history", HistorySpec),
    ("train", TrainConfig),
    ("train.*_optimizer, kind: adam", Adam),
    ("train.*_optimizer, kind: adagrad", Adagrad),
    ("train.*_optimizer, kind: sgd", SGD),
    ("train.table_optimizer, kind: ftrl", FTRL),
    ("train.dense_optimizer, kind: adamw", AdamW),
    ("train.schedule, kind: constant", Constant),
    ("train.schedule, kind: plateau", Plateau),
    ("train.schedule, kind: cosine", Cosine),
    ("drift", DriftConfig),
    ("evaluate", EvaluateConfig),
    ("evaluate.gates.METRIC", Gate),
    ("report", ReportConfig),
    ("report.names.FEATURE", NamesConfig),
    ("export", ExportConfig),
    ("engine", EngineConfig),
)


def configuration_markdown() -> str:
    """Return the text of docs/configuration.md."""
    parts = [_INTRO, _section("Top level", RunConfig)]
    parts += [_section(f"`{title}`", model) for title, model in _SECTIONS]
    parts += [
        _section(
            f"`model`, kind: {kind}",
            entry.config,
            entry.summary[0].upper() + entry.summary[1:] + ".",
        )
        for kind, entry in MODELS.items()
    ]
    return "\n".join(parts)


def _section(title: str, model: type[BaseModel], summary: str | None = None) -> str:
    text = summary or (model.__doc__ or "").strip().split("\n")[0]
    lines = [f"## {title}\n", text + "\n", *_table(model)]
    return "\n".join(lines) + "\n"


def _table(model: type[BaseModel]) -> Iterator[str]:
    fields = {name: field for name, field in model.model_fields.items() if name != "kind"}
    if not fields:
        return
    yield "| key | value | default | meaning |"
    yield "|---|---|---|---|"
    for name, field in fields.items():
        meaning = (field.description or "see below").replace("|", "\\|")
        yield f"| `{name}` | {type_text(field.annotation)} | {default_text(field)} | {meaning} |"


def default_text(field: Any) -> str:
    """Return the default of a field in Markdown."""
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, BaseModel):
        return "see below"
    if field.default is None or field.default in ((), {}):
        return "–"
    if isinstance(field.default, tuple):
        return f"`[{', '.join(repr(item) for item in field.default)}]`"
    return f"`{str(field.default).lower() if isinstance(field.default, bool) else field.default}`"


_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def type_text(annotation: Any) -> str:
    """Return the type of a field in words, in Markdown."""
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated
        return type_text(arguments[0])
    match get_origin(annotation):
        case origin if origin is Literal:
            text = ", ".join(f"`{value}`" for value in arguments)
        case origin if origin in (Union, UnionType):
            kinds = [type_text(argument) for argument in arguments if argument is not NoneType]
            text = " or ".join(dict.fromkeys(kinds))
        case origin if origin is tuple:
            text = "list of " + type_text(arguments[0])
        case origin if origin is dict:
            text = "mapping"
        case _:
            text = _NAMES.get(annotation, "section")
    return text


if __name__ == "__main__":
    sys.stdout.write(configuration_markdown())
