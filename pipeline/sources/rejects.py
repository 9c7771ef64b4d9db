# SPDX-License-Identifier: Apache-2.0
"""Lines and cells that could not be read, as the engine reports them."""

import csv
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.config import FilesConfig
from pipeline.errors import InputRejected
from pipeline.sources.files import SourceFile, quoting, separator_of
from pipeline.sources.scan import Scan

if TYPE_CHECKING:
    from ibis.backends.duckdb import Backend

MOST_CHARACTERS = 10_000
"""Of a malformed line; DuckDB keeps no more."""
OPEN_QUOTE = "a quote is not closed, or text follows a closing quote"
_SHOWN = 120
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Reject:
    """A line or cell that could not be read, and how many lines were lost with it."""

    file: str
    line: int | None
    column: str | None
    problem: str
    text: str | None
    lines: int = 1

    def __str__(self) -> str:
        where = f"{self.file}: line {self.line}" if self.line else self.file
        column = f": column {self.column}" if self.column else ""
        text = "" if self.text is None else f"; the text is {self.text[:_SHOWN]!r}"
        return f"{where}{column}: {self.problem}{text}"

    def document(self) -> dict[str, Any]:
        """Return what the quarantine file says of it."""
        return {key: getattr(self, key) for key in ("file", "line", "column", "problem", "text")}


@dataclass(frozen=True)
class Cell:
    """A malformed cell: its row within the rows that were read of its file, from 0."""

    row: int
    column: str | None
    problem: str


def line_rejects(connection: "Backend", scan: Scan) -> dict[str, list[Reject]]:
    """Return the lines of a scan that the engine could not parse, by file.

    Their `line` is the number of the record, which is less than that of the line where quoted
    texts hold line ends; `settle` puts that right and adds what the engine loses. They are
    complete only after the scan's table was read.

    Raises:
        InputRejected: There are more than can be listed, or a quote that is not closed hides an
            unknown number of lines.
    """
    found: dict[str, list[Reject]] = {str(file.path): [] for file in scan.files}
    if scan.files[0].format == "parquet":
        return found
    rows = connection.raw_sql(
        "SELECT s.file_path, e.line, any_value(e.error_type), any_value(e.csv_line), count(*) "
        "FROM reject_errors e JOIN reject_scans s USING (scan_id, file_id) "
        "GROUP BY ALL ORDER BY s.file_path, e.line"
    ).fetchall()
    kept = dict.fromkeys(found, 0)
    for path, line, kind, text, problems in rows:
        if path not in found:
            continue
        content = (text or "").strip("\r\n")
        kept[path] += problems
        lines = 1 + len(_LINE_END.findall(content))
        reject = Reject(path, int(line), None, _explain(kind, content, scan), content, lines)
        if lines > 1 and len(content) >= MOST_CHARACTERS - 2:
            raise InputRejected(
                f"{reject}; a quote that is not closed hides the lines after it. Mend the line, "
                "or say quoted: false if quotes are plain text in this file"
            )
        found[path].append(reject)
    for path, problems in kept.items():
        if problems >= scan.most_rejects:
            raise InputRejected(
                f"{found[path][0]}; so are {len(found[path]):,} lines and more. Check format, "
                "separator, columns and encoding"
            )
    return found


def _explain(kind: str, text: str, scan: Scan) -> str:
    file = scan.files[0]
    if file.is_lines:
        return f"not a line of {scan.config.encoding} text"
    if "COLUMNS" in kind:
        separator = separator_of(file.format, scan.config)
        return _width_problem(len(_fields(text, separator, scan.config)), file, separator)
    return {
        "INVALID ENCODING": f"not {scan.config.encoding} text; give the file's encoding",
        "UNQUOTED VALUE": OPEN_QUOTE,
        "LINE SIZE OVER MAXIMUM": "longer than 16 MiB",
    }.get(kind, kind.lower())


def _fields(text: str, separator: str, config: FilesConfig) -> list[str]:
    lines = io.StringIO(text, newline="")
    return next(csv.reader(lines, delimiter=separator, quoting=quoting(config)), [])


def _width_problem(found: int, file: SourceFile, separator: str) -> str:
    fields = "1 field" if found == 1 else f"{found} fields"
    return f"{fields} found, {len(file.columns)} expected with separator {separator!r}"
