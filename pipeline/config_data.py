# SPDX-License-Identifier: Apache-2.0
"""The parts of a config that say what the data are: files, joins, label and time."""

import os
import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from features.options import Options
from features.specs import TimeFormat

Format = Literal["csv", "tsv", "jsonl", "parquet", "libsvm", "libffm"]
ENDINGS: Mapping[str, Format] = {
    ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet", ".libsvm": "libsvm", ".svm": "libsvm",
    ".libfm": "libsvm", ".libffm": "libffm", ".ffm": "libffm",
}  # fmt: skip
_COMPRESSED_ENDINGS = (".gz", ".gzip", ".zst", ".zstd")


def format_by_ending(path: str) -> Format | None:
    """Return the format that a file's ending, without that of a compression, stands for."""
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    suffixes = [suffix for suffix in suffixes if suffix not in _COMPRESSED_ENDINGS]
    return ENDINGS.get(suffixes[-1]) if suffixes else None


class Section(Options):
    """Base of all sections."""

    # a column called 7 or a null token -1 need no quotes
    model_config = ConfigDict(coerce_numbers_to_str=True)


SHORT_FORMS = {"label": "column", "time": "column", "split": "kind", "model": "kind"}
"""Sections that may be written as one text, and the key which that text stands for."""


def in_full(section: str) -> BeforeValidator:
    """Return the validator that writes the short form of a section in full."""
    key = SHORT_FORMS[section]
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda value: (value,) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
"""Texts, of which a single one needs no list around it."""


SPARSE_FORMATS: tuple[Format, ...] = ("libsvm", "libffm")
"""Formats whose lines are a label and the indices of what is not zero."""
SPARSE_COLUMNS = ("label", "qid")
_Base = Literal[0, 1]


def value_column(field: str) -> str:
    """Return the column with the value of a field that libsvm files have by position."""
    return f"{field}_value"


class FilesConfig(Section):
    """One table in files."""

    files: Texts = Field(
        min_length=1,
        description="Paths or globs. {date} stands for the run's date, ${NAME} for an "
        "environment variable. Relative paths start at the working directory.",
    )
    format: Format | None = Field(None, description="From the files' ending when not given.")
    header: bool = Field(True, description="Whether text files start with the columns' names.")
    columns: tuple[str, ...] | None = Field(
        None, description="Names of the columns of text files without a header, in order."
    )
    separator: str | None = Field(
        None, min_length=1, max_length=1, description="Between two fields; , for csv, tab for tsv."
    )
    quoted: bool = Field(
        True,
        description="Whether a field of csv and tsv may stand in double quotes; if false, quotes "
        "are plain text.",
    )
    encoding: Literal["utf-8", "utf-16", "latin-1"] = Field("utf-8", description="Of text files.")
    null_tokens: Texts = Field(
        ("",),
        description="Texts that mean missing, exactly as written; in a column of numbers a token "
        "that is a number means that number. Empty text always does.",
    )
    trim: bool = Field(
        False, description="Strip white space around texts (around numbers it never matters)."
    )
    index_base: _Base | dict[str, _Base] | None = Field(
        None,
        description="Of libsvm and libffm: 0 or 1, what indices (and fields of libffm) are counted "
        "from; ids count from 0. For files that differ {glob of a file's name: base, …}: the first "
        "that means a file counts. If not given, ids are the indices as written.",
    )
    fields: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Of libsvm: names of the columns by position, for files with the same number "
        "of features in each row; <name>_value holds the value. Of libffm: names of the fields "
        "by number.",
    )

    @model_validator(mode="after")
    def _header_or_columns(self) -> Self:
        if self.columns and len(set(self.columns)) != len(self.columns):
            raise ValueError("columns: a name stands twice")
        if not self.header and not self.columns:
            raise ValueError("header: false needs columns, the names in order")
        if self.header and self.columns:
            raise ValueError("columns are for files without a header; add header: false")
        return self

    @field_validator("fields")
    @classmethod
    def _distinct_fields(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        names = [*SPARSE_COLUMNS, *(value or ()), *(value_column(name) for name in value or ())]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(
                f"{', '.join(repeated)} would be the name of two columns; label, qid and "
                "<field>_value are columns too"
            )
        return value

    @model_validator(mode="after")
    def _sparse_options(self) -> Self:
        other = self.format not in (None, *SPARSE_FORMATS)
        if other and (self.fields is not None or self.index_base is not None):
            key = "fields" if self.fields is not None else "index_base"
            raise ValueError(
                f"{key} is an option of libsvm and libffm, the format is {self.format}"
            )
        return self


class JoinConfig(FilesConfig):
    """A side table, such as items or users, whose columns are added by key."""

    on: str | dict[str, str] = Field(
        description="Key column, or {column of the data: column of the side table}. Each key "
        "may stand once in the side table; rows without a match get missing values."
    )
    prefix: str = Field("", description="Put before the names of the added columns.")

    @field_validator("on")
    @classmethod
    def _some_key(cls, value: str | dict[str, str]) -> str | dict[str, str]:
        if not value:
            raise ValueError("name a column")
        return value

    @property
    def keys(self) -> dict[str, str]:
        """Column of the data → column of the side table."""
        return {self.on: self.on} if isinstance(self.on, str) else self.on


class DataConfig(FilesConfig):
    """Where the click log lies and how it is written."""

    joins: tuple[JoinConfig, ...] = Field((), description="Side tables, joined in this order.")
    max_bad_rows: int = Field(
        0,
        ge=0,
        description="Malformed rows that are set aside in dataset/rejected before the "
        "run is refused.",
    )


_RULE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*")


class LabelConfig(Section):
    """What counts as a click."""

    column: str = Field(description="Column of the data.")
    positive: str | tuple[str, ...] | None = Field(
        None,
        description='When a row is positive: a comparison such as ">= 4", or a list of values. '
        "Without it the column must hold 0 and 1.",
    )

    @field_validator("positive", mode="before")
    @classmethod
    def _values_as_text(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return tuple(str(v).lower() if isinstance(v, bool) else v for v in value)
        return value

    @model_validator(mode="after")
    def _rule_is_readable(self) -> Self:
        if isinstance(self.positive, str) and not _RULE.fullmatch(self.positive):
            raise ValueError(
                f"positive: {self.positive!r} is not a comparison with a number such as '>= 4'; "
                "for values give a list such as [click, buy]"
            )
        if self.positive == ():
            raise ValueError("positive: names no value")
        return self

    @property
    def comparison(self) -> tuple[str, float] | None:
        """Operator and number of a comparison rule, or None."""
        match = _RULE.fullmatch(self.positive) if isinstance(self.positive, str) else None
        return (match[1], float(match[2])) if match else None


class TimeConfig(TimeFormat):
    """When an event happened."""

    column: str = Field(description="Column of the data.")


def expand_path(text: str, date: str | None) -> str:
    """Fill `{date}` and `${NAME}` in a path.

    Raises:
        ValueError: No date was given, or the environment has no such variable.
    """
    if "{date}" in text:
        if date is None:
            raise ValueError(f"{text}: {{date}} needs a date: call with --date YYYY-MM-DD")
        text = text.replace("{date}", date)

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{text}: environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)
