# SPDX-License-Identifier: Apache-2.0
"""A starter config from a libsvm, libfm or libffm file."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.config import DataConfig
from pipeline.config_lists import LIST_COLUMN
from pipeline.errors import InputRejected
from pipeline.init_size import train_lines
from pipeline.sources.files import inspect, open_bytes
from pipeline.sources.sparse import Grammar, tokens

_HEAD_BYTES = 1 << 20
_FEWEST_FIELDS = 2


@dataclass(frozen=True)
class _Sample:
    """What the start of a file shows: labels, and the items of each row."""

    labels: list[str]
    rows: list[list[str]]

    @property
    def smallest(self) -> int:
        """The smallest index, or field where there are any."""
        return min((int(n) for row in self.rows for n in _numbers(row)), default=0)

    @property
    def longest(self) -> int:
        """The largest number of items in a row."""
        return max(1, *map(len, self.rows))

    def most_by_field(self) -> dict[int, int]:
        """Return, of libffm, the largest number of items that a row has of each field."""
        most: Counter[int] = Counter()
        for row in self.rows:
            most |= Counter(int(item.split(":")[0]) for item in row)
        return dict(sorted(most.items()))


def _numbers(items: list[str]) -> list[str]:
    """Return the indices of items, and their fields."""
    return [number for item in items for number in item.split(":")[: max(1, item.count(":"))]]


def sparse_starter(files: Sequence[Path], config: DataConfig) -> list[str]:
    """Return the lines of a config but its name, from the first of its files.

    Raises:
        InputRejected: The file cannot be read or has no rows.
    """
    file = inspect(files[0], config)
    with open_bytes(file.path, file.compression) as stream:
        text = stream.read(_HEAD_BYTES).decode(errors="replace")
    grammar = Grammar.of(file.format, config, None)
    lines = [line for line in text.split("\n")[: -1 if len(text) == _HEAD_BYTES else None] if line]
    cut = [tokens(line) for line in lines if grammar.problem(line) is None]
    if not cut:
        raise InputRejected(f"{file.path}: has no rows to guess from")
    start = 2 if "qid" in file.columns else 1
    sample = _Sample([row[0] for row in cut], [row[start:] for row in cut])
    base = min(1, sample.smallest)
    return [
        f"  format: {file.format}",
        f"  index_base: {base}  # the smallest number in the sample is {sample.smallest}",
        *_fields_hint(file.format, sample),
        _label(sample),
        "split: {kind: hash, valid: 0.1, test: 0.1}  # for files that are divided: kind: files",
        *(["evaluate: {group: qid}  # groups of GAUC"] if "qid" in file.columns else []),
        "features:",
        *(features := _features(file.columns, sample, base)),
        model_line(len(features)),
        *train_lines(file, files),
    ]


def model_line(num_fields: int) -> str:
    """Return the line with the model of so many fields and no history."""
    if num_fields == 1:
        return "model: {kind: lr}  # one field has no pairs for fm; see: clickloom models"
    return "model: {kind: fm}  # all pairs of features; see: clickloom models"


def _fields_hint(source_format: str, sample: _Sample) -> list[str]:
    lengths = {len(row) for row in sample.rows}
    if source_format != "libsvm" or len(lengths) > 1 or sample.longest < _FEWEST_FIELDS:
        return []
    return [f"  # fields: […]  # each row has {sample.longest} features: names make them columns"]


def _label(sample: _Sample) -> str:
    values = Counter(float(label) for label in sample.labels)
    shown = ", ".join(f"{value:g}" for value in sorted(values)[:6])
    if set(values) <= {-1.0, 1.0} or set(values) <= {0.0, 1.0}:
        return f"label: {{column: label}}  # holds {shown}"
    return f"label: {{column: label, positive: '>= 4'}}  # holds {shown}: say which are positive"


def _features(columns: tuple[str, ...], sample: _Sample, base: int) -> list[str]:
    if LIST_COLUMN in columns:
        longest = f"max_items: {sample.longest}"
        return [f"  {LIST_COLUMN}: {{kind: categorical, {longest}}}  # the longest row's"]
    return [
        f"  field_{number - base}: {{kind: categorical, max_items: {most}}}"
        for number, most in sample.most_by_field().items()
    ]
