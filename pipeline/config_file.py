# SPDX-License-Identifier: Apache-2.0
"""Read a config file and say everything that is wrong with it at once, with line and column."""

import copy
import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase
from ruamel.yaml.error import MarkedYAMLError

from pipeline.config import RunConfig
from pipeline.errors import ConfigError

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and the key it is wrong at."""

    path: KeyPath
    message: str


def load_config(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read, override and check a config without looking at any data.

    Args:
        path: YAML 1.2 file.
        overrides: `key.path=value` texts, values written as in YAML.

    Raises:
        ConfigError: With all problems, one a line: file, line, column, key path, what to do.
    """
    document = read_document(path, overrides)
    config, problems = parse(document)
    if config is not None:
        from pipeline.checks import find_problems  # imports TensorFlow for the models' configs

        problems = [*problems, *find_problems(config)]
    if problems:
        raise ConfigError(describe(path, document, problems))
    if config is None:
        raise AssertionError("a config without problems parses")
    return config


def read_document(path: Path, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the mapping in a config file with `key.path=value` overrides put in.

    Raises:
        ConfigError: The file cannot be read, or an override is not of that form.
    """
    document = read_yaml(path)
    for override in overrides:
        _override(document, override)
    return document


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, with the position of each key.

    Raises:
        ConfigError: The file is missing, is not YAML, or holds no mapping.
    """
    try:
        document = YAML(typ="rt").load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not valid YAML: {error.problem}") from error
    if not isinstance(document, dict):
        raise ConfigError(
            f"{path}: expected a mapping with name, data, features …; got {document!r}"
        )
    return document


def _override(document: dict[str, Any], override: str) -> None:
    key_path, equals, text = override.partition("=")
    keys = key_path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {override}: expected key.path=value")
    node: Any = document
    for key in keys[:-1]:
        if node.get(key) is None:
            node[key] = {}
        node = node[key]
        if not isinstance(node, dict):
            raise ConfigError(f"--set {override}: {key} holds {node!r}, no keys below it")
    node[keys[-1]] = YAML(typ="safe").load(text)


def parse(document: dict[str, Any]) -> tuple[RunConfig | None, list[Problem]]:
    """Validate a document.

    Wrong keys are taken out and the rest is validated again, so that checks across keys can run
    and a user sees all problems at once.

    Returns:
        The config of what is right, or None when too little is, and the problems.
    """
    candidate = copy.deepcopy(_plain(document))
    problems: list[Problem] = []
    for _ in range(10):
        try:
            return RunConfig.model_validate(candidate), problems
        except ValidationError as error:
            found = [_problem(candidate, detail) for detail in error.errors()]
            problems += [p for p in found if p not in problems]
            if not all([_remove(candidate, problem.path) for problem in found]):
                return None, problems
    return None, problems


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    return node


def _problem(document: dict[str, Any], detail: Any) -> Problem:
    path = _existing_path(document, detail["loc"])
    match detail["type"]:
        case "extra_forbidden":
            message = "unknown key" + _nearest(str(path[-1]), _valid_keys(document, detail["loc"]))
        case "missing":
            path = (*path, detail["loc"][-1])
            message = "is missing"
        case "union_tag_invalid":
            context = detail["ctx"]
            tags = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
            path = (*path, "kind")
            message = f"unknown kind {context['tag']!r}" + _nearest(context["tag"], tags)
        case "union_tag_not_found":
            path = (*path, "kind")
            message = "is missing: say which kind it is"
        case "value_error":
            message = str(detail["ctx"]["error"])
        case _:
            message = f"{detail['msg']}; got {detail['input']!r}"
    return Problem(path, message)


def _existing_path(document: Any, loc: Iterable[str | int]) -> KeyPath:
    # pydantic puts the tag of a union into the location; the document has no such key
    path: list[str | int] = []
    node = document
    for key in loc:
        in_list = isinstance(node, list) and isinstance(key, int) and key < len(node)
        if not in_list and not (isinstance(node, dict) and key in node):
            continue
        node = node[key]
        path.append(key)
    return tuple(path)


def _valid_keys(document: Any, loc: Sequence[str | int]) -> list[str]:
    model: Any = RunConfig
    for key in loc[:-1]:
        model = _descend(model, key)
    return list(model.model_fields) if isinstance(model, type) else []


def _descend(model: Any, key: str | int) -> Any:
    """Follow one key of a pydantic error location down the tree of section classes."""
    from typing import get_args

    if isinstance(model, type) and issubclass(model, BaseModel):
        return model.model_fields[str(key)].annotation if key in model.model_fields else model
    for option in _flatten(model):
        fields = getattr(option, "model_fields", {})
        kind = fields.get("kind")
        if kind is not None and key in get_args(kind.annotation):
            return option
        if key in fields:
            return fields[str(key)].annotation
    return model


def _flatten(annotation: Any) -> Iterable[Any]:
    from typing import get_args

    for argument in get_args(annotation):
        yield argument
        yield from _flatten(argument)


def _nearest(word: str, valid: Sequence[str]) -> str:
    """Return ': did you mean x?' or the list of what is valid."""
    close = difflib.get_close_matches(word, valid, n=1, cutoff=0.5)
    if close:
        return f": did you mean {close[0]!r}?"
    return f": expected one of {', '.join(valid)}" if valid else ""


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint at the valid name that is nearest to `word`, or at all that are valid."""
    return _nearest(word, sorted(valid))


def _remove(document: Any, path: KeyPath) -> bool:
    """Take a wrong key out; return whether the document may be valid without it."""
    if not path:
        return False
    *parents, last = path
    node = document
    for key in parents:
        node = node[key]
    if isinstance(node, dict) and last in node:
        del node[last]
        return True
    if isinstance(node, list) and isinstance(last, int) and last < len(node):
        del node[last]
        return True
    return False


def describe(path: Path, document: Any, problems: Sequence[Problem]) -> str:
    """Return one line per problem: file:line:column: key path: message."""
    lines = []
    for problem in sorted(problems, key=lambda p: _position(document, p.path)):
        line, column = _position(document, problem.path)
        where = f"{path}:{line}:{column}" if line else str(path)
        lines.append(f"{where}: {'.'.join(map(str, problem.path))}: {problem.message}")
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    return f"{path}: {count}\n" + "\n".join(lines)


def _position(document: Any, path: KeyPath) -> tuple[int, int]:
    """Return line and column, from 1, of the deepest key of a path that the file has."""
    position = (0, 0)
    node = document
    for key in path:
        if not isinstance(node, CommentedBase):
            break
        try:
            line, column = node.lc.key(key) if isinstance(node, dict) else node.lc.item(key)
            node = node[key]
        except (KeyError, IndexError, TypeError):
            break
        position = (line + 1, column + 1)
    return position
