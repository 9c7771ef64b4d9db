# SPDX-License-Identifier: Apache-2.0
"""What a run says while it works: JSON lines on stderr, or a progress bar on a terminal."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol


class Bar(Protocol):
    """Shows how far a loop is."""

    def update(self, done: int, **numbers: float | None) -> None:
        """Say how many units are done, and numbers to show beside them."""


class Progress(Protocol):
    """Where a run reports to."""

    def event(self, name: str, **fields: Any) -> None:
        """Report something that happened."""

    def bar(self, name: str, total: int) -> Any:
        """Return a context manager that yields a `Bar` of `total` units."""


class JsonLines:
    """One JSON object a line on stderr, for schedulers and log collectors."""

    seconds_between_updates = 10.0

    def event(self, name: str, **fields: Any) -> None:
        """Write the event with the current time (UTC, ISO 8601)."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"time": now, "event": name, **fields}, default=str)
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Bar]:
        """Yield a bar that writes an event every few seconds."""
        yield _JsonBar(self, name, total)


class _JsonBar:
    def __init__(self, lines: JsonLines, name: str, total: int) -> None:
        self.lines, self.name, self.total = lines, name, total
        self.last = time.monotonic()

    def update(self, done: int, **numbers: float | None) -> None:
        now = time.monotonic()
        if now - self.last >= self.lines.seconds_between_updates:
            self.last = now
            rounded = {k: v if v is None else round(v, 6) for k, v in numbers.items()}
            self.lines.event(self.name, done=done, total=self.total, **rounded)


class Terminal:
    """Short lines and a live bar, for a person who watches."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True)

    def event(self, name: str, **fields: Any) -> None:
        """Print the event on one line."""
        shown = "  ".join(f"[dim]{key}[/dim] {_short(value)}" for key, value in fields.items())
        self.console.print(f"[bold]{name}[/bold]  {shown}", highlight=False, soft_wrap=True)

    @contextmanager
    def bar(self, name: str, total: int) -> Iterator[Bar]:
        """Yield a live bar with speed, numbers and time left."""
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[numbers]}"),
            TimeRemainingColumn(),
        )
        with RichProgress(*columns, console=self.console, transient=True) as progress:
            yield _TerminalBar(progress, progress.add_task(name, total=total, numbers=""))


class _TerminalBar:
    def __init__(self, progress: Any, task: Any) -> None:
        self.progress, self.task = progress, task

    def update(self, done: int, **numbers: float | None) -> None:
        text = "  ".join(f"{k} {_short(v)}" for k, v in numbers.items() if v is not None)
        self.progress.update(self.task, completed=done, numbers=text)


def _short(value: Any) -> str:
    from rich.markup import escape

    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.5g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return escape(str(value))


def default_progress() -> Progress:
    """Return a live display on a terminal, JSON lines elsewhere."""
    return Terminal() if sys.stderr.isatty() else JsonLines()
