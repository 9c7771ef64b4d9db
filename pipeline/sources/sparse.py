# SPDX-License-Identifier: Apache-2.0
"""Lines of libsvm, libfm and libffm files: their grammar, their columns, and what breaks it.

`label[ qid:N] index:value index:value …` and `label field:index:value …`, cut by spaces and tabs;
from # on a line is a comment.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config_data import SPARSE_COLUMNS, FilesConfig, Format, value_column
from pipeline.config_lists import LIST_COLUMN
from pipeline.errors import InputRejected

FIELD_COLUMN = re.compile(r"field_(0|[1-9]\d*)")
"""Columns of a libffm file without `fields`, by number from 0."""

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_ONE = r"\+?0*1(?:\.0*)?(?:[eE][-+]?0+)?"
# of these patterns the engine (RE2) and Python understand the same
_COUNTED = {0: "0*[0-9]{1,19}", 1: "0*[1-9][0-9]{0,18}"}
_QID = "qid:[0-9]+"
_CUT = re.compile(r"[ \t\r]+")
_SHOWN = 40
_INFINITE = 2.0**128 - 2.0**103
"""From here on numbers round to the infinity of float32."""


@dataclass(frozen=True)
class Grammar:
    """What lines of a file must look like.

    Attributes:
        format: libsvm or libffm.
        base: What indices and fields are counted from.
        fields: Names of the fields, or None.
        dull: Of libsvm, the fields whose value must be 1, as nothing reads it.
    """

    format: Format
    base: int
    fields: tuple[str, ...] | None = None
    dull: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        source_format: Format,
        config: FilesConfig,
        base: int | None,
        wanted: frozenset[str] = frozenset(),
    ) -> "Grammar":
        """Return the grammar of a file, of which the columns `wanted` are read."""
        dull = {f for f in config.fields or () if f in wanted and value_column(f) not in wanted}
        is_libsvm = source_format == "libsvm"
        return cls(
            source_format, base or 0, config.fields, frozenset(dull) if is_libsvm else frozenset()
        )

    @property
    def by_position(self) -> bool:
        """Whether the items of a row are its fields, in order."""
        return self.format == "libsvm" and self.fields is not None

    @property
    def pattern(self) -> str:
        """A regular expression for a line without its comment and the spaces around."""
        head = _NUMBER
        if self.format == "libsvm":
            head += f"(?: +{_QID})?"
        if self.by_position:
            return head + "".join(f" +(?:{self.item(i)})" for i in range(len(self.fields or ())))
        return f"{head}(?: +(?:{self.item()}))*"

    def item(self, position: int = 0) -> str:
        """Return a regular expression for an item, of a position where that matters."""
        index = _COUNTED[self.base]
        if self.format == "libffm":
            return f"(?:{self._field()}):{index}:{_NUMBER}"
        dull = self.by_position and (self.fields or ())[position] in self.dull
        return f"{index}(?::{_ONE if dull else _NUMBER})?"

    def _field(self) -> str:
        if self.fields is None:
            return "[1-9][0-9]{0,5}" if self.base else "0|[1-9][0-9]{0,5}"
        return "|".join(str(i + self.base) for i in range(len(self.fields)))

    def problem(self, line: str) -> str | None:
        """Say which token of a line is wrong and what was expected, None if nothing is."""
        label, *items = tokens(line)
        if not re.fullmatch(_NUMBER, label):
            return (
                f"label {_shown(label)}: expected -1, 0, 1 or another number, as in {self._example}"
            )
        if self.format == "libsvm" and items and re.fullmatch(_QID, items[0]):
            items = items[1:]
        for i, item in enumerate(items):
            known = not self.by_position or i < len(self.fields or ())
            if known and not re.fullmatch(self.item(i), item):
                return self._item_problem(item, i)
        if self.by_position and len(items) != len(self.fields or ()):
            found = "1 feature" if len(items) == 1 else f"{len(items)} features"
            return f"{found} found, {len(self.fields or ())} expected, as fields names"
        return None if self.by_position else _value_problem(items)

    def _item_problem(self, item: str, position: int) -> str:
        names = self.fields or ()
        if self.by_position and re.fullmatch(f"{_COUNTED[self.base]}:{_NUMBER}", item):
            name = names[position]
            return (
                f"{_shown(item)}: the value of {name} is not 1 and nothing reads it; give a "
                f"numeric feature {value_column(name)}, or write 1"
            )
        form = "field:index:value" if self.format == "libffm" else "index:value or index"
        counted = f"whole numbers of {self.base} or more and a finite value"
        last = self.base + len(names) - 1
        fields = f", fields {self.base} to {last}" if names and self.format == "libffm" else ""
        return f"{_shown(item)}: expected {form}, {counted}{fields}, as in {self._example}"

    @property
    def _example(self) -> str:
        item = "3:0.5"
        return f"'1 2:{item}'" if self.format == "libffm" else f"'1 {item}'"


def _value_problem(items: Sequence[str]) -> str | None:
    """Say which item of a list has a value that no float32 holds, None if none has."""
    for item in items:
        _, colon, value = item.rpartition(":")
        if colon and abs(float(value)) >= _INFINITE:
            return f"{_shown(item)}: the value is beyond the largest float32, which is 3.4e38"
    return None


def without_comment(line: str) -> str:
    """Return what a line says."""
    return line.split("#", 1)[0].strip(" \t\r\n")


def tokens(line: str) -> list[str]:
    """Return the label, the query and the items of a line."""
    return _CUT.split(without_comment(line))


def _shown(token: str) -> str:
    return repr(token if len(token) <= _SHOWN else token[:_SHOWN] + "…")


def sparse_columns(path: Path, text: str, grammar: Grammar) -> tuple[str, ...]:
    """Return the columns of a file from its start.

    Raises:
        InputRejected: No line is well-formed.
    """
    lines = list(_bodies(text))
    good = [body for body in lines if re.fullmatch(grammar.pattern, " ".join(_CUT.split(body)))]
    if lines and not good:
        raise InputRejected(
            f"{path}: no line is {grammar.format}; the first is {_shown(lines[0])}: "
            f"{grammar.problem(lines[0])}. Check format, index_base and fields"
        )
    names = grammar.fields or ()
    label, qid = SPARSE_COLUMNS
    if grammar.format == "libffm":
        found = {int(item.split(":")[0]) for body in good for item in _CUT.split(body)[1:]}
        return (label, *(names or (f"field_{n - grammar.base}" for n in sorted(found))))
    ranked = [qid] if any(re.search(rf"[ \t]{_QID}([ \t]|$)", body) for body in good) else []
    columns = [*names, *map(value_column, names)] if names else [LIST_COLUMN]
    return (label, *ranked, *columns)


def _bodies(text: str) -> Iterator[str]:
    """Yield the lines of a file's start without comments; the last one may be cut off."""
    for line in text.split("\n"):
        body = without_comment(line)
        if body:
            yield body
