# SPDX-License-Identifier: Apache-2.0
"""Checks of the model's section: its options, and the features that it is given."""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from features.space import schema_of
from features.specs import (
    CategoricalSpec,
    FeatureSpec,
    HistorySpec,
    NumericSpec,
    is_past_only,
)
from models.registry import MODELS, check, field_names
from pipeline.config import RunConfig
from pipeline.config_file import Parsed, explain, nearest, nearest_kind
from pipeline.config_yaml import Problem

_SOME_ROWS = 3
"""Stands for table sizes, which only data can tell."""


def model_problems(config: RunConfig, parsed: Parsed) -> Iterator[Problem]:
    """Check the model's options, the features that it names, and whether it can take them."""
    if parsed.has_dropped("model"):
        return
    problems, options = option_problems(config.model)
    yield from problems
    chosen = config.model.get("features")
    if chosen is not None and not isinstance(chosen, list | tuple):
        return  # reported with the options
    sound = _sound(config.features)
    schema = schema_of(sound, lambda table: _SOME_ROWS)
    names = [feature.name for feature in schema.features]
    broken = [name for name in config.features if name not in sound]
    for i, name in enumerate(chosen or ()):
        known = name in names or name in broken or parsed.has_dropped("features", str(name))
        if name in sound and is_past_only(sound[name]):
            yield Problem(("model", "features", i), f"{name!r} is past_only: only the histories "
                          "that carry it take it; take it out")  # fmt: skip
        elif not known:
            hint = nearest(str(name), [*names, *broken])
            yield Problem(("model", "features", i), f"no feature is called {name!r}{hint}")
    if options is None or broken or parsed.has_dropped("features"):
        return
    usable = [name for name in chosen if name in names] if chosen else names
    kind = config.model["kind"]
    fitting = MODELS[kind].config.model_validate(options)
    used = schema.select(tuple(usable))
    for message in check(kind, used, fitting):
        yield Problem(("model",), message)
    yield from _penalties(config, [table.name for table in used.tables])


def model_notes(config: RunConfig) -> Iterator[str]:
    """Yield what is allowed of the model's section but may be unwanted: pairs of a single field."""
    problems, options = option_problems(config.model)
    schema = schema_of(_sound(config.features), lambda table: _SOME_ROWS)
    declared = [feature.name for feature in schema.features]
    chosen = config.model.get("features") or declared
    if problems or options is None or not set(chosen) <= set(declared):
        return  # `model_problems` reports them
    kind = config.model["kind"]
    fitting = MODELS[kind].config.model_validate(options)
    fields = field_names(kind, schema.select(tuple(chosen)), fitting)
    if MODELS[kind].model.forms_pairs and len(fields) == 1:
        yield (
            f"model: {kind} has pairs of fields, and {fields[0]} is the only field: lr scores the "
            "same with fewer weights"
        )


def _penalties(config: RunConfig, tables: Sequence[str]) -> Iterator[Problem]:
    penalties = config.train.table_l2
    for name in penalties if isinstance(penalties, dict) else ():
        if name not in tables:
            hint = nearest(name, tables)
            yield Problem(("train", "table_l2", name), f"the model has no table {name!r}{hint}")


def _sound(specs: Mapping[str, FeatureSpec]) -> dict[str, FeatureSpec]:
    """Return the features that name only features that are there."""
    sound = {}
    for name, spec in specs.items():
        match spec:
            case CategoricalSpec(table=str(table)):
                owner = specs.get(table)
                good = isinstance(owner, CategoricalSpec) and not owner.table
            case HistorySpec():
                good = all(feature in features_with_ids(specs) for feature in spec.of)
            case _:
                good = True
        if good:
            sound[name] = spec
    return sound


def option_problems(model: Mapping[str, Any]) -> tuple[list[Problem], dict[str, Any] | None]:
    """Return what is wrong with a model's section by itself, and its right options.

    The options leave out `features`, and are None where the kind is not known.
    """
    kind = model.get("kind")
    if kind is None:
        return [Problem(("model", "kind"), f"is missing: one of {', '.join(MODELS)}")], None
    if not isinstance(kind, str) or kind not in MODELS:
        hint = nearest_kind(str(kind), MODELS)
        return [Problem(("model", "kind"), f"no model is called {kind!r}{hint}")], None
    options = {key: value for key, value in model.items() if key != "kind"}
    try:
        MODELS[kind].config.model_validate(options)
    except ValidationError as error:
        problems = [_option_problem(kind, detail) for detail in error.errors()]
        wrong = {str(problem.path[1]) for problem in problems if len(problem.path) > 1}
        options = {key: value for key, value in options.items() if key not in wrong}
    else:
        problems = []
    return problems, {key: value for key, value in options.items() if key != "features"}


def _option_problem(kind: str, detail: Any) -> Problem:
    path = ("model", *detail["loc"])
    if detail["type"] != "extra_forbidden":
        return Problem(path, explain(detail))
    word, fields = str(path[-1]), list(MODELS[kind].config.model_fields)
    close = get_close_matches(word, fields, n=1)
    if close:
        return Problem(path, f"unknown key: did you mean {close[0]!r}?")
    kinds: dict[str, list[str]] = {}
    for other, entry in MODELS.items():
        for meant in get_close_matches(word, entry.config.model_fields, n=1):
            kinds.setdefault(meant, []).append(other)
    hint = "".join(f"; {meant} is an option of {', '.join(k)}" for meant, k in kinds.items())
    return Problem(path, f"unknown key: {kind} has {', '.join(fields)}{hint}")


def features_with_ids(specs: Mapping[str, FeatureSpec]) -> list[str]:
    """Return the features that give each row one id, as histories need it."""
    return [
        feature
        for feature, spec in specs.items()
        if not isinstance(spec, NumericSpec | HistorySpec) and not getattr(spec, "separator", None)
    ]
