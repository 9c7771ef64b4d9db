# SPDX-License-Identifier: Apache-2.0
"""YAML as plain values and the position of every key; nothing is lost, not even repeated keys."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipeline.config_data import SHORT_FORMS
from pipeline.errors import ConfigError

KeyPath = tuple[str | int, ...]
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_CONSTRUCTED = (*_NUMBERS, "tag:yaml.org,2002:bool", "tag:yaml.org,2002:null")


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and the key it is wrong at."""

    path: KeyPath
    message: str


@dataclass
class Document:
    """The content of a config file, overrides put in.

    Attributes:
        path: The file.
        content: Plain mappings with text keys, lists and scalars.
        positions: Line and column, from 1, of keys and list items.
        overrides: Texts of `--set` by the key that they set.
        problems: What is wrong with the YAML itself.
    """

    path: Path
    content: dict[str, Any]
    positions: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    overrides: dict[KeyPath, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def where(self, path: KeyPath) -> tuple[int, int, str]:
        """Return line, column and a text for them; of the deepest key of a path that is there."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.overrides:
                return 0, 0, self.overrides[path[:end]]
            if path[:end] in self.positions:
                line, column = self.positions[path[:end]]
                return line, column, f"{self.path}:{line}:{column}"
        made = [text for key, text in self.overrides.items() if key[: len(path)] == path]
        return 0, 0, made[0] if made else str(self.path)


def read_document(path: Path, overrides: Sequence[str] = ()) -> Document:
    """Return what a config file holds, with `key.path=value` overrides put in.

    Raises:
        ConfigError: The file cannot be read as a mapping, or an override is not of that form.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error
    document = Document(path, {})
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{where}: not valid YAML: {error.problem}{_hint(text, mark)}") from error
    except YAMLError as error:
        raise ConfigError(f"{path}: not valid YAML: {error}") from error
    content = _Reader(document).value(node, (), ()) if node else None
    if not isinstance(content, dict):
        raise ConfigError(
            f"{path}: expected a mapping with name, data, features …; got "
            f"{'nothing' if content is None else repr(content)[:80]}"
        )
    document.content = content
    for override in overrides:
        _override(document, override)
    return document


def _hint(text: str, mark: Any) -> str:
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    if "\t" in line:
        return "; indent with spaces, not tabs"
    return '; put a text such as ">= 4" in quotes' if ": >" in line else ""


class _Reader:
    """Turns YAML nodes into plain values; notes positions and problems in a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.constructor = YAML(typ="safe", pure=True).constructor

    def value(self, node: Node, path: KeyPath, parents: tuple[Node, ...]) -> Any:
        if any(node is parent for parent in parents):
            self._problem(path, "refers to itself")
            return None
        match node:
            case MappingNode():
                return self._mapping(node, path, (*parents, node))
            case SequenceNode():
                items = enumerate(node.value)
                return [self._item(item, (*path, i), (*parents, node)) for i, item in items]
            case ScalarNode() if str(node.tag) in _CONSTRUCTED:
                return self.constructor.construct_object(node)
        return node.value  # dates stay the text that they are

    def _item(self, node: Node, path: KeyPath, parents: tuple[Node, ...]) -> Any:
        self._note(path, node)
        return self.value(node, path, parents)

    def _mapping(self, node: MappingNode, path: KeyPath, parents: tuple[Node, ...]) -> Any:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._problem(path, "a key must be a text")
                continue
            key = key_node.value
            if key in found:
                first = self.document.positions[*path, key][0]
                second = key_node.start_mark.line + 1
                self._problem((*path, key), f"stands twice, in lines {first} and {second}")
                continue
            self._note((*path, key), key_node)
            found[key] = self.value(value_node, (*path, key), parents)
        return found

    def _note(self, path: KeyPath, node: Node) -> None:
        mark = node.start_mark
        self.document.positions[path] = (mark.line + 1, mark.column + 1)

    def _problem(self, path: KeyPath, message: str) -> None:
        self.document.problems.append(Problem(path, message))


def _override(document: Document, override: str) -> None:
    key_path, equals, text = override.partition("=")
    keys = key_path.strip().split(".")
    if not equals or not all(keys):
        raise ConfigError(f"--set {override}: expected key.path=value")
    node: Any = document.content
    path: KeyPath = ()
    for i, key in enumerate(keys):
        place: str | int = int(key) if isinstance(node, list) and key.isdecimal() else key
        last = i == len(keys) - 1
        path = (*path, place)
        if isinstance(node, list):
            if not isinstance(place, int) or place >= len(node):
                shown = ".".join(keys[:i])
                raise ConfigError(
                    f"--set {override}: {shown} is a list of {len(node)}; expected a number below"
                )
        elif last or node.get(key) is None:
            node[key] = {}
        if last:
            node[place] = override_value(text)
            break
        if i == 0 and isinstance(node[place], str) and key in SHORT_FORMS:
            node[place] = {SHORT_FORMS[key]: node[place]}
        node = node[place]
        if not isinstance(node, dict | list):
            raise ConfigError(f"--set {override}: {key} holds {node!r}, no keys below it")
    for found in (document.positions, document.overrides):  # of what is replaced
        for below in [key for key in found if key[: len(path)] == path]:
            del found[below]
    document.overrides[path] = f"--set {override}"


def override_value(text: str) -> Any:
    """Return a value as it would stand in YAML; what YAML cannot read, such as >= 4, is text."""
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError:
        return text
    scratch = Document(Path("--set"), {})
    value = _Reader(scratch).value(node, (), ()) if node else None
    return text if scratch.problems else value
