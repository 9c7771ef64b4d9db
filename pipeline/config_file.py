# SPDX-License-Identifier: Apache-2.0
"""Read a config file and say everything that is wrong with it at once, with line and column."""

import copy
import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from pipeline.config import FORMS, RunConfig
from pipeline.config_yaml import Document, KeyPath, Problem, read_document
from pipeline.errors import ConfigError

__all__ = [
    "KeyPath",
    "Problem",
    "describe",
    "explain",
    "load_config",
    "nearest",
    "nearest_kind",
    "parse",
]

_MOST_SHOWN = 20
_ROUNDS = 20
_STAND_INS: Mapping[str, Any] = {
    "name": "unnamed",
    "data": {"files": "?"},
    "label": {"column": "?"},
    "model": {},
}
"""Stand for required parts that are wrong, so that the others can be checked."""
_EXPECTED = {
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "bool_parsing": "expected true or false",
    "int_type": "expected a whole number",
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "float_parsing": "expected a number",
    "finite_number": "expected a finite number",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
    "model_attributes_type": "expected keys and values",
}


@dataclass(frozen=True)
class Parsed:
    """What is right in a document.

    Attributes:
        config: The config without its wrong parts; None if too little is left.
        problems: What is wrong.
        dropped: Paths of the parts that were left out.
    """

    config: RunConfig | None
    problems: tuple[Problem, ...]
    dropped: frozenset[KeyPath] = frozenset()

    def has_dropped(self, *path: str | int) -> bool:
        """Return whether a part, something in it, or something that it is in was left out."""
        return any(_within(path, gone) or _within(gone, path) for gone in self.dropped)


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read, override and check a config without looking at any data.

    Args:
        path: YAML 1.2 file.
        overrides: `key.path=value` texts, values written as in YAML.

    Raises:
        ConfigError: With all problems, one a line: file, line, column, key path, what to do.
    """
    from pipeline.checks import find_problems  # imports TensorFlow for the models' configs

    document = read_document(path, overrides)
    parsed = parse(document)
    problems = [*parsed.problems, *find_problems(parsed, document.content)]
    if problems or parsed.config is None:
        raise ConfigError(describe(document, problems))
    return parsed.config


def parse(document: Document) -> Parsed:
    """Validate a document.

    Wrong parts are left out and the rest is validated again, so that checks across keys can run
    and a user sees all problems at once.
    """
    # a section whose keys are all commented out reads as null
    candidate = {k: v for k, v in copy.deepcopy(document.content).items() if v is not None}
    problems = list(document.problems)
    dropped: set[KeyPath] = set()
    for _ in range(_ROUNDS):
        try:
            config = RunConfig.model_validate(candidate)
        except ValidationError as error:
            found = [_problem(candidate, detail) for detail in error.errors()]
        else:
            return Parsed(config, tuple(problems), frozenset(dropped))
        # what a part that was left out leads to is no problem of its own
        new = [p for p in found if not Parsed(None, (), frozenset(dropped)).has_dropped(*p.path)]
        problems += [p for p in new if p not in problems]
        # later places of a list first, so that earlier ones do not move
        paths = sorted({p.path for p in found}, key=_place, reverse=True)
        gone = {_drop(candidate, path) for path in paths}
        if None in gone:
            break
        dropped |= {path for path in gone if path is not None}
    return Parsed(None, tuple(problems), frozenset(dropped))


def _place(path: KeyPath) -> list[tuple[int, str]]:
    return [(key, "") if isinstance(key, int) else (-1, key) for key in path]


def _within(path: KeyPath, other: KeyPath) -> bool:
    return path[: len(other)] == other


def _drop(candidate: dict[str, Any], path: KeyPath) -> KeyPath | None:
    """Take a wrong part out; return its path, or None if nothing can stand in for it."""
    if not path:
        return None
    *parents, last = path
    node: Any = candidate
    for key in parents:
        node = node[key] if _has(node, key) else None
    if _has(node, last):
        del node[last]
        return path
    # a key that is missing, or that says which kind of section this is: the whole section
    if path[0] == "features" and len(path) > 1 and _has(candidate.get("features"), path[1]):
        del candidate["features"][path[1]]
        return path[:2]
    section = str(path[0])
    if section in _STAND_INS and candidate.get(section) != _STAND_INS[section]:
        candidate[section] = copy.deepcopy(_STAND_INS[section])
        return path[:1]
    if section in candidate and section not in _STAND_INS:
        del candidate[section]
        return path[:1]
    return None


def _has(node: Any, key: str | int) -> bool:
    if isinstance(node, list):
        return isinstance(key, int) and key < len(node)
    return isinstance(node, dict) and key in node


def _problem(document: dict[str, Any], detail: Any) -> Problem:
    path = _existing_path(document, detail["loc"])
    match detail["type"]:
        case "missing":
            return Problem((*path, detail["loc"][-1]), "is missing")
        case "union_tag_not_found":
            return Problem((*path, "kind"), "is missing: say which kind it is")
        case "union_tag_invalid":
            context = detail["ctx"]
            tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            hint = nearest_kind(str(context["tag"]), tags)
            return Problem((*path, "kind"), f"unknown kind {context['tag']!r}{hint}")
        case "extra_forbidden":
            valid = _valid_keys(detail["loc"])
            return Problem(path, _unknown_key(str(path[-1]), valid))
    return Problem(path, explain(detail))


def explain(detail: Any) -> str:
    """Say in plain words what pydantic found wrong with a value."""
    got = f"got {detail['input']!r}"[:120]
    match detail["type"]:
        case "value_error":
            return str(detail["ctx"]["error"])
        case "literal_error":
            allowed = [text.strip(" '") for text in detail["ctx"]["expected"].split(",")]
            allowed = [part.strip(" '") for text in allowed for part in text.split("' or '")]
            close = difflib.get_close_matches(str(detail["input"]), allowed, n=1, cutoff=0.6)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"expected one of {', '.join(allowed)}; {got}{hint}"
    expected = _EXPECTED.get(detail["type"])
    if detail["type"] in ("too_short", "too_long"):
        bound, few = ("min_length", "at least") if "short" in detail["type"] else (
            "max_length", "at most")  # fmt: skip
        expected = f"expected {few} {detail['ctx'][bound]}"
    elif detail["type"] == "string_pattern_mismatch":
        expected = f"expected {FORMS[detail['ctx']['pattern']]}"
    elif expected is None:
        expected = detail["msg"].replace("Input should be", "expected")
    return f"{expected}; {got}"


def _unknown_key(word: str, valid: Sequence[str]) -> str:
    if meant := _meant(word, valid):
        return f"unknown key{meant}"
    homes = [name for name, keys in _section_keys().items() if word in keys]
    if homes:
        return f"unknown key: it belongs in {' or '.join(homes)}"
    return f"unknown key{_nearest(word, valid)}"


def _section_keys() -> dict[str, set[str]]:
    sections: dict[str, set[str]] = {"the top level": set(RunConfig.model_fields)}
    for name, info in RunConfig.model_fields.items():
        for model in _models_in(info.annotation):
            sections.setdefault(name, set()).update(model.model_fields)
    return sections


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _existing_path(document: Any, loc: Iterable[str | int]) -> KeyPath:
    # pydantic puts the tag of a union into the location; the document has no such key
    path: list[str | int] = []
    node = document
    for key in loc:
        if _has(node, key):
            node = node[key]
            path.append(key)
    return tuple(path)


def _valid_keys(loc: Sequence[str | int]) -> list[str]:
    """Return the keys of the section in which pydantic found an unknown one."""
    options: list[Any] = [RunConfig]
    for key in loc[:-1]:
        models = [model for option in options for model in _models_in(option)]
        tagged = [m for m in models if "kind" in m.model_fields and key in _kinds(m)]
        fields = [m.model_fields[str(key)] for m in models if str(key) in m.model_fields]
        if tagged:
            options = list(tagged)
        elif fields:
            options = [info.annotation for info in fields]
    models = [model for option in options for model in _models_in(option)]
    return list(dict.fromkeys(name for model in models for name in model.model_fields))


def _kinds(model: type[BaseModel]) -> tuple[Any, ...]:
    return get_args(model.model_fields["kind"].annotation)


def _meant(word: str, valid: Sequence[str]) -> str:
    """Return ': did you mean x?' where a valid word is near, else an empty text."""
    close = difflib.get_close_matches(word, valid, n=1, cutoff=0.6)
    return f": did you mean {close[0]!r}?" if close else ""


def _nearest(word: str, valid: Sequence[str]) -> str:
    """Return ': did you mean x?' or the list of what is valid."""
    if meant := _meant(word, valid):
        return meant
    more = f" and {len(valid) - _MOST_SHOWN} more" if len(valid) > _MOST_SHOWN else ""
    return f": expected one of {', '.join(valid[:_MOST_SHOWN])}{more}" if valid else ""


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint at the valid name that is nearest to `word`, or at all that are valid."""
    return _nearest(word, sorted(set(valid)))


def nearest_kind(word: str, kinds: Iterable[str]) -> str:
    """Return a hint at the kind that is nearest to `word`, if one is near, and at all there are."""
    names = list(kinds)
    return f"{_meant(word, names) or ':'} kinds are {', '.join(names)}"


def describe(document: Document, problems: Iterable[Problem]) -> str:
    """Return a count and one line per problem: file:line:column: key path: message."""
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: document.where(problem.path)[:2])
    lines = [
        f"{document.where(problem.path)[2]}: {'.'.join(map(str, problem.path))}: {problem.message}"
        for problem in ordered
    ]
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return "\n".join([f"{document.path}: {count}", *lines])
